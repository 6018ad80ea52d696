"""The last stage of a search: W of every row under the components, within the time left, and where it does not fit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.entries import row_blocks
from drnmf.losses.base import Loss
from drnmf.numerics import ENCODE_ITERATIONS, EPS, Array, Vector
from drnmf.problem.problem import Problem
from drnmf.selection.entries import Indices
from drnmf.selection.stages.schedule import Schedule
from drnmf.solve.encode import Encoder

BINS = 20
"""Groups of entries with like fitted values."""

LEAST_LEVEL = 0.01
"""Part of the mean below which fitted values say nothing of how residuals grow with them."""


@dataclass(frozen=True)
class Residuals:
    """Losses and sums along both sides of X."""

    # rows, columns: (m,) and (n,), mean loss of an entry of the row or column
    rows: Vector
    columns: Vector
    # row_sums, column_sums: (m,) and (n,), sums of X
    row_sums: Vector
    column_sums: Vector
    # levels, squares: fitted values in groups of equal size, and the mean squared residual of each group
    levels: Vector
    squares: Vector
    expected: Vector  # the variance that the loss expects at each level, scaled to lie among `squares`


def residuals(X: Any, W: Array, H: Array, loss: Loss) -> Residuals:
    """Compute the loss of every row and column of X (m, n) against WH, a block of rows at a time."""
    m, n = X.shape
    rows, columns, heights, widths = np.zeros(m), np.zeros(n), np.zeros(m), np.zeros(n)
    floor = EPS * max(float(X.mean() if sp.issparse(X) else np.nanmean(X)), np.finfo(np.float64).tiny)
    fitted, squared = [], []
    step = max(1, m * n // 200_000)  # entries for the groups; all of a large X would only cost memory
    for at in row_blocks((m, n), 64):
        x = np.asarray(X[at].toarray() if sp.issparse(X) else X[at], dtype=np.float64)
        v = np.maximum(np.asarray(W[at], dtype=np.float64) @ np.asarray(H, dtype=np.float64), floor)
        x = np.where(np.isnan(x), v, x)  # what was not observed fits as it is
        d = loss.terms(np.maximum(x, floor) if loss.infinite_at_zero else x, v)
        rows[at], heights[at] = d.mean(axis=1), x.sum(axis=1)
        columns += d.sum(axis=0)
        widths += x.sum(axis=0)
        fitted.append(v.ravel()[::step])
        squared.append(((x - v) ** 2).ravel()[::step])
    levels, squares = grouped(np.concatenate(fitted), np.concatenate(squared))
    return Residuals(rows, columns / m, heights, widths, levels, squares, _expected(levels, squares, loss))


def _expected(levels: Vector, squares: Vector, loss: Loss) -> Vector:
    """Variances of the loss at the levels, times the geometric mean of what is seen over them.

    >>> from drnmf.losses.beta import Beta
    >>> _expected(np.array([1.0, 2.0, 4.0]), np.array([3.0, 6.0, 12.0]), Beta(1.0)).round(6).tolist()
    [3.0, 6.0, 12.0]
    """
    logs = -np.log(loss.curvature(levels, levels))
    seen = squares > 0
    return np.exp(logs + (np.log(squares[seen]) - logs[seen]).mean()) if seen.any() else np.zeros_like(levels)


def grouped(fitted: Vector, squares: Vector) -> tuple[Vector, Vector]:
    """Compute means of fitted values and of squared residuals over groups of similar fitted values, of one size."""
    groups = _groups(fitted)
    return np.array([fitted[group].mean() for group in groups]), np.array([squares[group].mean() for group in groups])


def _groups(fitted: Vector) -> list[Indices]:
    order = np.argsort(fitted, kind="stable")
    return [group for group in np.array_split(order, BINS) if group.size]


def binned_slope(x: Vector, fitted: Vector) -> float:
    """Fit a line to log mean squared residual against log mean fitted value over groups of one size; NaN without one.

    A group that is predicted as next to nothing, and is nothing, says that its entries are zero, not how they scatter:
    its squares are those of the fitted values themselves, whatever the noise, and far out on the logarithmic scale.

    >>> v = np.linspace(1, 100, 2000)
    >>> round(binned_slope(v + v**0.75, v), 1)
    1.5
    """
    if not fitted.size:
        return math.nan
    levels, means = grouped(fitted, (x - fitted) ** 2)
    told = np.array([bool(np.any(x[group] != 0.0)) for group in _groups(fitted)])
    used = told & (levels > LEAST_LEVEL * float(fitted.mean())) & (means > 0)
    at, y = np.log(levels[used]), np.log(means[used])
    spread = float(((at - at.mean()) ** 2).sum()) if at.size > 1 else 0.0
    return float(((at - at.mean()) * (y - y.mean())).sum() / spread) if spread > 1e-12 else math.nan


LAST = "contributions"
"""The stage that makes results of the runs: W, and where it does not fit."""
PARTS = 20
"""Blocks of rows, at most: so often progress is told."""
LEAST_ENTRIES = 1 << 17
"""Entries of a block, at least: fewer are swept no faster."""
_PROBE = 2
"""Steps that tell what a step costs."""
FOR_W = 0.8
"""Part of the stage that is for W; the rest is for the residuals."""
_BEYOND = 0.05
"""Part of the limit that W may take even where nothing is left: it is of no use after two steps."""
_USED_UP = 0.7
"""A block that took this part of the time of all its steps was not over before the last one."""


def contributions(encoder: Encoder, problem: Problem, schedule: Schedule) -> tuple[Array, int]:
    """Compute W (m, r); rows of which nothing is observed get the mean of the others.

    Where the schedule, which is told of every block, has a limit, the steps of a row are as many as there is time for:
    with W comes how many rows would have moved on, had there been time.
    """
    (m, _), most = problem.data.shape, min(encoder.max_iter, ENCODE_ITERATIONS)
    encoder = replace(encoder, mean_row=np.full(encoder.components.shape[0], -1.0))  # no W is negative
    work, found, cut, cost = FOR_W * schedule.planned(LAST), list[Array](), 0, 0.0
    for at in _blocks(problem.data.shape):
        data, steps = problem.rows(at, encoder.objective.mean).data, most
        if np.isfinite(schedule.limit):
            if not cost:
                before = schedule.seconds
                replace(encoder, max_iter=_PROBE).rows(data)
                cost = (schedule.seconds - before) / (_PROBE * (at.stop - at.start))
            time = FOR_W * max(schedule.left, _BEYOND * schedule.limit * (m - at.start) / m)
            steps = min(most, max(_PROBE, int(time / max(cost * (m - at.start), 1e-12))))
        before = schedule.seconds
        found.append(np.asarray(replace(encoder, max_iter=steps).rows(data, at.start)))
        if steps < most and schedule.seconds - before > _USED_UP * cost * steps * (at.stop - at.start):
            cut += at.stop - at.start
        schedule.advance(LAST, work * (at.stop - at.start) / m, f"row {at.stop} of {m}")
    W = np.concatenate(found)
    unknown = W[:, 0] < 0
    if unknown.any():
        W[unknown] = W[~unknown & (W.sum(axis=1) > 0)].mean(axis=0)
    return W, cut


def _blocks(shape: tuple[int, int]) -> Iterator[slice]:
    m, n = shape
    step = max(-(-m // PARTS), -(-LEAST_ENTRIES // n))
    return (slice(first, min(first + step, m)) for first in range(0, m, step))
