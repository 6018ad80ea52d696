"""Sparse X on a device of PyTorch: by column and by row, so that both half-steps walk along compressed columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from drnmf.backends.base import Ask, Data, Observed, Sweep, check_shapes, zero_of
from drnmf.backends.entries import combined, sparse_rows
from drnmf.backends.host.stored import StoredOnly, stored_values
from drnmf.backends.observed import Ones, Stored, factors_of, pieces, product
from drnmf.backends.tiles import sweep_tiles
from drnmf.backends.torch.dense import (
    TILE,
    OnTorch,
    add_free_parts,
    fused_available,
    gram,
    losses_or_nan,
    with_curvature,
)
from drnmf.backends.torch.space import Tensor, full_precision
from drnmf.backends.weighted import Tally, UnweightedSparse
from drnmf.losses.base import betas_of, need_nonzeros_only
from drnmf.numerics import Array, Vector, identity_limit, model_floor, power_ceiling


class Segments(NamedTuple):
    """Columns split into pieces: where each begins and ends, its column, and every column's first piece."""

    starts: Tensor
    ends: Tensor
    columns: Tensor
    first: Tensor


@dataclass(frozen=True)
class Compressed:
    """Compressed columns. ends : indptr on the host, which decides how the work is split."""

    values: Tensor
    indices: Tensor
    ends: np.ndarray[tuple[int], np.dtype[np.int64]]

    @cached_property
    def segments(self) -> Segments:
        from drnmf.backends.torch.triton_sparse import SEGMENT

        lengths = np.diff(self.ends)
        counts = np.maximum(1, -(-lengths // SEGMENT))
        first = np.concatenate([[0], np.cumsum(counts)])
        columns = np.repeat(np.arange(lengths.size), counts)
        starts = self.ends[columns] + SEGMENT * (np.arange(first[-1]) - first[columns])
        stops = np.minimum(starts + SEGMENT, self.ends[columns + 1])
        on = self.values.device
        return Segments(*(torch.as_tensor(a).to(on) for a in (starts, stops, columns, first)))

    @property
    def squared_norm(self) -> float:
        """The sum of the squares of the values, in their order."""
        return float(self.values.double().square().sum())

    @classmethod
    def by(cls, major: Tensor, minor: Tensor, values: Tensor, count: int) -> Compressed:
        """From coordinates: sorted by (major, minor), as compressed slices along `major`."""
        order = torch.argsort(minor, stable=True)
        order = order[torch.argsort(major[order], stable=True)]
        lengths = torch.bincount(major, minlength=count).cpu().numpy()
        small = torch.int32 if max(minor.numel(), 1) < 2**31 else torch.int64
        return cls(values[order].contiguous(), minor[order].to(small), np.concatenate([[0], np.cumsum(lengths)]))


def _coordinates(X: torch.Tensor, device: torch.device | str | None) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, columns and values without zeros or repetitions, from a SciPy matrix or a sparse tensor."""
    if isinstance(X, torch.Tensor):
        entries = X.to_sparse_coo().coalesce()
        (rows, columns), values = entries.indices(), entries.values()
    else:
        tidy = sp.coo_array(X)
        tidy.sum_duplicates()
        rows, columns, values = (torch.as_tensor(np.ascontiguousarray(a)) for a in (tidy.row, tidy.col, tidy.data))
    nonzero = values != 0
    return tuple(part[nonzero].to(device or part.device) for part in (rows.long(), columns.long(), values))


@dataclass(frozen=True)
class TorchSparse(OnTorch, UnweightedSparse):
    """Sparse X; Omega within {1, 2} costs O(nnz r), any other beta takes dense tiles.

    only : given where the stored entries alone are observed, at O(nnz r) under any loss
    scale : what the values were multiplied by
    """

    tile_entries: ClassVar[int] = TILE

    by_column: Compressed
    by_row: Compressed
    size: tuple[int, int]
    mean: float
    squared_norm: float
    fused: bool = False
    only: StoredOnly | None = None
    scale: float = 1.0

    @classmethod
    def of(
        cls,
        X: torch.Tensor,
        mean: float | None = None,
        device: torch.device | str | None = None,
        fused: bool | None = None,
    ) -> TorchSparse:
        rows, columns, values = _coordinates(X, device)
        m, n = (int(size) for size in X.shape)
        own = float(values.sum(dtype=torch.float64)) / (m * n) if mean is None else mean
        usable = fused_available(values.device.type)
        by_column, by_row = Compressed.by(columns, rows, values, n), Compressed.by(rows, columns, values, m)
        return cls(by_column, by_row, (m, n), own, by_row.squared_norm, usable if fused is None else fused)

    shape = property(attrgetter("size"))
    device = property(attrgetter("by_column.values.device"))
    working = property(attrgetter("by_column.values.dtype"))

    @property
    def zeros(self) -> int:
        if self.only is not None:
            return int((self.by_column.values == 0).sum())
        return self.shape[0] * self.shape[1] - self.stored

    @property
    def stored(self) -> int:
        return self.by_column.values.numel()

    @cached_property
    def T(self) -> TorchSparse:
        only = None if self.only is None else StoredOnly(self.only.by_row, self.only.by_column)
        return replace(self, by_column=self.by_row, by_row=self.by_column, size=self.size[::-1], only=only)

    def scaled(self, factor: float) -> TorchSparse:
        by_column, by_row = (replace(X, values=X.values * factor) for X in (self.by_column, self.by_row))
        return replace(
            self,
            by_column=by_column,
            by_row=by_row,
            mean=self.mean * factor,
            squared_norm=by_row.squared_norm,
            scale=self.scale * factor,
        )

    def weigh(self, observed: Observed, mean: float | None) -> Data:
        kinds = factors_of(observed)
        stored = [kind for kind in kinds if isinstance(kind, Stored)]
        if len(stored) != 1 or self.only is not None:
            return super().weigh(observed, mean)
        rest = product(*(kind for kind in kinds if kind is not stored[0]))
        return self.only_stored(stored[0]).weigh(Ones(self.shape) if rest is None else rest, mean)

    def only_stored(self, observed: Stored) -> TorchSparse:
        """Return X of which the entries that the weights store are observed, and no other."""
        X = sp.csc_array(
            (self.space.get(self.by_column.values), self.space.get(self.by_column.indices), self.by_column.ends),
            self.shape,
        )
        pattern = sp.coo_array(observed.by_column)
        rows, columns = (self.beside(at.astype(np.int64)) for at in (pattern.row, pattern.col))
        values, weights = (self.beside(a) for a in (stored_values(X, observed).data, pattern.data.astype(X.dtype)))
        sides = (columns, rows, self.shape[1]), (rows, columns, self.shape[0])
        by_column, by_row = (Compressed.by(major, minor, values, count) for major, minor, count in sides)
        only = StoredOnly(*(Compressed.by(major, minor, weights, count).values for major, minor, count in sides))
        return replace(self, by_column=by_column, by_row=by_row, only=only)

    def tally(self, observed: Observed) -> Tally:
        if self.only is None:
            return super().tally(observed)
        x, M = self.by_column.values.double(), self._weights(observed).double()
        total, squares, weight = (float(part.sum()) for part in (M * x, M * x * x, M))
        return Tally(total, squares, weight, int(((x == 0) & (M > 0)).sum()), int((M > 0).sum()))

    def _weights(self, observed: Observed) -> Tensor:
        """The weights of the stored entries, by column."""
        parts = pieces(observed)
        assert parts is not None
        assert self.only is not None
        rows, columns = self.by_column.indices.long(), self._columns(slice(0, self.shape[1]))
        M = self.only.by_column
        for factor in (
            None if parts.values is None else parts.values[rows, columns],
            None if parts.rows is None else parts.rows[rows],
            None if parts.columns is None else parts.columns[columns],
            None if parts.mask is None else parts.mask.at(rows, columns),
        ):
            M = M if factor is None else M * factor
        return M

    def _sweep_stored(self, W: Tensor, H: Tensor, ask: Ask) -> Sweep:
        """Sweep over the stored entries alone."""
        assert ask.observed is not None
        x, M, ceiling = self.by_column.values, self._weights(ask.observed), power_ceiling(self.dtype)
        zero, V = zero_of(self, ask.omega), self._model_at_stored(W, H)
        x = torch.where(M > 0, torch.where(x == 0, zero, x) if zero else x, V)
        losses = torch.stack([(M * loss.terms(x, V)).sum() for loss in ask.omega]) if ask.losses else None
        N, P = (H.new_zeros((ask.slots, *H.shape)) for _ in range(2))
        for b, loss in enumerate(ask.omega if ask.parts is not None else ()):
            weight, slot = (1.0, b) if ask.weights is None else (float(ask.weights[b]), 0)
            for part, terms in zip((N, P), loss.parts(x, V, ceiling), strict=True):
                part[slot] += weight * self._reduce(M * terms, W)
        Q = None
        if ask.curvature is not None:
            bends = (
                float(c) * torch.clip(loss.curvature(x, V), None, ceiling)
                for loss, c in zip(ask.omega, ask.curvature, strict=True)
            )
            k, l = np.tril_indices(H.shape[0])
            Q = self._reduce(M * sum(bends), W[:, k] * W[:, l])
        return Sweep(losses_or_nan(self, ask, losses), N, P, Q)

    def _model_at_stored(self, W: Tensor, H: Tensor) -> Tensor:
        """V at the stored entries, a bounded number at a time."""
        rows, found = W.contiguous(), []
        for J in self._chunks(H.shape[0]):
            at = slice(int(self.by_column.ends[J.start]), int(self.by_column.ends[J.stop]))
            found.append(self._model(rows[self.by_column.indices[at].long()], H[:, J].T[self._columns(J)]))
        return torch.cat(found)

    def _reduce(self, values: Tensor, W: Tensor) -> Tensor:
        """(r, n): the sum of values times rows of W over the stored entries of every column."""
        rows, out = W.contiguous(), []
        for J in self._chunks(W.shape[1]):
            first, last = int(self.by_column.ends[J.start]), int(self.by_column.ends[J.stop])
            products = values[first:last, None] * rows[self.by_column.indices[first:last].long()]
            ends = torch.as_tensor(self.by_column.ends[J.start : J.stop + 1] - first).to(self.device)
            out.append(torch.segment_reduce(products, "sum", offsets=ends, initial=0, axis=0))
        return torch.cat(out).T.contiguous()

    def tile(self, columns: slice) -> Tensor:
        J = columns
        first, last = int(self.by_column.ends[J.start]), int(self.by_column.ends[J.stop])
        tile = torch.zeros((self.shape[0], J.stop - J.start), dtype=self.working, device=self.device)
        at = self.by_column.indices[first:last].long(), self._columns(J)
        tile[at] = self.by_column.values[first:last]
        return tile

    def _columns(self, J: slice) -> Tensor:
        """Column of every non-zero in J, counted from J's first."""
        lengths = torch.as_tensor(np.diff(self.by_column.ends[J.start : J.stop + 1])).to(self.device)
        return torch.repeat_interleave(torch.arange(J.stop - J.start, device=self.device), lengths)

    def column(self, j: int) -> Vector:
        return self.tile(slice(j, j + 1))[:, 0].double().cpu().numpy()

    def dot(self, B: Array) -> Array:
        factor = self.space.put(B)
        return self.space.get(self.T.against(factor.T, lambda x, v: x).T)

    def squared_norms(self) -> Vector:
        squares = self.by_column.values.double().square()
        ends = torch.as_tensor(self.by_column.ends).to(self.device)
        return torch.segment_reduce(squares, "sum", offsets=ends, initial=0).cpu().numpy()

    def digest(self) -> str:
        X = self.by_row
        return combined(
            sparse_rows(self.space.get(X.values), self.space.get(X.indices), X.ends, self.shape[1], self.scale)
        )

    def against(self, W: Tensor, entry: Any, H: Tensor | None = None) -> Tensor:
        """(r, n): W' applied to entry(x, v) at the non-zeros, v = WH there; W (r, m), a bounded number at a time."""
        X, out = self.by_column, []
        rows, r = W.T.contiguous(), W.shape[0]
        for J in self._chunks(r):
            first, last = int(X.ends[J.start]), int(X.ends[J.stop])
            gathered, x = rows[X.indices[first:last].long()], X.values[first:last]
            v = x if H is None else self._model(gathered, H[:, J].T[self._columns(J)])
            ends = torch.as_tensor(X.ends[J.start : J.stop + 1] - first).to(self.device)
            out.append(torch.segment_reduce(entry(x, v)[:, None] * gathered, "sum", offsets=ends, initial=0, axis=0))
        return torch.cat(out).T

    def _model(self, rows: Tensor, columns: Tensor) -> Tensor:
        return (rows * columns).sum(1).clamp_min(model_floor(self.dtype))

    def _chunks(self, r: int) -> list[slice]:
        """Runs of columns with a bounded number of non-zeros (or one column)."""
        ends, n, limit = self.by_column.ends, self.shape[1], max(1, TILE // r)
        bounds = [0]
        while bounds[-1] < n:
            reach = int(np.searchsorted(ends, ends[bounds[-1]] + limit, side="right")) - 1
            bounds.append(min(n, max(bounds[-1] + 1, reach)))
        return [slice(a, b) for a, b in pairwise(bounds)]

    def sweep(self, W: torch.Tensor, H: torch.Tensor, ask: Ask) -> Sweep:
        check_shapes(self.shape, W, H, ask)
        W, H = self.space.put(W.T).T, self.space.put(H)
        if self.only is not None:
            return self._sweep_stored(W, H, replace(ask, observed=ask.observed or self.observed))
        if ask.observed is not None or not need_nonzeros_only(ask.omega):
            with full_precision():
                return sweep_tiles(self, W, H, ask)
        return with_curvature(self, W, H, ask, self._sweep_nonzeros(W, H, ask))

    def _sweep_nonzeros(self, W: Tensor, H: Tensor, ask: Ask) -> Sweep:
        """Sweep in O(nnz r), for losses that need only the non-zeros."""
        betas, weights = tuple(betas_of(ask.omega)), None if ask.weights is None else self.space.numbers(ask.weights)
        identity = ask.losses and 2.0 in betas
        inside = None if identity else weights  # <H, N_2> is in the loss: N_2 must stand alone
        wanted = ask.parts is not None or identity
        if self.fused:
            from drnmf.backends.torch.triton_sparse import sweep_nonzeros

            sums, N = sweep_nonzeros(self.by_column, W.T, H, betas, inside, wanted, ask.losses)
        else:
            sums, N = self._plain(W, H, betas, inside, wanted, ask.losses)
        losses = losses_or_nan(self, ask, self._losses(W, H, betas, sums, N) if ask.losses else None)
        if ask.parts is None:
            return Sweep(losses, N[:0], N[:0])
        P = add_free_parts(torch.zeros_like(N), W, H, ask.omega, inside)
        if weights is not None and inside is None:
            N, P = (torch.tensordot(weights[None, :], part, 1) for part in (N, P))
        return Sweep(losses, N, P)

    def _plain(
        self, W: Tensor, H: Tensor, betas: tuple[float, ...], weights: Tensor | None, parts: bool, losses: bool
    ) -> tuple[Tensor, Tensor]:
        """What `fused.sweep_nonzeros` does, in plain torch."""
        ceiling, r = power_ceiling(self.dtype), H.shape[0]
        terms = {1.0: lambda x, v: (x / v).clamp_max(ceiling), 2.0: lambda x, v: x}
        N = torch.stack([self.against(W.T, terms[b], H) for b in betas]) if parts else H.new_empty((0, *H.shape))
        if parts and weights is not None:
            N = torch.tensordot(weights[None, :], N, 1)
        sums = torch.zeros(3, dtype=torch.float64, device=self.device)
        if losses:
            rows = W.contiguous()
            for J in self._chunks(r):
                at = slice(int(self.by_column.ends[J.start]), int(self.by_column.ends[J.stop]))
                v = self._model(rows[self.by_column.indices[at].long()], H[:, J].T[self._columns(J)]).double()
                x = self.by_column.values[at].double()
                sums += torch.stack([(x * torch.log(x / v) - x).sum(), (x - v).square().sum(), v.square().sum()])
        return sums, N

    def _losses(self, W: Tensor, H: Tensor, betas: tuple[float, ...], sums: Tensor, N: Tensor) -> Tensor:
        """KL = sum over non-zeros + (1'W)(H1); Frobenius by its identity, or by entries where that lost its digits."""
        totals = []
        for b, beta in enumerate(betas):
            if beta == 1.0:
                everything = W.sum(0, dtype=torch.float64) @ H.sum(1, dtype=torch.float64)
                totals.append((sums[0] + everything).clamp_min(0.0))
                continue
            with full_precision():
                model = (gram(W) * gram(H.T)).sum()
            by_identity = 0.5 * (self.squared_norm - 2.0 * (H.double() * N[b]).sum() + model)
            by_entries = 0.5 * (sums[1] + (model - sums[2]).clamp_min(0.0))
            kept = by_identity > identity_limit(self.dtype) * self.squared_norm
            totals.append(torch.where(kept, by_identity, by_entries))
        return torch.stack(totals)
