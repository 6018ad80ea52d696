"""What an experiment is: a plan of units, a rendering of their results, a section of the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drnmf.apps.paper import datasets
from drnmf.apps.paper.fits import Options
from drnmf.apps.paper.store import Plan, Results, Store, Unit, Watch
from drnmf.apps.paper.tables import Row, markdown
from drnmf.files import write_text
from drnmf.runs.read import read_table


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
    section: Callable[[list[Row], dict[str, Any], Path], str]
    figures: tuple[str, ...]

    def run(
        self, options: Options, store: Store, watch: Callable[[Unit], Watch] = lambda unit: lambda fraction: None
    ) -> None:
        """Compute what the store does not have yet."""
        store.run(self.name, self.plan(options), watch)

    def render(self, store: Store) -> None:
        """CSV and figures from what `run` left. Reads results only."""
        results = store.results(self.name)
        self.draw(results, store.folder)
        write_text(store.folder / f"{self.name}.json", json.dumps(results.facts, indent=1) + "\n")

    def page(self, folder: Path) -> str:
        """This experiment's section of the page, from NAME.csv and NAME.json in the folder."""
        facts = json.loads((folder / f"{self.name}.json").read_text(encoding="utf-8"))
        return self.section(read_table(folder / f"{self.name}.csv"), facts, folder)


def settings_facts(options: Options) -> dict[str, Any]:
    """The options, for the page."""
    return {
        "seeds": options.seeds,
        "max_iter": options.max_iter,
        "update": options.update,
        "policy": options.policy,
        "ours": options.ours,
    }


def data_facts(folder: Path, kind: datasets.Sort) -> dict[str, Any]:
    """What is not here and what was left out, for the page."""
    return {"missing": datasets.missing(folder, kind), "unknown": datasets.unknown(folder, kind)}


def algorithm_line(facts: dict[str, Any]) -> str:
    """One sentence on how the numbers were made."""
    line = f"Update `{facts['update']}`, weights `{facts['policy']}`, {facts['max_iter']} iterations."
    if facts["ours"]:
        line += (
            ' *Default* is the library\'s default algorithm (`update="auto"`, `policy="auto"`) from the same start, '
            "with the same number of iterations, under the same reference errors."
        )
    return line


def missing_list(facts: dict[str, Any]) -> str:
    """The paper's data sets that are not here, with where to get them; and files that were left out."""
    text = ""
    if facts["missing"]:
        places: dict[str, list[str]] = {}
        for name in facts["missing"]:
            places.setdefault(datasets.WHERE[name], []).append(name)
        rows = [[", ".join(names), where] for where, names in places.items()]
        text += "\nMissing data sets of the paper:\n\n" + markdown(("data set", "where to get it"), rows, left=2)
    if facts["unknown"]:
        text += "\nLeft out, because their names are no data sets of the paper: " + ", ".join(facts["unknown"]) + ".\n"
    return text
