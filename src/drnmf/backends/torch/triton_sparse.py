"""The fused sweep over sparse X, O(nnz r): KL and Frobenius parts and losses from one pass over the non-zeros.

Columns are split into segments of at most `SEGMENT` non-zeros, so that a word of every document keeps no
program waiting. A program gathers the rows of F_L that its segment names, forms v and x/v in registers, and leaves one
partial row; a second kernel adds a column's segments in order, so that results do not change from run to run.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from drnmf.numerics import model_floor, power_ceiling

SEGMENT = 1024


@triton.jit
def sparse_sweep(
    values, indices, starts, ends, columns, own, other, weights, N1, N2, losses, segments,
    KL: tl.constexpr, FROBENIUS: tl.constexpr, PARTS: tl.constexpr, WEIGHTED: tl.constexpr, LOSSES: tl.constexpr,
    FLOOR: tl.constexpr, CEILING: tl.constexpr, R: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """own (O, R) and other (L, R): factors with the components of an entry side by side, padded with zeros to R.

    N1, N2 : (segments, R), W'(X/V) and W'X of a segment; WEIGHTED puts w1 N1 + w2 N2 into N1
    losses : (3, segments) float64: sum x log(x/v) - x, sum (x - v)^2, sum v^2
    """
    segment = tl.program_id(0)
    k, lane = tl.arange(0, R), tl.arange(0, B)
    start, end = tl.load(starts + segment), tl.load(ends + segment)
    h = tl.load(own + tl.load(columns + segment).to(tl.int64) * R + k)
    n1 = tl.zeros((R,), h.dtype)
    n2 = tl.zeros((R,), h.dtype)
    kl = tl.zeros((B,), tl.float64)
    squares, model = kl, kl
    if WEIGHTED:
        w1, w2 = tl.load(weights), tl.load(weights + 1)
    for at in tl.range(start, end, B):
        inside = at + lane < end
        x = tl.load(values + at + lane, mask=inside, other=0.0)
        row = tl.load(indices + at + lane, mask=inside, other=0).to(tl.int64)
        w = tl.load(other + row[:, None] * R + k[None, :], mask=inside[:, None], other=0.0)
        v = tl.maximum(tl.sum(w * h[None, :], axis=1), FLOOR)
        ratio = x / v
        if PARTS:
            e = tl.minimum(ratio, CEILING)
            if WEIGHTED:
                e = w1 * e + w2 * x
            if WEIGHTED or KL:
                n1 += tl.sum(w * e[:, None], axis=0)
            if FROBENIUS and not WEIGHTED:
                n2 += tl.sum(w * x[:, None], axis=0)
        if LOSSES:
            if KL:
                log_ratio = tl.log(tl.where(inside, ratio, 1.0))
                kl += tl.where(inside, x * log_ratio - x, 0.0).to(tl.float64)
            if FROBENIUS:
                squares += tl.where(inside, (x - v) * (x - v), 0.0).to(tl.float64)
                model += tl.where(inside, v * v, 0.0).to(tl.float64)
    if PARTS:
        if WEIGHTED or KL:
            tl.store(N1 + segment.to(tl.int64) * R + k, n1)
        if FROBENIUS and not WEIGHTED:
            tl.store(N2 + segment.to(tl.int64) * R + k, n2)
    if LOSSES:
        tl.store(losses + segment, tl.sum(kl, axis=0))
        tl.store(losses + segments + segment, tl.sum(squares, axis=0))
        tl.store(losses + 2 * segments + segment, tl.sum(model, axis=0))


@triton.jit
def add_segments(partial, first, N, O, r, R: tl.constexpr, B: tl.constexpr):
    """N (r, O): the partial rows of every column's segments, added in order."""
    o, k = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, R)
    inside = o < O
    begin = tl.load(first + o, mask=inside, other=0)
    count = tl.load(first + o + 1, mask=inside, other=0) - begin
    total = tl.zeros((B, R), partial.dtype.element_ty)
    for s in range(tl.max(count, axis=0)):
        at = (begin + s)[:, None].to(tl.int64) * R + k[None, :]
        total += tl.load(partial + at, mask=(s < count)[:, None], other=0.0)
    keep = inside[:, None] & (k[None, :] < r)
    tl.store(N + k[None, :].to(tl.int64) * O + o[:, None], total, mask=keep)


def rows_of(F: torch.Tensor, R: int) -> torch.Tensor:
    """A factor (r, L) as (L, R): the components of an entry side by side, and rows that start on whole sectors."""
    return torch.nn.functional.pad(F.T, (0, R - F.shape[0])).contiguous()


def sweep_nonzeros(
    compressed: Any, other: torch.Tensor, own: torch.Tensor, betas: tuple[float, ...], weights: torch.Tensor | None,
    parts: bool, losses: bool,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
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
