"""--out that cannot be written is refused before any work is done, and nothing is left of the attempt."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from drnmf import BetaNMF
from drnmf.cli import app


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).uniform(0.1, 1, (12, 9))
    np.save("X.npy", X)
    BetaNMF(2, max_iter=3, tol=0).fit(X).save("model.npz")
    Path("file").write_text("mine")
    os.symlink("nowhere", "dangling")
    Path("closed").mkdir(mode=0o500)
    yield
    Path("closed").chmod(0o700)


def no_work(monkeypatch):
    def never(*arguments, **more):
        raise AssertionError("X was read")

    monkeypatch.setattr("drnmf.matrices.files.read_matrix", never)


COMMANDS = {
    "fit": ("fit", "X.npy", "--rank", "2", "--max-iter", "2", "--tol", "0", "--quiet"),
    "pareto": ("pareto", "X.npy", "--rank", "2", "--max-iter", "2", "--tol", "0", "--quiet", "--points", "2"),
    "transform": ("transform", "model.npz", "X.npy"),
}
CASES = {
    "dangling": "dangling is a link to nowhere, which does not exist",
    "file/out": "file is a file, not a folder",
    "file/more/out": "file is a file, not a folder",
    "x" * 300: "File name too long",
    "a/" + "x" * 300: "File name too long",
    "closed/out": "closed cannot be written to",
    "closed/new/out": "closed cannot be written to",
}


@pytest.mark.parametrize("out", CASES, ids=lambda out: out.replace("x" * 300, "long"))
@pytest.mark.parametrize("command", COMMANDS)
def test_refused_before_any_work(command, out, monkeypatch):
    if out.startswith("closed") and os.geteuid() == 0:
        pytest.skip("nothing is closed to root")
    no_work(monkeypatch)
    before = sorted(map(str, Path().rglob("*")))
    result = CliRunner().invoke(app, [*COMMANDS[command], "--out", out])
    assert result.exit_code == 1
    assert CASES[out] in " ".join(result.output.split())
    assert sorted(map(str, Path().rglob("*"))) == before


def test_a_system_that_refuses_is_believed_before_any_work(monkeypatch):
    """What a user without permission sees, also where the tests run as root."""
    no_work(monkeypatch)
    made = Path.mkdir

    def mkdir(path, *arguments, **more):
        if path.parent.name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        made(path, *arguments, **more)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    result = CliRunner().invoke(app, [*COMMANDS["fit"], "--out", "closed/out"])
    assert result.exit_code == 1
    assert "closed/out cannot be written: " in result.output
    assert "closed cannot be written to (Permission denied). Choose another --out." in result.output


def test_missing_parents_are_made():
    result = CliRunner().invoke(app, [*COMMANDS["fit"], "--out", "a/b/c", "--no-report"])
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in Path("a/b").iterdir()) == ["c"]
    result = CliRunner().invoke(app, [*COMMANDS["transform"], "--out", "d/e/W.npy"])
    assert result.exit_code == 0, result.output
    assert np.load("d/e/W.npy").shape == (12, 2)
