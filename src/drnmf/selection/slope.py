"""The applied check: the slope of log squared residual against log fitted value is 2 - beta."""

from __future__ import annotations

import math

import numpy as np

from drnmf.algorithms.result import Result
from drnmf.backends.base import Data
from drnmf.numerics import Vector
from drnmf.selection.walk import on_host

COLUMNS = 400
"""Columns of X that are looked at, evenly spaced."""

BINS = 20
"""Groups of entries with like fitted values."""


def residual_slope(data: Data, run: Result) -> float:
    """Compute the slope by least squares over groups of entries with like fitted values; NaN where all are alike."""
    W, H = on_host(data, (run.W, run.H))
    some = np.unique(np.linspace(0, data.shape[1] - 1, COLUMNS).astype(int))
    X = np.stack([data.column(int(j)) for j in some], axis=1)
    V = W.astype(np.float64) @ H[:, some].astype(np.float64)
    seen = np.isfinite(X)
    return binned_slope(V[seen], (X[seen] - V[seen]) ** 2)


def binned_slope(fitted: Vector, squares: Vector) -> float:
    """Fit a line to log mean square against log mean fitted value over groups of one size.

    >>> v = np.linspace(1, 100, 2000)
    >>> round(binned_slope(v, v**1.5), 1)
    1.5
    """
    order = np.argsort(fitted, kind="stable")
    groups = [group for group in np.array_split(order, min(BINS, fitted.size)) if group.size]
    means = np.array([(fitted[group].mean(), squares[group].mean()) for group in groups]).reshape(-1, 2)
    means = means[(means > 0).all(axis=1)]
    x, y = np.log(means).T
    spread = float(((x - x.mean()) ** 2).sum()) if x.size > 1 else 0.0
    return float(((x - x.mean()) * (y - y.mean())).sum() / spread) if spread > 1e-12 else math.nan
