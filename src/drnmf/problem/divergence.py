"""The divergence of two matrices, for users."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from drnmf.backends.entries import check_structure
from drnmf.losses.base import Loss
from drnmf.losses.names import as_loss
from drnmf.numerics import Array

_BLOCK = 1 << 20


def beta_divergence(X: ArrayLike, Y: ArrayLike, beta: float | str | Loss) -> float:
    """Compute D_beta(X, Y), the sum of d_beta(x|y) over all entries; X dense or sparse, Y dense.

    Parameters
    ----------
    X : array or SciPy sparse matrix of shape (m, n), nonnegative
    Y : array of the same shape, nonnegative
    beta : number >= 0, "itakura-saito", "kullback-leibler" or "frobenius", or a loss such as ``NegativeBinomial(30)``

    Returns
    -------
    divergence : float

    Examples
    --------
    >>> beta_divergence([[1.0, 2.0]], [[1.0, 4.0]], 2)
    2.0
    """
    loss = as_loss(beta)
    model = np.asarray(Y)
    if not np.issubdtype(model.dtype, np.floating):
        model = model.astype(np.float64)
    if sp.issparse(X):
        check_structure(X)
        rows = sp.csr_array(X)
        shape: tuple[int, ...] = rows.shape
    else:
        rows = np.asarray(X)
        shape = rows.shape
    if shape != model.shape:
        raise ValueError(f"X has shape {shape} and Y has shape {model.shape}: they must be the same.")
    if not sp.issparse(X) and model.ndim != 2:
        rows, model = np.atleast_2d(rows), np.atleast_2d(model)
        rows, model = rows.reshape(rows.shape[0], -1), model.reshape(model.shape[0], -1)
    _require_nonnegative(rows.data if sp.issparse(X) else rows, "X")
    _require_nonnegative(model, "Y")
    step = max(1, _BLOCK // max(1, model.shape[1]))
    total = 0.0
    for start in range(0, model.shape[0], step):
        block = rows[start : start + step]
        dense = block.toarray() if sp.issparse(X) else block
        total += float(loss.terms(dense, model[start : start + step]).sum())
    return total


def _require_nonnegative(values: Array, name: str) -> None:
    if values.size and not values.min() >= 0:
        raise ValueError(f"{name} has negative or NaN entries: beta-divergences are defined for values >= 0.")
