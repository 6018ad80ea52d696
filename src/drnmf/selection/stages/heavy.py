"""Rows that are much heavier than the others: hypermutated samples, deep libraries. They must not rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.numerics import Vector
from drnmf.selection.entries import facts_of

HEAVY = 10.0
"""A capped row weighs at most this many times the median row."""


def cap_factors(X: Any) -> Vector | None:
    """Compute by what every row of X (m, n) is multiplied so that none is too heavy; None where none is.

    >>> cap_factors(np.array([[1.0], [1.0], [40.0]])).tolist()
    [1.0, 1.0, 0.25]
    """
    sums = np.asarray(X.sum(axis=1) if sp.issparse(X) else np.nansum(X, axis=1), dtype=np.float64).ravel()
    limit = HEAVY * float(np.median(sums[sums > 0]))
    factors = limit / np.maximum(sums, limit)
    return factors if bool((factors < 1.0).any()) else None


def scaled_rows(X: Any, factors: Vector) -> Any:
    """Multiply the rows of X by factors; counts stay counts.

    >>> scaled_rows(np.array([[4.0, 3.0]]), np.array([0.5])).tolist()
    [[2.0, 2.0]]
    """
    scaled = sp.csr_array(sp.diags_array(factors) @ X) if sp.issparse(X) else X * factors[:, None]
    if facts_of(X).unit is None:
        return scaled.astype(X.dtype)
    return (scaled.rint() if sp.issparse(X) else np.rint(scaled)).astype(X.dtype)
