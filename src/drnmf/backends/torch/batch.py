"""Several runs of small dense X on a device of torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from drnmf.backends.base import Ask, Sweep, zero_of
from drnmf.backends.tiles import shared_curvature, sweep_tile
from drnmf.backends.torch.dense import add_free_parts
from drnmf.backends.torch.kernels import kernels_of, takes
from drnmf.backends.torch.space import Tensor, TorchSpace, full_precision
from drnmf.losses.base import Omega
from drnmf.numerics import Array


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

    def take(self, at: Any) -> TorchBatch:
        return self if len(self.X) == 1 else replace(self, X=self.X[at])

    def stack(self, blocks: Sequence[Array]) -> Tensor:
        return torch.stack([self.space.put(block) for block in blocks])

    def sweep(self, W: Tensor, H: Tensor, ask: Ask) -> Sweep:
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
