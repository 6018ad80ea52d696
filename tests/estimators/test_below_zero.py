"""Readings below zero under beta = 2: kept, because clipping them is a bias."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import drnmf
from drnmf import BetaNMF, Solver


def readings(seed: int = 0, noise: float = 1.0):
    rng = np.random.default_rng(seed)
    W, H = rng.gamma(0.5, 1.0, (50, 3)), rng.gamma(0.5, 1.0, (3, 40))
    return W @ H + rng.normal(0.0, noise, (50, 40)), W @ H


def model(update: str = "auto", **more):
    asked = {"beta": 2, "random_state": 0, "max_iter": 60, "tol": 0, "negatives": "keep"}
    return BetaNMF(3, solver=Solver(update=update), **asked | more)


@pytest.mark.parametrize("update", ["auto", "mu", "extrapolated", "monotone", "newton", "hals"])
@pytest.mark.parametrize("form", ["dense", "sparse", "gaps", "weights"])
def test_every_rule_lowers_the_loss_and_stays_nonnegative(update, form):
    X, _ = readings()
    given = {"entry_weight": np.random.default_rng(1).uniform(0.2, 1.0, X.shape)} if form == "weights" else {}
    weight = given.get("entry_weight", np.ones(X.shape))
    if form == "gaps":
        X[::5, ::3] = np.nan
    fitted = model(update)
    W = fitted.fit_transform(sp.csr_array(X) if form == "sparse" else X, **given)
    H = fitted.components_
    assert (W >= 0).all()
    assert (H >= 0).all()
    losses = fitted.trace_.losses[:, 0]
    assert np.isfinite(losses).all()
    assert (np.diff(losses) <= 1e-9 * losses[0]).all()
    assert losses[-1] < losses[0]
    loss = 0.5 * float(np.nansum(weight * (X - W @ H) ** 2))
    assert np.isclose(fitted.losses_[0], loss, rtol=1e-6)


def test_clipping_biases_and_keeping_does_not():
    X, V = readings(noise=2.0)
    errors = {}
    for how in ("keep", "clip"):
        fitted = model(negatives=how, max_iter=300)
        errors[how] = float(((fitted.fit_transform(X) @ fitted.components_) - V).mean())
    assert abs(errors["keep"]) < 0.1 < errors["clip"]


def test_transform_score_and_assign_take_them():
    X, _ = readings(noise=0.3)
    fitted = model(max_iter=300).fit(X)
    np.testing.assert_allclose(
        fitted.transform(X) @ fitted.components_, fitted.fit_transform(X) @ fitted.components_, atol=0.1
    )
    assert np.isfinite(fitted.score(X))
    assert (fitted.assign(X) == 0).any()


def test_other_losses_and_empty_sums_are_refused():
    X, _ = readings()
    for wrong in (model(beta=1), drnmf.DRNMF(3, betas=(1, 2), negatives="keep")):
        with pytest.raises(ValueError, match="negatives='keep' needs beta=2"):
            wrong.fit(X)
    with pytest.raises(ValueError, match="mean must be positive"):
        model().fit(-np.abs(X))
    with pytest.raises(ValueError, match="infinity"):
        model().fit(np.where(X < -1, -np.inf, X))
    clipped = BetaNMF(3, beta=1, random_state=0, max_iter=5).fit(np.maximum(X, 0))
    clipped.negatives = "keep"
    with pytest.raises(ValueError, match="negatives='keep' needs beta=2"):
        clipped.transform(X)


@pytest.mark.slow
def test_discover_takes_them():
    rng = np.random.default_rng(3)
    W, H = rng.gamma(0.4, 20.0, (60, 2)), rng.dirichlet(np.full(20, 0.2), 2)
    X = W @ H + rng.normal(0.0, 0.05, (60, 20))
    assert (X < 0).any()
    asked = drnmf.DRNMF(betas="auto", negatives="keep", random_state=0, max_iter=100, tol=1e-4)
    found = drnmf.discover(X, asked, ranks=(2, 3), n_runs=4)
    assert [loss.beta for loss in found.losses] == [2.0]
    assert drnmf.match(found.components, H, least=0.95).index.tolist().count(-1) == len(found.components) - 2
    assert any("kept as they are" in note for note in found.notes)


def test_what_is_drawn_anew_goes_below_zero_where_x_does():
    from drnmf.backends.observed import Entries
    from drnmf.selection.resampling import redrawn, resampled

    ones = Entries(np.ones((1, 400)))
    assert redrawn(np.full((1, 400), 0.5), ones, 0).min() == 0.0
    X = np.full((1, 400), 0.5)
    X[0, 0] = -0.5
    assert (redrawn(X, ones, 0) < 0).mean() > 0.2
    with pytest.raises(ValueError, match="draws counts"):
        resampled(np.array([[-1.0, 2.0]]), "poisson", 0)
