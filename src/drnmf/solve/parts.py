"""A fit that is good for all parts of X at once: the plain fit, each part alone, and the largest regret from there.

The maximum over parts has fronts that are not convex: weights that move from the plain fit stop at their ends. So runs
begin at the plain fit and at the starts, and steps that never raise the maximum finish the best point of all.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drnmf.algorithms.initialize import Start
from drnmf.algorithms.result import Result
from drnmf.algorithms.updates.hals import HALS
from drnmf.algorithms.updates.minimax import Minimax
from drnmf.algorithms.updates.newton import Newton
from drnmf.algorithms.weights import POLICIES, ByRule, Fixed, Level, Reactive
from drnmf.backends.base import Data, losses_of
from drnmf.backends.parted import Parted, row_losses
from drnmf.losses.base import Omega, base_of
from drnmf.losses.part import Part, Rowwise, unsettled
from drnmf.numerics import HALS_WINDOW, Vector
from drnmf.objective import simplex
from drnmf.problem.parts import Division, objective_of_part, parted, parts_alone, simplest_losses, stacked
from drnmf.problem.problem import Problem, reference_floors
from drnmf.solve.pipeline import certified
from drnmf.solve.runner import Runner
from drnmf.solve.solve import smallest, solve

SMALLEST_WEIGHT = 1e-6
"""Of a table in `transform`, which may be the only one that is given."""
STEPS, FEWEST = 200, 10
"""How many steps that never raise the maximum are taken from a point, over the number of objectives, and at least: each
solves a problem of its own in that many weights."""
QUICK_GAIN = 3.0
"""How much more lambda answers to changes than to distances where steps of second order follow it at once."""
SWING = 20
"""Iterations over which the lowest maximum between groups has to stay, at least: it may swing for ten."""
PART_LEVEL = 1e-3
"""Where fits of a part alone and the run under all of them stop, relative decrease over the window: local minima of a
part differ by more."""
STILL = 5
"""The same where lambda follows slopes: the maximum falls nearly steadily."""
MOST_LEVELLED = 64
"""Objectives, up to which lambda follows their slopes: these overlap in as many squared numbers."""
LEAST_ANSWER = 0.05
"""Of the policy's own step, where next to no regret is left."""
MOST_FROM_STARTS = 4
"""Objectives, up to which runs begin at the starts too: with more they gain less often than they cost."""


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


def part_errors(data: Data, division: Division, alone: list[Problem], plain: list[Result], runner: Runner) -> Vector:
    """Fit every part alone, one number for each of its losses: the smallest from the plain fits.

    Steps of second order leave what a plain fit has at zero. Others, and tables, which no plain fit has, begin at the
    starts.
    """
    near, alone_at = bool(plain) and runner.improves, runner.alone(level=True)
    begins = [(run.W, run.H) for run in plain] if near else runner.starts
    asked = [
        one.alone(loss).begun(_within(data, start, one, at, division.across))
        for at, one in zip(division.places, alone, strict=True)
        for loss in one.omega
        for start in begins
    ]
    runner.budget.expect(len(asked))
    runs = solve(asked, _to_level(alone_at) if near else alone_at)
    return np.array([run.losses[0] for run in runs]).reshape(-1, len(begins)).min(axis=1)


def _to_level(runner: Runner) -> Runner:
    """Return the same for runs near a solution that stop where regrets are told apart no further (PART_LEVEL)."""
    tol = max(runner.budget.control.tol, runner.reference_tol)
    return replace(runner.near(), coarser=max(runner.coarser, PART_LEVEL / tol)) if tol > 0 else runner.near()


def _within(data: Data, start: Start, part: Problem, at: NDArray[np.intp], across: bool) -> Start:
    """The factors of a part, where it lives."""
    rows, columns = (None, at) if across else (at, None)
    A = data.T.space.take(start[0].T, rows, part.data.T.space)
    return A.T, data.space.take(start[1], columns, part.data.space)


