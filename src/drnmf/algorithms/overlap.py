r"""How the slopes of several objectives overlap in the block that moves next: what lambda does to each of them.

A step of second order under the weights lambda goes to :math:`-Q^{-1} \sum_o \lambda_o g_o`, with g_o the slope of
objective o, so that each of them changes by

.. math:: -(A \lambda)_o, \qquad A_{op} = \sum_j g_{oj}' Q_j^{-1} g_{pj}

to first order. Q_j is taken as D_j C D_j (`algorithms.correlation`): D_j^2 is the diagonal of the curvature of a
column, where there is one, and C the mean of what remains. Entries that the bound holds back have no slope.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from drnmf.algorithms.iteration import Point, Task
from drnmf.algorithms.updates.steps import packed_product, triangle_rows
from drnmf.numerics import Array, Vector, as_float64

_HELD = 10.0
"""Times the floor: entries below it are held back where their slope is positive."""
_RIDGE = 1e-9
"""Added to the diagonal of C, which components that are alike leave singular."""


def overlap(task: Task, point: Point, weights: Vector) -> Vector:
    """Compute A, (p, p), at a point whose sweep has the parts of every objective on its own."""
    objective, space, c = task.objective, task.data.spaces[0], weights / task.objective.references
    F, (N, P, Q, gram) = as_float64(space.get(point.blocks[0])), _on_host(point, task)
    p, r = len(weights), len(F)
    if len(P) == 0:  # beta = 2 throughout
        P = gram @ F
        slopes = np.subtract(P, N, out=P)
    else:
        slopes = P - N
    held = (_HELD * task.floors[0] >= F) & (_mixed(c, slopes) > 0)
    with np.errstate(all="ignore"):  # beyond the range of floats no lambda is better than another
        sizes, C = _curvature(F, P, Q, gram, c)
        if Q is not None:  # which may be of an earlier lambda: its length is that of F'QF = F'P
            sizes = sizes * np.sqrt((F * _mixed(c, P)).sum() / (F * packed_product(Q, F)).sum())
        slopes *= np.where(held, 0.0, _inverse(sizes))
    if not np.isfinite(C).all():
        return np.full((p, p), np.nan)
    half = np.linalg.inv(np.linalg.cholesky(C + _RIDGE * np.eye(r)))
    steps = (half @ slopes).reshape(p, -1)
    A: Vector = steps @ steps.T / np.outer(objective.references, objective.references)
    return A


def _mixed(c: Vector, stack: Array) -> Array:
    """Compute sum_o c_o stack_o by one product."""
    mixed: Array = (c @ stack.reshape(len(c), -1)).reshape(stack.shape[1:])
    return mixed


def _on_host(point: Point, task: Task) -> tuple[Any, Any, Any, Any]:
    """N, P, Q, which may be an earlier one that the next step takes again, and the Gram matrices, in float64."""
    sweep, get = point.sweep, task.data.spaces[0].get
    Q = getattr(point.states[0], "Q", None) if sweep.Q is None else sweep.Q
    gram = sweep.gram if len(sweep.P) == 0 else None
    N, P, Q, gram = (None if part is None else as_float64(get(part)) for part in (sweep.N, sweep.P, Q, gram))
    return N, P, Q, gram


def _curvature(F: Array, P: Array, Q: Array | None, gram: Array | None, c: Vector) -> tuple[Array, Array]:
    """D, (r, n) or (r, 1), and C, (r, r)."""
    r = len(F)
    if Q is not None:
        rows = triangle_rows(r)
        sizes = np.sqrt(Q[[row[k] for k, row in enumerate(rows)]])
        relative, (k, l) = _inverse(sizes), np.tril_indices(r)
        C = (Q * relative[k] * relative[l]).mean(1)[np.array(rows)]
    elif gram is not None:
        whole = _mixed(c, gram)
        sizes = np.sqrt(whole.diagonal())[:, None]
        C = whole * _inverse(sizes) * _inverse(sizes).T
    else:
        return np.sqrt(_mixed(c, P) / F), np.eye(r)
    return sizes, C + np.diag(np.where(C.diagonal() > 0, 0.0, 1.0))


def _inverse(sizes: Array) -> Array:
    """1 / D, zero where nothing bends: a component that has vanished does not move."""
    return 1.0 / np.where(sizes > 0, sizes, np.inf)
