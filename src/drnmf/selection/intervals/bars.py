"""Intervals of the components and contributions of a fit: draws, draws of draws, and what both say.

Percentiles of draws about a fit cover too little: factors that are not negative, and free to trade with one another,
scatter about the truth in another way than draws do about the fit. So the same is done once more, where the truth is
known: the fit is the truth of its draws, and the draws of a draw give an interval that covers it or does not. One
factor on the half-widths, on the scale of square roots, makes as many cover as should. A fit may be biased too, and its
draws are so once more: the middle of an interval lies beyond the estimate, seen from the median of the draws.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.special import ndtri

from drnmf.algorithms.initialize import Start
from drnmf.numerics import Vector
from drnmf.selection.consensus import FOUND
from drnmf.selection.entries import Indices
from drnmf.selection.intervals.refits import Refits, canonical
from drnmf.selection.intervals.scatter import Scatter, corrected, entries_of, scatter_of
from drnmf.selection.matching import cosine

INNER = 0.9
"""Percentiles between which half-widths are read off: further ones need more draws than there are."""
SHIFT = 2.0
"""Where the middle of an interval is: 0 at the median of the draws, 1 at the estimate, 2 as far on its other side: what
draws say of the bias of a fit is taken off."""
NEVER = 1e3
"""The factor of an entry that all draws leave where it is, and that is not the truth: larger than any other."""
SMALL = 0.01
"""Entries below this part of their component, or of their row, are not asked to cover: most of them are zeros."""


@dataclass(frozen=True)
class HalfWidths:
    """An interval before it is widened, on the scale of square roots."""

    # middle, below, above: the median of the draws, and how far the ends are from it
    middle: Vector
    below: Vector
    above: Vector
    estimate: Vector  # what the interval holds in any case

    @classmethod
    def of(cls, estimate: Vector, draws: Vector, level: float) -> HalfWidths:
        """Read half-widths off draws (k, ...) of an estimate."""
        part = 0.5 * (1.0 - INNER)
        low, middle, high = np.quantile(np.sqrt(draws), (part, 0.5, 1.0 - part), axis=0, method="weibull")
        scale = float(ndtri(0.5 + 0.5 * level) / ndtri(0.5 + 0.5 * INNER))
        return cls(middle, scale * (middle - low), scale * (high - middle), np.sqrt(estimate))

    @property
    def centre(self) -> Vector:
        """The middle of the interval."""
        return self.middle + SHIFT * (self.estimate - self.middle)

    def ends(self, factor: float) -> Vector:
        """Return the ends (2, ...) of the interval, in the unit of the estimate."""
        low = np.minimum(self.centre - factor * self.below, self.estimate)
        high = np.maximum(self.centre + factor * self.above, self.estimate)
        return np.stack([np.maximum(low, 0.0) ** 2, np.maximum(high, 0.0) ** 2])

    def needed(self, truth: Vector) -> Vector:
        """Compute the smallest factor with which an entry is covered."""
        off, other = np.sqrt(truth) - self.centre, self.estimate - self.centre
        side = np.where(off < 0, self.below, self.above)
        needed = np.divide(np.abs(off), side, out=np.full(off.shape, NEVER), where=side > 0)
        # what lies between the middle and the estimate is covered without any
        return np.where((off * other >= 0) & (np.abs(off) <= np.abs(other)), 0.0, needed)


@dataclass(frozen=True)
class Widening:
    """What the second level says."""

    factor: float  # on the half-widths
    coverage: float  # of intervals widened by the factor of the other truths, mean over the truths


def widening(needed: list[Vector], level: float) -> Widening:
    """Choose the factor with which the level is covered, by the factors that the entries of every truth need.

    >>> found = widening([np.linspace(0.01, 2.0, 200)] * 4, 0.9)
    >>> round(found.factor, 2), round(found.coverage, 2)
    (1.8, 0.9)
    """
    apart = [
        float(np.mean(one <= _factor([*needed[:k], *needed[k + 1 :]], level)))
        for k, one in enumerate(needed)
        if one.size
    ]
    return Widening(_factor(needed, level), float(np.mean(apart)))


def _factor(needed: list[Vector], level: float) -> float:
    return float(np.quantile(np.concatenate(needed), level, method="inverted_cdf"))


def asked(F: Vector) -> Any:
    """Tell which entries are to be covered: above 1 % of the sum of their row, which is a component or a sample."""
    return SMALL * F.sum(axis=1, keepdims=True) < F


DRAWS, TRUTHS, INNER_DRAWS = 200, 16, 40
"""Draws behind an interval; those that are truths of a second level, and the draws that each of these has."""
LEAST_DRAWS, LEAST_TRUTHS = 40, 4
"""Fewer say nothing."""
FOR_PHI = 6
"""Draws that tell how much of the noise a fit takes."""
FIRST = 8
"""Draws that tell what a draw costs, where time is short."""
LARGE_WORK = 1 << 30
"""Entries times components of all fits above which there are fewer of them, but no fewer than `LEAST_FITS`."""
LEAST_FITS = 400


@dataclass(frozen=True)
class Bars:
    """An interval for every entry of a factor.

    Attributes
    ----------
    estimate, lower, upper : of one shape; the interval always holds the estimate
    widening : the factor on the half-widths that the second level asked for; 1 where there was none
    coverage : of entries above 1 % in simulation; NaN where there was none
    """

    estimate: Vector
    lower: Vector
    upper: Vector
    widening: float = 1.0
    coverage: float = math.nan

    def reordered(self, order: Any, axis: int) -> Bars:
        """Take components in another order, or some of them only; they are along an axis."""
        estimate, lower, upper = (np.take(F, order, axis=axis) for F in (self.estimate, self.lower, self.upper))
        return replace(self, estimate=estimate, lower=lower, upper=upper)

    def holding(self, estimate: Vector) -> Bars:
        """Return intervals that hold another estimate."""
        lower, upper = np.minimum(self.lower, estimate), np.maximum(self.upper, estimate)
        return replace(self, estimate=estimate, lower=lower, upper=upper)


@dataclass(frozen=True, repr=False)
class Intervals:
    """How sure the factors of a fit are.

    Attributes
    ----------
    components : Bars of shape (r, n), every component sums to one
    contributions : Bars of shape (m, r), in the unit of X; None where they were not asked for
    level : nominal, what the intervals are to cover
    draws : how many there were
    truths : how many of them were truths of the second level, 0 where there was none
    found_in : (r,) int, draws whose fit has the component, with a cosine of at least 0.9
    noise : what was drawn, in words
    """

    components: Bars
    contributions: Bars | None
    level: float
    draws: int
    truths: int
    found_in: Indices
    noise: str

    def around(self, order: Indices, H: Vector, W: Vector) -> Intervals:
        """Take components in another order, and let the intervals hold other estimates, near those of the fit."""
        parts = None if self.contributions is None else self.contributions.reordered(order, 1).holding(W)
        components = self.components.reordered(order, 0).holding(H)
        return replace(self, components=components, contributions=parts, found_in=self.found_in[order])

    def __repr__(self) -> str:
        return f"<{self.summary()}>"

    def summary(self) -> str:
        """Say what the intervals cover, by how many draws, and of what."""
        nominal = f"Intervals: nominal {percent(self.level)}"
        drawn = f"from {self.draws} draws of X ({self.noise})"
        if not self.truths:
            return f"{nominal}, {drawn}; what they cover was not simulated."
        parts = [f"components {percent(self.components.coverage)}, {self.components.widening:.2f} times as wide"]
        if self.contributions is not None:
            bars = self.contributions
            parts.append(f"contributions {percent(bars.coverage)}, {bars.widening:.2f} times")
        return f"{nominal}, covers in simulation: {'; '.join(parts)}; {drawn}."


def percent(share: float) -> str:
    """Write a share in whole percent.

    >>> percent(0.895)
    '90 %'
    """
    return f"{100.0 * share:.0f} %"


@dataclass(frozen=True)
class Draws:
    """What is asked of the draws."""

    level: float = 0.9  # what intervals are to cover
    # draws, truths: how many to make, and how many of them are truths of the second level
    draws: int = DRAWS
    truths: int = TRUTHS
    seed: int = 0  # of all of them
    known: bool = False  # whether the weights of X are those of uncertainties
    left: Callable[[], float] = lambda: math.inf  # seconds that may still be taken
    tell: Callable[[float, str], None] = lambda share, detail: None  # called with a share of the work and words on it


def error_bars(refits: Refits, start: Start, ask: Draws) -> Intervals | None:
    """Draw X again from the fit and its noise, fit each draw from W and H near a fit of X, and find intervals.

    None where there was no time for 40 draws.
    """
    _, weight = entries_of(refits.given)
    fit = refits.fit(refits.given.X, start)
    level = Level(refits, fit, scatter_of(refits.given, refits.omega, fit[0] @ fit[1], ask.known), ask.seed)
    level = level.settled(weight)
    began = time.perf_counter()
    drawn = list(level.draws(range(min(FIRST, ask.draws))))
    # a clock may stand still between two looks, and without a limit what is left is inf
    fits = int(min(ask.left() / max(time.perf_counter() - began, 1e-9), 1e9) * len(drawn)) + len(drawn)
    fits = min(fits, max(LARGE_WORK // (fit[0].shape[0] * fit[1].size), LEAST_FITS))
    most, truths = affordable(ask.draws, ask.truths, fits)
    if most < min(LEAST_DRAWS, ask.draws):
        return None
    work = most + truths * INNER_DRAWS
    for found in level.draws(range(len(drawn), most)):
        drawn.append(found)
        ask.tell(1.0 / work, f"draw {len(drawn)} of {most}")
    needed = []
    for k, found in enumerate(drawn[:truths]):
        needed.append(level.needed(k, found, weight, ask.level))
        ask.tell(INNER_DRAWS / work, f"truth {k + 1} of {truths}")
    return _assembled(level, drawn, needed, ask)


def affordable(draws: int, truths: int, fits: int) -> tuple[int, int]:
    """Divide a number of fits among draws and the truths of the second level.

    >>> affordable(200, 16, 10000), affordable(200, 16, 400), affordable(200, 16, 150), affordable(200, 0, 400)
    ((200, 16), (100, 7), (150, 0), (200, 0))
    """
    if not truths or fits >= draws + truths * INNER_DRAWS:
        return min(fits, draws), min(truths, draws)
    most = min(max(fits // 4, LEAST_DRAWS), draws)
    truths = min((fits - most) // INNER_DRAWS, truths, most)
    return (most, truths) if truths >= LEAST_TRUTHS else (min(fits, draws), 0)


@dataclass(frozen=True)
class Level:
    """A fit, its noise, and draws from both."""

    refits: Refits  # how draws are fitted
    fit: Start  # W and H
    scatter: Scatter  # the noise
    seed: int  # of the draws
    # phi over what the entries say without a correction; None where phi is not read off them
    ratio: float | None = None

    @cached_property
    def mean(self) -> Vector:
        """What entries are drawn about, (m, n)."""
        return np.asarray(self.fit[0] @ self.fit[1])

    def drawn(self, *place: int) -> Vector:
        """Draw X, by its place among the draws."""
        return self.scatter.draw(self.mean, (self.seed, *place))

    def fits(self, places: Sequence[tuple[int, ...]]) -> Iterator[Start]:
        """Fit draws, from this fit."""
        return self.refits.again([partial(self.drawn, *place) for place in places], [self.fit] * len(places))

    def draws(self, some: Iterable[int]) -> Iterator[Start]:
        """Fit some of the draws behind the intervals."""
        return self.fits([(1, k) for k in some])

    def settled(self, weight: Vector) -> Level:
        """Correct the noise by what fits of draws take of it."""
        if not self.scatter.free:
            return self
        first = replace(self, scatter=self.scatter.first)
        places = [(0, k) for k in range(FOR_PHI)]
        again = [
            self.scatter.dispersion(first.drawn(*place), W @ H, weight)
            for place, (W, H) in zip(places, first.fits(places), strict=True)
        ]
        found = corrected(self.scatter, again)
        return replace(self, scatter=found, ratio=None if found.exact else found.phi / self.scatter.phi)

    def needed(self, k: int, truth: Start, weight: Vector, level: float) -> tuple[Vector, Vector]:
        """Find the factors that intervals about a draw need to cover this fit, the truth of all draws: of W and H."""
        scatter = self.scatter
        if self.ratio is not None:
            scatter = replace(
                scatter, phi=self.ratio * scatter.dispersion(self.drawn(1, k), truth[0] @ truth[1], weight)
            )
        inner = Level(self.refits, truth, scatter, self.seed)
        widths = half_widths(truth, list(inner.fits([(2, k, j) for j in range(INNER_DRAWS)])), level)
        W, H = (one.needed(F)[asked(F)] for one, F in zip(widths, canonical(self.fit), strict=True))
        return W, H


def half_widths(fit: Start, drawn: list[Start], level: float) -> tuple[HalfWidths, HalfWidths]:
    """Read half-widths of W and of H off draws."""
    same = [canonical(one) for one in drawn]
    W, H = canonical(fit)
    return (
        HalfWidths.of(W, np.stack([one[0] for one in same]), level),
        HalfWidths.of(H, np.stack([one[1] for one in same]), level),
    )


def _assembled(level: Level, drawn: list[Start], needed: list[tuple[Vector, Vector]], ask: Draws) -> Intervals:
    widths, made = half_widths(level.fit, drawn, ask.level), []
    for k, (half, F) in enumerate(zip(widths, canonical(level.fit), strict=True)):
        wide = widening([one[k] for one in needed], ask.level) if needed else Widening(1.0, math.nan)
        low, high = half.ends(wide.factor)
        made.append(Bars(F, low, high, wide.factor, wide.coverage))
    W, H = made
    again = np.stack([np.diagonal(cosine(level.fit[1], one[1])) for one in drawn]) >= FOUND
    return Intervals(H, W, ask.level, len(drawn), len(needed), again.sum(axis=0), level.scatter.words)
