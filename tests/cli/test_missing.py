"""Missing cells, uncertainties, weights and negative readings on the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from drnmf import BetaNMF
from drnmf.cli import app
from drnmf.matrices.files import read_matrix

FAST = ("--rank", "2", "--betas", "2", "--max-iter", "20", "--tol", "0", "--quiet", "--no-report")
AIR = Path(os.environ.get("DRNMF_DATA", "no folder")) / "air"


@pytest.fixture
def frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[pd.DataFrame, pd.DataFrame]:
    """X.csv with two gaps and U.csv beside it, in an empty working folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    days, kinds = [f"day {i}" for i in range(10)], list("abcdef")
    X = pd.DataFrame(rng.gamma(2.0, 1.0, (10, 6)), days, kinds)
    U = pd.DataFrame(rng.uniform(0.2, 1.0, (10, 6)), days, kinds)
    X.iloc[1, 2] = X.iloc[4, 0] = np.nan
    X.to_csv("X.csv", na_rep="NA")
    U.to_csv("U.csv")
    return X, U


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, (result.output, result.exception)
    return result.output.replace("\n", " ")


def notes(folder: str) -> list[str]:
    return json.loads(Path(folder, "summary.json").read_text())["notes"]


def test_gaps_and_uncertainties_from_tables(frames: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    X, U = frames
    run("fit", "X.csv", "--uncertainty", "U.csv", "--out", "out", *FAST)
    how = {"beta": 2, "max_iter": 20, "tol": 0, "random_state": 0}
    expected = BetaNMF(2, **how).fit(X.to_numpy(), uncertainty=U.to_numpy())
    np.testing.assert_allclose(np.load("out/H.npy"), expected.components_, rtol=1e-9)
    assert any(note.startswith("2 of 60 entries of X (3.33 %) are not observed") for note in notes("out"))
    (U**-2.0).to_csv("M.csv")
    run("fit", "X.csv", "--entry-weights", "M.csv", "--out", "by_weight", *FAST)
    np.testing.assert_allclose(np.load("by_weight/H.npy"), expected.components_, rtol=1e-6)
    run("transform", "out", "X.csv", "--uncertainty", "U.csv", "--out", "W.npy")
    found = expected.transform(X.to_numpy(), uncertainty=U.to_numpy())
    np.testing.assert_allclose(np.load("W.npy"), found, rtol=1e-6)
    run("transform", "out", "X.csv", "--out", "plain.npy")
    assert np.isfinite(np.load("plain.npy")).all()
    summary = json.loads(Path("out", "summary.json").read_text())
    assert summary["input"]["uncertainty"]["file"] == "U.csv"


@pytest.mark.usefixtures("frames")
def test_a_front_under_uncertainties() -> None:
    how = ("--rank", "2", "--betas", "1,2", "--points", "3", "--max-iter", "10", "--tol", "0", "--quiet", "--no-report")
    run("pareto", "X.csv", "--uncertainty", "U.csv", "--out", "front", *how)
    assert any(note.startswith("2 of 60 entries") for note in notes("front"))
    plain = pd.read_csv("front/front.csv")
    run("pareto", "X.csv", "--out", "alike", *how)
    assert not np.allclose(plain["loss_2"], pd.read_csv("alike/front.csv")["loss_2"])


@pytest.mark.usefixtures("frames")
def test_one_row_of_weights_for_all() -> None:
    pd.DataFrame([[1.0, 2.0, 3.0, 0.0, 1.0, 1.0]], ["all"], list("abcdef")).to_csv("M.csv")
    run("fit", "X.csv", "--entry-weights", "M.csv", "--out", "out", *FAST)
    assert "1 columns of X have no observed entry: they get the mean column of H." in notes("out")
    H = np.load("out/H.npy")
    np.testing.assert_allclose(H[:, 3], H[:, [0, 1, 2, 4, 5]].mean(axis=1), rtol=1e-9)


def test_tables_that_do_not_belong_together(frames: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    _, U = frames
    U.iloc[::-1].to_csv("rows.csv")
    said = run("fit", "X.csv", "--uncertainty", "rows.csv", "--out", "out", *FAST, code=1)
    assert "rows.csv: row 1 is 'day 9', but X.csv has 'day 0' there: put its rows in the order of X.csv" in said
    U.rename(columns={"c": "z"}).to_csv("columns.csv")
    said = run("fit", "X.csv", "--entry-weights", "columns.csv", "--out", "out", *FAST, code=1)
    assert "columns.csv: column 3 is 'z', but X.csv has 'c' there: give the same columns to both" in said
    U.iloc[:4].to_csv("short.csv")
    said = run("pareto", "X.csv", "--uncertainty", "short.csv", "--out", "out", "--rank", "2", code=1)
    assert "short.csv has 4 rows and 6 columns, and X.csv has 10 and 6" in said
    said = run("fit", "X.csv", "--uncertainty", "U.csv", "--entry-weights", "U.csv", "--out", "out", *FAST, code=2)
    assert "give one of --uncertainty and --entry-weights" in said
    assert not Path("out").exists()


def test_uncertainties_with_a_gap_or_a_zero(frames: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    X, U = frames
    U[X.isna()] = np.nan
    U.to_csv("fine.csv")
    run("fit", "X.csv", "--uncertainty", "fine.csv", "--out", "out", *FAST)
    for value, words in ((0.0, "= 0 is not > 0"), (np.nan, "= nan is no number")):
        U.iloc[3, 1] = value
        U.to_csv("bad.csv")
        said = run("fit", "X.csv", "--uncertainty", "bad.csv", "--out", "no", *FAST, code=1)
        assert f"bad.csv: the cell in row 'day 3', column 'b' {words}" in said
    assert not Path("no").exists()


def test_negative_readings(frames: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    X, _ = frames
    X.iloc[0, 0] = -0.25
    X.to_csv("X.csv")
    said = run("fit", "X.csv", "--out", "out", *FAST, code=1)
    assert "row 'day 0', column 'a' is -0.25" in said
    assert "--negatives clip" in said
    np.save("bare.npy", X.to_numpy())
    said = run("fit", "bare.npy", "--out", "out", *FAST, code=1)
    assert "bare.npy: the cell in row 1, column 1 is -0.25, and NMF needs values >= 0: pass --negatives clip" in said
    run("fit", "X.csv", "--negatives", "clip", "--out", "clip", *FAST)
    assert "1 negative entries of X were set to 0 (--negatives clip)." in notes("clip")
    run("fit", "X.csv", "--negatives", "missing", "--out", "missing", *FAST)
    assert any(note.startswith("3 of 60 entries of X") for note in notes("missing"))
    run("transform", "missing", "X.csv", "--out", "W.npy")
    assert "'drop' is not one of raise, clip, missing" in run("fit", "X.csv", "--negatives", "drop", *FAST, code=2)


def test_only_stored_entries_are_observed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import scipy.sparse as sp

    monkeypatch.chdir(tmp_path)
    X = sp.random(20, 10, 0.4, random_state=np.random.RandomState(0), format="csr")
    sp.save_npz("X.npz", X)
    run("fit", "X.npz", "--unstored", "missing", "--out", "out", *FAST)
    assert any("of 200 entries of X (60 %) are not observed" in note for note in notes("out"))


def test_a_stopped_fit_with_uncertainties_is_resumed(frames: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    _, U = frames
    run("fit", "X.csv", "--uncertainty", "U.csv", "--out", "whole", *FAST)
    run(
        "fit", "X.csv", "--uncertainty", "U.csv", "--out", "kept", "--checkpoint", "c", "--checkpoint-every", "0", *FAST
    )
    for path in Path("c").glob("run-*.npz"):
        path.unlink()
    run("resume", "c", "--out", "again")
    assert np.array_equal(np.load("again/W.npy"), np.load("whole/W.npy"))
    (2.0 * U).to_csv("U.csv")
    assert "another X" in run("resume", "c", "--out", "other", code=1)
    assert not Path("other").exists()


@pytest.mark.skipif(not (AIR / "Baltimore_con.txt").exists(), reason="needs the air-quality data of the project")
def test_air_quality_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    con, unc = (str((AIR / f"Baltimore_{kind}.txt").resolve()) for kind in ("con", "unc"))
    monkeypatch.chdir(tmp_path)
    how = ("--rank", "6", "--betas", "2", "--max-iter", "200", "--quiet", "--no-report")
    run("fit", con, "--uncertainty", unc, "--out", "out", *how)
    X, U = (read_matrix(path).X for path in (con, unc))
    V = np.load("out/W.npy") @ np.load("out/H.npy")
    assert (((X - V) / U) ** 2).mean() < 1.2
