"""drnmf assign: components from a table or a run, labels, files, and what it refuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import drnmf
from drnmf.cli import app

LABELS = [f"{a}[C>{c}]{d}" for c in "AGT" for a in "AC" for d in "ACGT"]


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


def table(path: Path) -> dict[str, list[float]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return {row.pop("label"): [float(cell) for cell in row.values()] for row in csv.DictReader(stream)}


def write(path: str, head: list[str], labels: list[str], values: np.ndarray) -> None:
    with open(path, "w", newline="") as stream:
        writer = csv.writer(stream, delimiter="\t" if path.endswith("txt") else ",")
        writer.writerow(["type", *head])
        writer.writerows([label, *row] for label, row in zip(labels, values.tolist(), strict=True))


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[np.ndarray, np.ndarray]:
    """A catalogue of types (rows) in 12 tumours, and three known signatures in another order of the types."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    rng = np.random.default_rng(0)
    H = rng.dirichlet(np.full(24, 0.3), 3)
    W = rng.gamma(2.0, 400.0, (12, 3)) * (rng.random((12, 3)) < 0.5)
    W[:, 0] += 100.0
    write("catalog.csv", [f"tumour {j}" for j in range(12)], LABELS, rng.poisson(W @ H).T)
    write("known.txt", ["SBS1", "SBS2", "SBS3"], LABELS[::-1], H.T[::-1])
    return W, H


def test_assign_known_components_by_label(planted: tuple[np.ndarray, np.ndarray]) -> None:
    W, H = planted
    said = run("assign", "catalog.csv", "--profiles", "rows", "--components", "known.txt", "--betas", 1)
    assert "12 rows have" in said
    found, dense = (table(Path("catalog-assign") / name) for name in ("contributions.csv", "contributions-dense.csv"))
    values = np.array([found[f"tumour {j}"] for j in range(12)])
    assert ((values > 0) == (W > 0)).mean() > 0.9
    assert (np.array(list(dense.values())) > 0).sum() > (values > 0).sum()
    X = np.loadtxt("catalog.csv", delimiter=",", skiprows=1, usecols=range(1, 13)).T
    assert np.allclose(values, drnmf.assign(X, H, drnmf.BetaNMF(beta=1)).contributions)
    summary = json.loads(Path("catalog-assign/summary.json").read_text())
    assert summary["kind"] == "assign"


@pytest.mark.slow
def test_assign_the_components_of_runs(planted: tuple[np.ndarray, np.ndarray]) -> None:
    fast = ("--quiet", "--no-report", "--max-iter", 100)
    run("fit", "catalog.csv", "--transpose", "--rank", 3, "--betas", 1, "--out", "fitted", *fast)
    run("assign", "catalog.csv", "--transpose", "--components", "fitted", "--out", "a")
    assert len(next(iter(table(Path("a/contributions.csv")).values()))) == 3
    asked = ("--profiles", "rows", "--ranks", 3, "--runs", 4, "--betas", 1)
    run("discover", "catalog.csv", *asked, "--out", "found", *fast)
    run("assign", "catalog.csv", "--components", "found", "--out", "b")
    assert {"contributions.csv", "contributions-dense.csv"} <= {path.name for path in Path("found").iterdir()}
    assert len(table(Path("b/contributions.csv"))) == 12


def test_assign_refuses_other_labels(planted: tuple[np.ndarray, np.ndarray]) -> None:
    said = run("assign", "catalog.csv", "--profiles", "columns", "--components", "known.txt", code=1)
    assert "known.txt has the labels of its rows, but components are profiles over the columns" in said
    write("other.txt", ["a"], [f"type {i}" for i in range(24)], np.ones((24, 1)))
    said = run("assign", "catalog.csv", "--profiles", "rows", "--components", "other.txt", code=1)
    assert "--components other.txt: it lacks 24 of 24 labels" in said
    said = run("assign", "catalog.csv", "--profiles", "rows", "--components", "known.txt", "--betas", "0,1", code=1)
    assert "one loss" in said


@pytest.mark.parametrize("value", [-1.0, np.nan])
def test_a_component_that_is_none_is_named(planted: tuple[np.ndarray, np.ndarray], value: float) -> None:
    H = planted[1].copy()
    H[1, 3] = value
    write("known.txt", ["SBS1", "SBS2", "SBS3"], LABELS, H.T)
    said = run("assign", "catalog.csv", "--profiles", "rows", "--components", "known.txt", code=1)
    assert "known.txt: the component 'SBS2' has an entry that is no number >= 0" in said


@pytest.mark.parametrize("beta", [1, 2])
def test_rows_of_zeros_have_no_components(beta: float) -> None:
    H = np.random.default_rng(0).gamma(1.0, 1.0, (2, 6))
    assert not drnmf.assign(np.zeros((5, 6)), H, drnmf.BetaNMF(beta=beta)).contributions.any()
