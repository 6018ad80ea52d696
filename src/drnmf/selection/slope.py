"""The applied check: the slope of log squared residual against log fitted value is 2 - beta."""

from __future__ import annotations

import math

import numpy as np

from drnmf.numerics import Vector

BINS = 20
"""Groups of entries with like fitted values."""


def binned_slope(fitted: Vector, squares: Vector) -> float:
    """Fit a line to log mean square against log mean fitted value over groups of one size; NaN where all are alike.

    >>> v = np.linspace(1, 100, 2000)
    >>> round(binned_slope(v, v**1.5), 1)
    1.5
    """
    order = np.argsort(fitted, kind="stable")
    groups = [group for group in np.array_split(order, min(BINS, max(fitted.size, 1))) if group.size]
    means = np.array([(fitted[group].mean(), squares[group].mean()) for group in groups]).reshape(-1, 2)
    means = means[(means > 0).all(axis=1)]
    x, y = np.log(means).T
    spread = float(((x - x.mean()) ** 2).sum()) if x.size > 1 else 0.0
    return float(((x - x.mean()) * (y - y.mean())).sum() / spread) if spread > 1e-12 else math.nan
