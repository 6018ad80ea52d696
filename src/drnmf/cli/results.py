"""The folder that a command leaves: its options, checked before any work, written all or nothing, with its page."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from drnmf.cli import options
from drnmf.cli.common import errors, say, stem
from drnmf.runs import output, schema, write
from drnmf.runs.read import input_of_run

HOW_TO_GET = "No report: plotly is not installed. Get it with: pip install 'drnmf[report]'"
KEPT = "Kept a file that is not of the old run as {}."

Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="Folder for the results (default: named after the command and its input).",
        rich_help_panel=options.RESULTS,
    ),
]
Report = Annotated[
    bool | None,
    typer.Option(
        "--report/--no-report",
        metavar="",
        help="Write report.html (default: if plotly is there).",
        show_default=False,
        rich_help_panel=options.RESULTS,
    ),
]


@dataclass(frozen=True)
class Results:
    """What was asked of the results."""

    # out, overwrite: the folder, None names it after the input; and whether it may take the place of an earlier run
    out: Out = None
    overwrite: options.Overwrite = False
    threads: options.Threads = None  # of BLAS and the compiled extension; None leaves them alone
    quiet: options.Quiet = False  # no progress and no table
    report: Report = None  # whether the page is written; None writes it where plotly is there
    inputs: tuple[Path, ...] = ()  # files that the run reads, which replacing the folder must not delete

    @property
    def folder(self) -> Path:
        """The folder, once it is settled."""
        assert self.out is not None
        return self.out

    def settled(self, ending: str, x: Path, *more: Path | None) -> Results:
        """Settle the folder and the threads, and refuse, before any work is done, what cannot be written.

        A folder that was not named is called after `x`, with this ending; `more` are further files that are read.
        """
        inputs = tuple(path for path in (x, *more) if path is not None)
        return self.at(self.out if self.out is not None else folder_for(x, ending), *inputs)

    def at(self, folder: Path, *inputs: Path) -> Results:
        """Settle on a folder."""
        output.check_out(folder, self.overwrite, inputs)
        if self.report and find_spec("plotly") is None:
            raise ImportError(HOW_TO_GET)
        limit_threads(self.threads)
        return Results(folder, self.overwrite, self.threads, self.quiet, self.report, inputs)

    @contextmanager
    def writing(self, overwrite: bool = False) -> Iterator[Path]:
        """Give a folder that takes the place of the results when the block ends well; see `runs.output`.

        `overwrite` replaces what this process has written itself.
        """
        with output.output_folder(
            self.folder, self.overwrite or overwrite, self.inputs, lambda path: say(KEPT.format(path), errors)
        ) as temporary:
            yield temporary

    def finish(self, temporary: Path, summary: schema.Summary) -> None:
        """Write summary.json and the page."""
        write.write_summary(temporary, summary)
        self.add_page(temporary)

    def add_page(self, temporary: Path) -> None:
        """Write report.html, unless it is not wanted; no result is lost for the sake of a page."""
        if self.report is False:
            return
        if find_spec("plotly") is None:
            say(HOW_TO_GET)
            return
        from drnmf.report import write_report

        try:
            write_report(temporary)
        except Exception as error:  # the numbers are there and are worth more than the page
            say(f"The report could not be written: {error}", errors)


def writes(*leave_out: str) -> Callable[[options.Command], options.Command]:
    """Give a command the options of its results, in the place of its argument `results`, but for some."""
    return options.takes_fields("results", Results, {"out", "overwrite", "threads", "quiet", "report"} - {*leave_out})


def folder_for(source: Path, ending: str) -> Path:
    """Name the folder of results after their input, NAME-ending, unless it holds those of another input."""
    folder = Path(f"{stem(source)}-{ending}")
    held = input_of_run(folder)
    if held not in (None, source.name):
        raise FileExistsError(f"{folder} holds the results of {held}, not of {source.name}: choose another --out.")
    return folder


def limit_threads(threads: int | None) -> None:
    """Limit BLAS and the compiled extension to `threads` for the rest of the process; None leaves them alone."""
    if threads is None:
        return
    from threadpoolctl import threadpool_limits

    os.environ["OMP_NUM_THREADS"] = str(threads)
    threadpool_limits(threads)
