"""The oracle: plain NumPy and SciPy. Every faster Data is tested against it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.base import Sweep
from drnmf.backends.host.dense import DenseMatrix
from drnmf.backends.host.sparse import SparseColumns
from drnmf.losses.beta import beta_divergence_terms, divergence_curvature
from drnmf.numerics import Array, Vector, identity_limit, model_floor, power_ceiling, zero_floor

_TILE = 1 << 18  # entries of V held at a time


def _power_parts(X: Array, V: Array, beta: float, ceiling: float) -> tuple[Array, Array]:
    """Elementwise V^(b-2) X and V^(b-1), kept below the ceiling."""
    if beta == 2.0:
        return X, V
    with np.errstate(over="ignore"):
        if beta == 1.0:
            return np.minimum(X / V, ceiling), np.ones_like(V)
        if beta == 0.0:
            return np.minimum(X / V / V, ceiling), np.minimum(1.0 / V, ceiling)
        power = V ** V.dtype.type(beta - 2.0)
        return np.minimum(power * X, ceiling), np.minimum(power * V, ceiling)


def _curvature(X: Array, W: Array, V: Array, betas: tuple[float, ...], coefficients: Vector) -> Array:
    """Packed sum_i W_ik W_il sum_b c_b d''_b(X_ij, V_ij), without beta = 2."""
    total = np.zeros_like(V)
    for beta, c in zip(betas, coefficients, strict=True):
        if beta != 2.0:
            total += V.dtype.type(c) * np.minimum(divergence_curvature(X, V, beta), power_ceiling(V.dtype))
    k, l = np.tril_indices(W.shape[1])
    return (W[:, k] * W[:, l]).T @ total


def _with_gram(sweep: Sweep, W: Array, betas: tuple[float, ...], coefficients: Vector) -> Sweep:
    """The sweep with c_2 W'W, which takes the place of Q and P where beta = 2 is alone."""
    if 2.0 not in betas:
        return sweep
    W64 = W.astype(np.float64)
    shared = replace(sweep, gram=coefficients[betas.index(2.0)] * (W64.T @ W64))
    return replace(shared, Q=None, P=sweep.P[:0]) if betas == (2.0,) else shared


def _tile_sweep(
    X: Array, W: Array, H: Array, betas: tuple[float, ...], mix: Vector, losses: bool, curvature: Vector | None
) -> tuple[Vector, Array, Array, Array | None]:
    """The formulas of section 3 on one dense tile X = X(:, J), H = H(:, J)."""
    q, r, n = mix.shape[0], H.shape[0], H.shape[1]
    N, P = np.zeros((q, r, n), dtype=H.dtype), np.zeros((q, r, n), dtype=H.dtype)
    totals = np.full(len(betas), np.nan)
    V = np.maximum(W @ H, H.dtype.type(model_floor(H.dtype)))
    with np.errstate(over="ignore", invalid="ignore"):  # of a step too far: its losses tell, and it is taken back
        for b, beta in enumerate(betas):
            if losses:
                totals[b] = beta_divergence_terms(X, V, beta).sum()
            if q:
                negative, positive = _power_parts(X, V, beta, power_ceiling(H.dtype))
                N_beta, P_beta = W.T @ negative, W.T @ positive
                N += mix[:, b, None, None].astype(H.dtype) * N_beta
                P += mix[:, b, None, None].astype(H.dtype) * P_beta
        return totals, N, P, None if curvature is None else _curvature(X, W, V, betas, curvature)


