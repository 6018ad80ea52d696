"""The one loop: sweep, weigh, step H; sweep the transpose, step W; move lambda; look; stop.

It never looks at X: everything it knows of the data comes out of `Data.sweep`. Both blocks are held
component-first, A = W' of shape (r, m) and B = H of shape (r, n), and both half-steps are the same call.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from drnmf.data.base import Data, Sweep, identity
from drnmf.numerics import MAX_HALVINGS, RESTART_RISE, Array, Vector, factor_floor, rise_tolerance
from drnmf.objective import Objective, complementarity_gap
from drnmf.result import Interrupted, Progress, Result, Trace
from drnmf.updates import Parts, Rule
from drnmf.weights import Fixed, Policy

Callback = Callable[[Progress], Any]


@dataclass(frozen=True)
class Control:
    """When to stop and whom to tell.

    tol : 0 runs exactly max_iter iterations; else stop when neither the maximum nor the gap has moved by
        more than this (relative to the maximum) over `window` iterations
    inner_iter : updates of (W, H) per move of lambda; one trace row per move (Algorithm 2 with many)
    """

    max_iter: int = 1000
    tol: float = 1e-6
    max_time: float | None = None
    callback: Callback | None = None
    inner_iter: int = 1
    window: int = 10


@dataclass
class _Log:
    """The trace while it grows."""

    started: float = field(default_factory=time.perf_counter)
    scaled: list[Vector] = field(default_factory=list)
    weights: list[Vector] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    sweeps: list[int] = field(default_factory=list)

    def add(self, scaled: Vector, weights: Vector, sweeps: int) -> None:
        self.scaled.append(scaled)
        self.weights.append(weights)
        self.seconds.append(time.perf_counter() - self.started)
        self.sweeps.append(sweeps)

    def trace(self) -> Trace:
        gap = [complementarity_gap(w, s) for w, s in zip(self.weights, self.scaled, strict=True)]
        return Trace(
            np.array(self.scaled),
            np.array(self.weights),
            np.array(self.seconds),
            np.array(gap),
            np.array(self.sweeps),
        )


@dataclass(frozen=True)
class _Point:
    """Both blocks, and the sweep at them that holds the parts of H and every loss."""

    A: Array
    B: Array
    sweep: Sweep
    states: tuple[Any, Any]  # of the rule, for (H, W)
    sweeps: int


@dataclass(frozen=True)
class _Task:
    """What does not change during a run."""

    objective: Objective
    rule: Rule
    fixed: bool  # lambda never moves

    def watched(self, weights: Vector, losses: Vector) -> float:
        """What the run is to lower: the weighted sum under fixed weights, else the maximum."""
        return self.objective.value(weights, losses) if self.fixed else self.objective.maximum(losses)

    def guarded(self, weights: Vector, losses: Vector) -> float:
        """What no half-step may raise: the weighted sum, or the maximum where the rule chooses lambda."""
        return self.objective.maximum(losses) if self.rule.chooses else self.objective.value(weights, losses)

    def mix(self, coefficients: Vector, early: bool) -> Vector:
        """Weighted sums where lambda is known when the sweep is made, every part on its own elsewhere."""
        return coefficients[None, :] if early and not self.rule.separate else identity(len(self.objective.betas))


def _half_step(
    task: _Task, data: Data, F: Array, G: Array, sweep: Sweep, state: Any, weights: Vector, c: Vector, early: bool,
    look: bool,
) -> tuple[Array, Sweep, Any, int]:  # fmt: skip
    """Step block F with G fixed, then sweep for G at the new point; take the step back while it rose.

    `sweep` stands at (F, G) and holds the parts of F; `data` is the side whose sweeps hold the parts of G. The check
    costs nothing extra: the losses come with the sweep that the next half-step needs anyway.
    c : coefficients of lambda;  early : lambda will still be the same when the parts of G are used
    look : the losses are wanted even where the rule needs no check
    """
    objective, rule = task.objective, task.rule
    betas, floor, mix = objective.betas, factor_floor(data.mean, F.shape[0]), task.mix(c, early)
    parts = Parts(
        sweep.N,
        sweep.P,
        c,
        betas,
        floor,
        objective.scaled(sweep.losses) if rule.chooses else None,
        objective.references,
    )
    certain = rule.certain(betas)
    tried, tried_state = rule.step(F, parts, state)
    after = data.sweep(tried.T, G, betas, mix, losses=look or not certain)
    count = 1
    if certain:
        return tried, after, tried_state, count
    ceiling = task.guarded(weights, sweep.losses) * (1.0 + (0.0 if rule.chooses else rise_tolerance(F.dtype)))
    while tried is not F and not task.guarded(weights, after.losses) <= ceiling:
        if count > MAX_HALVINGS:
            return F, data.sweep(F.T, G, betas, mix), state, count + 1
        tried, tried_state = rule.retry(F, tried, count, tried_state)
        after = data.sweep(tried.T, G, betas, mix)
        count += 1
    return tried, after, tried_state, count


def _iterate(task: _Task, data: Data, point: _Point, weights: Vector, early: bool) -> _Point:
    """One update of H, then of W, with lambda fixed (steps 3 and 4 of Algorithm 3)."""
    c = task.objective.coefficients(weights)
    B, sweep, state_B, first = _half_step(
        task, data.T, point.B, point.A, point.sweep, point.states[0], weights, c, early=True, look=False
    )
    A, sweep, state_A, second = _half_step(
        task, data, point.A, B, sweep, point.states[1], weights, c, early=early, look=True
    )
    return _Point(A, B, sweep, (state_B, state_A), point.sweeps + first + second)


def _stalled(log: _Log, watched: list[float], control: Control) -> bool:
    """Neither what is minimised nor the gap moved by more than tol over the window."""
    w = control.window
    if control.tol <= 0 or len(watched) <= 2 * w:
        return False
    before, now = min(watched[:-w]), min(watched[-w:])
    gaps = [complementarity_gap(log.weights[i], log.scaled[i]) for i in (-w - 1, -1)]
    return before - now <= control.tol * before and abs(gaps[0] - gaps[1]) <= control.tol * before


def solve(data: Data, W: Array, H: Array, objective: Objective, rule: Rule, policy: Policy, control: Control) -> Result:
    """Minimise the weighted (fixed policy) or the largest (moving policy) scaled loss from (W, H).

    W : (m, r), H : (r, n), strictly positive; neither is changed.
    """
    task = _Task(objective, rule, isinstance(policy, Fixed) and not rule.chooses)
    weights, policy_state = policy.init(len(objective.betas))
    A, B = np.ascontiguousarray(W.T), np.ascontiguousarray(H)
    mix = task.mix(objective.coefficients(weights), early=task.fixed)
    point = _Point(A, B, data.sweep(A.T, B, objective.betas, mix), (rule.init(B), rule.init(A)), 1)
    log, watched, best = _Log(), [task.watched(weights, point.sweep.losses)], (point, weights)
    log.add(objective.scaled(point.sweep.losses), weights, point.sweeps)
    reason, k = "max_iter", 0
    try:
        while k < control.max_iter:
            for inner in range(control.inner_iter):
                early = task.fixed or inner + 1 < control.inner_iter
                point = _iterate(task, data, point, weights, early)
            k += 1
            losses = point.sweep.losses
            scaled = objective.scaled(losses)
            if rule.chooses:
                weights = point.states[1]
            else:
                weights, policy_state = policy.step(weights, scaled, policy_state)
            log.add(scaled, weights, point.sweeps)
            watched.append(task.watched(weights, losses))
            if watched[-1] > watched[-2] and watched[-1] > min(watched) * (1.0 + RESTART_RISE):
                point = replace(point, states=(rule.restart(point.states[0]), rule.restart(point.states[1])))
            if not rule.best or watched[-1] <= task.watched(weights, best[0].sweep.losses):
                best = (point, weights)
            progress = Progress(k, losses, scaled, weights, log.seconds[-1], control.max_iter, objective.betas)
            if control.callback is not None and control.callback(progress):
                reason = "callback"
            elif control.max_time is not None and log.seconds[-1] >= control.max_time:
                reason = "max_time"
            elif _stalled(log, watched, control):
                reason = "tol"
            if reason != "max_iter":
                break
    except KeyboardInterrupt:
        raise Interrupted(_finish(*best, objective, log, "interrupted")) from None
    return _finish(*best, objective, log, reason)


def _finish(point: _Point, weights: Vector, objective: Objective, log: _Log, reason: str) -> Result:
    """The point returned with its losses and its weights (those of its row), and the trace of the whole run."""
    trace = log.trace()
    return Result(
        W=point.A.T,
        H=point.B,
        betas=objective.betas,
        references=objective.references,
        losses=point.sweep.losses,
        scaled_losses=objective.scaled(point.sweep.losses),
        weights=weights,
        trace=trace,
        n_iter=len(trace.seconds) - 1,
        converged=reason == "tol",
        reason=reason,
    )


def with_notes(result: Result, *notes: str) -> Result:
    """The result with remarks added (floored references, floored zeros, ...)."""
    return replace(result, notes=result.notes + notes)
