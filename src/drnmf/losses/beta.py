"""Beta-divergences, entry by entry, in the array library of what they are given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from drnmf.numerics import LARGEST_BETA, Array, as_float64, namespace

NAMES = {"itakura-saito": 0.0, "kullback-leibler": 1.0, "frobenius": 2.0}
"""Names that stand for a beta, as scikit-learn spells them."""

SHORT = {0.0: "IS", 1.0: "KL", 2.0: "Fro"}
"""Names in tables and figures."""

_SERIES_RADIUS = 1e-2
"""Up to here the series to its eighth power has all digits; beyond it the difference loses about two of them."""


@dataclass(frozen=True)
class Beta:
    r"""The beta-divergence (section 1 of the paper, where beta >= 0; below zero it is defined for X > 0).

    .. math:: d_0 = x/y - \log(x/y) - 1, \quad d_1 = x \log(x/y) - x + y, \quad
              d_\beta = \frac{x^\beta + (\beta-1) y^\beta - \beta x y^{\beta-1}}{\beta(\beta-1)}

    >>> Beta(1.0).name, Beta(0.5).key, Beta(3.0).exponents
    ('KL', '0.5', (2.0, 0.0))
    """

    beta: float

    homogeneous: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return SHORT.get(self.beta, f"beta {self.beta:g}")

    @property
    def key(self) -> str:
        return f"{self.beta:g}"

    @property
    def degree(self) -> float:
        return self.beta

    @property
    def exponents(self) -> tuple[float, float]:
        return max(self.beta, 1.0) - 1.0, 2.0 - min(self.beta, 2.0)

    def scaled(self, factor: float) -> Beta:
        return self

    @property
    def infinite_at_zero(self) -> bool:
        return self.beta <= 0.0

    @property
    def free_part(self) -> str | None:
        return {1.0: "sums", 2.0: "gram"}.get(self.beta)

    def terms(self, x: Array, v: Array) -> Array:
        return beta_divergence_terms(x, v, self.beta)

    def parts(self, x: Array, v: Array, ceiling: float) -> tuple[Array, Array]:
        """V^(b-2) X and V^(b-1)."""
        xp = namespace(v)
        if self.beta == 2.0:
            return x, v
        if self.beta == 1.0:
            return xp.clip(x / v, None, ceiling), xp.ones_like(v)
        if self.beta == 0.0:
            return xp.clip(x / v / v, None, ceiling), xp.clip(1.0 / v, None, ceiling)
        power = xp.clip(v ** (self.beta - 2.0), None, ceiling)  # finite before a zero of X meets it
        return xp.clip(power * x, None, ceiling), xp.clip(power * v, None, ceiling)

    def curvature(self, x: Array, v: Array) -> Array:
        return divergence_curvature(x, v, self.beta)


KL, FROBENIUS, IS = Beta(1.0), Beta(2.0), Beta(0.0)


def _expm1_over(scale: float, l: Array) -> Array:
    """expm1(scale l) / scale, and its limit l where scale is 0 or so small that scale l has no digits left."""
    return namespace(l).expm1(scale * l) / scale if abs(scale) > 1e-290 else l


def _near_terms(x: Array, l: Array, beta: float) -> Array:
    """x^b [expm1(b l)/b - expm1((b-1) l)/(b-1)]: accurate where y is not far above x.

    Both terms equal l to first order, so near l = 0 the difference is summed as its Taylor series
    sum_k l^k / k! (b^(k-1) - (b-1)^(k-1)), which starts at l^2 / 2.
    """
    a, c = beta, beta - 1.0
    series = namespace(l).zeros_like(l)
    for k in range(8, 1, -1):
        series = (series + (a ** (k - 1) - c ** (k - 1)) / math.factorial(k)) * l
    small = abs(l) * max(1.0, abs(a), abs(c)) < _SERIES_RADIUS
    return x**beta * namespace(l).where(small, series * l, _expm1_over(a, l) - _expm1_over(c, l))


def _far_terms(y: Array, l: Array, beta: float) -> Array:
    """The same with y^b factored out, y^b [-expm1(-b l)/b + e^-l expm1((1-b) l)/(b-1)]: no overflow for y >> x."""
    b, c, xp = beta, beta - 1.0, namespace(l)
    second = xp.exp(-l) * _expm1_over(-c, l) if abs(c) < 0.5 else (xp.exp(-b * l) - xp.exp(-l)) / -c
    return y**b * (_expm1_over(-b, l) - second)


def beta_divergence_terms(X: ArrayLike, Y: ArrayLike, beta: float) -> Array:
    """Compute d_beta(x|y) for every entry, in float64.

    Evaluated as x^b [expm1(b l)/b - expm1((b-1) l)/(b-1)], l = log(y/x), which is continuous in beta and never
    negative. A zero of X costs y^b / b (infinite for b = 0), a zero of Y only costs a finite x^b / (b (b-1)) when
    b > 1, and d(0|0) = 0.

    >>> beta_divergence_terms(np.array([1.0]), np.array([3.0]), 2.0)
    array([2.])
    """
    x, y, xp = as_float64(X), as_float64(Y), namespace(X)
    if beta == 2.0:
        return 0.5 * (x - y) ** 2
    regular = (x > 0) & (y > 0)
    x1, y1 = xp.where(regular, x, 1.0), xp.where(regular, y, 1.0)
    relative = (y1 - x1) / x1  # y - x is exact when the two are close
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        close = abs(relative) < 0.5
        log_ratio = xp.where(close, xp.log1p(xp.where(close, relative, 0.0)), xp.log(y1) - xp.log(x1))
        far = log_ratio > 1.0
        near_terms = _near_terms(x1, xp.where(far, 0.0, log_ratio), beta)
        far_terms = _far_terms(y1, xp.where(far, log_ratio, 1.0), beta)
        terms = xp.clip(xp.where(far, far_terms, near_terms), 0.0, None)
        no_data = y**beta / beta if beta > 0 else xp.full_like(y, math.inf)
        no_model = x**beta / (beta * (beta - 1.0)) if beta > 1 else xp.full_like(x, math.inf)
    edge = xp.where(x > 0, no_model, xp.where(y > 0, no_data, 0.0))
    return xp.where(regular, terms, edge)


def as_beta(beta: float | str) -> float:
    """The number behind a beta or its name.

    >>> as_beta("kullback-leibler")
    1.0
    """
    if isinstance(beta, str):
        if beta not in NAMES:
            raise ValueError(f"beta={beta!r} is not a known loss: use a number >= 0 or one of {sorted(NAMES)}.")
        return NAMES[beta]
    try:
        value = float(beta)
    except (TypeError, ValueError):
        raise ValueError(f"beta={beta!r} is not a number: use a number >= 0 or one of {sorted(NAMES)}.") from None
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"beta={beta!r} is not a finite number >= 0: the beta-divergences used here need beta >= 0.")
    if value > LARGEST_BETA:
        raise ValueError(f"beta={beta!r} is above {LARGEST_BETA:g}: such powers of X leave the range of float64.")
    return value


def divergence_curvature(x: Array, y: Array, beta: float) -> Array:
    r"""Compute a second derivative of d_beta(x | y) in y that is never negative, for every entry.

    .. math:: (\beta - 1) y^{\beta-2} + (2 - \beta) x y^{\beta-3} \ (1 \le \beta \le 2), \quad
              y^{\beta-2} \text{ elsewhere}

    The second derivative itself where d_beta is convex in y; elsewhere what it is on average when x scatters around y.

    >>> x, y = np.array([4.0]), np.array([2.0])
    >>> divergence_curvature(x, y, 1.0), divergence_curvature(x, y, 0.0)
    (array([1.]), array([0.25]))
    """
    if beta == 1.0:
        return x / y / y
    if beta == 2.0:
        return namespace(y).ones_like(y)
    power = y ** (beta - 2.0)
    if 1.0 < beta < 2.0:
        return (beta - 1.0) * power + (2.0 - beta) * (x / y) * power
    return power
