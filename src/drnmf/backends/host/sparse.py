"""Sparse X as every Data on this machine holds it; what differs between them is the sweep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from drnmf.backends.base import OnHost
from drnmf.backends.digest import sparse_rows
from drnmf.numerics import Array, Vector


@dataclass(frozen=True)
class SparseColumns(OnHost):
    """X as CSC and its transpose as CSC, both built once; T swaps them."""

    by_column: Any  # X, CSC
    by_row: Any  # X transposed, CSC
    mean: float
    squared_norm: float

    @classmethod
    def of(cls, X: Any, mean: float | None = None) -> Self:
        # A copy of indices and values in canonical form: the caller's matrix may hold unsorted or repeated
        # entries and stored zeros, and is not ours to change.
        rows = sp.csr_array(X, copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        own = float(rows.data.sum(dtype=np.float64)) / (rows.shape[0] * rows.shape[1]) if mean is None else mean
        squared_norm = float(np.square(rows.data, dtype=np.float64).sum())
        return cls(sp.csc_array(rows), sp.csc_array(rows.T), own, squared_norm)

    @property
    def shape(self) -> tuple[int, int]:
        return self.by_column.shape[0], self.by_column.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.by_column.dtype

    @property
    def zeros(self) -> int:
        return self.shape[0] * self.shape[1] - int(self.by_column.nnz)

    @cached_property
    def T(self) -> Self:
        return replace(self, by_column=self.by_row, by_row=self.by_column)

    def column(self, j: int) -> Vector:
        return np.asarray(self.by_column[:, [j]].toarray()[:, 0], dtype=np.float64)

    def dot(self, B: Array) -> Array:
        return self.by_row.T @ B

    def squared_norms(self) -> Vector:
        X = self.by_column
        squares = sp.csc_array((np.square(X.data, dtype=np.float64), X.indices, X.indptr), self.shape)
        return np.asarray(squares.sum(axis=0), dtype=np.float64).ravel()

    def row_digests(self) -> Iterator[bytes]:
        return sparse_rows(self.by_row.data, self.by_row.indices, self.by_row.indptr, self.shape[1])
