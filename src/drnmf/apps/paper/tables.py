"""CSV files and Markdown tables."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from drnmf.files import write_text

Row = dict[str, str]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Rows under a header; what a row does not have stays empty. Numbers with six digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(row.get(column)) for column in columns] for row in rows)
    write_text(path, text.getvalue())


def number(text: str | None) -> float | None:
    """The number in a cell, None where it is empty."""
    return float(text) if text else None


def show(value: float | None, digits: int = 2, sign: bool = False) -> str:
    """A number for the page; a dash where there is none.

    >>> show(1.234), show(-0.001, sign=True), show(None)
    ('1.23', '+0.00', '–')
    """
    if value is None:
        return "–"
    value = round(value, digits) + 0.0  # no minus sign before a zero
    return f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"


def difference(row: Row, measure: str, digits: int = 2) -> list[str]:
    """Paper, ours, ours minus paper: three cells."""
    theirs, ours = number(row.get(f"paper_{measure}")), number(row.get(measure))
    gap = None if theirs is None or ours is None else ours - theirs
    return [show(theirs, digits), show(ours, digits), show(gap, digits, sign=True)]


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A Markdown table; the first `left` columns are aligned left, the others right."""
    rule = ["---" if i < left else "---:" for i in range(len(columns))]
    lines = [columns, rule, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
