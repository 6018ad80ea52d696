"""The noise and the rank of a tensor, and what its runs agree on: by the engine of matrices, on an unfolding."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from drnmf import CP, consensus, noise_profile, rank_profile
from drnmf.problem.receive import Received
from drnmf.selection import entries
from drnmf.selection.choose import Tried
from drnmf.selection.entries import sampled_modes

SHAPE = (12, 10, 9)
RNG = np.random.default_rng(0)
TRUTH = [RNG.gamma(0.5, 3.0, (size, 2)) for size in SHAPE]
V = np.einsum("ir,jr,kr->ijk", *TRUTH)
X = RNG.poisson(V).astype(float)
GAPS = np.where(RNG.random(SHAPE) < 0.3, np.nan, X)
ROUGH = np.maximum(V + 0.1 * V.std() * RNG.normal(size=SHAPE), 0.0)
MODEL, LEAST_SQUARES = (CP(2, betas=beta, random_state=0, max_iter=40) for beta in (1, 2))


def as_coordinates(X):
    where = np.nonzero(X)
    return SimpleNamespace(coords=where, data=X[where], shape=X.shape)


def alike(found, truth):
    a, b = (F / np.linalg.norm(F, axis=0) for F in (found, truth))
    return (a.T @ b).max(axis=0).min()


@pytest.mark.parametrize(
    ("model", "seen"),
    [
        (LEAST_SQUARES, np.where(np.isnan(GAPS), np.nan, ROUGH).transpose(2, 0, 1)),
        (LEAST_SQUARES, as_coordinates(ROUGH)),
        (MODEL, GAPS),
    ],
    ids=["gaps, other rows", "sparse", "counts with gaps"],
)
def test_the_rank_of_planted_factors(model, seen):
    profile = rank_profile(model, seen, ranks=3)
    assert profile.best == 2
    assert [row["rank"] for row in profile.table] == [1, 2, 3]


def test_the_noise_of_a_tensor():
    profile = noise_profile(MODEL, GAPS, betas=(0.5, 1, 2))
    assert profile.best == 1.0
    assert profile.structure < 0.5


def test_the_data_choose_the_rank_and_the_fit_is_of_that_rank():
    model = CP("auto", betas=2, random_state=0, max_iter=20).fit(ROUGH[:9, :8, :7])
    assert model.rank_profile_.best == model.n_components_ == len(model.components_)
    assert [F.shape for F in model.factors_] == [(size, model.n_components_) for size in (9, 8, 7)]


def test_what_runs_agree_on_has_the_products_of_the_modes():
    found = consensus([replace(MODEL, random_state=seed, init="random").fit(X).components_ for seed in range(3)])
    assert found.stability.min() > 0.9
    products = np.einsum("jr,kr->rjk", *TRUTH[1:]).reshape(2, -1)
    assert alike(found.components.T, products.T) > 0.97


def test_a_sample_of_a_large_tensor_is_a_tensor(monkeypatch):
    monkeypatch.setattr(entries, "SAMPLE", 200)
    cube = np.arange(12 * 10 * 9, dtype=float).reshape(SHAPE)
    given, columns = sampled_modes(Received(cube.reshape(12, -1)), SHAPE[1:], 0, 0)
    few = given.X.reshape(-1, *columns)
    assert few.size <= 200
    assert len(set(few.shape)) == 1
    rows, middle, last = ((few // by) % size for by, size in ((90, 12), (9, 10), (1, 9)))
    for mode, index in enumerate((rows, middle, last)):
        assert np.ptp(np.moveaxis(index, mode, 0).reshape(few.shape[mode], -1), axis=1).max() == 0


def test_criteria_count_what_is_free():
    matrix, tensor = Tried(3, criterion=0.0, shape=(10, 20)), Tried(3, criterion=0.0, shape=(5, 6, 7))
    assert (matrix.aic, tensor.aic) == (2 * 3 * 27, 2 * 3 * 16)
    assert matrix.bic == pytest.approx(30 * np.log(20) + 60 * np.log(10) - 9 * np.log(10))
    assert tensor.bic == pytest.approx(15 * np.log(42) + 18 * np.log(35) + 21 * np.log(30) - 6 * np.log(30))
