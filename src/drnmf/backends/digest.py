"""Every entry of X in one SHA-256: a hash per row, and a hash of those, so that layout and blocks make no difference.

No copy of X is made: rows are hashed where they are, or a bounded block of them at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from drnmf.numerics import Array, Indices

BLOCK_BYTES = 1 << 23


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
    for at in row_blocks((rows, len(values) // max(1, rows)), 16):
        first, last = ends[at.start], ends[at.stop]
        yield from _digests(values[first:last] / scale, indices[first:last], ends[at.start : at.stop + 1] - first, n)


def _digests(values: Array, columns: Indices | None, ends: Indices, n: int) -> Iterator[bytes]:
    """Hash of the nonzeros of every row, after their columns where a row has zeros too.

    Zeros do not enter, so that a dense and a sparse X with the same entries are the same X.
    """
    nonzero, size = _bytes(values), values.itemsize
    width = np.dtype(np.int32 if n < 2**31 else np.int64)
    places = _bytes(np.asarray(() if columns is None else columns, dtype=width))
    for first, last in pairwise(ends.tolist()):
        row = hashlib.sha256(b"" if last - first == n else places[width.itemsize * first : width.itemsize * last])
        row.update(nonzero[size * first : size * last])
        yield row.digest()


def _bytes(array: Any) -> memoryview:
    return memoryview(np.ascontiguousarray(array).view(np.uint8).data)
