"""Models that earlier versions wrote are read by this one: files of tests/estimators/models, one set for a version."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import drnmf
from tests.estimators.models.write import FOLDER, MODELS, table

FILES = sorted(FOLDER.glob("*.npz"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_kept_model_loads_and_transforms(path: Path):
    model, X = drnmf.load(path), table()
    assert list(model.feature_names_in_) == list(X.columns)
    np.testing.assert_allclose(model.transform(X), np.load(path.with_suffix(".npy")), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model.shares(X).sum(axis=1), 1)
    assert model.score(X) < 0
    assert type(model)(**model.get_params(deep=False)).fit(X).components_.shape == model.components_.shape


def test_this_version_has_its_files():
    assert {path.name for path in FILES} >= {f"{drnmf.__version__}-{name}.npz" for name in MODELS}
