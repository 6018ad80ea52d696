"""Tables beside X, of uncertainties or weights, with the same rows and columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drnmf.matrices.files import read_matrix
from drnmf.matrices.matrix import Layout, Matrix, Names, Refused
from drnmf.problem.weights import CellError


def read_beside(
    uncertainty: Path | None, entry_weights: Path | None, x: Path, matrix: Matrix, layout: Layout
) -> dict[str, Any]:
    """Read the table of uncertainties or of weights that belongs to X, at most one of the two.

    Parameters
    ----------
    uncertainty, entry_weights : the files
    x, matrix, layout : the file of X, what it holds, and how it was read

    Returns
    -------
    given : the keyword argument of `fit`; empty where there is no table

    Raises
    ------
    Refused
        Where shape, names or order differ from those of X.
    """
    source = uncertainty or entry_weights
    if source is None:
        return {}
    same = source.suffix.lower() == x.suffix.lower()
    table = read_matrix(source, None, layout if same else Layout(transpose=layout.transpose))
    check_beside(table, matrix, source, x)
    return {"uncertainty" if uncertainty is not None else "entry_weight": table.X}


def read_fixed(fixed: Path | None, x: Path, matrix: Matrix, layout: Layout) -> dict[str, Any]:
    """Read the components that do not move: one per row, with the columns of X in their order.

    Parameters
    ----------
    fixed : the file, or None
    x, matrix, layout : the file of X, what it holds, and how it was read

    Returns
    -------
    given : the parameter of an estimator; empty where there is no file

    Raises
    ------
    Refused
        Where the width, the names or the order of the columns differ from those of X.
    """
    if fixed is None:
        return {}
    same = fixed.suffix.lower() == x.suffix.lower()
    table = read_matrix(fixed, None, layout if same else Layout(transpose=layout.transpose))
    width, whole = table.X.shape[1], matrix.X.shape[1]
    if width != whole:
        raise Refused(f"{fixed} has {width} columns, and {x} has {whole}: give one component per row, as wide as X.")
    _check_names("column", table.column_names, matrix.column_names, fixed, x)
    return {"fixed": table.X.toarray() if hasattr(table.X, "toarray") else table.X}


@contextmanager
def named_cells(matrix: Matrix, x: Path, source: Path | None) -> Iterator[None]:
    """Name the row and the column where the library names a cell of the table by numbers."""
    try:
        yield
    except CellError as error:
        raise ValueError(f"{source or x}: {matrix.cell(error.row, error.column)} {error.what}") from None


def check_beside(matrix: Matrix, of: Matrix, source: Path, x: Path) -> None:
    """Refuse a table of weights or uncertainties whose shape, names or order differ from those of X.

    Parameters
    ----------
    matrix, source : the table and its file
    of, x : X and its file

    Raises
    ------
    Refused
        With the first row or column that is named differently.
    """
    shape, whole = matrix.X.shape, of.X.shape
    if any(size not in (1, full) for size, full in zip(shape, whole, strict=True)):
        raise Refused(
            f"{source} has {shape[0]} rows and {shape[1]} columns, and {x} has {whole[0]} and {whole[1]}: give as "
            "many, or one row or one column for all."
        )
    for kind, axis, here, there in (
        ("row", 0, matrix.row_names, of.row_names),
        ("column", 1, matrix.column_names, of.column_names),
    ):
        if here is None or there is None or shape[axis] != whole[axis]:
            continue
        _check_names(kind, here, there, source, x)


def _check_names(kind: str, here: Names, there: Names, source: Path, x: Path) -> None:
    """Refuse the first row or column that is named differently; where either has no names there is nothing to say."""
    if here is None or there is None:
        return
    at = next((k for k, (a, b) in enumerate(zip(here, there, strict=True)) if a != b), None)
    if at is not None:
        same = sorted(here) == sorted(there)
        todo = f"put its {kind}s in the order of {x}" if same else f"give the same {kind}s to both"
        raise Refused(f"{source}: {kind} {at + 1} is {here[at]!r}, but {x} has {there[at]!r} there: {todo}.")
