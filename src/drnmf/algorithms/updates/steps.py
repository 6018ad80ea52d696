"""The entrywise steps of the update rules: compiled for NumPy arrays, in the array library of the factor elsewhere."""

from __future__ import annotations

import math
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from drnmf.backends.core import native_core
from drnmf.numerics import (
    BALANCE_STEPS,
    LARGEST_PART,
    VANISHED,
    Array,
    Maybe,
    Numbers,
    Vector,
    beside,
    namespace,
    of_each_run,
    power_ceiling,
    precision_of,
)


def weighted_sum(coefficients: Array, stack: Array) -> Array:
    """Compute sum_b c_b stack_b in the dtype of the stack (coefficients on a GPU are not waited for)."""
    numbers = [float(c) for c in coefficients] if isinstance(coefficients, np.ndarray) else coefficients
    total = stack[0] * numbers[0]
    for c, part in zip(numbers[1:], stack[1:], strict=True):
        total += part * c
    return total


def multiplicative_step(F: Array, N: Array, P: Array, coefficients: Vector, floor: Numbers) -> Array:
    """Compute max(F * (sum c_b N_b) / (sum c_b P_b), floor), entry by entry; entries without a slope stay.

    N and P are (p, r, n), or (1, r, n) where they are weighted already.

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


def ratio_step(F: Array, N: Array, P: Array, floor: Numbers) -> Array:
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
    F: Array,
    N: Array,
    P: Array,
    Q: Array,
    floor: Numbers,
    passes: int,
    scale: Numbers | None = None,
    gram: Maybe = None,
) -> Array:
    """Minimise the quadratic model of every column over h >= floor, by cyclic coordinate descent from F.

    The curvature of a column is its own part, Q, and `gram`, which all columns share, where there is one. Lambda may
    have moved since the sweep that made them: so it is scaled in every column to F'QF = F'P, which holds for the
    curvature of beta-divergences, or by `scale`, a number or one for every column, where that is given. A column whose
    curvature is not usable (zero, or beyond the range of the dtype) takes the multiplicative step.

    >>> one = np.ones((1, 1))
    >>> quadratic_step(2 * one, 3 * one, 2 * one, one, 0.0, 1)  # slope -1, curvature 1 scaled to P / F
    array([[3.]])
    """
    core = native_core() if isinstance(F, np.ndarray) else None
    if core is None:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # such columns take the other step
            return _descend(F, N, P, Q, floor, passes, scale, gram)
    if isinstance(scale, np.ndarray):
        return _scaled_by_column(F, N, P, Q, floor, passes, scale, gram)
    F, N, P, Q = (np.ascontiguousarray(part) for part in (F, N, P, Q))
    out = np.empty_like(F)
    given = 0.0 if scale is None else 1.0 / scale
    core.quadratic_step(F, N, P, Q, gram, floor, power_ceiling(F.dtype), given, passes, out)
    return out


def _scaled_by_column(
    F: Array, N: Array, P: Array, Q: Array, floor: Numbers, passes: int, scale: Array, gram: Maybe
) -> Array:
    """The compiled step where every column has a scale of its own: the slope is divided by it."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inverse = 1.0 / scale
        good = (inverse > 0) & (inverse < power_ceiling(F.dtype))
        by = np.where(good, inverse, 1.0).astype(F.dtype)
        step = quadratic_step(F, N * by, P * by, Q, floor, passes, 1.0, gram)
        return step if good.all() else np.where(good, step, np.clip(F * usable(N / P, P), floor, None))


def _descend(
    F: Array, N: Array, P: Array, Q: Array, floor: Numbers, passes: int, given: Numbers | None, gram: Maybe
) -> Array:
    """The same in the array library of F: the reference of the compiled step."""
    xp = namespace(F)
    if gram is not None:
        Q = Q + packed(gram, Q)
    r, rows = F.shape[0], triangle_rows(F.shape[0])
    if given is None:
        scale = sum((Q[rows[k]] * F).sum(0) * F[k] for k in range(r)) / (F * P).sum(0)
    else:
        scale = xp.zeros_like(F[0]) + 1.0 / given
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


