"""Entries of X to fit and entries to score: where they are, what they weigh, and what is known without a fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from drnmf.algorithms.initialize import Start
from drnmf.backends.base import Observed
from drnmf.backends.observed import HeldOut, Hidden
from drnmf.losses.base import Loss
from drnmf.numerics import Entries, Vector
from drnmf.parameters.fields import check_number
from drnmf.problem.device import as_numpy, is_tensor
from drnmf.problem.problem import Problem
from drnmf.problem.receive import Received
from drnmf.selection.entries import Facts, twins_of
from drnmf.selection.likelihood.grid import Grid
from drnmf.selection.likelihood.masses import KnownNoise, Noise
from drnmf.selection.likelihood.partition import ZERO
from drnmf.selection.likelihood.scores import HeldEntries, Index, Scores, base_means, score

HELD_OUT = 0.1
"""Share of the entries that fits leave out to be scored."""

LEAST_ENTRIES = 50
"""Held-out entries below which nothing is said."""

SCORED = 200_000
"""Entries that are scored, at most: of more a hash takes so many."""

SHRINKAGES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0)
"""How far means are moved towards those of row and column sums."""

_TILE, _CHUNK = 1 << 20, 1 << 12
_HALVES, _SOME = 7919, 104_729
"""What is added to the seed of a mask for the hash that halves its entries, and for the one that takes some of them."""


_Taken = tuple[Vector, Vector, Index, Index]
"""Entries of a tile, their weights, rows and columns."""


@dataclass(frozen=True)
class Fold:
    """X, and the entries of it that a fit has not seen."""

    X: Entries  # the matrix
    grid: Grid  # the values that its entries can take
    # weights, one where an entry is left out of the fits (`mask.others` are those of the fits); None where every entry
    # is fitted, and scored all the same
    mask: Hidden | None
    observed: Observed | None = None  # weights of the entries of X, None where each counts once
    known: bool = False  # whether the weights are one over the squares of known standard deviations
    seed: int = 0

    @classmethod
    def of(cls, received: Received, facts: Facts, fraction: float, seed: int) -> Fold:
        """Leave out a fraction of the entries, or none; rows that are equal lose the same."""
        X, observed = received.X, received.observed
        shape = int(X.shape[0]), int(X.shape[1])
        mask = HeldOut(fraction, seed).bind(shape, twins_of(X)).others if fraction else None
        seen = observed.bind(shape) if isinstance(observed, HeldOut) else observed
        return cls(X, facts.grid, mask, seen, received.known, seed)

    def problem(self, whole: Problem) -> Problem:
        """Return a problem of X without the entries that are held out."""
        return whole if self.mask is None else whole.without(self.mask.others)

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.X.shape[0]), int(self.X.shape[1])

    def score(self, noise: Noise, factors: Start, seen: bool = False, shrink: bool = False) -> Scores:
        """Score the held-out entries under a fit of the others, or (`seen`) those that the fit has seen.

        `shrink` compares noises, not fits: with means as far towards those of row and column sums, and then as far
        towards their mean, as entries ask for. Of sparse counts a fit is mostly noise, and so are sums of a few units:
        their error would be taken for that of the entries.
        """
        at = self._places[1 if seen else 0]
        mu, weight = _means(at, factors), at.weight
        if self.known:
            sd, weight = at.weight**-0.5, np.ones(at.x.size)
            mu, wider = (mu, sd) if seen or self.mask is None else self._predicted(at, factors)
            noise = KnownNoise.of(sd, wider, at.x, at.base)
        elif shrink and at.x.size:
            mu = shrunk(at.x, mu, at.base, weight)
            mu = shrunk(at.x, mu, np.full(mu.shape, np.average(at.base, weights=weight)), weight)
        found = score(noise, replace(at, mu=mu, weight=weight), self.grid, self.shape)
        return replace(found, factor=found.parameter, parameter=math.nan) if self.known else found

    def _predicted(self, at: HeldEntries, factors: Start) -> tuple[Vector, Vector]:
        """Predict held-out entries from the rest of their rows, and how far they scatter about that."""
        W, H = (np.asarray(as_numpy(F), dtype=np.float64) for F in factors)
        mean, variance = predict(W, H, self._precisions(), at.rows, at.columns)
        return mean, np.sqrt(1.0 / at.weight + variance)

    def _precisions(self) -> Iterator[tuple[slice, Vector]]:
        """Yield ranges of columns, and the weights of the entries there that a fit has seen."""
        assert self.mask is not None
        for columns, tile in tiles(self.X):
            seen = np.isfinite(tile) & (self.mask.tile(columns) == 0)
            yield columns, np.where(seen, self._weights(columns), 0.0)

    def _weights(self, columns: slice) -> Vector:
        """The weights of the entries of some columns; a single one where each counts once."""
        return np.ones(1) if self.observed is None else np.asarray(as_numpy(self.observed.tile(columns)))

    def losses(self, loss: Loss, factors: Start) -> Vector:
        """Add up the loss of the held-out entries of every column, (n,)."""
        at = self._places[0]
        least = ZERO * self.grid.unit if self.grid.unit is not None else self.grid.delta or 0.0
        terms = loss.terms(np.maximum(at.x, least) if loss.infinite_at_zero else at.x, _means(at, factors))
        return np.asarray(np.bincount(at.columns, at.weight * terms, minlength=self.shape[1]), dtype=np.float64)

    def entries(self, factors: Start, seen: bool = False) -> tuple[Vector, Vector]:
        """Return the scored entries (or those that were fitted), and what a fit predicts for them."""
        at = self._places[1 if seen else 0]
        return at.x, _means(at, factors)

    def middle(self, factors: Start) -> float:
        """Compute the median of what a fit predicts for the held-out entries."""
        means = _means(self._places[0], factors)
        return float(np.median(means)) if means.size else math.nan

    @cached_property
    def _places(self) -> tuple[HeldEntries, HeldEntries]:
        """Read X once: sums of the training entries, and the entries to score, held out and seen, before any fit."""
        (m, n), train = self.shape, [np.zeros(k) for k in (self.shape[0], self.shape[1]) * 2]
        heights, widths, parts = np.zeros(m), np.zeros(n), list[list[_Taken]]([[], []])
        some = self._some(m * n)
        for columns, tile in tiles(self.X):
            weights = self._weights(columns)
            observed = np.isfinite(tile) & (weights > 0)
            held = np.zeros_like(observed) if self.mask is None else observed & (self.mask.tile(columns) > 0)
            for sums, which in ((train, observed & ~held), ((heights, widths), observed)):
                values = np.where(which, tile, 0.0)
                sums[0][:] += values.sum(axis=1)
                sums[1][columns] += values.sum(axis=0)
            train[2] += (observed & ~held).sum(axis=1)
            train[3][columns] += (observed & ~held).sum(axis=0)
            for part, which in zip(parts, (held, observed & ~held), strict=True):
                taken = which if some is None else which & (some.tile(columns) > 0)
                rows, inside = np.nonzero(taken)
                weight = np.broadcast_to(weights, tile.shape)[rows, inside].astype(np.float64)
                part.append((tile[rows, inside], weight, rows, columns.start + inside))
        least = self.grid.unit or self.grid.delta or float(np.min(heights[heights > 0], initial=math.inf)) / n
        base = base_means(train[0], train[1], (train[2], train[3]), (heights > 0, widths > 0), least)
        kept = [_joined(part, heights, widths) for part in (parts if self.mask is not None else parts[::-1])]
        halves = HeldOut(0.5, self.seed + _HALVES).bind(self.shape)
        out, seen = (
            HeldEntries(x, (mu := base(i, j)), mu, w, i, j, np.asarray(halves.at(i, j))) for x, w, i, j in kept
        )
        return out, seen

    def _some(self, count: int) -> Hidden | None:
        """What takes some entries of a large X; None where all are scored."""
        part = SCORED / max(count, 1)
        return HeldOut(part, self.seed + _SOME).bind(self.shape).others if part <= 0.5 else None


def _means(at: HeldEntries, factors: Start) -> Vector:
    """Compute WH at some entries."""
    W, H = (np.asarray(as_numpy(F), dtype=np.float64) for F in factors)
    ends = range(0, max(at.rows.size, 1), _CHUNK)
    parts = [(at.rows[k : k + _CHUNK], at.columns[k : k + _CHUNK]) for k in ends]
    mu = np.concatenate([np.einsum("kr,rk->k", W[rows], H[:, columns]) for rows, columns in parts])
    return np.maximum(mu, np.finfo(np.float64).tiny)


def shrunk(x: Vector, mu: Vector, base: Vector, weight: Vector) -> Vector:
    """Move means towards others, as far as makes entries likeliest (by the likelihood of counts, in any unit)."""
    moved = [mu + part * (base - mu) for part in SHRINKAGES]
    return min(moved, key=lambda mean: float(weight @ (mean - x * np.log(mean))))


def _joined(parts: list[_Taken], heights: Vector, widths: Vector) -> _Taken:
    """Put the entries of tiles together, without those of rows and columns that are all zero."""
    x, weight, rows, columns = (np.concatenate([part[k] for part in parts]) for k in range(4))
    used = (heights[rows] > 0) & (widths[columns] > 0)
    return x[used], weight[used], rows[used], columns[used]


def tiles(X: Entries) -> Iterator[tuple[slice, Vector]]:
    """Yield ranges of columns of X and their entries, dense float64."""
    m, n = X.shape
    step = max(1, _TILE // m)
    X = sp.csc_array(X) if sp.issparse(X) else X
    for first in range(0, n, step):
        columns = slice(first, min(first + step, n))
        tile = X[:, columns]
        tile = as_numpy(tile.to_dense()) if is_tensor(tile) else tile
        tile = tile.compute() if hasattr(tile, "compute") else tile
        yield columns, np.asarray(tile.toarray() if sp.issparse(tile) else tile, dtype=np.float64)


def check_fraction(value: float) -> float:
    """Check the share of entries to hold out; 0 holds out none."""
    fraction = check_number("held_out", value, 0.0)
    if fraction > 0.5:
        raise ValueError(f"held_out={value!r} must be at most 0.5: the other entries are what is fitted.")
    return fraction


def mask_seed(random_state: object) -> int:
    """Choose the mask's seed by a seed of one's own; without one, always the same mask."""
    return int(random_state) if isinstance(random_state, int | np.integer) else 0


def count_parameters(shape: tuple[int, ...], rank: int) -> int:
    """Count the free numbers of a model: r (m + n - r) of a matrix; of a tensor each component has a scale to share.

    >>> count_parameters((10, 20), 3), count_parameters((5, 6, 7), 2)
    (81, 32)
    """
    return rank * (sum(shape) - (rank if len(shape) == 2 else len(shape) - 1))


def too_few_to_hold_out(facts: Facts, shape: tuple[int, ...], rank: int, fraction: float) -> tuple[str, ...]:
    """Say that X is too small for held-out entries: they, or what is left for the fit, would say nothing."""
    count = facts.count
    if fraction * count >= LEAST_ENTRIES and (1.0 - fraction) * count > count_parameters(shape, rank):
        return ()
    sizes = " x ".join(map(str, shape))
    return (f"X of {sizes} has too few entries to hold some out at rank {rank}: the criterion of all entries decides.",)


_LEAST = 1e-12
"""Variance of a column of W that is constant, in its square."""
_PREDICTED = 1 << 12
"""Entries that are predicted at a time."""


def predict(
    W: Vector, H: Vector, precisions: Iterable[tuple[slice, Vector]], rows: Index, columns: Index
) -> tuple[Vector, Vector]:
    r"""Predict entries from the rest of their rows, where standard deviations are known, and say how sure that is.

    A row of W that few entries tell is not known as well as they are: where one column alone has a component, and its
    entry is held out, nothing in the row tells how much of it there is, and WH says anything. So the rows of W are
    taken for draws from one normal distribution, with the mean m and the variances D that they have themselves, and
    what is known of row i is

    .. math:: C_i = (H P_i H^T + D^{-1})^{-1}, \qquad \bar w_i = C_i\,(H P_i H^T w_i + D^{-1} m)

    with the precisions P_i of its training entries, zero elsewhere. Entry j then has the mean :math:`h_j^T \bar w_i`
    and the variance :math:`\sigma_{ij}^2 + h_j^T C_i h_j`; its second term is returned. Where the rest of the row tells
    w_i, that is WH and sigma. `precisions` come with the range of columns that they are of.

    >>> W, H = np.array([[1.0], [3.0]]), np.array([[2.0, 1.0]])
    >>> at = np.array([0, 1]), np.array([1, 1])
    >>> mean, variance = predict(W, H, [(slice(0, 2), np.array([[1e9, 0.0], [0.0, 0.0]]))], *at)
    >>> mean.round(6).tolist(), variance.round(6).tolist()  # the second row is not known at all
    ([1.0, 2.0], [0.0, 1.0])
    """
    r, m = W.shape[1], W.shape[0]
    told = np.zeros((m, r * r))
    for part, precision in precisions:
        h = H[:, part]
        told += precision @ (h[:, None] * h[None]).reshape(r * r, -1).T
    size = np.maximum(np.abs(W).max(axis=0), np.finfo(np.float64).tiny)  # so that no unit of W is near a limit
    told = told.reshape(m, r, r) * (size[:, None] * size)
    W, H = W / size, H * size[:, None]
    center, spread = W.mean(axis=0), np.maximum(W.var(axis=0), _LEAST)
    covariance = np.linalg.inv(told + np.diag(1.0 / spread))
    known = np.einsum("irs,is->ir", told, W) + center / spread
    means = np.einsum("irs,is->ir", covariance, known)
    mean, variance = np.empty(rows.size), np.empty(rows.size)
    for first in range(0, rows.size, _PREDICTED):  # every entry takes a covariance of its own
        some = slice(first, first + _PREDICTED)
        i, h = rows[some], H[:, columns[some]]
        mean[some] = np.einsum("kr,rk->k", means[i], h)
        variance[some] = np.einsum("rk,krs,sk->k", h, covariance[i], h)
    return mean, np.maximum(variance, 0.0)
