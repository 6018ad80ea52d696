r"""Omega = [a, b]: every beta of an interval at once, from a few knots and a bound that covers the rest.

For fixed V, d_beta(x|y) is the integral of (x - u) u^(beta-2) from y to x, so log D_beta(X, V) is convex in beta.
Between two knots a < b, with s = (beta - a) / (b - a),

.. math:: \bar D_\beta \le \max(\bar D_a, \bar D_b) \cdot e_a^{1-s} e_b^s / e_\beta :

a finite set of knots bounds the whole interval, by a factor that can be printed. The exchange method solves on the
knots, finds the worst beta of the interval, makes it a knot if it exceeds the knots' maximum, and repeats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from drnmf.losses.beta import as_beta
from drnmf.numerics import Vector


@dataclass(frozen=True)
class Interval:
    """All beta from `low` to `high`.

    knots : how many knots the first round has, evenly spaced, both ends among them
    tol : a beta becomes a knot when its scaled loss exceeds the knots' maximum by more than this fraction
    grid : how many beta, evenly spaced, are looked at
    max_knots : where the exchange ends in any case

    >>> Interval(0, 2).first_knots()
    (0.0, 1.0, 2.0)
    >>> str(Interval(0, 2)), Interval.parse("0.5..2")
    ('0..2', Interval(low=0.5, high=2.0, knots=3, tol=0.001, grid=81, max_knots=9))
    """

    low: float
    high: float
    knots: int = 3
    tol: float = 1e-3
    grid: int = 81
    max_knots: int = 9

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and 0 <= self.low < self.high):
            raise ValueError(f"Interval({self.low}, {self.high}): the ends must be finite with 0 <= low < high.")
        as_beta(self.high)
        if self.knots < 2 or self.grid < self.knots or self.max_knots < self.knots or not self.tol > 0:
            raise ValueError(f"{self!r}: needs at least 2 knots, grid >= knots, max_knots >= knots and tol > 0.")

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}"

    @classmethod
    def parse(cls, text: str) -> Interval:
        """From "low..high", as the command line writes it."""
        low, _, high = text.partition("..")
        try:
            return cls(float(low), float(high))
        except ValueError as error:
            raise ValueError(f"{text!r} is not an interval: write low..high, for example 0..2 ({error}).") from None

    def first_knots(self) -> tuple[float, ...]:
        """Evenly spaced, both ends among them."""
        return tuple(np.linspace(self.low, self.high, self.knots).tolist())

    def betas(self) -> tuple[float, ...]:
        """The beta that are looked at."""
        return tuple(np.linspace(self.low, self.high, self.grid).tolist())


def as_interval(betas: object) -> Interval | None:
    """The interval behind `betas`, an Interval or its text "low..high"; None where it is a set of numbers."""
    if isinstance(betas, str) and ".." in betas:
        return Interval.parse(betas)
    return betas if isinstance(betas, Interval) else None


@dataclass(frozen=True)
class Coverage:
    """What the knots say about the whole interval.

    betas, losses, references, scaled_losses : the grid, D_beta and e(beta) there, and their ratio
    bound : no scaled loss of the interval exceeds it (e(beta) being the smallest D_beta among the reference fits)
    factor : bound / the knots' maximum, how much the knots leave open
    added : (iteration, beta) of every knot that the exchange added
    """

    betas: Vector
    losses: Vector
    references: Vector
    bound: float
    factor: float
    added: tuple[tuple[int, float], ...] = field(default=())

    @property
    def scaled_losses(self) -> Vector:
        return self.losses / self.references

    @property
    def worst(self) -> float:
        """The beta of the grid with the largest scaled loss."""
        return float(self.betas[int(np.argmax(self.scaled_losses))])


def bound_factors(betas: Vector, references: Vector, knots: Vector, knot_references: Vector) -> Vector:
    """e_a^(1-s) e_b^s / e(beta) for every beta of the grid between its neighbouring knots a and b; 1 at a knot."""
    order = np.argsort(knots)
    x, y = knots[order], np.log(knot_references[order])
    return np.exp(np.interp(betas, x, y) - np.log(references))


def coverage(
    interval: Interval, losses: Vector, references: Vector, knots: Vector, knot_references: Vector, knot_losses: Vector
) -> Coverage:
    """The bound of section 8 from what the sweeps said at the grid and at the knots."""
    betas = np.array(interval.betas())
    scaled = knot_losses / knot_references
    order = np.argsort(knots)
    # each beta is bounded by the larger of its two neighbouring knots
    right = np.clip(np.searchsorted(knots[order], betas, side="left"), 1, knots.size - 1)
    neighbours = np.maximum(scaled[order][right - 1], scaled[order][right])
    bound = float(np.max(neighbours * bound_factors(betas, references, knots, knot_references)))
    bound = max(bound, float(scaled.max())) * (1.0 + 1e-9)  # rounding
    return Coverage(betas, losses, references, bound, bound / float(scaled.max()))
