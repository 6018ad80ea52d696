r"""Weights on sparse X at the cost of its stored entries, O(nnz r).

Where the stored entries alone are observed, N, P, losses and curvature are sums over them, under any loss. Where zeros
are data and M = u v' times a mask by classes, the losses with free parts need, beside sums over the stored entries,

.. math:: P_1 = \sum_{i \in K(j)} u_i w_i \, v_j, \qquad P_2 = \Big(\sum_{i \in K(j)} u_i w_i w_i'\Big) h_j v_j

with K(j) the rows that are observed in column j: as many sums and Gram matrices as there are classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.base import Ask, Sweep, zero_of
from drnmf.backends.observed import Pieces, Stored
from drnmf.backends.tiles import shared_curvature
from drnmf.backends.weighted import Tally
from drnmf.losses.base import Loss
from drnmf.numerics import Array, Indices, Maybe, Precision, Vector, model_floor, power_ceiling


@dataclass(frozen=True, eq=False)
class StoredOnly:
    """Weights of the stored entries of X, in the order of `by_column` and of `by_row`; None stands for ones."""

    by_column: sp.csc_array = None
    by_row: sp.csr_array = None


def stored_values(X: sp.sparray, observed: Stored) -> sp.sparray:
    """Return X at the entries that the weights store, CSC, zeros where X stores none."""
    pattern = observed.by_column
    keys = [_columns(Y).astype(np.int64) * X.shape[0] + Y.indices for Y in (X, pattern)]  # both canonical, so in order
    values = np.zeros(pattern.nnz, X.dtype)
    if X.nnz:
        at = np.minimum(np.searchsorted(keys[0], keys[1]), X.nnz - 1)
        values = np.where(keys[0][at] == keys[1], X.data[at], values)
    return sp.csc_array((values, pattern.indices, pattern.indptr), pattern.shape)


def kept_weights(X: sp.sparray, observed: Stored, known: Array | None) -> Array | None:
    """Return the weights of the entries of `stored_values`, times those known for X; None where all are one."""
    weights = observed.by_column.data.astype(X.dtype, copy=False)
    if known is not None:
        weights = weights * stored_values(sp.csc_array((known, X.indices, X.indptr), X.shape), observed).data
    return None if bool((weights == 1).all()) else weights


def _columns(X: sp.sparray) -> Indices:
    return np.repeat(np.arange(X.shape[1]), np.diff(X.indptr))


def weights_at(data: Any, parts: Pieces) -> Any:
    """Compute the weights of the stored entries of X, in the order of its columns; None where all are one."""
    X, weights = data.by_column, None if data.only is None else data.only.by_column
    rows, columns = X.indices, _columns(X)
    found = [
        None if parts.values is None else np.asarray(parts.values)[rows, columns],
        None if parts.rows is None else parts.rows[rows],
        None if parts.columns is None else parts.columns[columns],
        None if parts.mask is None else parts.mask.at(rows, columns),
    ]
    for factor in found:
        if factor is not None:
            weights = factor.astype(X.dtype) if weights is None else weights * factor.astype(X.dtype)
    return weights


def tally_stored(data: Any, parts: Pieces) -> Tally:
    """Count and add up the stored entries that are observed."""
    x, weights = data.by_column.data.astype(np.float64), weights_at(data, parts)
    M = np.ones_like(x) if weights is None else weights.astype(np.float64)
    seen = M > 0
    zeros, count = int(np.count_nonzero(seen & (x == 0))), int(np.count_nonzero(seen))
    return Tally(float(M @ x), float(M @ (x * x)), float(M.sum()), zeros, count)


@dataclass(frozen=True, eq=False)
class FilledSparse:
    """X with its gaps filled as a sparse matrix plus a b'."""

    X: sp.sparray
    a: Vector
    b: Vector

    def column(self, j: int) -> Vector:
        return np.asarray(self.X[:, [j]].toarray()[:, 0] + self.a * self.b[j])

    def dot(self, B: Array) -> Array:
        return np.asarray(self.X @ B + np.multiply.outer(self.a, self.b @ B), dtype=B.dtype)

    def squared_norms(self) -> Vector:
        squares = sp.csc_array((np.square(self.X.data), self.X.indices, self.X.indptr), self.X.shape).sum(axis=0)
        cross = self.X.T @ self.a
        return np.asarray(squares + 2.0 * self.b * cross + self.b**2 * float(self.a @ self.a))


