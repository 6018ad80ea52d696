"""Sparse X in the memory of this process, and its sweep in SciPy: what differs between backends there is the sweep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from drnmf.backends.base import Ask, Sweep
from drnmf.backends.digest import sparse_rows
from drnmf.backends.entries import first_zero
from drnmf.backends.host.dense import HostMatrix
from drnmf.backends.tiles import shared_curvature, sweep_tiles
from drnmf.losses.base import Loss, need_nonzeros_only
from drnmf.numerics import Array, Vector, identity_limit, model_floor, power_ceiling


@dataclass(frozen=True)
class SparseMatrix(HostMatrix):
    """X as CSC and its transpose as CSC, both built once; T swaps them. Losses with free parts never densify."""

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
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return self.by_column.shape[0], self.by_column.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        return self.by_column.dtype

    @property
    def zeros(self) -> int:
        return self.shape[0] * self.shape[1] - int(self.by_column.nnz)

    @cached_property
    def T(self) -> Self:
        return replace(self, by_column=self.by_row, by_row=self.by_column)

    def tile(self, columns: slice) -> Array:
        return self.by_column[:, columns].toarray()

    def first_zero(self) -> tuple[int, int]:
        return first_zero(self.by_column)

    def row_digests(self) -> Iterator[bytes]:
        return sparse_rows(self.by_row.data, self.by_row.indices, self.by_row.indptr, self.shape[1])

    def column(self, j: int) -> Vector:
        return np.asarray(self.by_column[:, [j]].toarray()[:, 0], dtype=np.float64)

    def dot(self, B: Array) -> Array:
        return self.by_row.T @ B

    def squared_norms(self) -> Vector:
        X = self.by_column
        squares = sp.csc_array((np.square(X.data, dtype=np.float64), X.indices, X.indptr), self.shape)
        return np.asarray(squares.sum(axis=0), dtype=np.float64).ravel()

    def sweep(self, W: Array, H: Array, ask: Ask) -> Sweep:
        if ask.observed is not None or not need_nonzeros_only(ask.omega):
            return sweep_tiles(self, W, H, ask)
        return _Nonzeros(self, W, H).sweep(ask)


@dataclass(frozen=True)
class _Nonzeros:
    """A sweep over the non-zeros: N_1 = W'(X/V) there, P_1 = column sums, N_2 = W'X, P_2 = (W'W)H."""

    data: SparseMatrix
    W: Array
    H: Array

    def sweep(self, ask: Ask) -> Sweep:
        H, losses = self.H, np.full(len(ask.omega), np.nan)
        N, P = (np.zeros((ask.slots, *H.shape), dtype=H.dtype) for _ in range(2))
        for b, loss in enumerate(ask.omega):
            weight = 1.0 if ask.weights is None else float(ask.weights[b])
            negative = self.negative(loss)
            if ask.losses:
                losses[b] = self.kl() if loss.free_part == "sums" else self.frobenius(negative)
            if ask.parts is not None:
                slot = b if ask.weights is None else 0
                N[slot] += weight * negative
                P[slot] += weight * self.positive(loss)
        Q = None if ask.curvature is None or ask.shared_alone else self.curvature(ask)
        return Sweep(losses, N, P[:0] if ask.shared_alone else P, Q, shared_curvature(self.W, ask))

    @cached_property
    def V(self) -> Array:
        """WH at the non-zeros of X, in CSC order, a bounded chunk at a time."""
        X, H, W = self.data.by_column, np.ascontiguousarray(self.H.T), np.ascontiguousarray(self.W)
        columns = np.repeat(np.arange(X.shape[1]), np.diff(X.indptr))
        V = np.empty(X.nnz, dtype=H.dtype)
        chunk = max(1, self.data.tile_entries // H.shape[1])
        for start in range(0, V.size, chunk):
            s = slice(start, start + chunk)
            V[s] = np.einsum("ik,ik->i", W[X.indices[s]], H[columns[s]])
        return np.maximum(V, H.dtype.type(model_floor(H.dtype)))

    @cached_property
    def gram(self) -> Vector:
        return self.W.T.astype(np.float64) @ self.W.astype(np.float64)

    def _times(self, values: Array, W: Array) -> Array:
        """(X with other values)' W, transposed."""
        X = self.data.by_column
        return np.asarray((sp.csc_array((values, X.indices, X.indptr), X.shape).T @ W).T)

    def negative(self, loss: Loss) -> Array:
        x, V = self.data.by_column.data, self.V if loss.free_part == "sums" else self.data.by_column.data
        return self._times(loss.parts(x, V, power_ceiling(self.H.dtype))[0], self.W)

    def positive(self, loss: Loss) -> Array:
        if loss.free_part == "sums":
            return self.W.sum(axis=0, dtype=np.float64).astype(self.H.dtype)[:, None]
        return (self.gram.astype(self.H.dtype) @ self.H).astype(self.H.dtype)

    def kl(self) -> float:
        """Sum over non-zeros of x log(x/v) - x, plus (1'W)(H1)."""
        x, v = self.data.by_column.data.astype(np.float64), self.V.astype(np.float64)
        total = self.W.sum(axis=0, dtype=np.float64) @ self.H.sum(axis=1, dtype=np.float64)
        return max(float((x * np.log(x / v) - x).sum() + total), 0.0)

    def frobenius(self, N: Array) -> float:
        """1/2 (||X||^2 - 2 <H, N> + <W'W, HH'>), or by entries where that has lost its digits."""
        H, norm = self.H.astype(np.float64), self.data.squared_norm
        model = float(np.sum(self.gram * (H @ H.T)))
        loss = 0.5 * (norm - 2.0 * float(np.sum(H * N)) + model)
        if loss > identity_limit(self.H.dtype) * norm:
            return loss
        x, v = self.data.by_column.data.astype(np.float64), self.V.astype(np.float64)
        return 0.5 * (float(np.sum((x - v) ** 2)) + max(model - float(v @ v), 0.0))

    def curvature(self, ask: Ask) -> Array:
        """Packed sum_i W_ik W_il c_1 x/v^2 over the non-zeros; the part of beta = 2 is shared."""
        assert ask.curvature is not None
        dtype, (k, l) = self.H.dtype, np.tril_indices(self.W.shape[1])
        pairs = self.W[:, k] * self.W[:, l]
        Q = np.zeros((k.size, self.data.shape[1]), dtype=dtype)
        for loss, c in zip(ask.omega, ask.curvature, strict=True):
            if loss.free_part == "sums":
                bend = np.minimum(loss.curvature(self.data.by_column.data, self.V), power_ceiling(dtype))
                Q += self._times(bend * dtype.type(c), pairs)
        return Q
