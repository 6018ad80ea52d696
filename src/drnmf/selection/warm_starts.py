"""Runs that begin near an answer: where a neighbour ended, or at the components of some rows of X.

Starts and results of fits of single losses are in the unit of X, those of a `Sample` in that of the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.algorithms.initialize import Start, successive_projection
from drnmf.algorithms.result import Result
from drnmf.backends.base import Data
from drnmf.backends.parted import rowwise
from drnmf.backends.products import column_products
from drnmf.losses.base import Loss, Omega
from drnmf.numerics import factor_floor, positive_scale
from drnmf.objective.objective import Objective
from drnmf.problem.device import as_numpy
from drnmf.problem.problem import Problem
from drnmf.selection.likelihood.scores import Index
from drnmf.solve.encode import Encoding
from drnmf.solve.runner import Runner
from drnmf.solve.solve import smallest, solve

RACE = 10.0
"""Tolerance of the starts that compete, in that of the fit: only the best of them is brought to its end."""

NEW_COMPONENT = 0.1
"""Share of the mean of X that new components start with, next to those of a smaller rank."""


SAMPLED_ROWS = 500
"""Rows that stand for all where X has more than twice as many."""

_ITERATIONS, _TOLERANCE = 50, 1e-3
"""Of the rows of W that a run on all of X begins with."""


def fit_all(problem: Problem, runner: Runner, loss: Loss, starts: list[Start]) -> list[Result]:
    """Fit a loss alone from every start."""
    alone = problem.alone(loss.scaled(problem.units.scale))
    results = solve([alone.begun(alone.inside(start)) for start in starts], runner.alone())
    return [alone.back(result) for result in results]


def fit_best(problem: Problem, runner: Runner, loss: Loss, starts: list[Start]) -> Result:
    """Fit from every start, coarsely where there are several, and return the best, fitted to its end."""
    if len(starts) == 1 or runner.budget.control.tol <= 0:
        return smallest(fit_all(problem, runner, loss, starts))
    runner.budget.expect(1)
    best = smallest(fit_all(problem, replace(runner, coarser=RACE), loss, starts))
    return fit_all(problem, runner.near(), loss, [(best.W, best.H)])[0] if best.reason == "tol" else best


def fit_along(problem: Problem, runner: Runner, omega: Omega, starts: list[Start]) -> list[Result]:
    """Fit losses that are in the order of their betas, from the one nearest to Kullback-Leibler outwards."""
    middle = int(np.argmin([abs(loss.beta - 1.0) for loss in omega]))
    runs = {middle: fit_best(problem, runner, omega[middle], starts)}
    for i in (*range(middle + 1, len(omega)), *range(middle - 1, -1, -1)):
        neighbour = runs[i - 1 if i > middle else i + 1]
        runs[i] = fit_all(problem, runner.near(), omega[i], [(neighbour.W, neighbour.H)])[0]
    return [runs[i] for i in range(len(omega))]


def in_unit_of_X(problem: Problem) -> Data:
    """Return the data in the unit of X."""
    return problem.data.scaled(1.0 / problem.data.scale)


def on_host(data: Data, factors: Start) -> Start:
    """Bring factors here, wherever they live."""
    W, H = factors
    return as_numpy(data.T.space.get(data.T.space.put(W.T))).T, as_numpy(data.space.get(data.space.put(H)))


def grown(data: Data, below: Start, rank: int, rng: np.random.RandomState, columns: tuple[int, ...] = ()) -> Start:
    """Add small random components to those of a smaller rank, and raise all to the floor of a start.

    columns : sizes of the modes that the columns of X are made of, where it is the unfolding of a tensor
    """
    W, H = on_host(data, below)
    more = rank - H.shape[0]
    # uniform numbers have the mean level / 2 in both factors: together level^2 / 4 for each component
    level = math.sqrt(4.0 * NEW_COMPONENT * positive_scale(data.mean) / max(more, 1))
    new_W, sizes = rng.uniform(size=(W.shape[0], more)) * level, columns or (H.shape[1],)
    new_H = column_products([rng.uniform(size=(more, size)) for size in sizes]) * level * 2.0 ** (len(sizes) - 1)
    floor = factor_floor(data.mean, rank)
    grown_W, grown_H = np.concatenate([W, new_W], axis=1), np.concatenate([H, new_H])
    return np.maximum(grown_W, floor).astype(data.dtype), np.maximum(grown_H, floor).astype(data.dtype)


@dataclass(frozen=True)
class Sample:
    """Some rows of the X of a problem, in the same unit."""

    # whole, some: the problem of all rows, and of these
    whole: Problem
    some: Problem
    rows: Index  # which they are

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
        W: Any = Encoding(H, objective, run.weights, _ITERATIONS, _TOLERANCE, sums).of(data)
        floor = problem.constraints.floor("W", data.mean, problem.rank)
        return problem.feasible(np.asfortranarray(np.maximum(W, floor), data.dtype), H)
