"""What pages are made of: pieces of HTML, and what is particular to one kind of run (title, sections, axes)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from drnmf.loading import load
from drnmf.numerics import Vector
from drnmf.report.charts import Chart
from drnmf.runs import apps
from drnmf.runs.read import Run

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


@dataclass(frozen=True)
class Side:
    """How a factor is drawn: its caption, the places and the title of its long axis, and whether in decibels."""

    caption: str
    places: Vector | Sequence[str] | None
    title: str
    decibels: bool = False


def sides_of_matrix(run: Run) -> tuple[Side, Side]:
    """Name the axes of W and H of any matrix."""
    return (
        Side("W, one row per component", run.row_names, "row of X"),
        Side("H, one row per component", run.column_names, "column of X"),
    )


@dataclass(frozen=True)
class Kind:
    """A kind of run on its page.

    `headline` gives two sentences in place of those about the comparison, which is then not drawn.
    """

    title: str
    sections: tuple[Callable[[Run], Section], ...] = ()
    sides: Callable[[Run], tuple[Side, Side]] = sides_of_matrix
    headline: Callable[[Run], tuple[str, str]] | None = None


OWN = {
    "fit": Kind("Factorization"),
    "pareto": Kind("Pareto front"),
    "discover": Kind("Discovery"),
    "assign": Kind("Assignment"),
}


def kind_of(run: Run) -> Kind:
    """Find the kind of a run, which an app may bring."""
    if run.kind in apps.PAGES:
        kind: Kind = load(apps.PAGES[run.kind])
        return kind
    return OWN.get(run.kind, OWN["fit"])
