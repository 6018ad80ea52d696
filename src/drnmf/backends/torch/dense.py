"""X on a device of PyTorch: one fused pass on a CUDA card with Triton, plain torch, tile by tile, elsewhere.

Factors and parts stay on the device, and sweeps return before they are done: `read` is the one place that waits.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from drnmf.backends.base import Sweep
from drnmf.backends.digest import combined, dense_rows, row_blocks
from drnmf.backends.torch.tiles import TILE, full_precision, numpy_name, tile_curvature, tile_sweep
from drnmf.numerics import Array, Vector, zero_floor

if TYPE_CHECKING:
    from drnmf.algorithms.iteration import Iteration

logger = logging.getLogger("drnmf")
Tensor: TypeAlias = torch.Tensor
PRECISIONS = ("float32", "tf32")
_WORKING = {torch.float64: torch.float64} | dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), torch.float32)


@cache
def fused_available(kind: str) -> bool:
    """Whether the Triton kernels run on devices of this kind; said once in the log where they do not."""
    try:
        from drnmf.backends.torch.fused import INTERPRETED
    except ImportError as error:
        if kind == "cuda":
            logger.warning("Triton is not available (%s): plain PyTorch is used on the card, which is slower.", error)
        return False
    return kind == "cuda" or INTERPRETED


def check_shapes(shape: tuple[int, int], W: Any, H: Any, betas: tuple[float, ...], mix: Vector) -> None:
    """Factors that fit X, and a mix with a column for every beta."""
    (m, n), r = shape, H.shape[0]
    if tuple(W.shape) != (m, r) or tuple(H.shape) != (r, n):
        raise ValueError(f"W {tuple(W.shape)} and H {tuple(H.shape)} do not fit X {shape}.")
    if mix.ndim != 2 or mix.shape[1] != len(betas):
        raise ValueError(f"mix has shape {mix.shape}: it needs one column for each of {len(betas)} betas.")


class OnTorch:
    """What every Data does whose factors are torch tensors on one device."""

    @property
    def device(self) -> torch.device:
        raise NotImplementedError

    @property
    def working(self) -> torch.dtype:
        """dtype of the factors."""
        raise NotImplementedError

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(numpy_name(self.working))

    @property
    def deferred(self) -> bool:
        return self.device.type == "cuda"

    def read(self, *sweeps: Sweep) -> tuple[Sweep, ...]:
        """One copy to the host, and one wait, for all of them."""
        if all(isinstance(sweep.losses, np.ndarray) for sweep in sweeps):
            return sweeps
        together = torch.cat([sweep.losses for sweep in sweeps]).cpu().numpy()
        p = together.shape[0] // len(sweeps)
        return tuple(replace(sweep, losses=together[i * p : (i + 1) * p]) for i, sweep in enumerate(sweeps))

    def put(self, F: Any) -> Any:
        if isinstance(F, torch.Tensor):
            return F.to(self.device, self.working).contiguous()
        return torch.as_tensor(np.ascontiguousarray(F)).to(self.device, self.working)

    def total(self, function: Any, F: Any, sweep: Sweep | None = None) -> Vector:
        return function(F, *(() if sweep is None else (sweep.N, sweep.P)))

    def get(self, F: Any) -> Array:
        return F.detach().cpu().numpy() if isinstance(F, torch.Tensor) else F

    def lift(self, rule: Any) -> Any:
        """The default rule keeps to its extrapolated steps on a card: there the curvature is a pass of its own, and
        costs more than it saves. A rule that asks for Newton steps at any rank gets them.
        """
        from drnmf.algorithms.updates.newton import Newton

        if self.device.type == "cuda" and isinstance(rule, Newton) and rule.largest_rank is not None:
            return rule.first
        return rule

    @cached_property
    def tapes(self) -> dict[Any, Any]:
        """Recorded iterations, by what they depend on."""
        return {}

    def numbers(self, values: Any) -> Tensor:
        """A few numbers on the device in the factors' dtype, without waiting for it."""
        held = torch.as_tensor(np.ascontiguousarray(values)).to(self.working)
        return held.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else held


