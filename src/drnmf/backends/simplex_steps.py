"""Steps of second order for columns whose sum is given: compiled for NumPy arrays, in the factor's library elsewhere.

The quadratic model of a column, g'(h - f) + 1/2 (h - f)'M(h - f), is minimised over h >= floor with the sum of f by
moves of two entries, one up and one down: the entry whose slope is smallest gains, and the one loses that lowers the
model most (working sets of second order, Fan, Chen and Lin 2005). A move keeps the sum and cannot raise the model.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from drnmf.backends.host.core import native_core
from drnmf.backends.steps import triangle_rows
from drnmf.numerics import PAIR_TOLERANCE, Array, Vector, beside, namespace


def simplex_step(
    F: Array, slope: Array, floor: float, moves: int, gram: Any = None, Q: Any = None, sizes: Any = None
) -> Array:
    """Minimise the quadratic model of every column over h >= floor and sum h = sum f.

    Parameters
    ----------
    F : (r, n) the block
    slope : (r, n) the gradient of the model at F
    moves : of pairs, at most; a column whose slopes agree stops before
    gram : (r, r) the curvature, or the part of it that all columns share
    Q : (r (r + 1) / 2, n) the part that every column has for itself, packed
    sizes : (r, n); the curvature is diag(s) (gram + Q) diag(s)

    Returns
    -------
    stepped : (r, n)

    Examples
    --------
    >>> F, slope = np.full((2, 1), 0.5), np.array([[-1.0], [1.0]])
    >>> simplex_step(F, slope, 0.0, 2, gram=4.0 * np.eye(2)).tolist()
    [[0.75], [0.25]]
    """
    core = native_core() if isinstance(F, np.ndarray) else None
    if core is None:
        return _moved(F, slope, floor, moves, _Curvature(F, gram, Q, sizes))
    out = np.empty(F.shape, F.dtype)  # C-contiguous, whatever the order of F: it is written in place
    blocks = [None if part is None else np.ascontiguousarray(part, dtype=F.dtype) for part in (F, slope, Q, sizes)]
    core.simplex_step(*blocks, gram, floor, PAIR_TOLERANCE, moves, out)
    return out


class _Curvature:
    """M of every column, by its columns."""

    def __init__(self, F: Array, gram: Vector | None, Q: Any, sizes: Any) -> None:
        xp, r = namespace(F), F.shape[0]
        self.xp, self.sizes, self.Q, self.rows = xp, sizes, Q, beside(np.array(triangle_rows(r)), F)
        self.gram = None if gram is None else xp.asarray(beside(gram, F), dtype=F.dtype)
        own = 0.0 if Q is None else Q[self.rows.diagonal()]
        shared = 0.0 if self.gram is None else self.gram.diagonal()[:, None] + xp.zeros_like(F)
        self.diagonal: Any = (own + shared) * (1.0 if sizes is None else sizes**2)

    def column(self, k: Any) -> Array:
        """Column k_j of the matrix of every column j, (r, n)."""
        xp = self.xp
        own: Any = 0.0 if self.Q is None else _taken(xp, self.Q, self.rows[:, k])
        whole: Array = own + (0.0 if self.gram is None else self.gram[:, k])
        return whole if self.sizes is None else whole * self.sizes * _taken(xp, self.sizes, k[None])


def _taken(xp: Any, stack: Array, rows: Any) -> Array:
    """Entry rows[i, j] of column j."""
    if xp is np:
        return np.take_along_axis(stack, rows, axis=0)
    return xp.gather(stack, 0, rows)


def _put(xp: Any, H: Any, row: Any, values: Array) -> None:
    """Write one entry of every column, in place."""
    if xp is np:
        np.put_along_axis(H, row[None], values[None], axis=0)
    else:
        H.scatter_(0, row[None], values[None])


def _moved(F: Array, slope: Array, floor: float, moves: int, M: _Curvature) -> Array:
    """`simplex_step` in the array library of F: the reference of the compiled one."""
    xp = namespace(F)
    H, first = 1.0 * F, None
    for _ in range(moves):
        low = xp.argmin(slope, 0)
        least, towards = _taken(xp, slope, low[None]), M.column(low)
        bend = M.diagonal + _taken(xp, M.diagonal, low[None]) - 2.0 * towards
        gap = xp.where((floor < H) & (bend > 0), slope - least, 0.0)
        wide = xp.amax(gap, axis=0)
        first = wide if first is None else first
        if not bool((wide > PAIR_TOLERANCE * first).any()):
            break
        high = xp.argmax(gap * (gap / xp.where(bend > 0, bend, math.inf)), 0)
        room = _taken(xp, H, high[None])[0]
        change = (_taken(xp, gap, high[None]) / xp.clip(_taken(xp, bend, high[None]), _TINY, None))[0]
        change = xp.where(wide > PAIR_TOLERANCE * first, xp.where(change < room - floor, change, room - floor), 0.0)
        _put(xp, H, high, room - change)
        _put(xp, H, low, _taken(xp, H, low[None])[0] + change)
        slope = slope + change * (towards - M.column(high))
    return H


_TINY = 1e-37
