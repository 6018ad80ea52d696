r"""One curvature for all columns, up to a scale for every entry: second-order steps at any rank.

The curvature of column j of H is :math:`Q_j = W' \mathrm{diag}(c_j) W` with :math:`c_{ij} = \sum_\beta c_\beta
d''_\beta(v_{ij})`: r (r + 1) / 2 products a sweep for all columns, and as many numbers for each. What differs most from
one column to the next is its size, and less how its components overlap. So

.. math:: Q_j \approx D_j C D_j, \qquad C_{kl} = B_{kl} / \sqrt{B_{kk} B_{ll}}, \quad B = W' \mathrm{diag}(c(u)) W

with the curvature at the mean column u of the model in place of c_j, and a diagonal D_j chosen so that Q_j h_j = P_j,
as the curvature of beta-divergences has it (a symmetric Sinkhorn scaling). C costs O(m r^2) and no pass over X.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from drnmf.losses.base import Omega
from drnmf.numerics import EPS, Array, Numbers, Vector, as_float64, beside, namespace, of_each_run

SumUp = Callable[[Callable[[Array], Vector]], Vector]


def correlation(sum_up: SumUp, mean: Vector, omega: Omega, coefficients: Vector) -> Array:
    """Compute C (r, r), in float64 with a diagonal of ones, for the block that moves while G (r, m) stands.

    `mean` is the mean column of the block that moves; `sum_up` adds up a function over pieces of G, wherever they live
    (`Modes.sum_others`).
    """
    rank = mean.size
    found = partial(_flat_gram, mean=mean, omega=omega, coefficients=coefficients)
    return _normalised(sum_up(found).reshape(rank, rank))


def batched_correlation(F: Array, G: Array, omega: Omega, coefficients: Sequence[Numbers]) -> Array:
    """Compute C (runs, r, r) in float64, where the factors live; a coefficient is one for all runs, or (runs, 1, 1)."""
    mean = as_float64(F).sum(-1)[:, None, :] / F.shape[-1]
    return _normalised(_weighted_gram(as_float64(G), mean, omega, coefficients))


def _normalised(B: Array) -> Array:
    """B with a diagonal of ones; the last two axes are those of the matrix."""
    xp = namespace(B)
    size = xp.diagonal(B, 0, -2, -1) ** 0.5
    size = xp.where(size > 0, size, 1.0)
    return _with_unit_diagonal(B / (size[..., :, None] * size[..., None, :]))


def _with_unit_diagonal(C: Array) -> Array:
    return namespace(C).where(beside(np.eye(C.shape[-1], dtype=bool), C), 1.0, C)


def shrunk(C: Array, damping: Numbers) -> Array:
    """Shrink a correlation towards the identity, for columns whose components overlap otherwise than the mean's.

    D is found after this, so Q h = P holds for every damping of 0 to 1; with 1 the step is the multiplicative one.

    >>> shrunk(np.array([[1.0, 0.8], [0.8, 1.0]]), 0.5).tolist()
    [[1.0, 0.4], [0.4, 1.0]]
    """
    return _with_unit_diagonal((1.0 - of_each_run(damping, C)) * C) if np.any(damping) else C


def _flat_gram(G: Array, mean: Vector, omega: Omega, coefficients: Vector) -> Vector:
    """G diag(c(u)) G' of one piece of G, flat."""
    numbers = [float(c) for c in coefficients]
    return np.array(_weighted_gram(as_float64(G), mean, omega, numbers).reshape(-1).tolist())


def _weighted_gram(G: Array, mean: Array, omega: Omega, coefficients: Sequence[Numbers]) -> Array:
    """G diag(c(u)) G' with u = mean' G, for G (r, m) or one for every run."""
    xp = namespace(G)
    u = beside(mean, G) @ G
    u = xp.clip(u, EPS * xp.amax(u, axis=-1, keepdims=True) + np.finfo(np.float64).tiny, None)
    bend = sum(c * loss.curvature(u, u) for c, loss in zip(coefficients, omega, strict=True))
    return (G * bend) @ G.swapaxes(-1, -2)


def row_sums(F: Array) -> Vector:
    """Add up every row of a piece of a factor (r, n), in float64."""
    return np.array(as_float64(F).sum(1).tolist())
