"""Rows of matrices on disk, read by the task that needs them; what cannot be read says which rows of which file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.entries import check_structure
from drnmf.matrices.matrix import Refused


@contextmanager
def readable(source: str | os.PathLike[str], where: str = "") -> Iterator[None]:
    """Turn whatever a reader raises on a damaged file into one error that names the file."""
    try:
        yield
    except (Refused, MemoryError, PermissionError):
        raise
    except Exception as error:  # what reads damaged files raises nearly anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise Refused(f"{source}{where} cannot be read: it may be damaged or cut short ({reason}).") from None


@dataclass(frozen=True)
class StoredRows:
    """A matrix in a file or store, from which rows are read.

    Attributes
    ----------
    source : where it is
    opened : a context manager that opens the element with the matrix; each task opens it for itself
    sparse : whether the element holds CSR arrays (AnnData's) and not a dense array
    columns : of the matrix
    """

    source: str
    opened: Callable[[], Any]
    sparse: bool
    columns: int

    def __call__(self, start: int, stop: int) -> Any:
        """Read rows from start to stop - 1, as an array or as a CSR matrix with sound indices."""
        with readable(self.source, f", rows {start + 1} to {stop},"), self.opened() as element:
            if not self.sparse:
                return np.asarray(element[start:stop])
            ends = np.asarray(element["indptr"][start : stop + 1], dtype=np.int64)
            first, last = int(ends[0]), int(ends[-1])
            entries, indices = (np.asarray(element[name][first:last]) for name in ("data", "indices"))
            X = sp.csr_array((entries, indices, ends - first), shape=(stop - start, self.columns))
            check_structure(X)
            return X


@dataclass(frozen=True)
class InHdf5:
    """An element of an HDF5 file."""

    path: str
    name: str

    @contextmanager
    def __call__(self) -> Iterator[Any]:
        """Open the file for the time of the block."""
        import h5py

        with h5py.File(self.path, "r") as stored:
            yield stored[self.name]


@dataclass(frozen=True)
class InZarr:
    """An element of a zarr store, or the store itself where the name is empty."""

    path: str
    name: str

    @contextmanager
    def __call__(self) -> Iterator[Any]:
        """Open the store for the time of the block."""
        import zarr

        stored: Any = zarr.open(self.path, mode="r")
        yield stored[self.name] if self.name else stored