def filled_sparse(data: Any, parts: Pieces) -> FilledSparse:
    """Fill the gaps of sparse X for starts.

    Where zeros are data, what is held out counts as one of them. Where stored entries alone are observed, the others
    hold their row's mean times their column's over X's.
    """
    X, weights = data.by_column, weights_at(data, parts)
    seen = np.ones(X.nnz, bool) if weights is None else weights > 0
    x = np.where(seen, X.data.astype(np.float64), 0.0)
    a, b = np.zeros(X.shape[0]), np.zeros(X.shape[1])
    if data.only is not None:
        columns, mean = _columns(X), x.sum() / max(1, int(seen.sum()))
        a, b = (_means(at, x, seen, size, mean) for at, size in zip((X.indices, columns), X.shape, strict=True))
        b = b / (mean if mean > 0 else 1.0)
        x = np.where(seen, x - a[X.indices] * b[columns], 0.0)
    return FilledSparse(sp.csc_array((x, X.indices, X.indptr), X.shape), a, b)


def _means(at: Indices, x: Vector, seen: Array, size: int, mean: float) -> Vector:
    """Means of the observed entries of every row or column, that of X where it has none."""
    sums, counts = np.bincount(at, x, size), np.bincount(at, seen, size)
    return np.where(counts > 0, sums / np.maximum(counts, 1), mean)


