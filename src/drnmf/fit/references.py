"""The reference errors e_beta that scale the losses (section 2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from drnmf.algorithms.initialize import Start
from drnmf.algorithms.loop import Control
from drnmf.algorithms.result import Result
from drnmf.algorithms.updates.base import Rule
from drnmf.algorithms.weights import Fixed
from drnmf.backends.base import Data, losses_of
from drnmf.fit.method import Budget, Method
from drnmf.fit.side_by_side import solve
from drnmf.fit.units import Units
from drnmf.losses.base import Loss, Omega
from drnmf.numerics import REFERENCE_FLOOR, Vector, as_vector, positive_scale
from drnmf.objective.objective import Objective


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


def constant_model_losses(data: Data, omega: Omega) -> Vector:
    """Compute D_beta(X, mean(X)): what the simplest model costs, the yardstick of the floor under e_beta."""
    m, n = data.shape
    root = np.sqrt(positive_scale(data.mean))
    return losses_of(data, np.full((m, 1), root, dtype=data.dtype), np.full((1, n), root, dtype=data.dtype), omega)


def reference_floors(data: Data, omega: Omega) -> Vector:
    """Compute the smallest e_beta that is used: 1e-16 of the constant model's loss."""
    return np.maximum(REFERENCE_FLOOR * constant_model_losses(data, omega), np.finfo(np.float64).tiny)


def floors_at(data: Data, omega: Omega) -> Vector:
    """Compute the smallest e_beta that is used, in the units of the caller."""
    units = Units(data.scale)
    return np.maximum(units.losses(reference_floors(data, units.omega(omega)), omega), np.finfo(np.float64).tiny)


def single_objective(data: Data, start: Start, loss: Loss, rule: Rule, control: Control) -> Result:
    """Fit NMF under one loss: the same loop with e = 1 and nothing to weigh."""
    objective = Objective((loss,), np.ones(1), data.mean)
    return solve(data, *start, objective, rule, Fixed(), control)


def compute_references(data: Data, starts: list[Start], omega: Omega, method: Method, budget: Budget) -> References:
    """e_beta = D_beta at the single-objective solution from the same start with the same budget.

    With several starts the smallest counts. Data of exact rank r has e_beta = 0: there the floor
    1e-16 D_beta(X, mean(X)) takes its place, and a note says so.
    """
    control_of = method.reference_control(budget)
    floors = reference_floors(data, omega)  # first: a backend learns which losses are to come

    def fit(loss: Loss, start: Start) -> Result:
        control = method.coarse(control_of(f"{loss.name} alone"), loss, start[1].shape[0])
        return single_objective(data, start, loss, method.reference_rule, control)

    runs = budget.run_all([partial(fit, loss, start) for loss in omega for start in starts])
    groups = [runs[i : i + len(starts)] for i in range(0, len(runs), len(starts))]
    best = [min(group, key=lambda run: float(run.losses[0])) for group in groups]
    found = np.array([run.losses[0] for run in best])
    told = zip(*(Units(data.scale).losses(losses, omega) for losses in (found, floors)), strict=True)
    notes = tuple(
        f"The {loss.name} error of the single-objective fit is {value:.3g}, numerically zero: "
        f"its reference was raised to {floor:.3g}."
        for loss, (value, floor), below in zip(omega, told, found < floors, strict=True)
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
