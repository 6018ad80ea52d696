"""What MiniBatchNMF promises beside what scikit-learn's own tests see: fits of more than one batch."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import decomposition
from sklearn.decomposition import _nmf

from drnmf.sklearn import NMF, MiniBatchNMF, mini_batch

pytestmark = pytest.mark.filterwarnings("ignore:Maximum number of iterations")


def table(m: int = 300, n: int = 20, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.poisson(20 * rng.gamma(0.5, size=(m, 4)) @ rng.gamma(0.5, size=(4, n))) + 0.0


def objective(model: Any, X: Any, alpha: float, l1_ratio: float, beta: float) -> float:
    """scikit-learn's objective, W found to its end under the components."""
    W, H, (m, n) = model.transform(X), model.components_, X.shape
    l1 = alpha * (n * W.sum() + m * H.sum())
    l2 = alpha * (n * (W**2).sum() + m * (H**2).sum())
    return float(_nmf._beta_divergence(X, W, H, beta) + l1_ratio * l1 + 0.5 * (1 - l1_ratio) * l2)


@pytest.mark.parametrize("init", [None, "random"])
@pytest.mark.parametrize("beta", [2, 1, 0, 0.5, -0.5])
def test_a_fit_ends_where_theirs_does_or_lower(init, beta):
    X = table() + (1.0 if beta <= 0 else 0.0)
    settings = {"n_components": 4, "batch_size": 60, "init": init, "beta_loss": beta, "random_state": 0, "max_iter": 15}
    ours, theirs = (kind(**settings).fit(X) for kind in (MiniBatchNMF, decomposition.MiniBatchNMF))
    assert objective(ours, X, 0, 0, beta) <= objective(theirs, X, 0, 0, beta)
    assert ours.n_iter_ == -(-ours.n_steps_ // 5)


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [75, 300])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
@pytest.mark.parametrize("beta", [2, 1, 0.5])
def test_penalties_are_scaled_as_there(batch_size, l1_ratio, beta):
    """A full fit under the same penalties is hardly lower, and one without them is not as low."""
    X = table() / 20
    common = {"n_components": 4, "beta_loss": beta, "random_state": 0}
    penalised = {"alpha_W": 0.01, "l1_ratio": l1_ratio}
    ours = MiniBatchNMF(batch_size=batch_size, max_iter=60, tol=0, forget_factor=0.1, **common, **penalised)
    whole = NMF(solver="mu", max_iter=1000, tol=1e-7, **common, **penalised)
    plain = NMF(solver="mu", max_iter=1000, tol=1e-7, **common)
    reached, least, without = (objective(model.fit(X), X, 0.01, l1_ratio, beta) for model in (ours, whole, plain))
    assert reached <= 1.03 * least
    assert reached < without


def test_nothing_runs_on_their_algorithms(monkeypatch):
    def refuse(*values, **given):
        raise AssertionError("scikit-learn's own algorithm ran")

    for name in ("_multiplicative_update_w", "_multiplicative_update_h", "_beta_divergence"):
        monkeypatch.setattr(_nmf, name, refuse)
    for size in (30, 1024):
        model = MiniBatchNMF(3, batch_size=size, alpha_W=0.01, max_iter=3).fit(table())
        model.partial_fit(table())
        model.transform(table())


