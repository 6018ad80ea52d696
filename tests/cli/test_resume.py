"""drnmf fit --checkpoint and drnmf resume."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from drnmf import DRNMF, Solver
from drnmf.cli import app
from tests.keeping import dr, files, stop
from tests.kept_fits import matrix

BASE = ("fit", "X.npy", "--rank", "3", "--betas", "0,1", "--max-iter", "30", "--tol", "0", "--quiet", "--no-report")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working folder with X.npy in it."""
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", matrix())
    return tmp_path


def run(*arguments, code=0):
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, (result.output, result.exception)
    return result.output.replace("\n", " ")


def same_results(one, other):
    for name in ("W.npy", "H.npy"):
        np.testing.assert_array_equal(np.load(Path(one) / name), np.load(Path(other) / name))
    a, b = (json.loads((Path(folder) / "summary.json").read_text()) for folder in (one, other))
    for name in ("estimator", "parameters", "losses", "references", "weights", "iterations", "reason", "input"):
        assert a[name] == b[name], name


def stopped(folder="kept", k=12):
    """What a command that was killed in iteration k leaves behind."""
    run(*BASE, "--checkpoint", folder, "--out", "thrown-away")
    command = Path(folder, "command.json")
    stored = command.read_text()
    for path in Path(folder).iterdir():
        path.unlink()
    stop(dr(), matrix(), folder, k)
    command.write_text(stored.replace("thrown-away", "result"))


def test_resume_gives_what_the_command_would_have_given(here):
    run(*BASE, "--out", "whole")
    stopped()
    output = run("resume", "kept")
    assert "Resuming the fit in kept: 2 of its runs have ended." in output
    assert "Run 2 is resumed after iteration 11." in output
    same_results("result", "whole")
    refused = run("resume", "kept", code=1)
    assert "exists, with the results of X.npy: choose another --out, or pass --overwrite" in refused
    run("resume", "kept", "--overwrite", "--threads", "1", "--quiet")
    run("resume", "kept", "--out", "third")
    same_results("third", "whole")


def test_the_same_command_goes_on_too(here):
    run(*BASE, "--out", "whole")
    stopped()
    assert "Resuming" in run(*BASE, "--checkpoint", "kept", "--out", "other")
    same_results("other", "whole")
    stored = json.loads(Path("kept/command.json").read_text())["options"]
    assert Path(stored["out"]).name == "result"  # the first command's
    assert "other parameters (--seed: 0 there, 4 here)" in run(
        *BASE, "--checkpoint", "kept", "--seed", "4", "--out", "no", code=1
    )


def test_fronts_are_resumed_too(here):
    front = ("pareto", *BASE[1:], "--points", "4")
    run(*front, "--out", "whole")
    run(*front, "--checkpoint", "kept", "--out", "thrown-away")
    Path("kept/run-0003.npz").unlink()  # as if it had been stopped before
    left = len(list(Path("kept").glob("run-*.npz")))
    assert f"Resuming the fit in kept: {left} of its runs have ended." in run("resume", "kept", "--out", "result")
    assert Path("result/front.csv").read_bytes() == Path("whole/front.csv").read_bytes()


def test_from_another_folder(here, monkeypatch):
    stopped()
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    run("resume", "../kept")
    assert (here / "result" / "W.npy").exists()


def test_input_that_is_gone_or_changed(here):
    stopped()
    os.rename("X.npy", "Y.npy")
    assert "X.npy, which the fit in kept reads, does not exist any more" in run("resume", "kept", code=1)
    np.save("X.npy", matrix() * 1.01)
    assert "X.npy has changed since the fit in kept was begun" in run("resume", "kept", code=1)
    assert "kept holds a fit with another X (SHA-256" in run(*BASE, "--out", "new", "--checkpoint", "kept", code=1)
    os.rename("Y.npy", "X.npy")
    run("resume", "kept")


def test_a_changed_input_is_refused_before_it_is_read(here):
    stopped()
    with open("X.npy", "r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        last = stream.read(1)
        stream.seek(-1, os.SEEK_END)
        stream.write(bytes([last[0] ^ 1]))
    assert "has changed since" in run("resume", "kept", code=1)
    Path("X.npy").write_bytes(b"no array")
    assert "has changed since" in run("resume", "kept", code=1)
    assert not Path("result").exists()


def test_a_changed_folder_of_blocks_is_refused(here):
    pytest.importorskip("distributed")
    Path("blocks").mkdir()
    for i, rows in enumerate(np.array_split(matrix(), 3)):
        np.save(f"blocks/{i}.npy", rows)
    run("fit", "blocks", *BASE[2:], "--checkpoint", "kept", "--out", "one")
    run("resume", "kept", "--out", "two")
    os.rename("blocks/2.npy", "blocks/3.npy")
    assert "blocks has changed since the fit in kept was begun" in run("resume", "kept", "--out", "three", code=1)


def test_what_cannot_be_resumed(here):
    assert "no-such is no folder" in run("resume", "no-such", code=1)
    DRNMF(3, max_iter=5, tol=0, solver=Solver(checkpoint="python")).fit(matrix())
    assert "begun in Python is resumed when fit is called again" in run("resume", "python", code=1)
    assert "lies in run, the folder of the results" in " ".join(
        run(*BASE, "--out", "run", "--checkpoint", "run/kept", code=2).replace("│", " ").split()
    )
    assert files(here) == ["X.npy", "python"]


@pytest.mark.parametrize(
    "change",
    [
        {"format": "drnmf-command-1"},
        {"sha256": None},
        {"command": "rm"},
        {"options": {"rank": 3}},
        {"options": {"x": "X.npy", "rank": "3"}},
        {"options": {"x": "X.npy", "rank": 3, "unheard": 1}},
        {"options": {"x": "X.npy", "rank": 3, "overwrite": True}},
        {"options": 3},
        None,
    ],
    ids=str,
)
def test_commands_from_strangers(here, change):
    """Only what the command has is read, and nothing can be replaced unasked."""
    stopped()
    path = Path("kept/command.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | change) if change else "{")
    output = run("resume", "kept", code=1)
    assert "command.json is damaged or of another version" in output or "never stored" in output
    assert files(here) == ["X.npy", "kept", "thrown-away"]


CODE = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "import drnmf.estimators.base, drnmf.matrices.files; from drnmf.cli import app; app()"
)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=lambda how: how.name)
def test_a_real_process(here, how):
    iterations = ("--max-iter", "400", "--rank", "4")
    run(*BASE, *iterations, "--out", "whole")
    command = [*BASE, *iterations, "--out", "result", "--checkpoint", "kept", "--checkpoint-every", "0"]
    process = subprocess.Popen([sys.executable, "-c", CODE, *command], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (files("kept", "state-0001*") if Path("kept").exists() else []):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.001)
    process.send_signal(how)
    _, error = process.communicate(timeout=60)
    assert process.returncode == (-9 if how == signal.SIGKILL else 130)
    assert ("Interrupted; resume with: drnmf resume kept" in error) == (how == signal.SIGINT)
    assert not Path("result").exists()
    run("resume", "kept")
    same_results("result", "whole")
