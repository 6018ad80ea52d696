"""References that a run beats are improved from where it stands, and the run continues under them.

e_beta is a local minimum of the fit under beta alone, so a run under several losses may pass below it. Then the scale
is wrong and "percent above the best" is no longer true. Every loss met anywhere is therefore a candidate for e_beta;
one that is beaten by more than REFERENCE_MARGIN is improved by a fit under beta alone from the point that beat it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from drnmf.algorithms.initialize import Start
from drnmf.algorithms.result import Result
from drnmf.backends.base import losses_of
from drnmf.numerics import REFERENCE_FLOOR, REFERENCE_MARGIN, REFERENCE_ROUNDS, ROUNDING, Vector
from drnmf.problem.problem import Problem
from drnmf.solve.references import References
from drnmf.solve.runner import Runner
from drnmf.solve.solve import smallest, solve


def run_near(problem: Problem, point: Start, references: Vector, runner: Runner, margin: float | None = None) -> Result:
    """Run from a point that is near a solution, beside the runs that the budget knows of."""
    runner.budget.expect(1)
    return solve([problem.over(references).begun(point)], runner.near(), margin=margin)[0]


def resume(
    problem: Problem, done: Sequence[Result], references: Vector, runner: Runner, margin: float | None = None
) -> list[Result]:
    """Continue runs from their points under other references, with the iterations that each has left."""
    most = runner.budget.control.max_iter
    left = [run for run in done if run.n_iter < most and run.reason not in ("callback", "max_time")]
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

    Where a fit under one loss alone has a smaller maximum than every run, one more run begins there.

    Returns
    -------
    runs : results under the references returned
    found : references that no loss met on the way is below
    """
    found = improved(problem, found, (), runner)
    scaled = problem.over(found.values)
    done = solve([scaled.begun(start) for start in starts], runner, margin=_margin(found))
    for turn in range(REFERENCE_ROUNDS):
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
        done.append(run_near(problem, (alone[1].W, alone[1].H), found.values, runner, margin))
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

    Returns
    -------
    found : the same object where no reference is beaten by more than REFERENCE_MARGIN
    """
    points, losses = [*found.solutions, *done], np.array([*found.losses, *(run.losses for run in done)])
    least = np.maximum(losses.min(axis=0), found.floors)
    beaten = np.flatnonzero((least < (1.0 - REFERENCE_MARGIN) * found.values) & ~_exact(found)).tolist()
    if not beaten:
        return found
    solutions, table, omega = list(found.solutions), found.losses.copy(), problem.omega
    origins = [points[int(np.argmin(losses[:, b]))] for b in beaten]
    runner.budget.expect(len(beaten))
    alone = [problem.alone(omega[b]).begun((point.W, point.H)) for b, point in zip(beaten, origins, strict=True)]
    for b, again in zip(beaten, solve(alone, runner.near().alone(level=True)), strict=True):
        solutions[b], table[b] = again, losses_of(problem.data, again.W, again.H, omega)
    return lowered(replace(found, solutions=tuple(solutions), losses=table), done)


def lowered(found: References, done: Sequence[Result]) -> References:
    """Lower every reference to the smallest loss met in a fit alone or along a run."""
    alone = [float(run.losses[0]) for run in found.solutions]
    met = [alone, *found.losses, *(run.met for run in done)]
    values = np.minimum(found.values, np.maximum(np.min(met, axis=0), found.floors))
    return replace(found, values=values)
