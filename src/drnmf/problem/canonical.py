"""The canonical form of a pair of factors: balanced components, the largest first."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from drnmf.backends.base import Data
from drnmf.numerics import Array, Vector, as_float64, beside


def canonical(data: Data, W: Any, H: Any, rescale: bool = True, fixed: int = 0) -> tuple[Any, Any]:
    """Return the same WH with ||w_k|| = ||h_k|| for every component, the largest contribution ||w_k|| ||h_k|| first.

    Parameters
    ----------
    rescale : False leaves the scale of the components, and orders them alone
    fixed : how many components, the first ones, stay first, in their order

    Examples
    --------
    >>> from drnmf.backends.open import open_data
    >>> W, H = canonical(open_data(np.ones((1, 1))), np.array([[1.0, 4.0]]), np.array([[1.0], [4.0]]))
    >>> W.tolist(), H.tolist()
    ([[4.0, 1.0]], [[4.0], [1.0]])
    """
    A, B = data.T.space.put(W.T), data.space.put(H)
    w, h = (np.sqrt(side.space.sum(squared_norms, F)) for side, F in ((data.T, A), (data, B)))
    used = (w > 0) & (h > 0) & rescale  # a component whose norm underflows keeps its scale
    scale = np.sqrt(np.divide(h, w, out=np.ones_like(w), where=used))
    sizes = w * h
    sizes[:fixed] = np.inf
    order = np.argsort(-sizes, kind="stable")
    A = data.T.space.map(partial(multiplied, scale=scale, order=order), A)
    return A.T, data.space.map(partial(divided, scale=scale, order=order), B)


def squared_norms(F: Array) -> Vector:
    """Compute the squared Euclidean norm of every row of a factor (r, n), in float64."""
    if isinstance(F, np.ndarray):  # row by row: a float32 factor is twice as large in float64
        return np.array([(row * row).sum() for row in map(as_float64, F)])
    F = as_float64(F)
    return np.array((F * F).sum(1).tolist())


def multiplied(F: Any, scale: Vector, order: Any) -> Any:
    """Multiply row k by scale_k, then put the rows in the order given.

    >>> multiplied(np.array([[1.0], [2.0]]), np.array([10.0, 1.0]), [1, 0]).tolist()
    [[2.0], [10.0]]
    """
    moved = F[order]
    moved *= beside(scale[order][:, None], F)
    return moved


def divided(F: Any, scale: Vector, order: Any) -> Any:
    """Divide row k by scale_k, then put the rows in the order given."""
    moved = F[order]
    moved /= beside(scale[order][:, None], F)
    return moved
