"""Tables of numbers as text (.csv, .tsv): which row is the header, which column holds names, and the values."""

from __future__ import annotations

import csv
import gzip
from array import array
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np

from drnmf.numerics import Vector

Names = tuple[str, ...] | None
Row = tuple[int, list[str]]

_MISSING = {"", "na", "n/a", "null", "none"}
_INDEX_HEADERS = {"", "index", "id", "name", "row", "rownames", "row_names", "unnamed: 0"}


class TableError(ValueError):
    """Text that is no table of numbers, with the place where it stops being one."""


def read_table(source: Path, delimiter: str) -> tuple[Vector, Names, Names]:
    """Read values, row names and column names of a delimited text file; the names are None where it has none.

    The first row is a header when a cell after its first is text, when it is one cell short (as R writes it), when
    its first cell is empty, or when only the rows below start with a number. The first column holds names when
    its header is empty, missing or a word such as "id", or when the first row below the header starts with text.
    """
    try:
        with _open(source) as stream:
            rows = _rows(csv.reader(stream, delimiter=delimiter))
            head = [row for _, row in zip(range(2), rows, strict=False)]
            if not head:
                raise TableError(f"{source} holds no rows.")
            header, index = layout([cells for _, cells in head])
            body = chain(head[1:] if header else head, rows)
            return _values(source, body, head[0][1] if header else None, index, delimiter)
    except UnicodeDecodeError as error:
        raise TableError(f"{source} is not UTF-8 text ({error.reason} at byte {error.start}).") from None
    except csv.Error as error:
        raise TableError(f"{source} is not a readable table ({error}).") from None


def layout(head: list[list[str]]) -> tuple[bool, bool]:
    """Tell whether there is a header row, and a column of names, from the first one or two rows.

    >>> layout([["gene", "a", "b"], ["x", "1", "2"]]), layout([["1", "2"], ["3", "4"]])
    ((True, True), (False, False))
    """
    first, below = head[0], head[-1]
    short = len(first) == len(below) - 1
    header = len(head) > 1 and (
        short
        or first[0].strip() == ""
        or any(not _is_number(cell) and not _is_missing(cell) for cell in first[1:])
        or (not _is_number(first[0]) and _is_number(below[0]))
    )
    if not header:
        return False, not _is_number(first[0]) and len(first) > 1
    named = len(first) > 1 and first[0].strip().lower() in _INDEX_HEADERS
    return True, short or named or (not _is_number(below[0]) and len(below) > 1)


def _open(source: Path) -> IO[str]:
    if source.suffix.lower() == ".gz":
        return gzip.open(source, "rt", encoding="utf-8-sig", newline="")
    return open(source, encoding="utf-8-sig", newline="")


def _rows(reader: Any) -> Iterator[Row]:
    """Yield line number and cells of every row that is not blank."""
    for cells in reader:
        if any(cell.strip() for cell in cells):
            yield reader.line_num, cells


def _values(
    source: Path, body: Iterator[Row], header: list[str] | None, index: bool, delimiter: str
) -> tuple[Vector, Names, Names]:
    numbers, names, width, skip = array("d"), list[str](), None, int(index)
    for line, cells in body:
        if width is None:
            width = len(cells)
        if len(cells) != width:
            raise TableError(f"{source}, line {line}: {len(cells)} cells where the rows above have {width}.")
        try:
            numbers.extend(map(float, cells[skip:]))
        except ValueError:
            column = next(j for j, cell in enumerate(cells) if j >= skip and not _is_number(cell))
            raise TableError(_complaint(source, line, column, cells[column], delimiter)) from None
        if index:
            names.append(cells[0].strip())
    if width is None:
        raise TableError(f"{source} has a header but no rows below it.")
    if header is not None and len(header) not in (width, width - skip):
        raise TableError(f"{source}: the header has {len(header)} cells, but the rows below have {width}.")
    columns = None if header is None else tuple(cell.strip() for cell in header[len(header) - (width - skip) :])
    values = np.frombuffer(numbers, dtype=np.float64).reshape(-1, width - skip)
    return values, tuple(names) if index else None, columns


def _complaint(source: Path, line: int, column: int, cell: str, delimiter: str) -> str:
    where = f"{source}, line {line}, column {column + 1}"
    if _is_missing(cell):
        return f"{where}: the cell is empty. Fill in or remove missing values first."
    other = next((mark for mark in (";", "\t", ",") if mark != delimiter and mark in cell), None)
    hint = f" Cells here are separated by {delimiter!r}; this file may use {other!r}." if other else ""
    return f"{where}: {cell[:40]!r} is not a number.{hint}"


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in _MISSING


def _is_number(cell: str) -> bool:
    if "_" in cell:  # Python reads 1_0 as ten; in a table it is a name
        return False
    try:
        float(cell)
    except ValueError:
        return False
    return True
