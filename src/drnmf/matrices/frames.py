"""Tables from files with typed cells: Parquet and Feather (pyarrow), Excel workbooks (openpyxl)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import filterfalse
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from drnmf.loading import needs
from drnmf.matrices.cells import (
    WHOLE,
    NotANumber,
    Numbers,
    Refused,
    Row,
    TableError,
    is_blank,
    is_missing,
    labels_of,
    sample_of,
)
from drnmf.matrices.matrix import Labels, Layout, Matrix
from drnmf.matrices.tables import (
    Source,
    as_matrix,
    below_header,
    find_layout,
    is_text,
    left_out,
    read_rows,
    rounding_note,
)

_ROWS = "user user_id userid reader customer row i document doc doc_id cell"
_COLUMNS = "item item_id itemid movie movie_id movieid book product column j word term gene"
_VALUES = "rating score value count counts n x weight"
LONG_HEADS = tuple(frozenset(words.split()) for words in (_ROWS, _COLUMNS, _VALUES))
"""Heads of a row's name, a column's name and a value, in lower case, by which long tables of numbers are known."""


def read_table(source: Source, layout: Layout) -> Matrix:
    """Read rows of cells: a table of X, or a long one where that was asked for or cannot be anything else."""
    if layout.long:
        return read_long(source)
    if layout.long is None and layout.labels is None and is_long(source):
        return read_long(source, guessed=True)
    return read_rows(source, layout.labels)


def is_long(source: Source) -> bool:
    """Tell whether a table has a row for every entry of X: a row's name, a column's name, a value.

    Of two columns of labels and one of numbers it does where names come again in both columns and no pair does: as a
    matrix it would have one column. Of three columns of numbers it does where the header says so.
    """
    with source.open() as rows:
        sample = sample_of(rows)
    if {len(cells) for _, cells in sample} != {3}:
        return False
    header, labels = find_layout(source, None)
    if labels != 2 and not (header and labels == 0):
        return False
    if labels == 0 and not all(
        cell.strip().lower() in heads for cell, heads in zip(sample[0][1], LONG_HEADS, strict=True)
    ):
        return False
    seen: tuple[set[str], set[str]] = (set(), set())
    pairs, total = set[tuple[str, str]](), 0
    with source.open() as rows:
        for _, cells in filterfalse(is_blank, below_header(rows, header)):
            total += 1
            pairs.add((cells[0].strip(), cells[1].strip()))
            for names, cell in zip(seen, cells[:2], strict=True):
                names.add(cell.strip())
    return len(pairs) == total and all(len(names) < total for names in seen)


def read_long(source: Source, guessed: bool = False) -> Matrix:
    """Read a table with a row for every entry of X as a sparse matrix in which what is missing is missing.

    The first three columns are the row's name, the column's name and the value. Rows and columns of X come in the order
    in which they are first named. Where nobody asked for it (`guessed`) a note says so.
    """
    with source.open() as rows:
        sample = sample_of(rows)
    if not sample or len(sample[0][1]) < 3:
        raise TableError(f"{source.name} is no long table: it needs a row's name, a column's name and a value.")
    header = source.header if source.header is not None else is_text(sample[0][1][2])
    names: tuple[dict[str, int], dict[str, int]] = ({}, {})
    places, numbers, gaps = dict[tuple[int, int], int](), Numbers(), 0
    with source.open() as rows:
        for line, cells in filterfalse(is_blank, below_header(rows, bool(header))):
            if len(cells) < 3:
                raise TableError(f"{source.name}, {source.unit} {line}: {len(cells)} cells, and three are needed.")
            if is_missing(cells[2]):
                gaps += 1
                continue
            row, column = (
                known.setdefault(cell.strip(), len(known)) for known, cell in zip(names, cells, strict=False)
            )
            if places.setdefault((row, column), line) != line:
                raise TableError(
                    f"{source.name}, {source.unit} {line}: {cells[0].strip()!r}, {cells[1].strip()!r} stands in "
                    f"{source.unit} {places[row, column]} already: keep one of them."
                )
            try:
                numbers.add(cells[2:3])
            except NotANumber as error:
                raise TableError(
                    f"{source.name}, {source.unit} {line}: {error.cell[:40]!r} is not a number.{error.hint}"
                ) from None
    if not places:
        raise TableError(f"{source.name} has a header but no rows below it.")
    at = np.array(list(places), dtype=np.int64)
    shape = len(names[0]), len(names[1])
    X = sp.csr_array((np.frombuffer(numbers.values, dtype=np.float64), (at[:, 0], at[:, 1])), shape=shape)
    how = "was read as a long table (--long; --labels 2 reads a matrix)" if guessed else "is a long table"
    note = f"{source.name} {how}: {shape[0]} rows x {shape[1]} columns, {len(places)} entries, the others missing."
    titles = [cell.strip() for cell in sample[0][1][:2]] if header else ["", ""]
    rows_, columns = (Labels((labels_of(known),), (title,)) for known, title in zip(names, titles, strict=True))
    return Matrix(X, rows_, columns, (note,), gaps=True)


Column = NDArray[Any]
_BATCH = 1024
"""Rows that become text at a time: the first ones settle which columns hold labels."""


def _read_arrow(module: str, source: Path, layout: Layout) -> Matrix:
    """Read a file of columns by the rules of `tables.read_rows`; where all are numbers, not cell by cell.

    The index of pandas holds labels. Decimals, numbers as text and whatever else is no number of NumPy count as their
    text does.
    """
    table = needs(module, "tables").read_table(source)
    index = _pandas_index(table)
    names = [*index, *(name for name in table.column_names if name not in index)]
    head = ["" if name.startswith("__index_level_") else name for name in names]
    nothing = f"{source} holds no row or no column of numbers: its columns are {', '.join(map(repr, names))}."
    if table.num_rows == 0 or not names:
        raise Refused(nothing)
    rows = Source(str(source), lambda: nullcontext(_arrow_rows(table.select(names), head)), "row", True, len(index))
    count = find_layout(rows, layout.labels)[1]
    numeric = all(_is_numeric(table.schema.field(name).type) for name in names[count:])
    if not numeric or layout.long or len(names) == 3:
        return read_table(rows, layout)
    columns = [table.column(name).to_numpy() for name in names[count:]]
    values = np.empty((table.num_rows, len(columns)), np.result_type(*(_precision(column) for column in columns)))
    for j, column in enumerate(columns):
        values[:, j] = column
    texts = [list(map(_text, table.column(name).to_pylist())) for name in names[:count]]
    end = table.num_rows
    while end and np.isnan(values[end - 1]).all() and not any(column[end - 1].strip() for column in texts):
        end -= 1
    if not end:
        raise Refused(nothing)
    matrix = as_matrix(str(source), values[:end], [column[:end] for column in texts], head, len(names))
    notes = *matrix.notes, *_rounded(str(source), matrix, columns), *left_out(str(source), table.num_rows - end)
    return replace(matrix, notes=notes)


read_parquet = partial(_read_arrow, "pyarrow.parquet")
read_feather = partial(_read_arrow, "pyarrow.feather")


def _precision(column: Column) -> type:
    return np.float32 if column.dtype == np.float32 else np.float64


def _rounded(source: str, matrix: Matrix, columns: list[Column]) -> tuple[str, ...]:
    """Remark on the first whole number from 2^53 on."""
    for j, column in enumerate(columns):
        if column.dtype.kind in "iu" and (large := column[(column >= WHOLE) | (column <= -WHOLE)]).size:
            return (rounding_note(source, matrix, j, str(large[0])),)
    return ()


def _pandas_index(table: Any) -> list[str]:
    """Name the columns in which pandas stored its index; an index that only counts is none."""
    stored = (table.schema.metadata or {}).get(b"pandas")
    described = [] if stored is None else json.loads(stored)["index_columns"]
    return [name for name in described if isinstance(name, str)]


def _is_numeric(kind: object) -> bool:
    types = import_module("pyarrow").types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _arrow_rows(table: Any, head: list[str]) -> Iterator[Row]:
    yield 0, head
    number = 0
    for batch in table.to_batches(max_chunksize=_BATCH):
        for cells in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            number += 1
            yield number, [_text(cell) for cell in cells]


def read_excel(source: Path, layout: Layout) -> Matrix:
    """Read a sheet of an Excel workbook by the rules of `tables.read_rows`; formulas count as their last values."""
    workbook = needs("openpyxl", "tables").load_workbook(source, read_only=True, data_only=True)
    try:
        sheets = workbook.sheetnames
        if layout.sheet is not None and layout.sheet not in sheets:
            raise Refused(f"{source} has no sheet {layout.sheet!r}: it has {', '.join(map(repr, sheets))}.")
        chosen = layout.sheet or sheets[0]
        rows = Source(f"{source}, sheet {chosen!r}", lambda: nullcontext(_sheet_rows(workbook[chosen])), "row")
        matrix = read_table(rows, layout)
    finally:
        workbook.close()
    if layout.sheet is None and len(sheets) > 1:
        note = f"{source} has {len(sheets)} sheets; the first, {chosen!r}, was read (--sheet chooses another)."
        return replace(matrix, notes=(note, *matrix.notes))
    return matrix


def _sheet_rows(sheet: Any) -> Iterator[Row]:
    sheet.reset_dimensions()  # what some programs write there is wrong
    wide = 0
    for number, cells in enumerate(sheet.iter_rows(values_only=True), start=1):
        texts = [_text(cell) for cell in cells]
        while texts and not texts[-1].strip() and len(texts) > wide:
            texts.pop()  # cells that were only ever formatted
        wide = max(wide, len(texts))
        yield number, texts + [""] * (wide - len(texts))


def _text(value: object) -> str:
    """Write a cell as text that is read back exactly, dates and times as text files have them."""
    return "" if value is None else str(value)
