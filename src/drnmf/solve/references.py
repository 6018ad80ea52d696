"""The reference errors e_beta that scale the losses (section 2.1); those that a run beats are improved.

e_beta is a local minimum of the fit under beta alone, so a run under several losses may pass below it. Then the scale
is wrong and "percent above the best" is no longer true. Every loss met anywhere is therefore a candidate for e_beta;
one that is beaten by more than REFERENCE_MARGIN is improved by a fit under beta alone from the point that beat it, and
the run continues under it.

A run far from its end needs its references no better than it is itself: both pause (ROUGH_LEVEL), the references
go on to their level, and then the run to its end, with the lambda and the policy that it had.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drnmf.algorithms.initialize import Start
from drnmf.algorithms.result import Interrupted, Result
from drnmf.backends.base import losses_of
from drnmf.backends.open import in_single
from drnmf.numerics import REFERENCE_FLOOR, REFERENCE_MARGIN, REFERENCE_ROUNDS, ROUNDING, Vector
from drnmf.objective.simplex import one_per_beta
from drnmf.problem.problem import Problem, point_of, reference_floors
from drnmf.problem.units import Units
from drnmf.solve.runner import Runner
from drnmf.solve.solve import smallest, solve

STOPPED = ("callback", "max_time")
"""Reasons of runs that do not continue."""


@dataclass(frozen=True)
class References:
    """e_beta for every beta of Omega, and the single-objective fits they come from."""

    values: Vector  # (p,) e_beta, the smallest loss met anywhere, at least the floor
    solutions: tuple[Result, ...]  # the fit of every loss alone
    losses: Vector  # (p, p), every loss (column) at each solution (row)
    floors: Vector  # (p,) the smallest e_beta that is used
    notes: tuple[str, ...] = ()  # remarks on them
    rough: bool = False  # their fits have paused, and are to go on


def compute_references(problem: Problem, starts: list[Start], runner: Runner) -> References:
    """e_beta = D_beta at the single-objective solution from the same start with the same budget.

    With several starts the smallest counts. Data of exact rank r has e_beta = 0: there the floor
    1e-16 D_beta(X, mean(X)) takes its place, and a note says so.
    """
    data, omega = problem.data, problem.omega
    floors = reference_floors(data, omega)  # first: a backend learns which losses are to come
    asked = [problem.alone(loss).begun(start) for loss in omega for start in starts]
    runs = _paused(asked, runner.alone(level=True)) if runner.rough else solve(asked, runner.alone(level=True))
    groups = [runs[i : i + len(starts)] for i in range(0, len(runs), len(starts))]
    best = [smallest(group) for group in groups]
    found = np.array([run.losses[0] for run in best])
    outside = zip(*(Units(data.scale).losses(losses, omega) for losses in (found, floors)), strict=True)
    notes = tuple(
        f"The {loss.name} error of the single-objective fit is {value:.3g}, numerically zero: "
        f"its reference was raised to {floor:.3g}."
        for loss, (value, floor), below in zip(omega, outside, found < floors, strict=True)
        if below
    )
    table = np.array([losses_of(data, run.W, run.H, omega) for run in best])
    return References(np.maximum(found, floors), tuple(best), table, floors, notes, runner.rough)


def _paused(asked: list[Problem], runner: Runner) -> list[Result]:
    """Make runs that pause, in single precision where X has one: they stop long before its digits count."""
    single = in_single(asked[0].data)
    coarse = [problem.coarse(single) for problem in asked]
    try:
        runs = solve(coarse, runner)
    except Interrupted as stop:
        own = next((one for one in asked if one.omega == stop.result.omega), None)
        raise (stop if own is None else Interrupted(own.refined(stop.result))) from None
    pairs = zip(asked, coarse, runs, strict=True)
    return [run if rough is problem else problem.refined(run) for problem, rough, run in pairs]


def check_references(references: ArrayLike, p: int) -> Vector:
    """Given references as a positive vector aligned with betas."""
    vector = one_per_beta("references", references, p)
    if not (np.isfinite(vector).all() and (vector > 0).all()):
        raise ValueError(f"references={vector.tolist()} must be finite and > 0: they divide the losses.")
    if vector.min() < np.finfo(np.float64).tiny:
        raise ValueError(
            f"references={vector.tolist()}: the smallest cannot be divided by in float64 (below 2.2e-308). Give all of "
            "them in another unit: only their ratios matter."
        )
    return vector


def run_near(problem: Problem, point: Start, references: Vector, runner: Runner, margin: float | None = None) -> Result:
    """Run from a point that is near a solution, beside the runs that the budget knows of."""
    runner.budget.expect(1)
    return solve([problem.over(references).begun(point)], runner.near(), margin=margin)[0]


def resume(
    problem: Problem, done: Sequence[Result], references: Vector, runner: Runner, margin: float | None = None
) -> list[Result]:
    """Continue runs from their points under other references, with the iterations that each has left."""
    most = runner.budget.control.max_iter
    left = [run for run in done if run.n_iter < most and run.reason not in STOPPED]
    problem = problem.over(references)
    later = solve([problem.resumed(run) for run in left], runner.near(), margin=margin)
    resumed = {id(run): run.then(after) for run, after in zip(left, later, strict=True)}
    return [resumed.get(id(run)) or _as_it_is(run, references) for run in done]


def _as_it_is(run: Result, references: Vector) -> Result:
    """A run that may not continue, under other references."""
    return replace(run.under(references), reason="max_iter" if run.reason == "reference" else run.reason)


def run_improving(
    problem: Problem, starts: list[Start], found: References, runner: Runner
) -> tuple[list[Result], References]:
    """Run from every start, improve the references that are beaten, and continue all runs under the new ones.

    Where a fit under one loss alone has a smaller maximum than every run, one more run begins there. No loss met on the
    way is below the references that are returned.
    """
    found = found if found.rough else improved(problem, found, (), runner)
    scaled = problem.over(found.values)
    asked = [scaled.begun(start) for start in starts]
    done = _paused(asked, runner.roughly()) if found.rough else solve(asked, runner, margin=_margin(found))
    for turn in range(0 if all(run.reason in STOPPED for run in done) else REFERENCE_ROUNDS):
        better = improved(problem, found, done, runner)
        margin = _margin(better) if turn + 1 < REFERENCE_ROUNDS else None
        if better is not found:
            found = better
            runner.budget.expect(len(done))
            done = resume(problem, done, found.values, runner, margin)
            continue
        if problem.penalties:  # fits alone are made without: their points are no better starts
            break
        alone = min(zip(found.losses, found.solutions, strict=True), key=lambda pair: np.max(pair[0] / found.values))
        if _exact(found).any() or np.max(alone[0] / found.values) >= smallest(done).scaled_losses.max():
            break
        done.append(run_near(problem, point_of(alone[1]), found.values, runner, margin))
    found = lowered(found, done)
    return [run.under(found.values) for run in done], found


def _margin(found: References) -> float | None:
    """No run is ended early where X is fitted exactly under a loss: what differs there is rounding."""
    return None if _exact(found).any() else REFERENCE_MARGIN


def _exact(found: References) -> NDArray[np.bool_]:
    """(p,): whose references are so near their floors that X has the rank exactly."""
    return found.values <= ROUNDING / REFERENCE_FLOOR * found.floors


def improved(problem: Problem, found: References, done: Sequence[Result], runner: Runner) -> References:
    """Fit every loss alone again that a point in hand has well below its reference, from that point.

    Rough references all go on, from their own points where none in hand is lower. The same object comes back where none
    is rough, or beaten by more than REFERENCE_MARGIN.
    """
    points, losses = [*found.solutions, *done], np.array([*found.losses, *(run.losses for run in done)])
    least = np.maximum(losses.min(axis=0), found.floors)
    beaten = np.flatnonzero(((least < (1.0 - REFERENCE_MARGIN) * found.values) & ~_exact(found)) | found.rough).tolist()
    if not beaten:
        return found
    solutions, table, omega = list(found.solutions), found.losses.copy(), problem.omega
    origins = [points[int(np.argmin(losses[:, b]))] for b in beaten]
    runner.budget.expect(len(beaten))
    alone = [_from(problem.alone(omega[b]), solutions[b], point) for b, point in zip(beaten, origins, strict=True)]
    for b, again in zip(beaten, solve(alone, runner.near().alone(level=True)), strict=True):
        solutions[b], table[b] = again, losses_of(problem.data, again.W, again.H, omega)
    return lowered(replace(found, solutions=tuple(solutions), losses=table, rough=False), done)


def _from(alone: Problem, own: Result, point: Result) -> Problem:
    """Return a fit under one loss from a point: with the iterations that are left of it where the point is its own."""
    return alone.resumed(own) if point is own else alone.begun(point_of(point))


def lowered(found: References, done: Sequence[Result]) -> References:
    """Lower every reference to the smallest loss met in a fit alone or along a run."""
    alone = [float(run.losses[0]) for run in found.solutions]
    met = [alone, *found.losses, *(run.met for run in done)]
    values = np.minimum(found.values, np.maximum(np.min(met, axis=0), found.floors))
    return replace(found, values=values)
