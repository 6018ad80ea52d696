r"""Omega = [a, b]: every beta of an interval at once, from a few knots and a bound that covers the rest.

For fixed V, d_beta(x|y) is the integral of (x - u) u^(beta-2) from y to x, so log D_beta(X, V) is convex in beta.
Between two knots a < b, with s = (beta - a) / (b - a),

.. math:: \bar D_\beta \le \max(\bar D_a, \bar D_b) \cdot e_a^{1-s} e_b^s / e_\beta :

a finite set of knots bounds the whole interval. The exchange method solves on the knots, finds the worst beta of the
interval, makes it a knot if it exceeds the knots' maximum, and repeats.

What is printed is the same thought on the grid, where every loss is computed anyway. Between two of its points log
D_beta of the fit lies below its chord, and log D_beta of every reference fit, the smallest of which is e(beta), above
the chords of the two neighbouring pieces: the largest difference is a number that no beta between them exceeds.
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

    def points(self) -> tuple[float, ...]:
        """The beta at which losses are computed: those looked at, and one close to each end, where a chord is due."""
        near = 0.1 * (self.high - self.low) / (self.grid - 1)
        return tuple(sorted((*self.betas(), self.low + near, self.high - near)))


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


def chord_bound(points: Vector, losses: Vector, references: Vector, floors: Vector) -> float:
    """Bound D_beta / e(beta) from the first point to the last, by convexity of the logarithms between them.

    `points` are four or more ascending beta, `losses` D_beta of the fit, `references` (s, k) D_beta of every reference
    fit; e(beta) is the smallest of them, or the floor if that is larger.

    >>> beta = np.linspace(0.0, 2.0, 5)
    >>> round(chord_bound(beta, np.exp(beta), np.ones((1, 5)), np.zeros(5)), 6)  # largest at the end
    7.389056
    """
    with np.errstate(divide="ignore"):
        fit, below, least = (np.log(part) for part in (losses, references, np.maximum(floors, 0.0)))
    largest = np.minimum(_largest_difference(points, fit, below), _largest_difference(points, fit, least[None]))
    return float(np.exp(largest.max()))


def _largest_difference(points: Vector, upper: Vector, lower: Vector) -> Vector:
    """How far the chord of one convex function may be above each of others (s, k), in every piece: (s, k - 1).

    Over a piece another function is above the chord of the piece before, drawn on, and that of the piece after, drawn
    back. The chord less the larger of the two is concave and made of two lines: largest at an end or where they meet.
    """
    width = np.diff(points)
    with np.errstate(invalid="ignore", divide="ignore"):  # the logarithm of zero, parallel lines
        slopes = np.diff(lower, axis=1) / width
        left = np.full_like(slopes, -np.inf)  # slopes, at the left end of a piece and at its right end
        right = np.full_like(slopes, np.inf)
        left[:, 1:], right[:, :-1] = slopes[:, :-1], slopes[:, 1:]
        start, end = lower[:, :-1], lower[:, 1:]
        meet = np.clip((end - start - right * width) / (left - right), 0.0, width)
        meet = np.where(np.isfinite(meet), meet, 0.0)  # parallel lines, or only one of them
        found = np.full_like(slopes, -np.inf)
        for at in (0.0 * meet, meet, 0.0 * meet + width):
            drawn_on = np.where(np.isfinite(left), start + left * at, -np.inf)
            drawn_back = np.where(np.isfinite(right), end - right * (width - at), -np.inf)
            chord = upper[:-1] + np.diff(upper) / width * at
            found = np.fmax(found, chord - np.maximum(drawn_on, drawn_back))
    return np.where(np.isnan(found) | (found == -np.inf), np.inf, found)


def coverage(interval: Interval, losses: Vector, references: Vector, floors: Vector, knot_maximum: float) -> Coverage:
    """The bound of section 8 from D_beta of the fit (k,) at the points of an interval (`Interval.points`).

    references, floors : (s, k) and (k,), as in `chord_bound`
    knot_maximum : the largest scaled loss at a knot
    """
    points, betas = np.array(interval.points()), np.array(interval.betas())
    least = np.maximum(references.min(axis=0), floors)
    bound = chord_bound(points, losses, references, floors)
    bound = max(bound, float((losses / least).max()), knot_maximum) * (1.0 + 1e-9)  # rounding
    at = np.searchsorted(points, betas)
    return Coverage(betas, losses[at], least[at], bound, bound / knot_maximum)
