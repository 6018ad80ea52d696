"""Tables that belong to X: weights of its entries, known components under its labels, and the groups of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from drnmf.matrices import files
from drnmf.matrices.cells import Refused, find_delimiter, rows_of
from drnmf.matrices.matrix import Layout, Matrix, Names, spelt
from drnmf.numerics import Entries, Vector
from drnmf.problem.weights import CellError
from drnmf.selection.matching import Known, positions


def read_weights(
    uncertainty: Path | None, entry_weights: Path | None, x: Path, matrix: Matrix, layout: Layout
) -> dict[str, Entries]:
    """Read the table of uncertainties or of weights that belongs to X, at most one, as the keyword argument of `fit`.

    It is read as X was, and refused where shape, names or order differ from those of X.
    """
    source = uncertainty or entry_weights
    if source is None:
        return {}
    same = source.suffix.lower() == x.suffix.lower()
    table = files.read_matrix(source, None, layout if same else Layout(transpose=layout.transpose))
    check_weights(table, matrix, source, x)
    return {"uncertainty" if uncertainty is not None else "entry_weight": table.X}


def read_known(path: Path, option: str, labels: Names, count: int) -> Known:
    """Read known components, one per column (or per row), and bring their entries into the order of the labels of X.

    Without labels entries come as they are, as many as X has columns (`count`). Messages call the file by its `option`.
    """
    table = files.read_matrix(path)
    X = np.asarray(table.X.toarray() if hasattr(table.X, "toarray") else table.X, dtype=np.float64)
    named = labels is not None and (table.row_names is not None or table.column_names is not None)
    if _side(table, labels, part=True) == "columns" or (not named and X.shape[0] != count == X.shape[1]):
        table, X = table.transposed(), X.T
    source, names = f"{option} {path}", list(table.column_names or (f"reference_{j + 1}" for j in range(X.shape[1])))
    X = ordered(X, table.row_names, labels, count, source)
    bad = ~(np.isfinite(X) & (X >= 0)).all(axis=0)
    if bad.any():
        raise ValueError(f"{source}: the component {names[int(np.argmax(bad))]!r} has an entry that is no number >= 0.")
    return Known(X.T, names)


def ordered(X: Vector, own: Names, labels: Names, count: int, source: str) -> Vector:
    """Bring the rows of known components (n, s), one per column, into the order of the labels of X."""
    if labels is not None and own is not None:
        try:
            return X[positions([spelt(name) for name in labels], [spelt(name) for name in own], "it")]
        except ValueError as error:
            raise ValueError(f"{source}: {error}") from None
    if X.shape[0] != count:  # nothing to match by
        raise ValueError(
            f"{source} has {X.shape[0]} rows, but a component of X has {count} entries: give one component per "
            "column, with as many rows."
        )
    return X


def side_named(path: Path, matrix: Matrix) -> str | None:
    """Find the side of X, "rows" or "columns", whose labels a table of known components has; None if unclear."""
    table = files.read_matrix(path)
    sides = {"columns": _side(table, matrix.column_names), "rows": _side(table, matrix.row_names)}
    named = [side for side, there in sides.items() if there is not None]
    return named[0] if len(named) == 1 else None


def _side(table: Matrix, labels: Names, part: bool = False) -> str | None:
    """Find on which side of a table all of some labels are, or with `part` most of them."""
    if labels is None:
        return None
    wanted = {spelt(name) for name in labels}
    sides = (("rows", table.row_names), ("columns", table.column_names))
    shared = [(len(wanted & {spelt(name) for name in names}), side) for side, names in sides if names is not None]
    count, side = max(shared, default=(0, "rows"), key=lambda pair: pair[0])
    return side if count > (len(wanted) // 2 if part else len(wanted) - 1) else None


@contextmanager
def named_cells(matrix: Matrix, x: Path, source: Path | None) -> Iterator[None]:
    """Name the row and the column where the library names a cell of the table by numbers."""
    try:
        yield
    except CellError as error:
        raise ValueError(f"{source or x}: {matrix.cell(error.row, error.column)} {error.what}") from None


def check_weights(matrix: Matrix, of: Matrix, source: Path, x: Path) -> None:
    """Refuse a table of weights or uncertainties whose shape, names or order differ from those of X (`of`)."""
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
        at = next((k for k, (a, b) in enumerate(zip(here, there, strict=True)) if a != b), None)
        if at is not None:
            same = sorted(here) == sorted(there)
            todo = f"put its {kind}s in the order of {x}" if same else f"give the same {kind}s to both"
            raise Refused(f"{source}: {kind} {at + 1} is {here[at]!r}, but {x} has {there[at]!r} there: {todo}.")


def read_groups(path: Path | None, before: str | None, labels: Sequence[str] | None) -> list[str] | None:
    """Find the group of every sample, in a table of two columns or in what labels have before a text; else None."""
    if path is None and before is None:
        return None
    option = "--groups" if path is not None else "--groups-before"
    if path is not None and before is not None:
        raise ValueError("--groups and --groups-before both name the groups: give one of the two.")
    if labels is None:
        raise ValueError(f"{option} needs samples with labels, and X has none: give a table with names.")
    if path is None:
        assert before is not None
        return [_group_before(label, before) for label in labels]
    known = _group_table(path)
    missing = [label for label in labels if not known.get(label)]
    if missing:
        shown = ", ".join(map(repr, missing[:5]))
        raise ValueError(f"--groups {path} names no group for {len(missing)} of {len(labels)} samples: {shown}.")
    return [known[label] for label in labels]


def _group_before(label: str, text: str) -> str:
    group, mark, _ = label.partition(text)
    if not mark:
        raise ValueError(f"--groups-before {text}: the label {label!r} does not hold it.")
    return group


def _group_table(path: Path) -> dict[str, str]:
    if not path.is_file():
        raise ValueError(f"--groups {path} is no file: check the path.")
    known: dict[str, str] = {}
    with rows_of(path, find_delimiter(path)) as rows:
        for number, cells in rows:
            if len(cells) != 2:
                raise ValueError(f"--groups {path}: line {number} has {len(cells)} cells: write label and group.")
            label, group = map(str.strip, cells)
            if known.setdefault(label, group) != group:
                raise ValueError(f"--groups {path}: {label!r} is in two groups, {known[label]!r} and {group!r}.")
    return known
