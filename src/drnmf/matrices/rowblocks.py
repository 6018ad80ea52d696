"""Matrices that are read in blocks of rows, as Dask arrays: .zarr, a folder of .npy and .npz blocks, .npy, .h5ad.

Nothing is read here but shapes and names; a block is read by the task that needs it.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp

from drnmf.backends.entries import check_structure
from drnmf.files import replacing
from drnmf.loading import needs
from drnmf.matrices.cells import Refused
from drnmf.matrices.damage import check_hdf5
from drnmf.matrices.files import read_matrix
from drnmf.matrices.matrix import AS_FOUND, Labels, Layout, Matrix, check_form, readable
from drnmf.numerics import Entries
from drnmf.storage.archive import read_header

Element = Any
"""An array or a group of h5py, zarr or NumPy."""


@dataclass(frozen=True)
class StoredRows:
    """A matrix in a file or store, from which rows are read."""

    source: str  # how messages call it
    # store, path, name: how the element with the matrix is opened (`STORES`); each task opens it for itself
    store: str
    path: str
    name: str
    sparse: bool  # whether the element holds CSR arrays (AnnData's) and not a dense array
    columns: int  # of the matrix

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


COUNTS = "layers/counts"
"""What is read of an AnnData file where nothing is named: NMF wants counts, and X is often their logarithm."""

BLOCK_BYTES = 64 << 20
"""Blocks have about this size: two or three of them are in a worker's memory at a time."""


