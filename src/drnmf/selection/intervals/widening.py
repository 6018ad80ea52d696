"""From draws to intervals on the scale of square roots, and how much wider they must be to cover what they should.

Percentiles of draws about a fit cover too little: factors that are not negative, and free to trade with one another,
scatter about the truth in another way than draws do about the fit. So the same is done once more, where the truth is
known: the fit is the truth of its draws, and the draws of a draw give an interval that covers it or does not. One
factor on the half-widths makes as many cover as should. A fit may be biased too, and its draws are so once more: the
middle of an interval lies beyond the estimate, seen from the median of the draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from drnmf.numerics import Vector

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
    """An interval before it is widened, on the scale of square roots.

    Attributes
    ----------
    middle, below, above : the median of the draws, and how far the ends are from it
    estimate : what the interval holds in any case
    """

    middle: Vector
    below: Vector
    above: Vector
    estimate: Vector

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
    """What the second level says.

    Attributes
    ----------
    factor : on the half-widths
    coverage : of intervals widened by the factor of the other truths, mean over the truths
    """

    factor: float
    coverage: float


def widening(needed: list[Vector], level: float) -> Widening:
    """Choose the factor with which the level is covered.

    Parameters
    ----------
    needed : for every truth, the factors that its entries need
    level : what is to be covered

    Examples
    --------
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
