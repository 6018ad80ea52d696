"""What the commands share: options, errors, warnings, threads."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.markup import escape

from drnmf.runs import output

if TYPE_CHECKING:
    from drnmf.losses.interval import Interval

console = Console()
errors = Console(stderr=True)

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")

Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads to use (default: all cores).")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the random start.")]
Out = Annotated[Path, typer.Option("--out", help="Folder for the results; it must not exist yet.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the files of an earlier run.")]
Input = Annotated[
    Path,
    typer.Argument(
        metavar="X",
        help="Matrix: .npy .npz .mtx .mat .csv .tsv .zarr .h5ad, or a folder of row blocks.",
        show_default=False,
    ),
]
Variable = Annotated[str | None, typer.Option("--variable", help="Which array of a .mat or .npz file.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bars.")]


def reports_errors(command: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
    """Exit codes: 0 done, 1 failed with one clear line, 2 bad usage (typer's own), 130 interrupted."""

    @functools.wraps(command)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        try:
            return command(*args, **kwargs)
        except KeyboardInterrupt:
            errors.print("Interrupted; nothing was written.")
            raise typer.Exit(130) from None
        except (ValueError, OSError, ImportError, MemoryError) as error:
            errors.print(f"[bold red]Error:[/] {type(error).__name__ if not str(error) else ''}", end="")
            errors.print(str(error), markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from None

    return guarded


def output_folder(out: Path, overwrite: bool, inputs: Iterable[Path] = ()) -> AbstractContextManager[Path]:
    """Give the folder for the results, and say which files of others had to be renamed; see `runs.output`."""

    def kept(path: Path) -> None:
        errors.print(f"Kept a file that is not of the old run as {path}.", markup=False, soft_wrap=True)

    return output.output_folder(out, overwrite, inputs, kept)


def parse_numbers(text: str, name: str) -> tuple[float, ...]:
    """A comma-separated list from the command line, for example "0,1"."""
    try:
        return tuple(float(item) for item in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a comma-separated list of numbers.", param_hint=name) from None


def parse_omega(text: str) -> tuple[float, ...] | Interval:
    """Omega from the command line: a list as in `parse_betas`, or an interval "0..2"."""
    from drnmf.losses.interval import as_interval

    with bad_usage("--betas"):
        return as_interval(text) or parse_betas(text)


def parse_betas(text: str) -> tuple[float, ...]:
    """Omega from the command line: "0,1" or "itakura-saito,1"."""
    from drnmf.losses.beta import NAMES, as_betas

    items = [item.strip() for item in text.split(",")]
    with bad_usage("--betas"):
        return as_betas(item if item in NAMES else parse_numbers(item, "--betas")[0] for item in items)


@contextmanager
def bad_usage(option: str) -> Iterator[None]:
    """A ValueError in the block is the option's fault: exit code 2."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def choice(value: str | None, choices: Iterable[str], option: str) -> str | None:
    """An option that is one of a few words, or was not given."""
    if value is not None and value not in choices:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(choices)}.", param_hint=option)
    return value


@contextmanager
def plain_warnings() -> Iterator[list[str]]:
    """Warnings as one line each on standard error, and collected for the summary."""
    seen: list[str] = []

    def show(message: Warning | str, *details: Any, **more: Any) -> None:
        text = str(message)
        if text not in seen:
            seen.append(text)
            errors.print(f"[yellow]Warning:[/] {escape(text)}", highlight=False, soft_wrap=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield seen


def limit_threads(threads: int | None) -> Any:
    """Hold BLAS and the compiled core to `threads` for the rest of the process; None leaves them alone."""
    if threads is None:
        return None
    from threadpoolctl import threadpool_limits

    os.environ["OMP_NUM_THREADS"] = str(threads)
    return threadpool_limits(threads)
