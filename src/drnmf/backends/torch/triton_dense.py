"""The fused sweep over dense X: tiles of V, of the losses and of the parts live in registers only.

A program owns BO entries of one side of X ("own": columns of X for the parts of H, rows for those of W - the strides
say which) and walks along the other side L, BL at a time:

    V = F_O F_L'        E = V^(b-2) X, V^(b-1) elementwise        acc += E F_L

which is the shape of attention with keys = values = F_L. A factor entry is stored as bfloat16 pieces hi + mid + lo of 8
bits each: three products of pieces leave a relative error of 2^-17, six leave 2^-23, all at the speed of bfloat16, and
the tile that one product leaves in registers is the operand of the next.
"""

from __future__ import annotations

import triton
import triton.language as tl

from drnmf.backends.torch.triton_terms import log_of, loss_term, negative, positive, reciprocal

LARGEST = tl.constexpr(3.4028235e38)  # of float32: what is above it, or no number, is not observed


@triton.jit
def piece_of(f, HARDWARE: tl.constexpr):
    """f rounded to bfloat16, to nearest (the interpreter would truncate, so it rounds the bits first)."""
    if HARDWARE:
        return f.to(tl.bfloat16)
    bits = f.to(tl.int32, bitcast=True)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & -65536
    return bits.to(tl.float32, bitcast=True).to(tl.bfloat16)


# Two entries at a time: one at a time the conversions would go to the unit of reciprocals and logarithms.
TWO_PIECES = tl.constexpr("""{
    .reg .b32 low, high;
    .reg .f32 a, b;
    cvt.rn.bf16x2.f32 $0, $3, $2;
    shl.b32 low, $0, 16;
    and.b32 high, $0, 0xffff0000;
    mov.b32 a, low;
    mov.b32 b, high;
    sub.f32 a, $2, a;
    sub.f32 b, $3, b;
    cvt.rn.bf16x2.f32 $1, b, a;
}""")


@triton.jit
def two_pieces(f, HARDWARE: tl.constexpr):
    """f as the first two of its bfloat16 pieces."""
    if HARDWARE:
        kinds: tl.constexpr = (tl.bfloat16, tl.bfloat16)
        return tl.inline_asm_elementwise(TWO_PIECES, "=&r,=r,f,f", [f], dtype=kinds, is_pure=True, pack=2)
    hi = piece_of(f, HARDWARE)
    return hi, piece_of(f - hi.to(tl.float32), HARDWARE)


@triton.jit(do_not_specialize=["stride", "L", "r", "shift"])
def split_factor(F, stride, pieces, L, r, shift, padded, HARDWARE: tl.constexpr, R: tl.constexpr, B: tl.constexpr):
    """A factor (r, L) as its three bfloat16 pieces, (3, padded, R), from row `shift` on; all else is zero.

    grid : (blocks of rows, runs), each run with a factor of its own behind the one before
    """
    run = tl.program_id(1).to(tl.int64)
    F += run * r * stride
    pieces += run * 3 * padded * R
    at, k = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, R)
    l = at - shift
    inside = (l[:, None] >= 0) & (l[:, None] < L) & (k[None, :] < r)
    f = tl.load(F + k[None, :].to(tl.int64) * stride + l[:, None], mask=inside, other=0.0)
    at = at[:, None].to(tl.int64) * R + k[None, :]
    for piece in tl.static_range(3):
        part = piece_of(f, HARDWARE)
        tl.store(pieces + piece * padded * R + at, part)
        f -= part.to(tl.float32)


@triton.jit
def product(a, b, acc, HARDWARE: tl.constexpr):
    """a b + acc for bfloat16 pieces (the interpreter cannot multiply bfloat16; float32 holds the same products)."""
    if HARDWARE:
        return tl.dot(a, b, acc)
    return tl.dot(a.to(tl.float32), b.to(tl.float32), acc, input_precision="ieee")


@triton.jit
def tile_product(E, hi, mid, EXACT: tl.constexpr, SMALL: tl.constexpr, HARDWARE: tl.constexpr):
    """E F_L of one tile: one bfloat16 product, or three (four where X is small)."""
    total = tl.zeros((E.shape[0], hi.shape[1]), tl.float32)
    if not EXACT:
        return product(piece_of(E, HARDWARE), hi, total, HARDWARE)
    e_hi, e_mid = two_pieces(E, HARDWARE)
    if SMALL:
        total = product(e_mid, mid, total, HARDWARE)
    total = product(e_mid, hi, total, HARDWARE)
    total = product(e_hi, mid, total, HARDWARE)
    return product(e_hi, hi, total, HARDWARE)


