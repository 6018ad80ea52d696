"""The entrywise steps of the update rules: compiled for NumPy arrays, in the array library of the factor elsewhere."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from drnmf.backends.host.core import native_core
from drnmf.numerics import Array, Vector, namespace, power_ceiling, precision_of


def weighted_sum(coefficients: Any, stack: Array) -> Array:
    """Compute sum_b c_b stack_b in the dtype of the stack (coefficients on a GPU are not waited for)."""
    numbers = [float(c) for c in coefficients] if isinstance(coefficients, np.ndarray) else coefficients
    total = stack[0] * numbers[0]
    for c, part in zip(numbers[1:], stack[1:], strict=True):
        total += part * c
    return total


def multiplicative_step(F: Array, N: Array, P: Array, coefficients: Vector, floor: Any) -> Array:
    """Compute max(F * (sum c_b N_b) / (sum c_b P_b), floor), entry by entry; entries without a slope stay.

    Parameters
    ----------
    F : (r, n); N, P : (p, r, n), or (1, r, n) where they are weighted already

    Examples
    --------
    >>> F, ones = np.full((1, 1), 2.0), np.ones((1, 1, 1))
    >>> multiplicative_step(F, 3 * ones, 2 * ones, np.ones(1), 0.0)
    array([[3.]])
    """
    core = native_core() if isinstance(F, np.ndarray) and F.dtype == N.dtype else None
    single = N.shape[0] == 1
    if core is None:
        N, P = (N[0], P[0]) if single else (weighted_sum(coefficients, part) for part in (N, P))
        return ratio_step(F, N, P, floor)
    out, numbers = np.empty(F.shape, F.dtype), [1.0] if single else [float(c) for c in coefficients]
    N, P = np.ascontiguousarray(N), np.ascontiguousarray(P)
    core.multiplicative_step(np.ascontiguousarray(F), N, P, numbers, floor, out)
    return out


def ratio_step(F: Array, N: Array, P: Array, floor: Any) -> Array:
    """Compute max(F * N / P, floor) in the array library of F: the reference of the compiled step."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        stepped: Array = namespace(F).clip(F * usable(N / P, P), floor, None)
    return stepped


def usable(ratio: Array, P: Array) -> Array:
    """Replace ratios without a meaning by one, so that their entries stay.

    Powers of a small V underflow in float32: where P is zero the parts say nothing about the entry. A NaN of the parts
    themselves stays one.

    >>> usable(np.array([2.0, np.inf, np.nan]), np.array([1.0, 1.0, 0.0]))
    array([2., 1., 1.])
    """
    return namespace(ratio).where((P == 0) | (ratio == math.inf), 1.0, ratio)


def quadratic_step(
    F: Array, N: Array, P: Array, Q: Array, floor: float, passes: int, scale: float | None = None
) -> Array:
    """Minimise the quadratic model of every column over h >= floor, by cyclic coordinate descent from F.

    Lambda may have moved since the sweep that made Q. So Q is scaled in every column to F'QF = F'P, which holds for the
    curvature of beta-divergences, or by `scale` where that is given. A column whose curvature is not usable (zero, or
    beyond the range of the dtype) takes the multiplicative step.

    Examples
    --------
    >>> one = np.ones((1, 1))
    >>> quadratic_step(2 * one, 3 * one, 2 * one, one, 0.0, 1)  # slope -1, curvature 1 scaled to P / F
    array([[3.]])
    """
    core = native_core() if isinstance(F, np.ndarray) and scale is None else None
    if core is None:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # such columns take the other step
            return _descend(F, N, P, Q, floor, passes, scale)
    out = np.empty_like(F)
    core.quadratic_step(F, N, P, Q, floor, power_ceiling(F.dtype), passes, out)
    return out


def _descend(F: Array, N: Array, P: Array, Q: Array, floor: float, passes: int, given: float | None) -> Array:
    """The same in the array library of F: the reference of the compiled step."""
    xp = namespace(F)
    r, rows = F.shape[0], triangle_rows(F.shape[0])
    if given is None:
        scale = sum((Q[rows[k]] * F).sum(0) * F[k] for k in range(r)) / (F * P).sum(0)
    else:
        scale = xp.full_like(F[0], 1.0 / given)
    H, slope = [F[k] for k in range(r)], (P - N) * scale
    for _ in range(passes):
        for k, row in enumerate(rows):
            bent, bend = Q[row[k]] > 0, Q[row[k]]
            moved = xp.where(bent, xp.clip(H[k] - slope[k] / xp.where(bent, bend, 1.0), floor, None), H[k])
            slope = slope + Q[row] * (moved - H[k])
            H[k] = moved
    step = xp.stack(H)
    good = (scale > 0) & (scale < power_ceiling(precision_of(F))) & (step == step)
    return xp.where(good, step, xp.clip(F * usable(N / P, P), floor, None))


def triangle_rows(r: int) -> list[list[int]]:
    """Locate row k of a symmetric matrix in its packed lower triangle.

    >>> triangle_rows(2)
    [[0, 1], [1, 2]]
    """
    return [[max(k, l) * (max(k, l) + 1) // 2 + min(k, l) for l in range(r)] for k in range(r)]
