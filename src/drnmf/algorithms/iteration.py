"""One update of every block with lambda fixed, each taken back while it raised what it must not raise.

Blocks are component-first and move one after another: H (r, n), then W' (r, m), where X is a matrix. Every half-step is
the same call. A check costs nothing extra: the losses come with the sweep that the next half-step needs anyway. Where
sweeps return before they are done (`Space.deferred`: a GPU, a cluster) the losses of all half-steps are read together,
once an iteration; the points are the same, only a rejected step costs the sweeps that were begun behind it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from drnmf.algorithms.correlation import correlation, row_sums
from drnmf.algorithms.updates.base import Parts, Rule, State, Wants, halve_state
from drnmf.algorithms.updates.constrained import constrained
from drnmf.backends.base import Ask, Sweep
from drnmf.backends.modes import Factors, Modes
from drnmf.numerics import MAX_HALVINGS, Array, Vector, rise_tolerance
from drnmf.objective.constraints import UNCONSTRAINED, Constraints
from drnmf.objective.objective import Objective
from drnmf.objective.penalty import Measures

T = TypeVar("T")
Number = float | Vector  # one for the only run, or one for each
Runs = NDArray[np.intp]  # which of many
ALONE: Runs = np.zeros(1, np.intp)


@dataclass(frozen=True)
class Point:
    """All blocks, and the sweep at them that holds every loss and the parts of the block that moves next."""

    blocks: Factors
    sweep: Sweep
    states: tuple[State, ...]  # of the rule, for every block
    sweeps: Any  # spent so far: a number, or one for each of many runs
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
    certain: tuple[bool, ...]  # whether steps of a block cannot raise the objective, so that nobody needs to look
    in_place: bool = False  # steps may be written over the blocks: none is taken back, and nobody keeps an earlier one

    @classmethod
    def of(
        cls, data: Modes, objective: Objective, rule: Rule, constant: bool, rank: int,
        constraints: Constraints = UNCONSTRAINED, in_place: bool = False,
    ) -> Task:  # fmt: skip
        """Choose the rules of all blocks for so many components.

        constant : the policy never moves lambda
        in_place : blocks may be overwritten where no step of the rule is taken back
        """
        rules = tuple(constrained(rule, constraints, name, rank) for name in data.names)
        floors = tuple(constraints.floor(name, data.mean, rank) for name in data.names)
        penalties = objective.penalties
        certain = tuple(
            rule.certain(objective.omega) and (not penalties or (rule.facts.bounded and penalties.certain))
            for rule in rules
        )
        # what is watched may rise where weights move, and the best point is kept then
        in_place = in_place and rule.facts.overwrites and all(certain) and (constant or len(objective.omega) == 1)
        return cls(data, objective, rule, constant and not rule.facts.chooses, rules, floors, certain, in_place)

    def watched(self, weights: Vector, losses: Vector, penalty: float) -> float:
        """Compute what the run is to lower: the weighted sum under fixed weights, else the maximum; plus penalties."""
        return penalty + (self.objective.value(weights, losses) if self.fixed else self.objective.maximum(losses))

    def guarded(self, weights: Vector, point: Point) -> Number:
        """Compute what no half-step may raise: the weighted sum, or the maximum where the rule chooses lambda."""
        chooses, losses = self.rule.facts.chooses, point.sweep.losses
        return point.penalty + (self.objective.maximum(losses) if chooses else self.objective.value(weights, losses))

    def ceiling(self, weights: Vector, point: Point) -> Number:
        """Compute up to where a half-step has not risen: what it began from, and what rounding adds to it.

        A rule that chooses lambda compares losses among each other, and is given nothing.
        """
        value = self.guarded(weights, point)
        if self.rule.facts.chooses:
            return value
        dtype = self.data.dtype
        moved = self.rounding(weights, value, math.prod(self.data.sizes), float(np.finfo(dtype).eps))
        return value * (1.0 + rise_tolerance(dtype)) + moved

    # what `algorithms.batch` does for some of many runs, here for the only one

    def rounding(self, weights: Vector, values: Any, entries: int, unit: float) -> Number:
        """Compute by how much rounding alone moves the objective (`Objective.rounding`)."""
        return self.objective.rounding(weights, values, entries, unit)

    def coefficients(self, weights: Vector) -> Vector:
        """Compute c_beta under some weights."""
        return self.objective.coefficients(weights)

    def risen(self, values: Number, ceiling: Number) -> Runs | None:
        """Tell in which runs a value is above its ceiling, or no number; None where in none."""
        return None if values <= ceiling else ALONE

    def within(self, runs: Runs) -> Task:
        """Return the task of some runs."""
        return self

    def take(self, tree: T, runs: Runs) -> T:
        """Return what belongs to some runs."""
        return tree

    def put(self, tree: T, runs: Runs, part: T) -> T:
        """Return the same with what belongs to some runs replaced."""
        return part

    def unmoved(self, before: State, after: State) -> State:
        """Return the state of a step that was given up, from those before and after it."""
        return before

    def parts(self, block: int, point: Point, weights: Vector, coefficients: Vector) -> Parts:
        """Say what a step of the block sees, from the sweep of a point."""
        objective, rule, sweep = self.objective, self.rules[block], point.sweep
        return Parts(
            sweep.N,
            sweep.P,
            coefficients,
            objective.omega,
            self.floors[block],
            objective.scaled(sweep.losses) if rule.facts.chooses else None,
            objective.references,
            sweep.Q,
            sweep.gram,
            self._Q_scale(block, point, weights, coefficients),
            self._correlation(block, point, coefficients),
            objective.penalties.of(block, point.measures, objective.factor(weights)) if objective.penalties else None,
            final=self.in_place,
        )

    def _wants(self, block: int, steps: int, blocks: Factors) -> Wants:
        """What the next step of a block wants beside the parts."""
        return self.rules[block].wants(steps, blocks[block].shape[-2], self.objective.omega)

    def _Q_scale(self, block: int, point: Point, weights: Vector, coefficients: Vector) -> float:
        """How much larger the coefficients are than when the curvature of the block was made."""
        if point.weights is weights or not self._wants(block, point.steps, point.blocks).curvature:
            return 1.0
        return float(coefficients.sum() / self.objective.coefficients(point.weights).sum())

    def _correlation(self, block: int, point: Point, coefficients: Vector) -> Array | None:
        """How the components of what stands overlap, where the step wants to know it."""
        data, omega, blocks = self.data, self.objective.omega, point.blocks
        if not self._wants(block, point.steps, blocks).correlation:
            return None
        mean = data.spaces[block].sum(row_sums, blocks[block]) / data.sizes[block]
        return correlation(lambda function: data.sum_others(block, function, blocks), mean, omega, coefficients)

    def measure(self, block: int, F: Array) -> Measures:
        """Measure a block for the penalties."""
        return self.objective.penalties.measure(self.data.spaces[block], F, block, len(self.data.spaces))

    def ask(
        self,
        block: int,
        blocks: Factors,
        steps: int,
        coefficients: Vector,
        early: bool,
        losses: bool = True,
        into: Sweep | None = None,
        used: Sweep | None = None,
    ) -> Ask:
        """Ask for a block: weighted sums where lambda is known when that is done, every part on its own elsewhere.

        `steps` were taken by the block; `early` says that lambda will still be the same when the parts are used,
        `losses` that somebody will look at them; `into` and `used` are earlier answers, for this block and the one
        before it, that are not needed any more.
        """
        rule, omega = self.rules[block], self.objective.omega
        known = early or len(omega) == 1  # lambda of one loss is one
        parts: Literal["separate"] | Vector = coefficients if known and not rule.facts.separate else "separate"
        curvature = coefficients if self._wants(block, steps, blocks).curvature else None
        sized = bool(self.objective.penalties)
        return Ask(omega, parts, losses, curvature, sized=sized, into=into, used=used)

    def read(self, points: list[Point]) -> list[Point]:
        """Wait for the sweeps of all points."""
        found = self.data.spaces[0].read(*(point.sweep for point in points))
        pairs = zip(points, found, strict=True)
        return [point if sweep is point.sweep else replace(point, sweep=sweep) for point, sweep in pairs]

    def restart(self, point: Point) -> Point:
        """Restart the states of the rule."""
        every = zip(self.data.spaces, self.rules, point.states, strict=True)
        return replace(point, states=tuple(space.map(rule.restart, state) for space, rule, state in every))


class _Step(NamedTuple):
    """A block that has moved, the state of its rule, and the sweeps spent when the next one is made."""

    F: Array
    state: State
    sweeps: Any
    look: bool = True  # somebody will look at the losses of that sweep
    used: Sweep | None = None  # an answer for this block that is not needed any more


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

    def step(self, point: Point) -> _Step:
        """Step from the parts in the sweep of a point."""
        task, k = self.task, self.block
        parts = task.parts(k, point, self.weights, self.coefficients)
        moved, state = task.data.spaces[k].map(task.rules[k].step, point.blocks[k], parts, point.states[k], count=2)
        look = self.last or not (task.certain[k] and task.certain[k + 1])
        return _Step(moved, state, point.sweeps + 1, look, point.sweep if task.in_place else None)

    def settle(self, before: Point, tried: Point) -> Point:
        """Return the step tried, or the first one on the way back that did not rise; no step after many."""
        task, k = self.task, self.block
        if task.certain[k]:
            return tried
        began = task.guarded(self.weights, before)
        if task.risen(0.0, began) is None and task.risen(task.guarded(self.weights, tried), began) is None:
            return tried  # as most are: nobody needs to know what rounding adds to a loss, which is no loss below zero
        ceiling = task.ceiling(self.weights, before)
        for count in range(1, MAX_HALVINGS + 2):
            runs = task.risen(task.guarded(self.weights, tried), ceiling)
            if runs is None or tried.blocks[k] is before.blocks[k]:
                return tried
            again = self.within(runs)._again(task.take(before, runs), task.take(tried, runs), count)
            tried = task.put(tried, runs, again)
        return tried

    def _again(self, before: Point, tried: Point, count: int) -> Point:
        """Retry a step that rose, and give it up after many."""
        task, k, F, rule = self.task, self.block, before.blocks[self.block], self.task.rules[self.block]
        moved, state = F, task.unmoved(before.states[k], tried.states[k])
        if count <= MAX_HALVINGS:
            # a rule that chooses trusts its bound, which under penalties may be only nearly one
            retry = halve_state if rule.facts.chooses and task.objective.penalties else rule.retry
            moved, state = task.data.spaces[k].map(retry, F, tried.blocks[k], count, tried.states[k], count=2)
        return task.read([_take(before, self, _Step(moved, state, tried.sweeps + 1))])[0]

    def within(self, runs: Runs) -> _Half:
        """Return the half-step of some runs."""
        task = self.task.within(runs)
        if task is self.task:
            return self
        weights = self.task.take(self.weights, runs)
        return replace(self, task=task, weights=weights, coefficients=task.coefficients(weights))


def _put(values: tuple[T, ...], at: int, value: T) -> tuple[T, ...]:
    """The same with one value replaced."""
    return (*values[:at], value, *values[at + 1 :])


def _take(point: Point, half: _Half, step: _Step | None = None) -> Point:
    """Take a half-step, where none is handed in the one from this point, and sweep for the next block."""
    task, k = half.task, half.block
    F, state, sweeps, look, used = step or half.step(point)
    following, steps = (0, point.steps + 1) if half.last else (k + 1, point.steps)
    blocks, early = _put(point.blocks, k, F), half.early or not half.last
    ask = task.ask(following, blocks, steps, half.coefficients, early, look, half.into, used)
    sweep = task.data.sweep(following, blocks, ask)
    measures, penalty = point.measures, point.penalty
    if task.objective.penalties:
        measures = _put(measures, k, task.measure(k, F))
        penalty = task.objective.penalties.value(measures)
    return Point(blocks, sweep, _put(point.states, k, state), sweeps, half.weights, steps, measures, penalty)


def swept(task: Task, blocks: Factors, weights: Vector, states: tuple[State, ...], sweeps: int, steps: int) -> Point:
    """Sweep for what an iteration begins from; `sweeps` were spent so far, this one included."""
    c = task.coefficients(weights)
    # or the backend would keep as much for itself
    used = Sweep(c, np.empty_like(blocks[-1]), blocks[-1]) if task.in_place else None
    sweep = task.data.sweep(0, blocks, task.ask(0, blocks, steps, c, early=task.fixed, used=used))
    measures = tuple(task.measure(k, F) for k, F in enumerate(blocks))
    penalty = task.objective.penalties.value(measures)
    return task.read([Point(blocks, sweep, states, sweeps, weights, steps, measures, penalty)])[0]


def iterate(task: Task, point: Point, weights: Vector, early: bool) -> Point:
    """Update all blocks in turn, with lambda fixed (steps 3 and 4 of Algorithm 3).

    early : lambda will still be the same in the next iteration, so that the last sweep may weigh its parts too
    """
    c, count = task.coefficients(weights), len(point.blocks)
    into = point.sweep if task.data.reuses else None
    halves = [_Half(task, k, weights, c, early, into if k == count - 1 else None) for k in range(count)]
    together = task.data.spaces[0].deferred and not task.rule.facts.chooses
    ahead: list[Point] = []
    for k, half in enumerate(halves):
        some = halves[k:] if together else [half]  # taken one behind the other, before anybody looks at the first
        tried, *ahead = ahead or task.read([*accumulate(some, _take, initial=point)][1:])
        point = half.settle(point, tried)
        if point is not tried and ahead:
            ahead = _redone(task, point, tried, halves[k + 1 :], ahead)
    return point


def _redone(task: Task, settled: Point, tried: Point, halves: list[_Half], ahead: list[Point]) -> list[Point]:
    """Begin again what was begun behind steps that were rejected, in the runs where they were."""
    runs = task.risen(settled.sweeps, tried.sweeps)
    if runs is None:
        return ahead
    wasted = task.take(settled, runs)
    wasted = replace(wasted, sweeps=wasted.sweeps + len(ahead))
    again = task.read([*accumulate((half.within(runs) for half in halves), _take, initial=wasted)][1:])
    return [task.put(old, runs, new) for old, new in zip(ahead, again, strict=True)]
