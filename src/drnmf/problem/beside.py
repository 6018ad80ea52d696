"""Matrices side by side, of whatever kind: NumPy, SciPy, Dask or torch."""

from __future__ import annotations

import sys
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.open import is_dask
from drnmf.problem.device import is_sparse, is_tensor


def is_elsewhere(X: object) -> bool:
    """Tell whether X is a Dask array or a tensor."""
    return is_dask(X) or is_tensor(X)


def total(X: Any) -> tuple[float, int]:
    """Add up the entries of a matrix that are not missing, and count them; zeros that are not stored are some."""
    if is_dask(X):
        dask = sys.modules["dask"]
        found = dask.compute(*(dask.delayed(total)(block) for block in X.to_delayed().ravel()))
        return sum(block[0] for block in found), sum(block[1] for block in found)
    if is_tensor(X):
        values = (X.to_sparse_coo().coalesce().values() if is_sparse(X) else X).double()
        stored = int(values.isfinite().sum())
        return float(values.nansum()), int(np.prod(X.shape)) if is_sparse(X) else stored
    values = X.data if sp.issparse(X) else np.asarray(X)
    count = X.shape[0] * X.shape[1] if sp.issparse(X) else int(np.isfinite(values).sum())
    return float(np.nansum(values, dtype=np.float64)), count


def laid(parts: list[Any]) -> Any:
    """Lay matrices with the same rows side by side.

    The kind is that of a Dask array among them, with its blocks of rows, else that of a tensor; sparse where one is and
    none has gaps.
    """
    for part in parts:
        if is_dask(part):
            return _in_blocks(parts, part.chunks[0])
    for part in parts:
        if is_tensor(part):
            return _tensors(parts, part)
    if any(map(sp.issparse, parts)) and not any(not sp.issparse(part) and np.isnan(part).any() for part in parts):
        return sp.hstack(parts, format="csr")
    return np.hstack([part.toarray() if sp.issparse(part) else part for part in parts])


def _in_blocks(parts: list[Any], rows: tuple[int, ...]) -> Any:
    """A Dask array, every block of which holds whole rows."""
    import dask.array as da

    arrays = [
        part.rechunk((rows, -1)) if is_dask(part) else da.from_array(part, chunks=(rows, -1), asarray=False)
        for part in parts
    ]
    dtype = np.result_type(*(array.dtype for array in arrays))
    width, empty = sum(array.shape[1] for array in arrays), np.empty((0, 0), dtype)
    meta = sp.csr_array(empty) if any(sp.issparse(array._meta) for array in arrays) else empty
    return da.map_blocks(_row_blocks, *arrays, dtype=dtype, chunks=(rows, (width,)), meta=meta)


def _row_blocks(*blocks: object) -> Any:
    return laid([block if sp.issparse(block) else np.asarray(block) for block in blocks])


def _tensors(parts: list[Any], first: Any) -> Any:
    """A tensor on the device of the first one."""
    torch = sys.modules["torch"]
    on = [part if is_tensor(part) else torch.as_tensor(_dense(part)) for part in parts]
    if not all(map(is_sparse, on)):
        on = [part.to_dense() if is_sparse(part) else part for part in on]
    else:
        on = [part.to_sparse_coo() for part in on]
    dtype = reduce(torch.promote_types, (part.dtype for part in on))
    return torch.cat([part.to(first.device, dtype) for part in on], 1)


def _dense(part: Any) -> Any:
    return part.toarray() if sp.issparse(part) else np.ascontiguousarray(part)
