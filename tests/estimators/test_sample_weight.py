"""sample_weight: a row that counts twice is two rows; shares: rows and components that sum to one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import drnmf.sklearn
from drnmf import DRNMF, BetaNMF, HeldOut, MultiObjectiveNMF

RNG = np.random.default_rng(0)
X = RNG.gamma(1.0, size=(12, 2)) @ RNG.gamma(1.0, size=(2, 8)) + 0.1 * RNG.uniform(size=(12, 8))
W, H = RNG.uniform(size=(12, 2)), RNG.uniform(size=(2, 8))
WEIGHTS = np.arange(12) % 3
TWICE = np.repeat(np.arange(12), WEIGHTS)
MODELS = [
    BetaNMF(2, beta=1, init="custom", tol=1e-9),
    MultiObjectiveNMF(2, init="custom", tol=1e-9),
    DRNMF(2, init="custom", tol=1e-9),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_weights_are_rows_that_stand_there_more_often(model, form):
    weighted = model.fit(form(X), W=W, H=H, sample_weight=WEIGHTS).losses_
    repeated = model.fit(form(X[TWICE]), W=W[TWICE], H=H).losses_
    assert np.allclose(weighted, repeated, rtol=1e-4)


def test_a_row_of_weight_zero_gets_its_own_w():
    model = BetaNMF(2, random_state=0).set_output(transform="pandas")
    found = model.fit_transform(X, sample_weight=WEIGHTS).to_numpy()
    there = model.transform(X).to_numpy()
    assert np.allclose(found[WEIGHTS == 0], there[WEIGHTS == 0])
    assert np.allclose(model.components_, BetaNMF(2, random_state=0).fit(X * 1.0, sample_weight=WEIGHTS).components_)


def test_so_it_does_in_scikit_learns_clothes():
    model = drnmf.sklearn.NMF(2, random_state=0)
    found = model.fit_transform(X, sample_weight=WEIGHTS)
    assert np.allclose(found[WEIGHTS == 0], model.transform(X)[WEIGHTS == 0])


def test_weights_of_rows_multiply_those_of_entries():
    entries = RNG.uniform(size=X.shape)
    model = BetaNMF(2, random_state=0)
    both = model.fit(X, entry_weight=entries, sample_weight=WEIGHTS + 1).losses_
    assert np.allclose(both, model.fit(X, entry_weight=entries * (WEIGHTS + 1)[:, None]).losses_)
    kept = sp.csr_array(entries)
    assert np.allclose(both, model.fit(X, entry_weight=kept, sample_weight=WEIGHTS + 1).losses_)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sample_weight": np.ones(5)}, "12 rows"),
        ({"sample_weight": -np.ones(12)}, r"sample_weight\[0\] = -1"),
        ({"sample_weight": np.zeros(12)}, "zero throughout"),
        ({"sample_weight": ["a"] * 12}, "read as numbers"),
        ({"sample_weight": WEIGHTS + 0j}, "sample_weight holds complex numbers"),
        ({"sample_weight": WEIGHTS, "uncertainty": X}, "both given"),
        ({"sample_weight": WEIGHTS, "entry_weight": HeldOut(0.1, 0)}, "HeldOut"),
    ],
)
def test_bad_weights_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        BetaNMF(2).fit(X, **given)


@pytest.mark.parametrize(
    "model",
    [
        BetaNMF(2),
        DRNMF(2),
        drnmf.sklearn.NMF(2),
        drnmf.sklearn.MiniBatchNMF(2),
        drnmf.sklearn.MiniBatchNMF(2, batch_size=5),
    ],
    ids=lambda m: type(m).__name__,
)
def test_a_pipeline_hands_them_on(model):
    with config_context(enable_metadata_routing=True):
        model = model.set_params(random_state=0)
        model.set_fit_request(sample_weight=True)
        pipeline = make_pipeline(MaxAbsScaler(), model).fit(X, sample_weight=WEIGHTS)
    alone = model.fit(MaxAbsScaler().fit_transform(X), sample_weight=WEIGHTS).components_
    assert np.array_equal(pipeline[-1].components_, alone)


@pytest.mark.parametrize(
    "model",
    [BetaNMF(2), DRNMF(2), drnmf.sklearn.NMF(2), drnmf.sklearn.MiniBatchNMF(2)],
    ids=lambda m: type(m).__name__,
)
def test_shares_are_those_of_components_that_sum_to_one(model):
    found = model.set_params(random_state=0).fit_transform(X)
    sums = model.components_.sum(axis=1)
    assert np.allclose(model.shares_.sum(axis=1), 1)
    assert np.allclose(model.shares_, found * sums / (found * sums).sum(axis=1, keepdims=True))
    assert model.shares(X[:3]).shape == (3, 2)
    assert np.allclose(model.shares(X).sum(axis=1), 1)


def test_shares_of_frames_and_empty_rows():
    model = BetaNMF(2, beta=2, random_state=0).set_output(transform="pandas").fit(pd.DataFrame(X))
    assert np.allclose(model.shares(pd.DataFrame(X).iloc[:2] * 0), 0.5)
