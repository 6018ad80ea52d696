"""One update of every block with lambda fixed, each taken back while it raised what it must not raise.

Blocks are component-first and move one after another: H (r, n), then W' (r, m), where X is a matrix. Every half-step is
the same call. A check costs nothing extra: the losses come with the sweep that the next half-step needs anyway. Where
sweeps return before they are done (`Space.deferred`: a GPU, a cluster) the losses of all half-steps are read together,
once an iteration; the points are the same, only a rejected step costs the sweeps that were begun behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from drnmf.algorithms.correlation import correlation, row_sums
from drnmf.algorithms.updates.base import Parts, Rule, halve_state
from drnmf.backends.base import Ask, Sweep
from drnmf.backends.modes import Factors, Modes
from drnmf.numerics import MAX_HALVINGS, Array, Vector, rise_tolerance
from drnmf.objective.objective import Objective
from drnmf.objective.penalty import Measures


@dataclass(frozen=True)
class Point:
    """All blocks, and the sweep at them that holds every loss and the parts of the block that moves next."""

    blocks: Factors
    sweep: Sweep
    states: tuple[Any, ...]  # of the rule, for every block
    sweeps: int
    weights: Vector  # lambda when the sweep was made
    steps: int  # taken by the block that moves next
    measures: tuple[Measures, ...] = ()  # of the penalties, for every block
    penalty: float = 0.0


@dataclass(frozen=True)
class Task:
    """What does not change during a run."""

    data: Modes
    objective: Objective
    rule: Rule
    fixed: bool  # lambda never moves
    rules: tuple[Rule, ...]  # of every block: the rule itself, unless the block is constrained
    floors: tuple[float, ...]  # the smallest entry of every block
    in_place: bool = False  # steps may be written over the blocks: none is taken back, and nobody keeps an earlier one

    @classmethod
    def of(
        cls, data: Modes, objective: Objective, rule: Rule, constant: bool, rank: int, in_place: bool = False
    ) -> Task:
        """Choose the rules of all blocks for so many components.

        Parameters
        ----------
        constant : the policy never moves lambda
        in_place : blocks may be overwritten where no step of the rule is taken back
        """
        rules = tuple(rule.of_block(name, rank) for name in data.names)
        floors = tuple(rule.floor(name, data.mean, rank) for name in data.names)
        task = cls(data, objective, rule, constant and not rule.chooses, rules, floors)
        return replace(task, in_place=in_place and rule.overwrites and all(map(task.certain, range(len(rules)))))

    def certain(self, block: int) -> bool:
        """Tell whether steps of a block cannot raise the objective, so that nobody needs to look."""
        rule, penalties = self.rules[block], self.objective.penalties
        return rule.certain(self.objective.omega) and (not penalties or (rule.bounded and penalties.certain))

    def watched(self, weights: Vector, losses: Vector, penalty: float) -> float:
        """Compute what the run is to lower: the weighted sum under fixed weights, else the maximum; plus penalties."""
        return penalty + (self.objective.value(weights, losses) if self.fixed else self.objective.maximum(losses))

    def guarded(self, weights: Vector, losses: Vector, penalty: float) -> float:
        """Compute what no half-step may raise: the weighted sum, or the maximum where the rule chooses lambda."""
        chooses = self.rule.chooses
        return penalty + (self.objective.maximum(losses) if chooses else self.objective.value(weights, losses))

    def measure(self, block: int, F: Array) -> Measures:
        """Measure a block for the penalties."""
        return self.objective.penalties.measure(self.data.spaces[block], F, self.data.names[block])

    def sweep(
        self, block: int, blocks: Factors, steps: int, coefficients: Vector, early: bool, losses: bool = True,
        into: Sweep | None = None, used: Sweep | None = None,
    ) -> Sweep:  # fmt: skip
        """Sweep for a block: weighted sums where lambda is known when that is done, every part on its own elsewhere.

        Parameters
        ----------
        steps : taken by the block
        early : lambda will still be the same when the parts are used
        losses : somebody will look at them
        into, used : earlier answers for this block and for the one before it that are not needed any more
        """
        rule, omega = self.rules[block], self.objective.omega
        known = early or len(omega) == 1  # lambda of one loss is one
        parts: Literal["separate"] | Vector = coefficients if known and not rule.separate else "separate"
        curvature = coefficients if rule.curves(steps, blocks[block].shape[0]) else None
        return self.data.sweep(block, blocks, Ask(omega, parts, losses, curvature, into=into, used=used))

    def read(self, points: list[Point]) -> list[Point]:
        """Wait for the sweeps of all points."""
        found = self.data.spaces[0].read(*(point.sweep for point in points))
        pairs = zip(points, found, strict=True)
        return [point if sweep is point.sweep else replace(point, sweep=sweep) for point, sweep in pairs]

    def restart(self, point: Point) -> Point:
        """Restart the states of the rule."""
        every = zip(self.data.spaces, self.rules, point.states, strict=True)
        return replace(point, states=tuple(space.map(rule.restart, state) for space, rule, state in every))


@dataclass(frozen=True)
class _Half:
    """One half-step: a block moves while the others stand.

    early : lambda will still be the same in the next iteration
    into : a sweep for the block that moves next that is not needed any more
    """

    task: Task
    block: int
    weights: Vector
    coefficients: Vector
    early: bool
    into: Sweep | None = None

    @property
    def last(self) -> bool:
        """Whether the next iteration begins with the sweep of this half-step."""
        return self.block == len(self.task.rules) - 1

    def attempt(self, point: Point) -> Point:
        """Step from the parts in the sweep of a point, and sweep for the next block at the new one."""
        task, k, before = self.task, self.block, point.sweep
        objective, rule, F = task.objective, task.rules[k], point.blocks[k]
        following = 0 if self.last else k + 1
        parts = Parts(
            before.N, before.P, self.coefficients, objective.omega, task.floors[k],
            objective.scaled(before.losses) if rule.chooses else None, objective.references, before.Q, before.gram,
            self._Q_scale(point), self._correlation(point),
            objective.penalties.of(k, point.measures, objective.factor(self.weights)) if objective.penalties else None,
            final=task.in_place,
        )  # fmt: skip
        moved, state = task.data.spaces[k].map(rule.step, F, parts, point.states[k], count=2)
        look = self.last or not (task.certain(k) and task.certain(following))
        return self._moved(point, moved, state, point.sweeps + 1, look, before if task.in_place else None)

    def _moved(
        self, point: Point, F: Array, state: Any, sweeps: int, look: bool = True, used: Sweep | None = None
    ) -> Point:
        """The point with another block, swept for the next one."""
        task, k = self.task, self.block
        following, steps = (0, point.steps + 1) if self.last else (k + 1, point.steps)
        blocks, early = _put(point.blocks, k, F), self.early or not self.last
        sweep = task.sweep(following, blocks, steps, self.coefficients, early, look, self.into, used)
        measures, penalty = point.measures, point.penalty
        if task.objective.penalties:
            measures = _put(measures, k, task.measure(k, F))
            penalty = task.objective.penalties.value(measures)
        return Point(blocks, sweep, _put(point.states, k, state), sweeps, self.weights, steps, measures, penalty)

    def _Q_scale(self, point: Point) -> float:
        """How much larger the coefficients are than when the curvature of the block was made."""
        task, rank = self.task, point.blocks[self.block].shape[0]
        if point.weights is self.weights or not task.rules[self.block].curves(point.steps, rank):
            return 1.0
        return float(self.coefficients.sum() / task.objective.coefficients(point.weights).sum())

    def _correlation(self, point: Point) -> Vector | None:
        """How the components of what stands overlap, where the step wants to know it."""
        data, k, omega, blocks = self.task.data, self.block, self.task.objective.omega, point.blocks
        if not self.task.rules[k].correlates(point.steps, blocks[k].shape[0], omega):
            return None
        mean = data.spaces[k].sum(row_sums, blocks[k]) / data.sizes[k]
        return correlation(lambda function: data.sum_others(k, function, blocks), mean, omega, self.coefficients)

    def settle(self, before: Point, tried: Point) -> Point:
        """Return the step tried, or the first one on the way back that did not rise; no step after many."""
        task, k = self.task, self.block
        if task.certain(k):
            return tried
        F, space = before.blocks[k], task.data.spaces[k]
        slack = 0.0 if task.rule.chooses else rise_tolerance(task.data.dtype)
        ceiling = task.guarded(self.weights, before.sweep.losses, before.penalty) * (1.0 + slack)
        while tried.blocks[k] is not F and not task.guarded(self.weights, tried.sweep.losses, tried.penalty) <= ceiling:
            count = tried.sweeps - before.sweeps
            moved, state = F, before.states[k]
            if count <= MAX_HALVINGS:
                moved, state = space.map(self._retry, F, tried.blocks[k], count, tried.states[k], count=2)
            (tried,) = task.read([self._moved(before, moved, state, tried.sweeps + 1)])
        return tried

    @property
    def _retry(self) -> Callable[..., tuple[Array, Any]]:
        """The rule's own, but for one that trusts its bound: under penalties that bound may be only nearly one."""
        rule = self.task.rules[self.block]
        return halve_state if rule.chooses and self.task.objective.penalties else rule.retry