def _sweep_tiles(
    data: Any, W: Array, H: Array, betas: tuple[float, ...], mix: Vector, losses: bool, curvature: Vector | None
) -> Sweep:
    """All tiles of X, left to right. Columns of N and P belong to one tile; losses add up in fixed order."""
    m, n = data.shape
    width = max(1, _TILE // m)
    N = np.empty((mix.shape[0], H.shape[0], n), dtype=H.dtype)
    P = np.empty_like(N)
    Q = None if curvature is None else np.empty((H.shape[0] * (H.shape[0] + 1) // 2, n), dtype=H.dtype)
    totals = np.zeros(len(betas))
    zero = H.dtype.type(zero_floor(data.mean)) if 0.0 in betas and data.zeros else None
    for start in range(0, n, width):
        J = slice(start, min(start + width, n))
        X = data.tile(J)
        if zero is not None:
            X = np.where(X == 0, zero, X)
        tile = _tile_sweep(X, W, H[:, J], betas, mix, losses, curvature)
        N[:, :, J], P[:, :, J] = tile[1:3]
        if Q is not None:
            Q[:, J] = tile[3]
        totals += tile[0]
    sweep = Sweep(totals, N, P, Q)
    return sweep if curvature is None else _with_gram(sweep, W, betas, curvature)


@dataclass(frozen=True)
class ReferenceDense(DenseMatrix):
    """Dense X in either order under NumPy."""

    @classmethod
    def of(cls, X: Array, mean: float | None = None) -> ReferenceDense:
        own = float(X.mean(dtype=np.float64)) if mean is None else mean
        return cls(X, own, int(X.size - np.count_nonzero(X)))

    def tile(self, J: slice) -> Array:
        return self.X[:, J]

    def sweep(
        self, W: Array, H: Array, betas: tuple[float, ...], mix: Vector, losses: bool = True,
        curvature: Vector | None = None,
    ) -> Sweep:  # fmt: skip
        return _sweep_tiles(self, W, H, betas, mix, losses, curvature)


@dataclass(frozen=True)
class ReferenceSparse(SparseColumns):
    """Sparse X as CSC and its transpose as CSC, both built once; Omega within {1, 2} never densifies."""

    def tile(self, J: slice) -> Array:
        return self.by_column[:, J].toarray()

    def sweep(
        self, W: Array, H: Array, betas: tuple[float, ...], mix: Vector, losses: bool = True,
        curvature: Vector | None = None,
    ) -> Sweep:  # fmt: skip
        if not set(betas) <= {1.0, 2.0}:
            return _sweep_tiles(self, W, H, betas, mix, losses, curvature)
        sweep = self._sweep_nonzeros(W, H, betas, mix, losses)
        if curvature is None:
            return sweep
        Q = self._curvature(W, H, curvature[betas.index(1.0)]) if 1.0 in betas else None
        return _with_gram(replace(sweep, Q=Q), W, betas, curvature)

    def _curvature(self, W: Array, H: Array, c: float) -> Array:
        """Packed sum_i W_ik W_il c_1 x/v^2: only non-zeros count for beta = 1."""
        X, V = self.by_column, self._model_at_nonzeros(W, H)
        k, l = np.tril_indices(W.shape[1])
        bend = H.dtype.type(c) * np.minimum(divergence_curvature(X.data, V, 1.0), power_ceiling(H.dtype))
        return np.asarray((sp.csc_array((bend, X.indices, X.indptr), X.shape).T @ (W[:, k] * W[:, l])).T)

    def _model_at_nonzeros(self, W: Array, H: Array) -> Array:
        """V = WH at the non-zeros of X, in CSC order, a bounded chunk at a time."""
        rows, ends = self.by_column.indices, self.by_column.indptr
        columns = np.repeat(np.arange(self.shape[1]), np.diff(ends))
        V = np.empty(rows.shape[0], dtype=H.dtype)
        items, chunk = np.ascontiguousarray(H.T), max(1, _TILE // H.shape[0])
        W = np.ascontiguousarray(W)
        for start in range(0, V.shape[0], chunk):
            s = slice(start, start + chunk)
            V[s] = np.einsum("ik,ik->i", W[rows[s]], items[columns[s]])
        return np.maximum(V, H.dtype.type(model_floor(H.dtype)))

    def _sweep_nonzeros(self, W: Array, H: Array, betas: tuple[float, ...], mix: Vector, losses: bool) -> Sweep:
        """Section 2 of the mathematics: N_1 = W'(X/V) at non-zeros, P_1 = column sums, N_2 = W'X, P_2 = (W'W)H."""
        X, x = self.by_column, self.by_column.data
        V = self._model_at_nonzeros(W, H) if 1.0 in betas or losses else None
        gram = (W.T.astype(np.float64) @ W.astype(np.float64)) if 2.0 in betas else None
        N = np.zeros((mix.shape[0], *H.shape), dtype=H.dtype)
        P = np.zeros_like(N)
        totals = np.full(len(betas), np.nan)
        for b, beta in enumerate(betas):
            if beta == 1.0:
                assert V is not None
                ratio = sp.csc_array((np.minimum(x / V, power_ceiling(H.dtype)), X.indices, X.indptr), X.shape)
                N_beta = np.asarray((ratio.T @ W).T)
                P_beta = W.sum(axis=0, dtype=np.float64).astype(H.dtype)[:, None]
                if losses:
                    totals[b] = self._kl(W, H, V)
            else:
                assert gram is not None
                N_beta = np.asarray((X.T @ W).T)
                P_beta = (gram.astype(H.dtype) @ H).astype(H.dtype)
                if losses:
                    assert V is not None
                    totals[b] = self._frobenius(H, V, N_beta, gram)
            if len(mix):
                N += mix[:, b, None, None].astype(H.dtype) * N_beta
                P += mix[:, b, None, None].astype(H.dtype) * P_beta
        return Sweep(totals, N, P)

    def _kl(self, W: Array, H: Array, V: Array) -> float:
        """Sum over non-zeros of x log(x/v) - x, plus (1'W)(H1)."""
        x, v = self.by_column.data.astype(np.float64), V.astype(np.float64)
        total = W.sum(axis=0, dtype=np.float64) @ H.sum(axis=1, dtype=np.float64)
        return max(float((x * np.log(x / v) - x).sum() + total), 0.0)

    def _frobenius(self, H: Array, V: Array, N: Array, gram: Vector) -> float:
        """1/2 (||X||^2 - 2 <H, N> + <W'W, HH'>), or by entries where that has lost its digits."""
        H64 = H.astype(np.float64)
        model = float(np.sum(gram * (H64 @ H64.T)))
        loss = 0.5 * (self.squared_norm - 2.0 * float(np.sum(H64 * N)) + model)
        if loss > identity_limit(H.dtype) * self.squared_norm:
            return loss
        x, v = self.by_column.data.astype(np.float64), V.astype(np.float64)
        off_support = max(model - float(v @ v), 0.0)
        return 0.5 * (float(np.sum((x - v) ** 2)) + off_support)
