"""Cells of a table: what is a number, what is missing, the decimal comma, and names that would run as formulas."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none"})
"""Cells without a value, in lower case; they are read as NaN."""

WHOLE = float(1 << 53)
"""Whole numbers below this are float64 as they are."""

_TRUTH = {"true": 1.0, "false": 0.0}
"""Cells of logical columns, in lower case."""

_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?|[+-]?\d+,([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
_GROUPED = re.compile(r"[+-]?\d{1,3}([,.' ]\d{3})+([.,]\d+)?")
_FORMULA = re.compile(r"'*\s*(?:[=@]|[+-](?:[^\W\d_].*[(!|]|.*\|.*!))", re.DOTALL)
"""= and @, signs before a call or a reference, and signs before a command ("-2+3+cmd|' /C calc'!A0"); apostrophes
before them count too, so that reading takes away exactly the one that writing put there."""


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
        """Append a row.

        Raises
        ------
        NotANumber
            At the first cell that is none.
        """
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
