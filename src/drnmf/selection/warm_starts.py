"""Fits of neighbouring losses on one X, each from where its neighbour ended."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from drnmf.algorithms.initialize import Start
from drnmf.algorithms.result import Result
from drnmf.backends.base import Data
from drnmf.losses.base import Loss, Omega
from drnmf.numerics import factor_floor, positive_scale
from drnmf.problem.device import as_numpy
from drnmf.problem.problem import Problem
from drnmf.solve.parallel import run_all
from drnmf.solve.runner import Runner
from drnmf.solve.solve import smallest, solve

RACE = 10.0
"""Tolerance of the starts that compete, in that of the fit: only the best of them is brought to its end."""

NEW_COMPONENT = 0.1
"""Share of the mean of X that new components start with, beside those of a smaller rank."""


class Walk:
    """Fits of single losses on one X; starts and results are in its unit.

    Parameters
    ----------
    problem : X
    runner : how to fit
    """

    def __init__(self, problem: Problem, runner: Runner) -> None:
        self._problem, self._runner = problem, runner.alone()
        self.data = problem.data.scaled(1.0 / problem.data.scale)

    def first(self, loss: Loss, starts: list[Start], warm: tuple[Start, ...] = ()) -> Result:
        """Fit from every start, coarsely where there are several, and return the best, fitted to its end.

        Parameters
        ----------
        loss : what to fit
        starts : fresh ones
        warm : others, where another fit ended
        """
        budget = self._runner.budget
        if len(starts) + len(warm) == 1 or budget.control.tol <= 0:
            return smallest([*self.all(loss, starts), *(self.near(loss, start) for start in warm)])
        fresh = replace(self._runner, coarser=RACE)
        budget.expect(1)
        asked = [(fresh, start) for start in starts] + [(fresh.near(), start) for start in warm]
        tasks = [partial(self._fit, loss, [start], runner) for runner, start in asked]
        best = smallest([found[0] for found in run_all(tasks, budget.jobs, budget.stop, budget.batched)])
        return self.near(loss, (best.W, best.H)) if best.reason == "tol" else best

    def all(self, loss: Loss, starts: list[Start]) -> list[Result]:
        """Fit from every start."""
        return self._fit(loss, starts, self._runner)

    def near(self, loss: Loss, start: Start) -> Result:
        """Fit from where another fit ended."""
        return self._fit(loss, [start], self._runner.near())[0]

    def along(self, omega: Omega, starts: list[Start]) -> list[Result]:
        """Fit losses that are in the order of their betas, from the one nearest to Kullback-Leibler outwards."""
        middle = int(np.argmin([abs(loss.beta - 1.0) for loss in omega]))
        runs = {middle: self.first(omega[middle], starts)}
        for i in (*range(middle + 1, len(omega)), *range(middle - 1, -1, -1)):
            neighbour = runs[i - 1 if i > middle else i + 1]
            runs[i] = self.near(omega[i], (neighbour.W, neighbour.H))
        return [runs[i] for i in range(len(omega))]

    def _fit(self, loss: Loss, starts: list[Start], runner: Runner) -> list[Result]:
        problem = self._problem.alone(loss.scaled(self._problem.units.scale))
        found = solve([problem.begun(problem.inside(start)) for start in starts], runner)
        return [problem.back(result) for result in found]


def on_host(data: Data, factors: Start) -> Start:
    """Bring factors here, wherever they live."""
    W, H = factors
    return as_numpy(data.T.space.get(data.T.space.put(W.T))).T, as_numpy(data.space.get(data.space.put(H)))


def grown(data: Data, below: Start, rank: int, rng: np.random.RandomState) -> Start:
    """Add small random components to those of a smaller rank, and raise all to the floor of a start."""
    W, H = on_host(data, below)
    more = rank - H.shape[0]
    level = math.sqrt(4.0 * NEW_COMPONENT * positive_scale(data.mean) / max(more, 1))
    columns, rows = rng.uniform(size=(W.shape[0], more)) * level, rng.uniform(size=(more, H.shape[1])) * level
    floor = factor_floor(data.mean, rank)
    grown_W, grown_H = np.concatenate([W, columns], axis=1), np.concatenate([H, rows])
    return np.maximum(grown_W, floor).astype(data.dtype), np.maximum(grown_H, floor).astype(data.dtype)
