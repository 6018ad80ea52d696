"""Starts: scale, positivity, SPA's picks, NNLS."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls
from sklearn.decomposition._nmf import _initialize_nmf

from drnmf import BetaNMF, Solver
from drnmf.algorithms.initialize import (
    begun,
    least_loss,
    lifted,
    nndsvdar_start,
    nonnegative_least_squares,
    spa_factors,
    successive_projection,
)  # fmt: skip
from drnmf.backends.open import open_data


def start(*given, **named):
    return begun(*given, **named)[0]


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


def test_nndsvd_is_that_of_scikit_learn_but_for_its_zeros(rng):
    """Where their factors are zero, ours are at most 1/100 of a typical entry."""
    X = rng.gamma(1.0, 1.0, (30, 20))
    W, H = nndsvdar_start(open_data(X), 4, np.random.RandomState(0))
    theirs = _initialize_nmf(X, 4, init="nndsvd", random_state=0, eps=0.0)
    small = np.sqrt(X.mean() / 4) / 100
    for ours, other in zip((W, H), theirs, strict=True):
        used = other > 0
        np.testing.assert_allclose(ours[used], other[used], rtol=1e-6)
        assert (ours[~used] <= small).all()
        assert (ours[~used] > 0.5 * small).any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nndsvd_starts_alike_however_X_is_stored(dtype):
    """An entry that is zero but for rounding takes the number of a zero: others would get other numbers."""
    limit = 1e-3 if dtype == "float32" else 1e-9
    for seed in range(12):  # in five of them, with OpenBLAS, some entries are zero in one of the two alone
        rng = np.random.default_rng(seed)
        W, H = rng.gamma(0.5, 1.0, (600, 3)), rng.gamma(0.5, 1.0, (3, 15))
        X = rng.poisson(0.6 * W @ H / (W @ H).mean())[:50].astype(dtype)
        dense, sparse = (nndsvdar_start(open_data(form), 3, np.random.RandomState(0)) for form in (X, sp.csr_array(X)))
        for one, other in zip(dense, sparse, strict=True):
            np.testing.assert_allclose(one, other, rtol=limit, atol=limit * one.max())


def test_lifted_factors_are_raised_by_a_fraction_of_their_mean(rng):
    W, H = rng.uniform(size=(5, 2)), rng.uniform(size=(2, 7))
    for raised, given in zip(lifted(W, H, 0.1), (W, H), strict=True):
        np.testing.assert_allclose(raised - given, 0.1 * given.mean())
    assert lifted(W, np.zeros((2, 7)), 0.1)[1].min() > 0


def test_columns_that_spa_cannot_pick_have_the_size_of_X():
    W, H = spa_factors(open_data(np.outer([1.0, 2.0], [1.0, 1.0, 3.0]) * 10), 2, np.random.RandomState(0))
    assert W[:, 0].tolist() == [30.0, 60.0]
    assert 0 < W[:, 1].max() <= 2 * 25.0
    np.testing.assert_allclose(W @ H, np.outer([10.0, 20.0], [1.0, 1.0, 3.0]), rtol=1e-6)


def test_auto_is_nndsvd_where_it_says_something_of_every_component(rng):
    X = rng.gamma(1.0, 1.0, (6, 9))
    for rank, init in ((6, "nndsvdar"), (7, "random")):
        chosen, named = (start(open_data(X), rank, name, np.random.RandomState(0)) for name in ("auto", init))
        np.testing.assert_array_equal(chosen[0], named[0])
    _, S = begun(open_data(X), 3, "auto", np.random.RandomState(0))
    np.testing.assert_allclose(S, np.linalg.svd(X, compute_uv=False)[:3])


def test_of_several_starts_by_auto_all_but_the_first_are_drawn(rng):
    losses = {"auto": [], "random": []}
    for init, seen in losses.items():
        solver = Solver(callback=lambda progress, seen=seen: seen.append(progress.losses[0]))
        BetaNMF(3, beta=1, init=init, n_init=3, max_iter=1, tol=0, random_state=0, solver=solver).fit(
            rng.gamma(1.0, 1.0, (6, 9))
        )
    assert len(set(losses["auto"])) == len(set(losses["random"])) == 3


@pytest.mark.parametrize(
    ("init", "given", "message"),
    [
        ("best", {}, "is not known"),
        ("random", {"H": np.ones((2, 4))}, "only used with init='custom'"),
        ("custom", {"W": np.ones((3, 2))}, "needs both W and H"),
        ("custom", {"W": np.ones((3, 1)), "H": np.ones((2, 4))}, "W has shape"),
        ("custom", {"W": np.ones((3, 2)), "H": np.full((2, 4), np.nan)}, "H holds NaN"),
        ("custom", {"W": np.ones((3, 2)) - 2 * np.eye(3, 2), "H": np.ones((2, 4))}, r"W\[0, 0\] = -1 is negative"),
        ("custom", {"W": "text", "H": np.ones((2, 4))}, "W cannot be read"),
    ],
)
def test_starts_that_cannot_be_meant_are_refused(init, given, message):
    with pytest.raises(ValueError, match=message):
        start(open_data(np.ones((3, 4))), 2, init, np.random.RandomState(0), **given)


def test_given_starts_are_in_their_units_and_above_the_floor():
    W, H = start(open_data(np.ones((3, 4))), 2, "custom", None, np.eye(3, 2), np.ones((2, 4)), units=(2.0, 0.5))
    assert W.max() == 2.0
    assert 0 < W.min() < 1e-6
    assert (H == 0.5).all()


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, np.float32])
def test_no_fit_is_below_what_the_singular_values_allow(rng, form):
    X = rng.gamma(0.5, 1.0, (30, 20))
    data = open_data(form(X))
    _, S = begun(data, 4, "auto", np.random.RandomState(0))
    U, values, Vt = np.linalg.svd(X, full_matrices=False)
    best = 0.5 * np.sum((X - (U[:, :4] * values[:4]) @ Vt[:4]) ** 2)
    assert least_loss(data, S) * data.scale**-2 == pytest.approx(best, rel=1e-4)


def test_nothing_is_known_to_be_least_of_gaps_of_an_exact_fit_or_without_singular_values(rng):
    X = rng.uniform(size=(20, 3)) @ rng.uniform(size=(3, 15))
    S = np.linalg.svd(X, compute_uv=False)
    assert least_loss(open_data(X), S[:2]) > 0
    assert least_loss(open_data(X), S[:3]) == 0
    assert least_loss(open_data(X), np.empty(0)) == 0
    assert begun(open_data(X), 3, "random", np.random.RandomState(0))[1].size == 0
    gaps = np.where(rng.uniform(size=X.shape) < 0.1, np.nan, X)
    assert least_loss(open_data(gaps), S[:2]) == 0
