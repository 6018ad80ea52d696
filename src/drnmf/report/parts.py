"""Pieces of HTML that sections are made of."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from drnmf.report.charts import Chart

Section = tuple[str, dict[str, Chart]]
"""HTML, and the charts it has places for, by id."""

NOTHING: Section = ("", {})


def section(title: str, note: str, body: str, buttons: str = "") -> str:
    """Make a section of the page. `title` and `note` are escaped here; `body` and `buttons` are HTML."""
    head = f"<h2>{escape(title)}</h2>"
    if buttons:
        head = f'<div class="bar">{head}<span>{buttons}</span></div>'
    return f'<section>{head}<p class="note">{escape(note)}</p>{body}</section>'


def place(name: str, caption: str = "") -> str:
    """Make the element in which the chart of this id is drawn."""
    title = f"<h3>{escape(caption)}</h3>" if caption else ""
    return f'<div>{title}<div class="chart" id="{name}" role="img" aria-label="{escape(caption or name)}"></div></div>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[int], strong: str = "DR-NMF") -> str:
    """Make a table of escaped cells; columns in `numeric` are set right, rows that contain `strong` are bold."""

    def cells(tag: str, values: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=n' if i in numeric else ''}>{escape(value)}</{tag}>" for i, value in enumerate(values)
        )

    lines = "".join(f"<tr{' class=best' if strong in row else ''}>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{cells("th", head)}</tr>{lines}</table></div>'
