"""--penalty on the command line: what it reads, refuses, writes and resumes."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from drnmf import load
from drnmf.cli import app


@pytest.fixture
def X(rng, tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, rng.gamma(1.0, 1.0, (12, 3)) @ rng.gamma(1.0, 1.0, (3, 9)) + 0.1)
    return path


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments), "--quiet"])


def test_fit_writes_the_penalty(X, tmp_path):
    out = tmp_path / "out"
    given = ("fit", X, "-r", 2, "--betas", 1, "--penalty", "sparsity:0.1,l2:0.2:W", "--max-iter", 20, "--tol", 0)
    assert run(*given, "--out", out).exit_code == 0
    model, summary = load(out / "model.npz"), json.loads((out / "summary.json").read_text())
    assert summary["penalty"] == model.penalty_ > 0
    assert summary["parameters"]["penalties"] == ["sparsity:0.1", "l2:0.2:W"]
    rows = list(csv.DictReader((out / "trace.csv").open()))
    assert [float(row["penalty"]) for row in rows] == model.trace_.penalty.tolist()


def test_a_front_and_a_report_show_it(X, tmp_path):
    out = tmp_path / "front"
    given = ("pareto", X, "-r", 2, "--points", 2, "--penalty", "volume:0.01", "--max-iter", 10, "--tol", 0)
    assert run(*given, "--out", out).exit_code == 0
    assert all(float(row["penalty"]) > 0 for row in csv.DictReader((out / "front.csv").open()))
    given = ("fit", X, "-r", 2, "--penalty", "smooth:0.1", "--max-iter", 10, "--tol", 0, "--report", "--out", out)
    assert run(*given, "--overwrite").exit_code == 0
    assert "whose sum has a curve of its own" in (out / "report.html").read_text()


@pytest.mark.parametrize("text", ["much:1", "sparsity", "l1:-1", "smooth:1:3", "sparsity:0.1,"])
def test_what_is_no_penalty_is_refused(X, text):
    result = run("fit", X, "-r", 2, "--penalty", text)
    assert result.exit_code == 2
    assert "--penalty" in result.output
