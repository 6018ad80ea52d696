"""Tables of numbers: which row is the header, which columns hold labels, and the values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import dropwhile, filterfalse, islice

import numpy as np

from drnmf.matrices.cells import (
    WHOLE,
    NotANumber,
    Numbers,
    Row,
    TableError,
    is_blank,
    is_logical,
    is_missing,
    is_number,
    is_too_large,
    labels_of,
    sample_of,
)
from drnmf.matrices.matrix import Labels, Matrix
from drnmf.numerics import Array

_ONE_WORD = """
    index id name row rownames row_names date datetime timestamp time year sample sample_id gene gene_id cell barcode
    label labels"""
_INDEX_HEADERS = {*_ONE_WORD.split(), "", "unnamed: 0", "sample id", "gene id"}
"""Heads of a first column that holds labels, numbers though they may be."""
_TEXT = 0.1
"""Part of the cells of a further label column that are text at least: sizes such as 1, 2, 3, 5+ are labels too."""


@dataclass(frozen=True)
class Source:
    """Where rows of cells come from."""

    # name, unit: what messages call the table, and one row of it
    name: str
    open: Callable[[], AbstractContextManager[Iterator[Row]]]  # gives the rows one after another, the header first
    unit: str = "line"
    header: bool | None = None  # whether the first row is a header; None finds out
    labels: int = 0  # how many of the first columns are known to hold labels


def read_rows(source: Source, labels: int | None = None) -> Matrix:
    """Read values and labels from rows of cells; `labels` says how many columns hold labels, None finds out.

    The first row is a header when it holds text above numbers, when it is one cell short (as R writes it), or when its
    first cell is empty. The first columns hold labels as long as they are text; a first column of numbers does when
    its header is empty, missing or a word such as "id" or "date".
    """
    header, count = find_layout(source, labels)
    while True:
        with source.open() as rows:
            last = list[Row]()
            try:
                matrix = _read(source, without_ends(rows, last), header, count)
            except _NoNumber as error:
                reached = count + error.place + 1
                if labels is not None or not _hold_labels(source, header, count, reached):
                    raise TableError(error.complaint(source, count)) from None
                count = reached
            else:
                return replace(matrix, notes=(*matrix.notes, *left_out(source.name, len(last))))


def read_part(source: Source, header: bool, labels: int) -> Matrix:
    """Read some rows of a table, below its header where it has one; those without any value are rows too."""
    with source.open() as rows:
        try:
            return _read(source, rows, header, labels)
        except _NoNumber as error:
            raise TableError(error.complaint(source, labels)) from None


def find_layout(source: Source, labels: int | None) -> tuple[bool, int]:
    """Tell from the first rows whether there is a header, and how many columns hold labels."""
    with source.open() as rows:
        sample = sample_of(rows)
    if not sample:
        raise TableError(f"{source.name} holds no rows.")
    first, body = sample[0][1], [cells for _, cells in sample[1:] or sample]
    width = len(body[-1])
    short = len(sample) > 1 and len(first) == width - 1
    below = [_text_part(body, j) <= 0.5 for j in range(width)]  # columns of numbers, but for what may be wrong in them
    above = first if not short else ["", *first]
    header = source.header
    if header is None:
        header = len(sample) > 1 and (
            short
            or first[0].strip() == ""
            or any(number and _is_name(cell, body, j) for j, (cell, number) in enumerate(zip(above, below)))  # noqa: B905
        )
    if header and not short and len(sample) > 2:
        _refuse_second_header(source, first, sample[1][1], below, labels or 0)
    if labels is None:
        leading = next((j for j, number in enumerate(below) if number), width)
        named = header and width > 1 and (short or first[0].strip().lower() in _INDEX_HEADERS)
        labels = max(leading, int(named), source.labels)
    if labels >= width:
        raise TableError(f"{source.name} has " + _no_numbers(source, sample, width, labels))
    return header, labels


def _no_numbers(source: Source, sample: list[Row], width: int, labels: int) -> str:
    """Say that every column holds labels, and which cell shows it."""
    what = "no column of numbers" if labels == width else f"only {width} columns"
    if len(sample) == 1:
        line, cells = sample[0]
        return (
            f"{what}: {source.unit} {line} is a header ({cells[0][:40]!r} is not a number), and no {source.unit} "
            "follows it. Write the numbers below it."
        )
    texts = ((line, cell[:40]) for line, cells in sample[1:] for cell in cells if is_text(cell))
    line, cell = next(texts, (sample[1][0], ""))
    return (
        f"{what}: in {source.unit} {line}, {cell!r} is not a number. Check the delimiter, and that the table holds "
        "numbers."
    )


def _text_part(body: list[list[str]], column: int) -> float:
    cells = [row[column] for row in body if column < len(row)]
    return sum(map(is_text, cells)) / max(len(cells), 1)


def is_text(cell: str) -> bool:
    return not is_number(cell) and not is_missing(cell)


def _is_name(cell: str, body: list[list[str]], column: int) -> bool:
    """Tell whether a cell names the numbers below it: text, or true and false above numbers that are neither."""
    return is_text(cell) or (is_logical(cell) and not any(is_logical(row[column]) for row in body if column < len(row)))


def _refuse_second_header(source: Source, first: list[str], second: list[str], below: list[bool], labels: int) -> None:
    numeric = [j for j, number in enumerate(below) if number and j >= labels]
    texts = [sum(is_text(row[j]) for j in numeric if j < len(row)) for row in (first, second)]
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
        labels.append(cells[:count])
    if width is None:
        raise TableError(f"{source.name} has a header but no rows below it.")
    if numbers.doubtful is not None:
        raise TableError(
            f"{source.name}: {numbers.doubtful!r} may be {numbers.doubtful.replace(',', '.')} or "
            f"{numbers.doubtful.replace(',', '')}, and no other number tells: write a decimal point, or no comma."
        )
    values = np.frombuffer(numbers.values, dtype=np.float64).reshape(-1, width - count)
    matrix = as_matrix(source.name, values, list(zip(*labels, strict=True)), head, width)
    return replace(matrix, notes=(*matrix.notes, *_rounded(source, matrix, header, count)))


def below_header(rows: Iterator[Row], header: bool) -> Iterator[Row]:
    """Give the rows of the table without its header."""
    return islice(dropwhile(is_blank, rows), int(header), None)


def without_ends(rows: Iterator[Row], last: list[Row]) -> Iterator[Row]:
    """Give the rows from the first to the last that is not blank, and keep those behind it in `last`."""
    for row in dropwhile(is_blank, rows):
        if is_blank(row):
            last.append(row)
            continue
        yield from last
        last.clear()
        yield row


def left_out(source: str, count: int) -> tuple[str, ...]:
    """Remark on rows at the end of a table that say nothing: spreadsheets leave them there."""
    if not count:
        return ()
    rows, them = ("1 row at the end holds", "is") if count == 1 else (f"{count} rows at the end hold", "are")
    return (f"{source}: {rows} neither values nor labels, and {them} left out.",)


def as_matrix(
    source: str, values: Array, labels: Sequence[Sequence[str]], head: Sequence[str] | None, width: int
) -> Matrix:
    """Put values (rows, columns) under the names of their columns and beside the columns of labels of their rows.

    `head` is the header, or None; `width` counts the columns of the table, those of labels included.
    """
    rows = columns = None
    count = width - values.shape[1]
    if head is not None:
        whole = [""] * (width - len(head)) + list(head)
        columns = _column_labels(source, whole, count)
    if count:
        titles = ("",) * count if head is None else labels_of(whole[:count])
        rows = Labels(tuple(map(labels_of, labels)), titles)
    return Matrix(values, rows, columns, _repeated_rows(source, rows))


def _rounded(source: Source, matrix: Matrix, header: bool, count: int) -> tuple[str, ...]:
    """Remark on the first whole number from 2^53 on; rows are read again only where one is so large."""
    large = np.abs(matrix.X) >= WHOLE
    if not large.any():
        return ()
    with source.open() as rows:
        for (_, cells), columns in zip(below_header(rows, header), large, strict=False):
            for j in np.flatnonzero(columns).tolist():
                if is_too_large(cells[count + j]):
                    return (rounding_note(source.name, matrix, j, cells[count + j].strip()),)
    return ()


def rounding_note(source: str, matrix: Matrix, column: int, cell: str) -> str:
    """Say that whole numbers are rounded, by an example."""
    name = f"column {column + 1}" if matrix.column_names is None else f"column {matrix.column_names[column]!r}"
    return f"{source}: {name} holds whole numbers above 2^53, such as {cell}: float64 rounds them."


def _column_labels(source: str, head: Sequence[str], count: int) -> Labels:
    names = tuple(name or f"column {j + 1}" for j, name in enumerate(labels_of(head[count:]), start=count))
    _refuse_repeated_columns(source, names, count)
    return Labels((names,), ("",))


def _refuse_repeated_columns(source: str, names: Sequence[str], count: int) -> None:
    """Refuse columns that share a name: nothing that follows could tell them apart."""
    seen: dict[str, int] = {}
    for j, name in enumerate(names, start=count + 1):
        if name in seen:
            raise TableError(
                f"{source}: columns {seen[name]} and {j} are both named {name!r}: give every column a name of its own."
            )
        seen[name] = j


def _repeated_rows(source: str, rows: Labels | None) -> tuple[str, ...]:
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
        for _, cells in filterfalse(is_blank, below_header(rows, header)):
            total += 1
            if len(cells) <= end:
                return False
            for j in range(first, end):
                texts[j - first] += is_text(cells[j])
    return first > 0 and min(texts) > 1 and min(texts) >= _TEXT * total
