"""Elementwise formulas of the fused sweeps, as Triton functions.

They restate `Loss.terms` and `Loss.parts` for speed; the conformance tests tie them to the oracle. HARDWARE says that
the approximate reciprocal and logarithm of the GPU may be used; Triton's interpreter has neither.
"""

# Triton compiles these bodies itself: names are its own types, and branches on constexpr are taken at compile time.

from __future__ import annotations

import triton
import triton.language as tl

from drnmf.backends.torch import kernels

SMALLEST = tl.constexpr(1.2e-38)  # the smallest normal float32: logarithms are taken above it
NEGATIVE_BINOMIAL = tl.constexpr(kernels.NEGATIVE_BINOMIAL)
LN2 = tl.constexpr(0.6931471805599453)


@triton.jit
def reciprocal(v, HARDWARE: tl.constexpr):
    """1 / v to one unit in the last place."""
    if HARDWARE:
        code: tl.constexpr = "rcp.approx.ftz.f32 $0, $1;"
        return tl.inline_asm_elementwise(code, "=f,f", [v], dtype=tl.float32, is_pure=True, pack=1)
    return 1.0 / v


@triton.jit
def fast_log(y, HARDWARE: tl.constexpr):
    """log y with the GPU's log2: its absolute error of 1e-7 leans to one side, which shows in small losses."""
    y = tl.maximum(y, SMALLEST)
    if HARDWARE:
        code: tl.constexpr = "lg2.approx.ftz.f32 $0, $1;"
        return LN2 * tl.inline_asm_elementwise(code, "=f,f", [y], dtype=tl.float32, is_pure=True, pack=1)
    return tl.log(y)


@triton.jit
def log_rest(t):
    """log(1 + t) - t for |t| < 0.36: -t^2/2 + t^3 q(t) with q of degree 6 (minimax, relative error 8e-8, no bias)."""
    q = 0.14359220308939755 * t - 0.15635704554930752
    q = q * t + 0.13942417012017586
    q = q * t - 0.16393494286258947
    q = q * t + 0.20013084290867003
    q = q * t - 0.2500697461650122
    q = q * t + 0.3333320327187054
    return (q * t - 0.5) * (t * t)


@triton.jit
def log_of_ratio(y, t, HARDWARE: tl.constexpr):
    """log y from y and t = y - 1, with an error that stays small beside the losses made of it.

    Beyond |t| = 0.36 a loss is at least 0.05 of x or v, and the GPU's log2 leaves it a relative error of 2e-6 at the
    very edge.
    """
    return tl.where(tl.abs(t) < 0.36, log_rest(t) + t, fast_log(y, HARDWARE))


@triton.jit
def log_of(y, ACCURATE: tl.constexpr, HARDWARE: tl.constexpr):
    if ACCURATE:
        return log_of_ratio(y, y - 1.0, HARDWARE)
    return fast_log(y, HARDWARE)


@triton.jit
def general_loss(x, v, log_ratio, BETA: tl.constexpr, ACCURATE: tl.constexpr, HARDWARE: tl.constexpr):
    """d_beta for any beta but 0, 1 and 2: x^b S(l) where l = log(v/x) is small, exponentials of -|l| elsewhere.

    S(l) = sum_k l^k / k! (b^(k-1) - (b-1)^(k-1)); every exponent is negative for b >= 1, so nothing overflows there.
    """
    C: tl.constexpr = BETA - 1.0
    l = -log_ratio
    s = l * ((BETA**8 - C**8) / 362880.0) + (BETA**7 - C**7) / 40320.0
    s = s * l + (BETA**6 - C**6) / 5040.0
    s = s * l + (BETA**5 - C**5) / 720.0
    s = s * l + (BETA**4 - C**4) / 120.0
    s = s * l + (BETA**3 - C**3) / 24.0
    s = s * l + (BETA**2 - C**2) / 6.0
    s = (s * l + 0.5) * (l * l)
    size = tl.abs(l)
    near = size * (BETA + 1.0) < 1.0
    above = l > 0.0
    g = tl.exp(-BETA * size)
    h = tl.exp(-size * tl.where(above, 1.0, C)) * (1.0 / C)
    far = tl.where(above, 1.0 / BETA + g * (1.0 / (BETA * C)) - h, 1.0 / (BETA * C) + g * (1.0 / BETA) - h)
    base = tl.where(above & (size * (BETA + 1.0) >= 1.0), v, x)
    return tl.exp(BETA * log_of(base, ACCURATE, HARDWARE)) * tl.where(near, s, far)


@triton.jit
def negative_binomial_loss(x, v, rv, a, HARDWARE: tl.constexpr):
    """x log(1 + s) - a log(1 + f), s = a (x - v) / (v (x + a)), f = (x - v) / (v + a).

    x s - a f = a s f: where both are small, no term of first order is left to cancel.
    """
    rise, over_x, over_v = x - v, 1.0 / (x + a), 1.0 / (v + a)
    s, f = rise * rv * (a * over_x), rise * over_v
    near = a * s * f + x * log_rest(s) - a * log_rest(f)
    first = x * log_of_ratio(x * rv * ((v + a) * over_x), s, HARDWARE)
    far = first - a * log_of_ratio((x + a) * over_v, f, HARDWARE)
    return tl.maximum(tl.where((tl.abs(s) < 0.36) & (tl.abs(f) < 0.36), near, far), 0.0)


@triton.jit
def loss_term(
    x, v, rv, ratio, log_ratio, parameter, BETA: tl.constexpr, ACCURATE: tl.constexpr, HARDWARE: tl.constexpr
):
    """d(x|v), with 1/v, ratio = x/v and its logarithm at hand; parameter is that of a family other than beta.

    Beta 0 and 1 are written in the ratio alone: an error of the ratio then counts to second order only.
    """
    if BETA == NEGATIVE_BINOMIAL:
        return negative_binomial_loss(x, v, rv, parameter, HARDWARE)
    elif BETA == 0.0:
        return ratio - 1.0 - log_ratio
    elif BETA == 1.0:
        return v * (ratio * log_ratio - (ratio - 1.0))
    elif BETA == 2.0:
        return 0.5 * (x - v) * (x - v)
    else:
        return general_loss(x, v, log_ratio, BETA, ACCURATE, HARDWARE)


@triton.jit
def negative(x, v, rv, ratio, log_v, BETA: tl.constexpr, ceiling):
    """V^(b-2) X or X / V, the elementwise factor of N; ratio = X/V is below the ceiling already."""
    if BETA == 0.0:
        return tl.minimum(ratio * rv, ceiling)
    elif BETA == 1.0 or BETA == NEGATIVE_BINOMIAL:
        return ratio
    elif BETA == 2.0:
        return x
    else:
        return tl.minimum(tl.minimum(tl.exp((BETA - 2.0) * log_v), ceiling) * x, ceiling)


@triton.jit
def positive(x, v, rv, log_v, BETA: tl.constexpr, ceiling, parameter):
    """V^(b-1) or (X + a) / (V + a), the elementwise factor of P.

    Beta = 1 and 2 come here under weights of the entries alone: without them sums and a Gram matrix do.
    """
    if BETA == NEGATIVE_BINOMIAL:
        return (x + parameter) / (v + parameter)
    elif BETA == 0.0:
        return rv
    elif BETA == 1.0:
        return tl.full(v.shape, 1.0, tl.float32)
    elif BETA == 2.0:
        return v
    else:
        return tl.minimum(tl.exp((BETA - 1.0) * log_v), ceiling)
