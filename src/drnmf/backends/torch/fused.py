"""How the Triton kernels are called: shapes, splits, pieces, and what is cheaper outside the pass over X.

Nothing here waits for the GPU.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from drnmf.backends.torch.kernels import Kernel
from drnmf.backends.torch.triton_dense import dense_sweep, split_factor
from drnmf.backends.torch.triton_descent import descend as descent
from drnmf.backends.torch.triton_sparse import SEGMENT, add_segments, sparse_sweep
from drnmf.numerics import VANISHED, model_floor, power_ceiling

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
GROUP = 3  # losses of one pass
WAVES = 4  # programs per slot of the GPU: enough that the last wave matters little
SMALL = 1 << 20  # entries of X under which rounding errors do not average out and accuracy costs nothing
SHORT = 256  # rows under which a sum of bfloat16 products does not average its rounding errors out

Tensor: TypeAlias = torch.Tensor


class Blocks(NamedTuple):
    """Sizes of a program: its tile of X, its warps, its copies under way, components of one chunk of N and P.

    registers : of a thread at most; 168 lets three programs run on one processor
    """

    own: int
    other: int
    warps: int
    stages: int
    components: int
    registers: int | None = None


# Chosen on an H200 by trial; by the padded number of components.
BLOCKS = {
    16: Blocks(64, 64, 4, 3, 16, 168),
    32: Blocks(64, 64, 4, 3, 32, 168),
    64: Blocks(64, 64, 4, 3, 64),
    128: Blocks(64, 32, 4, 2, 64),
    256: Blocks(64, 32, 4, 2, 64),
}


@cache
def processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


@cache
def has_tensor_copies(device: torch.device) -> bool:
    """The bulk tensor copies of Hopper and later (the interpreter plays them)."""
    return device.type == "cpu" or torch.cuda.get_device_capability(device)[0] >= 9


def _described(X: Tensor, own_first: bool, block_own: int, block_other: int) -> TensorDescriptor | None:
    """X (L, O) behind a tensor descriptor, or None where its rows do not start at multiples of 16 bytes."""
    matrix, block = (X, [block_other, block_own]) if own_first else (X.T, [block_own, block_other])
    aligned = matrix.data_ptr() % 16 == 0 and matrix.stride(0) * matrix.element_size() % 16 == 0
    if matrix.stride(1) != 1 or not aligned or not has_tensor_copies(X.device):
        return None
    return TensorDescriptor.from_tensor(matrix, block)


def _pieces(F: Tensor, R: int) -> tuple[Tensor, int]:
    """A factor (r, L) as bfloat16 pieces, (3 * padded, R), and the padded length."""
    r, L = F.shape
    padded = triton.cdiv(L, 128) * 128
    pieces = torch.empty((3 * padded, R), dtype=torch.bfloat16, device=F.device)
    block = min(128, max(16, 4096 // R))  # divides the padding
    split_factor[(padded // block,)](F, F.stride(0), pieces, L, r, padded, HARDWARE=not INTERPRETED, R=R, B=block)
    return pieces, padded


def sweep_dense(
    X: Tensor, other: Tensor, own: Tensor, kernels: tuple[Kernel, ...], weights: Tensor | None, parts: bool,
    losses: bool, scale: float, zero: float, fast: bool,
) -> tuple[Tensor | None, Tensor, Tensor]:  # fmt: skip
    """Losses (p,) float64, N and P (slots, r, O) at V = other' own for X (L, O) of any strides; float32 factors.

    kernels : (id, parameter) of every loss
    other : (r, L), own : (r, O); weights : (p,) float32 on the device, or None for every part on its own
    scale : what X is multiplied by;  zero : what a zero of X counts as, 0.0 to leave it
    fast : the precision called "tf32"
    P of beta = 1 and 2 is left at zero here: `completed` adds what needs no pass over X.
    """
    groups = [kernels[i : i + GROUP] for i in range(0, len(kernels), GROUP)]
    found = []
    for g, group in enumerate(groups):
        some = None if weights is None else weights[g * GROUP :]
        found.append(_pass(X, other, own, group, some, parts, losses, scale, zero, fast))
    totals = torch.cat([f[0] for f in found]) if losses else None
    if weights is None or len(found) == 1:
        return totals, torch.cat([f[1] for f in found]), torch.cat([f[2] for f in found])
    return totals, torch.stack([f[1] for f in found]).sum(0), torch.stack([f[2] for f in found]).sum(0)


def _pass(
    X: Tensor, other: Tensor, own: Tensor, kernels: tuple[Kernel, ...], weights: Tensor | None, parts: bool,
    losses: bool, scale: float, zero: float, fast: bool,
) -> tuple[Any, Tensor, Tensor]:  # fmt: skip
    """One pass over X for at most three losses."""
    (L, width), r, device = X.shape, own.shape[0], X.device
    R = max(16, triton.next_power_of_2(r))
    shape = BLOCKS[R]
    block_own, block_other, components = shape.own, shape.other, shape.components
    own_first = X.stride(1) <= X.stride(0)
    blocks, tiles, chunks = triton.cdiv(width, block_own), triton.cdiv(L, block_other), triton.cdiv(r, components)
    splits = max(1, min(tiles // 2, WAVES * 2 * processors(device) // (blocks * chunks)))
    chunk = triton.cdiv(tiles, splits) * block_other
    slots = 0 if not parts else 1 if weights is not None else len(kernels)
    N = torch.empty((splits, slots, r, width), dtype=torch.float32, device=device)
    P = torch.empty_like(N)
    totals = torch.empty((len(kernels), blocks * splits), dtype=torch.float64, device=device)
    pieces, padded = _pieces(other, R)
    described = _described(X, own_first, block_own, block_other)
    tma = described is not None
    accurate = not fast or L < SHORT
    ids, parameters = zip(*kernels, *[(0.0, 0.0)] * (GROUP - len(kernels)), strict=True)
    ceiling = power_ceiling("float32")
    known = all(b in {1.0, 2.0} for b, _ in kernels)  # their P needs no pass over X
    dense_sweep[(blocks, splits, chunks)](
        described if tma else X, X.stride(1), X.stride(0), own, own.stride(0),
        TensorDescriptor.from_tensor(pieces, [block_other, R]) if tma else pieces,
        TensorDescriptor.from_tensor(pieces, [block_other, components]) if tma else pieces,
        padded, totals if weights is None else weights, N, P, totals, width, L, r, r * width, chunk,
        1.0, model_floor("float32"), ceiling, scale, zero, *(min(a, ceiling) for a in parameters),
        B0=ids[0], B1=ids[1], B2=ids[2], COUNT=len(kernels),
        PARTS=parts, WEIGHTED=weights is not None, POSITIVE=not known, LOSSES=losses,
        ZEROS=zero != 0.0, MASK=L % block_other != 0, SMALL=X.numel() < SMALL, EXACT=accurate, ACCURATE=accurate,
        HARDWARE=not INTERPRETED, TMA=tma, OWN_FIRST=own_first,
        R=R, RC=components, BO=block_own, BL=block_other, STAGES=shape.stages,
        num_warps=shape.warps, num_stages=shape.stages, maxnreg=shape.registers,
    )  # fmt: skip
    if splits == 1:
        return totals.sum(1), N[0], P[0]
    return totals.sum(1), N.sum(0), P.sum(0)


def rows_of(F: Tensor, R: int) -> Tensor:
    """A factor (r, L) as (L, R): the components of an entry side by side, and rows that start on whole sectors."""
    return torch.nn.functional.pad(F.T, (0, R - F.shape[0])).contiguous()


def sweep_nonzeros(
    compressed: Any, other: Tensor, own: Tensor, betas: tuple[float, ...], weights: Tensor | None, parts: bool,
    losses: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Sums over the non-zeros, (3,) float64 (see `triton_sparse.sparse_sweep`), and N (slots, r, O)."""
    segments, (r, width) = compressed.segments, own.shape
    R = max(2, triton.next_power_of_2(r))
    count = segments.starts.shape[0]
    kl, frobenius = 1.0 in betas, 2.0 in betas
    slots = 0 if not parts else 1 if weights is not None else len(betas)
    partial = torch.empty((max(slots, 1), count, R), dtype=own.dtype, device=own.device)
    sums = torch.zeros((3, count), dtype=torch.float64, device=own.device)
    if weights is not None:  # (w1, w2) whatever the order and number of betas
        pair = [weights[betas.index(b)] if b in betas else torch.zeros_like(weights[0]) for b in (1.0, 2.0)]
        weights = torch.stack(pair).to(own.dtype)
    dtype = str(own.dtype).removeprefix("torch.")
    sparse_sweep[(count,)](
        compressed.values, compressed.indices, segments.starts, segments.ends, segments.columns,
        rows_of(own, R), rows_of(other, R),
        sums if weights is None else weights, partial[betas.index(1.0) if kl and slots > 1 else 0],
        partial[betas.index(2.0) if frobenius and slots > 1 else 0], sums, count,
        KL=kl, FROBENIUS=frobenius, PARTS=parts, WEIGHTED=weights is not None, LOSSES=losses,
        FLOOR=model_floor(dtype), CEILING=power_ceiling(dtype), R=R, B=max(16, min(64, 2048 // R)), num_warps=2,
    )  # fmt: skip
    N = torch.empty((slots, r, width), dtype=own.dtype, device=own.device)
    for slot in range(slots):
        add_segments[(triton.cdiv(width, 32),)](partial[slot], segments.first, N[slot], width, r, R=R, B=32)
    return sums.sum(1), N


__all__ = ["INTERPRETED", "SEGMENT", "sweep_dense", "sweep_nonzeros"]


def descend(F: Tensor, target: Tensor, gram: Any, floor: float, passes: int) -> Tensor:
    """Take passes of coordinate descent from F (r, n) on one curvature for all columns (`backends.steps.shared_step`).

    Parameters
    ----------
    gram : (r, r), a NumPy array or a tensor on the device of F
    """
    (r, n), columns = F.shape, 32
    R = max(2, triton.next_power_of_2(r))
    curvature = torch.as_tensor(gram, device=F.device)
    square = curvature.diagonal()
    G = torch.zeros((R + 1, R), dtype=F.dtype, device=F.device)
    G[:r, :r] = curvature
    G[R, :r] = torch.where(square > VANISHED**2 * square.max(), 1.0 / square, 0.0)
    F, target, out = F.contiguous(), target.contiguous(), torch.empty_like(F, memory_format=torch.contiguous_format)
    with torch.cuda.device(F.device) if F.is_cuda else nullcontext():
        descent[(triton.cdiv(n, columns),)](F, target, G, G[R], out, n, r, floor, PASSES=passes, R=R, B=columns)
    return out
