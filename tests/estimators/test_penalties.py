"""Penalties: what is minimised never rises, alpha = 0 changes nothing, and the answers are those they promise."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import NMF as ScikitNMF

from drnmf import (
    DRNMF,
    L1,
    L2,
    BetaNMF,
    MultiObjectiveNMF,
    Smooth,
    Solver,
    Sparsity,
    Volume,
    discover,
    load,
    pareto_front,
)  # fmt: skip
from drnmf.algorithms import certificates
from drnmf.algorithms.certificates import certify
from drnmf.algorithms.updates import RULES
from drnmf.backends.modes import Matrix
from drnmf.backends.open import open_data
from drnmf.objective.objective import Objective
from drnmf.solve.settings import constraints_of

PENALTIES = [
    L1(0.3), L2(0.3, on="W"), Sparsity(0.05), Sparsity(0.05, on="W"), L1(0.02, on="H", scaled=True), Volume(0.02),
    Volume(0.05, on="W"), Smooth(0.05), Smooth(0.02, axis=0),
]  # fmt: skip
SETS = [(2.0,), (1.0,), (0.0, 1.0), (0.5, 2.0)]
PAIRS = [(rule, betas) for rule in sorted(RULES) for betas in SETS if rule != "hals" or betas == (2.0,)]
TRIED = [(*pair, penalty) for i, pair in enumerate(PAIRS) for penalty in PENALTIES[i % 3 :: 3]]
"""Every penalty with a third of the pairs, every rule but HALS, which has one pair, with all penalties."""


@pytest.fixture
def X(rng):
    return rng.poisson(rng.gamma(1.0, 3.0, (14, 3)) @ rng.gamma(1.0, 1.0, (3, 11))) + 0.5


def fit(X, *, model=BetaNMF, r=3, max_iter=15, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model(r, **({"tol": 0, "max_iter": max_iter, "random_state": 0} | parameters)).fit(X)


def objective(model):
    """What was minimised, row by row."""
    return model.trace_.scaled_losses @ model.trace_.weights[0] + model.trace_.penalty


@pytest.mark.parametrize(("rule", "betas", "penalty"), TRIED, ids=str)
def test_no_step_raises_the_penalised_objective(X, rule, betas, penalty):
    solver = Solver(references=np.ones(len(betas)), update=rule)
    model = fit(X, model=MultiObjectiveNMF, betas=betas, solver=solver, penalties=[penalty])
    path = objective(model)
    assert (np.diff(path) <= 1e-10 * path[:-1]).all()
    assert model.penalty_ > 0
    assert path[-1] == pytest.approx(model.scaled_losses_ @ model.weights_ + model.penalty_, rel=1e-3)


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda penalty: penalty.key)
def test_minimax_steps_never_raise_the_maximum_beside_the_penalty(X, penalty):
    model = fit(X, model=DRNMF, betas=(0, 1, 2), solver=Solver(policy="minimax"), penalties=[penalty])
    path = model.trace_.maximum + model.trace_.penalty
    assert (np.diff(path) <= 0).all()
    assert path[-1] < path[0]


@pytest.mark.parametrize("rule", sorted(RULES))
def test_without_weight_a_penalty_changes_nothing(X, rule):
    plain, zero = (fit(X, beta=2, solver=rule, penalties=p) for p in (None, [L1(0), L2(0), Sparsity(0)]))
    assert plain.components_.tobytes() == zero.components_.tobytes()
    assert plain.trace_.losses.tobytes() == zero.trace_.losses.tobytes()


@pytest.mark.parametrize(("l1_ratio", "beta"), [(1.0, 2), (0.0, 2), (0.5, 2)])
def test_scikit_learns_objective_is_reached(rng, l1_ratio, beta):
    X = rng.gamma(1.0, 1.0, (20, 4)) @ rng.gamma(0.5, 1.0, (4, 15)) + 0.1
    alpha_W, alpha_H = 0.003, 0.002
    W, H = rng.uniform(0.1, 1, (20, 4)), rng.uniform(0.1, 1, (4, 15))
    peer = ScikitNMF(
        4, init="custom", alpha_W=alpha_W, alpha_H=alpha_H, l1_ratio=l1_ratio, max_iter=500, tol=1e-6, solver="cd"
    )
    W_there = peer.fit_transform(X, W=W.copy(), H=H.copy())
    penalties = [
        kind(share * alpha, on=on, scaled=True)
        for kind, share in ((L1, l1_ratio), (L2, 1 - l1_ratio))
        for alpha, on in ((alpha_W, "W"), (alpha_H, "H"))
    ]
    model = BetaNMF(4, beta=beta, init="custom", penalties=penalties, tol=1e-6, max_iter=500)
    W_here = model.fit_transform(X, W=W, H=H)

    def value(W, H):
        entries = l1_ratio * W.sum() + 0.5 * (1 - l1_ratio) * (W**2).sum()
        other = l1_ratio * H.sum() + 0.5 * (1 - l1_ratio) * (H**2).sum()
        return 0.5 * ((X - W @ H) ** 2).sum() + alpha_W * X.shape[1] * entries + alpha_H * X.shape[0] * other

    here = value(W_here, model.components_)
    assert here == pytest.approx(model.reconstruction_err_ + model.penalty_, rel=1e-9)
    assert here <= value(W_there, peer.components_) * 1.001


def test_sparsity_makes_zeros_under_kullback_leibler(rng):
    X = rng.poisson(5 * rng.gamma(0.5, 1.0, (40, 3)) @ rng.gamma(0.5, 1.0, (3, 30))).astype(float)
    zeros = []
    for alpha in (0.0, 0.02, 0.1, 0.3):
        H = fit(X, beta=1, max_iter=150, penalties=[Sparsity(alpha)]).components_
        zeros.append(np.count_nonzero(H / H.max() < 1e-6))
    assert zeros == sorted(zeros)
    assert zeros[-1] > zeros[0] + 5


@pytest.mark.parametrize("penalty", ["sparsity:0.1", "sparsity:0.1:W", "volume:0.02", "smooth:0.1:0"])
@pytest.mark.parametrize("scale", [1e-6, 1e5])
def test_the_answer_does_not_depend_on_the_units(X, penalty, scale):
    here, there = (fit(s * X, beta=1, max_iter=30, penalties=penalty) for s in (1.0, scale))
    np.testing.assert_allclose(there.components_ / np.sqrt(scale), here.components_, rtol=1e-6, atol=1e-9)
    assert there.penalty_ == pytest.approx(scale * here.penalty_, rel=1e-8)


def test_no_rescaling_undoes_sparsity(X):
    """W and H exchanged between themselves by any factor leave it: so the fit needs no balance of its own."""
    model = fit(X, penalties=[Sparsity(0.1)])
    W, H = model.fit_transform(X), model.components_
    factor = np.array([0.1, 2.0, 30.0])
    (term,), setting = model.penalties_.terms, model.penalties_.setting
    values = [
        term.value(term.measure(A.T, "W"), term.measure(B, "H"), setting)
        for A, B in ((W, H), (W * factor, H / factor[:, None]))
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-12)
    assert values[0] == pytest.approx(model.penalty_, rel=1e-9)


def test_sparse_missing_and_weighted_data_are_penalised_alike(X, rng):
    held = np.where(rng.uniform(size=X.shape) < 0.2, np.nan, X)
    for given, weight in ((sp.csr_matrix(X), None), (held, None), (X, rng.uniform(0.5, 2, X.shape))):
        for beta in (1, 2):
            model = BetaNMF(3, beta=beta, tol=0, max_iter=30, random_state=0, penalties=[Sparsity(0.05), L2(0.1)])
            path = objective(model.fit(given, entry_weight=weight))
            assert (np.diff(path) <= 1e-10 * path[:-1]).all()


def test_the_certificate_is_that_of_the_penalised_problem(X):
    model = fit(X, beta=1, max_iter=300, penalties=[L2(0.5)])
    assert model.stationarity_ < 1e-4
    assert model.gap_ == 0
    unpenalised = replace(model.penalties_, terms=())
    losses, data = model.losses_, open_data(X)
    W = fit(X, beta=1, max_iter=300, penalties=[L2(0.5)]).fit_transform(X)
    for penalties, far in ((model.penalties_, False), (unpenalised, True)):
        objective = Objective(model.omega_, model.references_, model.mean_, penalties)
        found = certify(Matrix(data), (model.components_, W.T), objective, model.weights_, losses)
        assert (found.stationarity > 1e-2) == far


@pytest.mark.parametrize("penalties", [(), (L1(0.3), L2(0.2))], ids=["none", "penalties"])
@pytest.mark.parametrize("sum_to_one", [None, "W"])
def test_no_other_multipliers_are_much_better_than_those_of_the_certificate(X, penalties, sum_to_one, monkeypatch):
    """Against a grid of multipliers; far from a solution what the violation is divided by counts too."""
    monkeypatch.setattr(certificates, "ACTIVE_TOLERANCE", 1.0)
    for most, more in ((1, 1.1), (40, 1.01)):
        model = MultiObjectiveNMF(
            3, betas=(1, 2), tol=0, max_iter=most, random_state=0, penalties=list(penalties), sum_to_one=sum_to_one
        )
        W, data, constraints = model.fit_transform(X), open_data(X), constraints_of(model)
        objective = Objective(model.omega_, model.references_, model.mean_, model.penalties_)
        asked = Matrix(data), (model.components_, np.ascontiguousarray(W.T)), objective

        def at(weights, asked=asked, model=model, constraints=constraints):
            return certify(*asked, weights, model.losses_, constraints)

        found = at(model.weights_)
        assert np.isclose(found.multipliers.sum(), 1.0)
        with monkeypatch.context() as alone:
            alone.setattr(certificates, "_MOST_SEARCHED", 1)
            assert at(found.multipliers).stationarity == pytest.approx(found.stationarity, rel=1e-12)
            grid = [at(np.array([t, 1.0 - t])).stationarity for t in np.linspace(0.0, 1.0, 201)]
        assert found.stationarity <= more * min(grid)


def test_transform_applies_what_stands_in_every_row(X):
    for beta in (1, 2):
        model = fit(X, beta=beta, max_iter=200, tol=1e-7, penalties=[L1(0.5), L2(0.2)])
        W = model.transform(X)
        plain = fit(X, beta=beta, max_iter=2, tol=1e-7)
        plain.components_, plain.weights_, plain.references_ = model.components_, model.weights_, model.references_
        assert W.sum() < plain.transform(X).sum()
        alone = model.transform(X[3:4])
        np.testing.assert_allclose(alone[0], W[3], rtol=1e-9)


def test_transform_says_what_ties_rows_together(X):
    with pytest.warns(UserWarning, match=r"sparsity:0\.1 ties rows together"):
        fit(X, penalties=[Sparsity(0.1)]).transform(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BetaNMF(3, penalties=[Sparsity(0.1, on="W")]).fit(X).transform(X)


def test_a_model_is_saved_with_its_penalties(X, tmp_path):
    model = fit(X, penalties=[Sparsity(0.1, on="W"), L1(0.25, scaled=True)])
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert again.penalties_ == model.penalties_
    assert again.penalty_ == model.penalty_
    assert again.get_params()["penalties"] == [Sparsity(0.1, on="W"), L1(0.25, scaled=True)]
    assert again.transform(X).tobytes() == model.transform(X).tobytes()
    assert again.trace_.penalty.tobytes() == model.trace_.penalty.tobytes()


def test_a_checkpoint_resumes_under_penalties(X, tmp_path):
    settings = {"penalties": [Sparsity(0.05), L2(0.1)], "max_iter": 60, "tol": 0, "random_state": 0, "betas": (0, 1)}
    whole = DRNMF(3, **settings).fit(X)

    def stop(progress):
        if progress.iteration == 25:
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        DRNMF(3, solver=Solver(checkpoint=tmp_path / "kept", checkpoint_every=0, callback=stop), **settings).fit(X)
    again = DRNMF(3, solver=Solver(checkpoint=tmp_path / "kept", checkpoint_every=0), **settings).fit(X)
    assert again.components_.tobytes() == whole.components_.tobytes()
    assert again.trace_.penalty.tobytes() == whole.trace_.penalty.tobytes()
    with pytest.raises(ValueError, match="penalties"):
        DRNMF(3, solver=Solver(checkpoint=tmp_path / "kept"), **settings | {"penalties": None}).fit(X)


def test_a_front_takes_penalties(X):
    front = pareto_front(
        DRNMF(3, betas=(0, 1), penalties=["sparsity:0.2"], max_iter=60, tol=0, random_state=0), X, weights=3
    )
    assert all(point.penalty > 0 for point in (*front.points, front.dr))
    free = pareto_front(DRNMF(3, betas=(0, 1), max_iter=60, tol=0, random_state=0), X, weights=3)
    assert (front.losses[[0, 2], [1, 0]] > free.losses[[0, 2], [1, 0]]).all()  # the ends are penalised too


def test_a_discovery_fits_its_runs_under_penalties(rng):
    X = rng.poisson(rng.gamma(0.5, 3.0, (20, 2)) @ rng.gamma(0.5, 1.0, (2, 15))).astype(float)
    found = discover(X, BetaNMF(beta=1, max_iter=20, penalties=["sparsity:0.2"]), ranks=2, n_runs=2)
    assert all(run.trace.penalty[-1] > 0 for run in found.runs)


@pytest.mark.parametrize(
    ("penalties", "message"),
    [
        (Sparsity, "is a class"),
        ([3], "is no penalty"),
        ("sparsity", "NAME:ALPHA"),
        ("smart:1", "NAME:ALPHA"),
        ("l1:x", "alpha must be a finite number"),
        ("l1:1:Z", "use 'W' or 'H' or 'both'"),
        ("l1:1:H:fast=1", "none of its options"),
        ("l1:auto", "no rule chooses it"),
        (["sparsity:0.1", "l2:-1"], "alpha must be a finite number >= 0"),
    ],
)
def test_bad_penalties_are_refused(X, penalties, message):
    with pytest.raises(ValueError, match=message):
        BetaNMF(2, penalties=penalties).fit(X)


@pytest.mark.parametrize("alpha", [-1, np.nan, np.inf, "much", True, None])
def test_bad_alphas_are_refused(alpha):
    with pytest.raises(ValueError, match="alpha must be a finite number"):
        Sparsity(alpha)


def test_a_penalty_that_empties_the_model_is_refused(X):
    with pytest.raises(ValueError, match=r"alpha is too large.*from 0\.0"):
        fit(X, beta=2, max_iter=300, penalties=[Sparsity(20.0)])


def test_a_penalty_that_scaling_undoes_is_remarked_on(X):
    assert any("scaling H down" in note for note in fit(X, penalties=[L1(0.1, on="H")]).notes_)
    assert not fit(X, penalties=[L1(0.1)]).notes_
