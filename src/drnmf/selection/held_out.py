r"""Scores of entries that a fit has not seen, entry by entry, and how sure their differences are.

.. math:: s = \tfrac12 \log \phi + d(x | v) / \phi + \tfrac12 \log v(x), \qquad
          \phi = 2 D_{train} / (N_{train} - r (m + n - r))
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.algorithms.result import Result
from drnmf.backends.base import Data, Observed
from drnmf.backends.observed import HeldOut, Hidden
from drnmf.numerics import Vector
from drnmf.parameters.checks import check_number
from drnmf.problem.device import as_numpy, is_tensor
from drnmf.selection.alike import twins_of
from drnmf.selection.entries import Facts
from drnmf.selection.likelihood import Candidate
from drnmf.selection.walk import on_host

BLOCKS = 50
"""Groups of neighbouring columns whose means are compared, at most."""

TRIM = 0.1
"""Share of the blocks left out at each end of a mean, so that no heavy column rules."""

LEAST_ENTRIES = 50
"""Held-out entries below which nothing is said."""

_TILE = 1 << 20


@dataclass(frozen=True)
class Scores:
    """Sums over the held-out entries of blocks of columns.

    Attributes
    ----------
    sums : (blocks,), of s
    counts : (blocks,), entries
    half_log : float, the sum of 1/2 log v(x) over all of them
    effective : how many count in a likelihood
    losses : (blocks,), of d(x | v); None where nobody asked
    """

    sums: Vector
    counts: Vector
    half_log: float
    effective: float = 0.0
    losses: Vector | None = None


@dataclass(frozen=True)
class Split:
    """Entries of X to fit and entries to score.

    Attributes
    ----------
    X : the matrix
    facts : what is known of its entries
    mask : weights, one where an entry is left out of the fits; `mask.others` are those of the fits
    observed : weights of the entries of X, None where each counts once
    """

    X: Any
    facts: Facts
    mask: Hidden
    observed: Observed | None = None

    @classmethod
    def of(
        cls, X: Any, facts: Facts, data: Data, fraction: float, seed: int, observed: Observed | None = None
    ) -> Split:
        """Leave out a fraction of the entries, of equal rows and of equal columns the same."""
        return cls(X, facts, HeldOut(fraction, seed).bind(data.shape, twins_of(X)).others, observed)

    def score(self, data: Data, candidate: Candidate, run: Result, blend: float = 0.0) -> Scores:
        """Score the held-out entries under a fit of the others; `data` holds those. For `blend` see `blended`."""
        W, H = on_host(data, (run.W, run.H))
        W, H = blended(W, H, blend) if blend else (W, H)
        phi = self.dispersion(data, candidate, run)
        ends = np.linspace(0, self.X.shape[1], blocks_of(self.X.shape[1]) + 1).astype(int)
        sums = np.zeros((3, ends.size - 1))
        effective, half_log = 0.0, 0.0
        for columns, tile in tiles(self.X):
            rows, inside, weight = self._held(columns, tile)
            x, block = tile[rows, inside], np.searchsorted(ends, columns.start + inside, side="right") - 1
            fitted = np.maximum(W.astype(np.float64) @ H[:, columns].astype(np.float64), np.finfo(np.float64).tiny)
            loss = weight * candidate.loss.terms(x, fitted[rows, inside])
            shared = entry_levels(candidate, phi, x, self.facts)
            for row, values in zip(sums, (shared.sum(axis=0) + loss / phi, np.ones_like(x), loss), strict=True):
                row += np.bincount(block, values, minlength=row.size)
            effective += x.size if self.facts.unit is not None else int((x > 0).sum())
            half_log += float(shared[1].sum())
        return Scores(sums[0], sums[1], half_log, effective, sums[2])

    def _held(self, columns: slice, tile: Vector) -> tuple[Any, Any, Vector]:
        """Rows, columns (within the tile) and weights of the observed entries of a tile that are held out."""
        weights = np.ones(1) if self.observed is None else as_numpy(self.observed.tile(columns))
        held = (self.mask.tile(columns) > 0) & np.isfinite(tile) & (weights > 0)
        rows, inside = np.nonzero(held)
        return rows, inside, np.broadcast_to(weights, tile.shape)[rows, inside].astype(np.float64)

    def dispersion(self, data: Data, candidate: Candidate, run: Result) -> float:
        """Return phi of the entries that were fitted."""
        if candidate.dispersion is not None:
            return candidate.dispersion
        (m, n), r = data.shape, run.H.shape[0]
        count = data.count if self.facts.unit is not None else data.count - data.zeros
        free = count - r * (m + n - r)
        return max(2.0 * float(run.losses[0]) / (free if free > 0 else count), np.finfo(np.float64).tiny)


def check_fraction(value: Any) -> float:
    """Check the share of entries to hold out; 0 holds out none."""
    fraction = check_number("held_out", value, 0.0)
    if fraction > 0.5:
        raise ValueError(f"held_out={value!r} must be at most 0.5: the other entries are what is fitted.")
    return fraction


def mask_seed(random_state: Any) -> int:
    """Choose the mask's seed by a seed of one's own; without one, always the same mask."""
    return int(random_state) if isinstance(random_state, int | np.integer) else 0


def too_few_to_hold_out(facts: Facts, shape: tuple[int, int], rank: int, fraction: float) -> tuple[str, ...]:
    """Say that X is too small for held-out entries: they, or what is left for the fit, would say nothing."""
    (m, n), count = shape, facts.effective
    if fraction * count >= LEAST_ENTRIES and (1.0 - fraction) * count > rank * (m + n - rank):
        return ()
    return (
        f"X of {m} x {n} has too few entries to hold some out at rank {rank}: the criterion of all entries decides.",
    )


def entry_levels(candidate: Candidate, phi: float, x: Vector, facts: Facts) -> Vector:
    """Compute 1/2 log phi and 1/2 log v(x) of entries, (2, k); a zero of data that are no counts has neither."""
    positive = x > 0
    shown = np.where(positive, x, 1.0 if facts.zero is None else facts.zero)
    counts = positive | (facts.zero is not None)
    return np.where(counts, [np.full(x.shape, 0.5 * math.log(phi)), candidate.half_log_variance(shown)], 0.0)


def blended(W: Vector, H: Vector, part: float) -> tuple[Vector, Vector]:
    """Replace a part of V = WH by the product of its row and column sums, as one more component.

    A fit that has not seen the one entry of a row with a component predicts nothing there, and a likelihood is ruled by
    a handful of such entries. With a part of one in a hundred they cost what they should.

    >>> W, H = blended(np.eye(2), np.eye(2), 0.1)
    >>> (W @ H).round(3).tolist()
    [[0.95, 0.05], [0.05, 0.95]]
    """
    W, H = W.astype(np.float64), H.astype(np.float64)
    heights, widths = W @ H.sum(axis=1), W.sum(axis=0) @ H
    share = part / max(float(heights.sum()), np.finfo(np.float64).tiny)
    return np.column_stack([(1.0 - part) * W, share * heights]), np.vstack([H, widths])


def blocks_of(n: int) -> int:
    """Number of blocks of columns: at most one for each column."""
    return min(n, BLOCKS)


def tiles(X: Any) -> Iterator[tuple[slice, Vector]]:
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


@dataclass(frozen=True)
class Compared:
    """Candidates by their held-out scores.

    Attributes
    ----------
    best : index of the best
    scores : what was compared
    differences, errors : (k,), trimmed mean of the paired differences to the best, per entry, and its standard error
    """

    best: int
    differences: Vector
    errors: Vector
    scores: list[Scores]

    def among(self, some: list[int]) -> list[int]:
        """Return positions in `some` of those within one standard error of the best of them."""
        return [i for i, near in enumerate(compare([self.scores[k] for k in some]).within) if near]

    @property
    def within(self) -> list[bool]:
        """Whether each is within one standard error of the best."""
        return [bool(d <= e) for d, e in zip(self.differences, self.errors, strict=True)]


def joined(scores: list[Scores]) -> Scores:
    """Put the scores of several masks together, block by block."""

    def added(name: str) -> Any:
        return np.sum([getattr(one, name) for one in scores], axis=0)

    names = ("sums", "counts", "half_log", "effective", "losses")
    return Scores(**{name: added(name) for name in names})


def compare(scores: list[Scores]) -> Compared:
    """Compare candidates by blocks of columns, each with itself.

    Examples
    --------
    >>> flat, worse = (Scores(np.arange(10.0) + shift, np.ones(10), 0.0) for shift in (0.0, 0.5))
    >>> found = compare([worse, flat])
    >>> found.best, found.differences.tolist(), found.errors.tolist()
    (1, [0.5, 0.0], [0.0, 0.0])
    """
    used = scores[0].counts > 0
    means = np.array([score.sums[used] / score.counts[used] for score in scores])
    best = int(np.argmin(means.mean(axis=1)))
    for _ in scores:  # trimmed means of differences need not agree on an order: as far as each step finds a better one
        better = int(np.argmin([trimmed(row - means[best])[0] for row in means]))
        if trimmed(means[better] - means[best])[0] >= 0.0:
            break
        best = better
    pairs = [trimmed(row - means[best]) for row in means]
    return Compared(best, np.array([mean for mean, _ in pairs]), np.array([error for _, error in pairs]), scores)


def trimmed(values: Vector) -> tuple[float, float]:
    """Compute a trimmed mean and its standard error (from the winsorised variance: Tukey and McLaughlin 1963).

    >>> trimmed(np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 100.0]))
    (1.0, 0.0)
    """
    ordered, size = np.sort(values), values.size
    k = int(TRIM * size)
    kept = ordered[k : size - k]
    if size < 2:
        return float(kept.mean()), 0.0
    winsorised = np.clip(values, kept[0], kept[-1])
    error = float(winsorised.std(ddof=1)) / ((1.0 - 2.0 * k / size) * math.sqrt(size))
    return float(kept.mean()), error
