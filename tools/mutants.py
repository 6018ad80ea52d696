"""How many small changes to the code do the unit tests notice?

    make mutants MODULES=losses/beta.py MUTANTS=20 MUTANT_TESTS=tests/losses

Cosmic Ray proposes the changes (another operator, another constant, a loop left early), a seed chooses among them, and
each is tried alone: a test must fail. The tests run once as they are, which says how long each takes and which lines it
runs; a change is then tried with the quickest tests that run its line, up to a time, until one fails. A change that no
test runs survives at once. Files are changed where the package is installed for this, never in the source tree.
Survivors are listed in build/mutants.txt with their change; `--again` tries those of the last time only.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import importlib
import importlib.util
import json
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from cosmic_ray.commands import init
from cosmic_ray.mutating import use_mutation
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from coverage import CoverageData

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(str(importlib.util.find_spec("drnmf").origin)).resolve().parent  # type: ignore[union-attr]
BUILD = ROOT / "build"
REPORT, PLAIN, LINES, LEFT = (BUILD / f"mutants.{end}" for end in ("txt", "json", "coverage", "left.json"))
PYTEST = ["-x", "-q", "-p", "no:cacheprovider"]


@dataclass(frozen=True)
class Change:
    """One change to one file, as Cosmic Ray names it."""

    path: str
    operator: str
    occurrence: int
    line: int
    arguments: dict[str, Any]

    @contextlib.contextmanager
    def made(self) -> Iterator[str]:
        """Make the change while the context lasts, and give its diff."""
        file = Path(self.path)
        before = file.stat()
        with use_mutation(file, get_operator(self.operator)(**self.arguments), self.occurrence) as (old, new):
            yield "".join(
                difflib.unified_diff(
                    old.splitlines(keepends=True),
                    new.splitlines(keepends=True),
                    *2 * [f"{file.relative_to(PACKAGE)}:{self.line} {self.operator.removeprefix('core/')}"],
                    n=1,
                )
            )
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # its compiled file holds again


@dataclass
class Watch:
    """What the plain run tells: the processor time of each test, and the modules that were loaded."""

    seconds: dict[str, float] = field(default_factory=dict)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        begun = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.process_time() - begun

    def pytest_sessionfinish(self) -> None:
        loaded = [name for name in sys.modules if name.split(".")[0] not in ("drnmf", "tests", "conftest")]
        PLAIN.write_text(json.dumps({"seconds": self.seconds, "modules": loaded}))


@dataclass(frozen=True)
class Chosen:
    """Leave the tests named, in their order."""

    tests: list[str]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        place = {name: number for number, name in enumerate(self.tests)}
        items[:] = sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])


def files(modules: Iterable[str]) -> list[Path]:
    """List the files of modules or folders of the installed package."""
    paths = [PACKAGE / module for module in modules]
    return [file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]


def proposals(paths: list[Path]) -> list[Change]:
    """Every change that Cosmic Ray knows for the files, less those of annotations, which nothing runs."""
    with use_db(":memory:", mode=WorkDB.Mode.create) as database:
        init(paths, database, {})
        found = [item.mutations[0] for item in database.work_items]
    changes = [
        Change(str(m.module_path), m.operator_name, m.occurrence, m.start_pos[0], m.operator_args) for m in found
    ]
    return sorted((change for change in changes if not _in_annotation(change)), key=str)


def _in_annotation(change: Change) -> bool:
    """Whether a change is of the | between two types, or of a line that only types are for."""
    line = _lines(change.path)[change.line - 1]
    of_types = "BitOr" in change.operator and any(word in line for word in ("def ", " | None", ": ", "->"))
    return of_types or "TYPE_CHECKING" in line


@cache
def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def apart(arguments: list[str], plugin: object, seconds: int | None = None) -> bool:
    """Run pytest in a process of its own, forked, with a limit on its processor time; whether all tests passed."""
    child = os.fork()
    if not child:
        os.setsid()
        silence = os.open(os.devnull, os.O_WRONLY)
        if seconds is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            sys.dont_write_bytecode = True  # what is compiled from a changed file is not kept
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        os._exit(int(pytest.main(arguments, plugins=[plugin])))
    return _ended(child, None if seconds is None else time.monotonic() + 60 + 20 * seconds) == 0


def _ended(child: int, deadline: float | None) -> int:
    """Wait for a process, and end it and what it started after the deadline: it may sleep forever."""
    while True:
        done, status = os.waitpid(child, 0 if deadline is None else os.WNOHANG)
        late = deadline is not None and time.monotonic() > deadline
        if done or late:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            return status if done else (os.waitpid(child, 0)[1] or 1)
        time.sleep(0.02)


def plain_run(tests: list[str]) -> None:
    """Run the tests as they are, with the lines of each."""
    os.environ["COVERAGE_FILE"] = str(LINES)
    measured = ["--cov=drnmf", "--cov-context=test", "--cov-report=", f"--cov-config={os.devnull}"]
    if not apart([*PYTEST, *tests, *measured], Watch()):
        sys.exit("The tests fail without any change.")


class Runs:
    """Which tests run a line, and how long each takes."""

    def __init__(self, each: float) -> None:
        self.each, self.seconds = each, json.loads(PLAIN.read_text())["seconds"]
        self.data = CoverageData(str(LINES))
        self.data.read()

    def of(self, change: Change) -> list[str]:
        """Give the quickest tests of a change, file by file, so that the fixtures of a file serve once."""
        tests = self._quickest(self._of_lines(change.path, lines_of(change)))
        cost: dict[str, float] = {}
        for test in tests:
            cost[_file(test)] = cost.get(_file(test), 0.0) + self.seconds[test]
        return sorted(tests, key=lambda test: (cost[_file(test)], _file(test), self.seconds[test]))

    def _quickest(self, tests: set[str]) -> list[str]:
        ordered = sorted(tests, key=lambda test: (self.seconds[test], test))
        spent = accumulate(self.seconds[test] for test in ordered)
        return [test for test, total in zip(ordered, spent, strict=True) if total <= self.each]

    def _of_lines(self, path: str, lines: range) -> set[str]:
        found = self.data.contexts_by_lineno(path)
        names = {name for line in lines for name in found.get(line, ()) if name}
        prepared = {_file(name) for name in names if name.endswith("|setup")}  # a fixture may serve its whole file
        run = {name.rpartition("|")[0] for name in names}
        return {test for test in self.seconds if test in run or _file(test) in prepared}


def _file(test: str) -> str:
    return test.partition("::")[0]


def lines_of(change: Change) -> range:
    """The lines whose tests may see a change: its statement, a function whose signature it is, or the whole file."""
    tree = ast.parse(Path(change.path).read_text())
    around = [node for node in ast.walk(tree) if _first(node) <= change.line <= _last(node)]
    inside = [node for node in around if isinstance(node, ast.FunctionDef)]
    if not inside:
        return range(1, _last(tree) + 1)
    function = max(inside, key=_first)
    if change.line < function.body[0].lineno:
        return range(function.body[0].lineno, _last(function) + 1)
    statement = max(
        (node for node in around if isinstance(node, ast.stmt)), key=lambda node: (_first(node), -_last(node))
    )
    body = getattr(statement, "body", None)
    return range(_first(statement), (body[0].lineno if body else _last(statement) + 1))


def _first(node: ast.AST) -> int:
    """The first line of a node, with its decorators; the end of all for one without lines."""
    lines = [item.lineno for item in getattr(node, "decorator_list", ())]
    return min([getattr(node, "lineno", sys.maxsize), *lines])


def _last(node: ast.AST) -> int:
    if isinstance(node, ast.Module):
        return max((item.end_lineno or 0 for item in node.body), default=0)
    return getattr(node, "end_lineno", None) or 0


def survives(change: Change, runs: Runs) -> str | None:
    """Give what a change was if no test noticed it, with how many were tried."""
    tests = runs.of(change)
    seconds = sum(runs.seconds[test] for test in tests)
    with change.made() as diff:
        unseen = not tests or apart([*PYTEST, *dict.fromkeys(map(_file, tests))], Chosen(tests), int(20 + 5 * seconds))
    return f"{len(tests)} tests\n{diff}" if unseen else None


def try_all(changes: list[Change], runs: Runs) -> list[tuple[Change, str]]:
    """Try every change; give those that survived, with what they were."""
    left = []
    for number, change in enumerate(changes, 1):
        story = survives(change, runs)
        place = f"{Path(change.path).relative_to(PACKAGE)}:{change.line}"
        print(f"{number} of {len(changes)}: {'SURVIVED' if story else 'killed'} {place}", flush=True)
        if story:
            left.append((change, story))
            print(story, flush=True)
    return left


def preload() -> None:
    """Import the packages that the tests need, so that a forked process has them; never drnmf itself."""
    for name in json.loads(PLAIN.read_text())["modules"]:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--modules", nargs="+", required=True)
    parser.add_argument("--tests", nargs="+", required=True)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=float, default=8.0, help="seconds of tests that a change is tried with, at most")
    parser.add_argument("--kept", action="store_true", help="what the last plain run said of the tests still holds")
    parser.add_argument("--again", action="store_true", help="only the survivors of the last time")
    given = parser.parse_args()
    if ROOT in PACKAGE.parents and "site-packages" not in PACKAGE.parts:
        sys.exit("The source tree would be changed: run `make mutants`, which installs a copy first.")
    BUILD.mkdir(exist_ok=True)
    os.environ["OMP_NUM_THREADS"] = "1"
    if not given.kept:
        plain_run(given.tests)
    preload()
    found = proposals(files(given.modules))
    chosen = random.Random(given.seed).sample(found, min(given.count, len(found)))
    tried = [Change(**change) for change in json.loads(LEFT.read_text())] if given.again else chosen
    left = try_all(tried, Runs(given.each))
    LEFT.write_text(json.dumps([asdict(change) for change, _ in left]))
    killed = len(chosen) - len(left)
    share = f"{killed / max(len(chosen), 1):.1%}"
    head = f"{killed} of {len(chosen)} killed ({share}), of {len(found)} possible; seed {given.seed}"
    REPORT.write_text("\n".join([head, "", *(story for _, story in left)]) + "\n")
    print(f"{head}; survivors are in {REPORT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
