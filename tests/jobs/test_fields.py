"""Signatures, air quality, pictures, cells, ratings: from the table of a field to what the field uses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

Run = Callable[..., str]
Table = Callable[[str], list[dict[str, str]]]
FAST = ("--runs", "4", "--betas", "1", "--max-iter", "100", "--tol", "1e-4", "--quiet")
TYPES = [f"{a}[{b}>{c}]{d}" for b, c in ("CA", "CG", "CT") for a in "ACGT" for d in "ACGT"][:24]


def charts(folder: str) -> dict[str, dict]:
    """The charts of a page."""
    page = Path(folder, "report.html").read_text(encoding="utf-8")
    text = page.split('<script type="application/json" id="charts">')[1].split("</script>")[0]
    return json.loads(text)


def catalogue() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Mutation types (rows) in tumours, and the signatures behind them, as COSMIC writes them and in another order."""
    rng = np.random.default_rng(0)
    H = np.repeat(np.eye(3), 8, axis=1) * rng.gamma(2.0, 1.0, 24) + 0.01
    X = rng.poisson(rng.gamma(0.4, 60.0, (40, 3)) @ H).T
    known = pd.DataFrame(H.T, TYPES, ["SBS1", "SBS2", "SBS3"]).rename_axis("Type")
    return pd.DataFrame(X, TYPES, [f"tumour {j}" for j in range(40)]).rename_axis("Type"), known.iloc[::-1]


@pytest.mark.slow
def test_signatures_without_being_told_that_types_are_rows(here: Path, drnmf: Run, table: Table) -> None:
    pytest.importorskip("plotly")
    X, known = catalogue()
    X.to_csv("catalogue.csv")
    known.to_csv("known.csv")
    said = drnmf("discover", "catalogue.csv", "--reference", "known.csv", "--ranks", 3, *FAST)
    assert "Components are profiles over the rows of X: known.csv has the labels of its rows" in said
    refused = drnmf(
        "discover", "catalogue.csv", "--reference", "known.csv", "--profiles", "columns", "--out", "no", code=1
    )
    assert "pass --profiles rows" in refused
    names = [name for name in table("catalogue-discover/components.csv")[0] if name != "label"]
    assert sorted(names) == ["SBS1", "SBS2", "SBS3"]
    for file, end in (("contributions.csv", ["unstable"]), ("intervals.csv", None)):
        head = list(table(f"catalogue-discover/{file}")[0])[1:]
        assert head == ([*names, *end] if end else [f"{name}_{side}" for name in names for side in ("low", "high")])
    page = Path("catalogue-discover/report.html").read_text()
    assert all(f"<h3>{name}</h3>" in page for name in names)
    drawn = charts("catalogue-discover")
    assert len(set(drawn["profile-1"]["data"][0]["marker"]["color"])) == 2  # C>A and C>G: the first 24 types
    assert drawn["occurrence"]["layout"]["barmode"] == "stack"


@pytest.mark.slow
def test_a_new_tumour_is_explained_by_an_earlier_discovery(here: Path, drnmf: Run, table: Table) -> None:
    X, known = catalogue()
    X.to_csv("catalogue.csv")
    X.iloc[:, :2].to_csv("new.csv")
    known.to_csv("known.csv")
    drnmf("discover", "catalogue.csv", "--reference", "known.csv", "--ranks", 3, *FAST, "--no-report")
    drnmf("transform", "catalogue-discover", "new.csv")
    new, old = table("new-W.csv"), table("catalogue-discover/contributions-dense.csv")
    names = [name for name in new[0] if name != "label"]
    assert sorted(names) == ["SBS1", "SBS2", "SBS3"]
    for a, b in zip(new, old, strict=False):
        assert a["label"] == b["label"]
        np.testing.assert_allclose([float(a[n]) for n in names], [float(b[n]) for n in names], rtol=1e-3, atol=1e-3)


def test_air_with_uncertainties(here: Path, drnmf: Run, table: Table) -> None:
    pytest.importorskip("plotly")
    rng = np.random.default_rng(0)
    truth = rng.gamma(1.0, 1.0, (90, 2)) @ rng.gamma(1.0, 1.0, (2, 8))
    days = pd.date_range("2020-01-01", periods=90).strftime("%m/%d/%Y")
    U = 0.05 * truth + 0.05
    species = ["lead", "zinc", "iron", "OC", "EC", "sulfate", "nitrate", "sodium"]
    X = pd.DataFrame(np.maximum(truth + U * rng.normal(size=U.shape), 0.0), days, species).rename_axis("Date")
    X.iloc[3, 4] = np.nan
    X.to_csv("con.csv")
    pd.DataFrame(U, days, species).rename_axis("Date").to_csv("unc.csv")
    drnmf("fit", "con.csv", "--uncertainty", "unc.csv", "--betas", 2, "--rank", 2, "--quiet", "--names", "sea,road")
    found = json.loads(Path("con-drnmf/summary.json").read_text())["quality"]
    assert found["entries"] == 90 * 8 - 1
    assert found["Q_expected"] == 90 * 8 - 1 - 2 * (90 + 8)
    assert 0.8 < found["Q_ratio"] < 1.2
    assert found["Q_robust"] <= found["Q"]
    columns = table("con-drnmf/quality.csv")
    assert sum(float(row["Q"]) for row in columns) == pytest.approx(found["Q"])
    assert sum(float(row["Q_expected"]) for row in columns) == pytest.approx(found["Q_expected"])
    residuals = pd.read_csv("con-drnmf/scaled_residuals.csv", index_col=0)
    assert float((residuals**2).sum().sum()) == pytest.approx(found["Q"])
    drawn = charts("con-drnmf")
    assert drawn["profile-1"]["layout"]["yaxis"]["type"] == "log"
    assert drawn["occurrence-1"]["data"][0]["x"][0].startswith("2020-01-01")
    assert list(pd.read_csv("con-drnmf/W.csv")) == ["label", "sea", "road"]