def fit_parts(
    problem: Problem, division: Division, runner: Runner, scale: str = "regret", errors: Vector | None = None
) -> tuple[Problem, Result]:
    """Make the largest scaled loss over all losses and parts, by "regret" or "ratio", as small as possible.

    `errors` (parts x losses,) are what each part reaches alone, in the unit of the caller; None where that is to be
    found. Returns the problem of all objectives, and the best point.
    """
    division = stacked(problem, division)
    alone = parts_alone(problem, division)
    raw = parted(problem, division, alone)
    scaled = partial(_scaled, raw, simplest_losses(raw), scale)
    plain = [] if division.losses else _plain(problem, runner)
    at_plain = [_losses_at(raw, run) for run in plain]
    if errors is None:
        met = np.min([part_errors(problem.data, division, alone, plain, runner), *at_plain], axis=0)
    else:
        met = problem.units.losses_in(errors, tuple(loss for one in alone for loss in one.omega))
    whole = scaled(met)
    if division.losses:  # which no plain fit has: their sum is what stands for it
        runner.budget.expect(len(runner.starts))
        sums = runner.weighted(tuple(simplex.uniform(len(whole.omega)).tolist()), "fit")
        plain = solve([whole.begun(start) for start in runner.starts], sums)
        at_plain = [_losses_at(raw, run) for run in plain]
    runner = _answering(whole, at_plain[0], runner)
    begins = [(run.W, run.H) for run in plain]
    if not isinstance(runner.policy, Fixed) and len(whole.omega) <= MOST_FROM_STARTS:
        begins += runner.starts
    runner.budget.expect(len(begins))
    done = solve([whole.begun(start) for start in begins], runner.near())
    if isinstance(runner.policy, Fixed):
        weights = done[0].weights
        best = min(done, key=lambda run: float(weights @ run.scaled_losses) + run.penalty)
        return whole, certified(whole, best)
    minimax = whole.data.T.space.whole  # which looks at all rows of W in one place
    losses = [_losses_at(raw, run) for run in done]
    if not problem.penalties:  # which plain fits are made without
        done += [replace(done[0], blocks=run.blocks) for run in plain]
        losses += at_plain
    if errors is None:
        whole = scaled(np.minimum(met, np.min(losses, axis=0)))
    best = smallest([_under(whole, run, at) for run, at in zip(done, losses, strict=True)])
    return whole, certified(whole, _finished(whole, best, runner) if minimax else best)


def _answering(whole: Problem, at_plain: Vector, runner: Runner) -> Runner:
    """Return a runner that treats regrets as it does losses over references.

    A regret is a difference: its relative changes are those of the level, f_o + rho(e_o) / rho(D^0_o), times as much as
    that is larger. So lambda answers less to them, and less to changes where factors follow it at once; and runs stop
    where the references, which are as exact as their fits, have nothing more to tell. Between many groups the maximum
    swings: a run is over where its lowest stays.

    at_plain : the losses of the parts at a plain fit
    """
    policy, tol = runner.policy, runner.budget.control.tol
    found = _values(whole, at_plain)
    levels = found - _values(whole, np.zeros_like(at_plain))
    ratio = min(max(float(found.max()) / float(levels.max()), LEAST_ANSWER), 1.0)
    stop = {"tol": max(tol, runner.reference_tol / ratio), "gaps": False, "window": SWING, "fraction": HALS_WINDOW}
    stop |= {"least": 0.0}  # which is of a loss, and not of a regret
    if policy == POLICIES["auto"] and _levels(whole, runner):
        return replace(runner, policy=Level(), stop=stop | {"window": STILL, "tol": max(tol, PART_LEVEL)})
    if isinstance(policy, Reactive):
        gain = QUICK_GAIN if isinstance(runner.rule, Newton | HALS) else policy.gain
        policy = replace(policy, eta=ratio * policy.eta, gain=gain)
    return replace(runner, policy=policy, stop=stop)


def _levels(whole: Problem, runner: Runner) -> bool:
    """Whether lambda may follow slopes: those of H say all where parts are groups of rows and nothing else counts."""
    across = any(piece.across for piece in whole.data.pieces) if isinstance(whole.data, Parted) else True
    second = isinstance(runner.rule, Newton | HALS)
    return second and not (across or whole.penalties) and whole.constraints.free and len(whole.omega) <= MOST_LEVELLED


def _scaled(raw: Problem, simplest: Vector, scale: str, errors: Vector) -> Problem:
    """Return the problem of all objectives, over what the parts reach alone."""
    every = zip(raw.omega, errors.tolist(), simplest.tolist(), strict=True)
    objectives = tuple(objective_of_part(part, e, most, scale) for part, e, most in every if isinstance(part, Part))
    return raw.under(objectives, np.ones(len(objectives)))


def _losses_at(raw: Problem, run: Result) -> Vector:
    """Compute the losses of all parts as they are."""
    return losses_of(raw.data, run.W, run.H, raw.omega)


