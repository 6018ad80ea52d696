r"""One curvature for all columns, up to a scale for every entry: second-order steps at any rank.

The curvature of column j of H is :math:`Q_j = W' \mathrm{diag}(c_j) W` with :math:`c_{ij} = \sum_\beta c_\beta
d''_\beta(v_{ij})`: r (r + 1) / 2 products a sweep for all columns, and as many numbers for each. What differs most from
one column to the next is its size, and less how its components overlap. So

.. math:: Q_j \approx D_j C D_j, \qquad C_{kl} = B_{kl} / \sqrt{B_{kk} B_{ll}}, \quad B = W' \mathrm{diag}(c(u)) W

with the curvature at the mean column u of the model in place of c_j, and a diagonal D_j chosen so that Q_j h_j = P_j,
as the curvature of beta-divergences has it (a symmetric Sinkhorn scaling). C costs O(m r^2) and no pass over X.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from drnmf.backends.base import Space
from drnmf.losses.base import Omega
from drnmf.numerics import EPS, Array, Vector, as_float64, beside, namespace


def correlation(space: Space, G: Array, mean: Vector, omega: Omega, coefficients: Vector) -> Vector:
    """Compute C, (r, r), for the block that moves while G stands.

    Parameters
    ----------
    space : where G lives
    G : (r, m), the block that stands
    mean : (r,), the mean column of the block that moves
    omega, coefficients : the losses and c_beta

    Returns
    -------
    C : (r, r) float64 with a diagonal of ones
    """
    rank = mean.size
    B = space.sum(partial(_weighted_gram, mean=mean, omega=omega, coefficients=coefficients), G).reshape(rank, rank)
    size = np.sqrt(np.diagonal(B))
    size = np.where(size > 0, size, 1.0)
    C = B / (size[:, None] * size)
    np.fill_diagonal(C, 1.0)
    return C


def shrunk(C: Vector, damping: float) -> Vector:
    """Shrink a correlation towards the identity, for columns whose components overlap otherwise than the mean's.

    D is found after this, so Q h = P holds for every damping; with damping = 1 the step is the multiplicative one.

    Parameters
    ----------
    C : (r, r) with a diagonal of ones
    damping : 0 to 1

    Returns
    -------
    C : (r, r) with a diagonal of ones

    Examples
    --------
    >>> shrunk(np.array([[1.0, 0.8], [0.8, 1.0]]), 0.5).tolist()
    [[1.0, 0.4], [0.4, 1.0]]
    """
    if damping == 0.0:
        return C
    C = (1.0 - damping) * C
    np.fill_diagonal(C, 1.0)
    return C


def _weighted_gram(G: Array, mean: Vector, omega: Omega, coefficients: Vector) -> Vector:
    """G diag(c(u)) G' of one piece of G, flat."""
    G = as_float64(G)
    u = beside(mean, G) @ G
    u = namespace(G).clip(u, EPS * float(u.max()) + np.finfo(np.float64).tiny, None)
    bend = sum(float(c) * loss.curvature(u, u) for c, loss in zip(coefficients, omega, strict=True))
    return np.array(((G * bend) @ G.T).reshape(-1).tolist())


def row_sums(F: Array) -> Vector:
    """Add up every row of a piece of a factor (r, n), in float64."""
    return np.array(as_float64(F).sum(1).tolist())