@dataclass(frozen=True)
class StoredSweep:
    """A sweep over the stored entries of X, with weights M (nnz,) or none: the reference of the compiled one."""

    data: Any
    W: Array
    H: Array
    M: Maybe

    def sweep(self, ask: Ask) -> Sweep:
        H, dtype, V = self.H, self.H.dtype, self._model()
        x, zero = self.data.by_column.data, zero_of(self.data, ask.omega)
        x = np.where(x == 0, x.dtype.type(zero), x) if zero else x  # zeros among them as the losses need them
        losses = np.array([self._total(loss, x, V) if ask.losses else np.nan for loss in ask.omega])
        N, P = (np.zeros((ask.slots, *H.shape), dtype=dtype) for _ in range(2))
        for b, loss in enumerate(ask.omega if ask.parts is not None else ()):
            weight = dtype.type(1.0 if ask.weights is None else ask.weights[b])
            slot = b if ask.weights is None else 0
            for part, terms in zip((N, P), loss.parts(x, V, power_ceiling(dtype)), strict=True):
                part[slot] += weight * self._times(terms, self.W)
        return Sweep(losses, N, P, None if ask.curvature is None else self._curvature(x, V, ask))

    def _model(self) -> Array:
        """WH at the stored entries, in the order of columns, a bounded chunk at a time."""
        X, H, W = self.data.by_column, np.ascontiguousarray(self.H.T), np.ascontiguousarray(self.W)
        columns, V = _columns(X), np.empty(X.nnz, dtype=H.dtype)
        chunk = max(1, self.data.tile_entries // H.shape[1])
        for start in range(0, V.size, chunk):
            s = slice(start, start + chunk)
            V[s] = np.einsum("ik,ik->i", W[X.indices[s]], H[columns[s]])
        return np.maximum(V, H.dtype.type(model_floor(H.dtype)))

    def _times(self, terms: Array, W: Array) -> Array:
        """W' applied to weighted terms in the place of the entries, (columns of W, n)."""
        X, values = self.data.by_column, terms if self.M is None else self.M * terms
        return np.asarray((sp.csc_array((values, X.indices, X.indptr), X.shape).T @ W).T)

    def _total(self, loss: Loss, x: Array, V: Array) -> float:
        terms = loss.terms(x, V)
        return float(terms.sum() if self.M is None else (self.M * terms)[self.M > 0].sum())

    def _curvature(self, x: Array, V: Array, ask: Ask) -> Array:
        assert ask.curvature is not None
        bend: Any = sum(
            V.dtype.type(c) * np.minimum(loss.curvature(x, V), power_ceiling(V.dtype))
            for loss, c in zip(ask.omega, ask.curvature, strict=True)
        )
        # one row of pairs after another: all at once would be as large as (r + 1) / 2 times W
        rows = (self._times(bend, self.W[:, [k]] * self.W[:, : k + 1]) for k in range(self.W.shape[1]))
        return np.concatenate(list(rows))


def sweep_with_zeros(data: Any, W: Array, H: Array, ask: Ask, parts: Pieces) -> Sweep:
    """Sweep X whose zeros are data, under weights of rows and columns and a mask by classes, losses with free parts.

    Without any weights the curvature of beta = 2 is shared, as in every sweep.
    """
    found = data.sweep_stored(W, H, replace(ask, parts="separate", curvature=None), parts)
    sums = _Classes(parts, W.T.astype(np.float64), H.shape[1])
    P = np.stack([sums.positive(loss, H) for loss in ask.omega])
    losses = found.losses
    if ask.losses:
        # the stored entries count as swept; what is not stored costs v under beta = 1 and v^2 / 2 under beta = 2
        rest = [np.vdot(H, np.subtract(whole, part, dtype=np.float64)) for whole, part in zip(P, found.P, strict=True)]
        half = [1.0 if loss.free_part == "sums" else 0.5 for loss in ask.omega]
        losses = losses + np.array([c * max(float(v), 0.0) for c, v in zip(half, rest, strict=True)])
    Q = None if ask.curvature is None or ask.shared_alone else _curvature(data, W, H, ask, parts, sums)
    N, positive = (as_asked(part, ask, H.dtype) for part in (found.N, P))
    return Sweep(losses, N, positive[:0] if ask.shared_alone else positive, Q, shared_curvature(W, ask))


def as_asked(parts: Array, ask: Ask, dtype: Precision) -> Array:
    """Return the parts as they are asked for, from those of every loss (p, r, n)."""
    if ask.parts is None:
        return parts[:0].astype(dtype)
    return (parts if ask.weights is None else np.tensordot(ask.weights[None], parts, 1)).astype(dtype)


def _curvature(data: Any, W: Array, H: Array, ask: Ask, parts: Pieces, sums: _Classes) -> Array:
    """The curvature: that of beta = 1 at the non-zeros, and the Gram matrix of each column's class for beta = 2."""
    assert ask.curvature is not None
    bends = [0.0 if loss.free_part == "gram" else float(c) for loss, c in zip(ask.omega, ask.curvature, strict=True)]
    alone = replace(ask, parts=None, losses=False, curvature=np.array(bends))
    Q: Array = data.sweep_stored(W, H, alone, parts).Q
    for loss, c in zip(ask.omega, ask.curvature, strict=True):
        if loss.free_part == "gram" and ask.shared is None:
            Q = Q + (c * sums.packed()).astype(Q.dtype)
    return Q


@dataclass(frozen=True, eq=False)
class _Classes:
    """Sums over the rows of W that are observed in the columns of each class.

    parts : the weights
    A : W' (r, m) float64
    n : columns of X
    """

    parts: Pieces
    A: Vector
    n: int

    @cached_property
    def columns(self) -> Any:
        """The weights of the columns, (n,), or one."""
        return 1.0 if self.parts.columns is None else np.asarray(self.parts.columns, np.float64)

    @cached_property
    def rows(self) -> Vector:
        """W' diag(u), (r, m)."""
        return self.A if self.parts.rows is None else self.A * np.asarray(self.parts.rows, np.float64)

    def over_columns(self, single: Vector) -> Vector:
        """Sums over the rows observed in each class of columns, from those over each class of rows."""
        mask = self.parts.mask
        assert mask is not None
        k = np.arange(mask.classes)
        left_out = (k[:, None] + k[None, :]) % mask.classes == 0
        # added up rather than taken away from the sum of all: what nobody observes is zero, not rounding
        return np.tensordot((left_out if mask.inverted else ~left_out).astype(np.float64), single, 1)

    @cached_property
    def sums(self) -> Vector:
        """W'u, (classes, r)."""
        mask = self.parts.mask
        if mask is None:
            return self.rows.sum(1)[None]
        return self.over_columns(np.stack([np.bincount(mask.rows, row, mask.classes) for row in self.rows], axis=1))

    @cached_property
    def grams(self) -> Vector:
        """W' diag(u) W, (classes, r, r)."""
        mask = self.parts.mask
        if mask is None:
            return (self.rows @ self.A.T)[None]
        order, ends = mask.row_order
        left, right = self.rows[:, order], self.A[:, order]
        return self.over_columns(np.stack([left[:, a:b] @ right[:, a:b].T for a, b in pairwise(ends)]))

    def positive(self, loss: Loss, H: Array) -> Vector:
        """P of a loss with a free part, (r, n) float64."""
        mask = self.parts.mask
        if loss.free_part == "sums":
            sums = self.sums.T if mask is None else np.take(self.sums.T, mask.columns, axis=1)
            return np.broadcast_to(sums * self.columns, H.shape)
        if mask is None:
            return np.asarray((self.grams[0] @ H) * self.columns)
        (order, ends), P = mask.T.row_order, np.empty(H.shape)
        some = H[:, order].astype(np.float64)
        P[:, order] = np.concatenate(
            [gram @ some[:, a:b] for gram, (a, b) in zip(self.grams, pairwise(ends), strict=True)], axis=1
        )
        return P * self.columns

    def packed(self) -> Vector:
        """The curvature of beta = 2 in every column, (r (r + 1) / 2, n)."""
        k, l = np.tril_indices(len(self.A))
        mask, grams = self.parts.mask, self.grams[:, k, l].T
        return np.asarray((np.repeat(grams, self.n, 1) if mask is None else grams[:, mask.columns]) * self.columns)
