"""Runs under weights of the entries: masked is removed, weight two is the row twice, and every rule lowers its loss."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf.algorithms.loop import Control, solve
from drnmf.algorithms.updates import RULES
from drnmf.algorithms.weights import POLICIES
from drnmf.backends.observed import Entries, HeldOut, Outer, Stored, weigh
from drnmf.backends.open import open_data
from drnmf.losses.names import from_text
from drnmf.objective.objective import Objective

M, N, R = 40, 30, 4


def problem(zeros=0.0):
    rng = np.random.default_rng(0)
    X = rng.gamma(0.5, 1.0, (M, N)) + 1e-3
    X[rng.random((M, N)) < zeros] = 0.0
    return X, rng.random((M, R)) + 0.1, rng.random((R, N)) + 0.1


def run(data, W, H, losses, update="auto", max_iter=60):
    omega = tuple(map(from_text, losses.split()))
    objective = Objective(omega, np.ones(len(omega)), data.mean)
    policy = POLICIES["fixed" if len(omega) == 1 else "auto"]
    return solve(data, W, H, objective, RULES[update], policy, Control(max_iter=max_iter, tol=0))


@pytest.mark.parametrize("losses", ["1", "2", "0 1", "nb:3"])
@pytest.mark.parametrize("kind", ["rows and columns", "entries", "NaN"])
def test_masked_is_removed(losses, kind):
    X, W, H = problem()
    u, v = np.ones(M), np.ones(N)
    u[[1, 20]] = v[[0, 3, 29]] = 0.0
    small = run(open_data(np.ascontiguousarray(X[u > 0][:, v > 0])), W[u > 0], H[:, v > 0].copy(), losses, "newton")
    seen = np.outer(u, v)
    given, observed = {
        "rows and columns": (X, Outer(u, v)),
        "entries": (X, Entries(seen)),
        "NaN": (np.where(seen > 0, X, np.nan), None),
    }[kind]
    whole = run(weigh(open_data(given), observed), W, H, losses, "newton")
    np.testing.assert_allclose(whole.trace.scaled_losses, small.trace.scaled_losses, rtol=1e-10)
    np.testing.assert_allclose(whole.W[u > 0] @ whole.H[:, v > 0], small.W @ small.H, rtol=1e-6)


@pytest.mark.parametrize("losses", ["1", "2", "0 1"])
def test_a_weight_of_two_is_the_row_twice(losses):
    X, W, H = problem()
    u, twice = np.ones(M), [*range(M), 7]
    u[7] = 2.0
    one = run(weigh(open_data(X), Outer(u, np.ones(N))), W, H, losses, "mu")
    two = run(open_data(X[twice]), W[twice], H, losses, "mu")
    np.testing.assert_allclose(one.trace.scaled_losses, two.trace.scaled_losses, rtol=1e-10)


@pytest.mark.parametrize("update", ["auto", "mu", "extrapolated", "monotone", "newton"])
@pytest.mark.parametrize("losses", ["2", "1", "0"])
@pytest.mark.parametrize("kind", ["NaN", "entries", "rows and columns", "held out", "stored"])
def test_every_rule_lowers_the_loss_under_weights(update, losses, kind):
    X, W, H = problem()
    rng = np.random.default_rng(3)
    if kind == "NaN":
        data = weigh(open_data(np.where(rng.random(X.shape) < 0.2, np.nan, X)), None)
    elif kind == "stored":
        stored = sp.csr_array(np.where(rng.random(X.shape) < 0.3, X, 0.0))
        data = weigh(open_data(stored), Stored.of(stored))
    else:
        observed = {
            "entries": Entries(rng.uniform(0.0, 3.0, X.shape)),
            "rows and columns": Outer(rng.uniform(0.1, 3.0, M), rng.uniform(0.1, 3.0, N)),
            "held out": HeldOut(0.2, 1),
        }[kind]
        data = weigh(open_data(X), observed)
    trace = run(data, W, H, losses, update, 80).trace.scaled_losses[:, 0]
    assert np.isfinite(trace).all()
    assert trace[-1] < 0.9 * trace[0]
    if update != "extrapolated":
        assert (np.diff(trace) <= 1e-12 * trace[0]).all()


def test_coordinate_descent_takes_a_curvature_for_every_column_under_weights():
    X, W, H = problem()
    data = weigh(open_data(X), Entries(np.random.default_rng(0).random(X.shape)))
    found = run(data, W, H, "2", "hals", 200)
    assert (np.diff(found.trace.scaled_losses[:, 0]) <= 1e-12 * found.trace.scaled_losses[0, 0]).all()
    further = run(data, found.W, found.H, "2", "newton", 100)
    assert further.losses[0] == pytest.approx(found.losses[0], rel=1e-2)


def test_coordinate_descent_reaches_the_same_minimum_under_weights_of_rows_and_columns():
    """Weights in the least squares of every row and column: as a run on entries with the same weights."""
    X, W, H = problem()
    rng = np.random.default_rng(3)
    u, v = rng.uniform(0.1, 3.0, M), rng.uniform(0.1, 3.0, N)
    fast = run(weigh(open_data(X), Outer(u, v)), W, H, "2", "hals", 400)
    slow = run(weigh(open_data(X), Entries(np.outer(u, v))), fast.W, fast.H, "2", "newton", 50)
    assert slow.losses[0] == pytest.approx(fast.losses[0], rel=1e-4)
