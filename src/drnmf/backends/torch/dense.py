"""X on a device of PyTorch: one fused pass on a CUDA GPU with Triton, plain torch, tile by tile, elsewhere.

Factors and parts stay on the device, and sweeps return before they are done: only `TorchSpace.read` waits.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
import torch

from drnmf.backends.base import Ask, Sweep, check_shapes, zero_of
from drnmf.backends.entries import combined, dense_rows, row_blocks
from drnmf.backends.observed import pieces
from drnmf.backends.tiles import sweep_tiles
from drnmf.backends.torch.kernels import kernels_of, takes
from drnmf.backends.torch.space import Tensor, TorchSpace, full_precision
from drnmf.backends.weighted import Unweighted, UnweightedDense
from drnmf.losses.base import Omega
from drnmf.numerics import Array, Precision, Vector

logger = logging.getLogger("drnmf")
TILE = 1 << 22  # entries of V at a time
PRECISIONS = ("float32", "tf32")
_WORKING = {torch.float64: torch.float64} | dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), torch.float32)


@cache
def fused_available(kind: str) -> bool:
    """Whether the Triton kernels run on devices of this kind; said once in the log where they do not."""
    try:
        from drnmf.backends.torch.fused import INTERPRETED
    except ImportError as error:
        if kind == "cuda":
            logger.warning("Triton is not available (%s): plain PyTorch is used on the GPU, which is slower.", error)
        return False
    return kind == "cuda" or INTERPRETED


class OnTorch(Unweighted):
    """What every Data does whose factors are torch tensors on one device."""

    @property
    def dtype(self: Any) -> Precision:
        return np.dtype(str(self.working).removeprefix("torch."))

    @cached_property
    def space(self: Any) -> TorchSpace:
        return TorchSpace(self.device, self.working)

    def beside(self: Any, array: Array) -> Tensor:
        """Take an array of weights to the device, in the dtype of the factors unless it holds integers."""
        tensor = array if isinstance(array, torch.Tensor) else torch.as_tensor(np.ascontiguousarray(array))
        return tensor.to(self.device, self.working if tensor.is_floating_point() else tensor.dtype)


def moments(X: Tensor) -> tuple[float, int, int]:
    """Sum of all entries in float64, number of zeros and of entries that are not finite, some rows at a time.

    Those that are not finite are not in the sum.
    """
    rows = max(1, TILE * 16 // max(1, X.shape[1]))
    total = torch.zeros((), dtype=torch.float64, device=X.device)
    nonzero, seen = (torch.zeros((), dtype=torch.int64, device=X.device) for _ in range(2))
    for block in X.split(rows):
        finite = torch.isfinite(block)
        total += torch.where(finite, block, 0).sum(dtype=torch.float64)
        nonzero += torch.count_nonzero(block)
        seen += finite.sum()
    return float(total), X.numel() - int(nonzero), X.numel() - int(seen)


@dataclass(frozen=True)
class TorchDense(OnTorch, UnweightedDense):
    """Dense X of any strides, in float64, float32 or half precision; never copied, T is a view.

    fast : the fused sweep may use single bfloat16 products in its sums ("tf32")
    fused : Triton rather than plain torch
    missing : how many entries are not finite, and so not observed
    scale : what entries are multiplied by as they are read
    met : the sets of losses asked for so far, whose kernels are compiled together
    """

    tile_entries: ClassVar[int] = TILE

    X: Tensor
    mean: float
    zeros: int
    fast: bool = False
    fused: bool = False
    missing: int = 0
    scale: float = 1.0
    met: set[Omega] = field(default_factory=set, compare=False, repr=False)

    @classmethod
    def of(
        cls, X: torch.Tensor | Array, mean: float | None = None, precision: str = "float32", fused: bool | None = None
    ) -> TorchDense:
        tensor = X if isinstance(X, torch.Tensor) else torch.as_tensor(X)
        if precision not in PRECISIONS:
            raise ValueError(f"precision={precision!r} is not known: use one of {list(PRECISIONS)}.")
        if tensor.dtype not in _WORKING:
            raise ValueError(f"X has dtype {tensor.dtype}: use float32, float64, float16 or bfloat16.")
        total, zeros, missing = moments(tensor)
        usable = tensor.dtype != torch.float64 and fused_available(tensor.device.type)
        own = total / max(1, tensor.numel() - missing) if mean is None else mean
        return cls(tensor, own, zeros, precision == "tf32", usable if fused is None else fused, missing)

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1]

    device = property(attrgetter("X.device"))

    @property
    def working(self) -> torch.dtype:
        return _WORKING[self.X.dtype]

    @cached_property
    def T(self) -> TorchDense:
        return replace(self, X=self.X.T)

    def column(self, j: int) -> Vector:
        return self.X[:, j].double().cpu().numpy() * self.scale

    def dot(self, B: Array) -> Array:
        root = math.sqrt(self.scale)  # half of it on either side, where neither leaves the range of the dtype
        return self.space.get(_rows_times(self.X, self.space.put(B) * root) * root)

    def squared_norms(self) -> Vector:
        total = torch.zeros(self.shape[1], dtype=torch.float64, device=self.device)
        for block in self.X.split(max(1, TILE // max(1, self.shape[1]))):
            total += (block.double() * self.scale).square().sum(0)
        return total.cpu().numpy()

    def digest(self) -> str:
        blocks = row_blocks(self.shape, self.dtype.itemsize)
        return combined(row for at in blocks for row in dense_rows(self.space.get(self.X[at].to(self.working))))

    def sweep(self, W: torch.Tensor, H: torch.Tensor, ask: Ask) -> Sweep:
        check_shapes(self.shape, W, H, ask)
        ask = replace(ask, observed=self.observed) if ask.observed is None else ask
        self.met.add(ask.omega)
        W, H = self.space.put(W.T).T, self.space.put(H)
        if not (self.fused and takes(ask, H.shape[0])):
            with full_precision():
                return sweep_tiles(self, W, H, ask)
        from drnmf.backends.torch.fused import Call, compile_beside, sweep_dense

        weights = None if ask.weights is None else self.space.numbers(ask.weights)
        seen = None if ask.observed is None else pieces(ask.observed.placed(self.beside))
        zero = zero_of(self, ask.omega)
        compile_beside(self, ask.omega, H.shape[0], seen)
        call = Call(kernels_of(ask.omega), weights, ask.losses, self.scale, zero, self.fast, seen)
        losses, N, P = sweep_dense(self.X, W.T, H, call)
        if seen is None:
            P = add_free_parts(P, W, H, ask.omega, weights)
        return with_curvature(self, W, H, ask, Sweep(losses_or_nan(self, ask, losses), N, P))

    def tile(self, columns: slice) -> Tensor:
        # also by one: products of a copy and of a view need not have the same bits
        return self.X[:, columns].to(self.working) * self.scale


def with_curvature(data: Any, W: Tensor, H: Tensor, ask: Ask, sweep: Sweep) -> Sweep:
    """Add the curvature, where it is asked for, by one more pass over the tiles."""
    if ask.curvature is None:
        return sweep
    with full_precision():
        bent = sweep_tiles(data, W, H, replace(ask, parts=None, losses=False))
    P = sweep.P[:0] if ask.shared_alone else sweep.P
    return replace(sweep, P=P, Q=bent.Q, gram=bent.gram)


def losses_or_nan(data: Any, ask: Ask, losses: Tensor | None) -> Any:
    """Return the losses, NaN where they were not asked for."""
    if losses is not None:
        return losses
    return torch.full((len(ask.omega),), float("nan"), dtype=torch.float64, device=data.device)


def _rows_times(X: Tensor, B: Tensor) -> Tensor:
    """X B in B's dtype, a block of rows at a time where X must be cast."""
    with full_precision():
        if X.dtype == B.dtype:
            return X @ B
        return torch.cat([block.to(B.dtype) @ B for block in X.split(max(1, TILE // max(1, X.shape[1])))])


def add_free_parts(P: Tensor, W: Tensor, H: Tensor, omega: Omega, weights: Tensor | None) -> Tensor:
    """Add to P what needs no pass over X: W'1 (every column alike) and (W'W) H.

    P holds the weighted sum in its one slot, or a slot for every loss; in a batch W, H and each slot have an axis of
    runs in front, and a weight may be one for every run.
    """
    for b, loss in enumerate(omega):
        if loss.free_part is None:
            continue
        if loss.free_part == "sums":
            part = W.sum(-2, dtype=torch.float64).to(H.dtype)[..., None]
        else:
            with full_precision():
                part = gram(W).to(H.dtype) @ H
        if weights is None:
            P[b] = part
        else:
            P[0] += weights[b] * part
    return P


def gram(W: Tensor) -> Tensor:
    """W'W in float64."""
    rows = W.double()
    return rows.mT @ rows
