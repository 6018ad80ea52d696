"""python -m tests.fuzz CASES [FORMAT ...]: run so many cases of every format, each in a fork of this process.

Prints a line of JSON for every format: its name, how the cases ended, and the faults. This process has imported all
that the commands need and runs none of them, so that a case costs a fork and not an interpreter. A fault is a case that
crashes, takes too long or too much memory, is not expected by the command, prints a traceback, leaves files behind
after an error, or writes numbers that are not finite. The model of a stream, which its error names, may stay if it is
whole.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import typer.main

import drnmf
from tests.fuzz.formats import FORMATS, Format
from tests.fuzz.mutations import damage

STREAM = {"model.npz", "H.npy", "summary.json", "trace.csv"}
"""What a stream that stopped at a row leaves, for `--continue`."""
SECONDS = 100
MEMORY = 6 << 30


def preload(modules: list[str]) -> None:
    """Import what a command has imported, and take short cuts that change nothing of what is tested."""
    for module in modules:
        with contextlib.suppress(Exception):  # some exist only as parts of others
            importlib.import_module(module)
    import drnmf.matrices.rowblocks
    import drnmf.report.page

    drnmf.report.page.plotly_script = lambda: ""  # 5 MB that are the same in every page
    drnmf.matrices.rowblocks.check_hdf5 = check_hdf5_in_a_fork
    gc.collect()
    gc.freeze()


def check_hdf5_in_a_fork(source: Path, *names: str) -> None:
    """What `check_hdf5` does, without the start of an interpreter."""
    from drnmf.matrices.damage import _try

    child = os.fork()
    if child == 0:
        signal.alarm(10)
        code = 1
        try:
            _try(str(source), *names)
            code = 0
        finally:
            os._exit(code)
    if os.waitpid(child, 0)[1] != 0:
        raise ValueError(f"{source} cannot be read: it may be damaged or cut short.")


def case(kind: str, seed: int, example: Path, folder: Path) -> tuple[str, str]:
    """Damage a copy of the example, run the command on it in a fork, and judge: (ending, fault)."""
    form, rng = FORMATS[kind], random.Random(f"{kind} {seed}")
    shutil.copytree(example, folder)
    spoil(form, folder, rng)
    before = {path.relative_to(folder) for path in folder.rglob("*")}
    child = os.fork()
    if child == 0:
        enter(folder, form.command)
    status = os.waitpid(child, 0)[1]
    code, number = os.waitstatus_to_exitcode(status), status & 127
    output = (folder.parent / f"{folder.name}.txt").read_text(errors="replace")
    (folder.parent / f"{folder.name}.txt").unlink()
    fault = ""
    if number:
        fault = f"ended by {signal.Signals(number).name}"
    elif code not in (0, 1, 2):
        fault = f"exit code {code}"
    elif "Traceback" in output or "this was not expected" in output:
        fault = "not expected by the command"
    elif code and (left := sorted(str(path) for path in new_files(folder, before))):
        fault = not_whole(folder) if "continue with the same command and --continue" in output else f"left {left}"
    elif not code:
        fault = not_finite(folder)
    shutil.rmtree(folder)
    return (f"exit code {code}", f"{fault}: {output[-2000:]}" if fault else "")


def new_files(folder: Path, before: set[Path]) -> list[Path]:
    """Files that were not there; a checkpoint folder may grow."""
    found = {path.relative_to(folder) for path in folder.rglob("*")} - before
    return [path for path in found if path.parts[0] != "kept"]


def spoil(form: Format, folder: Path, rng: random.Random) -> None:
    if form.edit is not None and rng.random() < 0.5:
        form.edit(folder, rng)
        return
    files = sorted(path for path in folder.glob(form.pattern) if path.is_file() and path.name != "lock")
    path = rng.choice(files)
    path.write_bytes(damage(path.name, path.read_bytes(), rng))


@functools.cache
def commands() -> Any:
    """The commands as they are called, made once."""
    from drnmf.cli import app

    return typer.main.get_command(app)


def enter(folder: Path, command: tuple[str, ...]) -> None:
    """The life of the fork: a command under limits."""
    code = 99
    try:
        signal.alarm(SECONDS)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        output = os.open(folder.parent / f"{folder.name}.txt", os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(folder)
        try:
            commands()(list(command))
        except SystemExit as end:
            code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def not_whole(folder: Path) -> str:
    """Say what the folder of a stream lacks to be continued, or has that is no part of it."""
    others = {path.name for path in (folder / "out").iterdir()} - STREAM
    try:
        rows = drnmf.load(folder / "out" / "model.npz").rows_seen_
    except Exception as error:
        return f"left a model that cannot be loaded ({error})"
    return f"left {sorted(others)}" if others else "left a model of no rows" if rows == 0 else not_finite(folder)


def not_finite(folder: Path) -> str:
    """Name a file of the results with a number that is not finite."""
    for path in [*folder.glob("out/*.npy"), *folder.glob("W.npy")]:
        if not np.isfinite(np.load(path)).all():
            return f"{path.name} is not finite"
    return ""


def share(kind: str, seeds: range, example: Path, folder: Path) -> dict[str, Any]:
    """Run cases one after another."""
    endings, faults = Counter[str](), list[str]()
    for seed in seeds:
        ending, fault = case(kind, seed, example, folder / str(seed))
        endings[ending] += 1
        faults += [f"{kind}, case {seed}, {fault}"] if fault else []
    return {"endings": dict(endings), "faults": faults}


def rehearse(form: Format, example: Path) -> list[str]:
    """Make the example and run the command on it, in a process of its own: it starts threads. Returns its modules."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        modules: list[str] = []
        try:
            form.make(example)
            copy = example.with_name("copy")
            shutil.copytree(example, copy)
            os.chdir(copy)
            with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
                commands()(list(form.command))
        except SystemExit as end:
            modules = [] if end.code else sorted(sys.modules)
        except BaseException:
            traceback.print_exc()
        with os.fdopen(writing, "w") as stream:
            stream.write(json.dumps(modules))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        modules = json.loads(stream.read() or "[]")
    os.wait()
    return modules


def fuzz(kind: str, first: int, count: int, folder: Path) -> dict[str, Any]:
    """Run the cases of a format, some on every core."""
    example = folder / "example"
    example.mkdir()
    modules = rehearse(FORMATS[kind], example)
    if not modules:
        return {"endings": {}, "faults": [f"{kind}: the sound example is not read"]}
    preload(modules)
    commands()
    cores, parts = len(os.sched_getaffinity(0)), []
    for core in range(cores):
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.close(reading)
            found = json.dumps(share(kind, range(first + core, first + count, cores), example, folder))
            with os.fdopen(writing, "w") as stream:
                stream.write(found)
            os._exit(0)
        os.close(writing)
        parts.append(reading)
    endings, faults = Counter[str](), list[str]()
    for reading in parts:
        with os.fdopen(reading) as stream:
            found = json.loads(stream.read() or '{"endings": {}, "faults": ["the fuzzer itself was killed"]}')
        os.wait()
        endings.update(found["endings"])
        faults += found["faults"]
    return {"endings": dict(endings), "faults": faults}


def main(cases: int, kinds: list[str], first: int = 0) -> None:
    for kind in kinds or FORMATS:
        with tempfile.TemporaryDirectory(prefix="drnmf-fuzz-") as folder:
            found = fuzz(kind, first, cases, Path(folder))
        print(json.dumps({"format": kind} | found), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:], int(os.environ.get("DRNMF_FUZZ_FIRST", "0")))
