"""What the entries of X say by themselves: how many, how many zeros, on which grid, and which rows are alike."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.entries import row_blocks
from drnmf.backends.observed import HeldOut, Stored, mixed
from drnmf.backends.open import is_dask
from drnmf.numerics import Array, Entries, Vector
from drnmf.problem.device import Placement, as_numpy, is_tensor
from drnmf.problem.receive import Received
from drnmf.problem.weights import Reading, observed_values
from drnmf.selection.likelihood.grid import Grid, grid_of

Indices = np.ndarray[Any, np.dtype[np.int64]]

SAMPLE = 200_000
"""Entries that are enough to tell one noise from another: of larger X some rows and columns are looked at."""


class Caution(str):
    """A remark that belongs beside the answer, not below it: what was left out of X, or why not to be sure."""

    __slots__ = ()


NO_GRID = Grid()


CUT_OFF, MOST_CUT_OFF = 1e-6, 0.25
"""How near the largest value a reading must be to have been cut off there, relative to it, and the share of all entries
above which it is the value of a background."""

SAME_SUM, MOST_CLOSED = 0.01, 0.95
"""Sums of rows that are alike to this part of them, of this share of the rows, are those of shares of a whole."""

FAR = 256
"""Binary digits between X and one up to which squares and sums of X stay in the range of float64."""


@dataclass(frozen=True)
class Facts:
    """What one pass over X says."""

    # count, zeros: observed entries, and those of them that are zero
    count: int
    zeros: int
    grid: Grid = NO_GRID  # the values that entries can take

    @property
    def unit(self) -> float | None:
        """u where entries are integer multiples of u, None for other data."""
        return self.grid.unit


def facts_of(X: Entries) -> Facts:
    """Read X once: NaN entries are not observed and do not count. Of a large X some entries tell the grid.

    >>> facts_of(np.array([[0.0, 4.0], [6.0, 2.0]])).unit
    2.0
    """
    count = zeros = below = 0
    seen = [np.zeros(0)]
    for values, absent in pieces(X):
        positive = values[values > 0]
        empty, below = absent + int((values == 0).sum()), below + int((values < 0).sum())
        count, zeros = count + positive.size + empty, zeros + empty
        seen.append(positive[:: max(1, positive.size // SAMPLE)])
        if positive.size:
            seen.append(np.array([positive.min(), positive.max()]))
    if below:  # readings that were not cut off at zero: a density
        return Facts(count + below, 0)
    return Facts(count, zeros, grid_of(np.append(np.concatenate(seen), np.zeros(min(zeros, 1)))))


def near_one(received: Received) -> tuple[Received, int]:
    """Divide X far from one by an even power of two, near the geometric mean of its entries; give the power.

    >>> near_one(Received(np.full((2, 2), 2.0**600)))[1], near_one(Received(np.full((2, 2), 600.0)))[1]
    (600, 0)
    """
    logs = [np.log2(values[values > 0]) for values, _ in pieces(counted(received))]
    power = 2 * round(float(np.sum([log.sum() for log in logs])) / max(sum(log.size for log in logs), 1) / 2.0)
    if abs(power) <= FAR:
        return received, 0
    half = 2.0 ** (-power // 2)  # twice: the whole power may leave the range itself
    return replace(received, X=received.X * half * half), power


def pieces(X: Entries) -> Iterator[tuple[Vector, int]]:
    """Yield the entries of X in float64, with how many zeros beside them are not stored."""
    if is_dask(X):
        for block in X.to_delayed().ravel():
            yield from pieces(block.compute())
        return
    if is_tensor(X):
        values = as_numpy(X if str(X.layout) == "torch.strided" else X.to_sparse_coo().coalesce().values())
        size = int(X.shape[0]) * int(X.shape[1])
    else:
        values, size = (X.data, X.shape[0] * X.shape[1]) if sp.issparse(X) else (np.asarray(X), X.size)
    yield values.astype(np.float64).ravel(), size - values.size


def bound(received: Received) -> Received:
    """Fix the entries that a `HeldOut` leaves out, for this X; anything else stays as it is."""
    if not isinstance(received.observed, HeldOut):
        return received
    return replace(received, observed=received.observed.bind(received.X.shape))


def accepted(placement: Placement, X: Entries, consumer: str, reading: Reading) -> Received:
    """Check X for what learns from its noise: entries held out are fixed, readings that were cut off left out.

    Who gives weights has said what counts.
    """
    given = bound(placement.accept(X, consumer, reading))
    return given if reading.entry_weight is not None or reading.uncertainty is not None else without_cut_off(given)


def without_cut_off(received: Received) -> Received:
    """Leave out the largest entries of a dense X where a pile of them says that larger readings were cut off there.

    They say "at least so much". Taken for what they are, a fit bends to them: of Gaussian noise in 8 bits one per cent
    at the top makes the variance grow with the mean, and five per cent double the number of components. Shares of a
    whole have a largest value that is right, and a picture that is mostly white has no other.
    """
    X = received.X
    top = facts_of(X).grid.top if isinstance(X, np.ndarray) else None
    if top is None or _closed(X):
        return received
    cut = top * (1.0 - CUT_OFF) < X
    share = float(cut.sum() / np.isfinite(X).sum())
    if share > MOST_CUT_OFF:
        return received
    X = X.copy()
    X[cut] = np.nan
    note = Caution(
        f"{int(cut.sum())} entries ({100 * share:.2g} %) are at the largest value, {top:g}, many more than below it: "
        "readings were cut off there, and these are left out. Where they are right, give all entries the weight one."
    )
    return replace(received, X=X, notes=(*received.notes, note))


def _closed(X: Vector) -> bool:
    """Tell whether the rows, or the columns, of X are shares of one whole."""
    for axis in (0, 1):
        sums = np.nansum(X, axis=axis)
        if float((np.abs(sums - np.median(sums)) <= SAME_SUM * np.median(sums)).mean()) >= MOST_CLOSED:
            return True
    return False


def counted(received: Received) -> Entries:
    """Return the observed entries of X, for sums over entries: dense X with NaN for others, or a row of them."""
    X, observed = received.X, received.observed
    if observed is None or isinstance(observed, HeldOut):
        return X
    if sp.issparse(X):
        return X if not isinstance(observed, Stored) else observed_values(X, observed)[None]
    if not isinstance(X, np.ndarray):
        return X
    seen = observed.tile(slice(0, X.shape[1])) > 0
    return X if seen.all() else np.where(seen, X, np.nan)


def sampled_modes(
    received: Received, columns: tuple[int, ...], rank: int, seed: int
) -> tuple[Received, tuple[int, ...]]:
    """Do the same of an unfolding: some indices of every mode, none of which keeps more than another that has as many.

    `columns` are the sizes of the modes that the columns are made of; those of the smaller unfolding come back too.
    """
    shape = int(received.X.shape[0]), *columns
    most = max(shape)
    while math.prod(min(size, most) for size in shape) > SAMPLE and most > 10 * rank:
        most -= 1
    if most == max(shape):
        return received, columns
    if most < shape[0]:
        received = _kept(received, 0, most, seed)
    some = [some_of(size, min(size, most), seed + mode) for mode, size in enumerate(columns)]
    places = np.ravel_multi_index(np.meshgrid(*some, indexing="ij"), columns).ravel()
    return _columns(received, places), tuple(map(len, some))


def sampled(received: Received, rank: int, seed: int) -> Received:
    """Return some rows and columns of a large X, chosen by a hash of their numbers; X as it is where it is small.

    The longer side is sampled first, and each keeps ten times as many as the rank of the fits to come. X on a cluster
    or a GPU is not sampled; a `HeldOut` must be bound already.

    >>> small = sampled(Received(np.ones((300, 4000))), 5, 0).X
    >>> small.shape[0], bool(abs(small.shape[1] - 667) < 2)
    (300, True)
    """
    X = received.X
    if not (isinstance(X, np.ndarray) or sp.issparse(X)):
        return received
    for side, size in zip((0, 1), sample_shape(X.shape, rank), strict=True):
        if size < X.shape[side]:
            received = _kept(received, side, size, seed)
    return received


def sample_shape(shape: tuple[int, int], rank: int) -> tuple[int, int]:
    """Choose how many rows and columns to look at.

    >>> sample_shape((156, 9025), 3), sample_shape((60, 80), 5), sample_shape((7000, 40000), 4)
    ((156, 1282), (60, 80), (447, 447))
    """
    short, long = sorted(shape)
    if short * long <= SAMPLE:
        return shape
    side = max(math.isqrt(SAMPLE), 10 * rank)
    short = min(short, side)
    long = min(long, max(SAMPLE // short, 10 * rank))
    return (short, long) if shape[0] <= shape[1] else (long, short)


def some_of(count: int, size: int, seed: int) -> Indices:
    """Choose so many of 0, ..., count - 1 by a hash of the numbers, in rising order."""
    order = np.argsort(mixed(np.arange(count, dtype=np.int64) ^ mixed(np.array([seed + 1]))), kind="stable")
    return np.sort(order[:size])


def _kept(received: Received, side: int, size: int, seed: int) -> Received:
    """Keep so many rows (side 0) or columns (side 1)."""
    some = some_of(received.X.shape[side], size, seed)
    if side == 1:
        return _columns(received, some)
    turned = _turned(received).columns(some)
    return replace(received, X=_plain(turned.X.T), observed=_turned(turned).observed)


def _columns(received: Received, some: Indices) -> Received:
    kept = received.columns(some)
    return replace(received, X=_plain(kept.X), observed=kept.observed)


def _turned(received: Received) -> Received:
    assert not isinstance(received.observed, HeldOut)
    return replace(received, X=received.X.T, observed=None if received.observed is None else received.observed.T)


def _plain(X: Entries) -> Entries:
    return sp.csr_array(X) if sp.issparse(X) else np.ascontiguousarray(X)


ONE_COMPONENT = "X has one component only: its rows are multiples of one another."
_ROUNDING = 1e-6
"""Part of the largest entry up to which a row may differ from a multiple of the others."""

OFTEN = 5
"""How often most rows must occur to be the data themselves: copies of measurements come twice or three times."""


def twins_of(X: Entries) -> tuple[Indices | None, Indices | None]:
    """Find for every row, and for every column, the first that it is equal to; None where none is equal to another.

    A row that occurs twice is predicted by its twin, noise included, unless both lose the same entries. Rows without a
    positive entry predict nothing and count as different. Where most rows occur five times and more they are no copies
    of noise but the data themselves, as the pixels of a part in a picture without noise. X on a cluster is not looked
    at.

    >>> twins_of(np.array([[1.0, 2.0, 2.0], [3.0, 4.0, 4.0], [1.0, 2.0, 2.0]]))
    (array([0, 1, 0]), array([0, 1, 1]))
    """
    X = as_numpy(X) if is_tensor(X) and str(X.layout) == "torch.strided" else X
    if sp.issparse(X):
        return _first_of(_stored_rows(sp.csr_array(X))), _first_of(_stored_rows(sp.csr_array(X.T)))
    if not isinstance(X, np.ndarray):
        return None, None
    return _first_of(_dense_rows(X)), _first_of(_dense_rows(X.T))


def _dense_rows(X: Entries) -> list[bytes]:
    """The entries of every row; nothing where none is positive."""
    rows: list[bytes] = []
    for at in row_blocks(X.shape, X.itemsize):
        block = np.ascontiguousarray(X[at]) + X.dtype.type(0)  # one zero, whatever its sign
        full = (block > 0).any(axis=1)
        rows += [row.tobytes() if some else b"" for row, some in zip(block, full, strict=True)]
    return rows


def _stored_rows(X: Entries) -> list[bytes]:
    rows = sp.csr_array(X, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    ends, places = rows.indptr.tolist(), rows.indices.astype(np.int64)
    return [places[a:b].tobytes() + rows.data[a:b].tobytes() for a, b in pairwise(ends)]


def _first_of(rows: list[bytes]) -> Indices | None:
    known: dict[bytes, int] = {}
    first = np.array([known.setdefault(row, i) if row else i for i, row in enumerate(rows)])
    full = np.array([bool(row) for row in rows])
    often = np.bincount(first, minlength=first.size)[first] >= OFTEN
    return None if np.array_equal(first, np.arange(first.size)) or np.mean(often[full]) > 0.5 else first


def one_component(X: Entries) -> bool:
    """Tell whether every row of X is a multiple of one of them, up to rounding.

    >>> one_component(np.outer([1.0, 2.0], [3.0, 4.0, 5.0])), one_component(np.eye(2))
    (True, False)
    """
    if not (isinstance(X, np.ndarray) or sp.issparse(X)):
        return False
    heights, widths = (np.asarray(X.sum(axis=axis), dtype=np.float64).ravel() for axis in (1, 0))
    total = float(heights.sum())
    if not 0.0 < total < np.inf:
        return False
    limit = _ROUNDING * float(heights.max()) / total * float(widths.max())
    if sp.issparse(X):
        entries = sp.coo_array(X)
        if entries.nnz < np.count_nonzero(heights) * np.count_nonzero(widths):
            return False
        return _near(entries.data, heights[entries.row] / total * widths[entries.col], limit)
    return all(_near(X[at], np.outer(heights[at] / total, widths), limit) for at in row_blocks(X.shape, 8))


def _near(x: Array, fitted: Vector, limit: float) -> bool:
    return bool((np.abs(x - fitted) <= limit).all())
