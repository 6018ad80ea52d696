"""How a fit is made: its rules and policy, and the budget that its runs share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from drnmf.algorithms.loop import Callback, Control
from drnmf.algorithms.result import Result
from drnmf.algorithms.updates.base import Rule
from drnmf.algorithms.updates.constrained import Constrained
from drnmf.algorithms.updates.extrapolated import Extrapolated
from drnmf.algorithms.updates.hals import HALS
from drnmf.algorithms.updates.minimax import Minimax
from drnmf.algorithms.updates.newton import Newton
from drnmf.algorithms.updates.table import as_rule
from drnmf.algorithms.weights import ByRule, Policy, Reactive, as_policy
from drnmf.fit.side_by_side import Task, run_all
from drnmf.fit.units import Units
from drnmf.losses.base import Loss, Omega
from drnmf.numerics import LEVEL_TOLERANCE, REFERENCE_TOLERANCE
from drnmf.objective.constraints import UNCONSTRAINED, Constraints
from drnmf.objective.penalty import Penalty


@dataclass
class Budget:
    """Hands out the controls of a fit's runs, and runs those side by side that do not wait for one another.

    The time left is divided evenly among the runs left. Time that a resumed fit spent before counts; that of the run
    it resumes is in the run's own log.

    Attributes
    ----------
    control : of every run
    runs : how many are left
    watch : hands out what watches a stage
    units : callbacks are told in those of the caller
    jobs : how many run at a time
    batched : those that are alike are made at once, on a GPU
    """

    control: Control
    runs: int
    watch: Callable[[str], Callback | None] = lambda stage: None
    jobs: int = 1
    units: Units = field(default_factory=partial(Units, 1.0))
    batched: bool = False
    started: float = field(default_factory=time.perf_counter)
    _stop: threading.Event = field(default_factory=threading.Event, repr=False)
    _alone: Any = field(default_factory=threading.RLock, repr=False)

    def take(self, stage: str, callback: Callback | None = None) -> Control:
        """The control of the next run; `callback` is the user's, beside whatever watches the stage."""
        if self.jobs == 1:
            return self._take(stage, callback)
        with self._alone:
            control = self._take(stage, callback)
        return replace(control, callback=self._watched(control.callback))

    def expect(self, runs: int) -> None:
        """Count runs that nobody knew of when the fit began: they share the time that is left."""
        with self._alone:
            self.runs += runs

    def run_all(self, tasks: Sequence[Task]) -> list[Result]:
        """Run tasks that do not depend on one another, and return their results in order."""
        return run_all(tasks, self.jobs, self._stop, self.batched)

    def _watched(self, callback: Callback | None) -> Callback:
        """Callbacks one at a time, and an end to every run once one has failed."""

        def call(progress: Any) -> bool:
            if self._stop.is_set() or callback is None:
                return self._stop.is_set()
            with self._alone:
                return bool(callback(progress))

        return call

    def _take(self, stage: str, callback: Callback | None) -> Control:
        watcher = self.watch(stage)
        left = None
        if self.control.max_time is not None:
            before = 0.0 if self.control.keeper is None else self.control.keeper.seconds
            spent = before + time.perf_counter() - self.started
            left = max(self.control.max_time - spent, 0.0) / max(-(-self.runs // self.jobs), 1)
        self.runs -= 1
        return replace(self.control, max_time=left, callback=self.units.watched(_both(watcher, callback)))


def _both(first: Callback | None, second: Callback | None) -> Callback | None:
    if first is None or second is None:
        return first or second

    def call(progress: Any) -> Any:
        stop = first(progress)
        return second(progress) or stop

    return call


@dataclass(frozen=True)
class Method:
    """How to fit: the rule and policy of the fit itself, and the rule of the single-objective reference fits.

    reference_tol : where tol > 0 the reference fits stop at this tolerance or tol, whichever is larger. e_beta only
        sets the scale of a loss: its last digits cost more sweeps than the fit itself.
    improves : references that a run beats are improved, and the run continues under them (`fit.continued`); elsewhere
        they stay the paper's, from the same start with the same budget
    penalties : what stands beside the losses of the fit itself; the references are found without
    constraints : what W and H must satisfy, in the reference fits too
    """

    rule: Rule
    policy: Policy
    reference_rule: Rule
    reference_tol: float = 0.0
    improves: bool = False
    penalties: tuple[Penalty, ...] = ()
    constraints: Constraints = UNCONSTRAINED

    @classmethod
    def of(
        cls, update: str | Rule, policy: str | Policy, gpu: bool = False, penalties: tuple[Penalty, ...] = (),
        constraints: Constraints = UNCONSTRAINED,
    ) -> Method:  # fmt: skip
        """Choose by names or objects; "minimax" brings its own rule, and `update` is then that of the references.

        policy="auto" beside update="mu" is Frank-Wolfe, the pair of Algorithm 3.
        """
        if policy == "auto" and update == "mu":
            policy = "frank-wolfe"
        rule, chosen = as_rule(update, gpu), as_policy(policy)
        tol = REFERENCE_TOLERANCE if update == "auto" else 0.0
        rules: tuple[Rule, Rule] = Minimax() if isinstance(chosen, ByRule) else rule, rule
        if not constraints.free:
            rules = Constrained(rules[0], constraints), Constrained(rules[1], constraints)
        return cls(rules[0], chosen, rules[1], tol, update == "auto", penalties, constraints)

    def inside(self, units: Units, omega: Omega) -> Method:
        """The same in the units of a fit.

        Parameters
        ----------
        units : those of the fit
        omega : the losses, in the units of the caller
        """
        constraints, terms = units.constraints(self.constraints), units.terms(self.penalties, omega)
        rule, reference = (
            replace(rule, constraints=constraints) if isinstance(rule, Constrained) else rule
            for rule in (self.rule, self.reference_rule)
        )
        return replace(self, rule=rule, reference_rule=reference, penalties=terms, constraints=constraints)

    def near(self) -> Method:
        """The same for starts that are near a solution already: no step is held back."""
        return replace(
            self, rule=_at_once(self.rule), policy=_at_once(self.policy), reference_rule=_at_once(self.reference_rule)
        )

    def reference_control(self, budget: Budget) -> Callable[[str], Control]:
        """The budget of each reference fit: the fit's own, but for a tolerance that need not be as fine."""

        def take(stage: str) -> Control:
            control = budget.take(stage)
            return replace(control, tol=max(control.tol, self.reference_tol) if control.tol > 0 else 0.0)

        return take

    def coarse(self, control: Control, loss: Loss, rank: int) -> Control:
        """The control of a fit of one loss that only has to give its level.

        Where whole iterations are extrapolated, one that falls as slowly is nearer to its end.
        """
        accelerates = self.reference_tol > 0 and self.reference_rule.under((loss,)).accelerates(control.max_iter, rank)
        return replace(control, tol=max(control.tol, LEVEL_TOLERANCE)) if accelerates and control.tol > 0 else control


def _at_once(how: Any) -> Any:
    """A rule or a policy without its delay, where it has one."""
    if isinstance(how, Constrained):
        return replace(how, rule=_at_once(how.rule))
    return replace(how, delay=0) if isinstance(how, Newton | Extrapolated | HALS | Reactive) and how.delay else how
