r"""A sparse tensor: only columns of the unfolding that store something are formed, so that a step costs the non-zeros.

Where zeros are data, the losses with free parts need of all other columns sums that factorise over the modes,

.. math:: P_1 = \sum_i A_{ri} \prod_l \sum_j F^l_{rj}, \qquad P_2 = (AA' \circ F^1 F^{1\prime} \circ \dots) F,

and a loss counts them as these sums less those over the columns that are formed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.base import Ask, Data, Sweep
from drnmf.backends.host.sparse import SparseMatrix
from drnmf.backends.host.stored import as_asked
from drnmf.backends.modes import Factors, Modes
from drnmf.backends.observed import Ones
from drnmf.backends.tensor import PIECE_NUMBERS, Tensor, columns_of_data, gram_product, plain_sweep
from drnmf.backends.weighted import Weighted
from drnmf.losses.base import need_nonzeros_only
from drnmf.numerics import Array


def modes_of(data: Data, columns: tuple[int, ...]) -> Modes:
    """Choose how the unfolding of a tensor is swept."""
    inner = data.data if isinstance(data, Weighted) and isinstance(data.observed, Ones) else data
    return SparseTensor(data, columns) if isinstance(inner, SparseMatrix) else Tensor(data, columns)


@dataclass(frozen=True, eq=False)
class SparseTensor(Tensor):
    """Columns that store nothing are not formed, wherever the losses allow it."""

    @cached_property
    def inner(self) -> Any:
        """The unfolding without the weights of stored entries, which are ones."""
        return self.data.data if isinstance(self.data, Weighted) else self.data

    @cached_property
    def kept(self) -> Any:
        """The columns that store something, as a matrix."""
        return columns_of_data(self.inner, self.places)

    @cached_property
    def places(self) -> Any:
        """Which columns those are."""
        return np.flatnonzero(np.diff(self.inner.by_column.indptr))

    @cached_property
    def indices(self) -> tuple[Any, ...]:
        """Their indices in every mode of the columns."""
        return np.unravel_index(self.places, self.columns)

    @cached_property
    def sums(self) -> list[Any]:
        """For every mode of the columns the matrix (size, columns kept) that adds up the columns of each index."""
        ones, count = np.ones(len(self.places), self.dtype), np.arange(len(self.places))
        sizes = zip(self.indices, self.columns, strict=True)
        return [sp.csr_array((ones, (index, count)), shape=(size, len(count))) for index, size in sizes]

    def sweep(self, block: int, blocks: Factors, ask: Ask) -> Sweep:
        *factors, A = blocks
        if self.inner.only is None and not need_nonzeros_only(ask.omega):
            return super().sweep(block, blocks, ask)
        block = len(factors) if ask.parts is None else block  # losses are those of any block
        ask, rows = replace(ask, into=None, used=None), block == len(factors)
        gathered = [self._gathered(k, F) for k, F in enumerate(factors)]
        if rows:
            G = reduce(np.multiply, gathered)
            found = plain_sweep(self.kept.T, G, A, ask)
        else:
            moving = gathered.pop(block)
            others = reduce(np.multiply, gathered) if gathered else None
            G = moving if others is None else moving * others
            found = self._contracted_stored(block, A, others, G, ask)
        return found if self.inner.only is not None else self._with_zeros(block, blocks, G, found, ask)

    def _gathered(self, mode: int, F: Array) -> Array:
        """Return a factor at the indices of the columns kept; all but the one that moved last are known already."""
        known = self._kept.get(("gathered", mode))
        if known is None or not np.array_equal(known[0], F):  # steps may overwrite a factor: identity says nothing
            known = self._kept["gathered", mode] = F.copy(), np.take(F, self.indices[mode], axis=1)
        return known[1]

    def _contracted_stored(self, block: int, A: Array, others: Array | None, G: Array, ask: Ask) -> Sweep:
        """Sweep the columns kept, piece by piece where curvatures are asked for.

        others : (r, columns kept), the product of the other modes of the columns; None where there are none
        """
        pairs, size = np.tril_indices(len(A)), self.columns[block]
        width = len(self.places) if ask.curvature is None else max(1, PIECE_NUMBERS // max(1, len(pairs[0])))
        losses, parts = np.zeros(len(ask.omega)), dict[str, Array]()
        wanted = ("N", "P", "Q") if self.inner.only is not None else ("N", "Q")  # else P is that of all columns
        for piece, at in self._stored_pieces(width):
            found = plain_sweep(piece, A, np.ascontiguousarray(G[:, at]), ask)
            losses = losses + found.losses
            adds = self.sums[block][:, at]
            under = None if others is None else others[:, at]
            for name in wanted:
                part = getattr(found, name)
                if part is None:
                    continue
                weights = under if under is None or name != "Q" else under[pairs[0]] * under[pairs[1]]
                flat = (part if weights is None else part * weights).reshape(-1, part.shape[-1])
                total = np.ascontiguousarray((adds @ flat.T).T).reshape(*part.shape[:-1], size)
                parts[name] = parts[name] + total if name in parts else total
        return Sweep(losses, parts["N"], parts.get("P", parts["N"][:0]), parts.get("Q"))

    def _stored_pieces(self, width: int) -> list[tuple[Any, slice]]:
        count = len(self.places)
        if ("stored", width) not in self._kept:
            ends = [slice(at, min(at + width, count)) for at in range(0, count, width)] or [slice(0, 0)]
            whole = len(ends) == 1
            self._kept["stored", width] = [(self.kept if whole else columns_of_data(self.kept, at), at) for at in ends]
        return self._kept["stored", width]

    def _with_zeros(self, block: int, blocks: Factors, G: Array, found: Sweep, ask: Ask) -> Sweep:
        """Add what the columns that store nothing count."""
        F, kinds = blocks[block], [loss.free_part for loss in ask.omega]
        own, others = F.astype(np.float64), [B.astype(np.float64) for k, B in enumerate(blocks) if k != block]
        sums, grams = np.prod([B.sum(axis=1) for B in others], axis=0), gram_product(others)
        P = [np.broadcast_to(sums[:, None], F.shape) if kind == "sums" else grams @ own for kind in kinds]
        losses = found.losses
        if ask.losses:
            formed = [_model_sum(kind, blocks[-1].astype(np.float64), G) for kind in kinds]
            rest = [max(float(np.sum(own * part)) - inside, 0.0) for part, inside in zip(P, formed, strict=True)]
            losses = losses + np.array([1.0 if kind == "sums" else 0.5 for kind in kinds]) * rest
        gram = None if ask.shared is None else float(ask.shared) * grams
        if ask.shared_alone:
            return Sweep(losses, found.N, found.N[:0], None, gram)
        return Sweep(losses, found.N, as_asked(np.stack(P), ask, F.dtype), found.Q, gram)


def _model_sum(kind: str | None, A: Array, G: Array) -> float:
    """Add up A'G, or its squares, over the columns that are formed, from sums or from Gram matrices."""
    if kind == "sums":
        return float(A.sum(axis=1) @ G.sum(axis=1, dtype=np.float64))
    return float(np.sum(gram_product([A, G.astype(np.float64)])))
