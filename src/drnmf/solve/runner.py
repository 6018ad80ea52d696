"""How runs are made: their rules and policy, the budget that they share, and who watches them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from drnmf.algorithms.initialize import Start
from drnmf.algorithms.loop import Callback, Control
from drnmf.algorithms.result import Progress
from drnmf.algorithms.updates import as_rule
from drnmf.algorithms.updates.base import Rule, Setup
from drnmf.algorithms.updates.hals import HALS
from drnmf.algorithms.updates.minimax import Minimax
from drnmf.algorithms.updates.monotone import Extrapolated
from drnmf.algorithms.updates.newton import Newton
from drnmf.algorithms.weights import ByRule, Fixed, Policy, Reactive, as_policy
from drnmf.numerics import LEVEL_TOLERANCE, REFERENCE_TOLERANCE, ROUGH_LEVEL, ROUGH_TOLERANCE
from drnmf.problem.problem import Problem
from drnmf.problem.units import Units


@dataclass(frozen=True)
class Stopping:
    """A callback that ends a run once an event is set, and asks nothing else."""

    stop: threading.Event

    def __call__(self, progress: Progress) -> bool:
        return self.stop.is_set()


@dataclass(frozen=True)
class Shown:
    """A callback that shows how far a run is: it ends none, and need not see every iteration."""

    show: Callback

    def __call__(self, progress: Progress) -> None:
        self.show(progress)


@dataclass(frozen=True)
class Watching:
    """The callback of a run that has several."""

    # told after every iteration, in the unit of the caller; True from one of them ends the run
    listeners: tuple[Callback, ...] = ()
    stops: tuple[threading.Event, ...] = ()  # any of them ends the run, and then nobody is told
    units: Units = field(default_factory=lambda: Units(1.0))
    # held while listeners are told, where several runs have the same
    alone: AbstractContextManager[object] = field(default_factory=nullcontext)

    @classmethod
    def of(cls, callbacks: tuple[Callback | None, ...], units: Units) -> Watching:
        """Tell callbacks, of which any may be missing; those that only wait for an event become events."""
        events = tuple(callback.stop for callback in callbacks if isinstance(callback, Stopping))
        listeners = tuple(call for call in callbacks if call is not None and not isinstance(call, Stopping))
        return cls(listeners, events, units)

    def __call__(self, progress: Progress) -> bool:
        if self.stopped:
            return True
        if not self.listeners:
            return False
        with self.alone:
            seen = self.units.progress(progress)
            answers = [bool(listener(seen)) for listener in self.listeners]  # every one of them is told
        return any(answers)

    @property
    def asks(self) -> bool:
        """Whether there is anybody to tell or anything to end it."""
        return bool(self.listeners or self.stops)

    @property
    def stopped(self) -> bool:
        """Whether one of the events is set."""
        return any(stop.is_set() for stop in self.stops)

    @property
    def glances(self) -> bool:
        """Whether it is enough to be told now and then, because no listener can end the run."""
        return all(isinstance(listener, Shown) for listener in self.listeners)


@dataclass
class Budget:
    """What the runs of a fit share: when each stops, the time, and how many go at once.

    The time left is divided evenly among the runs left. Time that a resumed fit spent before counts; that of the run
    it resumes is in the run's own log.
    """

    control: Control  # of every run
    runs: int  # how many are left
    watch: Callable[[str], Callback | None] = lambda stage: None  # hands out what watches a stage
    jobs: int = 1  # how many run at a time
    units: Units = field(default_factory=partial(Units, 1.0))  # callbacks are told in those of the caller
    batched: bool = False  # those that are alike are made at once, on a GPU
    started: float = field(default_factory=time.perf_counter)
    # set once a run has failed, which ends the others
    stop: threading.Event = field(default_factory=threading.Event, repr=False)
    _alone: AbstractContextManager[object] = field(default_factory=threading.RLock, repr=False)

    def take(self, stage: str, callback: Callback | None = None) -> Control:
        """The control of the next run; `callback` is the user's, beside whatever watches the stage."""
        if self.jobs == 1:
            return self._take(stage, callback)
        with self._alone:  # what is left of the time is divided by the runs that are left: by one thread at a time
            return self._take(stage, callback)

    def expect(self, runs: int) -> None:
        """Count runs that nobody knew of when the fit began: they share the time that is left."""
        with self._alone:
            self.runs += runs

    def _take(self, stage: str, callback: Callback | None) -> Control:
        watcher = self.watch(stage)
        left = None
        if self.control.max_time is not None:
            before = 0.0 if self.control.keeper is None else self.control.keeper.seconds
            spent = before + time.perf_counter() - self.started
            left = max(self.control.max_time - spent, 0.0) / max(-(-self.runs // self.jobs), 1)
        self.runs -= 1
        watching = Watching.of((watcher, callback), self.units)
        if self.jobs > 1:  # callbacks one at a time, and an end to every run once one has failed
            watching = replace(watching, stops=(self.stop, *watching.stops), alone=self._alone)
        return replace(self.control, max_time=left, callback=watching if watching.asks else None)


def both(first: Callback | None, second: Callback | None) -> Callback | None:
    """Tell two callbacks, of which either may be missing; a run ends where one of them says so."""
    if first is None or second is None:
        return first or second

    def call(progress: Progress) -> object:
        stop = first(progress)
        return second(progress) or stop

    return call


@dataclass(frozen=True)
class Runner:
    """How the runs of a fit are made."""

    # rule, policy: of the fit itself
    rule: Rule
    policy: Policy
    reference_rule: Rule  # of fits of one loss alone
    # where tol > 0 the reference fits stop at this tolerance or tol, whichever is larger. e_beta only sets the scale of
    # a loss: its last digits cost more sweeps than the fit itself.
    reference_tol: float = 0.0
    # references that a run beats are improved, and the run continues under them (`solve.improve`); elsewhere they stay
    # the paper's, from the same start with the same budget
    improves: bool = False
    budget: Budget = field(default_factory=partial(Budget, Control(), 0))  # what they share
    callback: Callback | None = None  # the user's
    stage: str | None = "fit"  # what progress calls them; None names each by its loss
    level: bool = False  # they only have to give the level of a loss
    coarser: float = 1.0  # what the tolerance of fits of one loss alone is multiplied by
    rough: bool = False  # they pause at a rough tolerance; see `roughly`
    stop: dict[str, Any] = field(default_factory=dict)  # what is other than in the budget where runs stop by themselves
    starts: list[Start] = field(default_factory=list)  # where the runs of the fit begin
    # draws another start for where the only run leaves room; None where no other is to be tried
    second: Callable[[], Start] | None = None

    @classmethod
    def of(cls, update: str | Rule, policy: str | Policy, gpu: bool = False) -> Runner:
        """Choose by names or objects; "minimax" brings its own rule, and `update` is then that of the references.

        policy="auto" beside update="mu" is Frank-Wolfe, the pair of Algorithm 3.
        """
        if policy == "auto" and update == "mu":
            policy = "frank-wolfe"
        rule, chosen = as_rule(update, gpu), as_policy(policy)
        tol = REFERENCE_TOLERANCE if update == "auto" else 0.0
        return cls(Minimax() if isinstance(chosen, ByRule) else rule, chosen, rule, tol, update == "auto")

    def near(self) -> Runner:
        """Return the same for starts that are near a solution already: no step is held back."""
        return replace(
            self, rule=at_once(self.rule), policy=at_once(self.policy), reference_rule=at_once(self.reference_rule)
        )

    def weighted(self, weights: tuple[float, ...], stage: str) -> Runner:
        """Return the same for losses under fixed weights."""
        return replace(self, rule=self.reference_rule, policy=Fixed(weights), stage=stage)

    def roughly(self) -> Runner:
        """Return the same for references, and for runs under them, that are continued; itself where all run to the end.

        What a run needs of its references before it is near its end is their ratio, and not its last digits.
        """
        return replace(self, rough=True) if self.improves and self.budget.control.tol > 0 else self

    def alone(self, level: bool = False) -> Runner:
        """Return the same for losses by themselves, which only watchers are told of.

        level : only the level of each is asked for; where whole iterations are extrapolated, one that falls as slowly
            is nearer to its end
        """
        return replace(self, rule=self.reference_rule, policy=Fixed(), stage=None, callback=None, level=level)

    def control(self, problem: Problem) -> Control:
        """Take the control of a run out of the budget."""
        stage = f"{problem.omega[0].name} alone" if self.stage is None else self.stage
        control = self.budget.take(stage, _counted_from(problem.spent, self.callback))
        alone = self.stage is None
        tol = self._tolerance(control, problem) if alone else control.tol
        if self.rough and tol > 0:
            tol = max(tol, ROUGH_LEVEL if alone else ROUGH_TOLERANCE)
        found = {"tol": tol, "weight_state": problem.weight_state}
        return replace(control, **(found | (self.stop if tol > 0 else {})))

    def _tolerance(self, control: Control, problem: Problem) -> float:
        """Compute the tolerance of a fit of one loss alone: it need not be as fine as that of the fit itself."""
        tol = self.coarser * max(control.tol, self.reference_tol) if control.tol > 0 else 0.0
        if not (self.level and self.reference_tol > 0 and tol > 0):
            return tol
        rule = self.rule.under(Setup(problem.omega, problem.rank))
        wants = rule.wants(control.max_iter, problem.rank, problem.omega)
        return max(tol, LEVEL_TOLERANCE) if wants.acceleration and problem.constraints.free else tol


def _counted_from(before: int, callback: Callback | None) -> Callback | None:
    """A callback that is told the iterations of the whole run."""
    if callback is None or not before or isinstance(callback, Stopping):
        return callback

    def call(progress: Progress) -> object:
        iteration, most = progress.iteration + before, progress.max_iter + before
        return callback(replace(progress, iteration=iteration, max_iter=most))

    return call


def at_once(how: object) -> Any:
    """Return a rule or a policy without its delay, where it has one."""
    return replace(how, delay=0) if isinstance(how, Newton | Extrapolated | HALS | Reactive) and how.delay else how
