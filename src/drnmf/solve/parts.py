"""A fit that is good for all parts of X at once: the plain fit, each part alone, and the largest regret from there.

The maximum over parts has fronts that are not convex: moving weights alone stop at their ends. So runs begin at the
plain fit and, with steps that never raise the maximum, at the starts; such steps finish the best point of all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drnmf.algorithms.initialize import Start
from drnmf.algorithms.result import Result
from drnmf.algorithms.updates.minimax import Minimax
from drnmf.algorithms.weights import ByRule, Fixed
from drnmf.backends.base import losses_of
from drnmf.backends.parted import Parted, row_losses
from drnmf.losses.base import Loss, Omega
from drnmf.losses.part import Part
from drnmf.losses.rowwise import Rowwise, unsettled
from drnmf.numerics import Vector
from drnmf.objective import simplex
from drnmf.problem.parts import Division, objective_of_part, parted, parts_alone, simplest_losses
from drnmf.problem.problem import Problem, reference_floors
from drnmf.solve.finish import certified
from drnmf.solve.runner import Runner
from drnmf.solve.solve import smallest, solve

STEPS = 100
"""How many steps that never raise the maximum are taken from a point, each of which solves a problem of its own."""


def with_levels(problem: Problem, runner: Runner) -> Problem:
    """Settle the loss of an ordinary row for losses of rows: the median of the fit under the base loss alone."""
    bases = unsettled(problem.omega)
    if not bases:
        return problem
    runner.budget.expect(len(bases))
    start = runner.starts[0]
    runs = solve([problem.alone(base).begun(start) for base in bases], runner.alone(level=True))
    floors, known = reference_floors(problem.data, bases) / problem.data.shape[0], {}
    for base, run, floor in zip(bases, runs, floors, strict=True):
        rows = row_losses(problem.data, run.W, run.H, base)
        some = rows[rows > floor]
        known[base] = float(np.median(some)) if some.size else float(max(floor, np.finfo(np.float64).tiny))
    omega = tuple(
        loss.settled(known[loss.base]) if isinstance(loss, Rowwise) and loss.base in known else loss
        for loss in problem.omega
    )
    done = replace(problem, omega=omega)
    return done if problem.objective is None else done.over(problem.objective.references)


def part_errors(
    problem: Problem, division: Division, alone: list[Problem], plain: list[Result], runner: Runner
) -> Vector:
    """Fit every part alone, (parts, losses): the smallest loss met from the same starts, or at a plain fit."""
    asked = [
        one.alone(loss).begun(_within(start, at, division.across))
        for at, one in zip(division.places, alone, strict=True)
        for loss in problem.omega
        for start in runner.starts
    ]
    runner.budget.expect(len(asked))
    runs = solve(asked, runner.alone(level=True))
    met = np.array([run.losses[0] for run in runs]).reshape(len(division), len(problem.omega), len(runner.starts))
    found = met.min(axis=2)
    for g, (at, one) in enumerate(zip(division.places, alone, strict=True)):
        for run in plain:
            W, H = _within((run.W, run.H), at, division.across)
            found[g] = np.minimum(found[g], losses_of(one.data, W, H, problem.omega))
    return found


def _within(start: Start, at: NDArray[np.intp], across: bool) -> Start:
    """The factors of a part."""
    W, H = start
    if across:
        return W, np.ascontiguousarray(H[:, at])
    return np.ascontiguousarray(W.T[:, at]).T, H


def fit_parts(
    problem: Problem, division: Division, runner: Runner, scale: str = "regret", errors: Vector | None = None
) -> tuple[Problem, Result]:
    """Make the largest scaled loss over all losses and parts as small as possible.

    Parameters
    ----------
    problem : X under its losses
    division : its parts
    scale : "regret" or "ratio"
    errors : (parts x losses,) what each part reaches alone, in the unit of the caller; None where that is to be found

    Returns
    -------
    problem : that of all objectives
    result : the best point
    """
    alone = parts_alone(problem, division)
    if errors is not None:
        errors = problem.units.losses_in(errors.reshape(len(division), len(problem.omega)), problem.omega)
    plain = _plain(problem, runner)
    if errors is None:
        errors = part_errors(problem, division, alone, plain, runner)
    simplest = [simplest_losses(one, problem.omega) for one in alone]
    objectives = tuple(
        objective_of_part(loss, g, label, float(errors[g, b]), float(simplest[g][b]), scale)
        for g, label in enumerate(division.labels)
        for b, loss in enumerate(problem.omega)
    )
    whole = parted(problem, division, alone, objectives)
    runner.budget.expect(len(plain))
    done = solve([whole.begun((run.W, run.H)) for run in plain], runner.near())
    if isinstance(runner.policy, Fixed):
        weights = done[0].weights
        best = min(done, key=lambda run: float(weights @ run.scaled_losses) + run.penalty)
    else:
        done = [*done, *(_as_result(whole, run, done[0]) for run in plain), *_descended(whole, runner.starts, runner)]
        best = _finished(whole, smallest(done), runner)
    return whole, certified(whole, best)


def _plain(problem: Problem, runner: Runner) -> list[Result]:
    """Fit all of X from every start under its losses together, parts unseen."""
    p = len(problem.omega)
    runner.budget.expect(len(runner.starts) * p)
    if p == 1:
        return solve([problem.alone(problem.omega[0]).begun(start) for start in runner.starts], runner.alone())
    from drnmf.solve.references import compute_references, run_improving

    if isinstance(runner.policy, Fixed):  # whose weights are those of all objectives
        runner = replace(runner, policy=Fixed())
    return run_improving(problem, runner.starts, compute_references(problem, runner.starts, runner), runner)[0]


def _as_result(whole: Problem, run: Result, like: Result) -> Result:
    """A plain fit as a result under all objectives."""
    losses = losses_of(whole.data, run.W, run.H, whole.omega)
    return replace(like, blocks=run.blocks, losses=losses, scaled_losses=losses, trace=like.trace, penalty=like.penalty)


def _descended(whole: Problem, starts: list[Start], runner: Runner) -> list[Result]:
    """Take steps that never raise the maximum from every start."""
    runner.budget.expect(len(starts))
    steps = min(STEPS, runner.budget.control.max_iter)
    return solve(
        [whole.begun(start) for start in starts], replace(runner, rule=Minimax(), policy=ByRule()), max_iter=steps
    )


def _finished(whole: Problem, best: Result, runner: Runner) -> Result:
    """Finish the best point."""
    (last,) = _descended(whole, [(best.W, best.H)], runner)
    if last.objective > best.objective:
        return best
    return replace(best.then(last), converged=best.converged, reason=best.reason)


def adopt_parts(model: Any, problem: Problem, inside: Result) -> bool:
    """Set what a model says of parts and of rows: losses as they are, references, and how much every row counted.

    Returns
    -------
    parted : whether the objectives are of parts
    """
    data, units, omega = problem.data, problem.units, inside.omega
    model.row_weights_ = model.row_references_ = None
    if not isinstance(data, Parted):
        return False
    parts = tuple(loss for loss in omega if isinstance(loss, Part))
    if parts:
        raw = tuple(loss.raw for loss in parts)
        model.losses_ = units.losses(losses_of(data, inside.W, inside.H, raw), raw)
        errors = np.array([loss.error for loss in parts])
        model.references_ = np.maximum(units.losses(errors, raw), np.finfo(np.float64).tiny)
    slopes = data.row_slopes(inside.W, inside.H, omega, inside.weights / inside.references)
    bases = tuple(slopes)
    sizes = losses_of(data, inside.W, inside.H, bases)  # what makes weights of several losses alike
    rows = sum(size * slope for size, slope in zip(sizes, slopes.values(), strict=True))
    model.row_weights_ = np.asarray(rows / max(float(np.median(rows)), np.finfo(np.float64).tiny))
    means = np.array([max(float(slope.mean()), np.finfo(np.float64).tiny) for slope in slopes.values()])
    model.row_references_ = units.losses(1.0 / means, bases)
    return bool(parts)


def losses_of_rows(model: Any) -> tuple[Omega, Vector, Vector]:
    """Return the losses under which a row by itself is fitted, what each is divided by, and their weights."""
    if getattr(model, "row_references_", None) is None:
        return model.omega_, model.references_, model.weights_
    bases = tuple(dict.fromkeys(base_of(loss) for loss in model.omega_))
    return bases, model.row_references_, simplex.uniform(len(bases))


def base_of(loss: Loss) -> Loss:
    """Return the loss of an entry that an objective is made of."""
    loss = loss.base if isinstance(loss, Part) else loss
    return loss.base if isinstance(loss, Rowwise) else loss
