"""Sparse X in the memory of this process, and its sweep in SciPy: what differs between backends there is the sweep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Self

import numpy as np
import scipy.sparse as sp

from drnmf.backends.base import Ask, Data, Observed, Sweep
from drnmf.backends.entries import sparse_rows
from drnmf.backends.host.dense import HostMatrix
from drnmf.backends.host.stored import (
    FilledSparse,
    StoredOnly,
    StoredSweep,
    filled_sparse,
    kept_weights,
    stored_values,
    sweep_with_zeros,
    tally_stored,
    weights_at,
)
from drnmf.backends.observed import Ones, Pieces, Stored, factors_of, pieces, product
from drnmf.backends.tiles import sweep_tiles
from drnmf.backends.weighted import Tally, UnweightedSparse
from drnmf.losses.base import need_nonzeros_only
from drnmf.numerics import Array, Vector


@dataclass(frozen=True)
class SparseMatrix(HostMatrix, UnweightedSparse):
    """X as CSC and its transpose as CSC, both built once; T swaps them. Losses with free parts never densify.

    only : given where the stored entries alone are observed, zeros among them; else what is not stored is a zero
    scale : what the values were multiplied by
    """

    by_column: sp.csc_array  # X, CSC
    by_row: sp.csr_array  # X transposed, CSC
    mean: float
    squared_norm: float
    only: StoredOnly | None = None
    scale: float = 1.0

    @classmethod
    def of(cls, X: sp.sparray, mean: float | None = None) -> Self:
        rows = sp.csr_array(X)
        whole = all(part.flags.c_contiguous for part in (rows.data, rows.indices, rows.indptr))
        if not (whole and rows.has_canonical_format and rows.data.all()):
            # unsorted or repeated entries, or stored zeros, in a matrix that is the caller's and not ours to change
            rows = sp.csr_array(rows, copy=True)
            rows.sum_duplicates()
            rows.eliminate_zeros()
        own = float(rows.data.sum(dtype=np.float64)) / (rows.shape[0] * rows.shape[1]) if mean is None else mean
        with np.errstate(over="ignore"):  # in a unit where it is too large, `scaled` finds it in another
            squared_norm = float(np.square(rows.data, dtype=np.float64).sum())
        return cls(rows.tocsc(), rows.T, own, squared_norm)

    @property
    def shape(self) -> tuple[int, int]:
        return self.by_column.shape[0], self.by_column.shape[1]

    dtype = property(attrgetter("by_column.dtype"))

    @property
    def zeros(self) -> int:
        if self.only is not None:
            return int(self.by_column.nnz - np.count_nonzero(self.by_column.data))
        return self.shape[0] * self.shape[1] - self.stored

    stored = property(attrgetter("by_column.nnz"))

    @cached_property
    def T(self) -> Self:
        only = None if self.only is None else StoredOnly(self.only.by_row, self.only.by_column)
        return replace(self, by_column=self.by_row, by_row=self.by_column, only=only)

    def scaled(self, factor: float) -> Self:
        by_column, by_row = (
            sp.csc_array((X.data * factor, X.indices, X.indptr), X.shape) for X in (self.by_column, self.by_row)
        )
        squared_norm = float(np.square(by_row.data, dtype=np.float64).sum())
        return replace(
            self,
            by_column=by_column,
            by_row=by_row,
            mean=self.mean * factor,
            squared_norm=squared_norm,
            scale=self.scale * factor,
        )

    def tile(self, columns: slice) -> Array:
        return self.by_column[:, columns].toarray()

    def row_digests(self) -> Iterator[bytes]:
        return sparse_rows(self.by_row.data, self.by_row.indices, self.by_row.indptr, self.shape[1], self.scale)

    def column(self, j: int) -> Vector:
        X, found = self.by_column, np.zeros(self.shape[0])
        at = slice(X.indptr[j], X.indptr[j + 1])
        found[X.indices[at]] = X.data[at]  # canonical: every place once
        return found

    def dot(self, B: Array) -> Array:
        return self.by_row.T @ B

    def squared_norms(self) -> Vector:
        X = self.by_column
        squares = sp.csc_array((np.square(X.data, dtype=np.float64), X.indices, X.indptr), self.shape)
        return np.asarray(squares.sum(axis=0), dtype=np.float64).ravel()

    def tally(self, observed: Observed) -> Tally:
        parts = pieces(observed)
        if parts is None or not self.takes(parts):
            return super().tally(observed)
        found = tally_stored(self, parts)
        if self.only is not None:
            return found
        weight, count = parts.sums(self.shape)
        return Tally(found.total, found.squares, weight, count - found.count + found.zeros, count)

    def filled(self, observed: Observed) -> FilledSparse | None:
        parts = pieces(observed)
        return None if parts is None else filled_sparse(self, parts)

    def weigh(self, observed: Observed, mean: float | None) -> Data:
        kinds = factors_of(observed)
        stored = [kind for kind in kinds if isinstance(kind, Stored)]
        if not stored:
            return super().weigh(observed, mean)
        data, rest = self, product(*(kind for kind in kinds if kind not in stored))
        for kind in stored:
            data = data.only_stored(kind)
        return data.weigh(Ones(self.shape) if rest is None else rest, mean)

    def only_stored(self, observed: Stored) -> Self:
        """Return X of which the entries that the weights store are observed, and no other."""
        by_column, by_row = (stored_values(X, M) for X, M in ((self.by_column, observed), (self.by_row, observed.T)))
        old = self.only or StoredOnly()
        weights = [
            kept_weights(X, M, known)
            for X, M, known in ((self.by_column, observed, old.by_column), (self.by_row, observed.T, old.by_row))
        ]
        return replace(self, by_column=by_column, by_row=by_row, only=StoredOnly(*weights))

    def takes(self, parts: Pieces) -> bool:
        """Tell whether sums over what is not stored need no dense tiles under these weights."""
        if self.only is not None:
            return True
        return parts.values is None

    def sweep(self, W: Array, H: Array, ask: Ask) -> Sweep:
        if ask.observed is None and self.only is None:
            return self.sweep_all(W, H, ask)
        ask = replace(ask, observed=ask.observed or self.observed)
        assert ask.observed is not None
        parts = pieces(ask.observed)
        if parts is None:
            return sweep_tiles(self, W, H, ask)
        if self.only is not None:
            return self.sweep_stored(W, H, ask, parts)
        if not (self.takes(parts) and need_nonzeros_only(ask.omega)):
            return self.sweep_dense(W, H, ask)
        return sweep_with_zeros(self, W, H, ask, parts)

    def sweep_all(self, W: Array, H: Array, ask: Ask) -> Sweep:
        """Sweep without weights."""
        if need_nonzeros_only(ask.omega):
            return sweep_with_zeros(self, W, H, ask, Pieces())
        return self.sweep_dense(W, H, ask)

    def sweep_dense(self, W: Array, H: Array, ask: Ask) -> Sweep:
        """Sweep over dense tiles of X, under any weights but those of stored entries alone."""
        return sweep_tiles(self, W, H, ask)

    def sweep_stored(self, W: Array, H: Array, ask: Ask, parts: Pieces) -> Sweep:
        """Sweep over the stored entries alone, under their own weights times `parts`."""
        return StoredSweep(self, W, H, weights_at(self, parts)).sweep(ask)
