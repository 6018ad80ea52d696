"""The columns of a tensor's unfolding: products of the columns of one factor for every mode.

A module of their own, because starts and parameters, and so help, need them without SciPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from drnmf.numerics import Array


def column_products(factors: Sequence[Array]) -> Array:
    """Multiply factors (r, J), (r, K), ... column by column: (r, JK...), the last index fastest.

    >>> column_products([np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])])
    array([[3., 4., 6., 8.]])
    """
    return reduce(lambda G, F: (G[:, :, None] * F[:, None, :]).reshape(len(F), -1), factors)


def split_columns(H: Array, sizes: Sequence[int]) -> tuple[Array, ...]:
    """Take a factor of columns (r, JK...) apart: the sums of every component over all modes but one.

    All but the first sum to one. What `column_products` made comes back up to the scale of its factors.

    >>> [F.tolist() for F in split_columns(np.array([[3.0, 4.0, 6.0, 8.0]]), (2, 2))]
    [[[7.0, 14.0]], [[0.42857142857142855, 0.5714285714285714]]]
    """
    if len(sizes) == 1:
        return (H,)
    cube, axes = H.reshape(len(H), *sizes), range(1, len(sizes) + 1)
    sums = [cube.sum(axis=tuple(a for a in axes if a != own)) for own in axes]
    tiny = np.finfo(H.dtype).tiny
    return (sums[0], *(F / np.maximum(F.sum(axis=1, keepdims=True), tiny) for F in sums[1:]))
