"""warm_start=True: the next fit starts from the components of the last one."""

from __future__ import annotations

import numpy as np
import pytest

import drnmf
from drnmf import DRNMF, BetaNMF
from drnmf.synthetic import planted

RUN = {"random_state": 0, "tol": 1e-6}


@pytest.fixture(scope="module")
def X():
    return planted("gamma", 30, 40, rank=3)[0]


@pytest.mark.parametrize("model", [BetaNMF(3, beta=0.5, **RUN), DRNMF(3, betas=(0, 1), **RUN)])
def test_a_second_fit_starts_where_the_first_ended(model, X):
    first = model.set_params(warm_start=True).fit(X)
    cold, error = first.n_iter_, first.reconstruction_err_
    again = model.fit(X)
    assert again.n_iter_ < cold
    assert again.trace_.maximum[0] < 1.05 * error
    assert again.reconstruction_err_ < 1.001 * error


def test_more_components_are_added_and_of_fewer_the_largest_stay(X):
    model = BetaNMF(2, beta=0, warm_start=True, **RUN).fit(X)
    two = model.components_.copy()
    model.set_params(n_components=3, max_iter=1, tol=0).fit(X)
    cosines = _cosines(model.components_, two)
    assert model.components_.shape == (3, 40)
    assert (cosines.max(axis=0) > 0.95).all()
    full = BetaNMF(3, beta=0, **RUN).fit(X)
    kept = full.components_[:2].copy()
    full.set_params(warm_start=True, n_components=2, max_iter=1, tol=0).fit(X)
    assert (_cosines(full.components_, kept).max(axis=0) > 0.9).all()


def test_rows_may_be_others_and_columns_not(X, tmp_path):
    model = BetaNMF(3, warm_start=True, **RUN).fit(X[:20])
    model.save(tmp_path / "model.npz")
    loaded = drnmf.load(tmp_path / "model.npz")
    assert loaded.warm_start
    cold = BetaNMF(3, max_iter=3, **RUN | {"tol": 0}).fit(X)
    for known in (model, loaded):
        known.set_params(max_iter=3, tol=0).fit(X)
        assert known.reconstruction_err_ < cold.reconstruction_err_
    with pytest.raises(ValueError, match="40 columns, but X has 12"):
        model.fit(X[:, :12])
    with pytest.raises(ValueError, match="checkpoint"):
        loaded.set_params(solver__checkpoint=tmp_path / "kept").fit(X)


@pytest.mark.slow
def test_a_given_start_and_losses_chosen_by_the_data(X):
    model = BetaNMF(3, beta="auto", warm_start=True, init="random", **RUN | {"max_iter": 300}).fit(X)
    cold = model.n_iter_
    assert model.fit(X).n_iter_ < cold
    W, H = np.ones((30, 3)), np.random.default_rng(0).uniform(size=(3, 40))
    given = {"init": "custom", "max_iter": 2, "tol": 0}
    one = BetaNMF(3, **given).fit(X, W=W, H=H)
    two = BetaNMF(3, warm_start=True, **given).fit(X, W=W, H=H).fit(X, W=W, H=H)
    np.testing.assert_array_equal(one.components_, two.components_)


def _cosines(found, known):
    found, known = (F / np.linalg.norm(F, axis=1, keepdims=True) for F in (found, known))
    return found @ known.T
