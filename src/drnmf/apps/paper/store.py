"""Results on disk, one small file per finished piece of work, so that a job killed at any moment resumes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drnmf.files import left_over, write_text
from drnmf.numerics import Array
from drnmf.storage.archive import read_archive, write_archive

FORMAT = "drnmf-reproduction-2"

Facts = dict[str, Any]
"""Plain values by name, as JSON holds them."""


@dataclass(frozen=True)
class Saved:
    """What a unit leaves: plain values and arrays."""

    values: Facts
    arrays: dict[str, Array] = field(default_factory=dict)


Lookup = Callable[[str], Saved]
"""Name of an earlier unit of the same experiment -> what it left."""


@dataclass(frozen=True)
class Unit:
    """One piece of work that is done once and kept.

    name : unique in its experiment, for example "piano_Mary/seed-0/kl"
    settings : everything that decides the result; other settings are another file
    compute : the work; it may look up units that stand before it in the plan
    """

    name: str
    settings: Mapping[str, object]
    compute: Callable[[Lookup], Saved]

    @property
    def file(self) -> str:
        """Readable name, then a digest of the settings."""
        text = json.dumps(dict(self.settings), sort_keys=True)
        return f"{self.name.replace('/', '.')}.{hashlib.sha256(text.encode()).hexdigest()[:12]}.npz"


@dataclass(frozen=True)
class Plan:
    """What an experiment will do: its units, and what its page must say beside their results."""

    units: list[Unit]
    facts: Facts


@dataclass(frozen=True)
class Results:
    """The finished units of one experiment, read on demand, with the facts of its plan."""

    folder: Path
    files: dict[str, str]
    facts: Facts

    def __call__(self, name: str) -> Saved:
        return read(self.folder / self.files[name])


class Store:
    """A results folder: `reproduction.json` marks it as ours, `units/NAME/` holds what NAME has finished."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def check(self) -> None:
        """Refuse a folder that holds something else than a reproduction."""
        marker = self.folder / "reproduction.json"
        if marker.exists():
            if json.loads(marker.read_text()).get("format") != FORMAT:
                raise ValueError(f"{self.folder} was written by another version: choose another --out.")
        elif self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise FileExistsError(f"{self.folder} exists and is not a reproduction folder: choose another --out.")

    def open(self) -> None:
        """Create the folder or accept one of our own."""
        self.check()
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(self.folder / "reproduction.json", json.dumps({"format": FORMAT}) + "\n")
        for folder in self.folder.glob("units/*"):
            for path in left_over(folder, "*"):
                path.unlink(missing_ok=True)

    def run(self, experiment: str, plan: Plan) -> Iterator[Unit]:
        """Compute what is not there yet, each unit after it was named.

        The plan goes to disk first, so that `results` needs nothing else.
        """
        folder = self.folder / "units" / experiment
        folder.mkdir(parents=True, exist_ok=True)
        files = {unit.name: unit.file for unit in plan.units}
        write_text(folder / "plan.json", json.dumps({"facts": plan.facts, "files": files}, indent=1) + "\n")
        done = Results(folder, files, plan.facts)
        for unit in plan.units:
            yield unit
            if not finished(folder / unit.file):
                write(folder / unit.file, unit.compute(done))

    def results(self, experiment: str) -> Results:
        """What `run` left, for rendering; an error says what is still to be computed."""
        folder = self.folder / "units" / experiment
        try:
            plan = json.loads((folder / "plan.json").read_text())
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.folder} holds no results of {experiment}: run it first.") from None
        absent = [name for name, file in plan["files"].items() if not (folder / file).exists()]
        if absent:
            raise ValueError(
                f"{experiment}: {len(absent)} of {len(plan['files'])} results are missing in {self.folder} "
                f"(the first is {absent[0]}): run the same command again, it resumes."
            )
        return Results(folder, plan["files"], plan["facts"])


def write(path: Path, saved: Saved) -> None:
    """Write what a unit leaves, all or nothing."""
    write_archive(path, saved.arrays, {"values": saved.values}, FORMAT)


def read(path: Path) -> Saved:
    """Read what `write` wrote."""
    arrays, meta = read_archive(path, FORMAT)
    return Saved(meta["values"], arrays)


def finished(path: Path) -> bool:
    """Whether a unit's file is there and as it was written."""
    try:
        read(path)
    except (OSError, ValueError):
        return False
    return True
