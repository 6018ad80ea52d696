r"""Coordinate descent on W'W for beta = 2 alone: hierarchical alternating least squares (HALS).

With W fixed the loss of every column of H is the quadratic function

.. math:: \tfrac12 h' G h - N' h + \tfrac12 \|x\|^2, \qquad G = W'W, \quad N = W'x

with one matrix G for all columns, so a pass over the r components of all columns costs O(r^2 n), where a sweep costs
O(m n r), and no column has a matrix of its own. Each component in turn takes its exact minimum over h_k >= floor
(Cichocki, Zdunek and Amari 2007; Gillis and Glineur 2012): the loss cannot rise, and zeros are reached from above.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from drnmf.backends.base import native_core
from drnmf.numerics import VANISHED, Array, Vector, namespace


def shared_step(F: Array, N: Array, gram: Vector, floor: float, passes: int) -> Array:
    """Take `passes` of coordinate descent over h >= floor on 1/2 h'Gh - N'h, in every column from F.

    A component of the other block that is all floor (`numerics.VANISHED`) says nothing: its entries stay. They would
    leave for the inverse of the floor, and the floor itself would then count.

    >>> shared_step(np.ones((1, 2)), np.array([[6.0, -1.0]]), np.full((1, 1), 2.0), 0.5, 1)
    array([[3. , 0.5]])
    """
    smallest = VANISHED**2 * float(gram.diagonal().max())
    core = native_core() if isinstance(F, np.ndarray) else None
    if core is None:
        return _descend(F, N, gram, floor, smallest, passes)
    out = np.empty_like(F)
    core.hals_step(F, N, gram, floor, smallest, passes, out)
    return out


def _descend(F: Array, N: Array, gram: Any, floor: float, smallest: float, passes: int) -> Array:
    """The same in the array library of F: the reference of the compiled step."""
    xp, square = namespace(F), gram.diagonal()
    G, H = xp.asarray(gram, dtype=F.dtype), 1.0 * F
    for _ in range(passes):
        for k in range(F.shape[0]):
            if square[k] > smallest:
                H[k] = xp.clip(H[k] - (G[k] @ H - N[k]) / G[k, k], floor, None)
    return H