def _put(values: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    """The same with one value replaced."""
    return (*values[:at], value, *values[at + 1 :])


def swept(task: Task, blocks: Factors, weights: Vector, states: tuple[Any, ...], sweeps: int, steps: int) -> Point:
    """Sweep for what an iteration begins from.

    Parameters
    ----------
    states : of the rule, for every block
    sweeps : spent so far, this one included
    steps : taken by each block
    """
    c = task.objective.coefficients(weights)
    # or the backend would keep as much for itself
    used = Sweep(c, np.empty_like(blocks[-1]), blocks[-1]) if task.in_place else None
    sweep = task.sweep(0, blocks, steps, c, early=task.fixed, used=used)
    measures = tuple(task.measure(k, F) for k, F in enumerate(blocks))
    penalty = task.objective.penalties.value(measures)
    return task.read([Point(blocks, sweep, states, sweeps, weights, steps, measures, penalty)])[0]


def iterate(task: Task, point: Point, weights: Vector, early: bool) -> Point:
    """Update all blocks in turn, with lambda fixed (steps 3 and 4 of Algorithm 3).

    Parameters
    ----------
    early : lambda will still be the same in the next iteration, so that the last sweep may weigh its parts too
    """
    c, count = task.objective.coefficients(weights), len(point.blocks)
    into = point.sweep if task.data.reuses else None
    halves = [_Half(task, k, weights, c, early, into if k == count - 1 else None) for k in range(count)]
    together = task.data.spaces[0].deferred and not task.rule.chooses
    ahead: list[Point] = []
    for k, half in enumerate(halves):
        tried, *ahead = ahead or task.read(_attempts(point, halves[k:] if together else [half]))
        point = half.settle(point, tried)
        if point is not tried and ahead:  # what was begun behind a rejected step
            point, ahead = replace(point, sweeps=point.sweeps + len(ahead)), []
    return point


def _attempts(point: Point, halves: list[_Half]) -> list[Point]:
    """Take half-steps one behind the other, before anybody looks at the first."""
    found: list[Point] = []
    for half in halves:
        point = half.attempt(point)
        found.append(point)
    return found
