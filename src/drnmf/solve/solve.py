"""The one verb: problems are solved, side by side where they may be, and their results come back in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from drnmf.algorithms.loop import Call, Callback
from drnmf.algorithms.result import Result
from drnmf.problem.problem import Problem
from drnmf.solve.parallel import maker, run_all
from drnmf.solve.runner import Runner, both


def solve(
    problems: Sequence[Problem],
    runner: Runner,
    *,
    margin: float | None = None,
    max_iter: int | None = None,
    overwrite: bool = False,
    until: Callback | None = None,
) -> list[Result]:
    """Run every problem from its start, as many at a time as the budget says; results are in the unit of the data.

    Parameters
    ----------
    problems : each with a start and with references
    runner : how each is run
    margin : a run stops once a reference is beaten by that much
    max_iter : most iterations of a run, None for those of the budget
    overwrite : the starts may be overwritten
    until : asked after every iteration, in the unit of the data; True ends the run

    Returns
    -------
    results : list of Result, in the order of the problems
    """
    budget = runner.budget
    most = budget.control.max_iter if max_iter is None else max_iter

    def readied(problem: Problem) -> Call:
        assert problem.objective is not None
        control = replace(runner.control(problem), max_iter=most - problem.spent, margin=margin, overwrite=overwrite)
        if until is not None:
            control = replace(control, callback=both(control.callback, until))
        how = runner.rule, runner.policy, control, problem.constraints
        return Call(problem.modes, problem.blocks(problem.begins), problem.objective, *how)

    if min(len(problems), budget.jobs) == 1:
        return list(map(maker(), map(readied, problems)))

    def one(problem: Problem) -> Result:
        return maker()(readied(problem))  # in its thread, when its turn has come: the time left is shared then

    return run_all([partial(one, problem) for problem in problems], budget.jobs, budget.stop, budget.batched)


def smallest(done: Sequence[Result]) -> Result:
    """Choose the run with the smallest maximum, penalties included."""
    return min(done, key=lambda result: result.objective)
