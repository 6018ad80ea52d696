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
from drnmf.numerics import MAX_HALVINGS, Array, Vector, factor_floor, rise_tolerance
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


def _half_step(
    data: Data,
    F: Array,
    G: Array,
    sweep: Sweep,
    weights: Vector,
    coefficients: Vector,
    objective: Objective,
    rule: Rule,
    state: Any,
    mix: Vector,
    look: bool,
) -> tuple[Array, Sweep, Any, int]:
    """Step block F with G fixed, then sweep for G at the new point; take the step back while it rose.

    `sweep` stands at (F, G) and holds the parts of F; `data` is the side whose sweeps hold the parts of G.
    The check costs nothing extra: the losses come with the sweep that the next half-step needs anyway.
    look : the losses are wanted even where the rule needs no check.
    """
    betas = objective.betas
    parts = Parts(sweep.N, sweep.P, coefficients, betas, factor_floor(data.mean, F.shape[0]))
    certain = rule.certain(betas)
    tried, tried_state = rule.step(F, parts, state)
    after = data.sweep(tried.T, G, betas, mix, losses=look or not certain)
    count = 1
    if certain:
        return tried, after, tried_state, count
    ceiling = objective.value(weights, sweep.losses) * (1.0 + rise_tolerance(F.dtype))
    while not objective.value(weights, after.losses) <= ceiling:
        if count > MAX_HALVINGS:
            return F, data.sweep(F.T, G, betas, mix), state, count + 1
        tried, tried_state = rule.retry(F, tried, count, tried_state)
        after = data.sweep(tried.T, G, betas, mix)
        count += 1
    return tried, after, tried_state, count


def _iterate(data: Data, point: _Point, weights: Vector, objective: Objective, rule: Rule, early: bool) -> _Point:
    """One update of H, then of W, with lambda fixed (steps 3 and 4 of Algorithm 3).

    early : lambda will not have moved when the next H-step comes, so its sums can be weighed in the sweep.
    """
    p = len(objective.betas)
    coefficients = objective.coefficients(weights)
    row = coefficients[None, :]
    B, sweep, state_B, first = _half_step(
        data.T, point.B, point.A, point.sweep, weights, coefficients, objective, rule, point.states[0],
        identity(p) if rule.separate else row, look=False,
    )  # fmt: skip
    A, sweep, state_A, second = _half_step(
        data, point.A, B, sweep, weights, coefficients, objective, rule, point.states[1],
        row if early and not rule.separate else identity(p), look=True,
    )  # fmt: skip
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
    p, fixed = len(objective.betas), isinstance(policy, Fixed)
    weights, policy_state = policy.init(p)
    A, B = np.ascontiguousarray(W.T), np.ascontiguousarray(H)
    log, watched = _Log(), list[float]()
    first_mix = objective.coefficients(weights)[None, :] if fixed and not rule.separate else identity(p)
    point = _Point(A, B, data.sweep(A.T, B, objective.betas, first_mix), (rule.init(B), rule.init(A)), 1)
    reason, converged, k = "max_iter", False, 0

    def note() -> Vector:
        scaled = objective.scaled(point.sweep.losses)
        log.add(scaled, weights, point.sweeps)
        watched.append(float(weights @ scaled) if fixed else float(scaled.max()))
        return scaled

    scaled = note()
    try:
        while k < control.max_iter:
            for inner in range(control.inner_iter):
                early = fixed or inner + 1 < control.inner_iter
                point = _iterate(data, point, weights, objective, rule, early)
            k += 1
            weights, policy_state = policy.step(weights, objective.scaled(point.sweep.losses), policy_state)
            scaled = note()
            if control.callback is not None and control.callback(
                Progress(k, point.sweep.losses, scaled, weights, log.seconds[-1], control.max_iter, objective.betas)
            ):
                reason = "callback"
                break
            if control.max_time is not None and log.seconds[-1] >= control.max_time:
                reason = "max_time"
                break
            if _stalled(log, watched, control):
                reason, converged = "tol", True
                break
    except KeyboardInterrupt:
        result = _finish(point, objective, log, "interrupted", False)
        raise Interrupted(result) from None
    return _finish(point, objective, log, reason, converged)


def _finish(point: _Point, objective: Objective, log: _Log, reason: str, converged: bool) -> Result:
    """The last iterate with its losses and trace."""
    trace = log.trace()
    return Result(
        W=point.A.T,
        H=point.B,
        betas=objective.betas,
        references=objective.references,
        losses=point.sweep.losses,
        scaled_losses=objective.scaled(point.sweep.losses),
        weights=trace.weights[-1],
        trace=trace,
        n_iter=len(trace.seconds) - 1,
        converged=converged,
        reason=reason,
    )


def with_notes(result: Result, *notes: str) -> Result:
    """The result with remarks added (floored references, floored zeros, ...)."""
    return replace(result, notes=result.notes + notes)
