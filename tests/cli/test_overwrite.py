"""--overwrite replaces the files of a run, and nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.io.wavfile
from typer.testing import CliRunner

from drnmf.cli import app
from drnmf.runs.output import replace_run
from drnmf.runs.write import listed

FAST = ("--max-iter", "5", "--quiet", "--no-report")
FIT = ("fit", "X.npy", "--rank", "2", "--out", "run", "--overwrite", *FAST)
COMMANDS = {
    "fit": FIT,
    "pareto": ("pareto", "X.npy", "--rank", "2", "--points", "2", "--out", "run", "--overwrite", *FAST),
    "topics": (
        "topics",
        "texts",
        "--rank",
        "2",
        "--min-df",
        "1",
        "--max-df",
        "1",
        "--out",
        "run",
        "--overwrite",
        *FAST,
    ),
    "separate": ("separate", "a.wav", "--rank", "2", "--group", "1/2", "--out", "run", "--overwrite", *FAST),
    "demo": ("demo", "--out", "run", "--overwrite", "--quiet", "--no-report"),
}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A working folder with an input for every command."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.save("X.npy", rng.gamma(2.0, size=(12, 8)))
    scipy.io.wavfile.write("a.wav", 8000, (rng.normal(size=8000) * 3000).astype(np.int16))
    Path("texts").mkdir()
    for i, text in enumerate(["rain snow rain wind", "snow wind snow", "engine wheel brake", "wheel engine wheel"]):
        Path(f"texts/{i}.txt").write_text(text)
    return tmp_path


def run(*arguments, code=0):
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, (result.output, result.exception)
    return result.output.replace("\n", " ")


def tree(folder):
    """Every name under a folder with its content."""
    return {
        path.relative_to(folder).as_posix(): None if path.is_dir() else path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
    }


def foreign(folder):
    """Files of somebody else in a folder, and what they must be afterwards."""
    mine = {"thesis.tex": b"\\title{}", "notes/deep/a.txt": b"a", "empty/.keep": b""}
    for name, content in mine.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return mine


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_that_is_no_run_is_refused_before_any_work(command):
    mine = foreign("run")
    before = tree(".")
    for summary in (None, "{", "[]", '{"kind": "fit"}', json.dumps({"kind": "fit", "versions": {}, "files": []})):
        if summary is not None:
            Path("run/summary.json").write_text(summary)
            before["run/summary.json"] = summary.encode()
        assert "run is not the results folder of a run" in run(*COMMANDS[command], code=1)
        assert tree(".") == before
    assert all(Path("run", name).read_bytes() == content for name, content in mine.items())


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "demo"])
def test_foreign_files_survive_and_all_old_files_go(command):
    """The old run has other files than the new one, so that none of them can hide behind a new one."""
    if command in ("separate", "demo"):
        pytest.importorskip("soundfile")
    run(*COMMANDS["topics" if command == "fit" else "fit"])
    mine = foreign("run")
    run(*COMMANDS[command])
    found = set(listed(Path("run")))
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["kind"] == command
    assert found == set(summary["files"]) | mine.keys()
    assert all(Path("run", name).read_bytes() == content for name, content in mine.items())
    assert {path.name for path in Path().iterdir()} == {"X.npy", "a.wav", "texts", "run"}
    run(*COMMANDS[command])
    assert set(listed(Path("run"))) == found


def test_files_of_others_with_a_name_of_ours_are_kept_under_another():
    run(*COMMANDS["pareto"])
    Path("run/W.npy").write_text("mine")
    Path("run/H.npy").mkdir()
    Path("run/H.npy/inside.txt").write_text("mine too")
    output = run(*FIT)
    assert Path("run/W.npy.old").name in output
    assert Path("run/W.npy.old").read_text() == "mine"
    assert Path("run/H.npy.old/inside.txt").read_text() == "mine too"
    assert np.load("run/W.npy").shape == (12, 2)
    assert np.load("run/H.npy").shape == (2, 8)


def test_a_file_where_the_new_run_has_a_folder():
    run(*FIT)
    Path("new/groups").mkdir(parents=True)
    Path("new/groups/0.wav").write_text("new")
    Path("new/summary.json").write_text("new")
    Path("run/groups").write_text("mine")
    assert replace_run(Path("new"), Path("run").resolve()) == ["groups.old"]
    assert tree("run") == {
        "groups": None, "groups/0.wav": b"new", "groups.old": b"mine", "summary.json": b"new",
    }  # fmt: skip


def test_a_folder_of_others_where_the_new_run_has_a_file():
    run(*FIT)
    summary = json.loads(Path("run/summary.json").read_text())
    Path("run/groups").mkdir()
    Path("run/groups/0.wav").write_text("old")
    Path("run/groups/mine.txt").write_text("mine")
    Path("run/summary.json").write_text(json.dumps(summary | {"files": [*summary["files"], "groups/0.wav"]}))
    Path("new").mkdir()
    Path("new/groups").write_text("new")
    assert replace_run(Path("new"), Path("run").resolve()) == ["groups.old/mine.txt"]
    assert tree("run") == {"groups": b"new", "groups.old": None, "groups.old/mine.txt": b"mine"}


@pytest.mark.parametrize("fails_at", range(1, 6))
@pytest.mark.parametrize("error", [OSError("no"), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
def test_a_failure_at_any_step_leaves_the_old_run_and_the_foreign_files(fails_at, error, monkeypatch):
    run(*FIT)
    foreign("run")
    before, rename, calls = tree("."), os.rename, list[str]()

    def failing(source, target):
        calls.append(str(target))
        if len(calls) == fails_at:
            raise error
        rename(source, target)

    monkeypatch.setattr("os.rename", failing)
    run(*FIT, code=1 if isinstance(error, OSError) else 130)
    assert len(calls) >= fails_at
    assert tree(".") == before


def test_links_are_followed_to_the_run_and_kept_in_it():
    run(*FIT)
    os.rename("run", "elsewhere")
    Path("run").symlink_to("elsewhere")
    Path("precious").mkdir()
    Path("precious/data").write_text("mine")
    Path("elsewhere/linked").symlink_to(Path("precious").resolve())
    run(*FIT, "--seed", "3")
    assert Path("run").is_symlink()
    assert Path("elsewhere/linked").is_symlink()
    assert Path("precious/data").read_text() == "mine"
    assert json.loads(Path("elsewhere/summary.json").read_text())["seed"] == 3


def test_an_empty_folder_may_be_used():
    Path("run").mkdir()
    run(*FIT)
    assert Path("run/W.npy").exists()


def test_a_list_of_files_leads_nowhere_outside():
    run(*FIT)
    summary = json.loads(Path("run/summary.json").read_text())
    summary["files"] += ["../X.npy", str(Path("a.wav").resolve()), "."]
    Path("run/summary.json").write_text(json.dumps(summary))
    run(*FIT)
    assert Path("X.npy").exists()
    assert Path("a.wav").exists()


def test_transform_replaces_arrays_only():
    run(*FIT)
    command = ("transform", "run", "X.npy", "--overwrite", "--out")
    Path("thesis.tex").write_text("mine")
    assert "thesis.tex is no .npy file, so --overwrite leaves it alone" in run(*command, "thesis.tex", code=1)
    assert Path("thesis.tex").read_text() == "mine"
    np.save("W.npy", np.zeros(3))
    run(*command, "W.npy")
    assert np.load("W.npy").shape == (12, 2)


def test_report_replaces_reports_only():
    pytest.importorskip("plotly")
    run(*FIT)
    Path("thesis.tex").write_text("mine")
    assert "thesis.tex exists and is no report of a run" in run("report", "run", "--out", "thesis.tex", code=1)
    assert Path("thesis.tex").read_text() == "mine"
    run("report", "run")
    run("report", "run")
    run(*FIT)
    assert not Path("run/report.html").exists()
