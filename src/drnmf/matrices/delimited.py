"""Rows of cells from delimited text: its encoding, its delimiter, its lines."""

from __future__ import annotations

import codecs
import csv
import gzip
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import filterfalse, islice
from pathlib import Path
from typing import IO

from drnmf.matrices.cells import is_missing, is_number
from drnmf.matrices.matrix import Refused

Row = tuple[int, list[str]]
"""Number of the line and its cells."""

SAMPLE = 50
"""Rows from which the delimiter, the header and the labels are guessed."""

_LONGEST_CELL = 1 << 20
_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|"}
_CANDIDATES = (",", "\t", ";", "|")


class TableError(Refused):
    """Text that is no table of numbers, with the place where it stops being one."""


def as_delimiter(text: str) -> str:
    """Read a delimiter that a user wrote.

    >>> as_delimiter("tab"), as_delimiter(";")
    ('\\t', ';')
    """
    mark = _NAMES.get(text.lower(), text)
    if len(mark) != 1 or mark in '"\r\n\0':
        raise ValueError(f"{text!r} is not a delimiter: give one character, or tab, comma, semicolon, space or pipe.")
    return mark


@contextmanager
def rows_of(source: Path, delimiter: str) -> Iterator[Iterator[Row]]:
    """Give the rows of a file one after another; lines without any cell are none."""
    try:
        with text_of(source) as stream:
            yield rows_in(stream, delimiter)
    except csv.Error as error:
        raise TableError(f"{source} is not a readable table ({error}).") from None


@contextmanager
def text_of(source: Path) -> Iterator[IO[str]]:
    """Open a file of text, UTF-8 or UTF-16 by its mark."""
    try:
        with _open(source) as stream:
            yield stream
    except UnicodeDecodeError as error:
        raise TableError(
            f"{source} is not UTF-8 text ({error.reason} at byte {error.start}): save it as UTF-8, in a spreadsheet as "
            "'CSV UTF-8', or convert it, for example with iconv -f latin1 -t utf-8."
        ) from None


def _open(source: Path) -> IO[str]:
    opener = gzip.open if source.suffix.lower() == ".gz" else open
    with opener(source, "rb") as stream:
        marked = stream.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    return opener(source, "rt", encoding="utf-16" if marked else "utf-8-sig", newline="")


def rows_in(stream: IO[str], delimiter: str) -> Iterator[Row]:
    """Give the rows of a stream of text one after another."""
    csv.field_size_limit(_LONGEST_CELL)
    lines = (" ".join(line.split()) for line in stream) if delimiter == " " else stream
    reader = csv.reader(lines, delimiter=delimiter)
    for cells in reader:
        if cells and (len(cells) > 1 or cells[0].strip() or not cells[0]):  # a gap in a single column is written ""
            yield reader.line_num, cells


def is_blank(row: Row) -> bool:
    """Tell whether a row has neither values nor labels.

    >>> is_blank((1, ["", " "])), is_blank((2, ["", "NA"]))
    (True, False)
    """
    return not any(cell.strip() for cell in row[1])


def sample_of(rows: Iterator[Row]) -> list[Row]:
    """Take the first rows that are not blank."""
    return list(islice(filterfalse(is_blank, rows), SAMPLE))


def find_delimiter(source: Path) -> str:
    """Choose the delimiter under which the first rows are equally long and hold the most numbers; else a space."""
    first = "\t" if ".tsv" in source.name.lower() else ","
    best, chosen = (0.0, 0.0, 0), first
    for mark in sorted(_CANDIDATES, key=lambda mark: mark != first):
        with rows_of(source, mark) as rows:
            merit = _merit(sample_of(rows))
        if merit > best:
            best, chosen = merit, mark
    if best[2] < 2:
        with rows_of(source, " ") as rows:
            merit = _merit(sample_of(rows))
        return " " if merit > best and merit[0] == 1.0 and merit[1] > 0 else chosen
    return chosen


def _merit(sample: list[Row]) -> tuple[float, float, int]:
    """Say how well rows make a table: the fraction of equal length, that of numbers below the first, and the length."""
    if not sample:
        return (0.0, 0.0, 0)
    body = [cells for _, cells in sample[1:] or sample]
    width, count = Counter(map(len, body)).most_common(1)[0]
    if width < 2:
        return (0.0, 0.0, 1)
    cells = [cell for row in body for cell in row]
    numbers = sum(is_number(cell) or is_missing(cell) for cell in cells)
    return (round(count / len(body), 1), numbers / len(cells), width)
