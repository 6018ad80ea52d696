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
from drnmf.backends.torch.space import Tensor, TorchSpace, full_precision
from drnmf.losses.base import Omega


@dataclass(frozen=True)
class TorchBatch:
    """X in the dtype of the factors, scaled, zeros replaced where a loss asks for that.

    X : (runs, m, n), or (1, m, n) where all runs see the same
    """

    X: Tensor
    space: TorchSpace

    @classmethod
    def of(cls, data: Sequence[Any], omega: Omega) -> TorchBatch:
        """Take the X of every `TorchDense`."""
        same = all(one is data[0] for one in data)
        made = [_prepared(one, zero_of(one, omega)) for one in (data[:1] if same else data)]
        return cls(torch.stack(made), data[0].space)

    @cached_property
    def T(self) -> TorchBatch:
        return replace(self, X=self.X.mT)

    def take(self, at: Any) -> TorchBatch:
        return self if len(self.X) == 1 else replace(self, X=self.X[at])

    def stack(self, blocks: Sequence[Any]) -> Tensor:
        return torch.stack([self.space.put(block) for block in blocks])

    def sweep(self, W: Tensor, H: Tensor, ask: Ask) -> Sweep:
        with full_precision(), np.errstate(over="ignore", invalid="ignore"):
            found = sweep_tile(self.X, None, W, H, replace(ask, curvature=None))
            P = found.P[:0] if ask.shared_alone else found.P
            return Sweep(found.losses, found.N.swapaxes(0, 1), P.swapaxes(0, 1), None, shared_curvature(W, ask))


def _prepared(data: Any, zero: float) -> Tensor:
    X: Tensor = data.tile(slice(0, data.shape[1]))
    return torch.where(X == 0, zero, X) if zero else X
