"""Dense X in host memory, streamed over the GPU in blocks of rows: for X larger than its memory.

Two pinned blocks on the host and two on the GPU take turns: while the kernel works on one, the next is on its way. The
parts of W belong to one block; those of H, and the losses, are added block after block, in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar

import torch

from drnmf.backends.base import Ask, Data, Observed, Sweep, check_shapes
from drnmf.backends.tiles import shared_curvature
from drnmf.backends.torch.dense import TILE, OnTorch, TorchDense, fused_available, moments
from drnmf.backends.torch.space import Tensor
from drnmf.backends.weighted import UnweightedDense, Weighted
from drnmf.numerics import Array, Vector

BLOCK_BYTES = 1 << 28


@dataclass(frozen=True)
class _Buffers:
    """Blocks that X passes through: pinned on the host, twins on the device, and the stream of the copies."""

    pinned: tuple[Tensor, Tensor]
    there: tuple[Tensor, Tensor]
    copies: Any  # torch.cuda.Stream, None on a CPU

    @classmethod
    def of(cls, rows: int, width: int, dtype: torch.dtype, device: torch.device) -> _Buffers:
        cuda = device.type == "cuda"
        pinned = tuple(torch.empty((rows, width), dtype=dtype, pin_memory=cuda) for _ in range(2))
        there = tuple(torch.empty((rows, width), dtype=dtype, device=device) for _ in range(2)) if cuda else pinned
        return cls(pinned, there, torch.cuda.Stream(device) if cuda else None)

    def carry(self, X: Tensor, rows: int) -> Iterator[tuple[slice, Tensor]]:
        """(rows of X, the block on the device), one after another; a block may be used until the next but one."""
        if self.copies is None:
            for first in range(0, X.shape[0], rows):
                yield slice(first, min(first + rows, X.shape[0])), X[first : first + rows]
            return
        compute = torch.cuda.current_stream(self.there[0].device)
        arrived: list[Any] = [None, None]
        free: list[Any] = [None, None]
        slices = [slice(first, min(first + rows, X.shape[0])) for first in range(0, X.shape[0], rows)]

        def send(turn: int) -> None:
            side, wanted = turn % 2, slices[turn]
            if arrived[side] is not None:
                arrived[side].synchronize()  # the pinned block was read
            count = wanted.stop - wanted.start
            self.pinned[side][:count].copy_(X[wanted])
            with torch.cuda.stream(self.copies):
                if free[side] is not None:
                    self.copies.wait_event(free[side])  # the kernel is done with its twin
                self.there[side][:count].copy_(self.pinned[side][:count], non_blocking=True)
                arrived[side] = torch.cuda.Event()
                arrived[side].record(self.copies)

        self.copies.wait_stream(compute)
        send(0)
        for turn, at in enumerate(slices):
            compute.wait_event(arrived[turn % 2])
            yield at, self.there[turn % 2][: at.stop - at.start]
            free[turn % 2] = torch.cuda.Event()
            free[turn % 2].record(compute)
            if turn + 1 < len(slices):
                send(turn + 1)


@dataclass(frozen=True)
class TorchStreamed(OnTorch, UnweightedDense):
    """X (m, n) on the host; `flipped` says that this side's columns are X's rows.

    scale : what entries are multiplied by as they are read
    """

    X: Tensor
    on: torch.device
    mean: float
    zeros: int
    precision: str
    rows: int
    buffers: _Buffers = field(repr=False, compare=False)
    flipped: bool = False
    missing: int = 0
    scale: float = 1.0

    tile_entries: ClassVar[int] = TILE

    @classmethod
    def of(
        cls, X: Tensor, device: str, mean: float | None = None, precision: str = "float32", rows: int | None = None
    ) -> TorchStreamed:
        """rows : of X in a block; None takes blocks of 256 MiB."""
        total, zeros, missing = moments(X)
        bytes_of_row = max(1, X.shape[1] * X.element_size())
        rows = min(X.shape[0], max(1, BLOCK_BYTES // bytes_of_row) if rows is None else rows)
        on = torch.empty(0, device=device).device
        buffers = _Buffers.of(rows, X.shape[1], X.dtype, on)
        own = total / max(1, X.numel() - missing) if mean is None else mean
        return cls(X, on, own, zeros, precision, rows, buffers, missing=missing)

    @property
    def shape(self) -> tuple[int, int]:
        return (self.X.shape[1], self.X.shape[0]) if self.flipped else (self.X.shape[0], self.X.shape[1])

    device = property(attrgetter("on"))

    @property
    def working(self) -> torch.dtype:
        return torch.float64 if self.X.dtype == torch.float64 else torch.float32

    @cached_property
    def T(self) -> TorchStreamed:
        return replace(self, flipped=not self.flipped)

    def weigh(self, observed: Observed, mean: float | None) -> Data:
        """Weights stay on the host, as X does, and follow its blocks."""
        return Weighted.of(self, observed, self.tally(observed), mean)

    def tile(self, columns: slice) -> Tensor:
        """Return a range of columns, on the device, where the factors are."""
        return self._whole().tile(columns).to(self.on)

    def _side(self) -> Tensor:
        return self.X.T if self.flipped else self.X

    def _whole(self) -> TorchDense:
        """This side as a matrix on the host."""
        return TorchDense(self._side(), self.mean, self.zeros, scale=self.scale)

    def column(self, j: int) -> Vector:
        return self._whole().column(j)

    def dot(self, B: Array) -> Array:
        return self._whole().dot(B)

    def squared_norms(self) -> Vector:
        return self._whole().squared_norms()

    def digest(self) -> str:
        return self._whole().digest()

    def sweep(self, W: torch.Tensor, H: torch.Tensor, ask: Ask) -> Sweep:
        check_shapes(self.shape, W, H, ask)
        ask = replace(ask, observed=self.observed) if ask.observed is None else ask
        A, B = self.space.put(W.T), self.space.put(H)
        fused = fused_available(self.device.type) and self.working == torch.float32
        sums = [torch.zeros(shape, dtype=B.dtype, device=self.device) for shape in self._shapes(B, ask)]
        losses = torch.zeros(len(ask.omega), dtype=torch.float64, device=self.device)
        for at, block in self.buffers.carry(self.X, self.rows):
            data = TorchDense(block, self.mean, self.zeros, self.precision == "tf32", fused, scale=self.scale)
            if self.flipped:
                found: Any = data.T.sweep(A.T, B[:, at].contiguous(), ask.T.within(at).T)
            else:
                found = data.sweep(A[:, at].contiguous().T, B, ask.within(at))
            for total, part in zip(sums, (found.N, found.P, found.Q), strict=False):
                if self.flipped:
                    total[..., at] = part
                else:
                    total += part
            losses += found.losses
        N, P, *Q = sums
        return Sweep(losses, N, P, Q[0] if Q else None, shared_curvature(A.T, ask))

    def _shapes(self, B: Tensor, ask: Ask) -> list[tuple[int, ...]]:
        """Of N, P and, where it is asked for, Q."""
        r, n = B.shape
        packed = [] if ask.curvature is None or ask.shared_alone else [(r * (r + 1) // 2, n)]
        return [(ask.slots, r, n), (0 if ask.shared_alone else ask.slots, r, n), *packed]
