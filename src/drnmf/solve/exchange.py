"""The exchange method for Omega = [a, b]: solve on the knots, add the worst beta of the interval, repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from drnmf.algorithms.initialize import Start
from drnmf.algorithms.loop import with_notes
from drnmf.algorithms.result import Result, Trace
from drnmf.backends.base import Data, losses_of
from drnmf.losses.base import Omega
from drnmf.losses.beta import Beta
from drnmf.losses.interval import Coverage, Interval, coverage
from drnmf.numerics import REFERENCE_MARGIN, REFERENCE_ROUNDS, Vector
from drnmf.problem.problem import Problem, reference_floors
from drnmf.solve.pipeline import certified, refuse_empty, remarks
from drnmf.solve.references import compute_references
from drnmf.solve.runner import Runner
from drnmf.solve.solve import smallest, solve


def fit_interval(problem: Problem, interval: Interval, runner: Runner) -> Result:
    """Solve on the knots, add the worst beta of the interval, and repeat from where the factors stand.

    e(beta) is the smallest D_beta among all reference solutions in hand, at knots and between them alike, and where the
    method improves references (`solve.improve`) among the points of the rounds too. The rounds share the max_iter
    iterations of the fit.
    """
    knots, points = list(interval.first_knots()), interval.points()
    data, starts, most_iter = problem.data, runner.starts, runner.budget.control.max_iter
    floors = reference_floors(data, _losses(points))
    solutions = _alone(problem, starts, _losses(knots), runner)
    rounds: list[tuple[tuple[float, ...], Result]] = []
    left, done, improvements = most_iter, False, 0
    while True:
        references = _smallest_losses(data, solutions, knots)
        now = problem.under(_losses(knots), references)
        whole = runner.budget.control.tol > 0 or done or len(knots) >= interval.max_knots
        most = left if whole or left <= 10 else left // 2  # tol=0 ends no round before its last iteration
        margin = REFERENCE_MARGIN if runner.improves and improvements < REFERENCE_ROUNDS else None
        best = smallest(solve([now.begun(start) for start in starts], runner, margin=margin, max_iter=most))
        rounds.append((tuple(knots), best))
        left -= best.n_iter
        if runner.improves:
            improvements += 1
            solutions += [best, *_improved(problem, best, runner)]
            references = _smallest_losses(data, solutions, knots)
            best = best.under(references)
        along = np.array([losses_of(data, run.W, run.H, _losses(points)) for run in solutions])
        losses = losses_of(data, best.W, best.H, _losses(points))
        seen = coverage(interval, losses, along, floors, float(best.scaled_losses.max()))
        excess = float(seen.scaled_losses.max()) > float(best.scaled_losses.max()) * (1.0 + interval.tol)
        done = not excess or len(knots) >= interval.max_knots or min(abs(seen.worst - k) for k in knots) == 0
        if left <= 0 or best.reason in ("callback", "max_time") or (done and best.reason == "tol"):
            break
        starts, runner = [(best.W, best.H)], runner.near()
        if done or best.reason == "reference":  # the iterations that are left go to the knots as they are
            continue
        knots.append(seen.worst)
        solutions += _alone(problem, starts, _losses([seen.worst]), runner)
    result = _join_rounds([*rounds[:-1], (rounds[-1][0], best)], seen)
    refuse_empty(problem, result)
    return with_notes(certified(problem, result), *remarks(problem.penalties))


def _alone(problem: Problem, starts: list[Start], omega: Omega, runner: Runner) -> list[Result]:
    """Fit losses alone."""
    return list(compute_references(replace(problem, omega=omega), starts, runner).solutions)


def _smallest_losses(data: Data, points: Sequence[Result], betas: Sequence[float]) -> Vector:
    """Compute the smallest loss that a point in hand has, for every beta."""
    omega = _losses(betas)
    table = np.array([losses_of(data, run.W, run.H, omega) for run in points])
    return np.maximum(table.min(axis=0), reference_floors(data, omega))


def _improved(problem: Problem, best: Result, runner: Runner) -> list[Result]:
    """Fit the losses alone again that a run has well below their references, from its point."""
    beaten = best.scaled_losses < 1.0 - REFERENCE_MARGIN
    omega = tuple(loss for loss, below in zip(best.omega, beaten, strict=True) if below)
    runner.budget.expect(len(omega))
    return _alone(problem, [(best.W, best.H)], omega, runner.near()) if omega else []


def _losses(betas: Sequence[float]) -> Omega:
    return tuple(Beta(beta) for beta in betas)


def _join_rounds(rounds: list[tuple[tuple[float, ...], Result]], seen: Coverage) -> Result:
    """One result from the rounds of the exchange: knots in order, one trace, NaN before a knot joined."""
    knots, last = rounds[-1]
    order = np.argsort(knots)
    traces, added, iterations = list[Trace](), list[tuple[int, float]](), 0
    for previous, (now, run) in zip([knots[: len(rounds[0][0])], *(r[0] for r in rounds)], rounds, strict=False):
        added += [(iterations, beta) for beta in now[len(previous) :]]
        traces.append(_padded(run.trace, len(knots) - len(now), order).under(last.references[order]))
        iterations += run.n_iter
    joined = replace(reduce(Trace.then, traces), added=np.array(added, dtype=np.float64).reshape(-1, 2))
    note = (
        f"For every beta of the interval the scaled loss is at most {seen.bound:.6f} "
        f"({seen.factor:.4f} times the largest at the {len(knots)} knots)."
    )
    return replace(
        last,
        omega=_losses(np.array(knots)[order].tolist()),
        references=last.references[order],
        losses=last.losses[order],
        scaled_losses=last.scaled_losses[order],
        weights=last.weights[order],
        trace=joined,
        n_iter=iterations,
        coverage=replace(seen, added=tuple(added)),
        notes=(note,),
    )


def _padded(trace: Trace, missing: int, order: NDArray[np.intp]) -> Trace:
    """A trace with a column for every knot in its order, NaN for those that had not joined."""
    columns = {
        name: np.pad(getattr(trace, name), ((0, 0), (0, missing)), constant_values=np.nan)[:, order]
        for name in ("losses", "scaled_losses", "weights")
    }
    return replace(trace, **columns)
