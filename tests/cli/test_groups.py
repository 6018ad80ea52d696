"""Groups of samples on the command line: a table, or a part of the label."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from drnmf.cli import app
from drnmf.matrices.companions import read_groups


def test_groups_are_read_from_a_table_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "groups.tsv"
    path.write_text("label\tgroup\nb\ttwo\na\tone\n")
    assert read_groups(path, None, ["a", "b"]) == ["one", "two"]
    assert read_groups(None, "::", ["x::1", "y::2"]) == ["x", "y"]
    assert read_groups(None, None, None) is None


def test_a_packed_table_of_groups_is_read_as_every_other_table(tmp_path: Path) -> None:
    path = tmp_path / "groups.csv.gz"
    with gzip.open(path, "wt", encoding="utf-8") as stream:
        stream.write("a;one\nb;two\n")
    assert read_groups(path, None, ["b", "a"]) == ["two", "one"]


@pytest.mark.parametrize(
    ("text", "before", "labels", "message"),
    [
        ("a,one\n", None, ["a", "b"], "no group for 1 of 2 samples: 'b'"),
        ("a,one\nb,\n", None, ["a", "b"], "no group for 1 of 2 samples: 'b'"),
        ("a,one\na,two\n", None, ["a"], "in two groups"),
        ("a,one,more\n", None, ["a"], "line 1 has 3 cells"),
        ("a,one\n", "::", ["a"], "both name the groups"),
        ("a,one\n", None, None, "needs samples with labels"),
        (None, "::", ["a"], "does not hold it"),
    ],
)
def test_groups_that_do_not_fit_are_refused(tmp_path: Path, text, before, labels, message) -> None:
    path = None if text is None else tmp_path / "groups.csv"
    if path is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_groups(path, before, labels)


def test_a_table_of_groups_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"--groups .*none.csv is no file: check the path"):
        read_groups(tmp_path / "none.csv", None, ["a"])


def test_discover_with_groups_says_where_components_were_found(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    W = rng.gamma(0.8, 300.0, (40, 2))
    X = rng.poisson(W @ rng.dirichlet(np.full(16, 0.2), 2))
    with open("x.csv", "w", newline="") as stream:
        rows = ([f"{'ab'[i % 2]}::{i}", *row] for i, row in enumerate(X.tolist()))
        csv.writer(stream).writerows([["label", *(f"c{j}" for j in range(16))], *rows])
    asked = [
        "--groups-before",
        "::",
        "--ranks",
        "2",
        "--runs",
        "4",
        "--betas",
        "1",
        "--max-iter",
        "100",
        "--tol",
        "1e-4",
    ]
    result = CliRunner().invoke(app, ["discover", "x.csv", *asked, "--quiet", "--no-report"])
    assert result.exit_code == 0, result.output
    with open("x-discover/stability.csv", newline="") as stream:
        assert {row["groups"] for row in csv.DictReader(stream)} == {"all; a; b"}
