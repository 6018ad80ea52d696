"""A fitted model as a function of rows: what `transform` does to a matrix, and to every block of a larger one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.base import Data, wrap
from drnmf.backends.entries import check_structure
from drnmf.backends.host.blas import single_blas
from drnmf.fit.encode import encode
from drnmf.inputs.check import check_entries, check_zeros
from drnmf.numerics import Array, Vector
from drnmf.objective.objective import Objective


@dataclass(frozen=True)
class Encoder:
    """W for rows of X under a model that stands: its components, losses, weights and settings.

    consumer : the name that errors give
    """

    components: Array
    objective: Objective
    weights: Vector
    max_iter: int
    tol: float
    zeros: str
    consumer: str

    def __call__(self, X: Any, first_row: int = 0) -> Array:
        """W of shape (rows, r) for a matrix, or for a block of one that begins at `first_row`."""
        check_structure(X)
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float64)
        X = X if sp.issparse(X) else np.asarray(X)
        check_entries(X, self.consumer, first_row)
        return np.ascontiguousarray(self.rows(X, wrap(X, mean=self.objective.mean), first_row))

    def rows(self, X: Any, data: Data, first_row: int = 0) -> Array:
        """W for rows that are behind the seam already."""
        check_zeros(X, data, self.objective.betas, self.zeros, first_row)
        H = self.components.astype(data.dtype, copy=False)
        with single_blas():
            return encode(data, H, self.objective, self.weights, self.max_iter, self.tol)
