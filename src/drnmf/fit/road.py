"""From a validated X to a Result: starts, references, runs, the best of them, canonical form.

What the estimators and the Pareto front share, with nothing of scikit-learn in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from drnmf.algorithms.certificates import certify
from drnmf.algorithms.loop import Callback, Control, solve, with_notes
from drnmf.algorithms.result import Result, Trace
from drnmf.algorithms.updates.base import Rule
from drnmf.algorithms.updates.minimax import Minimax
from drnmf.algorithms.updates.table import as_rule
from drnmf.algorithms.weights import ByRule, Policy, as_policy
from drnmf.backends.base import Data, losses_of
from drnmf.fit.canonical import column_norms, divided, rescaled, row_norms
from drnmf.fit.encode import encode
from drnmf.fit.references import Start, compute_references, constant_model_losses
from drnmf.losses.beta import label
from drnmf.losses.interval import Coverage, Interval, coverage
from drnmf.numerics import REFERENCE_FLOOR, REFERENCE_TOLERANCE, SETTLE_TOLERANCE, Array, Vector
from drnmf.objective.objective import Objective


@dataclass
class Budget:
    """Hands out the controls of a fit's runs one after another; max_time is shared evenly by the runs left.

    Time that a resumed fit spent before counts. That of the run it goes on with is in the run's own log.
    """

    control: Control
    runs: int
    watch: Callable[[str], Callback | None] = lambda stage: None
    started: float = field(default_factory=time.perf_counter)

    def take(self, stage: str, callback: Callback | None = None) -> Control:
        """The control of the next run; `callback` is the user's, beside whatever watches the stage."""
        watcher = self.watch(stage)
        left = None
        if self.control.max_time is not None:
            before = 0.0 if self.control.keeper is None else self.control.keeper.seconds
            spent = before + time.perf_counter() - self.started
            left = max(self.control.max_time - spent, 0.0) / max(self.runs, 1)
        self.runs -= 1
        return replace(self.control, max_time=left, callback=_both(watcher, callback))


def _both(first: Callback | None, second: Callback | None) -> Callback | None:
    if first is None or second is None:
        return first or second

    def call(progress: Any) -> Any:
        first(progress)
        return second(progress)

    return call


@dataclass(frozen=True)
class Method:
    """How to fit: the rule and policy of the fit itself, and the rule of the single-objective reference fits.

    reference_tol : where tol > 0 the reference fits stop at this tolerance or tol, whichever is larger. e_beta only
        sets the scale of a loss: its last digits cost more sweeps than the fit itself.
    """

    rule: Rule
    policy: Policy
    reference_rule: Rule
    reference_tol: float = 0.0

    @classmethod
    def of(cls, update: str | Rule, policy: str | Policy) -> Method:
        """From names or objects; "minimax" brings its own rule, and `update` is then that of the references.

        policy="auto" beside update="mu" is Frank-Wolfe, the pair of Algorithm 3.
        """
        if policy == "auto" and update == "mu":
            policy = "frank-wolfe"
        rule, chosen = as_rule(update), as_policy(policy)
        tol = REFERENCE_TOLERANCE if update == "auto" else 0.0
        return cls(Minimax() if isinstance(chosen, ByRule) else rule, chosen, rule, tol)

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


def _at_once(how: Any) -> Any:
    """A rule or a policy without its delay."""
    return replace(how, delay=0) if getattr(how, "delay", 0) else how


def fit_factors(
    data: Data,
    starts: list[Start],
    betas: tuple[float, ...],
    references: Vector | None,
    method: Method,
    budget: Budget,
    callback: Callback | None = None,
    stage: str = "fit",
) -> Result:
    """Run from every start under common references and keep the run with the smallest maximum.

    references : e_beta; None computes them, one single-objective fit per beta and start.
    """
    notes: tuple[str, ...] = ()
    singles: Vector | None = None
    if references is None:
        found = compute_references(data, starts, betas, method.reference_rule, method.reference_control(budget))
        references, notes = found.values, found.notes
        singles = np.array([losses_of(data, run.W, run.H, betas) for run in found.solutions])
    objective = Objective(betas, references, data.mean)
    runs = [
        solve(data, *start, objective, method.rule, method.policy, budget.take(stage, callback)) for start in starts
    ]
    best = min(runs, key=lambda run: float(run.scaled_losses.max()))
    result = replace(certified(data, best), single_losses=singles)
    return with_notes(result, *notes, *_better_than_reference(best))


def certified(data: Data, result: Result) -> Result:
    """The result with its certificate."""
    objective = Objective(result.betas, result.references, data.mean)
    return replace(result, certificate=certify(data, result.W, result.H, objective, result.weights, result.losses))


def _better_than_reference(result: Result) -> tuple[str, ...]:
    """e_beta is only a local minimum: say so where the run itself met a smaller D_beta."""
    if len(result.betas) == 1:
        return ()
    smallest = np.nanmin(result.trace.scaled_losses, axis=0)
    return tuple(
        f"The run met a {label(beta)} loss of {value:.6f} times its reference: the reference fit is not the best."
        for beta, value in zip(result.betas, smallest, strict=True)
        if value < 1.0 - 1e-9
    )


