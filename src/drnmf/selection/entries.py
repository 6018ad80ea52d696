"""What the entries of X say by themselves: how many, how many zeros, and on which grid they lie."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.observed import HeldOut, Stored, mixed
from drnmf.backends.open import is_dask
from drnmf.numerics import Vector
from drnmf.problem.device import as_numpy, is_tensor
from drnmf.problem.receive import Received
from drnmf.problem.weights import observed_values
from drnmf.selection.likelihood.grid import Grid, grid_of

SAMPLE = 200_000
"""Entries that are enough to tell one noise from another: of larger X some rows and columns are looked at."""


NO_GRID = Grid()


FAR = 256
"""Binary digits between X and one up to which squares and sums of X stay in the range of float64."""


@dataclass(frozen=True)
class Facts:
    """What one pass over X says.

    Attributes
    ----------
    count, zeros : observed entries, and those of them that are zero
    grid : the values that entries can take
    """

    count: int
    zeros: int
    grid: Grid = NO_GRID

    @property
    def unit(self) -> float | None:
        """u where entries are integer multiples of u, None for other data."""
        return self.grid.unit


def facts_of(X: Any) -> Facts:
    """Read X once: NaN entries are not observed and do not count. Of a large X some entries tell the grid.

    Examples
    --------
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


def near_one(given: Received) -> tuple[Received, int]:
    """Divide X far from one by an even power of two, near the geometric mean of its entries; give the power.

    >>> near_one(Received(np.full((2, 2), 2.0**600)))[1], near_one(Received(np.full((2, 2), 600.0)))[1]
    (600, 0)
    """
    logs = [np.log2(values[values > 0]) for values, _ in pieces(counted(given))]
    power = 2 * round(float(np.sum([log.sum() for log in logs])) / max(sum(log.size for log in logs), 1) / 2.0)
    if abs(power) <= FAR:
        return given, 0
    half = 2.0 ** (-power // 2)  # twice: the whole power may leave the range itself
    return replace(given, X=given.X * half * half), power


def pieces(X: Any) -> Iterator[tuple[Vector, int]]:
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


def bound(given: Received) -> Received:
    """Fix the entries that a `HeldOut` leaves out, for this X; anything else stays as it is."""
    if not isinstance(given.observed, HeldOut):
        return given
    return replace(given, observed=given.observed.bind(given.X.shape))


def counted(given: Received) -> Any:
    """Return the entries of X that are observed, for sums over entries: dense X with NaN for others, or a row of them.

    Parameters
    ----------
    given : X and the weights of its entries
    """
    X, observed = given.X, given.observed
    if observed is None or isinstance(observed, HeldOut):
        return X
    if sp.issparse(X):
        return X if not isinstance(observed, Stored) else observed_values(X, observed)[None]
    if not isinstance(X, np.ndarray):
        return X
    seen = observed.tile(slice(0, X.shape[1])) > 0
    return X if seen.all() else np.where(seen, X, np.nan)


def sampled_modes(given: Received, columns: tuple[int, ...], rank: int, seed: int) -> tuple[Received, tuple[int, ...]]:
    """Do the same of an unfolding: some indices of every mode, none of which keeps more than another that has as many.

    Parameters
    ----------
    columns : sizes of the modes that the columns are made of

    Returns
    -------
    given, columns : of the smaller unfolding
    """
    shape = int(given.X.shape[0]), *columns
    most = max(shape)
    while math.prod(min(size, most) for size in shape) > SAMPLE and most > 10 * rank:
        most -= 1
    if most == max(shape):
        return given, columns
    if most < shape[0]:
        given = _kept(given, 0, most, seed)
    some = [_chosen(size, min(size, most), seed + mode) for mode, size in enumerate(columns)]
    places = np.ravel_multi_index(np.meshgrid(*some, indexing="ij"), columns).ravel()
    return _columns(given, places), tuple(map(len, some))


def sampled(given: Received, rank: int, seed: int) -> Received:
    """Return some rows and columns of a large X, chosen by a hash of their numbers; X as it is where it is small.

    The longer side is sampled first. X on a cluster or a GPU is not sampled.

    Parameters
    ----------
    given : X and the weights of its entries; a `HeldOut` must be bound already
    rank : of the fits to come: each side keeps ten times as many
    seed : of the hash

    Examples
    --------
    >>> small = sampled(Received(np.ones((300, 4000))), 5, 0).X
    >>> small.shape[0], bool(abs(small.shape[1] - 667) < 2)
    (300, True)
    """
    X = given.X
    if not (isinstance(X, np.ndarray) or sp.issparse(X)):
        return given
    for side, size in zip((0, 1), sample_shape(X.shape, rank), strict=True):
        if size < X.shape[side]:
            given = _kept(given, side, size, seed)
    return given


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


def _kept(given: Received, side: int, size: int, seed: int) -> Received:
    """Keep so many rows (side 0) or columns (side 1)."""
    some = _chosen(given.X.shape[side], size, seed)
    if side == 1:
        return _columns(given, some)
    turned = _turned(given).columns(some)
    return replace(given, X=_plain(turned.X.T), observed=_turned(turned).observed)


def _chosen(count: int, size: int, seed: int) -> Any:
    """Choose so many of the first numbers by a hash."""
    order = np.argsort(mixed(np.arange(count, dtype=np.int64) ^ (mixed(np.array([seed + 1])))))
    return np.sort(order[:size])


def _columns(given: Received, some: Any) -> Received:
    found = given.columns(some)
    return replace(given, X=_plain(found.X), observed=found.observed)


def _turned(given: Received) -> Received:
    assert not isinstance(given.observed, HeldOut)
    return replace(given, X=given.X.T, observed=None if given.observed is None else given.observed.T)


def _plain(X: Any) -> Any:
    return sp.csr_array(X) if sp.issparse(X) else np.ascontiguousarray(X)
