"""What is particular to the pages of one kind of run: title, headline, sections, axes of the factors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from drnmf.numerics import Vector
from drnmf.report.parts import Section
from drnmf.runs import apps
from drnmf.runs.read import Run


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
        kind: Kind = apps.load(apps.PAGES[run.kind])
        return kind
    return OWN.get(run.kind, OWN["fit"])