def test_a_picture_of_many_bands(here: Path, drnmf: Run) -> None:
    pytest.importorskip("plotly")
    rng = np.random.default_rng(0)
    cube = rng.dirichlet(np.ones(2), (5, 7)) @ rng.gamma(1.0, 1.0, (2, 12))
    np.save("cube.npy", cube)
    np.save("flat.npy", cube.reshape(35, 12))
    drnmf("fit", "cube.npy", "--rank", 2, "--betas", 2, "--quiet")
    drnmf("fit", "flat.npy", "--image", "5x7", "--rank", 2, "--betas", 2, "--quiet")
    np.testing.assert_array_equal(np.load("cube-drnmf/W.npy"), np.load("flat-drnmf/W.npy"))
    W, H = np.load("cube-drnmf/W.npy"), np.load("cube-drnmf/H.npy")
    drawn = charts("cube-drnmf")["occurrence-1"]["data"][0]["z"]
    parts = W * H.sum(axis=1)
    np.testing.assert_allclose(np.array(drawn), (parts[:, 0] / parts.sum(axis=1)).reshape(5, 7), atol=1e-2)
    assert "has 35 rows, and a picture of 5 x 8" in drnmf(
        "fit", "flat.npy", "--image", "5x8", "-r", 2, "--out", "x", code=1
    )


def test_uneven_sums_are_said(here: Path, drnmf: Run) -> None:
    rng = np.random.default_rng(0)
    X = rng.dirichlet(np.ones(2), 40) @ rng.gamma(1.0, 1.0, (2, 12))
    light = rng.uniform(0.2, 2.0, (40, 1))
    np.save("even.npy", X / X.sum(axis=1, keepdims=True))
    np.save("uneven.npy", X * light)
    asked = ("-r", 2, "--betas", 2, "--sum-to-one", "W", "--max-iter", 20, "--tol", 0, "--quiet", "--no-report")
    assert "--scale-rows" not in drnmf("fit", "even.npy", *asked)
    assert "Pass --scale-rows" in drnmf("fit", "uneven.npy", *asked)
    assert "Pass --scale-rows" not in drnmf("fit", "uneven.npy", *asked, "--scale-rows", "--out", "scaled")
    np.testing.assert_allclose(np.load("scaled/W.npy"), np.load("even-drnmf/W.npy"), rtol=1e-6)


@pytest.mark.slow
def test_cells(here: Path, drnmf: Run) -> None:
    anndata = pytest.importorskip("anndata")
    pytest.importorskip("dask")
    rng = np.random.default_rng(0)
    counts = rng.poisson(rng.gamma(0.5, 4.0, (60, 2)) @ np.repeat(np.eye(2), 10, axis=1) + 0.05)
    data = anndata.AnnData(np.log1p(counts), layers={"counts": counts.astype(np.float64), "half": counts / 2})
    data.obs_names, data.var_names = [f"cell {i}" for i in range(60)], [f"GENE{j}" for j in range(20)]
    data.write_h5ad("cells.h5ad")
    said = drnmf("discover", "cells.h5ad", "--ranks", 2, *FAST, "--no-report")
    assert "the layer 'counts' was read, not X" in said
    found = anndata.read_h5ad("cells-discover/annotated.h5ad")
    assert found.obsm["X_drnmf"].shape == (60, 2)
    assert found.varm["drnmf"].shape == (20, 2)
    assert list(found.uns["drnmf"]["names"]) == ["component_1", "component_2"]
    np.testing.assert_array_equal(found.X, data.X)  # as it was
    for command, more in (("fit", ("--rank", 2)), ("pareto", ("--rank", 2, "--points", 2, "--betas", "1,2"))):
        drnmf(command, "cells.h5ad", "--layer", "half", *more, "--max-iter", 5, "--tol", 0, "--quiet", "--no-report")
    drnmf("transform", "cells-drnmf", "cells.h5ad", "--layer", "half")
    assert np.load("cells-W.npy").shape == (60, 2)
    assert "has no 'layers/none': it holds X and the layers counts, half" in drnmf(
        "discover", "cells.h5ad", "--layer", "none", "--out", "no", code=1
    )


