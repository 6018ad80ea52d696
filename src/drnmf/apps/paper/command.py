"""`drnmf reproduce`: the paper's tables and figures by one command."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from drnmf.cli import options
from drnmf.cli.common import console, say
from drnmf.cli.endings import stopped_with
from drnmf.cli.results import limit_threads


class Name(StrEnum):
    """What can be reproduced."""

    WEIGHTS = "weights-figure"
    PARETO = "pareto-figure"
    DOCUMENTS = "table-documents"
    AUDIO = "table-audio"
    MARY = "mary-figure"
    PARTS = "parts"
    ALL = "all"


def reproduce(
    name: Annotated[Name, typer.Argument(help="Table or figure of the paper, all of them, or the study of parts.")],
    data: Annotated[
        Path | None, typer.Option("--data", envvar="DRNMF_DATA", help="Folder that holds documents/ and audio/.")
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Random starts (or synthetic matrices) per row.")] = 10,
    out: Annotated[Path, typer.Option("--out", help="Results folder; one of an earlier call is resumed.")] = Path(
        "reproduction"
    ),
    ours: Annotated[
        bool, typer.Option("--ours", help="Add the library's default algorithm as further columns.")
    ] = False,
    max_iter: Annotated[int, typer.Option("--max-iter", min=1, help="Iterations of every fit.")] = 1000,
    render_only: Annotated[bool, typer.Option("--render", help="Only redraw from the results in --out.")] = False,
    threads: options.Threads = None,
) -> None:
    """Reproduce a table or figure of the paper beside the paper's own numbers.

    An interrupted call resumes where it stopped when it is given again, also after kill -9.
    """
    from drnmf.apps.paper import runner
    from drnmf.apps.paper.fits import Options
    from drnmf.apps.paper.runner import EXPERIMENTS, STUDIES

    limit_threads(threads)
    chosen = list(EXPERIMENTS.values()) if name is Name.ALL else [(EXPERIMENTS | STUDIES)[name.value]]
    if not render_only:
        with stopped_with(f"what was finished is in {out}, and the same command resumes."):
            runner.run(chosen, Options(data, seeds, max_iter, ours), out, console)
    for page in runner.render(chosen, out):
        say(f"Wrote {page}")
