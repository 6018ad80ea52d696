r"""What a dispersed noise must be divided by: the sum, or integral, of s over all values that an entry can take.

In the variable y with dy = v(x)^(-1/2) dx, which makes the variance constant, s dx = exp(-d / phi) dy (2 pi phi)^(-1/2)
is smooth, and of width sqrt(phi) wherever mu is. Gauss-Legendre panels to either side of mu integrate it. On a grid the
first values are added one by one, and the sum of all others is the integral with the ends of Euler and Maclaurin.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import scipy

from drnmf.losses.beta import Beta
from drnmf.numerics import Vector

NODES = 120
"""Values of log mu at which Z is computed; between them it is interpolated."""

EXACT = 64
"""Values of the grid that are added one by one."""

DEPTH = 40.0
"""Integrals end where the density has fallen by this many factors of e."""

ZERO = 1.0 / 6.0
"""What a zero of the grid enters the variance as, in units."""

_PANEL = np.polynomial.legendre.leggauss(40)
_BEYOND = 1.05
"""How much farther than a table tells integrals go: it is interpolated."""


@dataclass(frozen=True)
class Partition:
    """Z of a beta-divergence, in units of the grid (or any unit, where there is none)."""

    beta: float  # other than 2
    mu: Vector  # the means at which it is asked for
    whole: bool  # whether entries lie on the grid 0, 1, 2, ...
    top: float | None = None  # the value at which readings were clipped
    delta: float | None = None  # without a grid, below what an entry is zero

    @property
    def zero(self) -> float:
        """What a zero enters the variance as."""
        return ZERO if self.whole else 1e-30

    @cached_property
    def at(self) -> Vector:
        """The means at which sums are computed."""
        low, high = float(self.mu.min()), float(self.mu.max())
        return np.geomspace(low, high, NODES) if high > low * (1.0 + 1e-9) else np.array([low])

    @cached_property
    def _first(self) -> tuple[Vector, Vector]:
        """d, and half the logarithm of v, of the first values of a grid at every mean."""
        x = np.arange(2.0 * EXACT)[:, None]
        shown = np.maximum(x, self.zero)
        values, means = np.broadcast_arrays(shown if self.beta == 0.0 else x, self.at[None])
        return np.asarray(Beta(self.beta).terms(values, means)), (1.0 - 0.5 * self.beta) * np.log(shown)

    def logs(self, phi: float) -> tuple[Vector, Vector | None, Vector | None]:
        """Compute log Z for every mean, and the logarithms of its part below delta and of that from the top on."""
        log_z = self._sum(phi, 0) if self.whole else self._integral(self.at, phi, 0.0, math.inf)
        zero = None if self.whole or self.delta is None else self._integral(self.at, phi, 0.0, self.delta)
        top = None if self.top is None else self._sum(phi, round(self.top))
        parts = [None if part is None else self._between(part) for part in (zero, top)]
        return self._between(log_z), parts[0], parts[1]

    def _between(self, logs: Vector) -> Vector:
        if self.at.size == 1:
            return np.full(self.mu.shape, logs[0])
        # log 0 = -inf, of which a spline would make NaN everywhere
        return np.asarray(scipy.interpolate.CubicSpline(np.log(self.at), np.maximum(logs, -1e4))(self._log_mu))

    @cached_property
    def _log_mu(self) -> Vector:
        return np.asarray(np.log(self.mu))

    def _log_s(self, x: Vector, mu: Vector, phi: float) -> Vector:
        x, mu = np.broadcast_arrays(x, mu)
        shown = np.maximum(x, self.zero)
        d = Beta(self.beta).terms(shown if self.beta == 0.0 else x, mu)
        return np.asarray(-0.5 * math.log(2.0 * math.pi * phi) - (1.0 - 0.5 * self.beta) * np.log(shown) - d / phi)

    def _sum(self, phi: float, first: int) -> Vector:
        """Add s over first, first + 1, ... for every mean."""
        start, mu = max(first, EXACT), self.at
        near = (mu > 0.5 * start) & (mu < 1.5 * start)  # a narrow peak must not lie where the integral begins
        sums = np.empty(mu.shape)
        for some, end in ((near, 2 * start), (~near, start)):
            if not some.any():
                continue
            parts = [np.full(int(some.sum()), -np.inf)]
            far = (mu[some] > end) | (end > EXACT)  # where there is something beyond
            far |= self._first[0][min(end, 2 * EXACT - 1), some] <= DEPTH * phi
            if far.any():
                parts[0][far] = self._tail(mu[some][far], phi, end)
            if first < end:
                parts.append(_log_sum(self._each(some, phi, first, end)))
            sums[some] = _log_sum(np.array(parts))
        return sums

    def _each(self, some: Any, phi: float, first: int, end: int) -> Vector:
        """Compute log s of first, ..., end - 1 at some of the means."""
        if end > 2 * EXACT:
            return self._log_s(np.arange(float(first), float(end))[:, None], self.at[None, some], phi)
        d, half = self._first
        return np.asarray(-0.5 * math.log(2.0 * math.pi * phi) - half[first:end] - d[first:end, some] / phi)

    def _tail(self, mu: Vector, phi: float, first: int) -> Vector:
        """Add s over first, first + 1, ...: the integral from first - 1/2, and what its end lacks.

        f' / 24 - 7 f''' / 5760 there, both from differences of the four values around it.
        """
        inside = self._integral(mu, phi, first - 0.5, math.inf)
        near = self._log_s(np.arange(first - 2.0, first + 2.0)[:, None], mu[None], phi)
        peak = np.maximum(inside, near.max(axis=0))
        a, b, c, d = np.exp(near - peak)
        slope, third = (27.0 * (c - b) - (d - a)) / 24.0, d - 3.0 * c + 3.0 * b - a
        total = np.exp(inside - peak) + slope / 24.0 - 7.0 * third / 5760.0
        return np.asarray(peak + np.log(np.maximum(total, np.finfo(np.float64).tiny)))

    def _integral(self, mu: Vector, phi: float, low: float, high: float) -> Vector:
        """Integrate s from low to high for every mean, in the variable of constant variance.

        To either side from where the density is largest, as far as there is anything to add.
        """
        ends = self._stable(np.array([[low], [high]]))
        middle = np.clip(self._stable(mu), *ends)
        sign = np.where(ends > middle, 1.0, -1.0)
        width = np.minimum(np.abs(ends - middle), self._reach(mu, phi, middle, sign))
        sides = width.any(axis=1)  # none below the first value of a tail that all means lie below
        if not sides.any():  # what lies below a delta that is nothing next to the means
            return np.full(mu.shape, -np.inf)
        points, weights = _PANEL
        y = middle + (sign * width)[sides] * 0.5 * (points[:, None, None] + 1.0)
        logs = np.log(0.5 * weights)[:, None, None] - self._deviance(y, mu) / phi
        with np.errstate(divide="ignore"):
            return np.asarray(_log_sum(_log_sum(logs) + np.log(width[sides])) - 0.5 * math.log(2.0 * math.pi * phi))

    def _reach(self, mu: Vector, phi: float, near: Vector, sign: Vector) -> Vector:
        """Find how far from near, to either side, the density falls by DEPTH, or a little farther.

        d(t mu | mu) = mu^b d(t | 1), so one table of d(t | 1) tells it for every mean and phi.
        """
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            fallen = np.log((self._deviance(near, mu) + DEPTH * phi) / mu**self.beta)
            ahead, behind = _distances(self.beta)
            logs = np.where(sign > 0.0, np.exp(ahead(fallen)), -np.exp(behind(fallen)))
            width = _BEYOND * np.abs(self._stable(mu * np.exp(logs)) - near)
        normal = math.sqrt(2.0 * DEPTH * phi)
        return np.clip(np.nan_to_num(width, nan=np.inf), 2.0**-9 * normal, 2.0**7 * normal)

    def _stable(self, x: Vector) -> Vector:
        """Transform to the variable of constant variance, (x^(b/2) - 1) / (b/2), log x for b = 0."""
        half = 0.5 * self.beta
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(x) if half == 0.0 else (x**half - 1.0) / half)

    def _deviance(self, y: Vector, mu: Vector) -> Vector:
        half = 0.5 * self.beta
        # e^709 is the largest number, and x is multiplied by others; zero has no logarithm
        x = np.exp(np.minimum(y, 600.0)) if half == 0.0 else np.maximum(1.0 + half * y, 0.0) ** (1.0 / half)
        return np.asarray(Beta(self.beta).terms(*np.broadcast_arrays(np.maximum(x, 1e-200), mu)))


@lru_cache(maxsize=64)
def _distances(beta: float) -> tuple[Callable[[Vector], Vector], Callable[[Vector], Vector]]:
    """Return log |log t| as functions of log d(t | 1), above t = 1 and below; where d never gets there it is inf."""
    far = np.geomspace(1e-6, 600.0, 1500)

    def inverse(sign: float) -> Callable[[Vector], Vector]:
        with np.errstate(over="ignore"):
            t = np.exp(sign * far)
            d = np.asarray(Beta(beta).terms(*np.broadcast_arrays(t, 1.0)))
        rising = np.isfinite(d) & (d > np.maximum.accumulate(np.concatenate([[0.0], d[:-1]])))
        logs, at = np.log(d[rising]), np.log(far[rising])
        # d is log(t)^2 / 2 around t = 1
        return lambda value: (
            np.minimum(0.5 * (value + math.log(2.0)), at[0]) + np.interp(value, logs, at - at[0], right=np.inf)
        )

    return inverse(1.0), inverse(-1.0)


def _log_sum(logs: Vector) -> Vector:
    """Compute log(sum(exp(logs))) over the first axis."""
    # where all are -inf, -inf minus itself would be NaN
    peak = np.maximum(logs.max(axis=0), -1e300)
    with np.errstate(divide="ignore"):
        return np.asarray(peak + np.log(np.exp(logs - peak).sum(axis=0)))
