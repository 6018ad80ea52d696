"""The fused sweep over sparse X, O(nnz r): KL and Frobenius parts and losses from one pass over the non-zeros.

Columns are split into segments of at most `SEGMENT` non-zeros, so that a word of every document keeps no
program waiting. A program gathers the rows of F_L that its segment names, forms v and x/v in registers, and leaves one
partial row; a second kernel adds a column's segments in order, so that results do not change from run to run.
"""

from __future__ import annotations

import triton
import triton.language as tl

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
