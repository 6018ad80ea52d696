r"""Scores of entries that a fit has not seen, bounded, and how sure their differences are.

An entry is scored by the logarithm of a mixture of probabilities, p = 0.99 p_fit + 0.01 p_0, where p_0 has the same
noise and the mean that row and column sums of the training entries say: no entry costs more than -log 0.01 - log p_0.
The free parameter of a noise is fitted on one half of the held-out entries and scores the other.

The size of a negative binomial at a fit is corrected for what the fit has taken of the noise,

.. math:: 1/a \leftarrow 2/\hat a - \mathrm{mean}(1/a^*)

with a* from draws at (V, a) that are fitted again: a fit follows the noise of its own entries, and leaves too little.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from drnmf.numerics import Vector
from drnmf.selection.likelihood.grid import Grid
from drnmf.selection.likelihood.masses import LogMass, NegativeBinomialNoise, Noise

Index = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
Chosen = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

BLEND = 0.01
"""Part of p_0 in the probability of an entry."""

GAIN = 2.0
"""Standard errors of the paired difference that a richer noise must gain over a simpler one."""

PROOF = 25.0
"""Gain of log-mass that settles it whatever the standard error: masses that sum to one are e-values, so that under the
simpler noise such a gain has a probability of at most exp(-25). Where few entries rule, their spread hides it."""

COARSE = 9
"""Parameters of the grid that a search begins with, evenly spaced in the logarithm."""

DRAWS = 3
"""Draws that are fitted again."""

_PRECISION = 0.02


@dataclass(frozen=True)
class HeldEntries:
    """Entries that a fit has not seen, one number for each."""

    # x, mu, base: values, what the fit predicts (base before any), and what row and column sums predict
    x: Vector
    mu: Vector
    base: Vector
    weight: Vector  # how often each counts
    # rows, columns: where they are
    rows: Index
    columns: Index
    half: Chosen  # bool, which half scores with the parameter of the other


@dataclass(frozen=True)
class Scores:
    """Sums of weighted log-masses over rows and over columns of X, and of the weights."""

    # rows, columns: (m,) and (n,), of the log-masses
    rows: Vector
    columns: Vector
    # row_weights, column_weights: (m,) and (n,)
    row_weights: Vector
    column_weights: Vector
    parameter: float = math.nan  # of the noise, the geometric mean of both halves; NaN where nothing was free
    factor: float = math.nan  # where uncertainties are known, how much farther entries scatter; else NaN

    @property
    def mean(self) -> float:
        """The mean log-mass of an entry."""
        return float(self.rows.sum() / max(float(self.row_weights.sum()), np.finfo(np.float64).tiny))


def base_means(
    rows: Vector, columns: Vector, counts: tuple[Vector, Vector], used: tuple[Chosen, Chosen], least: float
) -> Callable[..., Vector]:
    """Return what sums of training entries predict for an entry, per training entry: R'_i C'_j S / (S_R S_C).

    R' = R + u, C' = C + u, so that nothing is predicted as zero, and S_R, S_C are their sums: the sum of all stays S.
    Of sparse counts a row holds few units, and one more in each would predict half as much again. So u is `least`, or
    the smallest positive entry; `counts` says how many training entries (or how much weight) each row and column has,
    `used` which of them are not all zero.
    """
    heights, widths = (np.where(some, sums + least, 0.0) for sums, some in zip((rows, columns), used, strict=True))
    level = max(float(counts[0].sum()), 1.0) * max(float(rows.sum()), least)
    for sums in (heights, widths):
        level /= max(float(sums.sum()), np.finfo(np.float64).tiny)
    heights, widths = heights / np.maximum(counts[0], 1.0), widths / np.maximum(counts[1], 1.0)
    return lambda i, j: heights[i] * widths[j] * level


def mixed_log(fit: Vector, base: Vector) -> Vector:
    """Compute log(0.99 p_fit + 0.01 p_0) from the logarithms of both.

    >>> float(mixed_log(np.array([-1e9]), np.array([0.0]))[0]) == math.log(BLEND)
    True
    """
    return np.logaddexp(fit + math.log1p(-BLEND), base + math.log(BLEND))


def score(noise: Noise, held: HeldEntries, grid: Grid, shape: tuple[int, int]) -> Scores:
    """Score held-out entries under a noise, its parameter from the other half."""
    masses, parameter = entry_scores(noise, held, grid) if held.x.size else (held.x, math.nan)
    values = held.weight * masses

    def by(at: Index, what: Vector, size: int) -> Vector:
        return np.asarray(np.bincount(at, what, minlength=size), dtype=np.float64)

    return Scores(
        by(held.rows, values, shape[0]),
        by(held.columns, values, shape[1]),
        by(held.rows, held.weight, shape[0]),
        by(held.columns, held.weight, shape[1]),
        parameter,
    )


def entry_scores(noise: Noise, held: HeldEntries, grid: Grid) -> tuple[Vector, float]:
    """Compute the mixed log-mass of every entry, and the parameter."""
    size = held.x.size
    both = noise.log_mass(np.tile(held.x, 2), np.concatenate([held.mu, held.base]), grid)

    def mixed(parameter: float) -> Vector:
        logs = both(parameter)
        return mixed_log(logs[:size], logs[size:])

    bounds = noise.bounds(held.x, held.mu, grid)
    if bounds is None:
        return mixed(math.nan), math.nan
    halves = [np.where(held.half, held.weight, 0.0), np.where(held.half, 0.0, held.weight)]
    if not all(float(half.sum()) > 0 for half in halves):
        halves = [held.weight, held.weight]
    first, second = likely_parameters(mixed, halves, bounds)
    return np.where(held.half, mixed(second), mixed(first)), math.sqrt(first) * math.sqrt(second)


def likely_parameters(mixed: LogMass, weights: Sequence[Vector], bounds: tuple[float, float]) -> list[float]:
    """Find the parameter under which entries are most likely, for several weights of them: a grid, then by parts."""
    low = bounds[0]  # logarithms are relative to it, so that the unit of X does not change their digits
    logs = np.linspace(0.0, math.log(bounds[1] / low), COARSE)
    values = np.array([mixed(low * math.exp(at)) for at in logs])
    parameters = []
    for weight in weights:
        at = int(np.argmax(values @ weight))
        ends = float(logs[max(at - 1, 0)]), float(logs[min(at + 1, COARSE - 1)])

        def cost(log: float, weight: Vector = weight, base: Vector = values[at]) -> float:
            return -float((mixed(low * math.exp(log)) - base) @ weight)

        best = scipy.optimize.minimize_scalar(cost, bounds=ends, method="bounded", options={"xatol": _PRECISION})
        # the search never comes to an end of its range: there the point of the grid is better
        parameters.append(low * math.exp(best.x if best.fun < 0.0 else float(logs[at])))
    return parameters


@dataclass(frozen=True)
class Compared:
    """Candidates by their scores."""

    best: int  # index of the largest mean log-mass
    # differences, errors: (k,), how much worse than the best each is, per entry, and the standard error of that paired
    # difference
    differences: Vector
    errors: Vector

    @property
    def within(self) -> list[bool]:
        """Whether each is within one standard error of the best."""
        return [bool(d <= e) for d, e in zip(self.differences, self.errors, strict=True)]


def compare(scores: Sequence[Scores]) -> Compared:
    """Compare candidates whose scores are of the same entries.

    >>> from dataclasses import replace
    >>> flat = Scores(np.zeros(4), np.zeros(4), np.ones(4), np.ones(4))
    >>> found = compare([replace(flat, rows=np.full(4, -0.5), columns=np.full(4, -0.5)), flat])
    >>> found.best, found.differences.tolist(), found.errors.tolist()
    (1, [0.5, 0.0], [0.0, 0.0])
    """
    best = int(np.argmax([one.mean for one in scores]))
    pairs = [paired(scores[best], one) for one in scores]
    return Compared(best, np.array([d for d, _ in pairs]), np.array([e for _, e in pairs]))


def paired(better: Scores, worse: Scores) -> tuple[float, float]:
    """Compute the mean difference of two scores, per entry, and its standard error.

    Errors of a fit are shared by the entries of a row, and by those of a column: rows, and columns, are the units that
    vary, and the larger of both errors counts.
    """
    total = max(float(better.row_weights.sum()), np.finfo(np.float64).tiny)
    mean = better.mean - worse.mean
    errors = [
        _clustered(getattr(better, side) - getattr(worse, side), weights, mean) / total
        for side, weights in (("rows", better.row_weights), ("columns", better.column_weights))
    ]
    return mean, max(errors)


def _clustered(sums: Vector, weights: Vector, mean: float) -> float:
    """Compute the standard error of a sum over groups of entries."""
    used = weights > 0
    count = int(used.sum())
    if count < 2:
        return 0.0
    return math.sqrt(count / (count - 1.0) * float(((sums - mean * weights)[used] ** 2).sum()))


def joined(scores: Sequence[Scores]) -> Scores:
    """Put the scores of several masks together."""
    names = ("rows", "columns", "row_weights", "column_weights")
    added = {name: np.sum([getattr(one, name) for one in scores], axis=0) for name in names}
    parameter, factor = (np.exp(np.log([(one.parameter, one.factor) for one in scores]).mean(axis=0))).tolist()
    return Scores(**added, parameter=parameter, factor=factor)


def simplest(scores: Sequence[Scores], levels: Sequence[int]) -> int:
    """Choose the best of the candidates, unless a simpler one is within two standard errors of it and not disproved.

    `levels` say how simple each is, 0 the simplest.
    """
    compared, total = compare(scores), float(scores[0].row_weights.sum())
    allowed = np.minimum(GAIN * compared.errors, PROOF / max(total, 1.0))
    near = [i for i in range(len(scores)) if compared.differences[i] <= allowed[i]]
    least = min(levels[i] for i in near)
    return min((i for i in near if levels[i] == least), key=lambda i: float(compared.differences[i]))


def likely_size(x: Vector, mu: Vector, grid: Grid, weight: Vector | None = None) -> float:
    """Find the size under which entries are most likely, their means given."""
    noise, weights = NegativeBinomialNoise(), np.ones(x.size) if weight is None else weight
    bounds = noise.bounds(x, mu, grid)
    assert bounds is not None
    return likely_parameters(noise.log_mass(x, mu, grid), [weights], bounds)[0]


def corrected_size(size: float, again: Sequence[float]) -> float:
    """Correct a size, found at the fit, by those found again in DRAWS draws from it that were fitted too.

    >>> round(corrected_size(3.0, [4.5, 4.5, 4.5]), 12)
    2.25
    """
    inverse = 2.0 / size - float(np.mean([1.0 / one for one in again]))
    return 1.0 / inverse if inverse > 1e-5 / size else 1e5 * size


def drawn(V: Vector, size: float, unit: float, seed: int) -> Vector:
    """Draw entries with means V; what is NaN stays so."""
    # by quantiles: what V rounds to must not change which numbers other entries are drawn from
    quantiles, a = np.random.default_rng(seed).random(V.shape), size / unit
    return np.where(
        np.isnan(V), math.nan, unit * scipy.stats.nbinom.ppf(quantiles, a, a / (a + np.nan_to_num(V) / unit))
    )
