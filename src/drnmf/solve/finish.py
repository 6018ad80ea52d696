"""What is said of a result: its certificate, and what its penalties did."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from drnmf.algorithms.certificates import certify
from drnmf.algorithms.correlation import row_sums
from drnmf.algorithms.result import Result
from drnmf.numerics import EMPTY_MODEL, positive_scale
from drnmf.objective.penalties import L1, L2
from drnmf.objective.penalty import Penalty
from drnmf.problem.problem import Problem, objective_of


def certified(problem: Problem, result: Result) -> Result:
    """Add its certificate to a result."""
    data = problem.data
    objective = objective_of(data, result.omega, result.references, problem.penalties)
    found = certify(problem.modes, result.blocks, objective, result.weights, result.losses, problem.constraints)
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


def refuse_empty(problem: Problem, result: Result) -> Result:
    """Refuse a fit whose penalties left nothing of WH.

    Raises
    ------
    ValueError
        With the alpha from which a penalty alone outweighs the loss of the constant model.
    """
    data, terms = problem.data, problem.penalties
    if not terms:
        return result
    A, B = data.T.space.put(result.W.T), data.space.put(result.H)
    total = float(data.T.space.sum(row_sums, A) @ data.space.sum(row_sums, B))
    if total > EMPTY_MODEL * positive_scale(data.mean) * data.shape[0] * data.shape[1]:
        return result
    level, names = _constant(problem, result), " and ".join(term.name for term in terms)
    raise ValueError(
        f"The penalties ({names}) leave nothing of the model: alpha is too large. A constant model costs as much by "
        f"its penalties as by its loss from {level:.2g} times these alphas on: stay well below."
    )


def _constant(problem: Problem, result: Result) -> float:
    """How many times the penalties of the balanced constant model go into its loss."""
    (m, n), r = problem.data.shape, result.H.shape[0]
    root = np.sqrt(positive_scale(problem.data.mean) / r)
    penalties = objective_of(problem.data, result.omega, result.references, problem.penalties).penalties
    measures = tuple(
        tuple(term.measure(np.full((r, size), root), side) for term in penalties.terms)
        for side, size in (("H", n), ("W", m))
    )
    return penalties.setting.level / max(penalties.value(measures), np.finfo(np.float64).tiny)
