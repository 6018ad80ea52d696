"""Many runs at once: the loop of `algorithms.loop` for every run, with one operation for all in place of one for each.

On a GPU the sweeps and steps of a small X take less time than it takes to begin them. So runs that are alike keep step:
both half-steps are those of `algorithms.iteration` on blocks (runs, r, n), a step that rose is retried for the runs
where it did, and each run has its own weights, trace and end. A run comes to what it would come to by itself, up to
rounding.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from drnmf.algorithms.correlation import batched_correlation
from drnmf.algorithms.iteration import Point, Task
from drnmf.algorithms.loop import Control, Run
from drnmf.algorithms.result import Result
from drnmf.algorithms.updates.base import Parts, Rule
from drnmf.algorithms.weights import Policy
from drnmf.backends.base import Ask, Data, Sweep
from drnmf.backends.batch import Batch, Index, batch_kind, batch_of
from drnmf.backends.modes import Matrix
from drnmf.losses.base import Omega
from drnmf.numerics import MAX_HALVINGS, Array, Vector, of_each_run, rise_tolerance
from drnmf.objective.objective import Objective
from drnmf.trees import map_leaves

T = TypeVar("T")


@dataclass(frozen=True)
class Call:
    """The arguments of `loop.solve`, and when they were given."""

    data: Data
    W: Array
    H: Array
    objective: Objective
    rule: Rule
    policy: Policy
    control: Control
    asked: float = field(default_factory=time.perf_counter)

    @cached_property
    def task(self) -> Task:
        rule, constant = self.rule.under(self.objective.omega), getattr(self.policy, "constant", False)
        return Task.of(Matrix(self.data), self.objective, rule, constant, self.H.shape[0])

    @property
    def kind(self) -> Hashable:
        """What calls must have in common to be made at once; None where one cannot be made with others."""
        objective, rank, rule = self.objective, self.H.shape[0], self.task.rule
        quadratic = [loss.free_part for loss in objective.omega] == ["gram"]
        own_curvature = rule.curves(1 << 30, rank) and not quadratic
        if self.control.keeper is not None or objective.penalties or own_curvature:
            return None
        data = batch_kind(self.data)
        if data is None or not rule.batched:
            return None
        return data, rank, objective.omega, rule, self.task.fixed, self.control.inner_iter


def solve_batch(calls: Sequence[Call]) -> list[Result | BaseException]:
    """Make the runs of calls of one kind at once.

    Returns
    -------
    ended : the result of every call, or what `solve` would have raised
    """
    ended: dict[int, Result | BaseException] = {}
    group, at, runs = _begin(calls, ended)
    inner_iter = calls[0].control.inner_iter
    while runs:
        for inner in range(inner_iter):
            at = group.iterate(at, group.fixed or inner + 1 < inner_iter)
        risen = [k for k, (run, point) in enumerate(zip(runs.values(), at.points(), strict=True)) if _note(run, point)]
        if risen:
            states = _restarted(group.rule, _take(at.states, risen))
            at = replace(at, states=_put(at.states, np.array(risen), states, len(at.sweeps)))
        left = [k for k, i in enumerate(runs) if not _over(runs[i], calls[i].control, i, ended)]
        runs = {i: run for i, run in runs.items() if i not in ended}
        if runs and len(left) < len(at.sweeps):
            group, at = group.take(np.array(left)), _take(at, np.array(left))
        group = group.under([run.weights for run in runs.values()]) if runs else group
    return [ended[i] for i in range(len(calls))]


def _begin(calls: Sequence[Call], ended: dict[int, Result | BaseException]) -> tuple[_Group, _At, dict[int, Run]]:
    """Sweep all starts at once; a run whose losses there are not finite has ended."""
    started, first = time.perf_counter(), calls[0]
    policies = [call.policy.init(len(first.objective.omega)) for call in calls]
    group = _Group.of(calls, batch_of([call.data for call in calls], first.objective.omega))
    group = group.under([weights for weights, _ in policies])
    A, B = group.data.T.stack([call.W.T for call in calls]), group.data.stack([call.H for call in calls])
    curved = group.rule.curves(0, B.shape[-2])
    (sweep,) = group.data.space.read(
        group.data.sweep(A.swapaxes(-1, -2), B, group.ask(early=group.fixed, curved=curved))
    )
    at = _At(A, B, sweep, (group.rule.init(B), group.rule.init(A)), np.ones(len(calls), int), 0, group.chosen)
    runs: dict[int, Run] = {}
    for i, (call, point, (_, state)) in enumerate(zip(calls, at.points(), policies, strict=True)):
        try:
            runs[i] = Run.at(call.task, call.policy, point, state, started)
        except ValueError as error:
            ended[i] = error
    for i in list(runs):
        _over(runs[i], replace(calls[i].control, callback=None), i, ended)
    runs = {i: run for i, run in runs.items() if i not in ended}
    some = np.array(list(runs), dtype=np.intp)
    return (group, at, runs) if len(runs) in (0, len(calls)) else (group.take(some), _take(at, some), runs)


def _note(run: Run, point: Point) -> bool:
    run.point = point
    return run.note()


def _over(run: Run, control: Control, i: int, ended: dict[int, Result | BaseException]) -> bool:
    """Whether a run is over, and then with which result."""
    try:
        told = control.callback is not None and control.callback(run.progress(control.max_iter))
        reason = "callback" if told else run.reason(control)
        if reason is not None:
            found = run.result(reason)
            ended[i] = replace(found, blocks=tuple(1.0 * F for F in found.blocks))  # not views of all runs
    except Exception as error:  # of this run's callback or factors: no other run's business
        ended[i] = error
    return i in ended


@dataclass(frozen=True)
class _At:
    """Where all runs stand: `iteration.Point` with an axis of runs."""

    A: Array
    B: Array
    sweep: Sweep
    states: tuple[Any, Any]
    sweeps: Any  # (runs,)
    steps: int
    weights: Any  # (runs, p), lambda when the sweep was made

    def points(self) -> list[Point]:
        """What every run is told of."""
        rows = zip(self.A, self.B, self.sweep.losses, self.sweeps.tolist(), self.weights, strict=True)
        return [
            Point((B, A), Sweep(losses, self.sweep.N, self.sweep.P), (None, None), sweeps, weights, self.steps)
            for A, B, losses, sweeps, weights in rows
        ]


@dataclass(frozen=True)
class _Tried:
    """A block that was tried, the sweep at it, and the state that goes with it."""

    F: Array
    sweep: Sweep
    state: Any


@dataclass(frozen=True)
class _Group:
    """What does not change during an iteration, of every run.

    floors : (2, runs), of H and W
    chosen : (runs, p) lambda; coefficients : (runs, p) c_beta
    """

    rule: Rule
    omega: Omega
    fixed: bool
    data: Batch
    objectives: tuple[Objective, ...]
    floors: Any
    slack: float
    chosen: Any = None
    coefficients: Any = None

    @classmethod
    def of(cls, calls: Sequence[Call], data: Batch) -> _Group:
        task, rank = calls[0].task, calls[0].H.shape[0]
        floors = np.array([[task.rule.floor(side, call.data.mean, rank) for call in calls] for side in "HW"])
        objectives = tuple(call.objective for call in calls)
        slack = rise_tolerance(calls[0].data.dtype)
        return cls(task.rule, calls[0].objective.omega, task.fixed, data, objectives, floors, slack)

    def under(self, weights: list[Vector]) -> _Group:
        """The same under other weights."""
        if self.chosen is not None and np.array_equal(weights, self.chosen):
            return self
        pairs = zip(self.objectives, weights, strict=True)
        made = np.array([objective.coefficients(chosen) for objective, chosen in pairs])
        return replace(self, chosen=np.array(weights), coefficients=made)

    def take(self, at: Index) -> _Group:
        """Some of the runs."""
        return replace(
            self, data=self.data.take(at), objectives=tuple(self.objectives[i] for i in at),
            floors=self.floors[:, at], chosen=self.chosen[at], coefficients=self.coefficients[at],
        )  # fmt: skip

    @cached_property
    def scale(self) -> Vector:
        """(runs, p) lambda_beta / e_beta: what no half-step may raise is the sum of the losses under it."""
        return self.chosen / np.array([objective.references for objective in self.objectives])

    def values(self, losses: Vector) -> Vector:
        found: Vector = (self.scale * losses).sum(axis=1)
        return found

    @cached_property
    def shared(self) -> Any:
        """c_beta as asked for: (p,) where all runs have the same, else (p, runs)."""
        c = self.coefficients
        return c[0] if (c == c[0]).all() else np.ascontiguousarray(c.T)

    def ask(self, early: bool, curved: bool) -> Ask:
        known = early or len(self.omega) == 1
        return Ask(self.omega, self.shared if known else "separate", curvature=self.shared if curved else None)

    def floor(self, side: str, F: Array) -> Any:
        floors = self.floors["HW".index(side)]
        return of_each_run(floors[0] if (floors == floors[0]).all() else floors, F)

    def numbers(self, F: Array) -> Any:
        """c_beta of every loss for steps from F: one for all runs, or (runs, 1, 1)."""
        if len(self.omega) == 1:  # N and P are weighted already
            return [1.0]
        return [of_each_run(c, F) for c in self.shared]

    def attempt(self, side: str, F: Array, G: Array, before: Sweep, state: Any, ask: Ask, correlated: bool) -> _Tried:
        """Step from the parts of F in `before`, and sweep for G at the new point (`iteration._Half.attempt`)."""
        c = self.numbers(F)
        correlation = batched_correlation(F, G, self.omega, c) if correlated else None
        N, P = before.N.swapaxes(0, 1), before.P.swapaxes(0, 1)
        parts = Parts(N, P, c, self.omega, self.floor(side, F), gram=before.gram, correlation=correlation)
        moved, after = self.rule.step(F, parts, state)
        return _Tried(moved, self.sweep(side, moved, G, ask), after)

    def sweep(self, side: str, F: Array, G: Array, ask: Ask) -> Sweep:
        """The parts of the block that is not on this side."""
        data = self.data.T if side == "H" else self.data
        return data.sweep(F.swapaxes(-1, -2), G, ask)

    def settle(self, side: str, F: Array, G: Array, before: Vector, state: Any, tried: _Tried, how: _How) -> _Settled:
        """Retry the steps of the runs that rose, until none does (`iteration._Half.settle`).

        Returns
        -------
        tried : where every run ended up
        spent : (runs,) sweeps, the first of each included
        """
        spent, count = np.ones(len(before), int), 0
        if self.rule.certain(self.omega):
            return tried, spent
        ceiling = self.values(before) * (1.0 + self.slack)
        above = np.flatnonzero(~(self.values(tried.sweep.losses) <= ceiling))
        while above.size and count <= MAX_HALVINGS:
            count += 1
            part, old, group = _take(tried, above), F[above], self.take(above)
            if count > MAX_HALVINGS:
                moved, after = old, _take(state if type(state) is type(part.state) else tried.state, above)
            else:
                moved, after = self.rule.retry(old, part.F, count, part.state)
            (sweep,) = self.data.space.read(group.sweep(side, moved, G[above], group.ask(*how)))
            tried = _put(tried, above, _Tried(moved, sweep, after), len(spent))
            spent[above] += 1
            above = above[~(group.values(sweep.losses) <= ceiling[above])]
        return tried, spent

    def iterate(self, at: _At, early: bool) -> _At:
        """Update H, then W, of every run with lambda fixed (`iteration.iterate`)."""
        rule, rank, step = self.rule, at.B.shape[-2], at.steps
        correlated = rule.correlates(step, rank, self.omega)
        how_H, how_W = (True, rule.curves(step, rank)), (early, rule.curves(step + 1, rank))
        state_H, state_W = at.states
        first = self.attempt("H", at.B, at.A, at.sweep, state_H, self.ask(*how_H), correlated)
        second = self.attempt("W", at.A, first.F, first.sweep, state_W, self.ask(*how_W), correlated)
        sweeps = self.data.space.read(first.sweep, second.sweep)
        first, second = replace(first, sweep=sweeps[0]), replace(second, sweep=sweeps[1])
        first, spent_H = self.settle("H", at.B, at.A, at.sweep.losses, state_H, first, how_H)
        again = np.flatnonzero(spent_H > 1)
        if again.size:  # the steps of W behind rejected ones of H
            group = self.take(again)
            part, A, state = _take(first, again), at.A[again], _take(state_W, again)
            redone = group.attempt("W", A, part.F, part.sweep, state, group.ask(*how_W), correlated)
            (sweep,) = self.data.space.read(redone.sweep)
            second = _put(second, again, replace(redone, sweep=sweep), len(spent_H))
        second, spent_W = self.settle("W", at.A, first.F, first.sweep.losses, state_W, second, how_W)
        spent = at.sweeps + spent_H + spent_W + (spent_H > 1)
        return _At(second.F, first.F, second.sweep, (first.state, second.state), spent, step + 1, self.chosen)


_How = tuple[bool, bool]
_Settled = tuple[_Tried, Any]


def _restarted(rule: Rule, states: tuple[Any, Any]) -> tuple[Any, Any]:
    return rule.restart(states[0]), rule.restart(states[1])


def _take(tree: T, at: Any) -> T:
    """Some of the runs of whatever has an axis of runs; one number is that of all."""
    found: T = map_leaves(lambda leaf: leaf if leaf is None or np.ndim(leaf) == 0 else leaf[at], tree)
    return found


def _put(tree: T, at: Index, part: T, count: int) -> T:
    """The same with some of `count` runs replaced."""

    def joined(whole: Any, some: Any) -> Any:
        if whole is None or (np.ndim(whole) == 0 and np.ndim(some) == 0 and whole == some):
            return whole
        if np.ndim(whole) == 0:
            whole = np.full(count, float(whole))
        whole = whole.copy() if isinstance(whole, np.ndarray) else whole.clone()
        whole[at] = some
        return whole

    found: T = map_leaves(joined, tree, part)
    return found
