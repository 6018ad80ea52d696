r"""How likely entries are: every noise as a probability mass on the grid of X, so that all are compared on equal terms.

Poisson and the negative binomial are exact. A beta-divergence with dispersion phi is

.. math:: p(x | \mu) = s(x | \mu, \phi) / Z(\mu, \phi), \qquad
          s = (2 \pi \phi\, v(x))^{-1/2} \exp(-d_\beta(x | \mu) / \phi), \quad v(x) = \max(x, u/6)^{2 - \beta}

with Z its sum over the grid (`partition`). Beta = 2 is the Gaussian, rounded to the grid and clipped at zero. Without a
grid s is a density, and zero means "below delta". A value at which readings were clipped holds the upper tail.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from scipy.special import betainc, gammainc, gammaln, log_ndtr, xlogy

from drnmf.losses.base import Loss
from drnmf.losses.beta import Beta
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.numerics import Vector
from drnmf.selection.likelihood.grid import Grid
from drnmf.selection.likelihood.partition import ZERO, Partition

LEAST_MEAN = 1e-6
"""A mean below so many units (or of the mean of all, without a grid) counts as that many."""

_BULK, _RANGE = 0.9, 30.0
"""A dispersion is sought between 1/30 of what the bulk of the entries says and 30 times what all of them say."""

_WIDEST = 1e3
"""Largest dispersion, in that of a standard deviation equal to the mean."""

_NARROW = 0.05
"""Least sd of a rounded Gaussian, in units: what is exact on a grid needs no less."""

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_TINY = np.finfo(np.float64).tiny
LogMass = Callable[[float], Vector]
"""The logarithm of the mass of every entry, as a function of the one free parameter."""


class Noise(Protocol):
    """How entries scatter about their means."""

    @property
    def name(self) -> str: ...

    def bounds(self, x: Vector, mu: Vector, grid: Grid) -> tuple[float, float] | None:
        """Range of the free parameter; None where nothing is free."""

    def log_mass(self, x: Vector, mu: Vector, grid: Grid) -> LogMass:
        """Prepare the masses of entries under means."""


@dataclass(frozen=True)
class PoissonNoise:
    """Counts of independent events, nothing free."""

    name = "Poisson"

    def bounds(self, x: Vector, mu: Vector, grid: Grid) -> tuple[float, float] | None:
        return None

    def log_mass(self, x: Vector, mu: Vector, grid: Grid) -> LogMass:
        k, mean, top = _counted(x, mu, grid)
        values = xlogy(k, mean) - mean - gammaln(k + 1.0)
        values = np.where(top, np.log(np.maximum(gammainc(np.maximum(k, 1.0), mean), _TINY)), values)
        return lambda _: values


@dataclass(frozen=True)
class NegativeBinomialNoise:
    """Counts whose variance is mu + mu^2 / size; the size, in the unit of X, is free."""

    name = "NB"

    def bounds(self, x: Vector, mu: Vector, grid: Grid) -> tuple[float, float] | None:
        assert grid.unit is not None
        # from 1e5 times the mean on the variance is Poisson's to five digits
        return 1e-2 * grid.unit, 1e5 * max(grid.unit, float(mu.mean()))

    def log_mass(self, x: Vector, mu: Vector, grid: Grid) -> LogMass:
        k, mean, top = _counted(x, mu, grid)
        fixed, unit = -gammaln(k + 1.0), grid.unit
        assert unit is not None

        def of(size: float) -> Vector:
            a = size / unit
            # gammaln(k + a) - gammaln(a) loses its digits where a is large: there it is k log(a) and a small rest
            rising = gammaln(k + a) - gammaln(a) if a < 1e6 else k * math.log(a) + k * (k - 1.0) / (2.0 * a)
            values = fixed + rising + xlogy(k, mean / (mean + a)) - a * np.log1p(mean / a)
            if not top.any():
                return np.asarray(values)
            tail = betainc(np.maximum(k, 1.0), a, mean / (mean + a))
            return np.where(top, np.log(np.maximum(tail, _TINY)), values)

        return of


@dataclass(frozen=True)
class DispersedNoise:
    """Variance phi mu^(2 - beta), beta other than 2; phi is free.

    >>> x, grid = np.arange(60.0), Grid(1.0)
    >>> round(float(np.exp(DispersedNoise(1.5).log_mass(x, np.full(60, 3.0), grid)(0.7)).sum()), 6)
    1.0
    """

    beta: float

    @property
    def name(self) -> str:
        return self.loss.name

    @property
    def loss(self) -> Beta:
        return Beta(self.beta)

    def bounds(self, x: Vector, mu: Vector, grid: Grid) -> tuple[float, float] | None:
        """Around twice the mean loss, and no lower than where Z oscillates between points of the grid (sd = u/2)."""
        middle, unit = float(np.median(mu)), grid.unit
        # a standard deviation of a millionth of the mean
        least = 1e-12 * middle**self.beta
        if unit is not None:
            least, x = (0.5 * unit) ** 2 / max(middle, unit) ** (2.0 - self.beta), np.maximum(x, ZERO * unit)
        loss = 2.0 * self.loss.terms(x[x > 0], mu[x > 0])
        low = max(least, float(np.mean(loss[loss <= np.quantile(loss, _BULK)])) / _RANGE)
        widest = _WIDEST * max(middle, unit or 0.0) ** self.beta
        return low, max(min(float(loss.mean()) * _RANGE, widest), 4.0 * low)

    def log_mass(self, x: Vector, mu: Vector, grid: Grid) -> LogMass:
        unit = grid.unit or float(mu.mean())
        # under beta = 0 a zero is 1/6 of a unit, and so is what predicts nothing but zeros
        x, mu = x / unit, np.maximum(mu / unit, ZERO if self.beta == 0.0 and grid.unit is not None else LEAST_MEAN)
        partition = Partition(self.beta, mu, grid.unit is not None, _over(grid.top, unit), _over(grid.delta, unit))
        d = self.loss.terms(np.maximum(x, partition.zero) if self.beta == 0.0 else x, mu)
        half = _HALF_LOG_2PI + (0.5 - 0.25 * self.beta) * 2.0 * np.log(np.maximum(x, partition.zero))
        density = 0.0 if grid.unit is not None else math.log(unit)
        zero, top = x == 0.0, _clipped(x * unit, grid)

        def of(phi: float) -> Vector:
            phi = phi / unit**self.beta
            log_z, log_zero, log_top = partition.logs(phi)
            values = -0.5 * math.log(phi) - half - d / phi - log_z - density
            if log_zero is not None:
                values = np.where(zero, log_zero - log_z, values)
            return np.asarray(values if log_top is None else np.where(top, log_top - log_z, values))

        return of


@dataclass(frozen=True)
class GaussianNoise:
    """A normal distribution of one width, rounded to the grid, negative readings set to zero; its sd is free."""

    name = "Fro"

    def bounds(self, x: Vector, mu: Vector, grid: Grid) -> tuple[float, float] | None:
        squares = (x - mu) ** 2
        least = _NARROW * grid.unit if grid.unit is not None else 1e-7 * float(x.max())
        low = max(least, math.sqrt(float(np.mean(squares[squares <= np.quantile(squares, _BULK)])) / _RANGE), _TINY)
        return low, max(math.sqrt(float(squares.mean()) * _RANGE), 4.0 * low)

    def log_mass(self, x: Vector, mu: Vector, grid: Grid) -> LogMass:
        zero, top, u = x == 0.0, _clipped(x, grid), grid.unit

        def of(sd: float) -> Vector:
            if u is not None:
                low = np.where(zero, -np.inf, (x - 0.5 * u - mu) / sd)
                return log_between(low, np.where(top, np.inf, (x + 0.5 * u - mu) / sd))
            values = -_HALF_LOG_2PI - math.log(sd) - 0.5 * ((x - mu) / sd) ** 2
            return values if grid.delta is None else np.where(zero, log_ndtr((grid.delta - mu) / sd), values)

        return of


@dataclass(frozen=True)
class KnownNoise:
    """A normal distribution whose sd is known for every entry, up to a factor of at least one that all share.

    Uncertainties are often too small: they hold the error of the instrument, and not what no component explains.
    """

    sd: Vector  # of every entry about the fit
    # of every entry about what row and column sums predict; empty where nobody asks
    base_sd: Vector = field(default_factory=lambda: np.empty(0))
    name = "Fro"

    @classmethod
    def of(cls, sd: Vector, wider: Vector, x: Vector, base: Vector) -> KnownNoise:
        """Widen what is known, sd, by as much as row and column sums (`base`) are off in the mean.

        They predict entries worse than uncertainties say. Without this p_0 bounds nothing: entries that a fit misses by
        many sd cost whatever they like, and a handful of them rules all scores. `wider` is how far entries are from a
        fit.
        """
        off = float(np.mean(((x - base) / sd) ** 2)) if x.size else 1.0
        return cls(wider, sd * math.sqrt(max(off, 1.0)))

    def bounds(self, x: Vector, mu: Vector, grid: Grid) -> tuple[float, float] | None:
        return 1.0, _RANGE

    def log_mass(self, x: Vector, mu: Vector, grid: Grid) -> LogMass:
        sd = np.concatenate([self.sd, self.base_sd])[: x.size]  # those of p_0 come after those of the fit
        squares, fitted = 0.5 * ((x - mu) / sd) ** 2, np.arange(x.size) < self.sd.size
        values = -_HALF_LOG_2PI - np.log(sd)
        return lambda factor: values - np.where(fitted, math.log(factor) + squares / factor**2, squares)


@dataclass(frozen=True)
class Deviance:
    """Entries as likely as exp(-d / phi) says, phi free: for losses that are no noise of entries like these.

    >>> likely = Deviance(Beta(1.0)).log_mass(np.array([4.0, 4.0]), np.array([4.0, 1.0]), Grid())(1.0)
    >>> bool(likely[0] > likely[1])
    True
    """

    loss: Loss

    @property
    def name(self) -> str:
        return self.loss.name

    def bounds(self, x: Vector, mu: Vector, grid: Grid) -> tuple[float, float] | None:
        level = max(2.0 * float(self.loss.terms(x, mu).mean()), _TINY)
        return level / _RANGE, level * _RANGE

    def log_mass(self, x: Vector, mu: Vector, grid: Grid) -> LogMass:
        terms = self.loss.terms(x, mu)
        return lambda phi: np.asarray(-terms / phi - 0.5 * math.log(phi))


def noise_for(loss: Loss) -> Noise:
    """Return the noise of which a loss is the deviance."""
    if isinstance(loss, NegativeBinomial):
        return NegativeBinomialNoise()
    if not isinstance(loss, Beta):
        return Deviance(loss)
    return GaussianNoise() if loss.beta == 2.0 else DispersedNoise(float(loss.beta))


def log_between(low: Vector, high: Vector) -> Vector:
    """Compute log(Phi(high) - Phi(low)) without losing digits in either tail.

    >>> bool(np.isclose(log_between(np.array([30.0]), np.array([np.inf]))[0], log_ndtr(-30.0)))
    True
    """
    flip = low > 0
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    upper = log_ndtr(high)
    with np.errstate(divide="ignore"):
        return np.asarray(upper + np.log(-np.expm1(np.minimum(log_ndtr(low) - upper, 0.0))))


def _counted(x: Vector, mu: Vector, grid: Grid) -> tuple[Vector, Vector, Vector]:
    """Entries as counts, means in units, and which entries were clipped."""
    assert grid.unit is not None
    return np.rint(x / grid.unit), np.maximum(mu / grid.unit, LEAST_MEAN), _clipped(x, grid)


def _clipped(x: Vector, grid: Grid) -> Vector:
    if grid.top is None or grid.unit is None:
        return np.zeros(x.shape, dtype=bool)
    return np.asarray(x >= grid.top - 0.5 * grid.unit)


def _over(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit
