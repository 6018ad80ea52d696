"""Ctrl-C and SIGTERM at any moment, with workers and without: one line, the exit code, and nothing left behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import typer

from drnmf.cli import endings
from drnmf.files import temporary_folder, uninterrupted

pytestmark = pytest.mark.skipif(not hasattr(os, "killpg"), reason="the keys of a terminal reach a group of processes")

CODE = """
import contextlib, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from drnmf.cli import app, endings

plain = endings.stoppable

@contextlib.contextmanager
def stoppable():
    with plain():
        print("ready", flush=True)  # from here on a signal is the command's business
        yield

endings.stoppable = stoppable
app()
"""
ENDINGS = {
    signal.SIGINT: (130, "Interrupted; nothing was written."),
    signal.SIGTERM: (143, "Terminated; nothing was written."),
}


class Life:
    """A command in a session of its own, as in a terminal, with a folder for all that is temporary."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.temporary = folder, folder / "temporary"
        self.temporary.mkdir()
        np.save(folder / "X.npy", np.random.default_rng(0).uniform(0.1, 1, (400, 200)))
        fit = ["fit", "X.npy", "--rank", "4", "--betas", "0,1", "--max-iter", "1000000", "--tol", "0", *options]
        self.process = subprocess.Popen(
            [sys.executable, "-c", CODE, *fit], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True, env=os.environ | {"TMPDIR": str(self.temporary), "COLUMNS": "200"},
        )  # fmt: skip
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def wait_for(self, pattern: str) -> None:
        """Wait until the run has written something of that name among the temporary files."""
        deadline = time.monotonic() + 120
        while not list(self.temporary.glob(pattern)):
            assert self.process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.002)

    def stop(self, number: int, group: bool = True) -> tuple[int, str]:
        """Send a signal, as Ctrl-C does, to the whole group, or to the command alone; returns exit code and words."""
        (os.killpg if group else os.kill)(self.process.pid, number)
        try:
            _, error = self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            pytest.fail(f"it does not end: {self.process.communicate()[1]}")
        return self.process.returncode, error

    def left(self) -> list[str]:
        """Files and folders that were not there before."""
        found = {path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*")}
        return sorted(found - {"X.npy", "temporary"})


MOMENTS = {
    "in the first imports": ("", 0.3),
    "while the cluster starts": ("drnmf-*", 2.0),
    "while X goes to the workers": ("drnmf-*/dask-scratch-space/worker-*", 2.0),
    "in the fit": ("drnmf-*/drnmf-*/rows-*", 0.5),
}


@pytest.mark.slow
@pytest.mark.parametrize("number", ENDINGS, ids=lambda number: signal.Signals(number).name)
@pytest.mark.parametrize("moment", MOMENTS)
def test_with_workers(moment: str, number: int, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    pattern, most = MOMENTS[moment]
    rng = random.Random(f"{moment} {number}")
    life = Life(tmp_path, "--workers", "2")
    if pattern:
        life.wait_for(pattern)
    time.sleep(rng.uniform(0, most))
    code, error = life.stop(number, group=rng.random() < 0.7)
    assert (code, error.splitlines()[-1]) == ENDINGS[number], error
    assert "Traceback" not in error
    assert life.left() == []


@pytest.mark.slow
@pytest.mark.parametrize("number", ENDINGS, ids=lambda number: signal.Signals(number).name)
def test_without_workers(number: int, tmp_path: Path) -> None:
    rng = random.Random(number)
    life = Life(tmp_path)
    time.sleep(rng.uniform(0, 2))
    code, error = life.stop(number)
    assert (code, error.splitlines()[-1]) == ENDINGS[number], error
    assert life.left() == []


@pytest.mark.slow
def test_workers_end_with_a_command_that_is_killed(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    life = Life(tmp_path, "--workers", "2", "--quiet")
    life.wait_for("drnmf-*/drnmf-*/rows-*")
    assert life.stop(signal.SIGKILL)[0] == -signal.SIGKILL
    deadline = time.monotonic() + 60
    while life.left() and time.monotonic() < deadline:  # what removes the files is the process that held the workers
        time.sleep(0.02)
    assert life.left() == []


@pytest.mark.slow
def test_a_scratch_folder_that_was_not_there_is_gone_again(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    life = Life(tmp_path, "--workers", "1", "--quiet", "--scratch", "scratch")
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("scratch/drnmf-*/drnmf-*/rows-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert life.stop(signal.SIGINT)[0] == 130
    assert life.left() == []


@pytest.mark.parametrize("number", ENDINGS, ids=lambda number: signal.Signals(number).name)
def test_a_stop_behind_another_error_is_the_stop(
    number: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "drnmf.cli.common", None)  # as if the stop had come within its import

    def work() -> None:
        with endings.errors_in_a_line(debug=False), endings.stopped_with("half is kept."):
            try:
                signal.raise_signal(number)
            finally:
                raise ValueError("what was cut short cannot be closed")

    with pytest.raises(typer.Exit) as exit:
        work()
    word = ENDINGS[number][1].split(";")[0]
    assert (exit.value.exit_code, capsys.readouterr().err) == (128 + number, f"{word}; half is kept.\n")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_stop_that_is_lost_in_a_finalizer_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "PATIENCE", 0.05)

    class Deaf:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)  # Python says that it ignores what is raised here

    def work() -> None:
        with endings.stoppable():
            Deaf()
            time.sleep(30)

    with pytest.raises(endings.Stopped):
        work()


def test_what_must_be_whole_is_not_interrupted() -> None:
    steps = []

    def work() -> None:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            steps.append("whole")
        steps.append("never")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert steps == ["whole"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_temporary_folder_goes_when_its_maker_is_interrupted(tmp_path: Path) -> None:
    def work() -> None:
        with temporary_folder(tmp_path, "of-a-run-") as folder:
            (folder / "file").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert list(tmp_path.iterdir()) == []


def test_a_stop_that_is_raised_where_it_is_lost_says_nothing():
    """In a finalizer an error ends nothing and is only printed: the stop comes again, and other errors are told."""
    code = """
from drnmf.cli.endings import Stopped, stoppable

class Closing:
    def __init__(self, error): self.error = error
    def __del__(self): raise self.error

with stoppable():
    Closing(Stopped(15))
    Closing(ValueError("told"))
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr
    assert said.count("Traceback") == 1
    assert "ValueError: told" in said
