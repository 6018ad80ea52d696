"""The command line speaks its own language, and takes the names that it prints."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from drnmf.backends.core import native_core
from drnmf.cli import app
from drnmf.cli.common import in_options

FAST = ("--rank", "2", "--max-iter", "5", "--quiet", "--no-report")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    np.save("X.npy", np.random.default_rng(0).gamma(2.0, 1.0, (12, 9)))
    return tmp_path


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return re.sub(r"\s+", " ", result.output)


@pytest.mark.parametrize(
    ("python", "command"),
    [
        ("set tol=0.", "set --tol 0."),
        ("after max_iter=20 iterations", "after --max-iter 20 iterations"),
        ("n_components=5 exceeds", "--rank 5 exceeds"),
        ("n_jobs=0 runs nothing", "--jobs 0 runs nothing"),
        ("init='spa' or init=\"random\"", "--init spa or --init random"),
        ("betas=('0', 'nb:3'), weights=[0.5, 0.5]", "--betas 0,nb:3, --weights 0.5,0.5"),
        ("lower min_df, raise max_df", "lower --min-df, raise --max-df"),
        ("leave 0 out of betas", "leave 0 out of --betas"),
        ("leave --sheet (sheet= in Python) out", "leave --sheet out"),
        ("the weights are fixed; a method of updates", "the weights are fixed; a method of updates"),
        ("folder/max_iter.csv and --max-iter 3", "folder/max_iter.csv and --max-iter 3"),
    ],
)
def test_parameters_become_options(python: str, command: str) -> None:
    assert in_options(python) == command


def test_errors_warnings_and_notes(here: Path) -> None:
    X = np.load("X.npy")
    X[0, 0] = 0
    np.save("zero.npy", X)
    said = run("fit", "zero.npy", "--betas", "0,1", *FAST, code=1)
    assert "Pass --zeros floor to replace them" in said
    assert "out of --betas" in said
    said = run("fit", "X.npy", "--out", "short", *FAST)
    assert "raise --max-iter, or --tol if that is near enough" in said
    (note,) = (note for note in json.loads(Path("short/summary.json").read_text())["notes"] if "converged" in note)
    assert "--max-iter 5 iterations" in note
    np.savez("two.npz", A=X, B=X[:3])
    said = run("fit", "two.npz", *FAST, code=1)
    assert "for example the largest, with --variable A." in said


def test_printed_names_are_taken(here: Path) -> None:
    run("fit", "X.npy", "--betas", "KL,is,Frobenius,beta=0.5,NB(30)", "--out", "one", *FAST)
    losses = json.loads(Path("one/summary.json").read_text())["losses"]
    assert list(losses) == ["1", "0", "2", "0.5", "nb:30"]
    printed = run("fit", "X.npy", "--betas", ",".join(losses), "--out", "two", *FAST[:4], "--no-report")
    for name in ("KL", "IS", "Fro", "beta 0.5", "NB(30)"):
        assert name in printed
    run("pareto", "X.npy", "--betas", "KL,Fro", "--points", 2, "--out", "front", *FAST)
    assert "'X' is not a known loss" in run("fit", "X.npy", "--betas", "KL,X", *FAST, code=2)


@pytest.mark.parametrize("command", ["fit", "pareto", "separate", "topics", "transform", "demo", "resume"])
def test_flags_are_shown_as_flags(here: Path, command: str) -> None:
    said = run(command, "--help")
    for flag in ("--overwrite", "--quiet", "--transpose", "--no-report", "--tf-idf", "--keep-numbers"):
        assert f"{flag} <bool>" not in said
        assert f"{flag} BOOLEAN" not in said


def test_summaries_name_what_computed_them(here: Path) -> None:
    run("fit", "X.npy", "--threads", 1, "--out", "fit", *FAST)
    run("pareto", "X.npy", "--points", 2, "--out", "front", *FAST)
    core = native_core()
    for folder in ("fit", "front"):
        summary = json.loads(Path(folder, "summary.json").read_text())
        assert summary["backend"] == ("numpy" if core is None else "native")
        assert summary["instruction_set"] == (None if core is None else core.instruction_set())
        assert summary["threads"] == (1 if core is None else core.get_num_threads())


def test_flags_stand_without_a_value() -> None:
    assert in_options("grow=True holds out rows, keep=True keeps") == "--grow holds out rows, --keep keeps"
