"""Several tables of the same rows on the command line, and the page of a fit of groups."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import drnmf
from drnmf.cli import app

RNG = np.random.default_rng(0)
W = RNG.gamma(0.5, size=(20, 2))


def write(name: str, rows: list[str], X: np.ndarray) -> None:
    with open(name, "w", newline="") as stream:
        lines = ([row, *values] for row, values in zip(rows, X.tolist(), strict=True))
        csv.writer(stream).writerows([["sample", *(f"{name[0]}{j}" for j in range(X.shape[1]))], *lines])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [f"s{i}" for i in range(20)]
    write("rna.csv", rows, 10.0 * W @ RNG.gamma(0.5, size=(2, 6)) + 0.01)
    write("protein.csv", rows[:17:-1] + rows[:18], 0.01 * np.roll(W, 2, 0) @ RNG.gamma(0.5, size=(2, 4)) + 1e-5)
    return tmp_path


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, [*words, "--rank", "2", "--max-iter", "40", "--tol", "0", "--quiet"])
    assert result.exit_code == code, result.output
    return " ".join(result.output.replace("│", " ").split())


def test_tables_have_components_of_their_own(folder: Path) -> None:
    pytest.importorskip("plotly")
    run("tables", "rna.csv", "protein.csv", "--betas", "rna=1,protein=2", "--out", "out")
    model = drnmf.load(folder / "out" / "model.npz")
    assert model.loss_names_ == ["KL, rna", "Fro, protein"]
    for name, H in model.table_components_.items():
        with open(folder / "out" / f"H-{name}.csv", newline="") as stream:
            rows = list(csv.reader(stream))
        assert rows[1][0] == f"{name[0]}0"
        assert np.allclose(np.array([row[1:] for row in rows[1:]], float), H.T)
    with open(folder / "out" / "W.csv", newline="") as stream:
        assert next(iter(list(csv.reader(stream))[1:]))[0] == "s0"
    assert list(json.loads((folder / "out" / "summary.json").read_text())["input"]["tables"]) == ["rna", "protein"]
    assert "Fro, protein" in (folder / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rna.csv"], "two files or more"),
        (["rna.csv", "protein.csv", "--betas", "rna=1"], "name each table once"),
        (["rna.csv", "rna.csv"], "name of its own"),
    ],
)
def test_tables_that_cannot_be_told_apart_are_refused(folder: Path, words: list[str], message: str) -> None:
    assert message in run("tables", *words, code=2)


def test_new_rows_of_one_table_have_w(folder: Path) -> None:
    run("tables", "rna.csv", "protein.csv", "--betas", "rna=KL,protein=2", "--out", "both")
    done = CliRunner().invoke(app, ["transform", "both", "rna.csv", "--out", "W.npy"])
    assert done.exit_code == 0, done.output
    X = np.loadtxt("rna.csv", delimiter=",", skiprows=1, usecols=range(1, 7))
    np.testing.assert_allclose(np.load("W.npy"), drnmf.load("both/model.npz").transform({"rna": X}), rtol=1e-12)
    (folder / "rna.csv").rename("new.csv")
    strange = CliRunner().invoke(app, ["transform", "both", "new.csv"])
    assert strange.exit_code == 1
    assert "call new.csv as the table of its rows, rna.csv or protein.csv." in " ".join(strange.output.split())


def test_a_fit_of_groups_has_a_page(folder: Path) -> None:
    pytest.importorskip("plotly")
    Path("groups.csv").write_text("label,group\n" + "".join(f"s{i},{'ab'[i % 2]}\n" for i in range(20)))
    said = run("fit", "rna.csv", "--betas", "2", "--groups", "groups.csv", "--out", "out")
    assert "could not" not in said
    assert "Fro, a" in (folder / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("scale", "axis", "column"), [("regret", "regret", "regret"), ("ratio", "error / best error", "above it")]
)
def test_parts_are_compared_in_the_words_of_their_scale(folder: Path, scale: str, axis: str, column: str) -> None:
    pytest.importorskip("plotly")
    words = [
        "tables",
        "rna.csv",
        "protein.csv",
        "--part-scale",
        scale,
        "--out",
        "out",
        "--rank",
        "2",
        "--max-iter",
        "40",
    ]
    said = CliRunner().invoke(app, words).output
    assert column in said
    assert f'"text":"{axis}"' in (folder / "out" / "report.html").read_text().replace('": "', '":"')
