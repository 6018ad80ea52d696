"""The negative binomial as a loss of fits: alone, inside MO and DR, with every rule, in files and in commands."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

import drnmf
from drnmf import DRNMF, BetaNMF, MultiObjectiveNMF, NegativeBinomial, Solver, load
from drnmf.algorithms.updates import RULES
from drnmf.cli import app
from drnmf.losses.base import betas_of
from tests.flat import make

RANK, SIZE = 4, 1.0


def planted(seed: int, size: float = SIZE) -> tuple[np.ndarray, np.ndarray]:
    """Counts with variance v + v^2 / size around a model of rank 4, and the H of that model."""
    rng = np.random.default_rng(seed)
    W, H = rng.gamma(0.5, 1.0, (80, RANK)), rng.gamma(0.5, 1.0, (RANK, 40)) * 40.0 + 1e-3
    V = W @ H + 0.05
    return rng.poisson(rng.gamma(size, V / size)).astype(float), H


def matched_cosine(H: np.ndarray, truth: np.ndarray) -> float:
    """Mean cosine of the components with those of the truth, under the best assignment."""
    a, b = (F / np.linalg.norm(F, axis=1, keepdims=True) for F in (H, truth))
    cosines = a @ b.T
    return max(float(np.mean([cosines[k, order[k]] for k in range(RANK)])) for order in permutations(range(RANK)))


def recovered(X: Any, truth: np.ndarray, beta: Any) -> float:
    model = BetaNMF(RANK, beta=beta, n_init=3, max_iter=300, tol=1e-7, random_state=0)
    return matched_cosine(model.fit(X).components_, truth)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_it_recovers_more_of_a_planted_truth_than_kl():
    problems = [planted(seed) for seed in range(5)]
    ours, kl = (np.array([recovered(*problem, beta) for problem in problems]) for beta in (NegativeBinomial(SIZE), 1))
    assert ours.mean() > kl.mean() + 0.05, (ours, kl)
    assert (ours > kl).all(), (ours, kl)


COUNTS = planted(7, 30.0)[0] + 1.0  # no zeros, so that every loss may stand beside it
HUGE = NegativeBinomial(1e12)
RUN = {"max_iter": 60, "tol": 0, "random_state": 0}


@pytest.mark.parametrize("update", sorted(set(RULES) - {"auto", "newton", "hals"}))
@pytest.mark.parametrize("sparse", [False, True])
def test_a_huge_size_is_kl(update, sparse):
    X = sp.csr_array(np.where(COUNTS > 2, COUNTS, 0.0)) if sparse else COUNTS
    ours, kl = (BetaNMF(RANK, beta=beta, solver=Solver(update=update), **RUN).fit(X) for beta in (HUGE, 1))
    np.testing.assert_allclose(ours.losses_, kl.losses_, rtol=1e-6)
    np.testing.assert_allclose(ours.trace_.scaled_losses, kl.trace_.scaled_losses, rtol=1e-6)
    np.testing.assert_allclose(ours.components_, kl.components_, rtol=1e-6, atol=1e-6 * kl.components_.max())


@pytest.mark.slow
@pytest.mark.parametrize("update", ["auto", "newton"])
def test_a_huge_size_is_kl_under_newton_steps(update):
    """The expected curvature of one and the observed one of the other: other steps, the same minimum."""
    ours, kl = (
        BetaNMF(RANK, beta=beta, solver=Solver(update=update), **RUN | {"max_iter": 1500}).fit(COUNTS)
        for beta in (HUGE, 1)
    )
    np.testing.assert_allclose(ours.losses_, kl.losses_, rtol=1e-6)
    np.testing.assert_allclose(ours.components_, kl.components_, rtol=1e-3, atol=1e-3 * kl.components_.max())


@pytest.mark.parametrize(("cls", "options"), [(MultiObjectiveNMF, {}), (DRNMF, {"policy": "frank-wolfe"})])
@pytest.mark.parametrize("update", ["mu", "monotone", "extrapolated"])
def test_a_huge_size_is_kl_inside_mo_and_dr(cls, options, update):
    ours, kl = (make(cls, RANK, betas=(loss, 2), update=update, **RUN, **options).fit(COUNTS) for loss in (HUGE, 1))
    np.testing.assert_allclose(ours.references_, kl.references_, rtol=1e-6)
    np.testing.assert_allclose(ours.losses_, kl.losses_, rtol=1e-6)
    np.testing.assert_allclose(ours.components_, kl.components_, rtol=1e-6, atol=1e-6 * kl.components_.max())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("update", sorted(set(RULES) - {"hals"}))
@pytest.mark.parametrize(
    "omega", [(NegativeBinomial(30),), (1, NegativeBinomial(30)), (0, NegativeBinomial(3), 2)], ids=str
)
def test_the_objective_never_rises(omega, update, dtype):
    X, weights = COUNTS.astype(dtype), np.full(len(omega), 1.0 / len(omega))
    fit = MultiObjectiveNMF(RANK, betas=omega, weights=weights, solver=Solver(update=update), **RUN).fit(X)
    objective = fit.trace_.scaled_losses @ weights
    rise = 1e-12 if dtype is np.float64 else 1e-5
    assert (np.diff(objective) <= rise * objective[:-1]).all()
    assert objective[-1] < 0.5 * objective[0]


@pytest.mark.parametrize("policy", ["auto", "frank-wolfe", "minimax", "mirror"])
def test_inside_dr_the_worst_loss_is_close_to_its_best(policy):
    fit = DRNMF(RANK, betas=(1, NegativeBinomial(5)), solver=Solver(policy=policy), **RUN | {"max_iter": 300}).fit(
        COUNTS
    )
    assert fit.scaled_losses_.max() < 1.2
    assert fit.weights_.sum() == pytest.approx(1.0)


def test_counts_in_other_units_scale_the_size():
    """D(sX, sV) under the size s a is s D(X, V) under a: the same fit."""
    one = BetaNMF(RANK, beta=NegativeBinomial(3), **RUN).fit(COUNTS)
    other = BetaNMF(RANK, beta=NegativeBinomial(3 * 1e3), **RUN).fit(COUNTS * 1e3)
    np.testing.assert_allclose(other.losses_ / 1e3, one.losses_, rtol=1e-9)
    np.testing.assert_allclose(other.components_ / np.sqrt(1e3), one.components_, rtol=1e-6, atol=1e-9)


def test_what_a_fitted_model_says_of_it():
    fit = DRNMF(RANK, betas=(1, NegativeBinomial(30), "nb:5"), **RUN | {"max_iter": 5}).fit(COUNTS)
    assert tuple(fit.loss_names_) == ("KL", "NB(30)", "NB(5)")
    assert fit.betas_[0] == 1.0
    assert np.isnan(fit.betas_[1:]).all()
    assert np.isnan(betas_of(fit.omega_)[1:]).all()
    assert np.isfinite(fit.score(COUNTS))


@pytest.mark.parametrize(
    "model",
    [
        BetaNMF(RANK, beta=NegativeBinomial(0.1), **RUN),
        MultiObjectiveNMF(RANK, betas=(NegativeBinomial(1 / 3), 2), **RUN),
        DRNMF(RANK, betas=(1, NegativeBinomial(30)), **RUN),
    ],
    ids=["beta", "mo", "dr"],
)
def test_models_are_saved_and_loaded(model, tmp_path):
    W = model.fit_transform(COUNTS)
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert again.omega_ == model.omega_
    assert again.loss_names_ == model.loss_names_
    np.testing.assert_array_equal(again.betas_, model.betas_)
    np.testing.assert_array_equal(again.transform(COUNTS[:9]), model.transform(COUNTS[:9]))
    again.set_params(**RUN)
    np.testing.assert_array_equal(again.fit_transform(COUNTS), W)


@pytest.mark.parametrize("size", [0, -1, np.nan, np.inf, "many"])
def test_sizes_that_are_none_are_refused(size):
    with pytest.raises(ValueError, match="size must be a finite number > 0"):
        NegativeBinomial(size)


def invoke(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


FAST = ("--rank", "4", "--max-iter", "20", "--tol", "0", "--seed", "0", "--quiet")


@pytest.mark.parametrize("betas", ["1,nb:30", "nb:30"])
def test_on_the_command_line_with_a_report(betas, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", COUNTS)
    invoke("fit", "X.npy", "--betas", betas, "--out", "run", *FAST)
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert "nb:30" in json.dumps(summary)
    assert "NaN" not in json.dumps(summary)
    page = (tmp_path / "run/report.html").read_text(encoding="utf-8")
    assert "NB(30)" in page
    assert "NaN" not in page.split("<script", 1)[0]
    expected = (DRNMF(4, betas=(1, "nb:30"), **RUN) if "," in betas else BetaNMF(4, beta="nb:30", **RUN)).set_params(
        max_iter=20
    )
    np.testing.assert_array_equal(np.load("run/W.npy"), expected.fit_transform(COUNTS))
    assert load(tmp_path / "run/model.npz").omega_ == expected.omega_
    header = (tmp_path / "run/trace.csv").read_text().splitlines()[0]
    assert "nb:30" in header
    invoke("report", "run")
    invoke("transform", "run", "X.npy", "--out", "codes.npy")


def test_a_front_with_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", COUNTS)
    invoke("pareto", "X.npy", "--betas", "1,nb:30", "--points", "3", "--out", "front", *FAST)
    assert "NB(30)" in (tmp_path / "front/report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("betas", ["nb:0", "nb:", "nb:x", "1,nb:-3"])
def test_wrong_sizes_on_the_command_line(betas, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", COUNTS)
    output = invoke("fit", "X.npy", "--betas", betas, *FAST, code=2)
    assert "nb:" in output


def test_it_is_a_public_name():
    assert drnmf.NegativeBinomial is NegativeBinomial
    assert "NegativeBinomial" in drnmf.__all__


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scale", [1e-320, 1e-300, 2.0**-700, 2.0**700, 1e300])
def test_the_size_that_is_found_goes_with_the_unit(scale: float) -> None:
    X, _ = planted(3)
    X = X[:30, :20]
    model, other = (BetaNMF(3, beta="nb:auto", max_iter=60, random_state=0).fit(X * c) for c in (1.0, scale))
    size, scaled = (found.omega_[0].size for found in (model, other))
    assert scaled / scale == pytest.approx(size, rel=2e-3)  # of four digits
    np.testing.assert_allclose(other.losses_ / scale, model.losses_, rtol=5e-3)
    names, there = ([row["name"] for row in found.noise_profile_.table] for found in (model, other))
    assert there == [*names[:2], other.omega_[0].name]
    assert any(other.omega_[0].name in note for note in other.notes_)
    profile, far = (found.noise_profile_ for found in (model, other))
    criteria = [[row["criterion"] for row in found.table] for found in (profile, far)]
    np.testing.assert_allclose(*criteria, rtol=1e-4)  # masses on a grid have no unit
    W, H = far.solutions[there[0]]
    np.testing.assert_allclose(W / scale @ H, np.matmul(*profile.solutions["KL"]), rtol=1e-3, atol=1e-4 * X.max())


@pytest.mark.slow
@pytest.mark.parametrize("scale", [2.0**-700, 2.0**700])
def test_a_profile_of_x_far_from_one_names_the_same_losses(scale: float) -> None:
    X = planted(3)[0][:30, :20]
    profile, far = (drnmf.noise_profile(drnmf.BetaNMF(3, max_iter=60, random_state=0), X * c) for c in (1.0, scale))
    assert (far.beta, far.interval) == (profile.beta, profile.interval)
    assert [row["within"] for row in far.table] == [row["within"] for row in profile.table]
