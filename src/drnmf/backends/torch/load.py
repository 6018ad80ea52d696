"""X onto a device of torch: copied there once, or kept in host memory and streamed, with room checked first; and
several runs of a small dense X at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from drnmf.backends.base import Ask, Data, Sweep, zero_of
from drnmf.backends.tiles import shared_curvature, sweep_tile
from drnmf.backends.torch.dense import TorchDense, add_free_parts
from drnmf.backends.torch.kernels import kernels_of, takes
from drnmf.backends.torch.space import Tensor, TorchSpace, full_precision
from drnmf.backends.torch.sparse import TorchSparse
from drnmf.backends.torch.stream import TorchStreamed
from drnmf.losses.base import Omega
from drnmf.numerics import Array, Entries

_SPARSE_FACTOR = 4  # values, indices and the sort, by column and by row


def load(X: torch.Tensor | Array, device: str, precision: str, blocks: bool, mean: float | None) -> Data:
    """X (NumPy, SciPy, or a tensor anywhere) as a Data on `device`."""
    if sp.issparse(X) or (isinstance(X, torch.Tensor) and X.layout != torch.strided):
        if blocks:
            raise ValueError("device='cuda-blocks' streams dense X only: use device='cuda' for sparse X.")
        _make_room(_SPARSE_FACTOR * _bytes_of(X), device, "sparse X in both orders", "a GPU with more memory")
        return TorchSparse.of(X, mean, device)
    tensor = X if isinstance(X, torch.Tensor) else torch.from_numpy(_positive_strides(X))
    if blocks:
        return TorchStreamed.of(tensor, device, mean, precision)
    if tensor.device != torch.device(device) and tensor.device.type != torch.device(device).type:
        _make_room(_bytes_of(tensor), device, "X", "device='cuda-blocks', which streams X from host memory in blocks")
        tensor = tensor.to(device)
    return TorchDense.of(tensor, mean, precision)


def load_beside(data: Any, X: torch.Tensor | Array, mean: float | None) -> Data:
    """Other entries as a Data on the device of one, read as it is."""
    streamed = isinstance(data, TorchStreamed)
    precision = data.precision if streamed else "tf32" if getattr(data, "fast", False) else "float32"
    return load(X, str(data.device), precision, streamed, mean)


def _positive_strides(X: Array) -> Array:
    return X if all(stride > 0 for stride in X.strides) else np.ascontiguousarray(X)


def _bytes_of(X: Entries) -> int:
    """Bytes of X."""
    if isinstance(X, torch.Tensor):
        count = X.numel() if X.layout == torch.strided else X._nnz() * 3
        return count * X.element_size()
    return int(X.data.nbytes) * 3


def _make_room(needed: int, device: str, what: str, instead: str) -> None:
    """Refuse before the allocator does, in words that say what to do."""
    if torch.device(device).type != "cuda":
        return
    free, total = torch.cuda.mem_get_info(device)
    if needed > free:
        raise MemoryError(
            f"{what} needs {needed / 2**30:.1f} GiB on {device}, which has {free / 2**30:.1f} of "
            f"{total / 2**30:.1f} GiB free: use {instead}, or X in float16 (half the bytes)."
        )


@dataclass(frozen=True)
class TorchBatch:
    """X in the dtype of the factors, scaled, zeros replaced where a loss asks for that.

    X : (runs, m, n), or (1, m, n) where all runs see the same
    fused, fast : as in `TorchDense`
    """

    X: Tensor
    space: TorchSpace
    fused: bool
    fast: bool

    @classmethod
    def of(cls, data: Sequence[Any], omega: Omega) -> TorchBatch:
        """Take the X of every `TorchDense`."""
        same = all(one is data[0] for one in data)
        made = [_prepared(one, zero_of(one, omega)) for one in (data[:1] if same else data)]
        return cls(torch.stack(made), data[0].space, data[0].fused, data[0].fast)

    @cached_property
    def T(self) -> TorchBatch:
        return replace(self, X=self.X.mT)

    def take(self, at: object) -> TorchBatch:
        """Return X for some of the runs."""
        return self if len(self.X) == 1 else replace(self, X=self.X[at])

    def stack(self, blocks: Sequence[Array]) -> Tensor:
        """Put one block (r, n) of every run into the space, (runs, r, n)."""
        return torch.stack([self.space.put(block) for block in blocks])

    def sweep(self, W: Tensor, H: Tensor, ask: Ask) -> Sweep:
        """Answer `Data.sweep` for every run; weights of parts and curvature may be (p, runs)."""
        with full_precision(), np.errstate(over="ignore", invalid="ignore"):
            found = self._kernels(W, H, ask) if self.fused and takes(ask, H.shape[-2]) else None
            found = self._tile(W, H, ask) if found is None else found
            return replace(found, P=found.P[:, :0] if ask.shared_alone else found.P, gram=shared_curvature(W, ask))

    def _tile(self, W: Tensor, H: Tensor, ask: Ask) -> Sweep:
        found = sweep_tile(self.X, None, W, H, replace(ask, curvature=None))
        return Sweep(found.losses, found.N.swapaxes(0, 1), found.P.swapaxes(0, 1))

    def _kernels(self, W: Tensor, H: Tensor, ask: Ask) -> Sweep | None:
        """One launch for all runs; None where there are more losses than one takes."""
        from drnmf.backends.torch.fused import GROUP, Call, sweep_runs

        if len(ask.omega) > GROUP:
            return None
        weights = None if ask.weights is None else self.space.numbers(np.atleast_2d(ask.weights.T))  # (1 or runs, p)
        one = len(ask.omega) == 1  # its weight is applied afterwards, so that it shares a kernel with no weight
        given = None if one or weights is None else weights.expand(len(H), -1).contiguous()
        call = Call(kernels_of(ask.omega), given, True, 1.0, 0.0, self.fast)
        losses, N, P = sweep_runs(self.X, W.mT.contiguous(), H.contiguous(), call)
        each = None if weights is None else weights.T[:, :, None, None]
        if one and each is not None:
            N, P = N * each[0, :, None], P * each[0, :, None]
        P = add_free_parts(P.swapaxes(0, 1), W, H, ask.omega, each).swapaxes(0, 1)
        return Sweep(losses, N, P)


def _prepared(data: Any, zero: float) -> Tensor:
    X: Tensor = data.tile(slice(0, data.shape[1]))
    return torch.where(X == 0, zero, X) if zero else X