@triton.jit
def added(acc, total, one):
    """acc + total, rounded.

    The tensor cores round towards zero each time they add to their accumulator, so a long sum drifts (2e-4 over 65536
    rows). A tile's product therefore starts from zero and is added by an ordinary addition: `one` is 1.0 at run time,
    which keeps the compiler from folding that addition back into the product.
    """
    return tl.fma(total, one, acc)


@triton.jit
def add_parts(
    n, p, x, m, v, rv, ratio, log_v, hi, mid, one, ceiling, parameter, BETA: tl.constexpr,
    OBSERVED: tl.constexpr, EXACT: tl.constexpr, SMALL: tl.constexpr, HARDWARE: tl.constexpr,
):  # fmt: skip
    """N and P of a loss with those of one tile; without weights P of beta = 1 and 2 is added elsewhere."""
    E = negative(x, v, rv, ratio, log_v, BETA, ceiling)
    if OBSERVED:
        E *= m
    n = added(n, tile_product(E, hi, mid, EXACT, SMALL, HARDWARE), one)
    if OBSERVED or (BETA != 1.0 and BETA != 2.0):
        E = positive(x, v, rv, log_v, BETA, ceiling, parameter)
        if OBSERVED:
            E *= m
        p = added(p, tile_product(E, hi, mid, EXACT, SMALL, HARDWARE), one)
    return n, p


@triton.jit
def add_loss(
    total, x, m, v, rv, ratio, log_ratio, inside, parameter, BETA: tl.constexpr,
    OBSERVED: tl.constexpr, MASK: tl.constexpr, ACCURATE: tl.constexpr, HARDWARE: tl.constexpr,
):  # fmt: skip
    """A tile's loss, summed in float32 along L, added in float64."""
    term = loss_term(x, v, rv, ratio, log_ratio, parameter, BETA, ACCURATE, HARDWARE)
    if OBSERVED:
        term *= m
    elif MASK:
        term = tl.where(inside, term, 0.0)
    return total + tl.sum(term, axis=1).to(tl.float64)


