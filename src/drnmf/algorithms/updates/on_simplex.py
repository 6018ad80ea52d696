"""Steps of second order for columns whose sum is given (`Parts.total`)."""

from __future__ import annotations

import numpy as np

from drnmf.algorithms.updates.base import Parts
from drnmf.backends.simplex_steps import simplex_step
from drnmf.backends.steps import balanced_sizes, packed_product
from drnmf.numerics import SIMPLEX_MOVES, Array, beside, namespace, power_ceiling, precision_of
from drnmf.objective.constraints import normalised


def model_minimum(F: Array, parts: Parts) -> Array:
    """Minimise the quadratic model of every column on the simplex, as `newton.Newton` does without a sum."""
    moves = SIMPLEX_MOVES * len(F)
    if parts.Q is None and parts.correlation is None:  # beta = 2 alone: the model is the loss
        return simplex_step(F, _slope(F, parts), parts.floor, moves, parts.gram)
    xp, (N, P) = namespace(F), parts.weighted()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if parts.correlation is not None:
            y = balanced_sizes(F, P, parts.correlation) if parts.sizes is None else parts.sizes
            good = ((y > 0) & (y < power_ceiling(precision_of(F)))).all(0)
            sizes = xp.where(good, y / F, 1.0)
            step = simplex_step(F, xp.where(good, P - N, 0.0), parts.floor, moves, parts.correlation, None, sizes)
        else:
            scale = _scale(F, P, parts)
            good = (scale > 0) & (scale < power_ceiling(precision_of(F)))
            slope = xp.where(good, (P - N) * scale, 0.0)
            step = simplex_step(F, slope, parts.floor, moves, parts.gram, parts.Q)
        good = good & (step == step).all(0)
        return step if bool(good.all()) else xp.where(good, step, parts.multiplicative(F))


def _scale(F: Array, P: Array, parts: Parts) -> Array:
    """How much larger the curvature of the sweep is than that of every column now (see `steps.quadratic_step`)."""
    xp = namespace(F)
    if parts.sizes is not None:
        return 1.0 / parts.sizes
    if not all(loss.homogeneous for loss in parts.omega):
        return xp.zeros_like(F[0]) + 1.0 / parts.Q_scale
    assert parts.Q is not None
    bent = packed_product(parts.Q, F)
    if parts.gram is not None:
        bent = bent + _shared(F, parts) @ F
    return (F * bent).sum(0) / (F * P).sum(0)


def _shared(F: Array, parts: Parts) -> Array:
    shared: Array = namespace(F).asarray(beside(parts.gram, F), dtype=F.dtype)
    return shared


def _slope(F: Array, parts: Parts) -> Array:
    """The gradient of beta = 2 alone at F, from its curvature: one matrix for all columns, or one for each."""
    bent = _shared(F, parts) @ F if parts.Q is None else packed_product(parts.Q, F)
    return bent - parts.N[0]


def ahead_on_simplex(F: Array, parts: Parts, moves: int, last: Array, pace: float) -> tuple[Array, Array]:
    """Take the step of `hals.HALS` on the simplex, and go on beyond it where the loss stays below that of F.

    Parameters
    ----------
    moves : of pairs of entries for every component
    last : (r, n) what the step before found
    pace : how far to go on, as a fraction of the way from there

    Returns
    -------
    stepped, further : what was found, and where the columns went
    """
    xp, slope = namespace(F), _slope(F, parts)
    stepped = simplex_step(F, slope, parts.floor, moves * len(F), parts.gram, parts.Q)
    stepped = normalised(stepped, parts.total, parts.floor)
    if pace == 0.0:
        return stepped, stepped
    further = normalised(stepped + pace * (stepped - last), parts.total, parts.floor)
    rise = slope + 0.5 * (_slope(further, parts) - slope)  # f(further) - f(F) = (further - F)'rise
    return stepped, xp.where(((further - F) * rise).sum(0) <= 0, further, stepped)
