r"""How entries scatter about their means, and X as it could have come out: drawn from the fitted mean and noise.

The variance that a loss expects is phi over its curvature at the mean: phi mu^(2 - beta) of a beta-divergence,
phi (mu + mu^2/a) of the negative binomial. Of counts phi is their unit, unless the entries disprove it. Draws have that
mean and that variance, and lie where entries of X can lie: on its grid, not below zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.observed import HeldOut, Stored
from drnmf.losses.base import Loss, Omega
from drnmf.losses.beta import KL
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.numerics import Vector
from drnmf.problem.device import as_numpy
from drnmf.problem.receive import Received
from drnmf.selection.entries import counted, facts_of
from drnmf.selection.likelihood.grid import Grid

LEAST_LEVEL = 0.05
"""Entries whose mean is a smaller part of the mean of all count as such in the estimate of phi: a residual over next to
nothing would rule it."""
DISPROVED = 3.0
"""Standard deviations over draws by which phi must differ from the unit of counts to be believed."""
FEW = 0.01
"""Part of the entries, those that fit worst, whose share of the loss tells outliers."""
LEAST_FEW = 5
"""Entries that this part has at least: the share of fewer is chance."""
_EXPECTED = 3
"""Draws that say what share they should have."""
_ROUNDING = 1.0 / 6.0
"""Variance that rounding to a neighbour on the grid at random adds, in squared units."""
_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True)
class Scatter:
    """The noise of X."""

    loss: Loss  # whose curvature is one over the variance, but for phi
    grid: Grid  # the values that entries can take
    phi: float = 1.0  # the dispersion
    sd: Vector | None = None  # (m, n), known standard deviations; None where phi says it
    precision: Vector | None = None  # (m, n), what variances are divided by; None is one
    counts: bool = False  # whether phi is the unit of the grid unless the entries disprove it
    signed: bool = False  # whether X holds negative readings, so that none is cut off

    @property
    def free(self) -> bool:
        """Whether phi is read off the entries."""
        return self.sd is None

    @property
    def exact(self) -> bool:
        """Whether counts have the variance of their loss, so that nothing is read off the entries."""
        return self.counts and self.phi == self.grid.unit

    @property
    def first(self) -> Scatter:
        """What is drawn to correct phi: of counts, that of their loss."""
        return replace(self, phi=self.grid.unit) if self.counts and self.grid.unit is not None else self

    @property
    def words(self) -> str:
        """Say what is drawn."""
        if self.sd is not None:
            return "normal, by its uncertainties"
        if self.exact:
            return "Poisson" if self.loss == KL else f"negative binomial, {self.loss.name}"
        weighed = "" if self.precision is None else " over the weights"
        return f"variance {self.phi:.3g} times that of {self.loss.name}{weighed}"

    def variance(self, V: Vector) -> Vector:
        """Compute the variance of entries with means V > 0."""
        if self.sd is not None:
            return self.sd**2
        variance = self.phi * unit_variance(self.loss, V)
        return variance if self.precision is None else variance / self.precision

    def dispersion(self, X: Vector, V: Vector, weight: Vector) -> float:
        """Estimate phi from entries of weight > 0, without a correction for what the fit has taken of the noise."""
        seen, mean = weight > 0, float(V.mean())
        x, v, w = X[seen], V[seen], np.ones(int(seen.sum())) if self.precision is None else self.precision[seen]
        level = unit_variance(self.loss, np.maximum(v, LEAST_LEVEL * mean))
        return float((w * (x - v) ** 2 / level).sum() / (unit_variance(self.loss, v) / level).sum())

    def draw(self, V: Vector, seed: Sequence[int]) -> Vector:
        """Draw entries with means V."""
        # a mean of zero has no variance under beta < 2, nor a Gamma distribution
        rng, V = np.random.default_rng(seed), np.maximum(V, 1e-12 * float(V.mean()))
        if self.sd is not None or self.loss.beta == 2.0:
            drawn = V + np.sqrt(self.variance(V)) * rng.standard_normal(V.shape)
            drawn = drawn if self.grid.unit is None else self.grid.unit * np.rint(drawn / self.grid.unit)
            drawn = drawn if self.signed else np.maximum(drawn, 0.0)
        elif self.grid.unit is not None:
            unit = self.grid.unit
            drawn = unit * counts(V / unit, self.variance(V) / unit**2, rng)
        else:
            drawn = dispersed(V, self.variance(V), rng)
            low = drawn < (self.grid.delta or 0.0)
            drawn = np.where(low, 0.0, np.maximum(drawn, 1e-12 * float(V.mean())))
        return drawn if self.grid.top is None else np.minimum(drawn, self.grid.top)


def held_by_few(x: Vector, mu: Vector, loss: Loss, grid: Grid, counts: bool) -> tuple[float, float]:
    """Compute the share of the loss that the worst hundredth of entries holds, and what it is among draws; NaN of few.

    Draws have the means and the noise of the entries: the second share is what the noise itself expects.

    >>> x = np.random.default_rng(0).poisson(20.0, 2000).astype(float)
    >>> seen, expected = held_by_few(x, np.full(2000, 20.0), KL, Grid(unit=1.0), True)
    >>> round(seen, 2), round(expected, 2)
    (0.08, 0.08)
    """
    few = int(FEW * x.size)
    if few < LEAST_FEW:
        return math.nan, math.nan
    noise = Scatter(loss, grid, grid.unit or 1.0, counts=counts)
    if not noise.counts:
        noise = replace(noise, phi=max(noise.dispersion(x, mu, np.ones(x.shape)), _TINY))

    def share(of: Vector) -> float:
        terms = loss.terms(np.maximum(of, _TINY) if loss.infinite_at_zero else of, mu)
        return float(np.partition(terms, -few)[-few:].sum() / max(terms.sum(), _TINY))

    return share(x), float(np.mean([share(noise.draw(mu, (seed,))) for seed in range(_EXPECTED)]))


def unit_variance(loss: Loss, V: Vector) -> Vector:
    """Compute the variance that a loss expects at phi = 1: one over its curvature.

    >>> unit_variance(KL, np.array([2.0, 3.0])).tolist(), unit_variance(NegativeBinomial(1.0), np.array([2.0])).tolist()
    ([2.0, 3.0], [6.0])
    """
    # its square and one over that stay numbers
    V = np.maximum(V, _TINY**0.25)
    return np.asarray(1.0 / loss.curvature(V, V))


def dispersed(mean: Vector, variance: Vector, rng: np.random.Generator) -> Vector:
    """Draw positive numbers with given means and variances (Gamma)."""
    # infinite where there is no variance; with 1e12 the draws are the mean to six digits
    shape = np.minimum(mean**2 / variance, 1e12)
    return np.asarray(rng.standard_gamma(shape) * (mean / shape))


def counts(mean: Vector, variance: Vector, rng: np.random.Generator) -> Vector:
    """Draw whole numbers with given means and variances: Poisson, a Gamma mixture of it, or rounded at random.

    >>> drawn = counts(np.full(40000, 3.0), np.full(40000, 5.0), np.random.default_rng(0))
    >>> bool(abs(drawn.mean() - 3.0) < 0.05), bool(abs(drawn.var() - 5.0) < 0.2)
    (True, True)
    """
    # what is within 1e-9 of the mean is rounding of Poisson's variance
    excess = variance - mean
    if (excess < -1e-9 * mean).any():
        real = dispersed(mean, np.maximum(variance - _ROUNDING, 1e-6 * variance), rng)
        return np.floor(real + rng.random(mean.shape))
    over = excess > 1e-9 * mean
    mixed = np.where(over, dispersed(mean, np.where(over, excess, 1.0), rng), mean)
    return rng.poisson(np.minimum(mixed, 1e18)).astype(np.float64)  # NumPy refuses means from 9.2e18 on


def entries_of(given: Received) -> tuple[Vector, Vector]:
    """Return X (m, n), dense, zero where nothing was observed, and the weights of its entries, zero there."""
    X, observed = given.X, given.observed
    assert not isinstance(observed, HeldOut)
    dense = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    weight = np.ones(dense.shape)
    if observed is not None:
        weight = np.broadcast_to(np.asarray(as_numpy(observed.tile(slice(0, X.shape[1]))), np.float64), dense.shape)
    known = np.isfinite(dense)
    return np.where(known, dense, 0.0), np.where(known, weight, 0.0)


def like(given: Received, drawn: Vector) -> Any:
    """Return drawn entries in the form of X: gaps stay gaps, and what a sparse X did not observe stays so."""
    X = given.X
    if not sp.issparse(X):
        return np.where(np.isnan(X), np.nan, drawn).astype(X.dtype)
    if not isinstance(given.observed, Stored):
        return sp.csr_array(drawn.astype(X.dtype))
    again = sp.csr_array(X, copy=True)
    places = again.tocoo()
    again.data = drawn[places.row, places.col].astype(X.dtype)
    return again


def scatter_of(given: Received, omega: Omega, V: Vector, known: bool) -> Scatter:
    """Read the noise off X at a fit V (m, n), phi without a correction.

    Of several losses the one whose variance suits the entries best says what is expected; `known` are the weights where
    they are those of uncertainties.
    """
    X, weight = entries_of(given)
    seen, facts = weight > 0, facts_of(counted(given))
    signed = bool((X < 0).any())
    if known:
        sd = np.divide(1.0, np.sqrt(weight), out=np.zeros_like(weight), where=seen)
        return Scatter(omega[0], replace(facts.grid, unit=None), sd=sd, signed=signed)
    read = [Scatter(loss, facts.grid, counts=_whole(loss, facts.grid), signed=signed) for loss in omega]
    weights = weight[seen]
    if (weights != weights[:1]).any():  # how often an entry counts, or how precise it is: the entries tell
        read += [replace(one, precision=np.where(seen, weight, 1.0)) for one in read if not one.counts]
    found = [replace(one, phi=max(one.dispersion(X, V, weight), _TINY)) for one in read]
    return max(found, key=lambda one: _likely(one, X, V, seen))


def _whole(loss: Loss, grid: Grid) -> bool:
    return grid.unit is not None and (loss == KL or isinstance(loss, NegativeBinomial))


def _likely(scatter: Scatter, X: Vector, V: Vector, seen: Any) -> float:
    """Compute how likely entries are if they are normal with these variances."""
    level = np.maximum(V, LEAST_LEVEL * float(V.mean()))
    variance = scatter.variance(level)[seen]
    return -0.5 * float((np.log(variance) + (X - V)[seen] ** 2 / variance).sum())


def corrected(scatter: Scatter, again: Sequence[float]) -> Scatter:
    """Correct phi by what draws at it gave when they were fitted again: a fit follows the noise, and leaves too little.

    Of counts `again` are those of draws with the unit as phi, which stays unless it is disproved.

    >>> from drnmf.losses.beta import Beta
    >>> corrected(Scatter(Beta(2.0), Grid(), phi=2.0), [1.5, 1.7]).phi
    2.5
    """
    mean = float(np.mean(again))
    if not scatter.counts:
        return replace(scatter, phi=scatter.phi * scatter.phi / mean) if mean > 0 else scatter
    assert scatter.grid.unit is not None
    far = abs(scatter.phi - mean) > DISPROVED * float(np.std(again, ddof=1)) * math.sqrt(1.0 + 1.0 / len(again))
    return replace(scatter, phi=scatter.grid.unit * (scatter.phi / mean if far else 1.0))
