"""Coordinate descent on one curvature for all columns: a program holds its columns in registers through all passes."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def descend(
    F, target, G, steps, out, n, r, floor,
    PASSES: tl.constexpr, R: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """min over h >= floor of 1/2 h'Gh - target'h for B columns, from F.

    F, target, out : (r, n); G : (R, R), padded with zeros; steps : (R,), 1 / G_kk, zero for a component that stays
    """
    k, c = tl.arange(0, R), tl.program_id(0) * B + tl.arange(0, B)
    inside = (k[:, None] < r) & (c[None, :] < n)
    at = k[:, None].to(tl.int64) * n + c[None, :]
    h = tl.load(F + at, mask=inside, other=0.0)
    for _ in range(PASSES):
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
