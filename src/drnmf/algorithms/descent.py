"""Whole iterations of coordinate descent in one call of the backend.

Where X is small a sweep takes a few microseconds, and what stands around it (the question, the parts, the point) ten
times as long. Under beta = 2 alone no step is ever taken back and nobody looks between two of them, so the compiled
backend makes all of an iteration at once, from the same kernels: `iterate` comes to the same bits.
"""

from __future__ import annotations

import numpy as np

from drnmf.algorithms.iteration import Point, Task
from drnmf.algorithms.updates.extrapolated import Momentum
from drnmf.algorithms.updates.hals import HALS
from drnmf.backends.base import Descending, Descends
from drnmf.numerics import Vector


def begin(task: Task, point: Point, weights: Vector) -> Descends | None:
    """Prepare whole iterations in one call each, where the rule and the backend of X have them.

    They write over all blocks, so nobody may keep an earlier one. Before the first step the last point of a block is
    the block itself, and the step cannot yet be written over it.
    """
    free = task.in_place and not task.objective.penalties and all(rule is task.rule for rule in task.rules)
    if not (free and isinstance(task.rule, HALS) and point.steps and point.sweep.gram is not None):
        return None
    omega, c, lasts = task.objective.omega, task.coefficients(weights), tuple(state.F for state in point.states)
    if len(omega) > 1 or any(np.may_share_memory(F, last) for F, last in zip(point.blocks, lasts, strict=True)):
        return None
    return task.data.descent(Descending(omega, float(c[0]), point.blocks, lasts, point.sweep, task.floors))


def descend(task: Task, point: Point, descent: Descends) -> Point:
    """Update all blocks in one call: what `iterate` does, to the last bit."""
    assert isinstance(task.rule, HALS)
    schedules = [task.rule.schedule(state) for state in point.states]
    sweep = descent.iterate(schedules[0][0], tuple(float(momentum) for _, momentum, _ in schedules))
    every = zip(point.states, schedules, strict=True)
    states = tuple(Momentum(state.F, nu, state.steps + 1) for state, (_, _, nu) in every)
    steps, sweeps = point.steps + 1, point.sweeps + len(states)
    return Point(point.blocks, sweep, states, sweeps, point.weights, steps, point.measures, point.penalty)
