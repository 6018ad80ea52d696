"""How far off an entry is that Huber's loss may count less: from the residuals, in turn with the factors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from drnmf.backends.tiles import sample_residuals
from drnmf.losses.beta import FROBENIUS
from drnmf.losses.huber import Huber
from drnmf.numerics import Array, Entries
from drnmf.parameters.common import Parameters
from drnmf.parameters.solver import as_solver
from drnmf.problem.device import place
from drnmf.problem.problem import Problem
from drnmf.problem.weights import Reading
from drnmf.solve.pipeline import running
from drnmf.solve.runner import Runner
from drnmf.solve.settings import only_compared, problem_of
from drnmf.solve.solve import solve

DEVIATIONS = 1.345
"""Standard deviations up to which the loss is quadratic: 95 % as efficient as beta = 2 where the noise is normal."""
MEDIAN = 1.4826
"""Standard deviations of normal noise in its median absolute value."""
HUBER_STARTS = 5
"""Starts of a fit under Huber's loss, where the start is left to the library too."""
ROUNDS, SETTLED = 10, 0.05
"""Most fits, and the change of delta that is none."""
SMALLEST = 1e-6
"""Of the mean of X: residuals below it are those of an exact fit."""


def huber_delta(model: Parameters, X: Entries, reading: Reading) -> float:
    """Find delta of Huber's loss, in the unit of X: 1.345 standard deviations of the residuals of its own fit.

    The first delta is that of a fit under beta = 2. Runs under it begin at several starts, because one often gives a
    component to outliers, and while delta is too large that may even be the smallest loss: the run with the smallest
    median residual is continued.
    """
    asked = replace(only_compared(model, 300, 1e-5), n_init=HUBER_STARTS, verbose=0)
    placement = place(X, asked.device, as_solver(asked.solver).precision)
    received = placement.receive(asked, X, True, replace(reading, negatives="raise"))
    problem = problem_of(asked, placement.open(received), (FROBENIUS,), received, np.ones(1))
    with running(problem, Runner.of("auto", "auto"), asked, ROUNDS) as runner:
        starts = list(runner.starts)
        result, delta = solve([problem.begun(starts[0])], runner)[0], 0.0
        for _ in range(ROUNDS):
            last, delta = delta, _delta(problem, result.W, result.H)
            if abs(delta - last) <= SETTLED * delta:
                break
            huber = problem.under((Huber(delta),), np.ones(1))
            runs = solve([huber.begun(start) for start in starts], runner.near() if last else runner)
            result = min(runs, key=lambda run: _delta(problem, run.W, run.H))
            starts = [(result.W, result.H)]
    return delta / problem.data.scale


def _delta(problem: Problem, W: Array, H: Array) -> float:
    """1.345 standard deviations of the residuals, in the unit of the data."""
    middle = float(np.median(sample_residuals(problem.data, W, H)))
    return max(DEVIATIONS * MEDIAN * middle, SMALLEST * problem.data.mean)
