"""No result depends on the unit of X: X and 4^k X give the same bits, the results being in the unit that X came in."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import drnmf
from drnmf import (
    DRNMF,
    L1,
    L2,
    BetaNMF,
    HeldOut,
    Interval,
    MultiObjectiveNMF,
    NegativeBinomial,
    Smooth,
    Solver,
    Sparsity,
    Volume,
    pareto_front,
)
from drnmf.algorithms.result import Result
from drnmf.backends.open import open_data
from drnmf.problem.units import Units
from tests import flat

RNG = np.random.default_rng(0)
SHAPE = (23, 37)
X = RNG.gamma(1.0, size=(SHAPE[0], 3)) @ RNG.gamma(1.0, size=(3, SHAPE[1])) * RNG.gamma(5.0, 0.2, SHAPE)
SPARSE = np.where(RNG.random(SHAPE) < 0.7, 0.0, X)
GAPS = np.where(RNG.random(SHAPE) < 0.1, np.nan, X)
BETAS = (0, 0.5, 1, 1.5, 2, 3, 4, 5)
FAST = {"max_iter": 8, "tol": 0, "random_state": 0}
POWERS = {np.float32: (-60, -28, 20, 60), np.float64: (-480, -60, 20, 480)}

pytestmark = [
    pytest.mark.filterwarnings("ignore:Only beta"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def times(values, exponent):
    """Multiply by a power of two, exactly where the dtype can hold the product."""
    return np.ldexp(values, exponent)


def assert_same(model, wanted, power):
    """Factors by 2^k, losses by 4^(k degree), and everything without a unit to the last bit."""
    np.testing.assert_array_equal(model.components_, times(wanted.components_, power))
    np.testing.assert_array_equal(model.mean_row_, times(wanted.mean_row_, power))
    degrees = np.array([2 * loss.degree for loss in wanted.omega_], dtype=int)
    np.testing.assert_array_equal(model.losses_, times(wanted.losses_, power * degrees))
    np.testing.assert_array_equal(model.trace_.losses, times(wanted.trace_.losses, power * degrees))
    if len(degrees) > 1:
        np.testing.assert_array_equal(model.scaled_losses_, wanted.scaled_losses_)
        np.testing.assert_array_equal(model.trace_.scaled_losses, wanted.trace_.scaled_losses)
    np.testing.assert_array_equal(model.weights_, wanted.weights_)
    assert (model.gap_, model.stationarity_) == (wanted.gap_, wanted.stationarity_)


def pair(make, given, power, **more):
    """The same fit of X and of 4^k X; returns both models and both W."""
    models = make(), make()
    W = models[0].fit_transform(given, **more)
    scaled = given.copy()
    if sp.issparse(given):
        scaled.data = times(given.data, 2 * power)
    else:
        scaled = times(given, 2 * power)
    return models, (W, models[1].fit_transform(scaled, **more)), scaled


LAYOUTS = {
    "rows": (X, {}),
    "columns": (np.asfortranarray(X), {}),
    "sparse": (sp.csr_array(SPARSE), {}),
    "gaps": (GAPS, {}),
    "weights": (X, {"entry_weight": RNG.uniform(0.5, 2.0, SHAPE)}),
}


@pytest.mark.parametrize("dtype", POWERS, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("beta", BETAS)
def test_every_beta_layout_and_dtype(beta, layout, dtype):
    given, more = LAYOUTS[layout]
    given = given.astype(dtype, order="K") if isinstance(given, np.ndarray) else given.astype(dtype)
    for power in (min(power, int(480 / max(beta, 1))) for power in POWERS[dtype]):  # losses that float64 can hold
        models, (W, V), _ = pair(lambda: BetaNMF(3, beta=beta, zeros="floor", **FAST), given, power, **more)
        np.testing.assert_array_equal(V, times(W, power))
        assert_same(models[1], models[0], power)


@pytest.mark.parametrize("update", ["auto", "mu"])
@pytest.mark.parametrize(
    ("beta", "dtype", "scale"),
    [(3, np.float32, 1e-18), (3, np.float32, 1e16), (4, np.float32, 1e-12), (4, np.float32, 1e12)]
    + [(5, np.float32, 1e-10), (5, np.float32, 1e10), (2, np.float32, 1e-30), (3, np.float64, 1e-150)]
    + [(beta, np.float64, 1e-300) for beta in (0, 1, 2)],
)
def test_units_far_from_one(beta, dtype, scale, update):
    """Any unit, not a power of four alone: the fit is as good as in a common one."""
    models = [BetaNMF(3, beta=beta, max_iter=100, random_state=0, solver=Solver(update=update)) for _ in range(2)]
    fitted = [
        model.inverse_transform(model.fit_transform((X * unit).astype(dtype)).astype(np.float64)) / unit
        for model, unit in zip(models, (1.0, scale), strict=True)
    ]
    errors = [np.linalg.norm(X - V) / np.linalg.norm(X) for V in fitted]
    assert errors[1] == pytest.approx(errors[0], rel=0.02)


@pytest.mark.parametrize("scale", [1e20, 1e30, 1e-30])
def test_several_losses_in_float32(scale):
    fits = [DRNMF(3, betas=(0, 1, 2), max_iter=200, random_state=0).fit((X * s).astype(np.float32)) for s in (1, scale)]
    assert fits[1].reconstruction_err_ == pytest.approx(fits[0].reconstruction_err_, rel=1e-2)


MODELS = {
    "dr": lambda: DRNMF(3, betas=(0, 1, 2), **FAST),
    "interval": lambda: DRNMF(3, betas=Interval(0, 2), **FAST),
    "minimax": lambda: DRNMF(3, betas=(0.5, 1.5), solver=Solver(policy="minimax"), **FAST),
    "weighted": lambda: MultiObjectiveNMF(3, betas=(1, 3), solver="mu", **FAST),
    "two starts": lambda: MultiObjectiveNMF(3, betas=(1, 2), n_init=2, init="random", **FAST),
}


@pytest.mark.parametrize("model", MODELS)
def test_several_losses(model):
    models, (W, V), scaled = pair(MODELS[model], X, 35)
    np.testing.assert_array_equal(V, times(W, 35))
    assert_same(models[1], models[0], 35)
    np.testing.assert_array_equal(models[1].transform(scaled[:5]), times(models[0].transform(X[:5]), 35))


def test_references_sizes_and_given_starts_are_in_the_unit_of_x():
    W0, H0 = RNG.uniform(0.1, 1, (SHAPE[0], 3)), RNG.uniform(0.1, 1, (3, SHAPE[1]))
    found = []
    for unit in (1.0, 4.0**15):
        model = DRNMF(
            3,
            betas=(NegativeBinomial(30 * unit), 2),
            init="custom",
            solver=Solver(references=(5 * unit, 100 * unit**2)),
            **FAST,
        )
        root = np.sqrt(unit)
        W = model.fit_transform(X * unit, W=W0 * root, H=H0 * root)
        assert model.loss_names_ == [f"NB({30 * unit:g})", "Fro"]
        np.testing.assert_array_equal(model.references_, (5 * unit, 100 * unit**2))
        found.append((W / root, model.components_ / root, model.scaled_losses_, model.losses_ / (unit, unit**2)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_uncertainties_are_in_the_unit_of_x():
    U, found = RNG.uniform(0.1, 1, SHAPE), []
    for unit in (1.0, 4.0**15):
        model = BetaNMF(3, beta=2, **FAST)
        W = model.fit_transform(X * unit, uncertainty=U * unit)
        found.append((W / np.sqrt(unit), model.losses_))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_a_front():
    points = [
        pareto_front(DRNMF(2, betas=(0, 3), **FAST), X * unit, weights=3, return_factors=True) for unit in (1, 4.0**20)
    ]
    np.testing.assert_array_equal(points[0].scaled_losses, points[1].scaled_losses)
    np.testing.assert_array_equal(points[0].losses * (1.0, 4.0**60), points[1].losses)
    np.testing.assert_array_equal(points[0].references * (1.0, 4.0**60), points[1].references)
    np.testing.assert_array_equal(points[0].dr.W * 2.0**20, points[1].dr.W)


def test_callbacks_and_held_out_entries_are_told_in_the_unit_of_x():
    seen = []
    model = BetaNMF(
        2,
        beta=3,
        solver=Solver(callback=lambda p: seen.append((p.losses[0], p.scaled_losses[0], p.components()))),
        **FAST,
    )
    model.set_params(solver__normalize=False, solver__update="mu").fit(X * 4.0**20, entry_weight=HeldOut(0.2, 0))
    assert seen[-1][0] == seen[-1][1] == model.losses_[0]
    np.testing.assert_array_equal(seen[-1][2], model.components_)
    again = BetaNMF(2, beta=3, solver=Solver(normalize=False, update="mu"), **FAST).fit(X, entry_weight=HeldOut(0.2, 0))
    np.testing.assert_array_equal(model.held_out_losses_, again.held_out_losses_ * 4.0**60)
    np.testing.assert_array_equal(model.dispersions_, again.dispersions_ * 4.0**60)


def test_a_saved_model_and_its_score(tmp_path):
    fits = [DRNMF(3, betas=(0, 2), **FAST).fit(X * unit) for unit in (1.0, 4.0**30)]
    for model in fits:
        model.save(tmp_path / "model.npz")
        unit = 1.0 if model is fits[0] else 4.0**30
        loaded = drnmf.load(tmp_path / "model.npz")
        np.testing.assert_array_equal(loaded.transform(X[:3] * unit), fits[0].transform(X[:3]) * np.sqrt(unit))
    # a density has the inverse of the unit of X
    scores = fits[0].score(X), fits[1].score(X * 4.0**30)
    assert scores[0] - scores[1] == pytest.approx(np.log(4.0**30), rel=1e-9)


def test_a_checkpoint_of_another_unit_is_refused(tmp_path):
    BetaNMF(3, solver=Solver(checkpoint=tmp_path), **FAST).fit(X)
    with pytest.raises(ValueError, match="another X"):
        BetaNMF(3, solver=Solver(checkpoint=tmp_path), **FAST).fit(X * 4.0)


def test_losses_beyond_float64_leave_the_rest_alone():
    """One above is refused, one below is zero with a note; factors and scaled losses do not notice."""
    wanted = DRNMF(3, betas=(1, 3), **FAST).fit(X)
    model = DRNMF(3, betas=(1, 3), **FAST).fit(times(X, -600))
    assert model.losses_[1] == 0.0
    assert any("below the range of float64" in note for note in model.notes_)
    np.testing.assert_array_equal(model.scaled_losses_, wanted.scaled_losses_)
    np.testing.assert_array_equal(model.components_, times(wanted.components_, -300))
    with pytest.raises(ValueError, match="Divide X by its mean"):
        DRNMF(3, betas=(1, 3), **FAST).fit(times(X, 600))


def test_noise_and_rank_fit_in_a_unit_of_their_own():
    settings = {"betas": (1, 2, 3), "held_out": 0, "max_iter": 20, "random_state": 0}
    profiles = [flat.noise_profile(X * unit, 3, **settings) for unit in (1, 4.0**40)]
    for one, other in zip(profiles[0].table, profiles[1].table, strict=True):
        assert one["loss"] * 4.0 ** (40 * one["beta"]) == other["loss"]


@pytest.mark.parametrize(("held", "left", "right"), [(None, 4.0, 4.0), ("H", 16.0, 1.0), ("W", 1.0, 16.0)])
def test_a_factor_that_sums_to_one_has_no_unit(held, left, right):
    units = Units(16.0, held=held)
    assert (units.left, units.right) == (left, right)
    data = open_data(X * 16.0)
    model = BetaNMF(3, **FAST)
    W = model.fit_transform(X)
    point = Result(
        (model.components_ * right, W.T * left), model.omega_, model.references_, model.losses_, model.scaled_losses_,
        model.weights_, model.trace_, 8, True, "tol",
    )  # fmt: skip
    found = units.result(data, point)
    np.testing.assert_array_equal(found.W, W)
    np.testing.assert_array_equal(found.H, model.components_)


@pytest.mark.parametrize("k", [-9, 7])
@pytest.mark.parametrize(
    ("estimator", "options"),
    [
        (BetaNMF(3, beta=1), {"penalties": [Sparsity(0.01), Volume(0.01)]}),
        (DRNMF(3, betas=(0, 1)), {"penalties": [Smooth(0.01), Sparsity(0.01, on="W")]}),
        (DRNMF(3, betas=(1, 2)), {"sum_to_one": "W", "penalties": [Volume(0.02)]}),
        (BetaNMF(3, beta=2), {"sum_to_one": "H"}),
    ],
    ids=str,
)
def test_penalties_and_constraints_do_not_see_the_unit(estimator, options, k):
    s = 4.0**k
    here, there = (clone(estimator).set_params(random_state=0, max_iter=30, tol=0, **options) for _ in range(2))
    W, V = here.fit_transform(X), there.fit_transform(s * X)
    left = {"W": 1.0, "H": s}.get(here.sum_to_one, math.sqrt(s))
    np.testing.assert_array_equal(left * W, V)
    np.testing.assert_array_equal(s / left * here.components_, there.components_)
    whole = there.reconstruction_err_ / here.reconstruction_err_
    np.testing.assert_allclose(there.penalty_, whole * here.penalty_, rtol=1e-12)
    np.testing.assert_allclose(there.trace_.penalty, whole * here.trace_.penalty, rtol=1e-12)
    np.testing.assert_allclose(left * here.transform(X), there.transform(s * X), rtol=1e-12)


@pytest.mark.parametrize("penalty", [L1, L2])
def test_l1_and_l2_in_another_unit(penalty):
    """What their docstrings say of alpha: times s^(beta - 1/2) and s^(beta - 1)."""
    s, beta = 4.0**6, 2.0
    power = beta - (0.5 if penalty is L1 else 1.0)
    here, there = (
        BetaNMF(3, beta=beta, penalties=[penalty(alpha, on="both")], random_state=0, max_iter=30, tol=0)
        for alpha in (0.3, 0.3 * s**power)
    )
    W, V = here.fit_transform(X), there.fit_transform(s * X)
    np.testing.assert_allclose(math.sqrt(s) * W, V, rtol=1e-10)
    np.testing.assert_allclose(there.penalty_, s**beta * here.penalty_, rtol=1e-10)
    np.testing.assert_allclose(there.reconstruction_err_, s**beta * here.reconstruction_err_, rtol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fixed_components_keep_their_bits_in_every_unit(dtype):
    large = X.astype(dtype) * 1000
    known = large[:1] / 7 + 0.1
    model = BetaNMF(3, fixed=known, random_state=0, max_iter=20, tol=0).fit(large)
    np.testing.assert_array_equal(model.components_[:1], known)