@pytest.mark.parametrize("beta", [2, 1])
def test_sparse_and_dense_rows_say_the_same(beta):
    X = table() * (np.random.default_rng(1).uniform(size=(300, 20)) > 0.7)
    models = [
        MiniBatchNMF(3, batch_size=64, beta_loss=beta, init="random", random_state=0, max_iter=5, alpha_H=0.01).fit(
            form
        )
        for form in (X, sp.csr_array(X), sp.csc_matrix(X))
    ]
    for model in models[1:]:
        np.testing.assert_allclose(model.components_, models[0].components_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("beta", [2, 1])
def test_the_error_and_the_zeros_are_those_of_the_factors(beta):
    X = np.kron(np.eye(3), np.random.default_rng(0).uniform(1, 2, (40, 1)) * np.ones((40, 5)))
    X = X[np.random.default_rng(0).permutation(len(X))]
    model = MiniBatchNMF(3, batch_size=20, beta_loss=beta, max_iter=30, tol=0, random_state=0)
    W = model.fit_transform(X)
    loss = max(_nmf._beta_divergence(X, W, model.components_, beta), 0.0)  # an exact fit is below zero by rounding
    assert np.isclose(model.reconstruction_err_, np.sqrt(2 * loss), atol=1e-6)
    assert (model.components_ == 0).sum() == 30
    assert model.shares_.shape == (120, 3)


def test_a_stream_goes_on_after_a_fit_and_after_a_pickle():
    X = table()
    model = MiniBatchNMF(4, batch_size=100, random_state=0, max_iter=1).fit(X)
    other = pickle.loads(pickle.dumps(model))
    for one in (model, other):
        one.partial_fit(X[:50]).partial_fit(X[50:100])
    assert model.n_steps_ == 5
    np.testing.assert_array_equal(model.components_, other.components_)


def test_a_custom_start_is_written_over_as_there():
    X, rng = table(), np.random.default_rng(0)
    W, H = rng.uniform(size=(300, 4)), rng.uniform(size=(4, 20))
    model = MiniBatchNMF(4, batch_size=100, init="custom", max_iter=2).fit(X, W=W, H=H)
    assert model.components_ is H
    with pytest.raises(ValueError, match="NMF"):
        MiniBatchNMF(4, batch_size=100, init="custom").fit(X, H=np.ones((3, 20)), W=W)


def test_a_batch_of_zeros_ends_nothing():
    X = table()
    X[100:200] = 0.0
    model = MiniBatchNMF(4, batch_size=50, random_state=0, max_iter=4, max_no_improvement=None).fit(X)
    assert model.n_steps_ > 6


def test_forgetting_all_but_the_last_batch(monkeypatch):
    """What the sums keep is what forget_factor says: with 0 the last batch alone has a say."""
    X = np.vstack([table(100, seed=1), table(100, seed=2)])
    losses = []
    for factor in (0.0, 1.0):
        model = MiniBatchNMF(4, batch_size=100, forget_factor=factor, random_state=0, max_iter=8, tol=0).fit(X)
        losses.append(objective(model, X[100:], 0, 0, 2))
    assert losses[0] < losses[1]
    assert mini_batch._stream().half_life(100, 0.5) == 100.0


def test_a_batch_that_no_stream_can_take_is_refused_by_name_and_changes_nothing() -> None:
    X = np.random.default_rng(0).gamma(1.0, 1.0, (20, 6))
    model = MiniBatchNMF(2, random_state=0).partial_fit(X)
    H = model.components_.copy()
    with pytest.raises(ValueError, match="data passed to MiniBatchNMF"):
        model.partial_fit(-X)
    with pytest.raises(ValueError, match="leave the range of float64 in the unit of the stream"):
        model.partial_fit(1e200 * X)
    np.testing.assert_array_equal(model.components_, H)


@pytest.mark.parametrize("batch_size", [60, 1024])
@pytest.mark.parametrize("beta", [2, 1])
def test_rows_count_by_their_weights(batch_size, beta):
    """Weights of one size say nothing, rows of weight zero have no say, and heavy rows draw the components."""
    X, settings = table(), {"n_components": 2, "batch_size": batch_size, "beta_loss": beta, "max_iter": 20, "tol": 0}
    settings |= {"init": "random", "random_state": 0}

    def fitted(rows: Any, sample_weight: Any) -> tuple[Any, Any]:
        model = MiniBatchNMF(**settings)
        return model, model.fit_transform(rows, sample_weight=sample_weight)

    (two, _), (eight, _) = (fitted(X, np.full(len(X), size)) for size in (2.0, 8.0))
    np.testing.assert_allclose(two.components_, eight.components_, rtol=1e-9)
    assert np.isclose(2 * two.reconstruction_err_, eight.reconstruction_err_)
    counts = np.arange(len(X)) % 3 > 0
    (some, W), (alone, W_alone) = fitted(sp.csr_array(X), counts), fitted(sp.csr_array(X[counts]), None)
    np.testing.assert_array_equal(some.components_, alone.components_)
    np.testing.assert_array_equal(W[counts], W_alone)
    np.testing.assert_allclose(W[~counts], alone.transform(sp.csr_array(X[~counts])), rtol=1e-6, atol=1e-9)
    heavy = np.where(np.arange(len(X)) < 60, 1000.0, 1.0)
    assert objective(fitted(X, heavy)[0], X[:60], 0, 0, beta) < objective(fitted(X, None)[0], X[:60], 0, 0, beta)


@pytest.mark.parametrize("batch_size", [60, 1024])
def test_one_factor_alone_is_a_start(batch_size):
    X, rng = table(), np.random.default_rng(0)
    for given in ({"H": rng.uniform(size=(4, 20))}, {"W": rng.uniform(size=(300, 4))}):
        model = MiniBatchNMF(4, batch_size=batch_size, init="custom", max_iter=50).fit(X, **given)
        assert model.reconstruction_err_ < 0.2 * np.linalg.norm(X)


def test_the_first_batch_does_not_forget_a_start_that_was_made_of_all_rows():
    rng, seen = np.random.default_rng(0), []
    sizes, W, H = rng.lognormal(0, 1.5, (600, 1)), rng.gamma(0.2, 1.0, (600, 6)), rng.gamma(0.2, 1.0, (6, 200))
    X = rng.poisson(2 * sizes * (W @ H)) + 0.0

    class Noted(MiniBatchNMF):
        def _minibatch_step(self, X, W, H, update_H):
            seen.append(H.copy())
            return super()._minibatch_step(X, W, H, update_H)

    model = Noted(6, batch_size=60, random_state=0, max_iter=3).fit(X)

    def loss(H):
        model.components_ = H
        return objective(model, X, 0, 0, 2)

    start, first, last = loss(seen[0]), loss(seen[1]), loss(seen[-1])
    assert first < 1.05 * start
    assert last < 0.8 * start
