"""The Markdown page: paper, ours, difference, from the CSV files of a folder alone."""

from __future__ import annotations

from pathlib import Path

from drnmf.experiments.experiment import Experiment


def section(experiment: Experiment, folder: Path, link: str = "") -> str:
    """Title, tables and figures of one experiment; `link` is the path from the page to the folder."""
    text = f"## {experiment.title}\n\n{experiment.page(folder)}\n"
    for name in experiment.figures:
        if (folder / f"{name}.png").exists():
            text += f"![{experiment.title}: {name}]({link}{name}.png)\n\n"
    files = sorted(path.name for path in folder.glob(f"{experiment.name}*.csv"))
    files += sorted(path.name for path in folder.glob(f"{experiment.name}*.svg"))
    return text + "Files: " + ", ".join(f"[{name}]({link}{name})" for name in files) + ".\n"


def page(experiments: list[Experiment], folder: Path, link: str = "") -> str:
    """All experiments that the folder holds, in one page."""
    return "# The paper, reproduced\n\n" + "\n".join(section(experiment, folder, link) for experiment in experiments)