def block_rows(blocks: int, m: int, columns: float, itemsize: int, multiple: int = 1) -> int:
    """Choose the rows of a block: about BLOCK_BYTES each, and at least so many blocks.

    multiple : the rows that the file stores together

    >>> block_rows(1, 100, 1 << 20, 8, 3), block_rows(10, 100, 1 << 20, 8)
    (6, 8)
    """
    rows = min(int(BLOCK_BYTES / max(1.0, columns * itemsize)), -(-m // blocks))
    return max(multiple, rows // multiple * multiple)


def sparse_columns(m: int, entries: int) -> float:
    """Count the numbers that a sparse row takes: entries are kept by row and by column, each with an index."""
    return 4.0 * entries / m


def open_matrix(
    path: str | os.PathLike[str], variable: str | None = None, blocks: int = 1, layout: Layout = AS_FOUND
) -> Matrix:
    """Open the matrix at a path as a Dask array in at least `blocks` blocks of rows, where the file allows it.

    .zarr : an array, or a group with one matrix (else `variable` names it), or an AnnData store
    folder : row blocks, .npy (dense) and .npz (SciPy sparse), stacked in the order of their names
    .npy : read in slices; the file may be larger than memory
    .h5ad : X of an AnnData file, or the layer that `variable` names ("layers/counts")

    Parameters
    ----------
    path : the file or folder
    variable : which array, where there are several
    blocks : the fewest blocks to make, for example the number of workers
    layout : how a table lies in its file, as in `read_matrix`

    Returns
    -------
    matrix : Matrix, with a Dask array as X

    Raises
    ------
    ValueError
        Where the file is damaged, or holds no matrix of real numbers, or several and none was named.
    """
    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(f"{source} does not exist: check the path.")
    opener = _opener(source)
    if opener is None:
        return _split(read_matrix(source, variable, layout), blocks)
    if replace(layout, layer=None, image=None) != AS_FOUND:
        raise Refused(
            f"{source} is read in blocks of rows: leave --labels, --delimiter, --sheet, --long and --transpose "
            "(layout= in Python) out."
        )
    if layout.layer is not None:
        variable = f"layers/{layout.layer}"
    return opener(source, variable, blocks).arranged(layout, source)


def read_whole(path: Path, variable: str | None = None, layout: Layout = AS_FOUND) -> Matrix:
    """Read a matrix into memory, however it is stored."""
    matrix = open_matrix(path, variable, layout=replace(layout, transpose=False, image=None))
    return replace(matrix, X=matrix.X.compute()).arranged(replace(layout, layer=None), path)


def _opener(source: Path) -> Callable[[Path, str | None, int], Matrix] | None:
    """Choose what opens a file in blocks; None where it is read as a whole."""
    suffix = source.suffix.lower()
    if suffix == ".zarr":
        return _open_zarr
    if suffix == ".h5ad":
        return _open_h5ad
    if source.is_dir():
        return _open_folder
    return _open_npy if suffix == ".npy" else None


def _open_zarr(source: Path, variable: str | None, least: int) -> Matrix:
    zarr = needs("zarr", "dask")
    with readable(source):
        stored = zarr.open(os.fspath(source), mode="r")
    name = ""
    if isinstance(stored, zarr.Group):
        if stored.attrs.get("encoding-type") == "anndata":
            return _open_anndata(source, stored, variable, least, "zarr")
        with readable(source):
            arrays = dict(stored.arrays())
        planes = sorted(name for name, array in arrays.items() if array.ndim == 2)
        chosen = variable if variable is not None else planes[0] if len(planes) == 1 else None
        if chosen is None or chosen not in arrays:
            raise Refused(f"{source} holds the matrices {planes}: name one with --variable (variable= in Python).")
        stored, name = arrays[chosen], chosen
    elif variable is not None:
        raise Refused(f"{source} is one array without a name, so a variable ({variable!r}) cannot be chosen.")
    check_form(source, stored.shape, stored.dtype)
    with readable(source):
        rows = block_rows(least, stored.shape[0], stored.shape[1], stored.dtype.itemsize, stored.chunks[0])
    return Matrix(_lazy(source, ("zarr", name), stored.shape, rows, stored.dtype))


def _open_h5ad(source: Path, variable: str | None, least: int) -> Matrix:
    h5py = needs("h5py", "anndata")
    check_hdf5(source, *((COUNTS, "X") if variable is None else (variable,)))
    with readable(source), h5py.File(source, "r") as stored:
        return _open_anndata(source, stored, variable, least, "hdf5")


def _open_anndata(source: Path, stored: Element, variable: str | None, least: int, store: str) -> Matrix:
    """Open X, or the element that `variable` names, of an AnnData store, with the names of its rows and columns."""
    name = variable or (COUNTS if COUNTS in stored else "X")
    if name not in stored:
        layers = ", ".join(sorted(stored["layers"])) if "layers" in stored else ""
        raise Refused(f"{source} has no {name!r}: it holds X{f' and the layers {layers}' if layers else ' alone'}.")
    with readable(source):
        element = stored[name]
        encoding = element.attrs.get("encoding-type", "array")
        sparse = encoding in ("csr_matrix", "csc_matrix")
        values, shape = (element["data"], element.attrs["shape"]) if sparse else (element, element.shape)
        m, n = (int(size) for size in shape)
        entries, names = values.shape[0], (_names(stored["obs"]), _names(stored["var"]))
    if encoding == "csc_matrix":
        raise Refused(f"{source} stores {name} by columns (CSC), but rows are needed: write it again as CSR.")
    check_form(source, (m, n), values.dtype)
    rows = block_rows(least, m, sparse_columns(m, entries) if sparse else n, values.dtype.itemsize)
    array = _lazy(source, (store, name), (m, n), rows, values.dtype, sparse)
    matrix = Matrix(array, Labels.of(names[0]), Labels.of(names[1]))
    if variable is None and name == COUNTS:
        return replace(matrix, notes=(f"{source}: the layer 'counts' was read, not X (--layer names another).",))
    return matrix


def _lazy(
    source: Path,
    element: tuple[str, str],
    shape: tuple[int, ...],
    rows: int,
    dtype: np.dtype[np.generic],
    sparse: bool = False,
) -> da.Array:
    """Make an array of blocks of rows of an element (its store, its name), which are read when they are needed."""
    read = StoredRows(os.fspath(source), element[0], os.fspath(source.resolve()), element[1], sparse, shape[1])
    meta = sp.csr_array((0, 0), dtype=dtype) if sparse else np.empty((0, 0), dtype=dtype)
    blocks = []
    for start in range(0, shape[0], rows):
        stop = min(start + rows, shape[0])
        block = dask.delayed(read, pure=False)(start, stop)
        blocks.append(da.from_delayed(block, (stop - start, shape[1]), dtype, meta=meta))
    return da.concatenate(blocks)


def _names(frame: Element) -> tuple[str, ...] | None:
    index = frame.attrs.get("_index")
    if index is None or index not in frame:
        return None
    return tuple(name.decode() if isinstance(name, bytes) else str(name) for name in frame[index][...])


def _open_npy(source: Path, variable: str | None, least: int) -> Matrix:
    if variable is not None:
        raise Refused(f"{source} holds one matrix without a name, so a variable ({variable!r}) cannot be chosen.")
    with readable(source):
        mapped = np.load(source, mmap_mode="r", allow_pickle=False)
    check_form(source, mapped.shape, mapped.dtype)
    rows = block_rows(least, mapped.shape[0], mapped.shape[1], mapped.dtype.itemsize)
    return Matrix(_lazy(source, ("npy", ""), mapped.shape, rows, mapped.dtype))


def _open_folder(source: Path, variable: str | None, least: int) -> Matrix:
    files = sorted(file for file in source.iterdir() if file.suffix in (".npy", ".npz"))
    if not files:
        raise Refused(f"{source} holds no row blocks: a folder of .npy or .npz files with the same columns is needed.")
    blocks = [_open_npy(file, None, least).X if file.suffix == ".npy" else _sparse_block(file) for file in files]
    for file, block in zip(files, blocks, strict=True):
        if block.shape[1] != blocks[0].shape[1]:
            raise Refused(
                f"{file} has {block.shape[1]} columns, but {files[0].name} has {blocks[0].shape[1]}: "
                "all blocks of a folder must have the same."
            )
    return Matrix(da.concatenate(blocks))


def _sparse_block(file: Path) -> da.Array:
    """Open a SciPy sparse matrix in a .npz: its header is read now, its entries later."""
    try:
        with np.load(file, allow_pickle=False) as stored:
            shape = tuple(int(size) for size in stored["shape"])
        with zipfile.ZipFile(file) as archive, archive.open("data.npy") as stream:
            dtype = read_header(stream)[2]
    except (MemoryError, PermissionError):
        raise
    except Exception as error:  # what reads damaged files raises nearly anything
        raise Refused(f"{file} is no SciPy sparse matrix (scipy.sparse.save_npz): {error}.") from None
    check_form(file, shape, dtype)
    block = dask.delayed(_read_sparse, pure=False)(os.fspath(file.resolve()))
    return da.from_delayed(block, shape, dtype, meta=sp.csr_array((0, 0), dtype=dtype))


def _read_sparse(path: str) -> Entries:
    with readable(path):
        X = sp.load_npz(path)
        check_structure(X)
        return sp.csr_array(X)


def _split(matrix: Matrix, least: int) -> Matrix:
    """Split a matrix that was read as a whole, in this process, into blocks."""
    X = matrix.X
    columns = sparse_columns(X.shape[0], X.nnz) if sp.issparse(X) else X.shape[1]
    rows = block_rows(least, X.shape[0], columns, X.dtype.itemsize)
    pieces = [X[start : start + rows] for start in range(0, X.shape[0], rows)]
    meta = sp.csr_array((0, 0), dtype=X.dtype) if sp.issparse(X) else np.empty((0, 0), X.dtype)
    blocks = [da.from_delayed(dask.delayed(piece), piece.shape, X.dtype, meta=meta) for piece in pieces]
    return replace(matrix, X=da.concatenate(blocks))


def save_rows(path: str | os.PathLike[str], W: da.Array) -> None:
    """Write W as one .npy, block after block: never more than one of them is here."""
    header = {"descr": np.lib.format.dtype_to_descr(W.dtype), "fortran_order": False, "shape": W.shape}
    with replacing(path) as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        for i in range(W.numblocks[0]):
            stream.write(np.ascontiguousarray(W.blocks[i].compute()).data)