def ratings() -> tuple[pd.DataFrame, pd.DataFrame, float]:
    """Ratings that were given, ratings that were not, and how well the means of users and items predict these."""
    rng = np.random.default_rng(0)
    m, n = 300, 120
    full = 3.4 + rng.normal(0, 0.45, m)[:, None] + rng.normal(0, 0.5, n)
    full = full + rng.normal(0, 0.25, (m, 3)) @ rng.normal(0, 1, (n, 3)).T + rng.normal(0, 0.35, (m, n))
    full = np.clip(np.round(2 * full) / 2, 0.5, 5)
    given = rng.random((m, n)) < 0.15
    hidden = given & (rng.random((m, n)) < 0.2)
    X = np.where(given & ~hidden, full, np.nan)
    mean, users, items = np.nanmean(X), np.zeros(m), np.zeros(n)
    for _ in range(20):
        users = np.nan_to_num(np.nanmean(X - mean - items, axis=1))
        items = np.nan_to_num(np.nanmean(X - mean - users[:, None], axis=0))
    error = float(np.sqrt(np.mean((mean + users[:, None] + items - full)[hidden] ** 2)))
    frames = []
    for some in (given & ~hidden, hidden):
        i, j = np.nonzero(some)
        names = {"user": [f"u{k}" for k in i], "item": [f"film {k}" for k in j]}
        frames.append(pd.DataFrame({**names, "rating": full[i, j]}))
    return frames[0], frames[1], error


def test_ratings_are_predicted_better_than_by_means(here: Path, drnmf: Run) -> None:
    known, hidden, means = ratings()
    known.to_csv("ratings.csv", index=False)
    hidden[["user", "item"]].to_csv("pairs.csv", index=False)
    said = drnmf("fit", "ratings.csv", "--rank", 5, "--betas", 2, "--penalty", "l2:1", "--quiet", "--no-report")
    assert "was read as a long table" in said
    assert json.loads(Path("ratings-drnmf/summary.json").read_text())["input"]["shape"] == [300, 120]
    drnmf("predict", "ratings-drnmf", "pairs.csv")
    found = pd.read_csv("pairs-predicted.csv")
    assert list(found) == ["user", "item", "predicted"]
    known[known["user"].isin(["u4", "u2"])].iloc[::-1].to_csv(
        "again.csv", index=False
    )  # items in another order, some not
    drnmf("transform", "ratings-drnmf", "again.csv")
    W = pd.read_csv("ratings-drnmf/W.csv", index_col=0).loc[["u4", "u2"]]
    np.testing.assert_allclose(pd.read_csv("again-W.csv", index_col=0).to_numpy(), W.to_numpy(), rtol=0.02, atol=0.02)
    error = float(np.sqrt(((found["predicted"] - hidden["rating"]) ** 2).mean()))
    assert error < 0.9 * means


def test_long_tables_are_read_where_they_cannot_be_anything_else(here: Path, drnmf: Run) -> None:
    lines = ["userId,movieId,rating", "1,10,4", "1,20,3.5", "2,10,5", "2,20,1", "3,10,2", "3,20,4"]
    Path("numbers.csv").write_text("\n".join(lines) + "\n")
    quick = ("--rank", 1, "--betas", 2, "--max-iter", 3, "--tol", 0, "--quiet", "--no-report")
    assert "was read as a long table" in drnmf("fit", "numbers.csv", *quick)
    drnmf("fit", "numbers.csv", "--no-long", *quick, "--out", "matrix")
    assert np.load("matrix/W.npy").shape[0] == 6
    Path("plain.csv").write_text("\n".join(["a,b,c", *lines[1:]]) + "\n")
    drnmf("fit", "plain.csv", *quick, "--out", "three")
    assert np.load("three/H.npy").shape == (1, 3)
    drnmf("fit", "plain.csv", "--long", *quick, "--out", "long")
    assert np.load("long/H.npy").shape == (1, 2)
    Path("twice.csv").write_text("\n".join([*lines, "1,10,2"]) + "\n")
    assert "line 8: '1', '10' stands in line 2 already" in drnmf("fit", "twice.csv", "--long", *quick, code=1)


def test_times_and_help(here: Path, drnmf: Run) -> None:
    np.save("X.npy", np.random.default_rng(0).gamma(1.0, 1.0, (20, 8)))
    drnmf("fit", "X.npy", "-r", 2, "--max-time", "10m", "--max-iter", 3, "--tol", 0, "--quiet", "--no-report")
    assert "is no time" in drnmf("fit", "X.npy", "-r", 2, "--max-time", "soon", "--out", "x", code=2)
    assert "reproduce" not in drnmf("--help")
    said = drnmf("fit", "--help")
    panels = ("Options", "Penalties and constraints", "Starts and stopping", "Reading X", "Results", "Expert")
    assert sorted(panels, key=lambda panel: said.rindex(f"─ {panel} ─"))[-1] == "Expert"