def moments(X: Tensor) -> tuple[float, int]:
    """Sum of all entries in float64 and the number of zeros, a bounded block of rows at a time."""
    rows = max(1, TILE * 16 // max(1, X.shape[1]))
    total = torch.zeros((), dtype=torch.float64, device=X.device)
    held = torch.zeros((), dtype=torch.int64, device=X.device)
    for block in X.split(rows):
        total += block.sum(dtype=torch.float64)
        held += torch.count_nonzero(block)
    return float(total), X.numel() - int(held)


@dataclass(frozen=True)
class TorchDense(OnTorch):
    """Dense X of any strides, in float64, float32 or half precision; never copied, T is a view.

    fast : the fused sweep may use single bfloat16 products in its sums ("tf32")
    fused : Triton rather than plain torch
    """

    X: Tensor
    mean: float
    zeros: int
    fast: bool = False
    fused: bool = False

    @classmethod
    def of(cls, X: Any, mean: float | None = None, precision: str = "float32", fused: bool | None = None) -> TorchDense:
        held = X if isinstance(X, torch.Tensor) else torch.as_tensor(X)
        if precision not in PRECISIONS:
            raise ValueError(f"precision={precision!r} is not known: use one of {list(PRECISIONS)}.")
        if held.dtype not in _WORKING:
            raise ValueError(f"X has dtype {held.dtype}: use float32, float64, float16 or bfloat16.")
        total, zeros = moments(held)
        usable = held.dtype != torch.float64 and fused_available(held.device.type)
        own = total / max(1, held.numel()) if mean is None else mean
        return cls(held, own, zeros, precision == "tf32", usable if fused is None else fused)

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1]

    @property
    def device(self) -> torch.device:
        return self.X.device

    @property
    def working(self) -> torch.dtype:
        return _WORKING[self.X.dtype]

    @cached_property
    def T(self) -> TorchDense:
        return replace(self, X=self.X.T)

    def column(self, j: int) -> Vector:
        return self.X[:, j].double().cpu().numpy()

    def dot(self, B: Array) -> Array:
        return self.get(_rows_times(self.X, self.put(B)))

    def squared_norms(self) -> Vector:
        total = torch.zeros(self.shape[1], dtype=torch.float64, device=self.device)
        for block in self.X.split(max(1, TILE // max(1, self.shape[1]))):
            total += block.double().square().sum(0)
        return total.cpu().numpy()

    def digest(self) -> str:
        blocks = row_blocks(self.shape, self.dtype.itemsize)
        return combined(row for at in blocks for row in dense_rows(self.get(self.X[at].to(self.working))))

    def sweep(
        self, W: Any, H: Any, betas: tuple[float, ...], mix: Vector, losses: bool = True,
        curvature: Vector | None = None,
    ) -> Sweep:  # fmt: skip
        check_shapes(self.shape, W, H, betas, mix)
        W, H = self.put(W.T).T, self.put(H)
        if self.fused and H.shape[0] <= _most_components():
            sweep = self._fused(W, H, betas, mix, losses)
        else:
            sweep = sweep_tiles(self, W, H, betas, mix, losses)
        return sweep if curvature is None else replace(sweep, Q=curvature_tiles(self, W, H, betas, curvature))

    def tile(self, J: slice) -> Tensor:
        return self.X[:, J]

    def _fused(self, W: Any, H: Any, betas: tuple[float, ...], mix: Vector, losses: bool) -> Sweep:
        q = mix.shape[0]
        weights = self.numbers(mix[0]) if q == 1 else None
        return finished(self, betas, mix, *self.pass_over(W, H, betas, weights, q > 0, losses))

    def pass_over(
        self, W: Tensor, H: Tensor, betas: tuple[float, ...], weights: Tensor | None, parts: bool, losses: bool
    ) -> tuple[Tensor | None, Tensor, Tensor]:
        """Losses, N and P of the fused sweep, under weights that are on the device; nothing waits."""
        from drnmf.backends.torch.fused import sweep_dense

        totals, N, P = sweep_dense(self.X, W.T, H, betas, weights, parts, losses, zero_of(self, betas), self.fast)
        return totals, N, add_cheap(P, W, H, betas, weights) if parts else P

    def record(self, iteration: Iteration) -> Any:
        return record(self, iteration)


def _most_components() -> int:
    from drnmf.backends.torch.fused import MOST_COMPONENTS

    return MOST_COMPONENTS


def record(data: Any, iteration: Iteration) -> Any:
    """The iteration as a replayed graph, where a card and a fused sweep make that possible."""
    if data.device.type != "cuda" or not data.fused or iteration.point.A.shape[0] > _most_components():
        return None
    from drnmf.backends.torch.graph import replay

    return replay(data, iteration)


def _rows_times(X: Tensor, B: Tensor) -> Tensor:
    """X B in B's dtype, a block of rows at a time where X must be cast."""
    with full_precision():
        if X.dtype == B.dtype:
            return X @ B
        return torch.cat([block.to(B.dtype) @ B for block in X.split(max(1, TILE // max(1, X.shape[1])))])


def add_cheap(P: Tensor, W: Tensor, H: Tensor, betas: tuple[float, ...], weights: Tensor | None) -> Tensor:
    """P with what needs no pass over X: P_1 = W'1 (every column alike), P_2 = (W'W) H.

    P holds the weighted sum in its one slot, or a slot for every beta.
    """
    for b, beta in enumerate(betas):
        if beta not in (1.0, 2.0):
            continue
        if beta == 1.0:
            part = W.sum(0, dtype=torch.float64).to(H.dtype)[:, None]
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
    return rows.T @ rows


def finished(
    data: OnTorch, betas: tuple[float, ...], mix: Vector, totals: Tensor | None, N: Tensor, P: Tensor
) -> Sweep:
    """A Sweep from parts on their own, mixed where the mix is neither one row nor the identity."""
    if totals is None:
        totals = torch.full((len(betas),), float("nan"), dtype=torch.float64, device=data.device)
    q, p = mix.shape
    if q > 1 and not (q == p and np.array_equal(mix, np.eye(p))):
        rows = data.numbers(mix)
        N, P = torch.tensordot(rows, N, 1), torch.tensordot(rows, P, 1)
    return Sweep(totals, N, P)


def _tiles(data: Any) -> list[slice]:
    """Columns of X in runs that keep V within TILE entries."""
    m, n = data.shape
    width = max(1, TILE // m)
    return [slice(first, min(first + width, n)) for first in range(0, n, width)]


def zero_of(data: Any, betas: tuple[float, ...]) -> float:
    """What a zero of X counts as; 0.0 where it stays."""
    return zero_floor(data.mean) if 0.0 in betas and data.zeros else 0.0


def sweep_tiles(data: Any, W: Tensor, H: Tensor, betas: tuple[float, ...], mix: Vector, losses: bool) -> Sweep:
    """All tiles of X, left to right, in plain torch: columns of N and P belong to one tile, losses add up in order."""
    rows, zero = data.numbers(mix), zero_of(data, betas)
    with full_precision():
        found = [tile_sweep(data.tile(J), W, H[:, J], betas, rows, losses, zero) for J in _tiles(data)]
    totals = torch.stack([f[0] for f in found]).sum(0)
    return Sweep(totals, torch.cat([f[1] for f in found], 2), torch.cat([f[2] for f in found], 2))


def curvature_tiles(data: Any, W: Tensor, H: Tensor, betas: tuple[float, ...], curvature: Vector) -> Any:
    """Q (r (r + 1) / 2, n), packed by rows, in plain torch: one more pass over X, for rules that ask for it."""
    k, l = np.tril_indices(H.shape[0])
    pairs, c, zero = W[:, k] * W[:, l], data.numbers(curvature), zero_of(data, betas)
    with full_precision():
        return torch.cat([tile_curvature(data.tile(J), W, pairs, H[:, J], betas, c, zero) for J in _tiles(data)], 1)
