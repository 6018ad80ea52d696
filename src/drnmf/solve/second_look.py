"""A second start for a fit under beta = 2 whose first run ends well above what the singular values of X allow.

Such a run may stand in a poor local minimum: on pictures of parts, where every position of a limb is a component, one
in five of the default starts ends several percent above another one. After ten iterations the losses tell which of two
runs will be lower, so a second one that is not costs little (docs/development/frobenius.md).
"""

from __future__ import annotations

from drnmf.algorithms.initialize import Start
from drnmf.algorithms.loop import Control
from drnmf.algorithms.result import Interrupted, Progress, Result
from drnmf.numerics import LITTLE_LEFT, SECOND_LEAD, SECOND_LOOK
from drnmf.problem.problem import Problem
from drnmf.solve.runner import Runner
from drnmf.solve.solve import smallest, solve


def leaves_room(run: Result, control: Control) -> bool:
    """Tell whether a run ended by itself, and another one could end much lower."""
    return run.reason == "tol" and float(run.losses.max()) > (1.0 + LITTLE_LEFT) * control.least > 0.0


def second_look(problem: Problem, first: Result, start: Start, runner: Runner) -> Result:
    """Run from another start for as long as it is ahead of the first run; return the better of both."""
    runner.budget.expect(1)
    before = first.trace.losses.max(axis=1)

    def behind(progress: Progress) -> bool:
        at = min(progress.iteration, first.n_iter)
        return bool(at >= SECOND_LOOK and progress.losses.max() > (1.0 - SECOND_LEAD) * before[at])

    try:
        (second,) = solve([problem.begun(start)], runner, overwrite=True, until=behind)
    except Interrupted as stop:
        raise Interrupted(smallest([first, stop.result])) from None
    return smallest([first, second])
