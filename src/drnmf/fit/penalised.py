"""Penalties in a fit: the objective that they stand in, and what is said of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from drnmf.algorithms.certificates import certify
from drnmf.algorithms.correlation import row_sums
from drnmf.algorithms.result import Result
from drnmf.backends.base import Data
from drnmf.fit.references import constant_model_losses
from drnmf.losses.base import Omega
from drnmf.numerics import EMPTY_MODEL, Vector, positive_scale
from drnmf.objective.constraints import UNCONSTRAINED, Constraints
from drnmf.objective.objective import Objective
from drnmf.objective.penalties import L1, L2
from drnmf.objective.penalty import Penalties, Penalty, Setting


def objective_of(data: Data, omega: Omega, references: Vector, terms: tuple[Penalty, ...] = ()) -> Objective:
    """Return the objective of a fit: the scaled losses, and the penalties in units that X gives.

    The unit is the loss of the constant model, WH = mean(X), which needs no fit and is the same for every start.
    """
    if not terms:
        return Objective(omega, references, data.mean)
    level = float((constant_model_losses(data, omega) / references).max())
    return Objective(omega, references, data.mean, Penalties(terms, Setting(data.shape, data.mean, level)))


def certified(
    data: Data, result: Result, terms: tuple[Penalty, ...] = (), constraints: Constraints = UNCONSTRAINED
) -> Result:
    """Add its certificate to a result."""
    objective = objective_of(data, result.omega, result.references, terms)
    found = certify(data, result.W, result.H, objective, result.weights, result.losses, constraints)
    return replace(result, certificate=found)


def remarks(terms: tuple[Penalty, ...]) -> tuple[str, ...]:
    """Say where a penalty can be undone by scaling one factor up and the other down."""
    given = {(type(term), term.on) for term in terms if isinstance(term, L1 | L2)}
    free = {on for _, on in given} in ({"W"}, {"H"})
    if not free:
        return ()
    (on,) = {on for _, on in given}
    other = "H" if on == "W" else "W"
    return (
        f"Only {on} has an L1 or L2 penalty, which scaling {on} down and {other} up undoes: Sparsity cannot be undone, "
        "nor can a penalty on both factors.",
    )


def refuse_empty(data: Data, result: Result, terms: tuple[Penalty, ...]) -> Result:
    """Refuse a fit whose penalties left nothing of WH.

    Raises
    ------
    ValueError
        With the alpha from which a penalty alone outweighs the loss of the constant model.
    """
    if not terms:
        return result
    A, B = data.T.space.put(result.W.T), data.space.put(result.H)
    total = float(data.T.space.sum(row_sums, A) @ data.space.sum(row_sums, B))
    if total > EMPTY_MODEL * positive_scale(data.mean) * data.shape[0] * data.shape[1]:
        return result
    level, names = _constant(data, result, terms), " and ".join(term.name for term in terms)
    raise ValueError(
        f"The penalties ({names}) leave nothing of the model: alpha is too large. A constant model costs as much by "
        f"its penalties as by its loss from {level:.2g} times these alphas on: stay well below."
    )


def _constant(data: Data, result: Result, terms: tuple[Penalty, ...]) -> float:
    """How many times the penalties of the balanced constant model go into its loss."""
    (m, n), r = data.shape, result.H.shape[0]
    root = np.sqrt(positive_scale(data.mean) / r)
    penalties = objective_of(data, result.omega, result.references, terms).penalties
    W, H = (
        tuple(term.measure(np.full((r, size), root), side) for term in terms) for side, size in (("W", m), ("H", n))
    )
    return penalties.setting.level / max(penalties.value(W, H), np.finfo(np.float64).tiny)
