"""--sum-to-one and --fixed on the command line."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from drnmf.cli import app

NAMES = ("a", "b", "c", "d", "e", "f")


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments), "--quiet"])


def table(path, values, names=NAMES):
    rows = [",".join(["sample", *names])] + [f"s{i}," + ",".join(map(repr, row)) for i, row in enumerate(values)]
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def given(rng, tmp_path):
    H = rng.gamma(1.0, 1.0, (2, 6)) + 0.1
    X = (rng.dirichlet(np.ones(2), 15) @ H).tolist()
    return table(tmp_path / "X.csv", X), table(tmp_path / "known.csv", H[:1].tolist()), H


@pytest.mark.parametrize("betas", ["1", "1,2"])
def test_fit_keeps_sums_and_known_components(given, tmp_path, betas):
    x, known, H = given
    out = tmp_path / "out"
    asked = ("fit", x, "-r", 2, "--betas", betas, "--sum-to-one", "W", "--fixed", known, "--max-iter", 30, "--tol", 0)
    result = run(*asked, "--out", out)
    assert result.exit_code == 0, result.output
    assert np.abs(np.load(out / "W.npy").sum(axis=1) - 1.0).max() < 1e-12
    assert (np.load(out / "H.npy")[0] == H[0]).all()


def test_a_front_takes_them(given, tmp_path):
    x, known, _ = given
    asked = ("pareto", x, "-r", 2, "--points", 2, "--betas", "1,2", "--sum-to-one", "W", "--fixed", known)
    assert run(*asked, "--max-iter", 10, "--tol", 0, "--out", tmp_path / "front").exit_code == 0


def test_what_does_not_fit_is_refused(given, tmp_path):
    x, _, H = given
    assert "--sum-to-one" in run("fit", x, "-r", 2, "--sum-to-one", "both").output
    narrow = table(tmp_path / "narrow.csv", H[:1, :5].tolist(), NAMES[:5])
    assert "lacks 1 of 6 labels: 'f'" in " ".join(run("fit", x, "-r", 2, "--fixed", narrow).output.split())


def test_known_components_are_matched_by_label(given, tmp_path):
    """As --reference takes them: one per column or per row, in any order."""
    x, _, H = given
    lines = [f"{name},{value!r}" for name, value in zip(NAMES[::-1], H[0, ::-1].tolist(), strict=True)]
    (tmp_path / "column.csv").write_text("\n".join(["sample,known", *lines]) + "\n")
    turned = table(tmp_path / "turned.csv", H[:1, [1, 0, 2, 3, 4, 5]].tolist(), ("b", "a", *NAMES[2:]))
    for file in (tmp_path / "column.csv", turned):
        out = tmp_path / f"{file.stem}-out"
        result = run("fit", x, "-r", 2, "--betas", 2, "--fixed", file, "--max-iter", 5, "--tol", 0, "--out", out)
        assert result.exit_code == 0, result.output
        np.testing.assert_array_equal(np.load(out / "H.npy")[0], H[0])
