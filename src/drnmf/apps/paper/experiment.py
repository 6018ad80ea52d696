"""What an experiment is: a plan of units, a rendering of their results, a section of the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from drnmf.apps.paper import datasets
from drnmf.apps.paper.fits import PAPER, Facts, Options, Plan, Results, Store
from drnmf.files import write_text
from drnmf.runs.read import read_table
from drnmf.runs.write import write_rows

Row = dict[str, str]


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Rows under a header; what a row does not have stays empty. Numbers with six digits."""
    write_rows(path, [columns, *([_cell(row.get(column)) for column in columns] for row in rows)])


def number(text: str | None) -> float | None:
    """The number in a cell, None where it is empty."""
    return float(text) if text else None


def show(value: float | str | None, digits: int = 2, sign: bool = False) -> str:
    """A number, or the one in a cell, for the page; a dash where there is none.

    >>> show(1.234), show("-0.001", sign=True), show("")
    ('1.23', '+0.00', '–')
    """
    shown = number(value) if isinstance(value, str) else value
    if shown is None:
        return "–"
    shown = round(shown, digits) + 0.0  # no minus sign before a zero
    return f"{shown:+.{digits}f}" if sign else f"{shown:.{digits}f}"


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


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    plan : options -> the units to compute
    draw : results, folder -> CSV and figures in the folder, from the results alone
    section : rows of NAME.csv, facts of the plan, folder of further CSV files -> Markdown, from those alone
    figures : stems of the figures that `draw` writes
    """

    name: str
    title: str
    plan: Callable[[Options], Plan]
    draw: Callable[[Results, Path], None]
    section: Callable[[list[Row], Facts, Path], str]
    figures: tuple[str, ...]

    def planned(self, options: Options) -> Plan:
        """The plan, with the options among its facts."""
        plan = self.plan(options)
        asked = {"seeds": options.seeds, "max_iter": options.max_iter, "ours": options.ours}
        return Plan(plan.units, asked | plan.facts)

    def render(self, store: Store) -> None:
        """CSV and figures from what `run` left. Reads results only."""
        results = store.results(self.name)
        self.draw(results, store.folder)
        write_text(store.folder / f"{self.name}.json", json.dumps(results.facts, indent=1) + "\n")

    def page(self, folder: Path) -> str:
        """This experiment's section of the page, from NAME.csv and NAME.json in the folder."""
        facts = json.loads((folder / f"{self.name}.json").read_text(encoding="utf-8"))
        return self.section(read_table(folder / f"{self.name}.csv"), facts, folder) + _left_out(facts)


def data_facts(folder: Path, kind: datasets.Sort) -> Facts:
    """What is not here and what was left out, for the page."""
    return {"missing": datasets.missing(folder, kind), "unknown": datasets.unknown(folder, kind)}


def algorithm_line(facts: Facts) -> str:
    """One sentence on how the numbers were made."""
    line = f"Update `{PAPER[0]}`, weights `{PAPER[1]}`, {facts['max_iter']} iterations."
    if facts["ours"]:
        line += (
            ' *Default* is the library\'s default algorithm (`update="auto"`, `policy="auto"`) from the same start, '
            "with the same number of iterations, under the same reference errors."
        )
    return line


def _left_out(facts: Facts) -> str:
    """The paper's data sets that are not here, with where to get them; and files that were left out."""
    text = ""
    if facts.get("missing"):
        places: dict[str, list[str]] = {}
        for name in facts["missing"]:
            places.setdefault(datasets.WHERE[name], []).append(name)
        rows = [[", ".join(names), where] for where, names in places.items()]
        text += "\nMissing data sets of the paper:\n\n" + markdown(("data set", "where to get it"), rows, left=2)
    if facts.get("unknown"):
        text += "\nLeft out, because their names are no data sets of the paper: " + ", ".join(facts["unknown"]) + ".\n"
    return text
