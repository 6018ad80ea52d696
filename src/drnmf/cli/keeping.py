"""--checkpoint: the command beside the checkpoints, as JSON, so that `drnmf resume` knows what to resume."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from drnmf.cli.common import errors, say
from drnmf.cli.endings import stopped_with
from drnmf.files import write_text
from drnmf.runs.write import sha256_of

FILE = "command.json"
FORMAT = "drnmf-command-2"
_NOT_STORED = ("checkpoint", "overwrite")  # a folder from a stranger must not be able to replace anything


def remember(folder: Path | None, command: str, options: Mapping[str, object]) -> None:
    """Write the options of a command, with absolute paths, and the hash of its input, unless a fit is there already."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "begin.npz").exists():
        return
    plain = {
        name: str(value.resolve()) if isinstance(value, Path) else value
        for name, value in options.items()
        if name not in _NOT_STORED
    }
    whole = {"format": FORMAT, "command": command, "options": plain, "sha256": sha256_of(Path(str(options["x"])))}
    write_text(folder / FILE, json.dumps(whole, indent=2) + "\n")


@dataclass(frozen=True)
class Stored:
    """A command as it was begun: the function, its options, and the SHA-256 that its input had."""

    command: Callable[..., None]
    options: dict[str, Any]
    sha256: str

    def check_input(self, folder: Path) -> None:
        """Refuse an input that is gone or not what it was, before any of it is read as a matrix."""
        source = self.options["x"]
        if not source.exists():
            raise FileNotFoundError(f"{source}, which the fit in {folder} reads, does not exist any more: put it back.")
        if sha256_of(source) != self.sha256:
            raise ValueError(
                f"{source} has changed since the fit in {folder} was begun (its SHA-256 is another): put the old one "
                "back, or start over with another --checkpoint."
            )


def recall(folder: Path, commands: Mapping[str, Callable[..., None]]) -> Stored:
    """Read the command stored in the folder; only options that the command has, of the type they have."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is no folder: give the one that --checkpoint named.")
    path = folder / FILE
    if not path.exists():
        raise FileNotFoundError(
            f"{folder} holds no {FILE}: only what was begun on the command line with --checkpoint is resumed here. "
            "A fit that was begun in Python is resumed when fit is called again with the same checkpoint folder."
        )
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored["format"] != FORMAT:
            raise ValueError(f"format {stored['format']!r}, not {FORMAT!r}")
        command = commands[stored["command"]]
        hints = get_type_hints(command, include_extras=True)
        options = {name: _typed(name, value, hints[name]) for name, value in stored["options"].items()}
        inspect.signature(command).bind(**options)
        begun = Stored(command, options, _typed("sha256", stored["sha256"], str))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, typer.BadParameter) as error:
        raise ValueError(f"{path} is damaged or of another version ({type(error).__name__}: {error}).") from None
    if set(options) & set(_NOT_STORED):
        raise ValueError(f"{path} holds options that are never stored: it was not written by drnmf.")
    return begun


def _typed(name: str, value: object, hint: object) -> Any:
    """Check a value against the type of its option, or what its parser makes of the text: a rank is 3 or "auto"."""
    kind, *metadata = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    parse = next((option.parser for option in metadata if getattr(option, "parser", None) is not None), None)
    if parse is not None:
        if isinstance(value, bool) or parse(str(value)) != value:
            raise TypeError(f"{name} is {value!r}")
        return value
    if isinstance(value, str) and not isinstance(value, kind):
        value = Path(value)
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {value!r}")
    return value


def check(folder: Path | None, out: Path) -> None:
    """Refuse checkpoints inside the results folder, which is replaced as a whole."""
    if folder is not None and folder.resolve().is_relative_to(out.resolve()):
        raise typer.BadParameter(
            f"{folder} lies in {out}, the folder of the results, which appears as a whole at the end: name another.",
            param_hint="--checkpoint",
        )


@contextmanager
def kept(folder: Path | None) -> Iterator[None]:
    """Print the library's log on standard error while a fit is kept, and after Ctrl-C how to resume it."""
    if folder is None:
        yield
        return
    logger, handler = logging.getLogger("drnmf"), _Lines(logging.INFO)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with stopped_with(f"resume with: drnmf resume {folder}"):
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage(), errors)
