"""What a finished factor W can be asked, whatever it is made of: a NumPy array here, other kinds where they are."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from drnmf.numerics import Vector


@singledispatch
def column_norms(W: Any) -> Vector:
    """Euclidean norm of every column, in float64."""
    return np.asarray(np.linalg.norm(W.astype(np.float64), axis=0))


@singledispatch
def rescaled(W: Any, scale: Vector, order: Any) -> Any:
    """Column k times scale_k, then the columns in the order given.

    >>> rescaled(np.array([[1.0, 2.0]]), np.array([10.0, 1.0]), [1, 0])
    array([[ 2., 10.]])
    """
    return np.ascontiguousarray((W * scale[None, :])[:, order], dtype=W.dtype)


@singledispatch
def handed_over(W: Any) -> Any:
    """W as the caller of an estimator gets it."""
    return np.ascontiguousarray(W)
