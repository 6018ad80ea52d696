"""Names in .csv files: none that a spreadsheet would run, and each comes back as it was."""

from __future__ import annotations

import csv
import string
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from drnmf.cli import app
from drnmf.matrices.cells import guarded, unguarded
from drnmf.matrices.files import read_matrix
from drnmf.runs.read import read_table
from drnmf.runs.write import write_rows, write_table

RUN = (
    "=1+1", "==", "@SUM(A1)", "@home", "+SUM(A1:A2)", "-cmd|' /C calc'!A0", "+A!B2", "-2+3+cmd|' /C calc'!A0", "'=1",
    "''@x",
)  # fmt: skip
PLAIN = ("+", "-1", "-1.5e3", "A>C", "+/- error", "-x", "+1 (low)", "a=b", "x@y", "'tis", "A[C>G]T", "", "- b (c)")


@pytest.mark.parametrize("name", RUN)
def test_names_that_would_run_are_guarded(name: str) -> None:
    assert guarded(name) == f"'{name}"
    assert unguarded(guarded(name)) == name


@pytest.mark.parametrize("name", PLAIN)
def test_plain_names_stay(name: str) -> None:
    assert guarded(name) == unguarded(name) == name


def test_any_name_comes_back() -> None:
    rng = np.random.default_rng(0)
    letters = list("=@+-'(!|1 aé\t" + string.ascii_uppercase[:2])
    for _ in range(5000):
        name = "".join(rng.choice(letters, rng.integers(0, 6)))
        assert unguarded(guarded(name)) == name


def test_tables_are_read_back_with_their_names(tmp_path: Path) -> None:
    names = [*RUN, *(name for name in PLAIN if name)]
    write_rows(tmp_path / "a.csv", [["=label", *names], *([name, *range(len(names))] for name in names)])
    with open(tmp_path / "a.csv", newline="", encoding="utf-8") as stream:
        first = [cell for row in csv.reader(stream) for cell in row if cell[:1] in ("=", "@")]
    assert first == []
    read = read_matrix(tmp_path / "a.csv")
    assert read.rows is not None
    assert (list(read.row_names or ()), list(read.column_names or ()), read.rows.titles) == (names, names, ("=label",))
    write_table(tmp_path / "b.csv", [{"=word": name, "value": 0.1} for name in names])
    assert read_table(tmp_path / "b.csv") == [{"=word": name, "value": "0.1"} for name in names]


def test_a_run_writes_no_formula(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).uniform(0.1, 1, (4, 3)).tolist()
    table = [["gene", "=A1", "-1", "+SUM(A1)"], *([f"=r{i}", *row] for i, row in enumerate(X))]
    with open("x.csv", "w", newline="") as stream:
        csv.writer(stream).writerows(table)
    options = ("--rank", "2", "--max-iter", "3", "--tol", "0", "--quiet", "--no-report")
    assert CliRunner().invoke(app, ["fit", "x.csv", *options]).exit_code == 0
    text = Path("x-drnmf/H.csv").read_text() + Path("x-drnmf/W.csv").read_text()
    assert text.startswith("label,component_1,component_2\n'=A1,")
    assert "\n-1," in text
    assert "\n'+SUM(A1)," in text
    assert "\n'=r2," in text
    assert "\n=" not in text
    assert read_matrix("x-drnmf/W.csv").row_names == ("=r0", "=r1", "=r2", "=r3")
    result = CliRunner().invoke(app, ["transform", "x-drnmf", "x.csv"])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("more", [(), ("--overwrite",)])
def test_a_folder_of_another_input_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).uniform(0.1, 1, (6, 5))
    np.savetxt("x.csv", X, delimiter=",")
    np.savez("x.npz", X=X + 1)
    fit = ("--rank", "2", "--max-iter", "3", "--tol", "0", "--quiet", "--no-report")
    assert CliRunner().invoke(app, ["fit", "x.csv", *fit]).exit_code == 0
    before = Path("x-drnmf/summary.json").read_text()
    result = CliRunner().invoke(app, ["fit", "x.npz", *fit, *more])
    assert result.exit_code == 1
    assert "x-drnmf holds the results of x.csv, not of x.npz: choose another --out" in result.output
    assert Path("x-drnmf/summary.json").read_text() == before
    again = CliRunner().invoke(app, ["fit", "x.csv", *fit])
    assert "x-drnmf exists, with the results of x.csv: choose another --out, or pass --overwrite" in again.output
    assert CliRunner().invoke(app, ["fit", "x.npz", *fit, "--out", "x-drnmf", "--overwrite"]).exit_code == 0
