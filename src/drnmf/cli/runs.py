"""Results folders: which files in one are a run's, and how a new run takes the place of an old one.

A run lists its files in its summary.json. Only those are ever removed; whatever else lies in the folder stays.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

SUMMARY, PAGE = "summary.json", "report.html"
KINDS = ("fit", "pareto", "separate", "topics", "demo")


def listed(folder: Path) -> list[str]:
    """Name the files in a folder, with `/` between the parts of a name."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def files_of_run(folder: Path) -> frozenset[str] | None:
    """Find the files that a run wrote into a folder; None where no run did."""
    try:
        summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        ours = summary["kind"] in KINDS and "drnmf" in summary["versions"]
        files = frozenset(str(name) for name in summary["files"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return files | {SUMMARY, PAGE} if ours else None  # the page may have been made later, by `drnmf report`


def check_replaceable(out: Path) -> None:
    """Refuse to replace a folder that is neither empty nor a run."""
    if files_of_run(out) is None and any(out.iterdir()):
        raise FileExistsError(
            f"{out} is not the results folder of a run (no {SUMMARY} that says so), so --overwrite leaves it alone: "
            "choose another --out, or remove it yourself."
        )


def replace_run(new: Path, out: Path) -> list[str]:
    """Put the folder `new` in the place of the run `out`, with all that is not the run's; `out` is intact on failure.

    Returns
    -------
    list of str
        Files of others that had the name of a new file, and now end in .old.
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
