"""Some rows of a large X, on which what all rows share is found: an alpha, and components to begin with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.algorithms.initialize import Start, successive_projection
from drnmf.algorithms.result import Result
from drnmf.backends.parted import rowwise
from drnmf.objective.objective import Objective
from drnmf.problem.problem import Problem
from drnmf.selection.likelihood.scores import Index
from drnmf.solve.encode import encode
from drnmf.solve.runner import Runner

SAMPLED_ROWS = 500
"""Rows that stand for all where X has more than twice as many."""

_ITERATIONS, _TOLERANCE = 50, 1e-3
"""Of the rows of W that a run on all of X begins with."""


@dataclass(frozen=True)
class Sample:
    """Some rows of the X of a problem, in the same unit.

    Attributes
    ----------
    whole, some : the problem of all rows, and of these
    rows : which they are
    """

    whole: Problem
    some: Problem
    rows: Index

    @classmethod
    def of(cls, problem: Problem, seed: int, most: int = SAMPLED_ROWS) -> Sample | None:
        """Draw rows, and add those that differ most from one another: a component may be in few rows alone.

        Returns None where X has too few rows, where they are not in memory, and where W is not free to have others.
        """
        data, X = problem.data, problem.given.X
        m, here = data.shape[0], isinstance(X, np.ndarray) or sp.issparse(X)
        if m <= 2 * most or not here or data.space.deferred or problem.columns or rowwise(problem.omega):
            return None
        if problem.constraints.W is not None or any(getattr(term, "on", "W") != "H" for term in problem.penalties):
            return None
        drawn = np.random.RandomState(seed).choice(m, most, replace=False)
        rows = np.union1d(drawn, successive_projection(data.T, problem.rank)).astype(np.intp)
        part = problem.rows(rows, data.mean / data.scale)
        some = replace(problem, data=part.data, given=part.given, unobserved=part.unobserved)
        if problem.objective is not None:
            some = some.over(problem.objective.references * (some.data.count / data.count))
        return cls(problem, some, rows)

    def runner(self, runner: Runner) -> Runner:
        """Return how the rows are fitted; a checkpoint keeps runs on all of X."""
        budget = replace(runner.budget, control=replace(runner.budget.control, keeper=None))
        starts = [(np.asfortranarray(W[self.rows]), H) for W, H in runner.starts]
        return replace(runner, budget=budget, starts=starts)

    def start(self, run: Result) -> Start:
        """Return where a run on all rows begins: at the components of a run on some, and what they say of every row."""
        problem, data, H = self.whole, self.whole.data, run.H
        objective, sums = Objective(run.omega, run.references, data.mean), problem.constraints.sum_to_one == "W"
        W: Any = encode(data, H, objective, run.weights, _ITERATIONS, _TOLERANCE, sums=sums)
        floor = problem.constraints.floor("W", data.mean, problem.rank)
        return problem.feasible(np.asfortranarray(np.maximum(W, floor), data.dtype), H)
