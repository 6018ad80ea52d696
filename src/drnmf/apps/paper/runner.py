"""Several experiments as one job: plan, compute what is missing, render, write the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from drnmf.apps.paper.experiment import Experiment
from drnmf.apps.paper.fits import Options
from drnmf.apps.paper.page import page, section
from drnmf.apps.paper.store import Plan, Store, Unit, Watch
from drnmf.files import write_text
from drnmf.report.figures import check_matplotlib


class Bar:
    """One progress bar over the whole job, in units of cost; what was finished earlier counts at once."""

    def __init__(self, console: Any) -> None:
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self.progress = Progress(
            TaskProgressColumn(), BarColumn(bar_width=30), TimeElapsedColumn(), TimeRemainingColumn(),
            TextColumn("{task.description}"), console=console,
        )  # fmt: skip
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
