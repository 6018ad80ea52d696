"""--report/--no-report, drnmf report, and drnmf info."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from drnmf.cli.common import errors, say
from drnmf.runs.output import check_out_file

HOW_TO_GET = "No report: plotly is not installed. Get it with: pip install 'drnmf[report]'"

Report = Annotated[
    bool | None,
    typer.Option(
        "--report/--no-report",
        metavar="",
        help="Write report.html (default: if plotly is there).",
        show_default=False,
        rich_help_panel="Results",
    ),
]


def check(asked: bool | None) -> None:
    """Refuse, before any work is done, to make a report that is not possible."""
    if asked and find_spec("plotly") is None:
        raise ImportError(HOW_TO_GET)


def add(folder: Path, asked: bool | None) -> None:
    """Write report.html into a run folder, unless it is not wanted; results are never lost for the sake of a page."""
    if asked is False:
        return
    if find_spec("plotly") is None:
        say(HOW_TO_GET)
        return
    from drnmf.report import write_report

    try:
        write_report(folder)
    except Exception as error:  # the numbers are there and are worth more than the page
        say(f"The report could not be written: {error}", errors)


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="The folder of an earlier run.", show_default=False)],
    out: Annotated[Path | None, typer.Option("--out", help="Where to write (default: report.html in RUN_DIR).")] = None,
) -> None:
    """Make the page of an earlier run: one self-contained report.html."""
    from drnmf.report import write_report

    if out is not None:
        check_out_file(out)
        out.parent.mkdir(parents=True, exist_ok=True)
    where = write_report(run, out)
    say(f"{where} ({where.stat().st_size / 1e6:.1f} MB)")


def info() -> None:
    """Describe version, backend, instruction set, threads, GPU and packages: what to paste into a bug report."""
    from drnmf.runs.environment import environment

    lines = environment()
    width = max(map(len, lines))
    for name, text in lines.items():
        say(f"{name:<{width}}  {text}")
