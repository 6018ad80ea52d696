"""X out of what users hold it in: frames, labelled arrays, AnnData, cubes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from drnmf import BetaNMF
from drnmf.problem.tabular import tabular

VALUES = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


class Polars:
    """What a polars frame can do of what is asked of it."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self._columns = columns
        self.columns = list(columns)

    def __dataframe__(self) -> None: ...

    def __getitem__(self, name: str) -> Any:
        return pd.Series(self._columns[name])  # has to_numpy, as a polars Series


class DataArray:
    """What an xarray.DataArray can do of what is asked of it."""

    def __init__(self, values: np.ndarray, **coords: Any) -> None:
        self.values, self.dims = values, tuple(coords)
        self.coords = {name: pd.Series(along) for name, along in coords.items() if along is not None}


FRAMES = {
    "pandas with an index": pd.DataFrame(VALUES, ["x", "y", "z"], ["a", "b"]),
    "pandas with a column of labels": pd.DataFrame({"name": ["x", "y", "z"], "a": VALUES[:, 0], "b": VALUES[:, 1]}),
    "polars": Polars({"name": ["x", "y", "z"], "a": VALUES[:, 0], "b": VALUES[:, 1]}),
    "a labelled array": DataArray(VALUES, name=["x", "y", "z"], band=["a", "b"]),
}


@pytest.mark.parametrize("X", FRAMES.values(), ids=FRAMES)
def test_frames_give_values_and_names(X: Any) -> None:
    found = tabular(X)
    np.testing.assert_array_equal(found.X, VALUES)
    assert (found.rows, found.columns) == (("x", "y", "z"), ("a", "b"))


def test_arrow_tables_give_values_and_names() -> None:
    pa = pytest.importorskip("pyarrow")
    found = tabular(pa.table({"name": ["x", "y", "z"], "a": [1, 3, 5], "b": [2.0, 4.0, None]}))
    np.testing.assert_array_equal(found.X, [[1.0, 2.0], [3.0, 4.0], [5.0, np.nan]])
    assert (found.rows, found.columns) == (("x", "y", "z"), ("a", "b"))


def test_a_frame_without_names_has_none_and_text_is_refused() -> None:
    assert tabular(pd.DataFrame(VALUES)).rows is None
    with pytest.raises(ValueError, match="column 'b' of X holds no numbers"):
        tabular(pd.DataFrame({"a": [1.0], "b": ["x"]}))


def test_cubes_become_pixels_and_estimators_take_them() -> None:
    cube = np.random.default_rng(0).gamma(1.0, 1.0, (4, 5, 6))
    found = tabular(cube)
    assert found.image == (4, 5)
    model = BetaNMF(2, beta=2, max_iter=5, tol=0, random_state=0)
    W = model.fit_transform(cube)
    np.testing.assert_array_equal(W, model.fit_transform(cube.reshape(20, 6)))
    bands = tabular(DataArray(cube, y=None, x=None, band=range(400, 460, 10))).columns
    assert bands == ("400", "410", "420", "430", "440", "450")


def test_anndata_gives_counts_and_its_names() -> None:
    anndata = pytest.importorskip("anndata")
    counts = sp.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 1.0], [4.0, 1.0, 0.0], [1.0, 1.0, 1.0]]))
    data = anndata.AnnData(np.log1p(counts.toarray()), layers={"counts": counts})
    data.var_names = ["CD3", "CD4", "CD8"]
    model = BetaNMF(2, beta=1, max_iter=5, tol=0, random_state=0).fit(data)
    assert model.feature_names_in_.tolist() == ["CD3", "CD4", "CD8"]
    np.testing.assert_array_equal(
        model.components_, BetaNMF(2, beta=1, max_iter=5, tol=0, random_state=0).fit(counts).components_
    )
    assert model.transform(data).shape == (4, 2)
    assert model.components_frame().columns.tolist() == ["CD3", "CD4", "CD8"]
    del data.layers["counts"]
    np.testing.assert_array_equal(tabular(data).X, data.X)
    data.X = None
    with pytest.raises(ValueError, match=r"no X and no layer \"counts\": give another layer"):
        tabular(data)
