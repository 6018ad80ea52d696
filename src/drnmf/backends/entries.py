"""Where the entries of a matrix are not what NMF needs: negative, not finite, or zero under beta = 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

_CHUNK = 1 << 20


def is_sound(X: Any) -> bool:
    """Is every entry finite and >= 0? Allocates nothing of X's size."""
    values = X.data if sp.issparse(X) else X
    if values.size == 0:
        return True
    low, high = values.min(), values.max()  # NaN propagates through both
    return bool(low >= 0 and np.isfinite(high))


def first_bad_entry(X: Any) -> tuple[int, int, float]:
    """Position and value of the first entry, row by row, that is negative, NaN or infinite."""
    if sp.issparse(X):
        entries = X.tocoo()
        bad = np.flatnonzero(~((entries.data >= 0) & np.isfinite(entries.data)))
        first = bad[np.lexsort((entries.col[bad], entries.row[bad]))[0]]
        return int(entries.row[first]), int(entries.col[first]), float(entries.data[first])
    step = max(1, _CHUNK // X.shape[1])
    for start in range(0, X.shape[0], step):
        block = X[start : start + step]
        bad = ~((block >= 0) & np.isfinite(block))
        if bad.any():
            i, j = np.unravel_index(int(np.argmax(bad)), bad.shape)
            return start + int(i), int(j), float(block[i, j])
    raise AssertionError("no bad entry")


def refusal(row: int, column: int, value: float, consumer: str) -> ValueError:
    """The error that names a bad entry."""
    where = f"X[{row}, {column}] = {value}"
    if value < 0:
        return ValueError(
            f"Negative values in data passed to {consumer} (input X): the first is {where}. "
            "NMF needs values >= 0: clip them (np.maximum(X, 0)) or shift X if that makes sense for your data."
        )
    return ValueError(
        f"Input X contains NaN or infinity: the first is {where}. "
        "Remove or impute such entries (for example with sklearn.impute.SimpleImputer)."
    )


def first_true(found: Any) -> list[int]:
    """Position of the first True of a tensor."""
    return [int(index) for index in found.nonzero()[0]]


def first_zero(X: Any) -> tuple[int, int]:
    """Position of the first zero of X, row by row."""
    if type(X).__module__.partition(".")[0] == "torch":
        i, j = first_true(X.to_dense() == 0)
        return i, j
    if sp.issparse(X):
        rows = sp.csr_array(X)
        for i in range(rows.shape[0]):
            held = rows.indices[rows.indptr[i] : rows.indptr[i + 1]][
                rows.data[rows.indptr[i] : rows.indptr[i + 1]] != 0
            ]
            if held.size < rows.shape[1]:
                return i, int(np.setdiff1d(np.arange(rows.shape[1]), held)[0])
    else:
        for i, row in enumerate(X):
            if not row.all():
                return i, int(np.argmin(row != 0))
    raise AssertionError("no zero")
