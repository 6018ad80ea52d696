"""The plain sweep in PyTorch, tile by tile: runs on any device of torch, and is what the fused kernels fall back to.

The formulas are those of `reference`; the conformance tests hold both to the same table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

import torch

from drnmf.numerics import model_floor, power_ceiling

Tensor: TypeAlias = torch.Tensor
TILE = 1 << 22  # entries of V held at a time


@contextmanager
def full_precision() -> Iterator[None]:
    """float32 products in float32, whatever the program around us chose for its own."""
    chosen = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(chosen)


def numpy_name(dtype: torch.dtype) -> str:
    """torch.float32 -> "float32"."""
    return str(dtype).removeprefix("torch.")


def _log_ratio(x: Tensor, v: Tensor) -> Tensor:
    """log(x/v), through log1p where the two are close."""
    t = (x - v) / v
    close = t.abs() < 0.5
    return torch.where(close, torch.log1p(torch.where(close, t, 0.0)), torch.log(x) - torch.log(v))


def _general_terms(x: Tensor, v: Tensor, beta: float) -> Tensor:
    """d_beta for beta not in {0, 1, 2}: a series in l = log(v/x) near zero, exponentials of -|l| elsewhere."""
    b, c = beta, beta - 1.0
    positive = x > 0
    l = -_log_ratio(torch.where(positive, x, 1.0), torch.where(positive, v, 1.0))
    series = torch.zeros_like(l)
    for k in range(14, 1, -1):
        series = (series + (b ** (k - 1) - c ** (k - 1)) / math.factorial(k)) * l
    size, above = l.abs(), l > 0
    g, h = torch.exp(-b * size), torch.exp(-size * torch.where(above, 1.0, c)) / c
    far = torch.where(above, 1.0 / b + g / (b * c) - h, 1.0 / (b * c) + g / b - h)
    near = size * (b + 1.0) < 0.5
    terms = torch.where(near, x**b * series * l, torch.where(above, v, x) ** b * far)
    return torch.where(positive, terms, v**b / b).clamp_min(0.0)


def loss_terms(X: Tensor, V: Tensor, beta: float) -> Tensor:
    """d_beta(x|v) elementwise in float64 (see `divergence.beta_divergence_terms`), v > 0."""
    x, v = X.double(), V.double()
    if beta == 2.0:
        return 0.5 * (x - v) ** 2
    if beta == 0.0:
        return ((x - v) / v - _log_ratio(x, v)).clamp_min(0.0)
    if beta == 1.0:
        positive = x > 0
        return torch.where(positive, x * _log_ratio(torch.where(positive, x, 1.0), v), 0.0) - (x - v)
    return _general_terms(x, v, beta)


def power_parts(X: Tensor, V: Tensor, beta: float, ceiling: float) -> tuple[Tensor, Tensor]:
    """Elementwise V^(b-2) X and V^(b-1), kept below the ceiling."""
    if beta == 2.0:
        return X, V
    if beta == 1.0:
        return (X / V).clamp_max(ceiling), torch.ones_like(V)
    if beta == 0.0:
        return (X / V / V).clamp_max(ceiling), (1.0 / V).clamp_max(ceiling)
    power = (V ** (beta - 2.0)).clamp_max(ceiling)  # finite before a zero of X meets it
    return (power * X).clamp_max(ceiling), (power * V).clamp_max(ceiling)


def tile_sweep(
    X: Tensor, W: Tensor, H: Tensor, betas: tuple[float, ...], mix: Tensor, losses: bool, zero: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Losses (p,) float64, N and P (q, r, n) of one dense tile. mix : (q, p) on the device, in the factors' dtype."""
    q, r, n, name = mix.shape[0], H.shape[0], H.shape[1], numpy_name(H.dtype)
    N = torch.zeros((q, r, n), dtype=H.dtype, device=H.device)
    P = torch.zeros_like(N)
    totals = torch.full((len(betas),), math.nan, dtype=torch.float64, device=H.device)
    X = X.to(H.dtype)
    if zero:
        X = torch.where(X == 0, zero, X)
    V = (W @ H).clamp_min(model_floor(name))
    for b, beta in enumerate(betas):
        if losses:
            totals[b] = loss_terms(X, V, beta).sum()
        if q:
            negative, positive = power_parts(X, V, beta, power_ceiling(name))
            N += mix[:, b, None, None] * (W.T @ negative)
            P += mix[:, b, None, None] * (W.T @ positive)
    return totals, N, P


def bend(X: Tensor, V: Tensor, beta: float) -> Tensor:
    """`divergence.divergence_curvature`: a second derivative in v that is never negative."""
    if beta == 1.0:
        return X / V / V
    if beta == 2.0:
        return torch.ones_like(V)
    power = V ** (beta - 2.0)
    return (beta - 1.0) * power + (2.0 - beta) * (X / V) * power if 1.0 < beta < 2.0 else power


def tile_curvature(
    X: Tensor, W: Tensor, pairs: Tensor, H: Tensor, betas: tuple[float, ...], c: Tensor, zero: float
) -> Tensor:
    """Q of one dense tile, packed: pairs (m, r (r + 1) / 2) holds the products W_ik W_il."""
    name = numpy_name(H.dtype)
    X = X.to(H.dtype)
    if zero:
        X = torch.where(X == 0, zero, X)
    V = (W @ H).clamp_min(model_floor(name))
    total = torch.zeros_like(V)
    for b, beta in enumerate(betas):
        total += c[b] * bend(X, V, beta).clamp_max(power_ceiling(name))
    return pairs.T @ total
