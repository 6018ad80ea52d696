"""What `drnmf.sklearn` promises beside what scikit-learn's own tests see."""

from __future__ import annotations

import inspect
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import decomposition
from sklearn.decomposition import _nmf
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from drnmf.sklearn import NMF, MiniBatchNMF, non_negative_factorization
from tests.contract import OTHER_MINIMA

pytestmark = pytest.mark.filterwarnings("ignore:Maximum number of iterations")


def table(m: int = 40, n: int = 25, rank: int = 4, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.poisson(20 * rng.gamma(0.5, size=(m, rank)) @ rng.gamma(0.5, size=(rank, n))) + 0.0


@pytest.mark.slow
@parametrize_with_checks(
    [
        NMF(2, max_iter=300),
        NMF(2, solver="mu", beta_loss=1, max_iter=300),
        MiniBatchNMF(2, batch_size=7, max_iter=20, fresh_restarts=True),
    ],
    expected_failed_checks=lambda estimator: OTHER_MINIMA,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_signatures_are_theirs_and_a_device():
    for ours, theirs in (
        (NMF.__init__, decomposition.NMF.__init__),
        (MiniBatchNMF.__init__, decomposition.MiniBatchNMF.__init__),
        (MiniBatchNMF.partial_fit, decomposition.MiniBatchNMF.partial_fit),
        (non_negative_factorization, decomposition.non_negative_factorization),
    ):
        found = {name: p.default for name, p in inspect.signature(ours).parameters.items()}
        assert found.pop("device", None) is None
        assert list(found.items()) == [(name, p.default) for name, p in inspect.signature(theirs).parameters.items()]


@pytest.mark.parametrize("init", [None, "random", "nndsvd", "nndsvda", "nndsvdar"])
@pytest.mark.parametrize(("solver", "beta"), [("cd", 2), ("mu", 2), ("mu", 1), ("mu", 0), ("mu", 0.5), ("mu", -0.5)])
def test_a_fit_ends_where_theirs_does_or_lower(init, solver, beta):
    X = table() + (1.0 if beta <= 0 else 0.0)
    if solver == "mu" and init == "nndsvd":
        pytest.skip("their zeros stay zeros, which is another problem")
    settings = {"n_components": 4, "init": init, "solver": solver, "beta_loss": beta, "random_state": 0}
    ours, theirs = NMF(**settings).fit(X), decomposition.NMF(**settings).fit(X)
    assert ours.reconstruction_err_ <= 1.01 * theirs.reconstruction_err_


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("solver", "beta"), [("cd", "frobenius"), ("mu", "kullback-leibler")])
def test_penalties_are_scaled_as_there(l1_ratio, solver, beta):
    X = table() / 20
    settings = {
        "n_components": 3, "solver": solver, "beta_loss": beta, "alpha_W": 0.01, "alpha_H": 0.02, "l1_ratio": l1_ratio,
        "max_iter": 2000, "tol": 1e-6, "random_state": 0,
    }  # fmt: skip

    def objective(model):
        W = model.fit_transform(X)
        H, (m, n) = model.components_, X.shape
        l1 = 0.01 * n * W.sum() + 0.02 * m * H.sum()
        l2 = 0.01 * n * (W**2).sum() + 0.02 * m * (H**2).sum()
        return 0.5 * model.reconstruction_err_**2 + l1_ratio * l1 + 0.5 * (1 - l1_ratio) * l2

    assert objective(NMF(**settings)) <= 1.001 * objective(decomposition.NMF(**settings))


def test_nothing_runs_on_their_algorithms(monkeypatch):
    def refuse(*values, **given):
        raise AssertionError("scikit-learn's own algorithm ran")

    for name in ("_fit_coordinate_descent", "_fit_multiplicative_update", "_beta_divergence"):
        monkeypatch.setattr(_nmf, name, refuse)
    for settings in ({}, {"solver": "mu", "beta_loss": 1, "alpha_W": 0.01}):
        model = NMF(3, **settings).fit(table())
        model.transform(table())


@pytest.mark.parametrize("beta", [-1.0, 0.0, 0.5, 1.0, 2.0, 3.0])
def test_the_error_is_the_root_of_twice_the_divergence(beta):
    X = table() + 1.0
    model = NMF(3, solver="mu", beta_loss=beta, random_state=0)
    W = model.fit_transform(X)
    assert np.isclose(model.reconstruction_err_, np.sqrt(2 * _nmf._beta_divergence(X, W, model.components_, beta)))


@pytest.mark.parametrize(("solver", "beta"), [("cd", 2), ("mu", 1)])
def test_zeros_are_exact(solver, beta):
    X = np.kron(np.eye(3), np.ones((4, 5)))
    model = NMF(3, solver=solver, beta_loss=beta, max_iter=1000, tol=1e-8, random_state=0)
    W = model.fit_transform(X)
    for factor in (W, model.components_, model.transform(X)):
        assert (factor == 0).sum() >= factor.size // 2
        assert not ((factor > 0) & (factor < 1e-12)).any()


def test_one_of_two_factors_is_enough_to_begin_from():
    X, rng = table(), np.random.default_rng(0)
    W, H = rng.uniform(size=(40, 4)), rng.uniform(size=(4, 25))
    for given in ({"H": H}, {"W": W}):
        model = NMF("auto", init="custom").fit(X, **given)
        assert model.n_components_ == 4
        assert model.reconstruction_err_ < np.linalg.norm(X - X.mean())


def test_the_order_of_the_components_may_be_drawn():
    X = table()
    plain, drawn = (
        NMF(4, shuffle=shuffle, random_state=0, tol=1e-8, max_iter=2000).fit(X) for shuffle in (False, True)
    )
    assert np.isclose(plain.reconstruction_err_, drawn.reconstruction_err_, rtol=0.1)
    assert not np.array_equal(plain.components_, drawn.components_)


def test_weights_of_rows_are_rows_that_stand_there_more_often():
    X = table(12, 8, 2)
    weights = np.arange(12) % 3
    settings = {"n_components": 2, "solver": "mu", "beta_loss": 1, "init": "custom", "tol": 1e-10, "max_iter": 3000}
    rng = np.random.default_rng(0)
    W, H = rng.uniform(size=(12, 2)), rng.uniform(size=(2, 8))
    weighted = NMF(**settings).fit(X, W=W, H=H, sample_weight=weights)
    times = np.repeat(np.arange(12), weights)
    repeated = NMF(**settings).fit(X[times], W=W[times], H=H)
    assert np.isclose(weighted.reconstruction_err_, repeated.reconstruction_err_, rtol=1e-5)


def test_it_says_how_far_it_is(capsys):
    NMF(2, verbose=1, tol=0, max_iter=20).fit(table())
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [["Epoch", "10"], ["Epoch", "20"]]


def test_a_pipeline_and_a_search_take_it():
    search = GridSearchCV(
        make_pipeline(MaxAbsScaler(), NMF(random_state=0, max_iter=50)),
        {"nmf__n_components": [2, 3]},
        scoring=lambda model, X, y=None: -model[-1].reconstruction_err_,
        cv=2,
    ).fit(sp.csr_matrix(table()))
    assert search.best_estimator_.transform(table()).shape == (40, search.best_params_["nmf__n_components"])
    assert isinstance(search.best_estimator_[-1], decomposition.NMF)


@pytest.mark.slow
def test_the_import_waits_with_the_engine():
    code = "import sys, drnmf.sklearn; print([name for name in sys.modules if name.startswith('drnmf.solve')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.parametrize(("size", "dtype"), [(1e36, np.float32), (1e-40, np.float32), (1e120, float), (1e-300, float)])
@pytest.mark.parametrize("model", [NMF, MiniBatchNMF])
def test_the_unit_of_x_does_not_matter_beyond_their_thresholds(model, size, dtype):
    X = np.random.default_rng(0).gamma(1.0, size=(40, 3)) @ np.random.default_rng(1).gamma(1.0, size=(3, 12))
    fit = model(3, beta_loss=1, max_iter=300, random_state=0, **({"solver": "mu"} if model is NMF else {}))
    W = fit.fit_transform((X * size).astype(dtype)).astype(np.longdouble)
    assert np.abs(W @ fit.components_.astype(np.longdouble) / size - X).max() < 0.05 * X.max()
    if model is NMF:
        W = NMF(3, max_iter=300, random_state=0).fit(X * size)
        assert np.abs(W.fit_transform(X * size).astype(np.longdouble) @ W.components_ / size - X).max() < 0.05 * X.max()


@pytest.mark.filterwarnings("ignore:Maximum number of iterations")
@pytest.mark.parametrize("given", [{}, {"batch_size": 16}], ids=["at once", "in batches"])
@pytest.mark.parametrize("model", [NMF, MiniBatchNMF])
def test_squares_below_the_range_of_float64_change_nothing(model, given):
    """Neither when a fit is over nor its error, which float64 holds."""
    X = np.random.default_rng(0).gamma(1.0, size=(40, 3)) @ np.random.default_rng(1).gamma(1.0, size=(3, 12))
    given = {} if model is NMF else given
    fits = [model(2, max_iter=60, random_state=0, **given).fit(np.ldexp(X, power)) for power in (-40, -990)]
    assert fits[0].n_iter_ == fits[1].n_iter_
    np.testing.assert_array_equal(np.ldexp(fits[0].components_, -475), fits[1].components_)
    assert np.ldexp(fits[0].reconstruction_err_, -950) == fits[1].reconstruction_err_ > 0


@pytest.mark.filterwarnings("ignore:overflow")
def test_entries_whose_sum_is_infinite_are_refused_in_words():
    with pytest.raises(ValueError, match="divide X by its largest entry"):
        NMF(2).fit(np.full((20, 20), 1e307))
