"""Clusters of components over runs, and the estimator around them."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.decomposition import NMF as SklearnNMF
from sklearn.decomposition import PCA, LatentDirichletAllocation
from sklearn.metrics import silhouette_samples
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from drnmf import DRNMF, BetaNMF, ConsensusNMF, Solver, match
from drnmf.selection.consensus import cluster, consensus, silhouettes
from drnmf.selection.matching import unit
from drnmf.selection.resampling import resampled
from tests.contract import OTHER_MINIMA

pytestmark = pytest.mark.filterwarnings("ignore:.*has not converged")


def planted(seed: int = 0, m: int = 60, n: int = 30, r: int = 3, noise: bool = True) -> np.ndarray:
    rng = np.random.default_rng(seed)
    mean = rng.gamma(0.5, 20.0, (m, r)) @ rng.dirichlet(np.full(n, 0.2), r) * 10
    return rng.poisson(mean).astype(float) if noise else mean


def separable(seed: int = 0) -> np.ndarray:
    """Every column belongs to one component, and every component has rows of its own alone."""
    rng = np.random.default_rng(seed)
    H = np.kron(np.eye(3), np.ones((1, 4))) * rng.uniform(1, 2, 12)
    own = np.repeat(np.diag([1.0, 2.0, 4.0]), 8, axis=0) * rng.uniform(1, 1.5, (24, 1))
    return np.vstack([own, rng.dirichlet(np.ones(3), 6)]) @ H


def noisy_runs(seed: int, R: int = 6, r: int = 4, n: int = 25, scale: float = 0.3) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.gamma(0.5, 1.0, (r, n))
    return [(truth * rng.gamma(1 / scale, scale, (r, n)))[rng.permutation(r)] for _ in range(R)]


def test_every_cluster_has_one_component_of_every_run():
    members = cluster(unit(np.array(noisy_runs(0))))
    assert (np.sort(members, axis=1) == np.arange(4)).all()


def test_permuted_runs_of_one_truth_are_undone_whatever_their_scale():
    rng = np.random.default_rng(1)
    truth = rng.gamma(0.5, 1.0, (5, 20))
    orders = [rng.permutation(5) for _ in range(7)]
    found = consensus([truth[order] * rng.uniform(0.1, 10, (5, 1)) for order in orders])
    for order, members in zip(orders, found.members, strict=True):
        np.testing.assert_array_equal(order[members], orders[0][found.members[0]])
    np.testing.assert_allclose(found.stability, 1.0)
    np.testing.assert_allclose(found.spread, 0.0, atol=1e-15)
    np.testing.assert_allclose(found.components.sum(axis=1), 1.0)


def test_silhouettes_are_those_of_scikit_learn():
    found = consensus(noisy_runs(2, scale=1.0))
    flat, labels = found.runs.reshape(-1, 25), np.tile(np.arange(4), 6)
    expected = silhouette_samples(flat, labels, metric="cosine").reshape(6, 4)
    np.testing.assert_allclose(silhouettes(unit(found.runs)), expected, atol=1e-12)
    np.testing.assert_allclose(found.stability, expected.mean(axis=0))


def test_no_exchange_of_two_components_of_a_run_brings_clusters_closer():
    directions = unit(np.array(noisy_runs(3, scale=2.0)))
    members = cluster(directions)
    ordered = np.take_along_axis(directions, members[:, :, None], axis=1)
    centres = unit(ordered.mean(axis=0))
    for run in ordered:
        table = centres @ run.T
        for k in range(4):
            for other in range(k):
                assert table[k, k] + table[other, other] >= table[k, other] + table[other, k] - 1e-12


def test_one_component_is_compared_with_unrelated_directions():
    rng = np.random.default_rng(0)
    assert consensus([np.ones((1, 50))] * 3).stability == pytest.approx(1.0)
    assert consensus(list(rng.gamma(0.05, 1.0, (6, 1, 50)))).stability[0] < 0.5


def test_clusters_at_one_place_are_not_stable():
    assert consensus([np.ones((2, 5))] * 3).stability.tolist() == [0.0, 0.0]


def test_fewer_than_two_runs_are_no_consensus():
    with pytest.raises(ValueError, match="at least 2 runs: there is 1"):
        consensus([np.ones((2, 3))])


@parametrize_with_checks(
    [ConsensusNMF(BetaNMF(2, max_iter=30, tol=1e-3), n_runs=2)], expected_failed_checks=lambda estimator: OTHER_MINIMA
)
def test_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


def test_separable_data_are_found_again_by_every_run():
    model = ConsensusNMF(BetaNMF(3, beta=2, tol=1e-9, max_iter=3000), n_runs=5, random_state=0).fit(separable())
    np.testing.assert_allclose(model.stability_, 1.0, atol=1e-3)
    assert model.stable_.all()


def test_pure_noise_is_not_stable():
    X = np.random.default_rng(0).poisson(20.0, (80, 40)).astype(float)
    model = ConsensusNMF(BetaNMF(5, max_iter=100), n_runs=6, resample="bootstrap", random_state=0).fit(X)
    assert model.stability_.mean() < 0.4


def test_bits_do_not_depend_on_jobs_but_on_the_seed():
    X = planted()
    models = [
        ConsensusNMF(BetaNMF(3, max_iter=60), n_runs=4, resample="poisson", random_state=seed, n_jobs=jobs).fit(X)
        for seed, jobs in ((0, None), (0, 3), (1, None))
    ]
    np.testing.assert_array_equal(models[0].components_, models[1].components_)
    np.testing.assert_array_equal(models[0].stability_, models[1].stability_)
    assert not np.array_equal(models[0].components_, models[2].components_)


def test_rows_and_columns_in_another_order_change_nothing_but_the_order():
    X, rng = separable(), np.random.default_rng(0)
    rows, columns = rng.permutation(X.shape[0]), rng.permutation(X.shape[1])
    one = ConsensusNMF(BetaNMF(3, beta=2, tol=1e-9, max_iter=3000), n_runs=3, random_state=0)
    other = clone(one)
    W, V = one.fit_transform(X), other.fit_transform(X[rows][:, columns])
    partners = match(other.components_, one.components_[:, columns]).index
    np.testing.assert_allclose(other.components_, one.components_[partners][:, columns], atol=2e-3)
    np.testing.assert_allclose(V, W[rows][:, partners], atol=0.01 * W.max())


def test_scale_goes_into_W_alone():
    X = planted()
    one = ConsensusNMF(BetaNMF(3), n_runs=3, random_state=0)
    other = clone(one)
    W, V = one.fit_transform(X), other.fit_transform(1024 * X)
    np.testing.assert_allclose(other.components_, one.components_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(V, 1024 * W, rtol=1e-6, atol=1e-6 * W.max())


def test_components_are_distributions_and_W_has_the_unit_of_X():
    X = planted()
    model = ConsensusNMF(BetaNMF(3), n_runs=4, random_state=0)
    W = model.fit_transform(X)
    np.testing.assert_allclose(model.components_.sum(axis=1), 1.0)
    assert W.sum() == pytest.approx(X.sum(), rel=1e-3)
    assert (np.diff(W.sum(axis=0)) <= 0).all()
    np.testing.assert_array_equal(model.transform(X), W)
    np.testing.assert_allclose(model.inverse_transform(W), W @ model.components_)
    assert model.found_in_.tolist() == [4, 4, 4]
    assert model.runs_.shape == (4, 3, 30)
    assert len(model.models_) == 4


def test_sparse_is_dense_and_float32_stays():
    X = planted()
    model = ConsensusNMF(BetaNMF(3, max_iter=50), n_runs=3, resample="poisson", random_state=0)
    dense, sparse = clone(model).fit(X.astype(np.float32)), clone(model).fit(sp.csr_array(X))
    assert dense.components_.dtype == np.float32
    assert sparse.stability_.shape == (3,)


def test_any_estimator_with_components_will_do():
    X = planted()
    for estimator in (SklearnNMF(3), DRNMF(3, betas=(1, 2), max_iter=50)):
        model = ConsensusNMF(estimator, n_runs=3, random_state=0, n_jobs=2)
        assert model.fit_transform(X).shape == (60, 3)


def test_unstable_components_are_marked_or_dropped():
    X = planted(r=3)
    settings = {"estimator": BetaNMF(4, max_iter=100), "n_runs": 5, "resample": "poisson", "random_state": 0}
    kept = ConsensusNMF(**settings, threshold=0.95).fit(X)
    assert 0 < kept.stable_.sum() < 4
    dropped = ConsensusNMF(**settings, threshold=0.95, unstable="drop")
    assert dropped.fit_transform(X).shape == (60, kept.stable_.sum())
    assert (dropped.stability_ >= 0.95).all()
    assert dropped.get_feature_names_out().shape == (kept.stable_.sum(),)
    none = ConsensusNMF(**settings, threshold=1.0, unstable="drop")
    with pytest.raises(ValueError, match=r"No component reaches threshold=1 .* with unstable='keep'"):
        none.fit(X)
    assert not hasattr(none, "components_")


WRONG = [PCA(2), LatentDirichletAllocation(2), KMeans(2, n_init=1), StandardScaler(), "nmf"]


@pytest.mark.parametrize("estimator", WRONG)
def test_an_estimator_without_nonnegative_components_is_refused(estimator):
    with pytest.raises(TypeError, match=r"for example BetaNMF\(5\)"):
        ConsensusNMF(estimator, n_runs=2, random_state=0).fit(planted())


def test_ctrl_c_keeps_the_consensus_of_the_runs_that_ended():
    X, calls = planted(), []

    def stop_in_the_fourth_run(progress):
        calls.append(progress.iteration)
        if calls.count(1) == 4:
            raise KeyboardInterrupt

    model = ConsensusNMF(
        BetaNMF(3, max_iter=20, solver=Solver(callback=stop_in_the_fourth_run)), n_runs=9, random_state=0
    )
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert model.runs_.shape[0] == 3
    assert model.models_[0].solver.callback is stop_in_the_fourth_run


def test_a_run_that_fails_ends_the_others():
    seen = threading.Event()

    def fail(progress):
        seen.set()
        raise RuntimeError("broken callback")

    with pytest.raises(RuntimeError, match="broken callback"):
        ConsensusNMF(BetaNMF(3, solver=Solver(callback=fail)), n_runs=6, n_jobs=2).fit(planted())
    assert seen.is_set()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_runs": 1}, "n_runs=1 must be an integer >= 2"),
        ({"resample": "jackknife"}, "resample='jackknife' is not known"),
        ({"unstable": "hide"}, "unstable='hide' is not known"),
        ({"threshold": "high"}, "threshold='high' must be a finite number"),
        ({"n_jobs": 0}, "n_jobs=0"),
    ],
)
def test_bad_parameters_are_refused_before_any_run(settings, message):
    with pytest.raises(ValueError, match=message):
        ConsensusNMF(BetaNMF(2), **settings).fit(planted())


def test_only_counts_are_drawn_again_as_counts():
    X = planted()
    with pytest.raises(ValueError, match="X holds other numbers"):
        resampled(X + 0.5, "poisson", 0)
    drawn = np.mean([resampled(X, "poisson", seed) for seed in range(400)], axis=0)
    np.testing.assert_allclose(drawn, X, atol=6 * np.sqrt((X.max() + 1) / 400))
    rows = {tuple(row) for row in X.tolist()}
    assert {tuple(row) for row in resampled(X, "bootstrap", 0).tolist()} < rows
    np.testing.assert_array_equal(resampled(sp.csr_array(X), "poisson", 3).indices, sp.csr_array(X).indices)
