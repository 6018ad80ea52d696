"""A discovery with its names: tables, contributions of new rows, model, folder, pictures."""

from __future__ import annotations

import dataclasses
import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import drnmf
from drnmf.discovery.named import component_labels
from drnmf.selection.asked import Asked
from drnmf.selection.matching import match

RNG = np.random.default_rng(0)
H = np.repeat(np.eye(3), 8, axis=1) * RNG.gamma(2.0, 1.0, 24) + 0.01
FRAME = pd.DataFrame(
    RNG.poisson(RNG.gamma(0.4, 60.0, (40, 3)) @ H).astype(float),
    [f"s{i}" for i in range(40)],
    [f"g{j}" for j in range(24)],
)
MODEL = drnmf.BetaNMF(beta=1, max_iter=100, tol=1e-4)
KNOWN = pd.DataFrame(H.T, FRAME.columns, ["red", "green", "blue"]).iloc[::-1]


@pytest.fixture(scope="module")
def found() -> Any:
    return drnmf.discover(FRAME, MODEL, ranks=3, n_runs=4, reference=KNOWN)


def test_a_frame_gives_frames_named_after_the_reference(found: Any) -> None:
    assert sorted(found.names) == ["blue", "green", "red"]
    assert found.components.columns.tolist() == FRAME.columns.tolist()
    assert found.components.index.tolist() == list(found.names)
    assert found.contributions.index.tolist() == FRAME.index.tolist()
    for name in found.names:  # labels in another order, and known components along the columns, were matched
        a, b = found.components.loc[name].to_numpy(), KNOWN.loc[FRAME.columns, name].to_numpy()
        assert a @ b / np.linalg.norm(a) / np.linalg.norm(b) > 0.99
    assert found.to_frame().shape == (24, 3)
    assert found.to_frame("stability")["match"].tolist() == list(found.names)


def test_new_rows_are_explained_by_label(found: Any) -> None:
    again = found.transform(FRAME.iloc[:5, ::-1])
    assert again.index.tolist() == FRAME.index[:5].tolist()
    np.testing.assert_allclose(again.to_numpy(), found.dense.iloc[:5].to_numpy(), rtol=1e-3, atol=1e-3)
    assigned = found.assign(FRAME.iloc[:5, ::-1]).contributions
    assert assigned.index.tolist() == FRAME.index[:5].tolist()
    assert assigned.columns.tolist() == list(found.names)
    np.testing.assert_allclose(assigned.to_numpy(), found.contributions.iloc[:5].to_numpy(), rtol=1e-3, atol=1e-3)
    whole = found.contributions.to_numpy() @ found.components.to_numpy()
    np.testing.assert_allclose(found.predict(["s3", "s0"], ["g1", "g7"]), [whole[3, 1], whole[0, 7]])
    np.testing.assert_allclose(found.predict([3, 0], [1, 7]), [whole[3, 1], whole[0, 7]])


def test_a_discovery_is_a_model(found: Any, tmp_path: Path) -> None:
    found.save(tmp_path / "model.npz")
    model = drnmf.load(tmp_path / "model.npz")
    assert model.converged_ == (model.reason_ == "tol")
    np.testing.assert_array_equal(model.transform(FRAME.iloc[:3]), found.transform(FRAME.iloc[:3]).to_numpy())
    page = pytest.importorskip("plotly") and found.report(tmp_path / "run")
    assert page.read_text().startswith("<!DOCTYPE html>")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert set(summary["files"]) | {"report.html"} == {path.name for path in (tmp_path / "run").iterdir()}
    with pytest.raises(FileExistsError):
        found.report(tmp_path / "run")


def test_pictures(found: Any) -> None:
    pytest.importorskip("matplotlib")
    assert len(found.plot().axes) == 3
    assert len(found.plot("contributions").axes) == 1
    assert found.plot(field="spectra").axes[0].lines
    with pytest.raises(ValueError, match="rows of X are no pixels"):
        found.plot("maps")
    with pytest.raises(ValueError, match="draw one of components"):
        found.plot("everything")


@pytest.mark.slow
def test_pixels_are_remembered() -> None:
    pytest.importorskip("matplotlib")
    cube = FRAME.to_numpy().reshape(8, 5, 24)
    found = drnmf.discover(cube, MODEL, ranks=3, n_runs=4).named(["sea", "road", "soil"])
    assert found.rows.image == (8, 5)
    assert found.plot("maps").axes[0].get_title(loc="left") == "sea"
    assert found.contributions.shape == (40, 3)


@pytest.mark.slow
def test_anndata_is_annotated() -> None:
    anndata = pytest.importorskip("anndata")
    data = anndata.AnnData(FRAME)
    found = drnmf.discover(data, MODEL, ranks=3, n_runs=4)
    np.testing.assert_array_equal(data.obsm["X_drnmf"], found.contributions)
    np.testing.assert_array_equal(data.varm["drnmf"], found.components.T)
    assert data.uns["drnmf"]["names"].tolist() == ["component_1", "component_2", "component_3"]


def test_names_are_given_matched_or_counted() -> None:
    pair = match(np.eye(2), [[1.0, 0.0], [1.0, 1.0]], names=["x", "y"])
    assert component_labels(2, pair) == ["x", "component_2"]  # a cosine of 0.7 is no name
    assert component_labels(2, pair, ["", "wind"]) == ["x", "wind"]
    with pytest.raises(ValueError, match="names has 3 entries, but there are 2 components"):
        component_labels(2, None, ["a", "b", "c"])
    with pytest.raises(ValueError, match="'a' twice"):
        component_labels(2, None, ["a", "a"])


def test_other_names_are_those_of_the_frames_too(found: Any) -> None:
    other = found.named(["sea", "", "soil"])
    assert other.names == ("sea", found.names[1], "soil")
    assert other.contributions.columns.tolist() == list(other.names)
    assert other.components.index.tolist() == list(other.names)


def test_every_argument_of_discover_is_described() -> None:
    words = inspect.getdoc(drnmf.discover) or ""
    assert all(name in words for name in inspect.signature(drnmf.discover).parameters)
    asked = {field.name: field.default for field in dataclasses.fields(Asked)}
    taken = inspect.signature(drnmf.discover).parameters
    assert {name: taken[name].default for name in asked} == asked


def test_entries_that_are_missing_are_none_of_those_that_dispersions_are_read_off() -> None:
    X = FRAME.to_numpy().copy()
    X[np.random.default_rng(1).uniform(size=X.shape) < 0.3] = np.nan
    found = drnmf.discover(X, MODEL, ranks=2, n_runs=4, level=None, resample=None)
    free = np.isfinite(X).sum() - 2 * (40 + 24 - 2)
    np.testing.assert_allclose(found.model.dispersions_, 2.0 * found.model.losses_ / free)
