"""Starts: scale, positivity, SPA's picks, NNLS."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls

from drnmf.algorithms.initialize import nonnegative_least_squares, start, successive_projection
from drnmf.backends.open import open_data


@pytest.mark.parametrize("init", ["random", "spa", "nndsvdar"])
@pytest.mark.parametrize("form", ["dense", "sparse", "float32"])
@pytest.mark.parametrize("rank", [1, 3, 40])
def test_positive_finite_and_typed(rng, init, form, rank):
    X = np.maximum(rng.normal(size=(30, 20)), 0)
    X[4], X[:, 7] = 0, 0
    X = {"dense": X, "sparse": sp.csr_array(X), "float32": X.astype(np.float32)}[form]
    W, H = start(open_data(X), rank, init, np.random.RandomState(0))
    assert W.shape == (30, rank)
    assert H.shape == (rank, 20)
    assert W.dtype == H.dtype == X.dtype
    for factor in (W, H):
        assert np.isfinite(factor).all()
        assert factor.min() > 0


def test_random_matches_the_mean(rng):
    X = rng.gamma(1.0, 5.0, (30, 20))
    W, H = start(open_data(X), 4, "random", np.random.RandomState(0))
    assert (W @ H).mean() == pytest.approx(X.mean())


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_spa_finds_the_pure_columns(rng, layout):
    """Separable data: every column is a convex combination of the columns 3, 11 and 17."""
    pure = rng.uniform(size=(25, 3))
    mixing = rng.dirichlet(np.ones(3), 20).T
    mixing[:, [3, 11, 17]] = np.eye(3)
    assert sorted(successive_projection(open_data(layout(pure @ mixing)), 3)) == [3, 11, 17]


def test_spa_stops_when_nothing_is_left():
    assert len(successive_projection(open_data(np.outer([1.0, 2.0], [1.0, 1.0, 3.0])), 3)) == 1


def test_nonnegative_least_squares(rng):
    W, X = rng.uniform(size=(30, 5)), rng.normal(size=(30, 8))
    H = nonnegative_least_squares(W.T @ W, W.T @ X)
    expected = np.column_stack([nnls(W, x)[0] for x in X.T])
    np.testing.assert_allclose(H, expected, atol=1e-6)


def test_nndsvd_is_a_better_start_than_random(rng):
    X = rng.uniform(size=(40, 5)) @ rng.uniform(size=(5, 30))
    errors = {}
    for init in ("random", "nndsvdar"):
        W, H = start(open_data(X), 5, init, np.random.RandomState(0))
        errors[init] = np.linalg.norm(X - W @ H)
    assert errors["nndsvdar"] < 0.8 * errors["random"]
