"""Omega = [a, b]: convexity, the bound, the exchange."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import drnmf
from drnmf import DRNMF, BetaNMF, Interval, Solver, beta_divergence
from drnmf.backends.base import losses_of
from drnmf.backends.open import open_data
from drnmf.losses.interval import coverage
from drnmf.losses.names import as_losses


@given(st.integers(0, 1000), st.floats(0, 3), st.floats(0.01, 2), st.floats(0, 1))
@example(0, 5e-324, 0.5, 0.25)
def test_log_divergence_is_convex_in_beta(seed, low, width, s):
    rng = np.random.default_rng(seed)
    X, V = np.exp(rng.normal(size=(6, 5))), np.exp(rng.normal(size=(6, 5)))
    ends = [beta_divergence(X, V, beta) for beta in (low, low + width)]
    middle = beta_divergence(X, V, low + s * width)
    assert middle <= ends[0] ** (1 - s) * ends[1] ** s * (1 + 1e-9)


@pytest.mark.parametrize(
    "interval", [Interval(0, 2), Interval(0, 2, knots=2), Interval(1, 3, knots=2, tol=1e-6)], ids=str
)
def test_no_beta_of_the_interval_exceeds_the_bound(interval, rng):
    X = rng.gamma(2.0, 1.0, (40, 4)) @ rng.gamma(2.0, 1.0, (4, 30)) * rng.gamma(4.0, 0.25, (40, 30)) + 0.01
    model = DRNMF(4, betas=interval, tol=0, max_iter=150, random_state=0)
    W = model.fit_transform(X)
    coverage = model.coverage_
    assert coverage.scaled_losses.max() <= coverage.bound
    assert any(f"{coverage.bound:.6f}" in note for note in model.notes_)
    # on a grid of 41 with e(beta) as stored there
    grid = np.linspace(interval.low, interval.high, 41)
    losses = losses_of(open_data(X), W, model.components_, as_losses(grid))
    references = np.exp(np.interp(grid, coverage.betas, np.log(coverage.references)))
    on_grid = np.isin(np.round(grid, 12), np.round(coverage.betas, 12))
    assert on_grid.all()
    assert (losses / references).max() <= coverage.bound
    # the knots are among the betas, in order, and every one that was added is named with its iteration
    assert (np.diff(model.betas_) > 0).all()
    assert set(interval.first_knots()) <= set(model.betas_.tolist())
    added = {beta: int(k) for k, beta in model.trace_.added}
    assert set(added) == set(model.betas_.tolist()) - set(interval.first_knots())
    assert model.trace_.scaled_losses.shape == (model.n_iter_ + 1, model.betas_.size)
    for b, beta in enumerate(model.betas_):
        missing = np.isnan(model.trace_.scaled_losses[:, b])
        assert missing.sum() == added.get(beta, 0)
    assert model.reconstruction_err_ == pytest.approx(np.nanmin(model.trace_.maximum[-150:]), rel=1e-9)


@pytest.mark.parametrize("grid", [2, 3, 6, 81])
def test_the_bound_holds_between_the_betas_that_are_looked_at(grid):
    """Of a fit and of reference fits as unlike as they come, on a grid of 401."""
    rng, fine = np.random.default_rng(grid), np.linspace(0.0, 2.0, 401)
    interval = Interval(0, 2, knots=2, grid=grid)
    for trial in range(12):
        X, V, *fits = np.exp((0.3, 1.0, 2.0)[trial % 3] * rng.normal(size=(2 + 1 + trial % 4, 5, 4)))

        def losses(Y, betas, X=X):
            return np.array([beta_divergence(X, Y, beta) for beta in betas])

        points = interval.points()
        references = np.array([losses(Y, points) for Y in fits])
        found = coverage(interval, losses(V, points), references, np.zeros(len(points)), 1.0)
        reached = (losses(V, fine) / np.min([losses(Y, fine) for Y in fits], axis=0)).max()
        assert reached <= found.bound
        assert grid < 81 or found.bound < 1.01 * max(reached, 1.0)


def test_the_printed_bound_holds_where_nobody_looked():
    """The references of both ends are the fits of their losses alone."""
    fine = np.linspace(0.5, 4.0, 81)
    X = np.exp(1.5 * np.random.default_rng(0).normal(size=(30, 20)))
    options = {"tol": 0, "max_iter": 60, "random_state": 0, "solver": "mu"}
    model = DRNMF(3, betas=Interval(0.5, 4, knots=2, grid=2), **options)
    W = model.fit_transform(X)
    ends = [BetaNMF(3, beta=beta, **options) for beta in (0.5, 4)]
    along = [losses_of(open_data(X), end.fit_transform(X), end.components_, as_losses(fine)) for end in ends]
    reached = losses_of(open_data(X), W, model.components_, as_losses(fine)) / np.min(along, axis=0)
    assert reached.max() > 1.01 * reached[[0, -1]].max()
    assert reached.max() <= model.coverage_.bound


def test_exchange_adds_the_worst_beta():
    X = np.exp(1.5 * np.random.default_rng(0).normal(size=(30, 20)))
    options = {"tol": 0, "max_iter": 60, "random_state": 0, "solver": "mu"}  # slow enough to leave something to add
    rough = DRNMF(3, betas=Interval(0.5, 4, knots=2, max_knots=2), **options).fit(X)
    fine = DRNMF(3, betas=Interval(0.5, 4, knots=2, tol=1e-4, max_knots=5), **options).fit(X)
    assert rough.trace_.added.shape == (0, 2)
    assert fine.trace_.added[0, 0] == 30  # half of the iterations are for the first knots
    assert fine.n_iter_ == rough.n_iter_ == len(fine.trace_.seconds) - 1 == 60
    assert fine.coverage_.factor < rough.coverage_.factor


@pytest.mark.parametrize("tol", [0, 1e-2, 1e-9])
def test_max_iter_is_for_all_rounds(rng, tol):
    X = np.exp(1.5 * rng.normal(size=(30, 20)))
    model = DRNMF(3, betas=Interval(0.5, 4, tol=1e-5), max_iter=90, tol=tol, init="random", random_state=0)
    if tol == 1e-9:
        with pytest.warns(ConvergenceWarning):
            model.fit(X)
    else:
        model.fit(X)
    assert model.n_iter_ == len(model.trace_.seconds) - 1 <= 90
    assert (model.n_iter_ == 90) == (tol != 1e-2)


def test_a_callback_ends_the_exchange(rng):
    X = np.exp(1.5 * rng.normal(size=(30, 20)))
    betas = Interval(0.5, 4, tol=1e-9)
    model = DRNMF(3, betas=betas, random_state=0, solver=Solver(callback=lambda progress: progress.iteration == 7)).fit(
        X
    )
    assert (model.n_iter_, model.reason_) == (7, "callback")


def test_text_form_save_and_load(rng, tmp_path):
    X = rng.uniform(0.1, 1, (15, 12))
    model = DRNMF(3, betas="0..2", tol=0, max_iter=20, random_state=0).fit(X)
    same = DRNMF(3, betas=Interval(0, 2), tol=0, max_iter=20, random_state=0).fit(X)
    np.testing.assert_array_equal(model.components_, same.components_)
    same.save(tmp_path / "model.npz")
    loaded = drnmf.load(tmp_path / "model.npz")
    assert loaded.betas == Interval(0, 2)
    assert loaded.coverage_.bound == same.coverage_.bound
    np.testing.assert_array_equal(loaded.coverage_.scaled_losses, same.coverage_.scaled_losses)


@pytest.mark.parametrize("ends", [(2, 1), (-1, 1), (0, np.inf), (1, 1)])
def test_bad_intervals(ends):
    with pytest.raises(ValueError, match="low < high"):
        Interval(*ends)


def test_bad_uses(rng):
    X = rng.uniform(0.1, 1, (10, 8))
    with pytest.raises(ValueError, match="not an interval"):
        DRNMF(2, betas="0..x").fit(X)
    with pytest.raises(ValueError, match="references cannot be given"):
        DRNMF(2, betas=Interval(0, 2), solver=Solver(references=(1, 1, 1))).fit(X)
    X[0, 0] = 0
    with pytest.raises(ValueError, match="zeros='floor'"):
        DRNMF(2, betas=Interval(0, 2)).fit(X)
