"""What the commands share: options, errors, threads, and output folders that appear whole or not at all."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import typer
from rich.console import Console

console = Console()
errors = Console(stderr=True)

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")

Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads to use (default: all cores).")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the random start.")]
Out = Annotated[Path, typer.Option("--out", help="Folder for the results; it must not exist yet.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the results folder if it exists.")]


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


@contextmanager
def output_folder(out: Path, overwrite: bool) -> Iterator[Path]:
    """A temporary folder beside `out` that takes its place when the block ends well and vanishes otherwise."""
    if out.exists() and not overwrite:
        raise FileExistsError(f"{out} exists: choose another --out, or pass --overwrite to replace it.")
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"{out} is a file, not a folder: choose another --out.")
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        yield temporary
        os.chmod(temporary, 0o755)
        if out.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{out.name}.old.", dir=out.parent))
            os.rename(out, old / "run")
            os.rename(temporary, out)
            shutil.rmtree(old)
        else:
            os.rename(temporary, out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def parse_numbers(text: str, name: str) -> tuple[float, ...]:
    """A comma-separated list from the command line, for example "0,1"."""
    try:
        return tuple(float(item) for item in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a comma-separated list of numbers.", param_hint=name) from None


def limit_threads(threads: int | None) -> Any:
    """Hold BLAS and the compiled core to `threads` for the rest of the process; None leaves them alone."""
    if threads is None:
        return None
    from threadpoolctl import threadpool_limits

    os.environ["OMP_NUM_THREADS"] = str(threads)
    return threadpool_limits(threads)
