r"""What the rest of a row says of an entry that was held out, where standard deviations are known.

A row of W that few entries tell is not known as well as they are: where one column alone has a component, and its entry
is held out, nothing in the row tells how much of it there is, and WH says anything. So the rows of W are taken for
draws from one normal distribution, with the mean m and the variances D that they have themselves, and what is known of
row i is

.. math:: C_i = (H P_i H^T + D^{-1})^{-1}, \qquad \bar w_i = C_i\,(H P_i H^T w_i + D^{-1} m)

with the precisions P_i of its training entries, zero elsewhere. Entry j then has the mean :math:`h_j^T \bar w_i` and
the variance :math:`\sigma_{ij}^2 + h_j^T C_i h_j`. Where the rest of the row tells w_i, that is WH and sigma.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from drnmf.numerics import Vector
from drnmf.selection.likelihood.scores import Index

_LEAST = 1e-12
"""Variance of a column of W that is constant, in its square."""
_CHUNK = 1 << 12
"""Entries that are predicted at a time."""


def predict(
    W: Vector, H: Vector, precisions: Iterable[tuple[slice, Vector]], rows: Index, columns: Index
) -> tuple[Vector, Vector]:
    """Predict entries from the rest of their rows, with the variance of these means.

    That of the entries is not in it. `precisions` are ranges of columns, and one over the squares of the standard
    deviations there, zero where an entry has no say.

    >>> W, H = np.array([[1.0], [3.0]]), np.array([[2.0, 1.0]])
    >>> at = np.array([0, 1]), np.array([1, 1])
    >>> mean, variance = predict(W, H, [(slice(0, 2), np.array([[1e9, 0.0], [0.0, 0.0]]))], *at)
    >>> mean.round(6).tolist(), variance.round(6).tolist()  # the second row is not known at all
    ([1.0, 2.0], [0.0, 1.0])
    """
    r, m = W.shape[1], W.shape[0]
    told = np.zeros((m, r * r))
    for part, precision in precisions:
        h = H[:, part]
        told += precision @ (h[:, None] * h[None]).reshape(r * r, -1).T
    size = np.maximum(np.abs(W).max(axis=0), np.finfo(np.float64).tiny)  # so that no unit of W is near a limit
    told = told.reshape(m, r, r) * (size[:, None] * size)
    W, H = W / size, H * size[:, None]
    center, spread = W.mean(axis=0), np.maximum(W.var(axis=0), _LEAST)
    covariance = np.linalg.inv(told + np.diag(1.0 / spread))
    known = np.einsum("irs,is->ir", told, W) + center / spread
    means = np.einsum("irs,is->ir", covariance, known)
    mean, variance = np.empty(rows.size), np.empty(rows.size)
    for first in range(0, rows.size, _CHUNK):  # every entry takes a covariance of its own
        some = slice(first, first + _CHUNK)
        i, h = rows[some], H[:, columns[some]]
        mean[some] = np.einsum("kr,rk->k", means[i], h)
        variance[some] = np.einsum("rk,krs,sk->k", h, covariance[i], h)
    return mean, np.maximum(variance, 0.0)
