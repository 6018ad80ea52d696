r"""A tensor as the loop sees it: an unfolding whose column factor is a product of factors, one for each other mode.

X (I, J, K, ...) unfolds to a matrix (I, JK...), and :math:`H = B \odot C \odot \dots` (column-wise products, the last
mode fastest). The model is linear in each factor while the others stand, so the parts of the matrix contract to those
of every mode, exactly:

.. math:: N_B[r, j] = \sum_k N_H[r, jk]\, C[r, k], \qquad Q_B[rs, j] = \sum_k Q_H[rs, jk]\, C[r, k]\, C[s, k]

and so does any loss, weight, gap or penalty of the matrix. Curvatures are contracted piece by piece of the columns and
never stored. Under beta = 2 alone one product A'X serves all modes of the columns, and the curvature they share is
the product of Gram matrices, :math:`A'A \circ C'C`.

Of a sparse tensor every mode has the matrix whose columns it is, of rows that store something, the only ones formed: a
step costs the non-zeros, whatever it asks for. Where zeros are data, the losses with free parts need of all other rows
sums that factorise over the modes,

.. math:: P_1 = \sum_i A_{ri} \prod_l \sum_j F^l_{rj}, \qquad P_2 = (AA' \circ F^1 F^{1\prime} \circ \dots) F,

and a loss counts them as these sums less those over the rows that are formed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.base import Ask, Data, Space, Sweep
from drnmf.backends.host.dense import DenseMatrix
from drnmf.backends.host.sparse import SparseMatrix
from drnmf.backends.host.stored import StoredOnly, as_asked
from drnmf.backends.modes import Factors, Modes
from drnmf.backends.observed import Ones
from drnmf.backends.products import column_products
from drnmf.backends.weighted import Weighted, shares_curvature
from drnmf.losses.base import need_nonzeros_only
from drnmf.numerics import Array, Indices, Vector, identity_limit

PIECE_NUMBERS = 1 << 20
"""Numbers of a curvature that are held at a time; a piece has at least one index of the first mode of the columns."""


def contract(parts: Array, factors: Sequence[Array], mode: int) -> Array:
    """Sum parts (..., p, JK...) over all modes but one, each under the rows (p, size) of its factor: (..., p, size)."""
    sizes, lead = [F.shape[1] for F in factors], parts.shape[:-1]
    for F in reversed(factors[mode + 1 :]):
        parts = (parts.reshape(*lead, -1, F.shape[1]) @ F[:, :, None])[..., 0]
    for F in factors[:mode]:
        parts = (F[:, None, :] @ parts.reshape(*lead, F.shape[1], -1))[..., 0, :]
    return parts.reshape(*lead, sizes[mode])


def gram_product(factors: Sequence[Array]) -> Vector:
    """Multiply the Gram matrices (r, r) of factors (r, n), entry by entry, in float64."""
    return np.prod([F.astype(np.float64) @ F.T.astype(np.float64) for F in factors], axis=0)


@dataclass(frozen=True, eq=False)
class Tensor(Modes):
    """X with a block for every mode: those of the columns first, then the rows, as H and W of a matrix.

    Attributes
    ----------
    data : the unfolding, on the host
    columns : sizes of the modes that make its columns, the last one fastest
    """

    columns: tuple[int, ...]
    _kept: dict[object, Any] = field(
        default_factory=dict, repr=False
    )  # the product A'X with its A, pieces by their width

    @cached_property
    def names(self) -> tuple[str, ...]:
        return (*(f"H{k}" for k in range(len(self.columns))), "W")

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return (*self.columns, self.data.shape[0])

    @cached_property
    def spaces(self) -> tuple[Space, ...]:
        return (*(self.data.space for _ in self.columns), self.data.T.space)

    @property
    def shares_curvature(self) -> bool:
        return self.data.observed is None and shares_curvature(self.data)

    def sweep(self, block: int, blocks: Factors, ask: Ask) -> Sweep:
        *factors, A = blocks
        ask = replace(ask, into=None, used=None)
        if block == len(factors) or ask.parts is None:  # losses are those of any block
            self._kept.pop("A", None)  # the rows may be overwritten now
            return self.data.T.sweep(column_products(factors).T, A, ask)
        if ask.shared_alone and self.shares_curvature:
            return self._least_squares(block, factors, A, ask)
        return self._contracted(block, factors, A, ask)

    def sum_others(self, block: int, function: Callable[[Array], Vector], blocks: Factors) -> Vector:
        """Go through the columns of the product of the others, one index of the first of them at a time."""
        first, *others = (F for k, F in enumerate(blocks) if k != block)
        return np.sum([function(column_products([first[:, [i]], *others])) for i in range(first.shape[1])], axis=0)

    def _contracted(self, block: int, factors: list[Array], A: Array, ask: Ask) -> Sweep:
        """Sweep the columns piece by piece, and contract what each piece says."""
        size, pairs = factors[block].shape[1], np.tril_indices(len(A))
        losses, sums = np.zeros(len(ask.omega)), dict[str, Array]()
        gram = None
        for piece, at in self._pieces(len(A) if ask.curvature is None else len(pairs[0])):
            some = [factors[0][:, at], *factors[1:]]
            found = plain_sweep(piece, A, column_products(some), ask)
            losses, gram = losses + found.losses, found.gram
            parts = {"N": found.N, "P": found.P} | ({} if found.Q is None else {"Q": found.Q})
            for name, part in parts.items():
                under = some if name != "Q" else [F[pairs[0]] * F[pairs[1]] for F in some]
                total = sums.setdefault(name, np.zeros((*part.shape[:-1], size), part.dtype))
                total[..., at if block == 0 else slice(None)] += contract(part, under, block)
        if gram is not None:
            gram = gram * gram_product([F for k, F in enumerate(factors) if k != block])
        return Sweep(losses, sums["N"], sums["P"], sums.get("Q"), gram)

    def _least_squares(self, block: int, factors: list[Array], A: Array, ask: Ask) -> Sweep:
        """Sweep under beta = 2 alone: A'X stays as it is while the modes of the columns move one after another."""
        if block == 0 or self._kept.get("A") is not A:
            product = np.ascontiguousarray(self.data.T.starts.dot(np.ascontiguousarray(A.T)).T)
            self._kept.update(A=A, product=product)
        N, F = contract(self._kept["product"], factors, block), factors[block].astype(np.float64)
        weight = 1.0 if ask.weights is None else float(ask.weights[0])
        gram = gram_product([A, *(G for k, G in enumerate(factors) if k != block)])
        losses = np.full(1, np.nan)
        if ask.losses:
            losses = np.array([0.5 * (self._norm - 2.0 * float(np.vdot(F, N)) + float(np.vdot(F, gram @ F)))])
            if losses[0] <= identity_limit(self.dtype) * self._norm:  # too many digits were lost
                losses = self.data.sweep(A.T, column_products(factors), Ask(ask.omega, None)).losses
        N = (weight * N).astype(self.dtype, copy=False)[None]
        return Sweep(losses, N, N[:0], None, float(ask.shared) * gram)

    @cached_property
    def _norm(self) -> float:
        """The sum of all squares."""
        return float(self.data.starts.squared_norms().sum())

    def _pieces(self, numbers: int) -> list[tuple[Data, slice]]:
        """Columns of X by indices of their first mode, so few that the numbers a sweep has for each stay little."""
        inner = int(np.prod(self.columns[1:]))
        width = max(1, PIECE_NUMBERS // (inner * numbers))
        if width >= self.columns[0]:
            return [(self.data, slice(0, self.columns[0]))]
        if width not in self._kept:
            ends = [slice(at, min(at + width, self.columns[0])) for at in range(0, self.columns[0], width)]
            self._kept[width] = [
                (columns_of_data(self.data, slice(at.start * inner, at.stop * inner)), at) for at in ends
            ]
        return self._kept[width]


def plain_sweep(data: Data, A: Array, H: Array, ask: Ask) -> Sweep:
    """Sweep X under its weights without the short cuts of separable ones, whose parts are those of a scaled problem."""
    return data.under_weights(A.T, H, ask) if isinstance(data, Weighted) else data.sweep(A.T, H, ask)


def columns_of_data(data: Data, at: Indices | slice) -> Any:
    """Return some columns of X on the host, a slice or indices, with their weights; no slice of a dense X is copied."""
    if isinstance(data, Weighted):
        return replace(data, data=columns_of_data(data.data, at), observed=data.observed.T.within(at).T)
    if isinstance(data, SparseMatrix):
        X, only = data.by_column[:, at], data.only
        if only is not None and only.by_column is not None:
            weights = sp.csc_array((only.by_column, data.by_column.indices, data.by_column.indptr), data.shape)[:, at]
            only = StoredOnly(weights.data, sp.csc_array(weights.T).data)
        norm = float(np.square(X.data, dtype=np.float64).sum())
        return replace(data, by_column=X, by_row=sp.csc_array(X.T), squared_norm=norm, only=only)
    assert isinstance(data, DenseMatrix)
    return type(data).of(data.X[:, at], data.mean / data.scale).scaled(data.scale)


def modes_of(data: Data, columns: tuple[int, ...]) -> Modes:
    """Choose how the unfolding of a tensor is swept."""
    inner = data.data if isinstance(data, Weighted) and isinstance(data.observed, Ones) else data
    return SparseTensor(data, columns) if isinstance(inner, SparseMatrix) else Tensor(data, columns)


@dataclass(frozen=True, eq=False)
class Stored:
    """The stored entries as a matrix with one mode as its columns."""

    data: Data  # (rows that store something, size of the mode)
    # of these rows, in the other modes by their blocks; in several at once where these have fewer indices together than
    # there are rows
    indices: dict[tuple[int, ...], Indices]

    def rows(self, blocks: Factors) -> Array:
        """Multiply the factors of all other modes at the rows, (r, rows)."""
        tables = (column_products([blocks[k] for k in group]) for group in self.indices)
        parts = (
            np.take(table, at, axis=1, mode="clip") for table, at in zip(tables, self.indices.values(), strict=True)
        )
        return reduce(lambda G, part: np.multiply(G, part, out=G), parts)


@dataclass(frozen=True, eq=False)
class SparseTensor(Tensor):
    """Entries that are not stored are not formed, wherever the losses allow it."""

    @cached_property
    def inner(self) -> SparseMatrix:
        """The unfolding without the weights of stored entries, which are ones."""
        inner: SparseMatrix = self.data.data if isinstance(self.data, Weighted) else self.data
        return inner

    def sweep(self, block: int, blocks: Factors, ask: Ask) -> Sweep:
        if self.inner.only is None and not need_nonzeros_only(ask.omega):
            return super().sweep(block, blocks, ask)
        stored = self.stored(block)
        G = stored.rows(blocks)
        found = plain_sweep(stored.data, G, blocks[block], replace(ask, into=None, used=None))
        return found if self.inner.only is not None else self._with_zeros(block, blocks, G, found, ask)

    def stored(self, block: int) -> Stored:
        """Return the matrix whose columns are the mode of a block; made once."""
        if ("stored", block) not in self._kept:
            self._kept["stored", block] = self._stored(block)
        found: Stored = self._kept["stored", block]
        return found

    def _stored(self, block: int) -> Stored:
        X, only = self.inner.by_column, self.inner.only
        column = np.repeat(np.arange(X.shape[1]), np.diff(X.indptr))
        places = (*np.unravel_index(column, self.columns), X.indices)
        others = [k for k in range(len(places)) if k != block]
        sizes = [self.sizes[k] for k in others]
        rows, row = np.unique(np.ravel_multi_index([places[k] for k in others], sizes), return_inverse=True)
        shape = len(rows), self.sizes[block]

        def turned(values: Array) -> sp.csc_array:
            return sp.csc_array(sp.csr_array((values, (row, places[block])), shape))  # rows of each column in order

        matrix = turned(X.data)
        if only is not None and only.by_column is not None:
            only = StoredOnly(turned(only.by_column).data, None)
        # nobody asks for the transpose: a view of the same memory stands for it
        data = replace(self.inner, by_column=matrix, by_row=matrix.T, only=only)
        return Stored(data, _together(dict(zip(others, np.unravel_index(rows, sizes), strict=True)), self.sizes))

    def _with_zeros(self, block: int, blocks: Factors, G: Array, found: Sweep, ask: Ask) -> Sweep:
        """Add what the rows that store nothing count."""
        F, kinds = blocks[block], [loss.free_part for loss in ask.omega]
        own, others = F.astype(np.float64), [B.astype(np.float64) for k, B in enumerate(blocks) if k != block]
        sums, grams = np.prod([B.sum(axis=1) for B in others], axis=0), gram_product(others)
        P = [np.broadcast_to(sums[:, None], F.shape) if kind == "sums" else grams @ own for kind in kinds]
        losses = found.losses
        if ask.losses:
            formed = [_model_sum(kind, own, G) for kind in kinds]
            rest = [max(float(np.sum(own * part)) - inside, 0.0) for part, inside in zip(P, formed, strict=True)]
            losses = losses + np.array([1.0 if kind == "sums" else 0.5 for kind in kinds]) * rest
        gram = None if ask.shared is None else float(ask.shared) * grams
        if ask.shared_alone:
            return Sweep(losses, found.N, found.N[:0], None, gram)
        return Sweep(losses, found.N, as_asked(np.stack(P), ask, F.dtype), found.Q, gram)


def _together(indices: dict[int, Indices], sizes: Sequence[int]) -> dict[tuple[int, ...], Indices]:
    """Put modes together while their indices are fewer than the rows: one look-up for all of them."""
    groups: list[tuple[int, ...]] = []
    for block, index in indices.items():
        last = (*groups[-1], block) if groups else (block,)
        fits = bool(groups) and 2 * math.prod(sizes[k] for k in last) <= len(index)
        groups = [*groups[:-1], last] if fits else [*groups, (block,)]
    return {g: np.ravel_multi_index([indices[k] for k in g], [sizes[k] for k in g]) for g in groups}


def _model_sum(kind: str | None, F: Array, G: Array) -> float:
    """Add up G'F, or its squares, over the rows that are formed, from sums or from Gram matrices."""
    if kind == "sums":
        return float(F.sum(axis=1) @ G.sum(axis=1, dtype=np.float64))
    return float(np.sum(gram_product([F, G.astype(np.float64)])))