def packed(matrix: Array, like: Array) -> Array:
    """Pack the lower triangle of a symmetric matrix of the host as one column of Q, in the kind of another array.

    >>> packed(np.array([[2.0, 1.0], [1.0, 3.0]]), np.ones(1)).tolist()
    [[2.0], [1.0], [3.0]]
    """
    return namespace(like).asarray(beside(matrix[np.tril_indices(len(matrix))][:, None], like), dtype=like.dtype)


def triangle_rows(r: int) -> list[list[int]]:
    """Locate row k of a symmetric matrix in its packed lower triangle.

    >>> triangle_rows(2)
    [[0, 1], [1, 2]]
    """
    starts = [k * (k + 1) // 2 for k in range(r)]
    return [[starts[k] + l if l <= k else starts[l] + k for l in range(r)] for k in range(r)]


def packed_product(Q: Array, F: Array) -> Array:
    """Multiply every column of F (r, n) by its own symmetric matrix, packed in the same column of Q.

    >>> packed_product(np.array([[2.0], [1.0], [3.0]]), np.array([[1.0], [10.0]])).tolist()
    [[12.0], [31.0]]
    """
    product: Array = reduce(add, (Q[row] * F[k] for k, row in enumerate(triangle_rows(F.shape[0]))))
    return product


def shared_step(F: Array, N: Array, gram: Array, floor: Numbers, passes: int) -> Array:
    """Take `passes` of coordinate descent over h >= floor on 1/2 h'Gh - N'h, in every column from F.

    A component of the other block that is all floor (`numerics.VANISHED`) says nothing: its entries stay. They would
    leave for the inverse of the floor, and the floor itself would then count.

    >>> shared_step(np.ones((1, 2)), np.array([[6.0, -1.0]]), np.full((1, 1), 2.0), 0.5, 1)
    array([[3. , 0.5]])
    """
    core = native_core() if isinstance(F, np.ndarray) else None
    if core is None:
        return _descend_elsewhere(F, N, gram, floor, passes)
    stepped = np.empty_like(F)
    core.hals_step(F, N, gram, floor, _smallest(gram), passes, stepped)
    return stepped


def correlated_step(
    F: Array, N: Array, P: Array, correlation: Array, floor: Numbers, passes: int, sizes: Maybe = None
) -> Array:
    """Minimise the quadratic model of every column whose curvature is D C D, D diagonal with D C D f = P.

    C is one `correlation` or one for every run, D f the `sizes`, found where None. A column whose model is not usable
    takes the multiplicative step.

    >>> correlated_step(2 * np.ones((1, 1)), 3 * np.ones((1, 1)), 2 * np.ones((1, 1)), np.ones((1, 1)), 0.0, 1)
    array([[3.]])
    """
    xp = namespace(F)
    C = xp.asarray(beside(correlation, F), dtype=F.dtype)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # such columns take the other step
        y = balanced_sizes(F, P, correlation) if sizes is None else sizes
        target = C @ y - (P * F - N * F) / y
        step = xp.clip(F * (shared_step(y, target, correlation, 0.0, passes) / y), floor, None)
        # where V is all but zero under a positive x the model is too flat by orders of magnitude, and so for a column
        # in which one component would become larger than the whole of it
        whole = xp.where(N > P, N, P) * F
        good = (P * step <= LARGEST_PART * whole.sum(-2, keepdims=True)).all(-2, keepdims=True)
        return xp.where(good, step, xp.clip(F * usable(N / P, P), floor, None))


def balanced_sizes(F: Array, P: Array, correlation: Array) -> Array:
    """Find y = D f with y (C y) = P f in every column, by a symmetric Sinkhorn scaling."""
    C = namespace(F).asarray(beside(correlation, F), dtype=F.dtype)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        slope_free = P * F
        y: Array = slope_free**0.5
        y = y * (slope_free.sum(-2, keepdims=True) / (y * (C @ y)).sum(-2, keepdims=True)) ** 0.5
        for _ in range(BALANCE_STEPS):
            y = (y * slope_free / (C @ y)) ** 0.5
        return y


def extrapolated_step(
    F: Array,
    N: Array,
    gram: Array,
    floor: Numbers,
    passes: int,
    last: Array,
    momentum: Numbers,
    overwrite: bool = False,
) -> tuple[Array, Array]:
    """Take the same step to F+, and on to max(F+ + momentum (F+ - last), floor) in columns where f stays below f(F).

    overwrite : F+ may take the place of `last` in memory, and where the columns went that of F

    Returns F+, and where the columns went.
    """
    core = native_core() if isinstance(F, np.ndarray) else None
    if core is None:
        stepped = _descend_elsewhere(F, N, gram, floor, passes)
        return stepped, _push(F, N, gram, floor, stepped, last, momentum)
    apart = overwrite and not np.may_share_memory(F, last)  # before the first step both are the start
    stepped, further = last if apart else np.empty_like(F), F if overwrite else np.empty_like(F)
    core.hals_step_ahead(F, N, gram, floor, _smallest(gram), passes, last, momentum, stepped, further)
    return stepped, further


def _smallest(gram: Array) -> float:
    """The square of a component that counts as vanished."""
    return VANISHED**2 * float(gram.diagonal().max())


def _moving(gram: Array, F: Array) -> Array:
    """(r, 1), or one for every run: the components that have not vanished."""
    xp = namespace(gram)
    square = xp.diagonal(gram, 0, -2, -1)
    return beside(square > VANISHED**2 * xp.amax(square, axis=-1, keepdims=True), F)[..., None]


def _descend_elsewhere(F: Any, N: Array, gram: Array, floor: Numbers, passes: int) -> Array:
    """`shared_step` without the compiled extension: one kernel on a GPU, the array library of F elsewhere."""
    if namespace(F) is not np:
        from drnmf.backends.torch.dense import fused_available
        from drnmf.backends.torch.kernels import MOST_COMPONENTS

        if fused_available(F.device.type) and F.shape[0] <= MOST_COMPONENTS:
            from drnmf.backends.torch.triton_descent import descend

            return descend(F, N, gram, floor, passes)
    if F.ndim > 2:
        floors = namespace(F).zeros_like(F[:, 0, 0]) + (floor if isinstance(floor, float) else floor[:, 0, 0])
        runs = zip(F, N, gram, floors, strict=True)
        return namespace(F).stack([_descend_shared(f, n, g, low, passes) for f, n, g, low in runs])
    return _descend_shared(F, N, gram, floor, passes)


def _descend_shared(F: Array, N: Array, gram: Array, floor: Numbers, passes: int) -> Array:
    """`shared_step` in the array library of F: the reference of the compiled one."""
    xp, square, smallest = namespace(F), gram.diagonal(), _smallest(gram)
    G, H = xp.asarray(beside(gram, F), dtype=F.dtype), 1.0 * F
    for _ in range(passes):
        for k in range(F.shape[0]):
            if square[k] > smallest:
                H[k] = xp.clip(H[k] - (G[k] @ H - N[k]) / G[k, k], floor, None)
    return H


def _push(F: Array, N: Array, gram: Array, floor: Numbers, stepped: Array, last: Array, momentum: Numbers) -> Array:
    """The extrapolation of `extrapolated_step` in the array library of F."""
    xp = namespace(F)
    ahead = of_each_run(momentum, F) * (stepped - last)
    further = xp.clip(stepped + xp.where(_moving(gram, F), ahead, 0.0), floor, None)  # what did not move stays
    G = xp.asarray(beside(gram, F), dtype=F.dtype)
    slope = G @ (0.5 * (F + further)) - N  # f(further) - f(F) = (further - F)'slope
    return xp.where(((further - F) * slope).sum(-2, keepdims=True) <= 0, further, stepped)
