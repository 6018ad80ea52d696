"""What the commands share: what they say and in which words, inputs and outputs, warnings, threads."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import parameters_of
from drnmf.parameters.solver import Solver

console = Console()
errors = Console(stderr=True)

_SPELT_ALIKE = """
    betas weights uncertainty min_df max_df max_features stop_words window hop power labels delimiter sheet transpose
    ranks resample threshold heavy layer long image column encoding group method variable keep grow"""
_FLAGS = {"entry_weight": "--entry-weights", "n_runs": "--runs"}
_FLAGS |= {
    name: known.option
    for owner in (Parameters, Solver)
    for name, known in parameters_of(owner).items()
    if known.option is not None and name not in ("fixed", "penalties")  # words of the messages themselves
}
_FLAGS |= {name: "--" + name.replace("_", "-") for name in _SPELT_ALIKE.split()}
"""Parameters of the library -> options of the commands."""

_WORDS = ("betas", "tol", *(name for name in _FLAGS if "_" in name))
"""Parameters whose name is no word of its own: they are options wherever they stand."""

_IN_PYTHON = re.compile(r" \([^()]*\bin Python\)")
_VALUE = r"""'[^']*'|"[^"]*"|\([^()]*\)|\[[^\[\]]*\]|[-+\w]+(?:\.\w+)*"""
_GIVEN = re.compile(rf"(?<![-\w])({'|'.join(_FLAGS)})=({_VALUE})")
_NAMED = re.compile(rf"(?<![-\w./])({'|'.join(_WORDS)})(?![-\w=/]|\.\w)")


def say(text: str, to: Console = console) -> None:
    """Print a line as it is: no markup in names of files, no colours in numbers, no line breaks."""
    to.print(text, markup=False, highlight=False, soft_wrap=True)


def starts(count: int) -> str:
    """Count starts in words.

    >>> starts(1), starts(5)
    ('1 start', '5 starts')
    """
    return f"{count} start{'s' if count > 1 else ''}"


def in_options(text: str) -> str:
    """Write options where a message of the library has parameters, and leave out what it says to Python alone.

    >>> in_options("raise max_iter, or set tol=0")
    'raise --max-iter, or set --tol 0'
    >>> in_options("Pass zeros='floor', betas=(0, 1) or --labels 2 (labels=2 in Python).")
    'Pass --zeros floor, --betas 0,1 or --labels 2.'
    """
    text = _GIVEN.sub(lambda found: f"{_FLAGS[found[1]]} {_value(found[2])}".rstrip(), _IN_PYTHON.sub("", text))
    return _NAMED.sub(lambda found: _FLAGS[found[1]], text)


def _value(text: str) -> str:
    """Write a value as one types it: no quotes, no brackets, no spaces after commas, and nothing after a flag."""
    if text == "True":
        return ""
    if text[0] in "([":
        return ",".join(item.strip().strip("'\"") for item in text[1:-1].split(",") if item.strip())
    return text.strip("'\"")


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


def stem(path: Path) -> str:
    """Name results after their input: its name without the suffix, and without .gz before that.

    >>> stem(Path("data/set1.catalog.csv.gz"))
    'set1.catalog'
    """
    return Path(path.name.removesuffix(".gz")).stem


@contextmanager
def bad_usage(option: str) -> Iterator[None]:
    """Blame a ValueError in the block on the option: exit code 2."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(in_options(str(error)), param_hint=option) from None


def choice(value: str | None, choices: Iterable[str], option: str) -> str | None:
    """Check an option that is one of a few words, or was not given."""
    if value is not None and value not in choices:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(choices)}.", param_hint=option)
    return value


@contextmanager
def plain_warnings() -> Iterator[list[str]]:
    """Print warnings as one line each on standard error, and collect them for the summary."""
    seen: list[str] = []

    def show(message: Warning | str, *details: object, **more: object) -> None:
        text = in_options(str(message))
        if text not in seen:
            seen.append(text)
            warn(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", RuntimeWarning)  # of NumPy: a fit looks at what comes of it, and says so
        warnings.showwarning = show
        yield seen
