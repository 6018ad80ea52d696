"""What the commands share: options, errors, warnings, threads."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from drnmf.runs import output

console = Console()
errors = Console(stderr=True)


def say(text: str, to: Console = console) -> None:
    """Print a line as it is: no markup in names of files, no colours in numbers, no line breaks."""
    to.print(text, markup=False, highlight=False, soft_wrap=True)


def warn(text: str) -> None:
    """Print a warning on standard error."""
    errors.print(f"[yellow]Warning:[/] {escape(text)}", highlight=False, soft_wrap=True)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[str]) -> None:
    """Print rows under a title; columns in `left` are set left, the others right, and DR-NMF's rows stand out."""
    drawn = Table(title=title)
    for name in columns:
        drawn.add_column(name, justify="left" if name in left else "right")
    for row in rows:
        robust = "DR-NMF" in row
        drawn.add_row(*map(escape, row), style="bold green" if robust else None, end_section=robust)
    console.print(drawn)


def output_folder(out: Path, overwrite: bool, inputs: Iterable[Path] = ()) -> AbstractContextManager[Path]:
    """Give the folder for the results, and say which files of others had to be renamed; see `runs.output`."""
    message = "Kept a file that is not of the old run as {}."
    return output.output_folder(out, overwrite, inputs, lambda path: say(message.format(path), errors))


@contextmanager
def bad_usage(option: str) -> Iterator[None]:
    """Blame a ValueError in the block on the option: exit code 2."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def choice(value: str | None, choices: Iterable[str], option: str) -> str | None:
    """Check an option that is one of a few words, or was not given."""
    if value is not None and value not in choices:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(choices)}.", param_hint=option)
    return value


@contextmanager
def plain_warnings() -> Iterator[list[str]]:
    """Print warnings as one line each on standard error, and collect them for the summary."""
    seen: list[str] = []

    def show(message: Warning | str, *details: Any, **more: Any) -> None:
        text = str(message)
        if text not in seen:
            seen.append(text)
            warn(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", RuntimeWarning)  # of NumPy: a fit looks at what comes of it, and says so
        warnings.showwarning = show
        yield seen


def limit_threads(threads: int | None) -> Any:
    """Limit BLAS and the compiled extension to `threads` for the rest of the process; None leaves them alone."""
    if threads is None:
        return None
    from threadpoolctl import threadpool_limits

    os.environ["OMP_NUM_THREADS"] = str(threads)
    return threadpool_limits(threads)
