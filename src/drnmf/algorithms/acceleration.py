r"""Extrapolation of whole iterations: every second one, the point further along the direction of the last two is tried.

Alternating steps of second order solve for each block what the others leave, and where components overlap they
move together, slowly, in nearly the same direction for hundreds of iterations. With F the blocks now and F~ those two
iterations before, the run tries

.. math:: \max(F + s (F - \tilde F), floor)

for all blocks at once, at the cost of one sweep, which is the one that the next iteration begins from. A point that is
lower is taken and s doubles; elsewhere the run continues from where it stands and s halves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from drnmf.algorithms.iteration import Point, Task, swept
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
