"""Matrices from files: arrays, sparse matrices and tables. Never a pickle, and no half-read matrix."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import scipy.sparse as sp

from drnmf.backends.entries import check_structure
from drnmf.matrices import frames
from drnmf.matrices.cells import Refused, as_delimiter, find_delimiter, rows_of
from drnmf.matrices.damage import check_matlab, check_matrix_market
from drnmf.matrices.frames import read_table
from drnmf.matrices.matrix import AS_FOUND, Labels, Layout, Matrix, check_form, readable
from drnmf.matrices.tables import Source
from drnmf.numerics import Entries
from drnmf.storage.archive import read_header


def read_matrix(path: str | os.PathLike[str], variable: str | None = None, layout: Layout = AS_FOUND) -> Matrix:
    """Read the matrix in a file; the suffix says how.

    .npy one array; .npz arrays or a SciPy sparse matrix; .mtx, .mtx.gz Matrix Market; .mat MATLAB up to -v7;
    .csv, .tsv, .txt (also .gz), .parquet, .feather, .xlsx a table, with its header and its columns of labels found.

    Parameters
    ----------
    path : the file
    variable : which array of a .npz or .mat file; needed where it holds several matrices. Vectors (MATLAB's
        n x 1) do not count where there is a matrix.
    layout : how a table lies in the file, where that is not found right

    Returns
    -------
    matrix : Matrix, X and the labels of its rows and columns where the file has them. Missing values are NaN.

    Raises
    ------
    ValueError
        Where the file is damaged, or holds no matrix of real numbers, or several and none was named.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(folder + "/X.npy", np.eye(2))
    ...     read_matrix(folder + "/X.npy").X.shape
    (2, 2)
    """
    source = Path(path)
    if source.is_dir():
        raise IsADirectoryError(f"{source} is a folder, not a file with a matrix: give one of {' '.join(READERS)}.")
    if not source.exists():
        raise FileNotFoundError(f"{source} does not exist: check the path.")
    reader = _reader(source)
    if source.stat().st_size == 0:
        raise ValueError(f"{source} is empty (0 bytes): write it again.")
    if variable is not None and reader not in _NAMED:
        raise ValueError(f"{source} holds one matrix without a name, so a variable ({variable!r}) cannot be chosen.")
    _check_layout(source, reader, layout)
    with readable(source):
        matrix = reader(source, layout if reader in _TABLES else variable)
    return _flat(matrix, source).arranged(layout, source)


def _flat(matrix: Matrix, source: Path) -> Matrix:
    """Check the numbers, and make a row of every pixel of a cube (rows x columns x bands)."""
    X = _numeric(matrix.X, source)
    if X.ndim == 2:
        return replace(matrix, X=X)
    high, wide, bands = X.shape
    return replace(matrix, X=np.ascontiguousarray(X).reshape(-1, bands), rows=Labels.of_pixels((high, wide)))


Reader = Callable[[Path, Any], Matrix]
"""Takes the file, and the variable or the layout (`_TABLES`)."""


def _check_layout(source: Path, reader: Reader, layout: Layout) -> None:
    """Refuse to be told of a table what the file has nothing of."""
    foreign = (
        ("delimiter", layout.delimiter is not None and reader is not _read_text, "not delimited text"),
        ("sheet", layout.sheet is not None and reader is not frames.read_excel, "not a workbook with sheets"),
        ("layer", layout.layer is not None, "no AnnData file with layers"),
        ("long", layout.long and reader not in _TABLES, "not a table"),
        ("labels", layout.labels is not None and reader not in _TABLES, "not a table with labels"),
    )
    for name, wrong, what in foreign:
        if wrong:
            raise ValueError(f"{source} is {what}: leave --{name} ({name}= in Python) out.")


def _reader(source: Path) -> Reader:
    name = source.name.lower()
    for suffix, reader in READERS.items():
        if name.endswith(suffix):
            return reader
    raise ValueError(f"{source} has a suffix that is not known: use one of {' '.join(READERS)}.")


def _numeric(X: Entries, source: Path) -> Entries:
    """Check that X is a matrix of real numbers with at least one entry; sparse ones become CSR with sound indices."""
    check_form(source, X.shape, X.dtype, cube=True)
    if not sp.issparse(X):
        return X
    try:
        check_structure(X)
    except ValueError as error:
        raise ValueError(f"{source} holds a damaged sparse matrix: {error}") from None
    return sp.csr_array(X)


def _read_npy(source: Path, variable: str | None) -> Matrix:
    with open(source, "rb") as stream:
        try:
            return Matrix(np.lib.format.read_array(stream, allow_pickle=False))
        except ValueError as error:
            if "Object arrays cannot be loaded" in str(error):
                raise Refused(
                    f"{source} holds Python objects (pickled), which are never loaded: save a numeric array instead."
                ) from None
            raise


def _read_npz(source: Path, variable: str | None) -> Matrix:
    with np.load(source, allow_pickle=False) as stored:
        if not hasattr(stored, "files"):
            raise ValueError("no archive of arrays inside")
        names = list(stored.files)
        if {"format", "shape", "data"} <= set(names):
            if variable is not None:
                raise Refused(f"{source} holds one sparse matrix without a name: leave the variable out.")
            return Matrix(sp.load_npz(source))
        shapes = {name: shape for name in names if (shape := _stored_shape(stored, name)) is not None}
        return Matrix(stored[_choose(source, variable, names, shapes)])


def _stored_shape(stored: Any, name: str) -> tuple[int, ...] | None:
    """Return the shape of an array of numbers inside a .npz, from its head; None for anything else (objects, text)."""
    inside = stored.zip.namelist()
    with stored.zip.open(name if name in inside else f"{name}.npy") as stream:
        shape, _, dtype = read_header(stream)
    return shape if dtype.kind in "buifc" else None


def _choose(source: Path, variable: str | None, names: list[str], shapes: dict[str, tuple[int, ...]]) -> str:
    """Choose the name to load: the one asked for, else the only matrix, else an error that lists what there is."""
    listing = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in shapes.items()) or "nothing numeric"
    if variable is not None:
        if variable not in names:
            raise Refused(f"{source} has no variable {variable!r}: it holds {listing}.")
        if variable not in shapes:
            raise Refused(f"{source}: the variable {variable!r} is no array of numbers: it holds {listing}.")
        return variable
    planes = [
        name for name, shape in shapes.items() if len(shape) == 2 and max(shape) > 1
    ]  # MATLAB's scalars are 1 x 1
    cubes = [name for name, shape in shapes.items() if len(shape) == 3]
    candidates = [name for name in planes if min(shapes[name]) != 1] or cubes or planes
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise Refused(f"{source} holds no matrix: it holds {listing}.")
    listing = ", ".join(f"{name} {'x'.join(map(str, shapes[name]))}" for name in candidates)
    largest = max(candidates, key=lambda name: math.prod(shapes[name]))
    raise Refused(
        f"{source} holds several matrices ({listing}): name one, for example the largest, with --variable {largest} "
        f"(variable={largest!r} in Python)."
    )


def _read_mtx(source: Path, variable: str | None) -> Matrix:
    check_matrix_market(source)
    return Matrix(scipy.io.mmread(source))


def _read_text(source: Path, layout: Layout) -> Matrix:
    """Read delimited text with the delimiter that was named, or the one that is found."""
    mark = find_delimiter(source) if layout.delimiter is None else as_delimiter(layout.delimiter)
    return read_table(Source(str(source), lambda: rows_of(source, mark)), layout)


_MATLAB_NUMBERS = {"double", "single", "sparse", "logical"} | {f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64)}


def _read_mat(source: Path, variable: str | None) -> Matrix:
    check_matlab(source)
    try:
        contents = scipy.io.whosmat(source)
    except NotImplementedError:
        raise Refused(
            f"{source} is a MATLAB v7.3 (HDF5) file, which is not read here: save it in MATLAB with "
            "save('file.mat', 'X', '-v7'), or turn it into .npy with h5py."
        ) from None
    shapes = {name: tuple(shape) for name, shape, kind in contents if kind in _MATLAB_NUMBERS}
    chosen = _choose(source, variable, [name for name, _, _ in contents], shapes)
    return Matrix(scipy.io.loadmat(source, variable_names=[chosen])[chosen])


READERS: dict[str, Reader] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".mtx": _read_mtx,
    ".mtx.gz": _read_mtx,
    ".mat": _read_mat,
    **{suffix + packed: _read_text for suffix in (".csv", ".tsv", ".txt") for packed in ("", ".gz")},
    ".parquet": frames.read_parquet,
    ".feather": frames.read_feather,
    ".xlsx": frames.read_excel,
}
"""Suffix -> how to read it."""

_NAMED = (_read_npz, _read_mat)
_TABLES = (_read_text, frames.read_parquet, frames.read_feather, frames.read_excel)
