r"""Faster iterations: every second one, the point further along the direction of the last two is tried.

Alternating steps of second order solve for each block what the others leave, and where components overlap they
move together, slowly, in nearly the same direction for hundreds of iterations. With F the blocks now and F~ those two
iterations before, the run tries

.. math:: \max(F + s (F - \tilde F), floor)

for all blocks at once, at the cost of one sweep, which is the one that the next iteration begins from. A point that is
lower is taken and s doubles; elsewhere the run continues from where it stands and s halves.

Coordinate descent under beta = 2 alone is made faster in another way: whole iterations in one call of the backend.
Where X is small a sweep takes a few microseconds, and what stands around it (the question, the parts, the point) ten
times as long. No step is ever taken back there and nobody looks between two of them, so the compiled backend makes all
of an iteration at once, from the same kernels: `iterate` comes to the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from drnmf.algorithms.iteration import Point, Task, swept
from drnmf.algorithms.updates.hals import HALS
from drnmf.algorithms.updates.monotone import Momentum
from drnmf.backends.base import Descending
from drnmf.backends.modes import Factors
from drnmf.numerics import EXTRAPOLATE_EVERY, FIRST_LENGTH, LEAST_LENGTH, Array, Vector, namespace


@dataclass(frozen=True)
class Direction:
    """From where the direction is measured, after how many steps, and how far along it the next trial is."""

    blocks: Factors
    steps: int
    length: float = FIRST_LENGTH

    def at(self, point: Point, times: float) -> Direction:
        """The same from another point."""
        return Direction(point.blocks, point.steps, max(LEAST_LENGTH, times * self.length))


def accelerated(task: Task, point: Point, weights: Vector, since: Direction | None) -> tuple[Point, Direction | None]:
    """Try the point further along, where the rules of all blocks and the number of steps allow it.

    since : what the call after the iteration before returned

    Returns the point further along if what is minimised is lower there, else the same, and `since` for the next call.
    """
    rank, omega = point.blocks[0].shape[0], task.objective.omega
    if not (task.fixed and all(rule.wants(point.steps, rank, omega).acceleration for rule in task.rules)):
        return point, None
    if since is None:
        return point, Direction(point.blocks, point.steps)
    if point.steps - since.steps < EXTRAPOLATE_EVERY:
        return point, since
    ahead = _ahead(task, point, weights, since)
    if _watched(task, ahead, weights) < _watched(task, point, weights):
        return ahead, since.at(ahead, 2.0)
    return replace(point, sweeps=ahead.sweeps), since.at(point, 0.5)


def _ahead(task: Task, point: Point, weights: Vector, since: Direction) -> Point:
    every = zip(task.data.spaces, task.floors, point.blocks, since.blocks, strict=True)
    blocks = tuple(space.map(partial(_moved, since.length, floor), F, before) for space, floor, F, before in every)
    return swept(task, blocks, weights, point.states, point.sweeps + 1, point.steps)


def _moved(length: float, floor: float, F: Array, before: Array) -> Array:
    moved: Array = namespace(F).clip(F + length * (F - before), floor, None)
    return moved


def _watched(task: Task, point: Point, weights: Vector) -> float:
    return task.watched(weights, point.sweep.losses, point.penalty)


def begin_descent(task: Task, point: Point, weights: Vector) -> Any:
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


def descend(task: Task, point: Point, descent: Any) -> Point:
    """Update all blocks in one call: what `iterate` does, to the last bit."""
    assert isinstance(task.rule, HALS)
    H, W = point.states
    passes, ahead_H, nu_H = task.rule.schedule(H)
    _, ahead_W, nu_W = task.rule.schedule(W)
    sweep = descent.iterate(passes, (float(ahead_H), float(ahead_W)))
    states, steps = (Momentum(H.F, nu_H, H.steps + 1), Momentum(W.F, nu_W, W.steps + 1)), point.steps + 1
    return Point(point.blocks, sweep, states, point.sweeps + 2, point.weights, steps, point.measures, point.penalty)
