"""Tables from files with typed cells: Parquet and Feather (pyarrow), Excel workbooks (openpyxl)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from drnmf.matrices.delimited import Row, TableError
from drnmf.matrices.matrix import Labels, Layout, Matrix, Refused
from drnmf.matrices.tables import Source, read_rows, refuse_repeated_columns, repeated_rows


def needs(module: str, extra: str) -> Any:
    """Import an optional library, or say how to get it."""
    try:
        return import_module(module)
    except ImportError:
        raise ImportError(f"{module} is needed to read this: pip install 'drnmf[{extra}]'.") from None


def read_parquet(source: Path, layout: Layout) -> Matrix:
    """Read a Parquet file: columns of numbers, after columns of labels."""
    return _from_arrow(source, needs("pyarrow.parquet", "tables").read_table(source), layout.labels)


def read_feather(source: Path, layout: Layout) -> Matrix:
    """Read a Feather file: columns of numbers, after columns of labels."""
    return _from_arrow(source, needs("pyarrow.feather", "tables").read_table(source), layout.labels)


def _from_arrow(source: Path, table: Any, labels: int | None) -> Matrix:
    """Take the values of the numeric columns; the index of pandas and leading columns of text are labels."""
    index = _pandas_index(table)
    names = [*index, *(name for name in table.column_names if name not in index)]
    kinds = [_kind(table.schema.field(name).type) for name in names]
    count = _leading(kinds, len(index)) if labels is None else labels
    if count >= len(names) or table.num_rows == 0:
        raise Refused(f"{source} holds no row or no column of numbers: its columns are {', '.join(map(repr, names))}.")
    wrong = next((j for j in range(count, len(names)) if kinds[j] != "number"), None)
    if wrong is not None:
        raise TableError(
            f"{source}, column {wrong + 1} ({names[wrong]!r}): it holds {table.schema.field(names[wrong]).type}, not "
            f"numbers. Remove it, or pass --labels N (labels=N in Python) if the first N columns hold labels."
        )
    refuse_repeated_columns(str(source), names[count:], count)
    columns = [table.column(name).to_numpy() for name in names[count:]]
    dtype = np.float32 if all(column.dtype == np.float32 for column in columns) else np.float64
    values = np.empty((table.num_rows, len(columns)), dtype=dtype)
    for j, column in enumerate(columns):
        values[:, j] = column
    rows = _arrow_labels(table, names[:count])
    return Matrix(values, rows, Labels.of(names[count:]), repeated_rows(str(source), rows))


def _pandas_index(table: Any) -> list[str]:
    """Name the columns in which pandas stored its index; an index that only counts is none."""
    stored = (table.schema.metadata or {}).get(b"pandas")
    described = [] if stored is None else json.loads(stored)["index_columns"]
    return [name for name in described if isinstance(name, str)]


def _kind(kind: Any) -> str:
    types = import_module("pyarrow").types
    numeric = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    return "number" if numeric else "other"


def _leading(kinds: list[str], least: int) -> int:
    count = least
    while count < len(kinds) and kinds[count] != "number":
        count += 1
    return count


def _arrow_labels(table: Any, names: list[str]) -> Labels | None:
    if not names:
        return None
    columns = tuple(tuple(map(_text, table.column(name).to_pylist())) for name in names)
    return Labels(columns, tuple("" if name.startswith("__index_level_") else name for name in names))


def read_excel(source: Path, layout: Layout) -> Matrix:
    """Read a sheet of an Excel workbook by the rules of `tables.read_rows`; formulas count as their last values."""
    workbook = needs("openpyxl", "tables").load_workbook(source, read_only=True, data_only=True)
    try:
        sheets = workbook.sheetnames
        if layout.sheet is not None and layout.sheet not in sheets:
            raise Refused(f"{source} has no sheet {layout.sheet!r}: it has {', '.join(map(repr, sheets))}.")
        chosen = layout.sheet or sheets[0]
        matrix = read_rows(
            Source(f"{source}, sheet {chosen!r}", lambda: _sheet_rows(workbook[chosen]), "row"), layout.labels
        )
    finally:
        workbook.close()
    if layout.sheet is None and len(sheets) > 1:
        note = f"{source} has {len(sheets)} sheets; the first, {chosen!r}, was read (--sheet chooses another)."
        return Matrix(matrix.X, matrix.rows, matrix.columns, (*matrix.notes, note))
    return matrix


@contextmanager
def _sheet_rows(sheet: Any) -> Iterator[Iterator[Row]]:
    sheet.reset_dimensions()  # what some programs write there is wrong

    def rows() -> Iterator[Row]:
        wide = 0
        for number, cells in enumerate(sheet.iter_rows(values_only=True), start=1):
            texts = [_text(cell) for cell in cells]
            while texts and not texts[-1].strip() and len(texts) > wide:
                texts.pop()  # cells that were only ever formatted
            wide = max(wide, len(texts))
            if any(text.strip() for text in texts):
                yield number, texts + [""] * (wide - len(texts))

    yield rows()


def _text(value: Any) -> str:
    """Write a cell as text that is read back exactly; dates without a time of day as dates."""
    if value is None:
        return ""
    if isinstance(value, datetime) and value.time() == value.min.time():
        value = value.date()
    return value.isoformat() if isinstance(value, date | datetime) else str(value)
