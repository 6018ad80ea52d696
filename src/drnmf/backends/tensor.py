r"""A tensor as the loop sees it: an unfolding whose column factor is a product of factors, one for each other mode.

X (I, J, K, ...) unfolds to a matrix (I, JK...), and :math:`H = B \odot C \odot \dots` (column-wise products, the last
mode fastest). The model is linear in each factor while the others stand, so the parts of the matrix contract to those
of every mode, exactly:

.. math:: N_B[r, j] = \sum_k N_H[r, jk]\, C[r, k], \qquad Q_B[rs, j] = \sum_k Q_H[rs, jk]\, C[r, k]\, C[s, k]

and so does any loss, weight, gap or penalty of the matrix. Curvatures are contracted piece by piece of the columns and
never stored. Under beta = 2 alone one product A'X serves all modes of the columns, and the curvature they share is
the product of Gram matrices, :math:`A'A \circ C'C`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.base import Ask, Data, Observed, OfData, Space, Sweep
from drnmf.backends.host.dense import DenseMatrix
from drnmf.backends.host.sparse import SparseMatrix
from drnmf.backends.host.stored import StoredOnly
from drnmf.backends.modes import Factors
from drnmf.backends.products import column_products
from drnmf.backends.weighted import Weighted, shares_curvature
from drnmf.numerics import Array, Vector, identity_limit

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
class Tensor(OfData):
    """X with a block for every mode: those of the columns first, then the rows, as H and W of a matrix.

    Attributes
    ----------
    data : the unfolding, on the host
    columns : sizes of the modes that make its columns, the last one fastest
    """

    columns: tuple[int, ...]
    _kept: dict[Any, Any] = field(default_factory=dict, repr=False)  # the product A'X with its A, pieces by their width

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

    @property
    def reuses(self) -> bool:
        return False

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


@dataclass(frozen=True, eq=False)
class _Piece:
    """Some columns of X and the weights of their entries."""

    data: Data
    observed: Observed


def plain_sweep(data: Data | _Piece, A: Array, H: Array, ask: Ask) -> Sweep:
    """Sweep X under its weights without the short cuts of separable ones, whose parts are those of a scaled problem."""
    if isinstance(data, Weighted | _Piece):
        return data.data.sweep(A.T, H, replace(ask, observed=data.observed))
    return data.sweep(A.T, H, ask)


def columns_of_data(data: Any, at: Any) -> Any:
    """Return some columns of X on the host, a slice or indices, with their weights; no slice of a dense X is copied."""
    if isinstance(data, Weighted):
        return _Piece(columns_of_data(data.data, at), data.observed.T.within(at).T)
    if isinstance(data, SparseMatrix):
        X, only = data.by_column[:, at], data.only
        if only is not None and only.by_column is not None:
            weights = sp.csc_array((only.by_column, data.by_column.indices, data.by_column.indptr), data.shape)[:, at]
            only = StoredOnly(weights.data, sp.csc_array(weights.T).data)
        norm = float(np.square(X.data, dtype=np.float64).sum())
        return replace(data, by_column=X, by_row=sp.csc_array(X.T), squared_norm=norm, only=only)
    assert isinstance(data, DenseMatrix)
    return type(data).of(data.X[:, at], data.mean / data.scale).scaled(data.scale)
