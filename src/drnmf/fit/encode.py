"""W for new rows under a fitted H: every row on its own."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from drnmf.algorithms.updates.base import Monotone, Parts
from drnmf.backends.base import Data, identity
from drnmf.numerics import ENCODE_TOLERANCE, EPS, Array, Vector, as_float64, namespace
from drnmf.objective.objective import Objective


def _encoded(settings: dict[str, Any], data: Data) -> Array:
    return encode(data, **settings).T


def encode(data: Data, H: Array, objective: Objective, weights: Vector, max_iter: int, tol: float) -> Array:
    """argmin over W >= 0 of sum_b lambda_b Dbar_b(X, WH), (m, r), by majorise-minimise steps.

    No line search and no stopping rule looks at more than one row: a row starts at the multiple of (1, ..., 1)
    with the right sum, moves by steps that cannot raise its own objective, and stays once it moves by less than
    tol. So the same row gives the same answer whatever the other rows are.
    """
    if hasattr(data, "map_rows"):
        settings = {"H": H, "objective": objective, "weights": weights, "max_iter": max_iter, "tol": tol}
        return data.map_rows(partial(_encoded, settings), H.shape[0]).T
    n, r = data.shape[1], H.shape[0]
    G = data.put(H).T
    total = float(as_float64(G).sum())
    sums = np.asarray(data.dot(np.ones((n, 1), dtype=data.dtype)), dtype=np.float64)[:, 0]
    level = np.maximum(sums, EPS * n * objective.mean) / total
    rule, side = Monotone(), data.T
    A = side.put(np.repeat(level.astype(data.dtype)[None, :], r, axis=0))
    floor, xp = EPS * A[:1], namespace(A)
    active = A[0] > 0
    coefficients, tol = objective.coefficients(weights), tol or ENCODE_TOLERANCE
    for _ in range(max_iter):
        sweep = side.sweep(G, A, objective.betas, identity(len(objective.betas)), losses=False)
        parts = Parts(sweep.N, sweep.P, coefficients, objective.betas, floor)  # type: ignore[arg-type]
        stepped, _ = rule.step(A, parts, None)
        moved = xp.amax(abs(stepped - A), axis=0) > tol * xp.amax(stepped, axis=0)
        A = side.put(xp.where(active, stepped, A))
        active &= moved
        if not active.any():
            break
    return A.T
