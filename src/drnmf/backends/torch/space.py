"""Factors as torch tensors on one device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch

from drnmf.backends.base import Elsewhere, InOnePiece, Sweep
from drnmf.numerics import Array
from drnmf.trees import map_leaves

Tensor: TypeAlias = torch.Tensor


@contextmanager
def full_precision() -> Iterator[None]:
    """Compute float32 products in float32, whatever the program around us chose for its own."""
    chosen = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(chosen)


@dataclass(frozen=True)
class TorchSpace(InOnePiece):
    """Where factors are tensors of one dtype on one device; on a GPU sweeps return before they are done."""

    device: torch.device
    dtype: torch.dtype
    whole: bool = True
    forks: ClassVar[bool] = False  # torch has threads of its own, and a device is the parent's

    @property
    def deferred(self) -> bool:
        return self.device.type == "cuda"

    def read(self, *sweeps: Sweep) -> tuple[Sweep, ...]:
        """Copy to the host once, and wait once, for all of them."""
        if all(isinstance(sweep.losses, np.ndarray) for sweep in sweeps):
            return sweeps
        together = torch.cat([sweep.losses for sweep in sweeps]).cpu().numpy()
        p = together.shape[0] // len(sweeps)
        return tuple(replace(sweep, losses=together[i * p : (i + 1) * p]) for i, sweep in enumerate(sweeps))

    def put(self, F: Array) -> Tensor:
        if isinstance(F, torch.Tensor):
            return F.to(self.device, self.dtype).contiguous()
        return torch.as_tensor(np.ascontiguousarray(F)).to(self.device, self.dtype)

    def get(self, F: Array) -> Array:
        return F.detach().cpu().numpy() if isinstance(F, torch.Tensor) else F

    def numbers(self, values: torch.Tensor) -> Tensor:
        """Send a few numbers to the device in the factors' dtype, without waiting for it."""
        tensor = torch.as_tensor(np.ascontiguousarray(values)).to(self.dtype)
        return tensor.pin_memory().to(self.device, non_blocking=True) if self.deferred else tensor

    def join(self, state: object) -> Any:
        return map_leaves(lambda leaf: Elsewhere(self.get(leaf)) if isinstance(leaf, torch.Tensor) else leaf, state)

    def split(self, whole: object) -> Any:
        return map_leaves(
            lambda leaf: self.put(leaf.values) if isinstance(leaf, Elsewhere) else leaf, whole, leaf=Elsewhere
        )

    def deliver(self, F: Tensor) -> Tensor:
        return F.T.contiguous()
