r"""A sparse tensor: for every mode the matrix whose columns it is, of rows that store something, the only ones formed.

So a step costs the non-zeros, whatever it asks for. Where zeros are data, the losses with free parts need of all other
rows sums that factorise over the modes,

.. math:: P_1 = \sum_i A_{ri} \prod_l \sum_j F^l_{rj}, \qquad P_2 = (AA' \circ F^1 F^{1\prime} \circ \dots) F,

and a loss counts them as these sums less those over the rows that are formed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.base import Ask, Data, Sweep
from drnmf.backends.host.sparse import SparseMatrix
from drnmf.backends.host.stored import StoredOnly, as_asked
from drnmf.backends.modes import Factors, Modes
from drnmf.backends.observed import Ones
from drnmf.backends.products import column_products
from drnmf.backends.tensor import Tensor, gram_product, plain_sweep
from drnmf.backends.weighted import Weighted
from drnmf.losses.base import need_nonzeros_only
from drnmf.numerics import Array, Indices


def modes_of(data: Data, columns: tuple[int, ...]) -> Modes:
    """Choose how the unfolding of a tensor is swept."""
    inner = data.data if isinstance(data, Weighted) and isinstance(data.observed, Ones) else data
    return SparseTensor(data, columns) if isinstance(inner, SparseMatrix) else Tensor(data, columns)


@dataclass(frozen=True, eq=False)
class Stored:
    """The stored entries as a matrix with one mode as its columns.

    Attributes
    ----------
    data : (rows that store something, size of the mode)
    indices : of these rows, in the other modes by their blocks; in several at once where these have fewer indices
        together than there are rows
    """

    data: Data
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
    def inner(self) -> Any:
        """The unfolding without the weights of stored entries, which are ones."""
        return self.data.data if isinstance(self.data, Weighted) else self.data

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

        def turned(values: Array) -> Any:
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
