"""One update of H and one of W with lambda fixed, each taken back while it raised what it must not raise.

Both blocks are held component-first, A = W' of shape (r, m) and B = H of shape (r, n), and both half-steps are the same
call. A check costs nothing extra: the losses come with the sweep that the next half-step needs anyway. Where sweeps
return before they are done (`Data.deferred`: a GPU, a cluster) the losses of both half-steps are read together, once an
iteration; the points are the same, only a rejected H costs the sweep that was begun behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from drnmf.algorithms.updates.base import Parts, Rule
from drnmf.algorithms.weights import Policy
from drnmf.backends.base import Data, Sweep, identity
from drnmf.numerics import MAX_HALVINGS, Array, Vector, factor_floor, rise_tolerance
from drnmf.objective.objective import Objective


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


@dataclass(frozen=True)
class Iteration:
    """All that both half-steps of an iteration begin from, for a Data that takes them in one go.

    early : the last sweep may weigh its parts too;  look : the losses after the first half-step are wanted
    forecast : how lambda will move, for a Data that runs ahead; None where that is not known
    """

    point: Point
    rules: tuple[Rule, Rule]
    objective: Objective
    weights: Vector
    floor: float
    early: bool
    look: bool
    forecast: tuple[Policy, Any] | None


@runtime_checkable
class Recorder(Protocol):
    """A Data that can take both half-steps at once (a recorded graph on a card), with the losses read."""

    def record(self, iteration: Iteration) -> tuple[tuple[Array, Sweep, Any], tuple[Array, Sweep, Any]] | None:
        """(block, sweep after it, state) of H and of W; None where this rule is not for recording."""
        ...


@dataclass(frozen=True)
class Task:
    """What does not change during a run. `rules` are the rule as H and as W need it (see `Data.lift`)."""

    objective: Objective
    rules: tuple[Rule, Rule]
    fixed: bool  # lambda never moves

    @property
    def rule(self) -> Rule:
        return self.rules[0]

    def watched(self, weights: Vector, losses: Vector) -> float:
        """What the run is to lower: the weighted sum under fixed weights, else the maximum."""
        return self.objective.value(weights, losses) if self.fixed else self.objective.maximum(losses)

    def guarded(self, weights: Vector, losses: Vector) -> float:
        """What no half-step may raise: the weighted sum, or the maximum where the rule chooses lambda."""
        return self.objective.maximum(losses) if self.rule.chooses else self.objective.value(weights, losses)

    def mix(self, coefficients: Vector, early: bool) -> Vector:
        """Weighted sums where lambda is known when the sweep is made, every part on its own elsewhere."""
        known = early or len(self.objective.betas) == 1  # lambda of one loss is one
        return coefficients[None, :] if known and not self.rule.separate else identity(len(self.objective.betas))

    def restart(self, point: Point) -> Point:
        """The point with both states of the rule begun anew."""
        states = tuple(rule.restart(state) for rule, state in zip(self.rules, point.states, strict=True))
        return replace(point, states=states)


@dataclass(frozen=True)
class _Half:
    """One half-step: block F moves while G stands. `data` is the side whose sweeps hold the parts of G.

    early : lambda will still be the same when the parts of G are used
    curved : the next step of G wants the curvature
    look : the losses are wanted even where the rule needs no check
    """

    task: Task
    rule: Rule
    data: Data
    weights: Vector
    coefficients: Vector
    early: bool
    curved: bool
    look: bool

    @property
    def certain(self) -> bool:
        return self.rule.certain(self.task.objective.betas)

    def sweep(self, F: Array, G: Array, losses: bool = True) -> Sweep:
        betas, mix = self.task.objective.betas, self.task.mix(self.coefficients, self.early)
        curvature = self.coefficients if self.curved else None
        return self.data.sweep(F.T, G, betas, mix, losses=losses, curvature=curvature)

    def attempt(self, F: Array, G: Array, before: Sweep, state: Any) -> _Tried:
        """Step from the parts of F in `before`, which stands at (F, G), and sweep for G at the new point."""
        objective, chooses = self.task.objective, self.rule.chooses
        parts = Parts(
            before.N, before.P, self.coefficients, objective.betas, factor_floor(self.data.mean, F.shape[0]),
            objective.scaled(before.losses) if chooses else None, objective.references, before.Q, before.gram,
        )  # fmt: skip
        moved, after_state = self.rule.step(F, parts, state)
        return _Tried(moved, self.sweep(moved, G, self.look or not self.certain), after_state, 1)

    def settle(self, F: Array, G: Array, before: Sweep, state: Any, tried: _Tried) -> _Tried:
        """The step tried, or the first one on the way back to F that did not rise; F itself after many."""
        if self.certain:
            return tried
        slack = 0.0 if self.rule.chooses else rise_tolerance(self.data.dtype)
        ceiling = self.task.guarded(self.weights, before.losses) * (1.0 + slack)
        while tried.F is not F and not self.task.guarded(self.weights, tried.sweep.losses) <= ceiling:
            count = tried.count
            if count > MAX_HALVINGS:
                return _Tried(F, self._look(F, G), state, count + 1)
            moved, moved_state = self.rule.retry(F, tried.F, count, tried.state)
            tried = _Tried(moved, self._look(moved, G), moved_state, count + 1)
        return tried

    def _look(self, F: Array, G: Array) -> Sweep:
        return self.data.read(self.sweep(F, G))[0]


@dataclass(frozen=True)
class _Tried:
    """A block that was tried, the sweep at it, the state that goes with it, and the sweeps spent."""

    F: Array
    sweep: Sweep
    state: Any
    count: int


def iterate(
    task: Task, data: Data, point: Point, weights: Vector, early: bool, forecast: tuple[Policy, Any] | None = None
) -> Point:
    """One update of H, then of W, with lambda fixed (steps 3 and 4 of Algorithm 3).

    forecast : the policy and its state, where the next call follows one step of it
    """
    c = task.objective.coefficients(weights)
    step, rank = point.steps, point.B.shape[0]
    here, then = (task.rule.curves(k, rank) for k in (step, step + 1))
    half_H = _Half(task, task.rules[0], data.T, weights, c, early=True, curved=here, look=False)
    half_W = _Half(task, task.rules[1], data, weights, c, early=early, curved=then, look=True)
    state_H, state_W = point.states
    recorded = _recorded(half_H, half_W, point, forecast)
    first = recorded[0] if recorded is not None else half_H.attempt(point.B, point.A, point.sweep, state_H)
    second, wasted = None, 0
    if recorded is not None:
        second = recorded[1]
    elif data.deferred and not task.rule.chooses:
        second = half_W.attempt(point.A, first.F, first.sweep, state_W)
        sweeps = data.read(first.sweep, second.sweep)
        first, second = replace(first, sweep=sweeps[0]), replace(second, sweep=sweeps[1])
    else:
        first = replace(first, sweep=data.read(first.sweep)[0])
    accepted = half_H.settle(point.B, point.A, point.sweep, state_H, first)
    if second is None or accepted is not first:
        wasted = 0 if second is None else second.count
        second = half_W.attempt(point.A, accepted.F, accepted.sweep, state_W)
        second = replace(second, sweep=data.read(second.sweep)[0])
    last = half_W.settle(point.A, accepted.F, accepted.sweep, state_W, second)
    spent = accepted.count + last.count + wasted
    return Point(last.F, accepted.F, last.sweep, (accepted.state, last.state), point.sweeps + spent, weights, step + 1)


def _recorded(
    half_H: _Half, half_W: _Half, point: Point, forecast: tuple[Policy, Any] | None
) -> tuple[_Tried, _Tried] | None:
    """Both half-steps from a Data that takes them in one go."""
    data, task = half_W.data, half_W.task
    if not isinstance(data, Recorder) or half_H.curved or half_W.curved:
        return None
    floor = factor_floor(data.mean, point.A.shape[0])
    found = data.record(
        Iteration(point, task.rules, task.objective, half_H.weights, floor, half_W.early, not half_H.certain, forecast)
    )
    return None if found is None else (_Tried(*found[0], 1), _Tried(*found[1], 1))