def fit_interval(
    data: Data,
    starts: list[Start],
    interval: Interval,
    method: Method,
    budget: Budget,
    callback: Callback | None = None,
    stage: str = "fit",
) -> Result:
    """The exchange method: solve on the knots, add the worst beta of the interval, repeat from where it stands.

    e(beta) is the smallest D_beta among all reference solutions in hand, at knots and between them alike.
    """
    knots, grid = list(interval.first_knots()), interval.betas()
    control_of = method.reference_control(budget)
    solutions = list(compute_references(data, starts, tuple(knots), method.reference_rule, control_of).solutions)
    rounds: list[tuple[tuple[float, ...], Result]] = []
    while True:
        betas = (*knots, *grid)
        table = np.array([losses_of(data, run.W, run.H, betas) for run in solutions])
        floors = REFERENCE_FLOOR * constant_model_losses(data, betas)
        smallest = np.maximum(table.min(axis=0), np.maximum(floors, np.finfo(np.float64).tiny))
        references, along = smallest[: len(knots)], smallest[len(knots) :]
        objective = Objective(tuple(knots), references, data.mean)
        runs = [solve(data, *s, objective, method.rule, method.policy, budget.take(stage, callback)) for s in starts]
        best = min(runs, key=lambda run: float(run.scaled_losses.max()))
        rounds.append((tuple(knots), best))
        seen = coverage(
            interval, losses_of(data, best.W, best.H, grid), along, np.array(knots), references, best.losses
        )
        excess = float(seen.scaled_losses.max()) > float(best.scaled_losses.max()) * (1.0 + interval.tol)
        if not excess or len(knots) >= interval.max_knots or min(abs(seen.worst - k) for k in knots) == 0:
            break
        knots.append(seen.worst)
        starts, method = [(best.W, best.H)], method.near()
        new = compute_references(data, starts, (seen.worst,), method.reference_rule, control_of)
        solutions.extend(new.solutions)
    return _join_rounds(data, rounds, seen)


def _join_rounds(data: Data, rounds: list[tuple[tuple[float, ...], Result]], seen: Coverage) -> Result:
    """One result from the rounds of the exchange: knots in order, one trace, NaN before a knot joined."""
    knots, last = rounds[-1]
    order = np.argsort(knots)
    traces, added, iterations, sweeps, seconds = list[Trace](), list[tuple[int, float]](), 0, 0, 0.0
    for previous, (now, run) in zip([knots[: len(rounds[0][0])], *(r[0] for r in rounds)], rounds, strict=False):
        added += [(iterations, beta) for beta in now[len(previous) :]]
        pad = ((0, 0), (0, len(knots) - len(now)))
        traces.append(
            Trace(
                np.pad(run.trace.scaled_losses, pad, constant_values=np.nan)[:, order],
                np.pad(run.trace.weights, pad, constant_values=np.nan)[:, order],
                run.trace.seconds + seconds, run.trace.gap, run.trace.sweeps + sweeps,
            )
        )  # fmt: skip
        iterations += run.n_iter
        sweeps, seconds = int(traces[-1].sweeps[-1]), float(traces[-1].seconds[-1])
    # row 0 of a later round is the last row of the one before, under new references: it takes its place
    parts = [trace if i == len(traces) - 1 else _without_last(trace) for i, trace in enumerate(traces)]
    rows = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _ROWS}
    joined = Trace(**rows, added=np.array(added, dtype=np.float64).reshape(-1, 2))
    note = (
        f"For every beta of the interval the scaled loss is at most {seen.bound:.6f} "
        f"({seen.factor:.4f} times the largest at the {len(knots)} knots)."
    )
    result = replace(
        last, betas=tuple(np.array(knots)[order].tolist()), references=last.references[order],
        losses=last.losses[order], scaled_losses=last.scaled_losses[order], weights=last.weights[order],
        trace=joined, n_iter=iterations, coverage=replace(seen, added=tuple(added)), notes=(note,),
    )  # fmt: skip
    return certified(data, result)


_ROWS = ("scaled_losses", "weights", "seconds", "gap", "sweeps")


def _without_last(trace: Trace) -> Trace:
    return Trace(*(getattr(trace, name)[:-1] for name in _ROWS))


def settle(data: Data, result: Result, control: Control) -> Result:
    """Where r > n, X and H do not determine W: take the W that `transform` gives, if it fits no worse.

    No worse means by less than 1e-5 of the constant model's loss. The trace stays the run's.
    """
    if result.H.shape[0] <= data.shape[1]:
        return result
    objective = Objective(result.betas, result.references, data.mean)
    W = encode(data, result.H, objective, result.weights, control.max_iter, control.tol)
    losses = losses_of(data, W, result.H, result.betas)
    if np.any(losses - result.losses > SETTLE_TOLERANCE * constant_model_losses(data, result.betas)):
        return result
    return replace(result, W=W, losses=losses, scaled_losses=objective.scaled(losses))


def canonical(W: Array, H: Array) -> tuple[Array, Array]:
    """The same WH with ||w_k|| = ||h_k|| for every component, the largest contribution ||w_k|| ||h_k|| first.

    >>> W, H = canonical(np.array([[1.0, 4.0]]), np.array([[1.0], [4.0]]))
    >>> W.tolist(), H.tolist()
    ([[4.0, 1.0]], [[4.0], [1.0]])
    """
    w, h = column_norms(W), row_norms(H)
    used = (w > 0) & (h > 0)  # a component whose norm underflows keeps its scale
    scale = np.sqrt(np.divide(h, w, out=np.ones_like(w), where=used))
    order = np.argsort(-(w * h), kind="stable")
    return rescaled(W, scale, order), divided(H, scale, order)
