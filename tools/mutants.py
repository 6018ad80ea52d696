"""How many small changes to the code do the tests notice?

    make mutants MODULES=losses/beta.py MUTANTS=20 MUTANT_TESTS=tests/losses

Cosmic Ray proposes the changes (another operator, another constant, a loop left early), a seed chooses among them, and
each is tried alone: the tests must fail. Files are changed where the package is installed for this, never in the
source tree. Survivors are listed with their change in build/mutants.txt.
"""

from __future__ import annotations

import argparse
import random
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_db import WorkDB, use_db

import drnmf

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(drnmf.__file__).resolve().parent
REPORT = ROOT / "build" / "mutants.txt"


def files(modules: Iterable[str]) -> list[Path]:
    """List the files of modules or folders of the installed package."""
    paths = [PACKAGE / module for module in modules]
    return [file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]


def proposals(paths: list[Path]) -> list[Any]:
    """Every change that Cosmic Ray knows for the files, less those of annotations, which nothing runs."""
    with use_db(":memory:", mode=WorkDB.Mode.create) as database:
        init(paths, database, {})
        items = list(database.work_items)
    return [item for item in items if not _in_annotation(item.mutations[0])]


def _in_annotation(mutation: Any) -> bool:
    """Whether a change is of the | between two types, or of a line that only types are for."""
    line = Path(mutation.module_path).read_text().splitlines()[mutation.start_pos[0] - 1]
    of_types = "BitOr" in mutation.operator_name and any(word in line for word in ("def ", " | None", ": ", "->"))
    return of_types or "TYPE_CHECKING" in line


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--modules", nargs="+", required=True)
    parser.add_argument("--tests", nargs="+", required=True)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600.0, help="after which a mutant counts as killed: it hangs")
    given = parser.parse_args()
    if ROOT in PACKAGE.parents and "site-packages" not in PACKAGE.parts:
        sys.exit("The source tree would be changed: run `make mutants`, which installs a copy first.")
    found = proposals(files(given.modules))
    chosen = random.Random(given.seed).sample(found, min(given.count, len(found)))
    command = shlex.join([sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *given.tests])
    survivors = []
    for number, item in enumerate(chosen, 1):
        result = mutate_and_test(item.mutations, command, given.seconds)
        if not result.is_killed:
            survivors.append(result.diff or "")
        print(f"{number} of {len(chosen)}: {'killed' if result.is_killed else 'SURVIVED'}", flush=True)
    REPORT.parent.mkdir(exist_ok=True)
    killed = len(chosen) - len(survivors)
    percent = f"{killed / max(len(chosen), 1):.0%}"
    head = f"{killed} of {len(chosen)} killed ({percent}), of {len(found)} possible; seed {given.seed}"
    REPORT.write_text("\n\n".join([head, *survivors]) + "\n")
    print(f"{head}; survivors are in {REPORT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
