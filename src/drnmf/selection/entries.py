"""What the entries of X say by themselves: how many, how many zeros, whether they are counts, and of what unit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
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

MOSTLY_ZERO = 0.8
"""Share of zeros above which the likelihood of all entries says little, and held-out entries are trusted more."""

SAMPLE = 200_000
"""Entries that are enough to tell one noise from another: of larger X some rows and columns are looked at."""

ZERO_COUNT = 1.0 / 6.0
"""What a count of zero enters log x as, in units: the saddlepoint density of a Poisson zero is then right to 2 %."""


FAR = 256
"""Binary digits between X and one up to which squares and sums of X stay in the range of float64."""


@dataclass(frozen=True)
class Facts:
    """What one pass over X says.

    Attributes
    ----------
    count, zeros : observed entries, and those of them that are zero
    log_sum : sum of log x over the positive entries
    unit : u where every entry is an integer multiple of u (counts), None for other data
    """

    count: int
    zeros: int
    log_sum: float
    unit: float | None

    @property
    def positive(self) -> int:
        """Number of positive entries."""
        return self.count - self.zeros

    @property
    def effective(self) -> int:
        """Entries that count in a likelihood: all, but only positive ones where zeros are a mass of their own."""
        return self.count if self.unit is not None else self.positive

    @property
    def zero(self) -> float | None:
        """What a zero enters log x as; None where zeros do not enter."""
        return None if self.unit is None else ZERO_COUNT * self.unit

    def magnified(self, power: int) -> Facts:
        """Return the same for X times 2^power."""
        log_sum = self.log_sum + self.positive * power * math.log(2.0)
        return replace(self, log_sum=log_sum, unit=None if self.unit is None else float(np.ldexp(self.unit, power)))


def mostly_zero(facts: Facts) -> bool:
    """Tell whether X is mostly zeros, as word counts are."""
    return facts.zeros > MOSTLY_ZERO * facts.count


def facts_of(X: Any) -> Facts:
    """Read X once: NaN entries are not observed and do not count.

    Examples
    --------
    >>> facts_of(np.array([[0.0, 4.0], [6.0, 2.0]])).unit
    2.0
    """
    count = zeros = 0
    log_sum, unit = 0.0, 0.0
    for values, absent in pieces(X):
        positive = values[values > 0]
        empty = absent + int((values == 0).sum())
        count, zeros = count + positive.size + empty, zeros + empty
        log_sum += float(np.log(positive).sum())
        unit = common_unit(np.append(positive, unit) if unit > 0 else positive) if math.isfinite(unit) else unit
    return Facts(count, zeros, log_sum, unit if 0 < unit < math.inf else None)


def near_one(given: Received) -> tuple[Received, int]:
    """Divide X far from one by an even power of two, near the geometric mean of its entries; give the power.

    >>> near_one(Received(np.full((2, 2), 2.0**600)))[1], near_one(Received(np.full((2, 2), 600.0)))[1]
    (600, 0)
    """
    facts = facts_of(counted(given))
    power = 2 * round(facts.log_sum / max(facts.positive, 1) / math.log(4.0))
    if abs(power) <= FAR:
        return given, 0
    half = 2.0 ** (-power // 2)  # twice: the whole power may leave the range itself
    return replace(given, X=given.X * half * half), power


def total(X: Any, function: Callable[[Vector], Vector], zero: float | None) -> Vector:
    """Add up a function of the entries, (k,); zeros enter as `zero`, or not at all where it is None."""
    sums: Any = 0.0
    for values, absent in pieces(X):
        sums = sums + function(values[values > 0])
        if zero is not None:
            sums = sums + (absent + int((values == 0).sum())) * function(np.array([zero]))
    return np.asarray(sums, dtype=np.float64)


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


def common_unit(values: Vector) -> float:
    """Find the largest u of which all positive values are integer multiples (Euclid), infinity where there is none.

    Multiples are taken up to 1/1000 of u, and u down to 1e-7 of the largest value: float32 tells no finer ones apart.

    >>> round(common_unit(np.array([0.7, 2.1, 1.4])), 12), common_unit(np.array([1.0, np.pi, np.e]))
    (0.7, inf)
    """
    if values.size == 0:
        return 0.0
    unit, top = float(values.min()), float(values.max())
    while unit > 1e-7 * top:
        rest = np.remainder(values, unit)
        rest = np.minimum(rest, unit - rest)
        if rest.max() <= 1e-3 * unit:
            return float(values.sum() / np.rint(values / unit).sum())
        unit = float(rest[rest > 1e-3 * unit].min())
    return math.inf


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
    order = np.argsort(mixed(np.arange(given.X.shape[side], dtype=np.int64) ^ (mixed(np.array([seed + 1])))))
    some = np.sort(order[:size])
    if side == 1:
        found = given.columns(some)
        return Received(_plain(found.X), found.observed, given.notes)
    turned = _turned(given).columns(some)
    return replace(_turned(turned), X=_plain(turned.X.T), notes=given.notes)


def _turned(given: Received) -> Received:
    assert not isinstance(given.observed, HeldOut)
    return Received(given.X.T, None if given.observed is None else given.observed.T)


def _plain(X: Any) -> Any:
    return sp.csr_array(X) if sp.issparse(X) else np.ascontiguousarray(X)


def weighs_one(given: Received) -> bool:
    """Tell whether every observed entry counts once."""
    observed, n = given.observed, given.X.shape[1]
    if observed is None or isinstance(observed, HeldOut):
        return True
    tiles = (as_numpy(observed.tile(slice(j, min(j + 256, n)))) for j in range(0, n, 256))
    return all(bool(((tile == 0) | (tile == 1)).all()) for tile in tiles)
