"""Cells of a table, and rows of them from delimited text: what is a number, what is missing, and where cells end.

Names that a spreadsheet would run as formulas are written with an apostrophe before them.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import filterfalse, islice
from math import nan
from pathlib import Path
from typing import IO

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none"})
"""Cells without a value, in lower case; they are read as NaN."""

WHOLE = float(1 << 53)
"""Whole numbers below this are float64 as they are."""

_TRUTH = {"true": 1.0, "false": 0.0}
"""Cells of logical columns, in lower case."""

_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?|[+-]?\d+,([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
_GROUPED = re.compile(r"[+-]?\d{1,3}([,.' ]\d{3})+([.,]\d+)?")
_MIDNIGHT = re.compile(r"\d{4}-\d\d-\d\d 00:00:00")
_FORMULA = re.compile(r"'*\s*(?:[=@]|[+-](?:[^\W\d_].*[(!|]|.*\|.*!))", re.DOTALL)
"""= and @, signs before a call or a reference, and signs before a command ("-2+3+cmd|' /C calc'!A0"); apostrophes
before them count too, so that reading takes away exactly the one that writing put there."""


class Refused(ValueError):
    """A file that was understood, and says something that cannot be used."""


class NotANumber(ValueError):
    """A cell that is no number: its place in the row, and what can be done about it."""

    def __init__(self, place: int, cell: str, hint: str = "") -> None:
        super().__init__(cell)
        self.place, self.cell, self.hint = place, cell, hint


def is_missing(cell: str) -> bool:
    """Tell whether a cell stands for a missing value.

    >>> is_missing(" NA "), is_missing("0")
    (True, False)
    """
    return cell.strip().lower() in MISSING


def is_logical(cell: str) -> bool:
    """Tell whether a cell is true or false, which count as 1 and 0.

    >>> is_logical("TRUE"), is_logical("1")
    (True, False)
    """
    return cell.strip().lower() in _TRUTH


def is_number(cell: str) -> bool:
    """Tell whether a cell is a number, with a decimal point or a decimal comma, or true or false.

    >>> is_number("1.5"), is_number("1,5"), is_number("4_5"), is_number("x")
    (True, True, False, False)
    """
    if "_" in cell:  # Python reads 4_5 as 45; in a table it is a name or a slip of the keyboard
        return False
    try:
        float(cell)
    except ValueError:
        return _COMMA.fullmatch(cell.strip()) is not None or is_logical(cell)
    return True


def is_too_large(cell: str) -> bool:
    """Tell whether a cell is a whole number from 2^53 on, where float64 does not hold each of them.

    >>> is_too_large("9007199254740993"), is_too_large("12"), is_too_large("1e300")
    (True, False, False)
    """
    digits = cell.strip().removeprefix("-")
    return digits.isdecimal() and float(digits) >= WHOLE


@dataclass
class Numbers:
    """The numbers of a table while they are read, row by row, all with the same decimal mark."""

    values: array[float] = field(default_factory=lambda: array("d"))
    point: bool = False
    comma: bool = False
    doubtful: str | None = None  # a number that may have a comma between thousands, until another one settles it

    def add(self, cells: Sequence[str]) -> None:
        """Append a row; NotANumber is raised at the first cell that is none."""
        whole = "\0".join(cells)
        if "." in whole:
            self._note_point(cells)
        count = len(self.values)
        if "_" not in whole:
            try:
                self.values.extend(map(float, cells))
                return
            except ValueError:
                del self.values[count:]
        for place, cell in enumerate(cells):
            self.values.append(self._number(place, cell.strip()))

    def _number(self, place: int, cell: str) -> float:
        if cell.lower() in MISSING:
            return nan
        if cell.lower() in _TRUTH:
            return _TRUTH[cell.lower()]
        if "_" not in cell:
            try:
                return float(cell)
            except ValueError:
                if _COMMA.fullmatch(cell):
                    return self._with_comma(place, cell)
        raise NotANumber(place, cell, _hint(cell))

    def _note_point(self, cells: Sequence[str]) -> None:
        self.point = True
        if self.comma or self.doubtful is not None:
            place, cell = next((place, cell) for place, cell in enumerate(cells) if "." in cell)
            raise NotANumber(place, cell, " Numbers above have a decimal comma: use one mark throughout.")

    def _with_comma(self, place: int, cell: str) -> float:
        if self.point:
            raise NotANumber(place, cell, " Other numbers have a decimal point: write this one without a comma.")
        if not self.comma and _THOUSANDS.fullmatch(cell):
            self.doubtful = self.doubtful or cell
        else:
            self.comma, self.doubtful = True, None
        return float(cell.replace(",", "."))


def _hint(cell: str) -> str:
    if "_" in cell:
        return " Write numbers without an underscore."
    if _GROUPED.fullmatch(cell):
        return " Write numbers without separators between thousands."
    return ""


def guarded(name: str) -> str:
    """Put an apostrophe before a name that a spreadsheet would run; other names stay as they are.

    >>> [guarded(name) for name in ("=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "+", "-1", "A>C", "+/- error")]
    ["'=1+1", "'@SUM(A1)", "'+cmd|' /C calc'!A0", '+', '-1', 'A>C', '+/- error']
    """
    return f"'{name}" if _FORMULA.match(name) else name


def unguarded(name: str) -> str:
    """Invert `guarded`.

    >>> unguarded("'=1+1"), unguarded("'tis")
    ('=1+1', "'tis")
    """
    return name[1:] if name.startswith("'") and _FORMULA.match(name) else name


def labels_of(cells: Iterable[str]) -> tuple[str, ...]:
    """Read the labels of rows or of columns; where all of them are days at midnight, the days are enough.

    >>> labels_of(["2020-01-01 00:00:00", " 2020-01-02 00:00:00"]), labels_of(["a ", "2020-01-01 00:00:00"])
    (('2020-01-01', '2020-01-02'), ('a', '2020-01-01 00:00:00'))
    """
    names = tuple(unguarded(cell.strip()) for cell in cells)
    return tuple(name[:10] for name in names) if all(map(_MIDNIGHT.fullmatch, names)) else names


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


def rows_in(stream: Iterable[str], delimiter: str) -> Iterator[Row]:
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
