"""The Markdown page: paper, ours, difference, from the CSV files of a folder alone.

    python -m drnmf.apps.paper.page PAGE FOLDER

brings the generated parts of a page (between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``) up to date.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from drnmf.apps.paper.experiment import Experiment
from drnmf.files import write_text


def section(experiment: Experiment, folder: Path, link: str = "") -> str:
    """Tables and figures of one experiment under its title; `link` is the path from the page to the folder."""
    text = f"## {experiment.title}\n\n{experiment.page(folder)}\n"
    for name in experiment.figures:
        if (folder / f"{name}.png").exists():
            text += f"![{experiment.title}: {name}]({link}{name}.png)\n\n"
    files = [path.name for kind in ("csv", "svg") for path in sorted(folder.glob(f"{experiment.name}*.{kind}"))]
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


def main() -> None:
    """Refresh the page named first from the folder named second."""
    from drnmf.apps.paper.experiments import EXPERIMENTS, STUDIES

    path, folder = map(Path, sys.argv[1:3])
    link = os.path.relpath(folder, path.parent).replace(os.sep, "/") + "/"
    write_text(path, refreshed(path.read_text(encoding="utf-8"), (EXPERIMENTS | STUDIES).values(), folder, link))


if __name__ == "__main__":
    main()
