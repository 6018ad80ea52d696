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
    H, W = point.states
    passes, ahead_H, nu_H = task.rule.schedule(H)
    _, ahead_W, nu_W = task.rule.schedule(W)
    sweep = descent.iterate(passes, (float(ahead_H), float(ahead_W)))
    states, steps = (Momentum(H.F, nu_H, H.steps + 1), Momentum(W.F, nu_W, W.steps + 1)), point.steps + 1
    return Point(point.blocks, sweep, states, point.sweeps + 2, point.weights, steps, point.measures, point.penalty)
