"""Steps of second order for columns whose sum is given (`Parts.total`)."""

from __future__ import annotations

import numpy as np

from drnmf.algorithms.updates.base import Parts
from drnmf.algorithms.updates.simplex_steps import model_slope, simplex_step, simplex_step_ahead
from drnmf.algorithms.updates.steps import balanced_sizes, packed, packed_product
from drnmf.numerics import SIMPLEX_MOVES, Array, Maybe, Numbers, namespace, power_ceiling, precision_of
from drnmf.objective.penalty import in_kind


def model_minimum(F: Array, parts: Parts) -> Array:
    """Minimise the quadratic model of every column on the simplex, as `newton.Newton` does without a sum."""
    moves = _moves(F)
    if parts.Q is None and parts.correlation is None:  # beta = 2 alone: the model is the loss
        N, gram, _ = _model(F, parts)
        return simplex_step(F, model_slope(F, N, gram, None), parts.floor, moves, gram)
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


def _whole(F: Array, parts: Parts) -> Array:
    """The curvature of every column of the sweep, packed, with the part that all share."""
    assert parts.Q is not None
    return parts.Q if parts.gram is None else parts.Q + packed(parts.gram, F)


def _length(F: Array, parts: Parts) -> Array:
    """How much larger the curvature is now than that of the sweep (see `steps.quadratic_step`)."""
    if parts.sizes is not None:
        return parts.sizes
    if not all(loss.homogeneous for loss in parts.omega):
        return namespace(F).zeros_like(F[0]) + parts.Q_scale
    return (F * parts.weighted()[1]).sum(0) / (F * packed_product(_whole(F, parts), F)).sum(0)


def _model(F: Array, parts: Parts) -> tuple[Array, Maybe, Maybe]:
    """N, gram and Q of 1/2 h'(gram + Q)h - N'h, the loss of beta = 2 alone with its penalties."""
    if parts.gram is not None:
        return *parts.shared(F), None
    bound = parts.bound(F)
    return parts.N[0] - bound.slope(), bound.curvature, parts.Q


def ahead_on_simplex(F: Array, parts: Parts, last: Array, pace: Numbers) -> tuple[Array, Array]:
    """Take the step of `hals.HALS` on the simplex, and go on beyond it where the loss stays below that of F.

    Parameters
    ----------
    last : (r, n) what the step before found
    pace : how far to go on, as a fraction of the way from there

    Returns
    -------
    stepped, further : what was found, and where the columns went
    """
    N, gram, Q = _model(F, parts)
    assert parts.total is not None
    return simplex_step_ahead(F, N, parts.floor, _moves(F), parts.total, last, pace, gram, Q)


def _moves(F: Array) -> int:
    return max(SIMPLEX_MOVES, len(F) // 4)
