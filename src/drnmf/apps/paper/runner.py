"""Several experiments as one job: plan, compute what is missing, render, and the page, from CSV files alone.

    python -m drnmf.apps.paper.runner PAGE FOLDER

brings the generated parts of a page (between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``) up to date.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from drnmf.apps.paper import mary_figure, pareto_figure, parts_study, table_audio, table_documents, weights_figure
from drnmf.apps.paper.experiment import Experiment
from drnmf.apps.paper.fits import Options
from drnmf.apps.paper.store import Plan, Store, Unit, Watch
from drnmf.files import write_text
from drnmf.report.figures import check_matplotlib

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


class Bar:
    """One progress bar over the whole job, in units of cost; what was finished earlier counts at once."""

    def __init__(self, console: Any) -> None:
        from rich import progress as shown

        columns = shown.TaskProgressColumn(), shown.BarColumn(bar_width=30), shown.TimeElapsedColumn()
        more = shown.TimeRemainingColumn(), shown.TextColumn("{task.description}")
        self.progress = shown.Progress(*columns, *more, console=console)
        self.task = self.progress.add_task("planning", total=None)

    def expect(self, cost: float) -> None:
        """The job is this long."""
        self.progress.update(self.task, total=cost)

    def watch(self, experiment: str) -> Callable[[Unit], Watch]:
        """Hands out the watch of each unit."""

        def of(unit: Unit) -> Watch:
            seen = 0.0

            def tell(fraction: float) -> None:
                nonlocal seen
                self.progress.update(
                    self.task, advance=(fraction - seen) * unit.cost, description=f"{experiment} {unit.name}"
                )
                seen = fraction

            return tell

        return of


def run(experiments: list[Experiment], options: Options, out: Path, console: Any = None) -> None:
    """Compute and save every unit that `out` does not have yet."""
    store = Store(out)
    store.check()
    check_matplotlib()  # better to miss matplotlib now than after the fits
    bar = Bar(console)
    with bar.progress:
        plans: list[tuple[Experiment, Plan]] = [(experiment, experiment.plan(options)) for experiment in experiments]
        store.open()
        bar.expect(sum(unit.cost for _, plan in plans for unit in plan.units))
        for experiment, plan in plans:
            store.run(experiment.name, plan, bar.watch(experiment.name))
        bar.progress.update(bar.task, description="done")


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
