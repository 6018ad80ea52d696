"""Results folders: which files in one are a run's, and how a new run takes the place of an old one.

A run lists its files in its summary.json. Only those are ever removed; whatever else lies in the folder stays.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from drnmf.files import temporary_folder, uninterrupted
from drnmf.runs.read import files_of_run, input_of_run
from drnmf.runs.schema import SUMMARY


def check_out(out: Path, overwrite: bool, inputs: Iterable[Path] = ()) -> None:
    """Refuse, before any work is done, a results folder that may not, must not or cannot be written."""
    _refuse_dangling(out)
    if out.exists() and not overwrite:
        held = input_of_run(out)
        what = "exists" if held is None else f"exists, with the results of {held}"
        raise FileExistsError(f"{out} {what}: choose another --out, or pass --overwrite to replace it.")
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"{out} is a file, not a folder: choose another --out.")
    whole = out.resolve()
    for path in (Path.cwd(), Path.home(), whole / ".git", *inputs):
        if path.exists() and path.resolve().is_relative_to(whole):
            raise ValueError(f"{out} holds {path}, which replacing it would delete: choose another --out.")
    if out.exists():
        check_replaceable(out)
    if out.exists() and not os.access(out, os.W_OK):
        raise PermissionError(f"{out} cannot be replaced: you may not write to it. Choose another --out.")
    _try_to_write(out)


def check_out_file(out: Path) -> None:
    """Refuse, before any work is done, a file that cannot be written."""
    _refuse_dangling(out)
    _try_to_write(out)


def _refuse_dangling(out: Path) -> None:
    if out.is_symlink() and not out.exists():
        raise FileExistsError(f"{out} is a link to {os.readlink(out)}, which does not exist: choose another --out.")


def _try_to_write(out: Path) -> None:
    """Make a folder of that name, in the folders that are still missing, under a temporary one, and remove it again."""
    whole = out.resolve()
    parent = next(folder for folder in whole.parents if folder.exists())
    try:
        with temporary_folder(parent, f".{whole.name}.") as tried:
            tried.joinpath(*whole.relative_to(parent).parts).mkdir(parents=True)
    except OSError as error:
        reason = "is a file, not a folder" if not parent.is_dir() else f"cannot be written to ({error.strerror})"
        raise type(error)(f"{out} cannot be written: {parent} {reason}. Choose another --out.") from None


@contextmanager
def output_folder(
    out: Path, overwrite: bool, inputs: Iterable[Path] = (), kept: Callable[[Path], None] = lambda path: None
) -> Iterator[Path]:
    """Make a temporary folder beside `out` that takes its place when the block ends well and vanishes otherwise.

    Of a run that it replaces only the run's own files go. `kept` is told of every other file that had the name of a
    new one, and now ends in .old.
    """
    check_out(out, overwrite, inputs)
    if out.exists():
        out = out.resolve()  # of a link, what it leads to
    out.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(out.parent, f".{out.name}.") as temporary:
        yield temporary
        os.chmod(temporary, 0o755)
        if out.exists():
            with uninterrupted():
                names = replace_run(temporary, out)
            for name in names:
                kept(out / name)
        else:
            os.rename(temporary, out)


def check_replaceable(out: Path) -> None:
    """Refuse to replace a folder that is neither empty nor a run."""
    if files_of_run(out) is None and any(out.iterdir()):
        raise FileExistsError(
            f"{out} is not the results folder of a run (no {SUMMARY} that says so), so --overwrite leaves it alone: "
            "choose another --out, or remove it yourself."
        )


def replace_run(new: Path, out: Path) -> list[str]:
    """Put the folder `new` in the place of the run `out`, with all that is not the run's; `out` is intact on failure.

    Returns the files of others that had the name of a new file, and now end in .old.
    """
    aside = Path(tempfile.mkdtemp(prefix=f".{out.name}.old.", dir=out.parent))
    old, ours = aside / "run", files_of_run(out) or frozenset()
    moves: list[tuple[Path, Path]] = []
    renamed: list[str] = []

    def move(source: Path, target: Path) -> None:
        moves.append((source, target))
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(source, target)

    try:
        move(out, old)
        move(new, out)
        for name in list(others(old, ours)):
            free = _free_name(out, name)
            renamed += [free] if free != name else []
            move(old / name, out / free)
    except BaseException:
        for source, target in reversed(moves):
            if os.path.lexists(target):
                os.rename(target, source)
        aside.rmdir()
        raise
    shutil.rmtree(aside, ignore_errors=True)  # nothing but the old run is left there
    return renamed


def others(folder: Path, ours: frozenset[str], inside: str = "") -> Iterator[str]:
    """Name what is in a folder but not a run's: files, links, and whole folders without a file of the run."""
    for entry in sorted(os.scandir(folder / inside), key=lambda entry: entry.name):
        name, is_folder = inside + entry.name, entry.is_dir(follow_symlinks=False)
        if is_folder and any(own.startswith(f"{name}/") for own in ours):
            yield from others(folder, ours, f"{name}/")
        elif is_folder or name not in ours:
            yield name


def _free_name(folder: Path, name: str) -> str:
    """The name itself, with .old behind the part of it that a file of the folder has already."""
    parts = name.split("/")
    for i in range(len(parts)):
        while os.path.lexists(path := folder.joinpath(*parts[: i + 1])) and (i == len(parts) - 1 or not path.is_dir()):
            parts[i] += ".old"
    return "/".join(parts)
