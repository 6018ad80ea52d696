"""Several experiments as one job: plan, compute what is missing, render, and the page, from CSV files alone.

    python -m drnmf.apps.paper.runner PAGE FOLDER

brings the generated parts of a page (between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``) up to date.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from drnmf.apps.paper import mary_figure, pareto_figure, parts_study, table_audio, table_documents, weights_figure
from drnmf.apps.paper.experiment import Experiment
from drnmf.apps.paper.fits import Options, Store
from drnmf.files import write_text
from drnmf.report.figures import matplotlib

if TYPE_CHECKING:
    from rich.console import Console

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (weights_figure, pareto_figure, table_documents, table_audio, mary_figure)
}
"""Name on the command line -> experiment, in the order of the paper."""

STUDIES: dict[str, Experiment] = {parts_study.EXPERIMENT.name: parts_study.EXPERIMENT}
"""Tables of other papers, which are not among "all" of this one."""


def section(experiment: Experiment, folder: Path, link: str = "") -> str:
    """Tables and figures of one experiment under its title; `link` is the path from the page to the folder."""
    text = f"## {experiment.title}\n\n{experiment.page(folder)}\n"
    for name in experiment.figures:
        if (folder / f"{name}.png").exists():
            text += f"![{experiment.title}: {name}]({link}{name}.png)\n\n"
    files = [path.name for path in sorted(folder.glob(f"{experiment.name}*.csv"))]
    return text + "Files: " + ", ".join(f"[{name}]({link}{name})" for name in files) + ".\n"


def page(experiments: Iterable[Experiment], folder: Path) -> str:
    """All experiments of a folder in one page that lies in it."""
    return "# The paper, reproduced\n\n" + "\n".join(section(experiment, folder) for experiment in experiments)


def refreshed(text: str, experiments: Iterable[Experiment], folder: Path, link: str) -> str:
    """The text of a page with its generated parts made anew; what stands around them is left alone."""
    for experiment in experiments:
        begin, end = f"<!-- begin {experiment.name} -->\n", f"<!-- end {experiment.name} -->\n"
        before, marker, rest = text.partition(begin)
        if marker:
            text = before + begin + section(experiment, folder, link) + end + rest.partition(end)[2]
    return text


def run(experiments: list[Experiment], options: Options, out: Path, console: Console | None = None) -> None:
    """Compute and save every unit that `out` does not have yet."""
    from rich.progress import Progress

    store = Store(out)
    store.check()
    matplotlib()  # better to miss matplotlib now than after the fits
    with Progress(console=console) as bar:
        task = bar.add_task("planning", total=None)
        plans = [(experiment.name, experiment.planned(options)) for experiment in experiments]
        store.open()
        bar.update(task, total=sum(len(plan.units) for _, plan in plans), completed=-1)
        for name, plan in plans:
            for unit in store.run(name, plan):
                bar.update(task, advance=1, description=f"{name} {unit.name}")
        bar.update(task, advance=1, description="done")


def render(experiments: list[Experiment], out: Path) -> list[Path]:
    """CSV, figures and pages of the experiments from saved results; returns the pages."""
    store, pages = Store(out), []
    for experiment in experiments:
        experiment.render(store)
        target = out / f"{experiment.name}.md"
        write_text(target, section(experiment, out))
        pages.append(target)
    if len(experiments) > 1:
        write_text(out / "reproduction.md", page(experiments, out))
        pages.append(out / "reproduction.md")
    return pages


def main() -> None:
    """Refresh the page named first from the folder named second."""
    path, folder = map(Path, sys.argv[1:3])
    link = os.path.relpath(folder, path.parent).replace(os.sep, "/") + "/"
    write_text(path, refreshed(path.read_text(encoding="utf-8"), (EXPERIMENTS | STUDIES).values(), folder, link))


if __name__ == "__main__":
    main()
