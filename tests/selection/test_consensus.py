"""Clusters of components over runs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.decomposition import NMF as SklearnNMF
from sklearn.metrics import silhouette_samples

from drnmf import BetaNMF, consensus, discover
from drnmf.selection.consensus import cluster, silhouettes
from drnmf.selection.matching import unit
from drnmf.selection.resampling import resampled
from drnmf.selection.stages import stages

pytestmark = pytest.mark.filterwarnings("ignore:.*has not converged")


def planted(seed: int = 0, m: int = 60, n: int = 30, r: int = 3, noise: bool = True) -> np.ndarray:
    rng = np.random.default_rng(seed)
    mean = rng.gamma(0.5, 20.0, (m, r)) @ rng.dirichlet(np.full(n, 0.2), r) * 10
    return rng.poisson(mean).astype(float) if noise else mean


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


def test_runs_of_any_estimator_have_a_consensus():
    X = planted()
    for estimator in (SklearnNMF(3, init="random", max_iter=500), BetaNMF(3, beta=2, init="random")):
        runs = [clone(estimator).set_params(random_state=seed).fit(X).components_ for seed in range(4)]
        found = consensus(runs)
        assert found.stability.min() > 0.9
        assert found.found_in.tolist() == [4, 4, 4]


def test_a_discovery_asks_the_same_function():
    """Two doors, one answer: what is public is what `discover` calls."""
    found = discover(planted(), BetaNMF(beta=1), ranks=3, n_runs=5, level=None)
    again = consensus([run.H for run in found.runs]).stability  # the runs stand in another order here
    np.testing.assert_allclose(np.sort(found.stability), np.sort(again), rtol=1e-12)
    assert stages.consensus is consensus


def test_only_counts_are_drawn_again_as_counts():
    X = planted()
    with pytest.raises(ValueError, match="X holds other numbers"):
        resampled(X + 0.5, "poisson", 0)
    drawn = np.mean([resampled(X, "poisson", seed) for seed in range(400)], axis=0)
    np.testing.assert_allclose(drawn, X, atol=6 * np.sqrt((X.max() + 1) / 400))
    rows = {tuple(row) for row in X.tolist()}
    assert {tuple(row) for row in resampled(X, "bootstrap", 0).tolist()} < rows
    np.testing.assert_array_equal(resampled(sp.csr_array(X), "poisson", 3).indices, sp.csr_array(X).indices)
