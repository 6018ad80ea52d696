"""Weights of rows, scikit-learn's `sample_weight`, as weights of entries."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from drnmf.backends.observed import HeldOut
from drnmf.backends.open import is_dask
from drnmf.numerics import MatrixLike, Vector, real_numbers
from drnmf.problem.device import as_numpy
from drnmf.problem.weights import WeightsLike


def row_weights(X: MatrixLike, sample_weight: ArrayLike | None) -> Vector | None:
    """Check one weight for every row, finite and nonnegative, not all zero; None where rows have none.

    Examples
    --------
    >>> row_weights(np.ones((2, 3)), [1, 2]).tolist()
    [1.0, 2.0]
    """
    if sample_weight is None:
        return None
    rows = X.shape[0] if hasattr(X, "shape") else len(np.asarray(X))
    weights = real_numbers("sample_weight", as_numpy(sample_weight), ": give one for every row of X")
    if weights.ndim == 0:
        weights = np.full(rows, float(weights))
    if weights.shape != (rows,):
        raise ValueError(f"sample_weight has shape {weights.shape}, and X has {rows} rows: give one number for each.")
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if wrong.size:
        raise ValueError(f"sample_weight[{wrong[0]}] = {weights[wrong[0]]:g}: weights are finite and >= 0.")
    if not weights.any():
        raise ValueError("sample_weight is zero throughout: at least one weight must be positive.")
    return weights


def with_rows_weighted(
    rows: Vector | None, entry_weight: WeightsLike = None, uncertainty: WeightsLike = None
) -> WeightsLike:
    """Return `entry_weight` multiplied by the weight of every row; as it is where rows have none.

    Raises
    ------
    ValueError
        Beside uncertainties, held-out entries and Dask arrays of weights, which are not multiplied here.
    """
    if rows is None:
        return entry_weight
    if uncertainty is not None:
        raise ValueError(
            "sample_weight and uncertainty were both given: give entry_weight = sample_weight / uncertainty^2 instead."
        )
    if isinstance(entry_weight, HeldOut) or is_dask(entry_weight):
        raise ValueError(
            f"sample_weight does not go with entry_weight of type {type(entry_weight).__name__}: leave one of the two "
            "out."
        )
    column = rows[:, None]
    if entry_weight is None:
        return column
    if sp.issparse(entry_weight):
        return sp.csr_array(entry_weight).multiply(column).tocsr()
    return real_numbers("entry_weight", as_numpy(entry_weight)) * column
