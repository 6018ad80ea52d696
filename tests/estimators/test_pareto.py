"""The front of section 5.1."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import drnmf
from drnmf import DRNMF, MultiObjectiveNMF, Solver, beta_divergence, pareto_front
from drnmf.estimators.pareto import METHODS, ParetoFront, dominated, weight_lattice
from drnmf.synthetic import synthetic
from tests import flat

SMALL = synthetic((0, 2), shape=(40, 30), rank=3, noise=0.1, random_state=1)
X = np.maximum(SMALL.X, 0.05)  # no zeros: they have tests of their own


def front_of(betas: tuple[float, ...] = (0, 2), **options: object) -> ParetoFront:
    settings: dict[str, object] = {"init": "custom", "W": SMALL.W, "H": SMALL.H, "tol": 0, "max_iter": 150}
    return flat.pareto_front(X, 3, betas=betas, **settings | options)


def test_the_front_falls_in_one_loss_as_it_rises_in_the_other() -> None:
    front = front_of()
    np.testing.assert_allclose(front.weights[:, 0], np.linspace(0, 1, 11))
    np.testing.assert_allclose(front.weights.sum(axis=1), 1)
    first, second = front.scaled_losses.T
    assert (np.diff(first) < 1e-6).all()
    assert (np.diff(second) > -1e-6).all()
    np.testing.assert_allclose([first[-1], second[0]], 1)  # each end is the best of its loss
    assert front.scaled_losses.min() > 0.999
    assert not front.dominated[[0, -1]].any()


@pytest.mark.slow
def test_the_dr_point_is_the_balanced_one() -> None:
    front = front_of(max_iter=600)
    largest = front.dr.scaled_losses.max()
    assert largest < front.scaled_losses.max(axis=1).min() + 1e-3
    np.testing.assert_allclose(front.dr.scaled_losses, largest, rtol=5e-3)


def test_points_equal_the_estimators() -> None:
    front = front_of(weights=[[0.3, 0.7], [1, 0]], return_factors=True)
    given = {"solver": Solver(references=front.references), "tol": 0, "max_iter": 150, "init": "custom"}
    middle = MultiObjectiveNMF(3, betas=(0, 2), weights=(0.3, 0.7), **given)
    W = middle.fit_transform(X, W=SMALL.W, H=SMALL.H)
    np.testing.assert_array_equal(front.points[0].H, middle.components_)
    np.testing.assert_array_equal(front.points[0].W, W)
    np.testing.assert_array_equal(front.points[0].scaled_losses, middle.scaled_losses_)
    dr = DRNMF(3, betas=(0, 2), **given).fit(X, W=SMALL.W, H=SMALL.H)
    # references are lowered to what was met, in the last digit, after the run that has the DR point
    np.testing.assert_allclose(front.dr.H, dr.components_, rtol=1e-10)
    np.testing.assert_allclose(front.dr.weights, dr.weights_, rtol=1e-10)
    computed = DRNMF(3, betas=(0, 2), tol=0, max_iter=150, init="custom").fit(X, W=SMALL.W, H=SMALL.H)
    np.testing.assert_allclose(front.references, computed.references_, rtol=1e-12)


def test_losses_belong_to_the_factors() -> None:
    front = front_of(weights=3, return_factors=True)
    for point in (*front.points, front.dr):
        assert point.W is not None
        assert point.H is not None
        for b, beta in enumerate(front.betas):
            expected = beta_divergence(X, point.W @ point.H, beta)
            np.testing.assert_allclose(point.losses[b], expected, rtol=1e-8)
            np.testing.assert_allclose(point.scaled_losses[b], expected / front.references[b], rtol=1e-8)


def test_given_references_give_the_same_front() -> None:
    computed = front_of(weights=3)
    again = front_of(weights=3, references=computed.references)
    np.testing.assert_array_equal(computed.losses, again.losses)


def test_lattice() -> None:
    rows = weight_lattice(3, 5)
    assert len(rows) == 15
    np.testing.assert_allclose(rows.sum(axis=1), 1)
    assert len(np.unique(rows, axis=0)) == 15
    np.testing.assert_allclose(rows * 4, np.round(rows * 4))
    front = front_of(betas=(0, 1, 2), weights=3, max_iter=20)
    assert front.scaled_losses.shape == (6, 3)


def test_rows_and_factors_on_request() -> None:
    front = front_of(weights=3)
    assert front.points[0].W is None
    rows = front.to_rows()
    assert [row["kind"] for row in rows] == ["front", "front", "front", "dr"]
    assert rows[1]["weight_0"] == 0.5
    assert rows[-1]["scaled_loss_2"] == front.dr.scaled_losses[1]
    assert len({tuple(row) for row in rows}) == 1


def test_dominated_counts_only_points_that_are_worse() -> None:
    points = np.array([[1.0, 3.0], [2.0, 2.0], [2.0, 2.0], [2.5, 2.0], [3.0, 1.0]])
    assert dominated(points, points).tolist() == [False, False, False, True, False]


def test_same_seed_same_front_and_sparse_equals_dense() -> None:
    counts = np.random.default_rng(0).poisson(0.5, (30, 20)).astype(float)
    options = {"betas": (1, 2), "weights": 3, "tol": 0, "max_iter": 30, "random_state": 5}
    one, two = (flat.pareto_front(counts, 3, **options) for _ in range(2))
    np.testing.assert_array_equal(one.losses, two.losses)
    np.testing.assert_allclose(flat.pareto_front(sp.csr_array(counts), 3, **options).losses, one.losses, rtol=1e-9)


def test_callback_sees_the_runs_between_the_ends_and_can_end_them() -> None:
    seen: list[tuple[float, ...]] = []
    front = front_of(weights=3, callback=lambda progress: seen.append(tuple(progress.weights)) or len(seen) % 5 == 0)
    assert (0.5, 0.5) in seen  # the DR point, whose weights move, comes first
    assert front.points[1].n_iter == 5
    assert front.points[0].n_iter == 150


def test_convergence_warning_counts_the_runs() -> None:
    with pytest.warns(ConvergenceWarning, match="4 of 4 runs"):
        front_of(weights=3, tol=1e-12, max_iter=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        front_of(weights=3, tol=0, max_iter=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"betas": (1,)}, "at least two"),
        ({"betas": (1, 1)}, "twice"),
        ({"betas": ()}, "empty"),
        ({"weights": 1}, "weights=1"),
        ({"weights": True}, "weights"),
        ({"weights": [0.5, 0.5]}, "shape"),
        ({"weights": [[0.5, 0.6]]}, "sum to"),
        ({"weights": [[0.5, 0.2, 0.3]]}, "one weight per beta"),
        ({"method": "magic"}, "method='magic'"),
        ({"zeros": "keep"}, "zeros"),
        ({"update": "magic"}, "update='magic'"),
        ({"policy": "magic"}, "policy='magic'"),
        ({"references": [1, -1]}, "references"),
        ({"max_iter": 0}, "max_iter"),
        ({"init": "custom", "W": None}, "custom"),
        ({"init": "random"}, "custom"),
    ],
)
def test_bad_arguments(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        front_of(**options)


def test_bad_data() -> None:
    with pytest.raises(ValueError, match=r"pareto_front.*X\[0, 1\] = -1"):
        pareto_front(DRNMF(1, betas=(0, 1)), [[1.0, -1.0]])
    with pytest.raises(ValueError, match="zero entries"):
        pareto_front(DRNMF(1, betas=(0, 1)), [[1.0, 0.0]])
    with pytest.raises(ValueError, match="n_components"):
        pareto_front(DRNMF(0, betas=(0, 1)), [[1.0, 1.0]])


def test_sparse_data_under_other_losses_is_warned_about() -> None:
    with pytest.warns(UserWarning, match="dense tiles"):
        pareto_front(DRNMF(2, betas=(0, 1), tol=0, max_iter=2), sp.csr_array(X), weights=2)


def test_public_names() -> None:
    assert "weighted" in METHODS
    assert set(drnmf.__all__) <= set(dir(drnmf))
    assert all(hasattr(drnmf, name) for name in drnmf.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        drnmf.nothing  # noqa: B018


@pytest.mark.slow
def test_tchebycheff_balances_the_weighted_losses() -> None:
    data = synthetic((0, 1), shape=(40, 30), rank=3, random_state=0)
    model = DRNMF(3, betas=(0, 1), zeros="floor", init="custom", tol=0, max_iter=1500)
    points = [(0.49, 0.51), (0.5, 0.5), (0.51, 0.49)]
    front = pareto_front(model, data.X, method="tchebycheff", weights=points, W=data.W, H=data.H)
    weighted = front.weights * front.scaled_losses
    np.testing.assert_allclose(weighted[1, 0], weighted[1, 1], rtol=2e-3)
    np.testing.assert_allclose(front.scaled_losses[1], front.dr.scaled_losses, rtol=1e-3)
    assert (np.diff(front.scaled_losses[:, 0]) <= 1e-6).all()


@pytest.mark.parametrize("method", ["weighted", "tchebycheff"])
def test_warm_starts_cost_less_and_are_as_good(method: str) -> None:
    data = synthetic((1, 2), shape=(60, 40), rank=4, random_state=0)
    options = {"betas": (1, 2), "method": method, "init": "custom", "W": data.W, "H": data.H, "tol": 1e-5}
    cold = flat.pareto_front(data.X, 4, max_iter=3000, **options)
    warm = flat.pareto_front(data.X, 4, max_iter=3000, warm_start=True, **options)
    assert sum(point.n_iter for point in warm.points[1:-1]) < 0.7 * sum(point.n_iter for point in cold.points[1:-1])
    largest = (warm.weights * warm.scaled_losses).sum(axis=1) / (cold.weights * cold.scaled_losses).sum(axis=1)
    assert largest.max() < 1.002
