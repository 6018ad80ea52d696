"""The one loop: step every block, move lambda, look, keep, stop.

It never looks at X: everything it knows of the data comes out of `Modes.sweep`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import Any, Protocol

import numpy as np

from drnmf.algorithms.acceleration import Direction, accelerated, begin_descent, descend
from drnmf.algorithms.certificates import entry_sum
from drnmf.algorithms.iteration import Point, Task, iterate, swept
from drnmf.algorithms.overlap import overlap
from drnmf.algorithms.result import Interrupted, Progress, Result, Trace
from drnmf.algorithms.updates.base import Rule, Setup, State
from drnmf.algorithms.weights import Policy, WeightState
from drnmf.backends.base import Ask, Data
from drnmf.backends.modes import Factors, Matrix, Modes
from drnmf.losses.base import Omega, base_of, need_nonzeros_only
from drnmf.numerics import (
    ALL_BUT_EXACT,
    LEAST_TRUST,
    LITTLE_LEFT,
    NEWTON_RANK,
    REFERENCE_FLOOR,
    RESTART_RISE,
    Array,
    Vector,
    rise_tolerance,
)
from drnmf.objective.constraints import UNCONSTRAINED, Constraints
from drnmf.objective.objective import Objective, complementarity_gap

Callback = Callable[[Progress], object]


class Keeper(Protocol):
    """What keeps a fit on disk while its runs go by, one after another, always in the same order."""

    @property
    def seconds(self) -> float:
        """Return the time of what was recalled so far, spent before this process began."""
        ...

    def recall(self, data: Modes, omega: Omega, *owners: Rule | Policy) -> Result | Snapshot | None:
        """Return what is known of the run on some data that begins now, whose rule and policy are the owners of states
        among it: its result, where it stood, or nothing.
        """
        ...

    def offer(self, snapshot: Callable[[], Snapshot]) -> None:
        """Take a snapshot if it is time for one; called after every iteration."""
        ...

    def done(self, result: Result) -> None:
        """Note that the run that began last has ended."""
        ...


@dataclass(frozen=True)
class Control:
    """When to stop, whom to tell, and who keeps the state.

    tol : 0 runs exactly max_iter iterations; else stop when neither the maximum nor the gap has moved by
        more than this (relative to the maximum) over the window, or when X is fitted exactly
    inner_iter : updates of all blocks per move of lambda; one trace row per move (Algorithm 2 with many)
    window, fraction : the window has `window` iterations, or this fraction of all so far where that is more. With a
        fraction, a run that falls faster in the second half of the window than in the first continues
    gaps : the gap counts where a run stops; without it a maximum that swings does not go on for ever
    least : what no fit can bring the loss of beta = 2 below; where little above it is left the window is half as long,
        and where much is left tol is smaller
    overwrite : the run may write over the blocks that it begins from
    margin : stop as soon as a scaled loss is this much below one, with reason "reference" and the point where that
        happened: the reference is not the best, and whoever asked can improve it from there
    weight_state : what lambda and its policy continue with, None where they begin
    """

    max_iter: int = 1000
    tol: float = 1e-6
    max_time: float | None = None
    callback: Callback | None = None
    inner_iter: int = 1
    window: int = 10
    fraction: float = 0.0
    gaps: bool = True
    least: float = 0.0
    overwrite: bool = False
    margin: float | None = None
    weight_state: WeightState | None = None
    keeper: Keeper | None = None

    def first(self, policy: Policy, p: int) -> WeightState:
        """Return what lambda begins with."""
        return policy.init(p) if self.weight_state is None else self.weight_state


@dataclass
class Log:
    """The trace while it grows, and what was watched at each row."""

    losses: list[Vector] = field(default_factory=list)
    scaled: list[Vector] = field(default_factory=list)
    weights: list[Vector] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    sweeps: list[int] = field(default_factory=list)
    watched: list[float] = field(default_factory=list)
    penalty: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lowest = list(accumulate(self.watched, min))  # the smallest watched up to each row

    def add(
        self, losses: Vector, scaled: Vector, weights: Vector, seconds: float, sweeps: int, watched: float,
        penalty: float,
    ) -> None:  # fmt: skip
        self.losses.append(losses)
        self.scaled.append(scaled)
        self.weights.append(weights)
        self.seconds.append(seconds)
        self.sweeps.append(sweeps)
        self.watched.append(watched)
        self.penalty.append(penalty)
        self.lowest.append(min(self.lowest[-1], watched) if self.lowest else watched)

    def gap(self, row: int) -> float:
        return float(complementarity_gap(self.weights[row], self.scaled[row]))

    def trace(self) -> Trace:
        scaled, weights = np.array(self.scaled), np.array(self.weights)
        return Trace(
            np.array(self.losses),
            scaled,
            weights,
            np.array(self.seconds),
            complementarity_gap(weights, scaled),
            np.array(self.sweeps),
            penalty=np.array(self.penalty),
        )


@dataclass(frozen=True)
class Best:
    """The point that the run would return: blocks, losses, the weights of its row, and the penalties."""

    blocks: Factors
    losses: Vector
    weights: Vector
    penalty: float = 0.0


@dataclass(frozen=True)
class Snapshot:
    """Where a run stands after an iteration: all of it but the parts, which a sweep at the blocks gives again."""

    blocks: Factors
    states: tuple[State, ...]
    sweeps: int
    swept: Vector  # lambda when the sweep at the blocks was made
    steps: int
    weights: Vector
    policy_state: State
    best: Best
    log: Log
    direction: Direction | None = None


@dataclass(frozen=True)
class Call:
    """A run that is asked for: the minimum of the weighted (fixed policy) or largest (moving policy) scaled loss."""

    data: Modes  # X
    starts: Factors  # (r, columns) for every block, strictly positive; none is changed unless the control allows it
    # objective, rule, policy: what is minimised, how blocks step, how lambda moves
    objective: Objective
    rule: Rule
    policy: Policy
    control: Control  # when to stop, whom to tell, who keeps the state
    constraints: Constraints = UNCONSTRAINED  # what the factors must satisfy
    asked: float = field(default_factory=time.perf_counter)  # when that was


def solve(
    data: Data, W: Array, H: Array, objective: Objective, rule: Rule, policy: Policy, control: Control,
    constraints: Constraints = UNCONSTRAINED,
) -> Result:  # fmt: skip
    """Minimise over the factors of a matrix, from W (m, r) and H (r, n): `minimise` in the names of a matrix."""
    return minimise(Call(Matrix(data), (H, W.T), objective, rule, policy, control, constraints))


def minimise(call: Call) -> Result:
    """Make a run by itself."""
    control, task = call.control, _task_of(call)
    owners = call.objective.omega, task.rule, call.policy
    known = None if control.keeper is None else control.keeper.recall(call.data, *owners)
    if isinstance(known, Result):
        return known
    run = Run.begin(task, call.policy, call.starts, control) if known is None else Run.resume(task, call.policy, known)
    reason = run.reason(control)
    try:
        while reason is None:
            if run.whole is None and task.in_place:
                run.whole = begin_descent(task, run.point, run.weights)
            for left in reversed(range(control.inner_iter)):
                if run.whole is None:
                    run.point = iterate(task, run.point, run.weights, early=task.fixed or left > 0)
                else:
                    run.point = descend(task, run.point, run.whole)
            run.close_iteration()
            if control.callback is not None and control.callback(run.progress(control.max_iter)):
                reason = "callback"
            reason = reason or run.reason(control)
            if control.keeper is not None and reason is None:
                control.keeper.offer(run.snapshot)
    except KeyboardInterrupt:
        raise Interrupted(run.result("interrupted")) from None
    result = run.result(reason)
    if control.keeper is not None:
        control.keeper.done(result)
    return result


def _task_of(call: Call) -> Task:
    """Say what every iteration of a run has to know, and refuse what no run could do."""
    data, objective, constraints = call.data, call.objective, call.constraints
    rank, fixed, deferred = call.starts[0].shape[0], call.policy.constant, data.spaces[0].deferred
    # where lambda moves, an earlier curvature is that of another mixture: of other rows, but not of other losses
    first, *others = map(base_of, objective.omega)
    one = all(other == first for other in others)  # losses of one's own need not be hashable
    columns = sum(data.sizes) if (fixed or one) and constraints.free else None
    alone = len(objective.omega) == 1
    shared = (data.shares_curvature and (alone or not objective.penalties)) or (alone and rank <= NEWTON_RANK)
    rule = call.rule.under(Setup(objective.omega, rank, shared, columns, _visited(data, objective.omega)))
    if rule.facts.chooses and not all(space.whole for space in data.spaces):
        raise ValueError(
            f"{type(rule).__name__} chooses the weights from all parts of the factors in one place, and the rows of a "
            "Dask array are never in one place: use another policy, for example policy='auto'."
        )
    _refuse_pieces(objective, data)
    in_place = call.control.keeper is None and not deferred  # a keeper keeps the last iteration whole
    return Task.of(data, objective, rule, fixed, rank, constraints, in_place)


def _visited(data: Modes, omega: Omega) -> int | None:
    """Count the entries of X that a sweep visits; None where X is not in the memory of this process."""
    if data.spaces[0].deferred:
        return None
    return data.count - (data.zeros if data.data.compressed and need_nonzeros_only(omega) else 0)


@dataclass
class Run:
    """A run between two iterations."""

    task: Task
    policy: Policy
    point: Point
    weights: Vector
    policy_state: State
    best: Best
    log: Log
    started: float
    direction: Direction | None = None
    whole: Any = None  # makes whole iterations, once one was made half by half

    @classmethod
    def begin(cls, task: Task, policy: Policy, starts: Factors, control: Control) -> Run:
        started, spaces = time.perf_counter(), task.data.spaces
        weights, policy_state = control.first(policy, len(task.objective.omega))
        blocks = tuple(space.put(F) for space, F in zip(spaces, starts, strict=True))
        if task.in_place and not control.overwrite:
            blocks = tuple(_apart(F, start) for F, start in zip(blocks, starts, strict=True))
        every = zip(spaces, task.rules, blocks, strict=True)
        states = tuple(space.map(rule.init, F) for space, rule, F in every)
        return cls.at(task, policy, swept(task, blocks, weights, states, 1, 0), policy_state, started)

    @classmethod
    def at(cls, task: Task, policy: Policy, point: Point, policy_state: State, started: float) -> Run:
        """Begin at a point that was swept under the first weights."""
        weights = point.weights
        _require_finite(point.sweep.losses, task.data)
        best = Best(point.blocks, point.sweep.losses, weights, point.penalty)
        run = cls(task, policy, point, weights, policy_state, best, Log(), started)
        run._add_row(task.objective.scaled(point.sweep.losses))
        return run

    @classmethod
    def resume(cls, task: Task, policy: Policy, at: Snapshot) -> Run:
        """From a snapshot; the sweep at its point is made anew and not counted: the run itself made it already."""
        point = swept(task, at.blocks, at.swept, at.states, at.sweeps, at.steps)
        started = time.perf_counter() - at.log.seconds[-1]
        return cls(task, policy, point, at.weights, at.policy_state, at.best, at.log, started, at.direction)

    def snapshot(self) -> Snapshot:
        point = self.point
        return Snapshot(
            point.blocks, point.states, point.sweeps, point.weights, point.steps,
            self.weights, self.policy_state, self.best, self.log, self.direction,
        )  # fmt: skip

    @property
    def iterations(self) -> int:
        return len(self.log.seconds) - 1

    def close_iteration(self) -> None:
        """Extrapolate from where the blocks are now, and note it; coordinate descent does that by itself."""
        if self.whole is None:
            self.point, self.direction = accelerated(self.task, self.point, self.weights, self.direction)
        if self.note():
            self.point = self.task.restart(self.point)

    def note(self) -> bool:
        """Move lambda, write the row, remember the best, and tell whether the states of the rule are to restart."""
        task, losses = self.task, self.point.sweep.losses
        scaled = task.objective.scaled(losses)
        if task.rule.facts.chooses:
            # all blocks chose, the last one last; one of which nothing is free, or to which all are one, does not
            chosen = map(task.rule.chosen, reversed(self.point.states))
            self.weights = next((weights for weights in chosen if weights is not None), self.weights)
        else:
            self.weights, self.policy_state = self._moved(scaled)
        self._add_row(scaled)
        watched = self.log.watched
        if not task.rule.facts.best or task.in_place or watched[-1] == self.log.lowest[-1]:
            self.best = Best(self.point.blocks, losses, self.weights, self.point.penalty)
        return watched[-1] > watched[-2] and watched[-1] > self.log.lowest[-1] * (1.0 + RESTART_RISE)

    def _moved(self, scaled: Vector) -> WeightState:
        """Where lambda goes after an iteration."""
        if not self.policy.slopes:
            return self.policy.step(self.weights, scaled, self.policy_state)
        slopes = overlap(self.task, self.point, self.weights)
        return self.policy.follow(self.weights, scaled, slopes, self.policy_state)

    def _add_row(self, scaled: Vector) -> None:
        losses, penalty = self.point.sweep.losses, self.point.penalty
        seconds, watched = time.perf_counter() - self.started, self.task.watched(self.weights, losses, penalty)
        self.log.add(losses, scaled, self.weights, seconds, self.point.sweeps, watched, penalty)

    def progress(self, max_iter: int) -> Progress:
        log, objective = self.log, self.task.objective
        losses, components = self.point.sweep.losses, partial(self._components, self.point.blocks[0])
        return Progress(
            self.iterations, losses, log.scaled[-1], self.weights, log.seconds[-1], max_iter, objective.omega,
            components,
        )  # fmt: skip

    def _components(self, B: Array) -> Array:
        return self.task.data.spaces[0].get(1.0 * B if self.task.in_place else B)  # the next step may overwrite it

    def reason(self, control: Control) -> str | None:
        """Why the run is over, or None."""
        if self.iterations and control.max_time is not None and self.log.seconds[-1] >= control.max_time:
            return "max_time"
        if control.margin is not None and self.log.scaled[-1].min() < 1.0 - control.margin:
            return "reference"
        if self._stalled(control):
            return "tol"
        return "max_iter" if self.iterations >= control.max_iter else None

    def _stalled(self, control: Control) -> bool:
        """Neither what is minimised nor the gap moved by more than tol over the window, or the fit is exact."""
        watched, lowest, w = self.log.watched, self.log.lowest, self._window(control)
        if control.tol <= 0 or len(watched) <= (2 * w if w > 1 else 1):
            return False
        before, now = lowest[-w - 1], lowest[-1]
        if now <= REFERENCE_FLOOR * watched[0]:
            return True  # it would fall by the same fraction for ever
        # what is left of a nearly exact fit would fall by the same fraction for as long: its size counts too
        least = control.tol * self._trust(control) * max(before, ALL_BUT_EXACT * watched[0])
        still = before - now <= least
        if still and control.gaps:
            still = abs(self.log.gap(-w - 1) - self.log.gap(-1)) <= least
        if not (still and control.fraction):
            return still
        first, second = self._halves(w)
        # a run that gathers speed, as on its way down from a saddle, continues
        return bool(second <= first + rise_tolerance(self.task.data.dtype) * now)

    def _window(self, control: Control) -> int:
        """How many iterations the rule looks back."""
        w = max(control.window, int(control.fraction * self.iterations))
        return w // 2 if self._room(control) <= LITTLE_LEFT else w

    def _room(self, control: Control) -> float:
        """How far the loss is above the least there can be, relative to it; inf where that is not known."""
        return float(self.log.losses[-1].max()) / control.least - 1.0 if control.least > 0 else math.inf

    def _trust(self, control: Control) -> float:
        """The part of tol that counts: the more a run could still gain, the less it may move where it is to stop."""
        room = self._room(control)
        return max(math.sqrt(LITTLE_LEFT / room), LEAST_TRUST) if LITTLE_LEFT < room < math.inf else 1.0

    def _halves(self, w: int) -> tuple[float, float]:
        """By how much the run fell in the first and in the second half of the window."""
        earlier, middle, now = (self.log.lowest[-k * (w // 2) - 1] for k in (2, 1, 0))
        return earlier - middle, middle - now

    def result(self, reason: str) -> Result:
        """The best point with its losses and its weights (those of its row), and the trace of the whole run.

        A run that ended because it beat a reference gives the point that did. A loss that is no finite number is
        refused.
        """
        best, objective, data = self.best, self.task.objective, self.task.data
        if reason == "reference":
            best = Best(self.point.blocks, self.point.sweep.losses, self.weights, self.point.penalty)
        if reason == "interrupted" and self.task.in_place:  # during a step, which lowers the loss column by column
            best = replace(best, losses=data.sweep(0, best.blocks, Ask(objective.omega, parts=None)).losses)
        sums = [space.sum(entry_sum, F) for space, F in zip(data.spaces, best.blocks, strict=True)]
        _require_finite(np.append(best.losses, sums), data)
        return Result(
            blocks=best.blocks,
            omega=objective.omega,
            references=objective.references,
            losses=best.losses,
            scaled_losses=objective.scaled(best.losses),
            weights=best.weights,
            trace=self.log.trace(),
            n_iter=self.iterations,
            converged=reason == "tol",
            reason=reason,
            penalty=best.penalty,
            weight_state=(self.weights, self.policy_state),
        )


def _apart(F: Array, given: Array) -> Array:
    """F in memory of its own."""
    return 1.0 * F if np.may_share_memory(F, given) else F


def _refuse_pieces(objective: Objective, data: Modes) -> None:
    """Refuse a penalty that looks at neighbours where the columns of a factor live apart."""
    for side, space in zip(data.names, data.spaces, strict=True):
        for term in objective.penalties.terms:
            if not (space.whole or term.pieces(side)):
                what = "rows" if side == "W" else "columns"
                raise ValueError(
                    f"The penalty {term.key} compares neighbouring {what} of X, and those of a Dask array live in "
                    "different places: fit an array, or leave the penalty out."
                )


def _require_finite(values: Vector, data: Modes) -> None:
    """Refuse a point whose losses or factors are not numbers: nothing that follows from it could be trusted."""
    if not np.isfinite(values).all():
        raise ValueError(
            f"The losses or factors are not finite: powers of X and WH leave the range of {data.dtype} (mean of "
            f"X {data.mean / data.scale:.3g}). Divide X by its mean before the fit, or use float64."
        )


def with_notes(result: Result, *notes: str) -> Result:
    """The result with remarks added (floored references, floored zeros, ...)."""
    return replace(result, notes=result.notes + notes)
