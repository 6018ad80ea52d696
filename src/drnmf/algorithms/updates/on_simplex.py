"""Steps of second order for columns whose sum is given (`Parts.total`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from drnmf.algorithms.updates.base import Parts
from drnmf.backends.simplex_steps import simplex_step
from drnmf.backends.steps import balanced_sizes, packed, packed_product
from drnmf.numerics import SIMPLEX_MOVES, Array, namespace, power_ceiling, precision_of
from drnmf.objective.constraints import normalised
from drnmf.objective.penalty import in_kind


def model_minimum(F: Array, parts: Parts) -> Array:
    """Minimise the quadratic model of every column on the simplex, as `newton.Newton` does without a sum."""
    moves = max(SIMPLEX_MOVES, len(F) // 4)
    if parts.Q is None and parts.correlation is None:  # beta = 2 alone: the model is the loss
        model = _Model.of(F, parts)
        return simplex_step(F, model.slope(F), parts.floor, moves, model.gram)
    xp, ceiling = namespace(F), power_ceiling(precision_of(F))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if parts.correlation is not None:
            N, P = parts.with_penalties(F)
            y = balanced_sizes(F, P, parts.correlation) if parts.sizes is None else parts.sizes
            good = ((y > 0) & (y < ceiling)).all(0)
            sizes = xp.where(good, y / F, 1.0)
            step = simplex_step(F, xp.where(good, P - N, 0.0), parts.floor, moves, parts.correlation, None, sizes)
        else:
            (N, P), bound, length = parts.weighted(), parts.bound(F), _length(F, parts)
            good = (length > 0) & (length < ceiling)
            slope, Q = P - N + bound.slope(), _whole(F, parts) * xp.where(good, length, 1.0)
            if bound.curvature is not None:
                slope = slope + in_kind(bound.curvature, F) @ F
            step = simplex_step(F, xp.where(good, slope, 0.0), parts.floor, moves, bound.curvature, Q)
        good = good & (step == step).all(0)
        return step if bool(good.all()) else xp.where(good, step, parts.multiplicative(F))


def _whole(F: Array, parts: Parts) -> Any:
    """The curvature of every column of the sweep, packed, with the part that all share."""
    return parts.Q if parts.gram is None else parts.Q + packed(parts.gram, F)


def _length(F: Array, parts: Parts) -> Any:
    """How much larger the curvature is now than that of the sweep (see `steps.quadratic_step`)."""
    if parts.sizes is not None:
        return parts.sizes
    if not all(loss.homogeneous for loss in parts.omega):
        return namespace(F).zeros_like(F[0]) + parts.Q_scale
    return (F * parts.weighted()[1]).sum(0) / (F * packed_product(_whole(F, parts), F)).sum(0)


@dataclass(frozen=True)
class _Model:
    """1/2 h'Gh - N'h for beta = 2 alone, penalties included: G is one matrix for all columns, or Q one for each."""

    N: Array
    gram: Any
    Q: Any

    @classmethod
    def of(cls, F: Array, parts: Parts) -> _Model:
        if parts.gram is not None:
            N, gram = parts.shared(F)
            return cls(N, gram, None)
        bound = parts.bound(F)
        return cls(parts.N[0] - bound.slope(), bound.curvature, parts.Q)

    def slope(self, F: Array) -> Array:
        """Compute the gradient at F."""
        found = -self.N
        if self.gram is not None:
            found = found + in_kind(self.gram, F) @ F
        return found if self.Q is None else found + packed_product(self.Q, F)


def ahead_on_simplex(F: Array, parts: Parts, last: Array, pace: float) -> tuple[Array, Array]:
    """Take the step of `hals.HALS` on the simplex, and go on beyond it where the loss stays below that of F.

    Parameters
    ----------
    last : (r, n) what the step before found
    pace : how far to go on, as a fraction of the way from there

    Returns
    -------
    stepped, further : what was found, and where the columns went
    """
    xp, model = namespace(F), _Model.of(F, parts)
    slope = model.slope(F)
    stepped = simplex_step(F, slope, parts.floor, max(SIMPLEX_MOVES, len(F) // 4), model.gram, model.Q)
    stepped = normalised(stepped, parts.total, parts.floor)
    if pace == 0.0:
        return stepped, stepped
    further = normalised(stepped + pace * (stepped - last), parts.total, parts.floor)
    rise = model.slope(0.5 * (F + further))  # f(further) - f(F) = (further - F)'rise
    return stepped, xp.where(((further - F) * rise).sum(0) <= 0, further, stepped)
