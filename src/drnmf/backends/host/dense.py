"""Dense X as every Data on this machine holds it; what differs between them is the sweep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from drnmf.backends.base import OnHost
from drnmf.backends.digest import dense_rows
from drnmf.numerics import Array, Vector


@dataclass(frozen=True)
class DenseMatrix(OnHost):
    """X in either order, never copied; T is a view."""

    X: Array
    mean: float
    zeros: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.X.dtype

    @cached_property
    def T(self) -> Self:
        return replace(self, X=self.X.T)

    def column(self, j: int) -> Vector:
        return np.asarray(self.X[:, j], dtype=np.float64)

    def dot(self, B: Array) -> Array:
        return self.X @ B

    def squared_norms(self) -> Vector:
        return np.einsum("ij,ij->j", self.X, self.X, dtype=np.float64)

    def row_digests(self) -> Iterator[bytes]:
        return dense_rows(self.X)
