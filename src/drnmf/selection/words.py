"""What a profile says in words, and the applied check: log squared residuals grow like 2 - beta times log fitted."""

from __future__ import annotations

import math

import numpy as np

from drnmf.losses.base import Loss
from drnmf.losses.beta import Beta
from drnmf.losses.names import noise_of
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.numerics import Vector
from drnmf.selection.choose import Candidate
from drnmf.selection.entries import Facts

DISAGREE = 0.5
"""Difference of two powers of the mean above which one of the two readings is wrong."""


def describe(facts: Facts, beta: float, slope: float, best: Candidate, counts: bool, middle: float) -> tuple[str, ...]:
    """Describe the noise of X, and what the residuals say."""
    notes = [f"The variance grows like mu^{2.0 - beta:.3g}: {noise_of(Beta(beta))}."]
    if best.counts and counts:
        notes.append(f"X holds counts (multiples of {facts.unit:g}): {best.name} is the likeliest noise.")
    elif best.counts:
        notes.append(
            f"{best.name} is the likeliest noise; at means of {middle:.3g} that is a relative error, not counts."
        )
    expected = power_at(best.loss, middle)
    if math.isfinite(slope):
        notes.append(f"Squared residuals grow like mu^{slope:.2f}.")
        if abs(slope - expected) > DISAGREE:
            notes.append(
                f"{best.name} expects mu^{expected:.2f}: held-out entries are believed, because the slope of residuals "
                "follows few large ones."
            )
    return tuple(notes)


def power_at(loss: Loss, middle: float) -> float:
    """Compute the power of the mean with which the variance of a loss grows, at a mean.

    >>> power_at(NegativeBinomial(4.0), 4.0)
    1.5
    """
    if isinstance(loss, NegativeBinomial):
        return (1.0 + 2.0 * middle / loss.size) / (1.0 + middle / loss.size)
    return 2.0 - float(loss.beta)


def structured(share: float, rank: int, much: bool) -> tuple[str, ...]:
    """Say that what is left at this rank is not noise, where that is so."""
    if not much:
        return ()
    return (
        f"{100 * share:.0f} % of what rank {rank} leaves of held-out entries is explained by twice as many components: "
        "it is structure more than noise, and no loss is excluded by it.",
    )


BINS = 20
"""Groups of entries with like fitted values."""


def grouped(fitted: Vector, squares: Vector) -> tuple[Vector, Vector]:
    """Compute means of fitted values and of squared residuals over groups of similar fitted values, of one size."""
    groups = [group for group in np.array_split(np.argsort(fitted, kind="stable"), BINS) if group.size]
    return np.array([fitted[group].mean() for group in groups]), np.array([squares[group].mean() for group in groups])


def binned_slope(fitted: Vector, squares: Vector) -> float:
    """Fit a line to log mean square against log mean fitted value over groups of one size; NaN where all are alike.

    >>> v = np.linspace(1, 100, 2000)
    >>> round(binned_slope(v, v**1.5), 1)
    1.5
    """
    levels, means = grouped(fitted, squares)
    used = (levels > 0) & (means > 0)
    x, y = np.log(levels[used]), np.log(means[used])
    spread = float(((x - x.mean()) ** 2).sum()) if x.size > 1 else 0.0
    return float(((x - x.mean()) * (y - y.mean())).sum() / spread) if spread > 1e-12 else math.nan
