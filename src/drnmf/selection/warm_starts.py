"""Fits of single losses on one X, each from where its neighbour ended; starts and results are in the unit of X."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from drnmf.algorithms.initialize import Start
from drnmf.algorithms.result import Result
from drnmf.backends.base import Data
from drnmf.backends.products import column_products
from drnmf.losses.base import Loss, Omega
from drnmf.numerics import factor_floor, positive_scale
from drnmf.problem.device import as_numpy
from drnmf.problem.problem import Problem
from drnmf.solve.runner import Runner
from drnmf.solve.solve import smallest, solve

RACE = 10.0
"""Tolerance of the starts that compete, in that of the fit: only the best of them is brought to its end."""

NEW_COMPONENT = 0.1
"""Share of the mean of X that new components start with, next to those of a smaller rank."""


def fit_all(problem: Problem, runner: Runner, loss: Loss, starts: list[Start]) -> list[Result]:
    """Fit a loss alone from every start."""
    alone = problem.alone(loss.scaled(problem.units.scale))
    found = solve([alone.begun(alone.inside(start)) for start in starts], runner.alone())
    return [alone.back(result) for result in found]


def fit_near(problem: Problem, runner: Runner, loss: Loss, start: Start) -> Result:
    """Fit from where another fit ended."""
    return fit_all(problem, runner.near(), loss, [start])[0]


def fit_best(problem: Problem, runner: Runner, loss: Loss, starts: list[Start]) -> Result:
    """Fit from every start, coarsely where there are several, and return the best, fitted to its end."""
    if len(starts) == 1 or runner.budget.control.tol <= 0:
        return smallest(fit_all(problem, runner, loss, starts))
    runner.budget.expect(1)
    best = smallest(fit_all(problem, replace(runner, coarser=RACE), loss, starts))
    return fit_near(problem, runner, loss, (best.W, best.H)) if best.reason == "tol" else best


def fit_along(problem: Problem, runner: Runner, omega: Omega, starts: list[Start]) -> list[Result]:
    """Fit losses that are in the order of their betas, from the one nearest to Kullback-Leibler outwards."""
    middle = int(np.argmin([abs(loss.beta - 1.0) for loss in omega]))
    runs = {middle: fit_best(problem, runner, omega[middle], starts)}
    for i in (*range(middle + 1, len(omega)), *range(middle - 1, -1, -1)):
        neighbour = runs[i - 1 if i > middle else i + 1]
        runs[i] = fit_near(problem, runner, omega[i], (neighbour.W, neighbour.H))
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
    level = math.sqrt(4.0 * NEW_COMPONENT * positive_scale(data.mean) / max(more, 1))
    new_W, sizes = rng.uniform(size=(W.shape[0], more)) * level, columns or (H.shape[1],)
    new_H = column_products([rng.uniform(size=(more, size)) for size in sizes]) * level * 2.0 ** (len(sizes) - 1)
    floor = factor_floor(data.mean, rank)
    grown_W, grown_H = np.concatenate([W, new_W], axis=1), np.concatenate([H, new_H])
    return np.maximum(grown_W, floor).astype(data.dtype), np.maximum(grown_H, floor).astype(data.dtype)
