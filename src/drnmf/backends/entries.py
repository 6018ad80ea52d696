"""Entries of a matrix one by one: those that are not what NMF needs (negative, not finite, or zero under beta = 0), and
all of them in one SHA-256.

A hash per row, and a hash of those, so that layout and blocks make no difference. No copy of X is made: rows are hashed
where they are, or a bounded block of them at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from drnmf.losses.base import Loss
from drnmf.losses.names import as_loss
from drnmf.numerics import Array, Entries, Indices

_CHUNK = 1 << 20


def is_sound(X: Entries, gaps: bool = False) -> bool:
    """Is every entry finite and >= 0? Allocates nothing of X's size.

    gaps : NaN in dense X is a missing entry, which is sound too
    """
    values, sparse = (X.data, True) if sp.issparse(X) else (X, False)
    if values.size == 0:
        return True
    low, high = values.min(), values.max()  # NaN propagates through both
    if gaps and not sparse and np.isnan(low):
        low, high = np.fmin.reduce(values, axis=None), np.fmax.reduce(values, axis=None)
        return bool(np.isnan(low) or (low >= 0 and np.isfinite(high)))
    return bool(low >= 0 and np.isfinite(high))


def check_structure(X: Entries, name: str = "X") -> None:
    """Refuse sparse X that is no matrix, or whose indices, which loops follow without looking, lead outside of it.

    >>> X = sp.csr_array(np.eye(2))
    >>> X.indices[1] = 5
    >>> check_structure(X)
    Traceback (most recent call last):
    ValueError: Sparse X is malformed: column index 5 is not in 0 to 1. Build it again from its entries.
    """
    if not sp.issparse(X):
        return
    if X.ndim != 2:
        raise ValueError(
            f"Sparse {name} has shape {X.shape}: give a matrix of rows and columns (reshape it to (m, n))."
        )
    try:
        _check_structure(X)
    except _Malformed as error:
        raise ValueError(f"Sparse {name} is malformed: {error}. Build it again from its entries.") from None


class _Malformed(ValueError):
    """What is wrong with the indices of a sparse matrix."""


def _check_structure(X: sp.sparray) -> None:
    (m, n), form = X.shape, X.format
    if form == "coo":
        if not len(X.row) == len(X.col) == len(X.data):
            raise _Malformed(f"{len(X.row)} row indices, {len(X.col)} column indices and {len(X.data)} values")
        _check_indices(X.row, "row", m)
        _check_indices(X.col, "column", n)
    elif form in ("csr", "csc", "bsr"):
        height, width = X.blocksize if form == "bsr" else (1, 1)
        rows, columns = ("column", "row") if form == "csc" else ("row", "column")
        major, minor = (n, m) if form == "csc" else (m // height, n // width)
        _check_pointers(X.indptr, rows, major, min(len(X.indices), len(X.data)))
        _check_indices(X.indices[: X.indptr[-1]], columns, minor)


def _check_pointers(indptr: Indices, kind: str, count: int, stored: int) -> None:
    if indptr.dtype.kind not in "iu" or len(indptr) != count + 1:
        needed = f"and {count + 1} integers are needed"
        raise _Malformed(f"indptr has {len(indptr)} entries of type {indptr.dtype}, {needed}")
    if indptr[0] != 0 or indptr[-1] > stored:
        raise _Malformed(f"indptr leads from {indptr[0]} to {indptr[-1]}, and {stored} entries are stored")
    back = np.flatnonzero(indptr[1:] < indptr[:-1])
    if back.size:
        raise _Malformed(f"indptr decreases after {kind} {back[0]}")


def _check_indices(indices: Indices, kind: str, count: int) -> None:
    if indices.dtype.kind not in "iu":
        raise _Malformed(f"{kind} indices of type {indices.dtype}")
    for index in (indices.min(initial=0), indices.max(initial=0)):
        if len(indices) and not 0 <= index < count:
            raise _Malformed(f"{kind} index {index} is not in 0 to {count - 1}")


def first_bad_entry(X: sp.sparray, gaps: bool = False) -> tuple[int, int, float]:
    """Position and value of the first entry, row by row, that is negative, NaN or infinite.

    gaps : NaN in dense X is a missing entry, and not bad
    """
    if sp.issparse(X):
        entries = X.tocoo()
        bad = np.flatnonzero(~((entries.data >= 0) & np.isfinite(entries.data)))
        first = bad[np.lexsort((entries.col[bad], entries.row[bad]))[0]]
        return int(entries.row[first]), int(entries.col[first]), float(entries.data[first])
    step = max(1, _CHUNK // X.shape[1])
    for start in range(0, X.shape[0], step):
        block = X[start : start + step]
        bad = ~((block >= 0) & np.isfinite(block)) & ~(np.isnan(block) & gaps)
        if bad.any():
            i, j = np.unravel_index(int(np.argmax(bad)), bad.shape)
            return start + int(i), int(j), float(block[i, j])
    raise AssertionError("no bad entry")


def refusal(row: int, column: int, value: float, consumer: str) -> ValueError:
    """The error that names a bad entry."""
    where = f"X[{row}, {column}] = {value}"
    if -np.inf < value < 0:
        return ValueError(
            f"Negative values in data passed to {consumer} (input X): the first is {where}. "
            "NMF needs values >= 0. Where they are noise about zero, negatives='clip' or 'missing' reads them so, and "
            "with beta=2 'keep' takes them as they are."
        )
    return ValueError(
        f"Input X contains NaN or infinity: the first is {where}. "
        "Remove or impute such entries (for example with sklearn.impute.SimpleImputer)."
    )


def first_true(found: Entries) -> list[int]:
    """Position of the first True of a tensor."""
    return [int(index) for index in found.nonzero()[0]]


BLOCK_BYTES = 1 << 23
"""Bytes of X that are looked at together: what is made of them stays small beside X."""


def combined(rows: Iterable[bytes]) -> str:
    """One digest from those of the rows, in order; they may come several at a time."""
    whole = hashlib.sha256()
    for part in rows:
        whole.update(part)
    return whole.hexdigest()


def row_blocks(shape: tuple[int, int], itemsize: int) -> Iterator[slice]:
    """Runs of rows of about BLOCK_BYTES.

    >>> [(block.start, block.stop) for block in row_blocks((5, 1 << 20), 4)]
    [(0, 2), (2, 4), (4, 5)]
    """
    m, n = shape
    step = max(1, BLOCK_BYTES // max(1, n * itemsize))
    return (slice(first, min(first + step, m)) for first in range(0, m, step))


def dense_rows(X: Array) -> Iterator[bytes]:
    """Digest of every row of a dense matrix in any order."""
    n = X.shape[1]
    for at in row_blocks((X.shape[0], n), X.itemsize):
        block = np.ascontiguousarray(X[at])
        gaps = np.isnan(block)
        if gaps.any():
            block = np.where(gaps, block.dtype.type(np.nan), block)  # NaN has many bit patterns, and is one gap
        nonzero = block != 0
        if nonzero.all():
            yield from _digests(block.ravel(), None, np.arange(0, block.size + 1, n), n)
        else:
            ends = np.concatenate([[0], np.cumsum(nonzero.sum(axis=1))])
            yield from _digests(block[nonzero], np.nonzero(nonzero)[1], ends, n)


def sparse_rows(values: Array, indices: Any, ends: Indices, n: int, scale: float) -> Iterator[bytes]:
    """Digest of every row of a matrix in canonical CSR without stored zeros, its values divided by the scale."""
    rows = len(ends) - 1
    for at in row_blocks((rows, len(values) // max(1, rows)), 16):  # bytes of a value and its column
        first, last = ends[at.start], ends[at.stop]
        yield from _digests(values[first:last] / scale, indices[first:last], ends[at.start : at.stop + 1] - first, n)


def _digests(values: Array, columns: Indices | None, ends: Indices, n: int) -> Iterator[bytes]:
    """Hash of the nonzeros of every row, after their columns where a row has zeros too.

    Zeros do not enter, so that a dense and a sparse X with the same entries are the same X.
    """
    nonzero, size = _bytes(values), values.itemsize
    # by the size of X alone: SciPy chooses the width of indices by other things too, and X is the same
    width = np.dtype(np.int32 if n < 2**31 else np.int64)
    places = _bytes(np.asarray(() if columns is None else columns, dtype=width))
    for first, last in pairwise(ends.tolist()):
        row = hashlib.sha256(b"" if last - first == n else places[width.itemsize * first : width.itemsize * last])
        row.update(nonzero[size * first : size * last])
        yield row.digest()


def _bytes(array: object) -> memoryview:
    return memoryview(np.ascontiguousarray(array).view(np.uint8).data)


_BLOCK = 1 << 20
"""Entries that become dense together: a sparse X never does as a whole."""


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
