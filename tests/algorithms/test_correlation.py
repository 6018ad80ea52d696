"""One curvature for all columns: where it is exact, that it descends, and that it is the same everywhere."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf import DRNMF, BetaNMF, Solver
from drnmf.algorithms.correlation import correlation, shrunk
from drnmf.algorithms.updates.steps import correlated_step, multiplicative_step, quadratic_step
from drnmf.losses.names import as_losses

RANK = 30  # above the largest rank at which every column has a curvature of its own


@pytest.fixture(autouse=True)
def small_x_is_no_exception(monkeypatch):
    """By its cost so small an X would have a curvature for every column above that rank too."""
    monkeypatch.setattr("drnmf.algorithms.updates.newton.OWN_GAIN", 0.0)


def planted(rng, shape=(60, 80), rank=35):
    mean = rng.gamma(0.5, size=(shape[0], rank)) @ rng.gamma(0.5, size=(rank, shape[1]))
    return mean * rng.gamma(4.0, 0.25, size=shape) + 1e-3


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 2.0])
def test_exact_where_the_model_has_rank_one(beta, monkeypatch):
    """With columns of V in proportion c_ij = a_i b_j, and D C D is the curvature itself."""
    monkeypatch.setattr("drnmf.algorithms.updates.steps.BALANCE_STEPS", 300)  # to the end, where a fit takes a few
    rng = np.random.default_rng(0)
    W, h, t = rng.gamma(2.0, size=(40, 5)), rng.gamma(2.0, size=5), rng.gamma(2.0, size=7)
    H = h[:, None] * t
    V = W @ H
    X = V * rng.gamma(9.0, 1 / 9.0, size=V.shape)
    N, P = W.T @ (X * V ** (beta - 2)), W.T @ V ** (beta - 1)
    C = correlation(lambda function: function(W.T), H.mean(axis=1), as_losses(beta), np.ones(1))
    full = np.einsum("ik,ij,il->klj", W, V ** (beta - 2), W)[np.tril_indices(5)]
    one, every = (
        correlated_step(H, N, P, C, 1e-16, 50),
        quadratic_step(H, N, P, np.ascontiguousarray(full), 1e-16, 50),
    )
    np.testing.assert_allclose(one, every, rtol=1e-6)
    assert abs(one / H - 1).max() > 0.2  # the step is not a small one


@pytest.mark.parametrize("betas", [(0,), (1,), (0.5,), (3,), (0, 1), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_step_raises_the_objective_and_it_ends_lower(betas, dtype):
    X = planted(np.random.default_rng(1)).astype(dtype)

    def fit(update):
        return DRNMF(
            RANK, betas=betas, tol=0, max_iter=80, random_state=0, solver=Solver(policy="fixed", update=update)
        ).fit(X)

    model = fit("auto")
    values = model.trace_.scaled_losses @ model.weights_
    assert (np.diff(values) <= (1e-5 if dtype == np.float32 else 1e-11) * values[:-1]).all()
    assert values[-1] < 0.995 * (fit("extrapolated").losses_ / model.references_) @ model.weights_


def test_sparse_is_dense():
    X = np.random.default_rng(2).poisson(0.3, size=(70, 90)).astype(float)
    models = [BetaNMF(RANK, beta=1, tol=0, max_iter=60, random_state=0).fit(form) for form in (X, sp.csr_array(X))]
    np.testing.assert_allclose(*(model.trace_.scaled_losses for model in models), rtol=1e-8)


def test_a_dask_array_gives_the_same_trace():
    da = pytest.importorskip("dask.array")
    X = planted(np.random.default_rng(3))
    one, other = (
        BetaNMF(RANK, beta=1, tol=0, max_iter=50, init="custom").fit(form, W=np.ones((60, RANK)) * W, H=H)
        for W, H in [
            (np.random.default_rng(4).uniform(size=(60, RANK)), np.random.default_rng(5).uniform(size=(RANK, 80)))
        ]
        for form in (X, da.from_array(X, chunks=(25, 80)))
    )
    np.testing.assert_allclose(one.trace_.scaled_losses, other.trace_.scaled_losses, rtol=1e-8)


def test_a_component_that_has_vanished_stays_and_nothing_is_lost():
    rng = np.random.default_rng(6)
    F, N, P = rng.gamma(1.0, size=(3, 4, 5))
    C = np.eye(4)
    P[2, 1] = 0.0  # powers of the model underflowed: no slope
    stepped = correlated_step(F, N, P, C, 1e-16, 4)
    assert np.isfinite(stepped).all()
    assert (stepped > 0).all()


def test_entries_that_are_locked_at_zero_do_not_end_a_run() -> None:
    # zero columns and many zeros: V is at its floor under a positive x, where the shared model is far too flat
    from sklearn.datasets import load_digits

    X = load_digits().data[:300]
    settings = {"beta": 1, "random_state": 0, "max_iter": 100, "tol": 0}
    curved = BetaNMF(40, **settings).fit(X)
    plain = BetaNMF(40, solver="extrapolated", **settings).fit(X)
    assert curved.losses_[0] < 0.9 * plain.losses_[0]
    trace = curved.trace_.scaled_losses[:, 0]
    assert (np.diff(trace[32:]) < 0).all()
    assert np.diff(curved.trace_.sweeps).max() <= 8


def test_a_column_whose_model_is_too_flat_takes_the_multiplicative_step() -> None:
    F, N, P = np.array([[1.0], [1e-17]]), np.array([[1.0], [1e17]]), np.ones((2, 1))
    stepped = correlated_step(F, N, P, np.array([[1.0, 0.5], [0.5, 1.0]]), 1e-17, 4)
    np.testing.assert_allclose(stepped, multiplicative_step(F, N[None], P[None], np.ones(1), 1e-17))


def test_shrunk_all_the_way_it_is_the_multiplicative_step() -> None:
    rng = np.random.default_rng(5)
    F, N, P = (rng.gamma(2.0, size=(4, 6)) for _ in range(3))
    W = rng.gamma(2.0, size=(20, 4))
    C = correlation(lambda function: function(W.T), F.mean(axis=1), as_losses(1), np.ones(1))
    expected = multiplicative_step(F, N[None], P[None], np.ones(1), 1e-16)
    np.testing.assert_allclose(correlated_step(F, N, P, shrunk(C, 1.0), 1e-16, 1), expected, rtol=1e-12)
    assert abs(correlated_step(F, N, P, C, 1e-16, 1) / expected - 1).max() > 0.01


def test_steps_that_rise_are_damped_and_grow_rare() -> None:
    """Columns of three kinds, whose components overlap unlike those of the mean."""
    rng = np.random.default_rng(6)
    kinds = rng.gamma(0.1, size=(120, 40)) @ (rng.gamma(0.1, size=(40, 90)) * 10.0 ** rng.integers(0, 4, 90))
    X = rng.poisson(kinds).astype(float)
    model = BetaNMF(RANK, beta=1, init="random", random_state=0, tol=0, max_iter=130).fit(X)
    assert model.trace_.sweeps[-1] - model.trace_.sweeps[30] < 2.6 * 100
