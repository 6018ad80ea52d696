"""The compiled core behind the seam: one fused pass over X, dense or sparse, on all threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drnmf import _core
from drnmf.backends.base import Sweep
from drnmf.backends.host import pool
from drnmf.backends.host.dense import DenseMatrix
from drnmf.backends.host.sparse import SparseColumns
from drnmf.numerics import Array, Vector, identity_limit, model_floor, power_ceiling, zero_floor

pool.register()

_Outputs = tuple[Array, Array, Array, Vector]  # N, P, Q and the shared curvature


def _plan(mix: Vector) -> tuple[bool, list[float]]:
    """What the core can do in one pass: (parts wanted?, weights); no weights means every part on its own."""
    q, p = mix.shape
    if q == 1 and p > 1:
        return True, [float(weight) for weight in mix[0]]
    return q > 0, []


def _combine(mix: Vector, parts: Array) -> Array:
    """Rows of `mix` applied to separate parts, where the mix is neither the identity nor one row."""
    if mix.shape[0] == mix.shape[1] and np.array_equal(mix, np.eye(len(mix))):
        return parts
    with np.errstate(over="ignore"):  # a step too far: its losses are not finite, and it is taken back
        return np.tensordot(mix.astype(parts.dtype), parts, axes=1)


def _sweep(
    data: Any, W: Array, H: Array, betas: tuple[float, ...], mix: Vector, losses: bool, curvature: Vector | None
) -> Sweep:
    """Arguments made ready, outputs allocated, one pass of the core, the mix applied where it was not inside."""
    (m, n), r, dtype = data.shape, H.shape[0], data.dtype
    if W.shape != (m, r) or H.shape != (r, n):
        raise ValueError(f"W {W.shape} and H {H.shape} do not fit X {data.shape}.")
    if mix.ndim != 2 or mix.shape[1] != len(betas):
        raise ValueError(f"mix has shape {mix.shape}: it needs one column for each of {len(betas)} betas.")
    parts, weights = _plan(mix)
    slots = 0 if not parts else 1 if weights else len(betas)
    curved, alone, side = curvature is not None, betas == (2.0,), r if curvature is not None and 2.0 in betas else 0
    N, P = np.empty((slots, r, n), dtype), np.empty((0 if curved and alone else slots, r, n), dtype)
    Q = np.empty((r * (r + 1) // 2 if curved and not alone else 0, n), dtype)
    gram = np.empty((side, side))
    totals = np.full(len(betas), np.nan)
    ask = _core.Ask(
        betas=[float(beta) for beta in betas],
        weights=weights,
        parts=parts,
        losses=losses,
        zero=zero_floor(data.mean) if 0.0 in betas and data.zeros else 0.0,
        floor=model_floor(dtype),
        ceiling=power_ceiling(dtype),
        squared_norm=data.squared_norm,
        identity_limit=identity_limit(dtype),
        curvature=[] if curvature is None else [float(c) for c in curvature],
    )
    if parts or losses or curved:
        data.run(np.ascontiguousarray(W.T, dtype), np.ascontiguousarray(H, dtype), ask, (N, P, Q, gram), totals)
    if parts and not weights:
        N, P = _combine(mix, N), _combine(mix, P) if len(P) else P
    return Sweep(totals, N, P, Q if curved and not alone else None, gram if side else None)


@dataclass(frozen=True)
class NativeDense(DenseMatrix):
    """Dense X in any order under the compiled core."""

    squared_norm: float
    memory: _core.Workspace = field(default_factory=_core.Workspace, compare=False, repr=False)

    @classmethod
    def of(cls, X: Array, mean: float | None = None) -> NativeDense:
        if 1 in X.shape or X.itemsize in X.strides:
            total, squared_norm, zeros = _core.moments(X)
        else:
            total, zeros = float(X.sum(dtype=np.float64)), int(X.size - np.count_nonzero(X))
            squared_norm = sum(float(np.square(row, dtype=np.float64).sum()) for row in X)
        return cls(X, total / X.size if mean is None else mean, int(zeros), squared_norm)

    def sweep(
        self, W: Array, H: Array, betas: tuple[float, ...], mix: Vector, losses: bool = True,
        curvature: Vector | None = None,
    ) -> Sweep:  # fmt: skip
        return _sweep(self, W, H, betas, mix, losses, curvature)

    def run(self, left: Array, right: Array, ask: _core.Ask, outputs: _Outputs, totals: Vector) -> None:
        _core.sweep_dense(self.X, left, right, ask, *outputs, totals, self.memory)


@dataclass(frozen=True)
class NativeSparse(SparseColumns):
    """Sparse X by columns and by rows, both built once.

    Omega within {1, 2} costs O(nnz r); any other beta runs over dense tiles filled inside the core.
    """

    memory: _core.Workspace = field(default_factory=_core.Workspace, compare=False, repr=False)

    def sweep(
        self, W: Array, H: Array, betas: tuple[float, ...], mix: Vector, losses: bool = True,
        curvature: Vector | None = None,
    ) -> Sweep:  # fmt: skip
        return _sweep(self, W, H, betas, mix, losses, curvature)

    def run(self, left: Array, right: Array, ask: _core.Ask, outputs: _Outputs, totals: Vector) -> None:
        X = self.by_column
        _core.sweep_sparse(X.data, X.indptr, X.indices, *self.shape, left, right, ask, *outputs, totals, self.memory)
