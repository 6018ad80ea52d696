"""Tables of numbers: which row is the header, which columns hold labels, and the values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from drnmf.matrices.cells import NotANumber, Numbers, is_missing, is_number
from drnmf.matrices.delimited import SAMPLE, Row, TableError, as_delimiter, find_delimiter, rows_of
from drnmf.matrices.matrix import Labels, Layout, Matrix

_INDEX_HEADERS = frozenset(
    [
        "index",
        "id",
        "name",
        "row",
        "rownames",
        "row_names",
        "date",
        "datetime",
        "timestamp",
        "time",
        "year",
        "sample",
        "sample_id",
        "gene",
        "gene_id",
        "cell",
        "barcode",
        "label",
        "labels",
    ]
) | {"", "unnamed: 0", "sample id", "gene id"}
_TEXT = 0.1
"""Part of the cells of a further label column that are text at least: sizes such as 1, 2, 3, 5+ are labels too."""


@dataclass(frozen=True)
class Source:
    """Where rows come from: the name for messages, how to open them, and what a row is called there."""

    name: str
    open: Callable[[], AbstractContextManager[Iterator[Row]]]
    unit: str = "line"


def read_text(source: Path, layout: Layout) -> Matrix:
    """Read a delimited text file: `read_rows` with the delimiter that was named, or the one that is found."""
    mark = find_delimiter(source) if layout.delimiter is None else as_delimiter(layout.delimiter)
    return read_rows(Source(str(source), lambda: rows_of(source, mark)), layout.labels)


def read_rows(source: Source, labels: int | None = None) -> Matrix:
    """Read values and labels from rows of cells.

    The first row is a header when it holds text above numbers, when it is one cell short (as R writes it), or when its
    first cell is empty. The first columns hold labels as long as they are text; a first column of numbers does when
    its header is empty, missing or a word such as "id" or "date".

    Parameters
    ----------
    source : where the rows are
    labels : how many columns hold labels; None finds out

    Raises
    ------
    TableError
        With the line, the column and the cell that do not belong to a table of numbers.
    """
    with source.open() as rows:
        sample = list(islice(rows, SAMPLE))
    if not sample:
        raise TableError(f"{source.name} holds no rows.")
    header, count = _layout(source, [cells for _, cells in sample], labels)
    while True:
        with source.open() as rows:
            try:
                return _read(source, rows, header, count)
            except _NoNumber as error:
                reached = count + error.place + 1
                if labels is not None or not _hold_labels(source, header, count, reached):
                    raise TableError(error.complaint(source, count)) from None
                count = reached


def _layout(source: Source, sample: list[list[str]], labels: int | None) -> tuple[bool, int]:
    """Tell whether there is a header, and how many columns hold labels, from the first rows."""
    first, body = sample[0], sample[1:] or sample
    width = len(body[-1])
    short = len(sample) > 1 and len(first) == width - 1
    texts = [_text_part(body, j) for j in range(width)]
    below = [part <= 0.5 for part in texts]  # columns of numbers, but for what may be wrong in them
    above = first if not short else ["", *first]
    header = len(sample) > 1 and (
        short
        or first[0].strip() == ""
        or any(number and _is_text(cell) for cell, number in zip(above, below, strict=False))
    )
    if header and not short and len(sample) > 2:
        _refuse_second_header(source, first, sample[1], below, labels or 0)
    if labels is None:
        leading = next((j for j, number in enumerate(below) if number), width)
        named = header and width > 1 and (short or first[0].strip().lower() in _INDEX_HEADERS)
        labels = max(leading, int(named))
    if labels >= width:
        where = "no column of numbers" if labels == width else f"only {width} columns"
        raise TableError(
            f"{source.name} has {where}: in {source.unit} 2, {_first_text(body)!r} is not a number. Check the "
            "delimiter, and that the table holds numbers."
        )
    return header, labels


def _first_text(body: list[list[str]]) -> str:
    return next((cell[:40] for row in body for cell in row if _is_text(cell)), "")


def _text_part(body: list[list[str]], column: int) -> float:
    cells = [row[column] for row in body if column < len(row)]
    return sum(map(_is_text, cells)) / max(len(cells), 1)


def _is_text(cell: str) -> bool:
    return not is_number(cell) and not is_missing(cell)


def _refuse_second_header(source: Source, first: list[str], second: list[str], below: list[bool], labels: int) -> None:
    numeric = [j for j, number in enumerate(below) if number and j >= labels]
    texts = [sum(_is_text(row[j]) for j in numeric if j < len(row)) for row in (first, second)]
    if numeric and min(texts) > len(numeric) / 2:
        raise TableError(
            f"{source.name} has two header rows: {source.unit} 2 holds text ({second[numeric[0]][:40]!r}) above "
            "numbers. Keep one of them, with a name of its own for every column."
        )


def _read(source: Source, rows: Iterator[Row], header: bool, count: int) -> Matrix:
    head = next(rows)[1] if header else None
    numbers, labels, width = Numbers(), list[list[str]](), None
    for line, cells in rows:
        if width is None:
            width = _width(source, line, cells, head, count)
        if len(cells) != width:
            raise TableError(
                f"{source.name}, {source.unit} {line}: {len(cells)} cells where the rows above have {width}. Check the "
                "delimiter, and quote cells that contain it."
            )
        try:
            numbers.add(cells[count:])
        except NotANumber as error:
            raise _NoNumber(line, error, head, width) from None
        labels.append([cell.strip() for cell in cells[:count]])
    if width is None:
        raise TableError(f"{source.name} has a header but no rows below it.")
    if numbers.doubtful is not None:
        raise TableError(
            f"{source.name}: {numbers.doubtful!r} may be {numbers.doubtful.replace(',', '.')} or "
            f"{numbers.doubtful.replace(',', '')}, and no other number tells: write a decimal point, or no comma."
        )
    return _matrix(source, numbers, labels, head, width, count)


def _matrix(
    source: Source, numbers: Numbers, labels: list[list[str]], head: list[str] | None, width: int, count: int
) -> Matrix:
    values = np.frombuffer(numbers.values, dtype=np.float64).reshape(-1, width - count)
    rows = columns = None
    if head is not None:
        whole = [""] * (width - len(head)) + [cell.strip() for cell in head]
        columns = _column_labels(source, whole, count)
    if count:
        titles = ("",) * count if head is None else tuple(whole[:count])
        rows = Labels(tuple(zip(*labels, strict=True)), titles)
    return Matrix(values, rows, columns, repeated_rows(source.name, rows))


def _column_labels(source: Source, head: Sequence[str], count: int) -> Labels:
    names = tuple(name or f"column {j + 1}" for j, name in enumerate(head))[count:]
    refuse_repeated_columns(source.name, names, count)
    return Labels((names,), ("",))


def refuse_repeated_columns(source: str, names: Sequence[str], count: int) -> None:
    """Refuse columns that share a name: nothing that follows could tell them apart."""
    seen: dict[str, int] = {}
    for j, name in enumerate(names, start=count + 1):
        if name in seen:
            raise TableError(
                f"{source}: columns {seen[name]} and {j} are both named {name!r}: give every column a name of its own."
            )
        seen[name] = j


def repeated_rows(source: str, rows: Labels | None) -> tuple[str, ...]:
    """Remark on rows that share their labels: they are kept, and names do not tell them apart."""
    if rows is None or len(set(rows.names)) == len(rows.names):
        return ()
    seen: set[str] = set()
    name = next(name for name in rows.names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
    return (f"{source}: several rows are named {name!r}; they are kept as different rows.",)


def _width(source: Source, line: int, cells: list[str], head: list[str] | None, count: int) -> int:
    """Take the length of the first row below the header, and see that the header fits to it."""
    if head is not None and len(head) not in (len(cells), len(cells) - max(count, 1)):
        raise TableError(
            f"{source.name}: the header has {len(head)} cells, but {source.unit} {line} has {len(cells)}. Check the "
            "delimiter, and that every column has a name."
        )
    return len(cells)


class _NoNumber(Exception):
    """A row with a cell that is no number, where one was expected."""

    def __init__(self, line: int, error: NotANumber, head: list[str] | None, width: int) -> None:
        self.line, self.place, self.cell, self.hint = line, error.place, error.cell, error.hint
        self.head, self.width = head, width

    def complaint(self, source: Source, count: int) -> str:
        """Say where the cell is, what is wrong with it, and what to do."""
        column = count + self.place
        name = "" if self.head is None else self.head[column - (self.width - len(self.head))].strip()
        where = f"{source.name}, {source.unit} {self.line}, column {column + 1}" + (f" ({name!r})" if name else "")
        hint = self.hint
        if not hint and self.place == 0:
            hint = (
                f" Correct the cell, or pass --labels {column + 1} (labels={column + 1} in Python) if it holds labels."
            )
        elif not hint:
            hint = " Every column after the labels must hold numbers: correct the cell, or remove the column."
        return f"{where}: {self.cell[:40]!r} is not a number.{hint}"


def _hold_labels(source: Source, header: bool, first: int, end: int) -> bool:
    """Tell whether columns of numbers and text are further columns of labels: in each, much is text."""
    total, texts = 0, [0] * (end - first)
    with source.open() as rows:
        for _, cells in islice(rows, int(header), None):
            total += 1
            if len(cells) <= end:
                return False
            for j in range(first, end):
                texts[j - first] += _is_text(cells[j])
    return first > 0 and min(texts) > 1 and min(texts) >= _TEXT * total
