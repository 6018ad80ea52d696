"""Rows and columns of X that are equal, and X whose rows are all alike: what held-out entries would be fooled by."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.digest import row_blocks
from drnmf.numerics import Vector
from drnmf.problem.device import as_numpy, is_tensor

ONE_COMPONENT = "X has one component only: its rows are multiples of one another."
_ROUNDING = 1e-6
"""Part of the largest entry up to which a row may differ from a multiple of the others."""


def twins_of(X: Any) -> tuple[Any, Any]:
    """Find for every row, and for every column, the first that it is equal to.

    A row that occurs twice is predicted by its twin, noise included, unless both lose the same entries. Rows without a
    positive entry predict nothing and count as different. X on a cluster is not looked at.

    Returns
    -------
    rows, columns : (m,) and (n,) of indices, None where none is equal to another

    Examples
    --------
    >>> twins_of(np.array([[1.0, 2.0, 2.0], [3.0, 4.0, 4.0], [1.0, 2.0, 2.0]]))
    (array([0, 1, 0]), array([0, 1, 1]))
    """
    X = as_numpy(X) if is_tensor(X) and str(X.layout) == "torch.strided" else X
    if sp.issparse(X):
        return _first_of(_stored_rows(sp.csr_array(X))), _first_of(_stored_rows(sp.csr_array(X.T)))
    if not isinstance(X, np.ndarray):
        return None, None
    return _first_of(_dense_rows(X)), _first_of(_dense_rows(X.T))


def _dense_rows(X: Any) -> list[bytes]:
    """The entries of every row; nothing where none is positive."""
    found: list[bytes] = []
    for at in row_blocks(X.shape, X.itemsize):
        block = np.ascontiguousarray(X[at]) + X.dtype.type(0)  # one zero, whatever its sign
        full = (block > 0).any(axis=1)
        found += [row.tobytes() if some else b"" for row, some in zip(block, full, strict=True)]
    return found


def _stored_rows(X: Any) -> list[bytes]:
    rows = sp.csr_array(X, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    ends, places = rows.indptr.tolist(), rows.indices.astype(np.int64)
    return [places[a:b].tobytes() + rows.data[a:b].tobytes() for a, b in pairwise(ends)]


def _first_of(rows: list[bytes]) -> Any:
    known: dict[bytes, int] = {}
    first = np.array([known.setdefault(row, i) if row else i for i, row in enumerate(rows)])
    return None if np.array_equal(first, np.arange(first.size)) else first


def one_component(X: Any) -> bool:
    """Tell whether every row of X is a multiple of one of them, up to rounding.

    >>> one_component(np.outer([1.0, 2.0], [3.0, 4.0, 5.0])), one_component(np.eye(2))
    (True, False)
    """
    if not (isinstance(X, np.ndarray) or sp.issparse(X)):
        return False
    heights, widths = (np.asarray(X.sum(axis=axis), dtype=np.float64).ravel() for axis in (1, 0))
    total = float(heights.sum())
    if not 0.0 < total < np.inf:
        return False
    limit = _ROUNDING * float(heights.max()) / total * float(widths.max())
    if sp.issparse(X):
        entries = sp.coo_array(X)
        if entries.nnz < np.count_nonzero(heights) * np.count_nonzero(widths):
            return False
        return _near(entries.data, heights[entries.row] / total * widths[entries.col], limit)
    return all(_near(X[at], np.outer(heights[at] / total, widths), limit) for at in row_blocks(X.shape, 8))


def _near(x: Any, fitted: Vector, limit: float) -> bool:
    return bool((np.abs(x - fitted) <= limit).all())
