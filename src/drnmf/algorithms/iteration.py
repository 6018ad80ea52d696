"""One update of H and one of W with lambda fixed, each taken back while it raised what it must not raise.

Both blocks are component-first, A = W' of shape (r, m) and B = H of shape (r, n), and both half-steps are the same
call. A check costs nothing extra: the losses come with the sweep that the next half-step needs anyway. Where sweeps
return before they are done (`Space.deferred`: a GPU, a cluster) the losses of both half-steps are read together, once
an iteration; the points are the same, only a rejected H costs the sweep that was begun behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drnmf.algorithms.correlation import correlation, row_sums
from drnmf.algorithms.updates.base import Parts, Rule, halve_state
from drnmf.backends.base import Ask, Data, Space, Sweep
from drnmf.numerics import MAX_HALVINGS, Array, Vector, rise_tolerance
from drnmf.objective.objective import Objective
from drnmf.objective.penalty import Measures, Tilt


@dataclass(frozen=True)
class Point:
    """Both blocks, and the sweep at them that holds the parts of H and every loss."""

    A: Array
    B: Array
    sweep: Sweep
    states: tuple[Any, Any]  # of the rule, for (H, W)
    sweeps: int
    weights: Vector  # lambda when the sweep was made
    steps: int  # taken by each block
    measures: tuple[Measures, Measures] = ((), ())  # of the penalties, for (H, W)
    penalty: float = 0.0


@dataclass(frozen=True)
class Task:
    """What does not change during a run."""

    objective: Objective
    rule: Rule
    fixed: bool  # lambda never moves
    rules: tuple[Rule, Rule]  # of (H, W): the rule itself, unless a block is constrained
    in_place: bool = False  # steps may be written over the blocks: none is taken back, and nobody keeps an earlier one

    @classmethod
    def of(cls, objective: Objective, rule: Rule, constant: bool, rank: int, in_place: bool = False) -> Task:
        """Choose the rules of both blocks for so many components.

        Parameters
        ----------
        constant : the policy never moves lambda
        in_place : blocks may be overwritten where no step of the rule is taken back
        """
        task = cls(objective, rule, constant and not rule.chooses, rule.of_rank(rank))
        return replace(task, in_place=in_place and rule.overwrites and task.certain(0) and task.certain(1))

    def certain(self, side: int) -> bool:
        """Tell whether steps of H (0) or W (1) cannot raise the objective, so that nobody needs to look."""
        rule, penalties = self.rules[side], self.objective.penalties
        return rule.certain(self.objective.omega) and (not penalties or (rule.bounded and penalties.certain))

    def watched(self, weights: Vector, losses: Vector, penalty: float) -> float:
        """Compute what the run is to lower: the weighted sum under fixed weights, else the maximum; plus penalties."""
        return penalty + (self.objective.value(weights, losses) if self.fixed else self.objective.maximum(losses))

    def guarded(self, weights: Vector, losses: Vector, penalty: float) -> float:
        """Compute what no half-step may raise: the weighted sum, or the maximum where the rule chooses lambda."""
        chooses = self.rule.chooses
        return penalty + (self.objective.maximum(losses) if chooses else self.objective.value(weights, losses))

    def measure(self, data: Data, A: Array, B: Array) -> tuple[tuple[Measures, Measures], float]:
        """Measure both blocks for the penalties, and add them up."""
        penalties = self.objective.penalties
        H, W = penalties.measure(data.space, B, "H"), penalties.measure(data.T.space, A, "W")
        return (H, W), penalties.value(W, H)

    def ask(
        self, rule: Rule, coefficients: Vector, early: bool, curved: bool, losses: bool = True,
        into: Sweep | None = None, used: Sweep | None = None,
    ) -> Ask:  # fmt: skip
        """Ask for weighted sums where lambda is known when the sweep is made, for every part on its own elsewhere.

        Parameters
        ----------
        rule : of the block whose parts are asked for
        into, used : earlier answers of X and of its transpose that are not needed any more
        """
        known = early or len(self.objective.omega) == 1  # lambda of one loss is one
        parts: Any = coefficients if known and not rule.separate else "separate"
        return Ask(self.objective.omega, parts, losses, coefficients if curved else None, into=into, used=used)

    def restart(self, data: Data, point: Point) -> Point:
        """Restart both states of the rule."""
        sides = zip((data, data.T), self.rules, point.states, strict=True)
        states = tuple(side.space.map(rule.restart, state) for side, rule, state in sides)
        return replace(point, states=states)


@dataclass(frozen=True)
class _Half:
    """One half-step: block F moves while G stands. `data` is the side whose sweeps hold the parts of G.

    early : lambda will still be the same when the parts of G are used
    curved : the next step of G wants the curvature
    look : the losses are wanted even where the rule needs no check
    Q_scale : how much larger the coefficients are than when the curvature of F was made
    correlated : the step of F wants the correlation of the components of G
    side : "H" or "W", which of them F is
    into : an earlier sweep of `data` that is not needed any more
    """

    task: Task
    data: Data
    side: str
    weights: Vector
    coefficients: Vector
    early: bool
    curved: bool
    look: bool
    Q_scale: float = 1.0
    correlated: bool = False
    into: Sweep | None = None

    @property
    def rule(self) -> Rule:
        return self.task.rules["HW".index(self.side)]

    @property
    def certain(self) -> bool:
        return self.task.certain("HW".index(self.side))

    def sweep(self, F: Array, G: Array, losses: bool = True, used: Sweep | None = None) -> Sweep:
        other = self.task.rules["WH".index(self.side)]
        ask = self.task.ask(other, self.coefficients, self.early, self.curved, losses, self.into, used)
        return self.data.sweep(F.T, G, ask)

    def attempt(self, F: Array, G: Array, before: Sweep, state: Any, own: Measures, other: Measures) -> _Tried:
        """Step from the parts of F in `before`, which stands at (F, G), and sweep for G at the new point.

        Parameters
        ----------
        own, other : what the penalties measured of F and of G
        """
        objective, rule = self.task.objective, self.rule
        parts = Parts(
            before.N, before.P, self.coefficients, objective.omega,
            self.task.rule.floor(self.side, self.data.mean, F.shape[0]),
            objective.scaled(before.losses) if rule.chooses else None, objective.references, before.Q, before.gram,
            self.Q_scale, self.correlation(F, G) if self.correlated else None, self._tilt(own, other),
            final=self.task.in_place,
        )  # fmt: skip
        moved, after = self.data.T.space.map(rule.step, F, parts, state, count=2)
        sweep = self.sweep(moved, G, self.look or not self.certain, before if self.task.in_place else None)
        return _Tried(moved, sweep, after, 1, *self._measure(moved, other))

    def _tilt(self, own: Measures, other: Measures) -> Tilt | None:
        """What the step sees of the penalties."""
        objective = self.task.objective
        if not objective.penalties:
            return None
        return objective.penalties.of(self.side, own, other, objective.factor(self.weights))

    def _measure(self, F: Array, other: Measures) -> tuple[Measures, float]:
        """Measure the new block for the penalties, and add them up."""
        penalties = self.task.objective.penalties
        if not penalties:
            return (), 0.0
        own = penalties.measure(self.data.T.space, F, self.side)
        return own, penalties.value(other, own) if self.side == "H" else penalties.value(own, other)

    def correlation(self, F: Array, G: Array) -> Vector:
        """How the components of G overlap, at the mean column of F."""
        mean = self.data.T.space.sum(row_sums, F) / self.data.shape[0]
        return correlation(self.data.space, G, mean, self.task.objective.omega, self.coefficients)

    def settle(self, F: Array, G: Array, before: _Tried, state: Any, tried: _Tried, other: Measures) -> _Tried:
        """Return the step tried, or the first one on the way back to F that did not rise; F itself after many.

        Parameters
        ----------
        before : where the half-step began: sweep, penalty, and what the penalties measured of F
        """
        if self.certain:
            return tried
        task, space = self.task, self.data.T.space
        slack = 0.0 if task.rule.chooses else rise_tolerance(self.data.dtype)
        ceiling = task.guarded(self.weights, before.sweep.losses, before.penalty) * (1.0 + slack)
        while tried.F is not F and not task.guarded(self.weights, tried.sweep.losses, tried.penalty) <= ceiling:
            count = tried.count
            if count > MAX_HALVINGS:
                return _Tried(F, self._look(F, G), state, count + 1, before.measures, before.penalty)
            moved, moved_state = space.map(self._retry, F, tried.F, count, tried.state, count=2)
            tried = _Tried(moved, self._look(moved, G), moved_state, count + 1, *self._measure(moved, other))
        return tried

    @property
    def _retry(self) -> Callable[..., tuple[Array, Any]]:
        """The rule's own, but for one that trusts its bound: under penalties that bound may be only nearly one."""
        rule = self.rule
        return halve_state if rule.chooses and self.task.objective.penalties else rule.retry

    def _look(self, F: Array, G: Array) -> Sweep:
        return self.data.space.read(self.sweep(F, G))[0]


