"""The reference errors e_beta that scale the losses (section 2.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from drnmf.algorithms.initialize import Start
from drnmf.algorithms.result import Result
from drnmf.backends.base import losses_of
from drnmf.numerics import Vector, as_vector
from drnmf.problem.problem import Problem, reference_floors
from drnmf.problem.units import Units
from drnmf.solve.runner import Runner
from drnmf.solve.solve import smallest, solve


@dataclass(frozen=True)
class References:
    """e_beta for every beta of Omega, and the single-objective fits they come from.

    Attributes
    ----------
    values : (p,) e_beta, the smallest loss met anywhere, at least the floor
    solutions : the fit of every loss alone
    losses : (p, p), every loss (column) at each solution (row)
    floors : (p,) the smallest e_beta that is used
    notes : remarks on them
    """

    values: Vector
    solutions: tuple[Result, ...]
    losses: Vector
    floors: Vector
    notes: tuple[str, ...] = ()


def compute_references(problem: Problem, starts: list[Start], runner: Runner) -> References:
    """e_beta = D_beta at the single-objective solution from the same start with the same budget.

    With several starts the smallest counts. Data of exact rank r has e_beta = 0: there the floor
    1e-16 D_beta(X, mean(X)) takes its place, and a note says so.
    """
    data, omega = problem.data, problem.omega
    floors = reference_floors(data, omega)  # first: a backend learns which losses are to come
    runs = solve([problem.alone(loss).begun(start) for loss in omega for start in starts], runner.alone(level=True))
    groups = [runs[i : i + len(starts)] for i in range(0, len(runs), len(starts))]
    best = [smallest(group) for group in groups]
    found = np.array([run.losses[0] for run in best])
    outside = zip(*(Units(data.scale).losses(losses, omega) for losses in (found, floors)), strict=True)
    notes = tuple(
        f"The {loss.name} error of the single-objective fit is {value:.3g}, numerically zero: "
        f"its reference was raised to {floor:.3g}."
        for loss, (value, floor), below in zip(omega, outside, found < floors, strict=True)
        if below
    )
    table = np.array([losses_of(data, run.W, run.H, omega) for run in best])
    return References(np.maximum(found, floors), tuple(best), table, floors, notes)


def check_references(references: ArrayLike, p: int) -> Vector:
    """Given references as a positive vector aligned with betas."""
    try:
        vector = as_vector(references)
    except (TypeError, ValueError):
        raise ValueError(f"references={references!r} are not numbers.") from None
    if vector.shape != (p,):
        raise ValueError(f"references has shape {vector.shape}, but there are {p} betas: give one per beta.")
    if not (np.isfinite(vector).all() and (vector > 0).all()):
        raise ValueError(f"references={vector.tolist()} must be finite and > 0: they divide the losses.")
    if vector.min() < np.finfo(np.float64).tiny:
        raise ValueError(
            f"references={vector.tolist()}: the smallest cannot be divided by in float64 (below 2.2e-308). Give all of "
            "them in another unit: only their ratios matter."
        )
    return vector
