"""Rows of matrices on disk, read by the task that needs them; what cannot be read says which rows of which file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.entries import check_structure
from drnmf.matrices.matrix import Entries, Refused

Element = Any
"""An array or a group of h5py, zarr or NumPy."""


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
    source : how messages call it
    store, path, name : how the element with the matrix is opened (`STORES`); each task opens it for itself
    sparse : whether the element holds CSR arrays (AnnData's) and not a dense array
    columns : of the matrix
    """

    source: str
    store: str
    path: str
    name: str
    sparse: bool
    columns: int

    def __call__(self, start: int, stop: int) -> Entries:
        """Read rows from start to stop - 1, as an array or as a CSR matrix with sound indices."""
        with (
            readable(self.source, f", rows {start + 1} to {stop},"),
            STORES[self.store](self.path, self.name) as element,
        ):
            if not self.sparse:
                return np.array(element[start:stop])  # a copy: no worker is to keep pages of the rest of a .npy
            ends = np.asarray(element["indptr"][start : stop + 1], dtype=np.int64)
            first, last = int(ends[0]), int(ends[-1])
            entries, indices = (np.asarray(element[name][first:last]) for name in ("data", "indices"))
            X = sp.csr_array((entries, indices, ends - first), shape=(stop - start, self.columns))
            check_structure(X)
            return X


@contextmanager
def _in_hdf5(path: str, name: str) -> Iterator[Element]:
    import h5py

    with h5py.File(path, "r") as stored:
        yield stored[name]


@contextmanager
def _in_zarr(path: str, name: str) -> Iterator[Element]:
    import zarr

    stored: Element = zarr.open(path, mode="r")
    yield stored[name] if name else stored


@contextmanager
def _in_npy(path: str, name: str) -> Iterator[Element]:
    yield np.load(path, mmap_mode="r", allow_pickle=False)


STORES = {"hdf5": _in_hdf5, "zarr": _in_zarr, "npy": _in_npy}
"""How an element of a file or store is opened, by its path and its name there, for the time of a block."""
