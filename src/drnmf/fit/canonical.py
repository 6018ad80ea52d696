"""What a finished factor can be asked: NumPy arrays and torch tensors here, other kinds where they are defined."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from drnmf.numerics import Vector, as_float64, namespace


@singledispatch
def column_norms(W: Any) -> Vector:
    """Euclidean norm of every column, in float64."""
    return np.array(namespace(W).linalg.norm(as_float64(W), axis=0).tolist())


def row_norms(H: Any) -> Vector:
    """Euclidean norm of every row, in float64."""
    return np.array(namespace(H).linalg.norm(as_float64(H), axis=1).tolist())


@singledispatch
def rescaled(W: Any, scale: Vector, order: Any) -> Any:
    """Column k times scale_k, then the columns in the order given.

    >>> rescaled(np.array([[1.0, 2.0]]), np.array([10.0, 1.0]), [1, 0])
    array([[ 2., 10.]])
    """
    return _in_dtype((W * _beside(scale, W)[None, :])[:, order], W)


def divided(H: Any, scale: Vector, order: Any) -> Any:
    """Row k divided by scale_k, then the rows in the order given."""
    return _in_dtype((H / _beside(scale, H)[:, None])[order], H)


def _beside(vector: Vector, F: Any) -> Any:
    """The vector in the kind of F and where F is."""
    return vector if isinstance(F, np.ndarray) else namespace(F).as_tensor(vector, device=F.device)


def _in_dtype(F: Any, like: Any) -> Any:
    """F, contiguous, in the dtype of `like`."""
    return np.ascontiguousarray(F, dtype=like.dtype) if isinstance(F, np.ndarray) else F.to(like.dtype).contiguous()


@singledispatch
def handed_over(W: Any) -> Any:
    """W as the caller of an estimator gets it."""
    return np.ascontiguousarray(W)