@dataclass(frozen=True)
class _Tried:
    """A block that was tried, the sweep at it, the state that goes with it, the sweeps spent, and its penalty."""

    F: Array
    sweep: Sweep
    state: Any
    count: int
    measures: Measures
    penalty: float

    def read(self, space: Space) -> _Tried:
        """Wait for the sweep."""
        (sweep,) = space.read(self.sweep)
        return self if sweep is self.sweep else replace(self, sweep=sweep)


def swept(
    task: Task, data: Data, A: Array, B: Array, weights: Vector, states: tuple[Any, Any], sweeps: int, steps: int
) -> Point:
    """Sweep at (A, B) for what an iteration begins from.

    Parameters
    ----------
    states : of the rule, for (H, W)
    sweeps : spent so far, this one included
    steps : taken by each block
    """
    c = task.objective.coefficients(weights)
    rule = task.rules[0]
    used = Sweep(c, np.empty_like(A), A) if task.in_place else None  # or the backend would keep as much for itself
    ask = task.ask(rule, c, early=task.fixed, curved=rule.curves(steps, B.shape[0]), used=used)
    (sweep,) = data.space.read(data.sweep(A.T, B, ask))
    return Point(A, B, sweep, states, sweeps, weights, steps, *task.measure(data, A, B))


def iterate(task: Task, data: Data, point: Point, weights: Vector, early: bool) -> Point:
    """Update H, then W, with lambda fixed (steps 3 and 4 of Algorithm 3).

    Parameters
    ----------
    early : lambda will still be the same in the next iteration, so that the last sweep may weigh its parts too
    """
    c = task.objective.coefficients(weights)
    step, rank = point.steps, point.B.shape[0]
    rule_H, rule_W = task.rules
    omega, moved = task.objective.omega, point.weights is not weights and rule_H.curves(step, rank)
    half_H = _Half(
        task, data.T, "H", weights, c, early=True, curved=rule_W.curves(step, rank), look=not task.certain(1),
        Q_scale=_moved(task, point, c) if moved else 1.0, correlated=rule_H.correlates(step, rank, omega),
    )  # fmt: skip
    half_W = _Half(
        task, data, "W", weights, c, early=early, curved=rule_H.curves(step + 1, rank), look=True,
        correlated=rule_W.correlates(step, rank, omega),
        into=None if data.space.deferred or data.observed is not None else point.sweep,
    )  # fmt: skip
    (state_H, state_W), (of_H, of_W) = point.states, point.measures
    start = _Tried(point.B, point.sweep, state_H, 0, of_H, point.penalty)
    first = half_H.attempt(point.B, point.A, point.sweep, state_H, of_H, of_W)
    second, wasted = None, 0
    if data.space.deferred and not task.rule.chooses:
        second = half_W.attempt(point.A, first.F, first.sweep, state_W, of_W, first.measures)
        sweeps = data.space.read(first.sweep, second.sweep)
        first, second = replace(first, sweep=sweeps[0]), replace(second, sweep=sweeps[1])
    else:
        first = first.read(data.space)
    accepted = half_H.settle(point.B, point.A, start, state_H, first, of_W)
    if second is None or accepted is not first:
        wasted = 0 if second is None else second.count
        second = half_W.attempt(point.A, accepted.F, accepted.sweep, state_W, of_W, accepted.measures)
        second = second.read(data.space)
    between = _Tried(point.A, accepted.sweep, state_W, 0, of_W, accepted.penalty)
    last = half_W.settle(point.A, accepted.F, between, state_W, second, accepted.measures)
    return Point(
        last.F, accepted.F, last.sweep, (accepted.state, last.state),
        point.sweeps + accepted.count + last.count + wasted, weights, step + 1,
        (accepted.measures, last.measures), last.penalty,
    )  # fmt: skip


def _moved(task: Task, point: Point, coefficients: Vector) -> float:
    """How much larger the coefficients are than those of the sweep at the point."""
    return float(coefficients.sum() / task.objective.coefficients(point.weights).sum())
