"""References that a run beats are improved from where it stands, and the run continues under them.

e_beta is a local minimum of the fit under beta alone, so a run under several losses may pass below it. Then the scale
is wrong and "percent above the best" is no longer true. Every loss met anywhere is therefore a candidate for e_beta;
one that is beaten by more than REFERENCE_MARGIN is improved by a fit under beta alone from the point that beat it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from drnmf.algorithms.initialize import Start
from drnmf.algorithms.loop import Callback
from drnmf.algorithms.result import Progress, Result
from drnmf.backends.base import Data, losses_of
from drnmf.fit.method import Budget, Method
from drnmf.fit.penalised import objective_of
from drnmf.fit.references import References, single_objective
from drnmf.fit.side_by_side import solve
from drnmf.losses.base import Omega
from drnmf.numerics import REFERENCE_FLOOR, REFERENCE_MARGIN, REFERENCE_ROUNDS, ROUNDING, Vector
from drnmf.objective.objective import Objective


@dataclass(frozen=True)
class Runs:
    """How the runs of one fit are made: on which data, under which losses, with what budget.

    Attributes
    ----------
    callback : the user's
    stage : what progress calls them
    """

    data: Data
    omega: Omega
    method: Method
    budget: Budget
    callback: Callback | None
    stage: str

    def objective(self, references: Vector) -> Objective:
        """Collect what a run under these references minimises."""
        return objective_of(self.data, self.omega, references, self.method.penalties)

    def begin(
        self, starts: list[Start], references: Vector, margin: float | None = None, max_iter: int | None = None,
        overwrite: bool = False,
    ) -> list[Result]:  # fmt: skip
        """Run from every start; with a margin only until a reference is beaten by that much.

        Parameters
        ----------
        max_iter : None is that of the budget
        overwrite : the starts may be overwritten
        """
        objective = self.objective(references)
        most = self.budget.control.max_iter if max_iter is None else max_iter

        def run(start: Start) -> Result:
            control = self.budget.take(self.stage, self.callback)
            control = replace(control, max_iter=most, margin=margin, overwrite=overwrite)
            return solve(self.data, *start, objective, self.method.rule, self.method.policy, control)

        return self.budget.run_all([partial(run, start) for start in starts])

    def begin_near(self, point: Start, references: Vector, margin: float | None = None) -> list[Result]:
        """Run from a point that is near a solution, beside the runs that the budget knows of."""
        self.budget.expect(1)
        return replace(self, method=self.method.near()).begin([point], references, margin)

    def resume(self, run: Result, references: Vector, margin: float | None = None) -> Result:
        """Continue a run from its point under other references, with the iterations it has left."""
        left = self.budget.control.max_iter - run.n_iter
        if left <= 0 or run.reason in ("callback", "max_time"):
            reason = "max_iter" if run.reason == "reference" else run.reason
            return replace(run.under(references), reason=reason)
        near = self.method.near()
        control = self.budget.take(self.stage, _counted_from(run.n_iter, self.callback))
        objective = self.objective(references)
        later = solve(
            self.data, run.W, run.H, objective, near.rule, near.policy, replace(control, max_iter=left, margin=margin)
        )
        return run.then(later)


def smallest(done: Sequence[Result]) -> Result:
    """Choose the run with the smallest maximum, penalties included."""
    return min(done, key=lambda run: run.objective)


def _counted_from(before: int, callback: Callback | None) -> Callback | None:
    """A callback that is told the iterations of the whole run."""
    if callback is None:
        return None

    def call(progress: Progress) -> object:
        iteration, most = progress.iteration + before, progress.max_iter + before
        return callback(replace(progress, iteration=iteration, max_iter=most))

    return call


def run_continued(runs: Runs, starts: list[Start], found: References) -> tuple[list[Result], References]:
    """Run from every start, improve the references that are beaten, and continue all runs under the new ones.

    Where a fit under one loss alone has a smaller maximum than every run, one more run begins there.

    Returns
    -------
    runs : results under the references returned
    found : references that no loss met on the way is below
    """
    found = improved(runs, found, ())
    done, budget = runs.begin(starts, found.values, _margin(found)), runs.budget
    for turn in range(REFERENCE_ROUNDS):
        better = improved(runs, found, done)
        margin = _margin(better) if turn + 1 < REFERENCE_ROUNDS else None
        if better is not found:
            found = better
            budget.expect(len(done))
            done = budget.run_all([partial(runs.resume, run, found.values, margin) for run in done])
            continue
        if runs.method.penalties:  # fits alone are made without: their points are no better starts
            break
        alone = min(zip(found.losses, found.solutions, strict=True), key=lambda pair: np.max(pair[0] / found.values))
        if _exact(found).any() or np.max(alone[0] / found.values) >= smallest(done).scaled_losses.max():
            break
        done += runs.begin_near((alone[1].W, alone[1].H), found.values, margin)
    found = lowered(found, done)
    return [run.under(found.values) for run in done], found


def _margin(found: References) -> float | None:
    """No run is ended early where X is fitted exactly under a loss: what differs there is rounding."""
    return None if _exact(found).any() else REFERENCE_MARGIN


def _exact(found: References) -> NDArray[np.bool_]:
    """(p,): whose references are so near their floors that X has the rank exactly."""
    return found.values <= ROUNDING / REFERENCE_FLOOR * found.floors


def improved(runs: Runs, found: References, done: Sequence[Result]) -> References:
    """Fit every loss alone again that a point in hand has well below its reference, from that point.

    Returns
    -------
    found : the same object where no reference is beaten by more than REFERENCE_MARGIN
    """
    points, losses = [*found.solutions, *done], np.array([*found.losses, *(run.losses for run in done)])
    least = np.maximum(losses.min(axis=0), found.floors)
    beaten = np.flatnonzero((least < (1.0 - REFERENCE_MARGIN) * found.values) & ~_exact(found))
    if not beaten.size:
        return found
    near, solutions, table = runs.method.near(), list(found.solutions), found.losses.copy()
    control_of = near.reference_control(runs.budget)

    def fit(b: int) -> Result:
        loss, origin = runs.omega[b], points[int(np.argmin(losses[:, b]))]
        control = near.coarse(control_of(f"{loss.name} alone"), loss, origin.H.shape[0])
        return single_objective(runs.data, (origin.W, origin.H), loss, near.reference_rule, control)

    runs.budget.expect(beaten.size)
    for b, again in zip(beaten, runs.budget.run_all([partial(fit, int(b)) for b in beaten]), strict=True):
        solutions[b], table[b] = again, losses_of(runs.data, again.W, again.H, runs.omega)
    return lowered(replace(found, solutions=tuple(solutions), losses=table), done)


def lowered(found: References, done: Sequence[Result]) -> References:
    """Lower every reference to the smallest loss met in a fit alone or along a run."""
    alone = [float(run.losses[0]) for run in found.solutions]
    met = [alone, *found.losses, *(run.met for run in done)]
    values = np.minimum(found.values, np.maximum(np.min(met, axis=0), found.floors))
    return replace(found, values=values)
