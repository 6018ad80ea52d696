"""Coordinate descent on one curvature for all columns: a program holds its columns in registers through all passes."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import triton
import triton.language as tl

from drnmf.numerics import VANISHED


@triton.jit(do_not_specialize=["n", "r", "passes"])  # another shape is not another kernel
def descent(F, target, G, out, n, r, passes, R: tl.constexpr, B: tl.constexpr):
    """min over h >= floor of 1/2 h'Gh - target'h for B columns of one run, from F.

    F, target, out : (runs, r, n)
    G : (runs, R + 2, R), padded with zeros; its last rows are 1 / G_kk, zero for a component that stays, and the floor
    """
    run = tl.program_id(1).to(tl.int64)
    F += run * r * n
    target += run * r * n
    out += run * r * n
    G += run * (R + 2) * R
    steps = G + R * R
    floor = tl.load(steps + R)
    k, c = tl.arange(0, R), tl.program_id(0) * B + tl.arange(0, B)
    inside = (k[:, None] < r) & (c[None, :] < n)
    at = k[:, None].to(tl.int64) * n + c[None, :]
    h = tl.load(F + at, mask=inside, other=0.0)
    for _ in range(passes):
        beside = target + c  # moved on row by row: a product of row and n may exceed 32 bits
        for row in range(r):
            g = tl.load(G + row * R + k)
            wanted = tl.load(beside, mask=c < n, other=0.0)
            beside += n
            slope = tl.sum(g[:, None] * h, axis=0) - wanted
            here = k[:, None] == row
            now = tl.sum(tl.where(here, h, 0.0), axis=0)
            moved = now - slope * tl.load(steps + row)
            moved = tl.where(moved < floor, floor, moved)  # a NaN stays one
            h = tl.where(here, moved[None, :], h)
    tl.store(out + at, h, mask=inside)


def descend(F: torch.Tensor, target: torch.Tensor, gram: Any, floor: Any, passes: int) -> torch.Tensor:
    """Take passes of coordinate descent from F (r, n) on one curvature for all columns (`updates.steps.shared_step`).

    F and target may be (runs, r, n); floor and gram are then one, or one for every run. gram is a NumPy array, or a
    tensor on the device of F.
    """
    (r, n), columns, runs = F.shape[-2:], 32, F.shape[:-2].numel()
    R = max(2, triton.next_power_of_2(r))
    curvature = torch.as_tensor(gram, device=F.device)
    square = curvature.diagonal(0, -2, -1)
    G = torch.zeros((runs, R + 2, R), dtype=F.dtype, device=F.device)
    G[:, :r, :r] = curvature
    G[:, R, :r] = torch.where(square > VANISHED**2 * square.amax(-1, keepdim=True), 1.0 / square, 0.0)
    G[:, R + 1] = floor.reshape(-1, 1) if isinstance(floor, torch.Tensor) else floor
    F, target, out = F.contiguous(), target.contiguous(), torch.empty_like(F, memory_format=torch.contiguous_format)
    with torch.cuda.device(F.device) if F.is_cuda else nullcontext():
        descent[(triton.cdiv(n, columns), runs)](F, target, G, out, n, r, passes, R=R, B=columns)
    return out
