"""Steps of second order for columns whose sum is given: compiled for NumPy arrays, in the factor's library elsewhere.

The quadratic model of a column, g'(h - f) + 1/2 (h - f)'M(h - f), is minimised over h >= floor with the sum of f by
moves of two entries, one up and one down: the entry whose slope is smallest gains, and the one loses that lowers the
model most (working sets of second order, Fan, Chen and Lin 2005). A move keeps the sum and cannot raise the model. It
leaves two slopes equal, and rounding alone says which is smaller: of slopes that agree the first entry gains, so that
every backend and instruction set takes the same way.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from drnmf.algorithms.updates.base import Parts
from drnmf.algorithms.updates.steps import balanced_sizes, packed_product, triangle_rows
from drnmf.backends.core import native_core
from drnmf.numerics import (
    LEAST_DIVISOR,
    PAIR_TOLERANCE,
    SIMPLEX_MOVES,
    Array,
    Indices,
    Library,
    Maybe,
    Numbers,
    beside,
    namespace,
    power_ceiling,
    precision_of,
)
from drnmf.objective.constraints import normalised
from drnmf.objective.penalty import in_kind


def simplex_step(
    F: Array, slope: Array, floor: Numbers, moves: int, gram: Maybe = None, Q: Maybe = None, sizes: Maybe = None
) -> Array:
    """Minimise the quadratic model of every column over h >= floor and sum h = sum f.

    Its gradient at F is `slope`; its curvature is diag(s) (gram + Q) diag(s), with `gram` (r, r) what all columns
    share, Q (r (r + 1) / 2, n) what every column has for itself, packed, and s the `sizes` (r, n). At most so many
    `moves` of pairs are made; a column whose slopes agree stops before.

    >>> F, slope = np.full((2, 1), 0.5), np.array([[-1.0], [1.0]])
    >>> simplex_step(F, slope, 0.0, 2, gram=4.0 * np.eye(2)).tolist()
    [[0.75], [0.25]]
    """
    core = native_core() if isinstance(F, np.ndarray) else None
    if core is None:
        return _moved(F, slope, floor, moves, _Curvature(F, gram, Q, sizes))
    out = np.empty(F.shape, F.dtype)  # C-contiguous, whatever the order of F: it is written in place
    blocks = [None if part is None else np.ascontiguousarray(part, dtype=F.dtype) for part in (F, slope, Q, sizes)]
    core.simplex_step(*blocks, gram, floor, PAIR_TOLERANCE, moves, out, None, None, 0.0, None)
    return out


def simplex_step_ahead(
    F: Array,
    N: Array,
    floor: Numbers,
    moves: int,
    totals: Numbers,
    last: Array,
    momentum: Numbers,
    gram: Maybe = None,
    Q: Maybe = None,
) -> tuple[Array, Array]:
    """Minimise 1/2 h'Mh - N'h in every column as `simplex_step` does, and go on beyond where that stays below F's.

    M = gram + Q. Columns sum to `totals`. They go on by `momentum` as a fraction of the way from `last`, what the step
    before found. Returns what was found, and where the columns went.

    >>> F, N = np.full((2, 1), 0.5), np.array([[3.0], [1.0]])
    >>> found = simplex_step_ahead(F, N, 0.0, 2, 1.0, F, 0.5, gram=4.0 * np.eye(2))
    >>> [part.tolist() for part in found]
    [[[0.75], [0.25]], [[0.875], [0.125]]]
    """
    core = native_core() if isinstance(F, np.ndarray) else None
    if core is None:
        stepped = normalised(simplex_step(F, model_slope(F, N, gram, Q), floor, moves, gram, Q), totals, floor)
        if momentum == 0.0:
            return stepped, stepped
        further = normalised(stepped + momentum * (stepped - last), totals, floor)
        rise = model_slope(0.5 * (F + further), N, gram, Q)  # f(further) - f(F) = (further - F)'rise
        return stepped, namespace(F).where(((further - F) * rise).sum(0) <= 0, further, stepped)
    stepped, further = np.empty((2, *F.shape), F.dtype)
    F, N, last = (np.ascontiguousarray(part, dtype=F.dtype) for part in (F, N, last))
    Q = None if Q is None else np.ascontiguousarray(Q, dtype=F.dtype)
    sums = np.full(F.shape[1], totals, dtype=F.dtype)
    core.simplex_step(F, N, Q, None, gram, floor, PAIR_TOLERANCE, moves, stepped, last, sums, momentum, further)
    return stepped, further


def model_slope(F: Array, N: Array, gram: Maybe, Q: Maybe) -> Array:
    """Compute (gram + Q) F - N, the gradient of 1/2 h'(gram + Q)h - N'h in every column."""
    found = -N
    if gram is not None:
        found = found + namespace(F).asarray(beside(gram, F), dtype=F.dtype) @ F
    return found if Q is None else found + packed_product(Q, F)


class _Curvature:
    """M of every column, by its columns."""

    def __init__(self, F: Array, gram: Maybe, Q: Maybe, sizes: Maybe) -> None:
        xp, r = namespace(F), F.shape[0]
        self.xp, self.sizes, self.Q, self.rows = xp, sizes, Q, beside(np.array(triangle_rows(r)), F)
        self.gram = None if gram is None else xp.asarray(beside(gram, F), dtype=F.dtype)
        own = 0.0 if Q is None else Q[self.rows.diagonal()]
        shared = 0.0 if self.gram is None else self.gram.diagonal()[:, None] + xp.zeros_like(F)
        self.diagonal: Any = (own + shared) * (1.0 if sizes is None else sizes**2)

    def column(self, k: Indices) -> Array:
        """Column k_j of the matrix of every column j, (r, n)."""
        xp = self.xp
        own: Any = 0.0 if self.Q is None else _taken(xp, self.Q, self.rows[:, k])
        whole: Array = own + (0.0 if self.gram is None else self.gram[:, k])
        return whole if self.sizes is None else whole * self.sizes * _taken(xp, self.sizes, k[None])


def _taken(xp: Library, stack: Array, rows: Any) -> Array:
    """Entry rows[i, j] of column j."""
    if xp is np:
        return np.take_along_axis(stack, rows, axis=0)
    return xp.gather(stack, 0, rows)


def _put(xp: Library, H: Any, row: Indices, values: Array) -> None:
    """Write one entry of every column, in place."""
    if xp is np:
        np.put_along_axis(H, row[None], values[None], axis=0)
    else:
        H.scatter_(0, row[None], values[None])


def _moved(F: Array, slope: Array, floor: Numbers, moves: int, M: _Curvature) -> Array:
    """`simplex_step` in the array library of F: the reference of the compiled one."""
    xp = namespace(F)
    H, first = 1.0 * F, 0.0 * F[0]
    for move in range(moves):
        low = xp.argmax(xp.where(slope <= xp.amin(slope, axis=0) + PAIR_TOLERANCE * first, 1, 0), 0)
        least, towards = _taken(xp, slope, low[None]), M.column(low)
        bend = M.diagonal + _taken(xp, M.diagonal, low[None]) - 2.0 * towards
        gap = xp.where((floor < H) & (bend > 0), slope - least, 0.0)
        wide = xp.amax(gap, axis=0)
        first = wide if move == 0 else first
        if not bool((wide > PAIR_TOLERANCE * first).any()):
            break
        high = xp.argmax(gap * (gap / xp.where(bend > 0, bend, math.inf)), 0)
        room = _taken(xp, H, high[None])[0]
        change = (_taken(xp, gap, high[None]) / xp.clip(_taken(xp, bend, high[None]), LEAST_DIVISOR, None))[0]
        going, inside = wide > PAIR_TOLERANCE * first, change < room - floor
        change = xp.where(going, xp.where(inside, change, room - floor), 0.0)
        _put(xp, H, high, xp.where(going & ~inside, floor + 0.0 * room, room - change))
        _put(xp, H, low, _taken(xp, H, low[None])[0] + change)
        slope = slope + change * (towards - M.column(high))
    return H


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
            slope, Q = P - N + bound.slope(), parts.curvature(F) * xp.where(good, length, 1.0)
            if bound.curvature is not None:
                slope = slope + in_kind(bound.curvature, F) @ F
            step = simplex_step(F, xp.where(good, slope, 0.0), parts.floor, moves, bound.curvature, Q)
        good = good & (step == step).all(0)
        return step if bool(good.all()) else xp.where(good, step, parts.multiplicative(F))


def _length(F: Array, parts: Parts) -> Array:
    """How much larger the curvature is now than that of the sweep (see `steps.quadratic_step`)."""
    if parts.sizes is not None:
        return parts.sizes
    if not all(loss.homogeneous for loss in parts.omega):
        return namespace(F).zeros_like(F[0]) + parts.Q_scale
    return (F * parts.weighted()[1]).sum(0) / (F * packed_product(parts.curvature(F), F)).sum(0)


def _model(F: Array, parts: Parts) -> tuple[Array, Maybe, Maybe]:
    """N, gram and Q of 1/2 h'(gram + Q)h - N'h, the loss of beta = 2 alone with its penalties."""
    if parts.gram is not None:
        return *parts.shared(F), None
    bound = parts.bound(F)
    return parts.N[0] - bound.slope(), bound.curvature, parts.Q


def ahead_on_simplex(F: Array, parts: Parts, last: Array, momentum: Numbers) -> tuple[Array, Array]:
    """Take the step of `hals.HALS` on the simplex, and go on beyond it where the loss stays below that of F.

    Returns what was found, and where the columns went, with `last` and `momentum` as in `simplex_step_ahead`.
    """
    N, gram, Q = _model(F, parts)
    assert parts.total is not None
    return simplex_step_ahead(F, N, parts.floor, _moves(F), parts.total, last, momentum, gram, Q)


def _moves(F: Array) -> int:
    return max(SIMPLEX_MOVES, len(F) // 4)