# another shape of X is not another kernel
@triton.jit(do_not_specialize=["shift", "O", "L", "r", "plane", "blocks", "x_plane", "weight_stride", "classes"])
def dense_sweep(
    X, shift, stride_o, stride_l, own, own_stride, pieces, pieces_out, padded, weights, N, P, losses, O, L, r, plane,
    blocks, x_plane, weight_stride, chunk, one, floor, ceiling, scale, zero, a0, a1, a2,
    values, value_o, value_l, rows, columns, row_class, column_class, classes,
    OBSERVED: tl.constexpr, VALUES: tl.constexpr, OUTER: tl.constexpr, HIDDEN: tl.constexpr,
    B0: tl.constexpr, B1: tl.constexpr, B2: tl.constexpr, COUNT: tl.constexpr,
    WEIGHTED: tl.constexpr, POSITIVE: tl.constexpr, LOSSES: tl.constexpr,
    ZEROS: tl.constexpr, MASK: tl.constexpr, SMALL: tl.constexpr, EXACT: tl.constexpr, ACCURATE: tl.constexpr,
    HARDWARE: tl.constexpr, TMA: tl.constexpr, OWN_FIRST: tl.constexpr, RUNS: tl.constexpr,
    R: tl.constexpr, RC: tl.constexpr, BO: tl.constexpr, BL: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Partial N and P (splits, slots, r, O) and losses (COUNT, programs) of up to three losses.

    grid : (blocks of O, splits of L, chunks of RC components)
    X, pieces, pieces_out : tensor descriptors under TMA, pointers elsewhere; OWN_FIRST says that O is contiguous in X
    shift : where X begins along the contiguous side of its descriptor; along L it is counted in L and in the pieces
    WEIGHTED : one slot, the sum of the parts under `weights`; POSITIVE : P needs a product (not beta 1, 2 alone)
    B0, B1, B2 : beta, or the id of another family (kernels.py), whose parameter is a0, a1, a2
    RUNS : several runs, whose blocks follow one another: factors, parts and losses have an axis of runs in front, and
        so have X where x_plane is not zero, and the weights where weight_stride is not
    OBSERVED : entries that are not finite do not count, and the others as much as their weights say: VALUES has one for
        each (under 2 behind a descriptor, as X is), OUTER one for each row (L) times one for each column (O), and
        HIDDEN leaves out those whose classes add up to a multiple of `classes`, or under 2 all others
    """
    block, split, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    row = split  # of the parts and losses of this program
    if RUNS:
        run = (block // blocks).to(tl.int64)
        block = block % blocks
        row = run * tl.num_programs(1) + split
        X += run * x_plane
        own += run * r * own_stride
        pieces += run * 3 * padded * R
        pieces_out += run * 3 * padded * R
        weights += run * weight_stride
    o = block * BO + tl.arange(0, BO)
    if OWN_FIRST:
        o -= shift
    owned = (o >= 0) & (o < O)
    o_in = tl.minimum(tl.maximum(o, 0), O - 1).to(tl.int64)  # the others repeat an entry; nothing of them is stored
    k, kc, lr = tl.arange(0, R), part * RC + tl.arange(0, RC), tl.arange(0, BL)
    f = tl.load(own + k[None, :].to(tl.int64) * own_stride + o_in[:, None], mask=k[None, :] < r, other=0.0)
    o_hi = piece_of(f, HARDWARE)
    f -= o_hi.to(tl.float32)
    o_mid = piece_of(f, HARDWARE)
    o_lo = piece_of(f - o_mid.to(tl.float32), HARDWARE)
    n0 = tl.zeros((BO, RC), tl.float32)
    n1, n2, p0, p1, p2 = n0, n0, n0, n0, n0
    loss0 = tl.zeros((BO,), tl.float64)
    loss1, loss2 = loss0, loss0
    w0 = 1.0
    w1, w2 = w0, w0
    if WEIGHTED:
        w0 = tl.load(weights)
        if COUNT > 1:
            w1 = tl.load(weights + 1)
        if COUNT > 2:
            w2 = tl.load(weights + 2)
    if OUTER:
        column = tl.load(columns + o_in)
    if HIDDEN:
        hides = tl.load(column_class + o_in).to(tl.int32)
        hides = (classes - hides) % classes  # the class of rows whose entries are left out
    first = split * chunk
    last = tl.minimum(first + chunk, L)
    if not TMA:
        l64 = (first + lr).to(tl.int64)
        if OWN_FIRST:
            x_at = X + l64[:, None] * stride_l + o_in[None, :] * stride_o
        else:
            x_at = X + o_in[:, None] * stride_o + l64[None, :] * stride_l
        piece_at = pieces + l64[:, None] * R + k[None, :]
        out_at = pieces_out + l64[:, None] * R + kc[None, :]
    for start in tl.range(first, last, BL, num_stages=STAGES):
        inside = (start + lr)[None, :] < last
        if not OWN_FIRST:
            inside &= (start + lr)[None, :] >= shift
        if TMA:
            hi, mid = pieces.load([start, 0]), pieces.load([padded + start, 0])
            if OWN_FIRST:
                x = tl.trans(X.load([start, block * BO]))
            else:
                x = X.load([block * BO, start])
        else:
            hi, mid = tl.load(piece_at), tl.load(piece_at + padded * R)
            if OWN_FIRST:
                x = tl.trans(tl.load(x_at, mask=(start + lr)[:, None] < last, other=0.0))
            else:
                x = tl.load(x_at, mask=inside, other=0.0)
        x = x.to(tl.float32)
        if OBSERVED:
            m = tl.where(inside & (tl.abs(x) <= LARGEST), 1.0, 0.0)
            l = (start + lr).to(tl.int64)
            if not OWN_FIRST:
                l -= shift
            in_l = (l >= 0) & (start + lr < last)
            if OUTER:
                m *= tl.load(rows + l, mask=in_l, other=0.0)[None, :] * column[:, None]
            if VALUES == 2:
                if OWN_FIRST:
                    m *= tl.trans(values.load([start, block * BO])).to(tl.float32)
                else:
                    m *= values.load([block * BO, start]).to(tl.float32)
            elif VALUES:
                at_m = values + o_in[:, None] * value_o + l[None, :] * value_l
                m *= tl.load(at_m, mask=in_l[None, :], other=0.0).to(tl.float32)
            if HIDDEN:
                hidden = tl.load(row_class + l, mask=in_l, other=0).to(tl.int32)[None, :] == hides[:, None]
                m = tl.where(hidden == (HIDDEN == 2), m, 0.0)
        else:
            m = 1.0
        x *= scale
        v = tl.zeros((BO, BL), tl.float32)
        if SMALL:  # small products first: they are added where the accumulator still has their digits
            if TMA:
                lo = pieces.load([2 * padded + start, 0])
            else:
                lo = tl.load(piece_at + 2 * padded * R)
            v = product(o_lo, tl.trans(hi), v, HARDWARE)
            v = product(o_hi, tl.trans(lo), v, HARDWARE)
            v = product(o_mid, tl.trans(mid), v, HARDWARE)
        v = product(o_mid, tl.trans(hi), v, HARDWARE)
        v = product(o_hi, tl.trans(mid), v, HARDWARE)
        v = product(o_hi, tl.trans(hi), v, HARDWARE)
        v = tl.maximum(v, floor)
        if ZEROS:
            x = tl.where(x == 0.0, zero, x)
        if OBSERVED:
            x = tl.where(m > 0.0, x, v)  # finite terms, whatever their weight of zero is multiplied by
        rv = reciprocal(v, HARDWARE)
        ratio = tl.minimum(x * rv, ceiling)
        log_v = log_of(v, ACCURATE, HARDWARE)  # used by general betas alone, and dropped by the compiler elsewhere
        if LOSSES:
            log_ratio = log_of(ratio, ACCURATE, HARDWARE)
            loss0 = add_loss(loss0, x, m, v, rv, ratio, log_ratio, inside, a0, B0, OBSERVED, MASK, ACCURATE, HARDWARE)
            if COUNT > 1:
                loss1 = add_loss(
                    loss1, x, m, v, rv, ratio, log_ratio, inside, a1, B1, OBSERVED, MASK, ACCURATE, HARDWARE
                )
            if COUNT > 2:
                loss2 = add_loss(
                    loss2, x, m, v, rv, ratio, log_ratio, inside, a2, B2, OBSERVED, MASK, ACCURATE, HARDWARE
                )
        if RC != R:
            if TMA:
                hi, mid = pieces_out.load([start, part * RC]), pieces_out.load([padded + start, part * RC])
            else:
                hi, mid = tl.load(out_at), tl.load(out_at + padded * R)
        if WEIGHTED:
            E = w0 * negative(x, v, rv, ratio, log_v, B0, ceiling)
            if COUNT > 1:
                E += w1 * negative(x, v, rv, ratio, log_v, B1, ceiling)
            if COUNT > 2:
                E += w2 * negative(x, v, rv, ratio, log_v, B2, ceiling)
            if OBSERVED:
                E *= m
            n0 = added(n0, tile_product(E, hi, mid, EXACT, SMALL, HARDWARE), one)
            if POSITIVE:
                E = tl.zeros((BO, BL), tl.float32)
                if OBSERVED or (B0 != 1.0 and B0 != 2.0):
                    E += w0 * positive(x, v, rv, log_v, B0, ceiling, a0)
                if COUNT > 1 and (OBSERVED or (B1 != 1.0 and B1 != 2.0)):
                    E += w1 * positive(x, v, rv, log_v, B1, ceiling, a1)
                if COUNT > 2 and (OBSERVED or (B2 != 1.0 and B2 != 2.0)):
                    E += w2 * positive(x, v, rv, log_v, B2, ceiling, a2)
                if OBSERVED:
                    E *= m
                p0 = added(p0, tile_product(E, hi, mid, EXACT, SMALL, HARDWARE), one)
        else:
            n0, p0 = add_parts(
                n0, p0, x, m, v, rv, ratio, log_v, hi, mid, one, ceiling, a0, B0, OBSERVED, EXACT, SMALL, HARDWARE
            )
            if COUNT > 1:
                n1, p1 = add_parts(
                    n1, p1, x, m, v, rv, ratio, log_v, hi, mid, one, ceiling, a1, B1, OBSERVED, EXACT, SMALL, HARDWARE
                )
            if COUNT > 2:
                n2, p2 = add_parts(
                    n2, p2, x, m, v, rv, ratio, log_v, hi, mid, one, ceiling, a2, B2, OBSERVED, EXACT, SMALL, HARDWARE
                )
        if not TMA:
            x_at += BL * stride_l
            piece_at += BL * R
            out_at += BL * R
    keep = owned[:, None] & (kc[None, :] < r)
    at = kc[None, :].to(tl.int64) * O + o[:, None]
    SLOTS: tl.constexpr = 1 if WEIGHTED else COUNT
    at += row.to(tl.int64) * SLOTS * plane
    tl.store(N + at, n0, mask=keep)
    tl.store(P + at, p0, mask=keep)
    if SLOTS > 1:
        tl.store(N + at + plane, n1, mask=keep)
        tl.store(P + at + plane, p1, mask=keep)
    if SLOTS > 2:
        tl.store(N + at + 2 * plane, n2, mask=keep)
        tl.store(P + at + 2 * plane, p2, mask=keep)
    if LOSSES and part == 0:
        program = row * blocks + block
        programs = tl.num_programs(0) * tl.num_programs(1)
        tl.store(losses + program, tl.sum(tl.where(owned, loss0, 0.0), axis=0))
        if COUNT > 1:
            tl.store(losses + programs + program, tl.sum(tl.where(owned, loss1, 0.0), axis=0))
        if COUNT > 2:
            tl.store(losses + 2 * programs + program, tl.sum(tl.where(owned, loss2, 0.0), axis=0))
