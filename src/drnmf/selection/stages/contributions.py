"""W of every row of X under the components of a discovery, a block of rows at a time, within the time that is left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from drnmf.numerics import ENCODE_ITERATIONS, Array
from drnmf.problem.problem import Problem
from drnmf.selection.stages.schedule import Schedule
from drnmf.solve.encode import Encoder

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
