"""Many runs at once: one operation for all in place of one for each.

On a GPU the sweeps and steps of a small X take less time than it takes to begin them. So runs that are alike keep step:
`algorithms.iteration` steps blocks (runs, r, n), a step that rose is retried for the runs where it did, and each run
has its own weights, trace and end. A run comes to what it would come to by itself, up to rounding.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from drnmf.algorithms.correlation import batched_correlation
from drnmf.algorithms.iteration import Point, Runs, T, Task, iterate, swept
from drnmf.algorithms.loop import Call, Control, Run
from drnmf.algorithms.result import Result
from drnmf.algorithms.updates.base import Parts, Setup, State
from drnmf.backends.base import Ask, Sweep
from drnmf.backends.modes import Factors, Matrix
from drnmf.backends.open import batch_kind, batch_of
from drnmf.losses.base import is_frobenius
from drnmf.numerics import Vector, of_each_run
from drnmf.objective.objective import Objective
from drnmf.trees import map_leaves


def task_of(call: Call) -> Task:
    """Choose the rules of a run that is made with others."""
    rank = call.starts[0].shape[0]
    rule = call.rule.under(Setup(call.objective.omega, rank))
    return Task.of(call.data, call.objective, rule, call.policy.constant, rank, call.constraints)


def kind_of(call: Call) -> Hashable:
    """Say what runs must have in common to be made at once; None where one cannot be made with others."""
    objective, control = call.objective, call.control
    if not isinstance(call.data, Matrix) or control.keeper is not None or objective.penalties:
        return None
    data, task, rank = batch_kind(call.data.data), task_of(call), call.starts[0].shape[0]
    quadratic = is_frobenius(objective.omega)
    # asked of a step beyond every delay; `task_of` names no columns, so that no curvature is kept from step to step
    own_curvature = task.rule.wants(1 << 30, rank, objective.omega).curvature and not quadratic
    if data is None or own_curvature or not call.constraints.free or not task.rule.facts.batched:
        return None
    return data, rank, objective.omega, task.rule, task.fixed, control.inner_iter


def solve_batch(calls: Sequence[Call]) -> list[Result | BaseException]:
    """Make the runs of calls of one kind at once: the result of every call, or what `minimise` would have raised."""
    ended: dict[int, Result | BaseException] = {}
    task, at, runs = _begin(calls, ended)
    inner_iter = calls[0].control.inner_iter
    while runs:
        for inner in range(inner_iter):
            at = iterate(task, at, task.weights, task.fixed or inner + 1 < inner_iter)
        risen = [k for k, (run, point) in enumerate(zip(runs.values(), _points(at), strict=True)) if _note(run, point)]
        if risen:
            some = np.array(risen)
            again = task.restart(replace(at, states=task.take(at.states, some)))
            at = replace(at, states=task.put(at.states, some, again.states))
        left = [k for k, i in enumerate(runs) if not _over(runs[i], calls[i].control, i, ended)]
        runs = {i: run for i, run in runs.items() if i not in ended}
        if runs and len(left) < len(at.weights):
            task, at = task.within(np.array(left)), task.take(at, np.array(left))
        task = task.under([run.weights for run in runs.values()]) if runs else task
    return [ended[i] for i in range(len(calls))]


def _begin(calls: Sequence[Call], ended: dict[int, Result | BaseException]) -> tuple[Together, Point, dict[int, Run]]:
    """Sweep all starts at once; a run whose losses there are not finite has ended."""
    started = time.perf_counter()
    policies = [call.control.first(call.policy, len(call.objective.omega)) for call in calls]
    tasks = [task_of(call) for call in calls]
    task = Together.over(calls, tasks, [weights for weights, _ in policies])
    every = zip(task.data.sides, *(call.starts for call in calls), strict=True)
    blocks = tuple(side.stack(starts) for side, *starts in every)
    states = tuple(rule.init(F) for rule, F in zip(task.rules, blocks, strict=True))
    at = replace(swept(task, blocks, task.weights, states, 1, 0), sweeps=np.ones(len(calls), int))
    runs: dict[int, Run] = {}
    for i, (call, one, point, (_, state)) in enumerate(zip(calls, tasks, _points(at), policies, strict=True)):
        try:
            runs[i] = Run.at(one, call.policy, point, state, started)
        except ValueError as error:
            ended[i] = error
    for i in list(runs):
        _over(runs[i], replace(calls[i].control, callback=None), i, ended)
    runs = {i: run for i, run in runs.items() if i not in ended}
    some = np.array(list(runs), dtype=np.intp)
    return (task, at, runs) if len(runs) in (0, len(calls)) else (task.within(some), task.take(at, some), runs)


def _points(at: Point) -> list[Point]:
    """What every run is told of."""
    sweep = at.sweep
    rows = zip(zip(*at.blocks, strict=True), sweep.losses, at.sweeps.tolist(), at.weights, strict=True)
    return [
        Point(blocks, Sweep(losses, sweep.N, sweep.P), (), sweeps, weights, at.steps)
        for blocks, losses, sweeps, weights in rows
    ]


def _note(run: Run, point: Point) -> bool:
    run.point = point
    return run.note()


def _over(run: Run, control: Control, i: int, ended: dict[int, Result | BaseException]) -> bool:
    """Whether a run is over, and then with which result."""
    try:
        stopped = control.callback is not None and control.callback(run.progress(control.max_iter))
        reason = "callback" if stopped else run.reason(control)
        if reason is not None:
            found = run.result(reason)
            ended[i] = replace(found, blocks=tuple(1.0 * F for F in found.blocks))  # not views of all runs
    except Exception as error:  # of this run's callback or factors: no other run's business
        ended[i] = error
    return i in ended


@dataclass(frozen=True, eq=False)
class Stacked(Matrix):
    """The matrices of several runs, of which `data` is one: `Modes` whose blocks have an axis of runs in front."""

    batch: Any

    reuses = False

    @cached_property
    def sides(self) -> tuple[Any, Any]:
        return self.batch, self.batch.T

    def sweep(self, block: int, blocks: Factors, ask: Ask) -> Sweep:
        return self.sides[block].sweep(blocks[1 - block].swapaxes(-1, -2), blocks[block], ask)


@dataclass(frozen=True)
class Together(Task):
    """The task of several runs.

    objectives : of every run
    floors : (runs,) for every block
    weights : (runs, p) lambda; made : (runs, p) c_beta
    """

    data: Stacked
    floors: Any
    objectives: tuple[Objective, ...] = ()
    weights: Any = None
    made: Any = None

    @classmethod
    def over(cls, calls: Sequence[Call], tasks: Sequence[Task], weights: list[Vector]) -> Together:
        """Join the tasks of calls of one kind."""
        task, data = tasks[0], [call.data.data for call in calls]
        batch = batch_of(data, task.objective.omega)
        floors = np.array([one.floors for one in tasks]).T
        modes, objectives = Stacked(data[0], batch), tuple(call.objective for call in calls)
        task = cls(modes, task.objective, task.rule, task.fixed, task.rules, floors, task.certain, False, objectives)
        return task.under(weights)

    def under(self, weights: list[Vector]) -> Together:
        """The same under other weights."""
        if self.weights is not None and np.array_equal(weights, self.weights):
            return self
        pairs = zip(self.objectives, weights, strict=True)
        return replace(self, weights=np.array(weights), made=np.array([one.coefficients(w) for one, w in pairs]))

    def guarded(self, weights: Vector, point: Point) -> Vector:
        found: Vector = (weights / self._references * point.sweep.losses).sum(axis=1)
        return found

    def rounding(self, weights: Vector, values: Any, entries: int, unit: float) -> Vector:
        runs = zip(self.objectives, weights, values.tolist(), strict=True)
        return np.array([one.rounding(w, value, entries, unit) for one, w, value in runs])

    @cached_property
    def _references(self) -> Vector:
        return np.array([objective.references for objective in self.objectives])

    def coefficients(self, weights: Vector) -> Vector:
        """c_beta as asked for: (p,) where all runs have the same, else (p, runs)."""
        c = self.made
        return c[0] if (c == c[0]).all() else np.ascontiguousarray(c.T)

    def risen(self, values: object, ceiling: Any) -> Runs | None:
        found = np.flatnonzero(~(values <= ceiling))
        return found if found.size else None

    def within(self, runs: Runs) -> Together:
        return replace(
            self,
            data=replace(self.data, batch=self.data.batch.take(runs)),
            objectives=tuple(self.objectives[i] for i in runs),
            floors=self.floors[:, runs],
            weights=self.weights[runs],
            made=self.made[runs],
        )

    def take(self, tree: T, runs: Runs) -> T:
        """Return what belongs to some runs, of whatever has an axis of runs; one number is that of all."""
        found: T = map_leaves(lambda leaf: leaf if leaf is None or np.ndim(leaf) == 0 else leaf[runs], tree)
        return found

    def put(self, tree: T, runs: Runs, part: T) -> T:
        def joined(whole: Any, some: Any) -> Any:
            if whole is None or (np.ndim(whole) == 0 and np.ndim(some) == 0 and whole == some):
                return whole
            if np.ndim(whole) == 0:
                whole = np.full(len(self.objectives), float(whole))
            whole = whole.copy() if isinstance(whole, np.ndarray) else whole.clone()
            whole[runs] = some
            return whole

        found: T = map_leaves(joined, tree, part)
        return found

    def unmoved(self, before: State, after: State) -> State:
        return before if type(before) is type(after) else after  # the states of all runs are of one type

    def parts(self, block: int, point: Point, weights: Vector, coefficients: Vector) -> Parts:
        omega, F, sweep = self.objective.omega, point.blocks[block], point.sweep
        # N and P of one loss are weighted already
        c: Any = [1.0] if len(omega) == 1 else [of_each_run(one, F) for one in coefficients]
        correlated = self._wants(block, point.steps, point.blocks).correlation
        correlation = batched_correlation(F, point.blocks[1 - block], omega, c) if correlated else None
        floors = self.floors[block]
        floor = of_each_run(floors[0] if (floors == floors[0]).all() else floors, F)
        N, P = sweep.N.swapaxes(0, 1), sweep.P.swapaxes(0, 1)
        return Parts(N, P, c, omega, floor, gram=sweep.gram, correlation=correlation)