def _values(whole: Problem, losses: Vector) -> Vector:
    """Compute all objectives from the losses of their parts."""
    pairs = zip(whole.omega, losses.tolist(), strict=True)
    return np.array([part.value(loss) for part, loss in pairs if isinstance(part, Part)])


def _under(whole: Problem, run: Result, losses: Vector) -> Result:
    """Return a point as a result under all objectives, from the losses of their parts."""
    values = _values(whole, losses)
    return replace(run, omega=whole.omega, losses=values, scaled_losses=values)


def _plain(problem: Problem, runner: Runner) -> list[Result]:
    """Fit all of X from every start under its losses together, parts unseen."""
    p = len(problem.omega)
    runner.budget.expect(len(runner.starts) * p)
    if p == 1:
        return solve([problem.alone(problem.omega[0]).begun(start) for start in runner.starts], runner.alone())
    from drnmf.solve.references import compute_references, run_improving

    if isinstance(runner.policy, Fixed):  # whose weights are those of all objectives
        runner = replace(runner, policy=Fixed())
    found = compute_references(problem, runner.starts, runner.roughly())
    return run_improving(problem, runner.starts, found, runner)[0]


def _descended(whole: Problem, starts: list[Start], runner: Runner, weights: Vector | None = None) -> list[Result]:
    """Take steps that never raise the maximum from every start; the first one looks for lambda near some weights."""
    runner.budget.expect(len(starts))
    steps = min(max(STEPS // len(whole.omega), FEWEST), runner.budget.control.max_iter)
    chooses = replace(runner, rule=Minimax(), policy=ByRule())
    first = None if weights is None else (weights, 0)
    return solve([replace(whole.begun(start), weight_state=first) for start in starts], chooses, max_iter=steps)


def _finished(whole: Problem, best: Result, runner: Runner) -> Result:
    """Finish the best point, until a step gains next to nothing: each costs several of the run before."""
    once = replace(runner, stop=runner.stop | {"window": 1, "fraction": 0.0})
    (last,) = _descended(whole, [(best.W, best.H)], once, best.weights)
    if last.objective > best.objective:
        return best
    return replace(best.then(last), converged=best.converged, reason=best.reason)


def adopt_parts(model: Any, problem: Problem, inside: Result) -> bool:
    """Set what a model says of parts and of rows: losses as they are, references, and how much every row counted.

    Returns whether the objectives are of parts.
    """
    data, units, omega = problem.data, problem.units, inside.omega
    model.row_weights_ = model.row_references_ = None
    if not isinstance(data, Parted):
        return False
    parts = tuple(loss for loss in omega if isinstance(loss, Part))
    if parts:
        raw = tuple(loss.raw for loss in parts)
        values = losses_of(data, inside.W, inside.H, raw)
        model.losses_ = units.losses(values, raw)
        errors = np.array([loss.error for loss in parts])
        model.references_ = np.maximum(units.losses(errors, raw), np.finfo(np.float64).tiny)
    if any(piece.across for piece in data.pieces):  # every table has its part in a row
        pairs = zip(parts, inside.weights, values, strict=True)
        c = np.array([max(weight, SMALLEST_WEIGHT) * part.slope(float(value)) for part, weight, value in pairs])
        model.row_references_ = units.losses(1.0 / c, raw)
        return True
    slopes = data.row_slopes(inside.W, inside.H, omega, inside.weights / inside.references)
    bases = tuple(slopes)
    # what makes weights of several losses alike
    sizes = losses_of(data, inside.W, inside.H, bases) if len(bases) > 1 else np.ones(1)
    rows = sum(size * slope for size, slope in zip(sizes, slopes.values(), strict=True))
    ordinary = float(np.median(rows)) or float(np.mean(rows))  # most rows may be of groups of weight zero
    model.row_weights_ = np.asarray(rows / max(ordinary, np.finfo(np.float64).tiny))
    means = np.array([max(float(slope.mean()), np.finfo(np.float64).tiny) for slope in slopes.values()])
    model.row_references_ = units.losses(1.0 / means, bases)
    return bool(parts)


def losses_of_rows(model: Any) -> tuple[Omega, Vector, Vector]:
    """Return the losses under which a row by itself is fitted, what each is divided by, and their weights."""
    if getattr(model, "row_references_", None) is None:
        return model.omega_, model.references_, model.weights_
    bases = tuple(dict.fromkeys(base_of(loss) for loss in model.omega_))
    return bases, model.row_references_, simplex.uniform(len(bases))
