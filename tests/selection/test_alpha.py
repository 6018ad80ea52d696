"""alpha="auto": what it promises of the fit, and what it refuses."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

from drnmf import DRNMF, BetaNMF, HeldOut, Interval, Solver, Sparsity, Volume, load, pareto_front
from drnmf.cli import app
from drnmf.selection.alpha import LOSS_OF_FIT
from drnmf.synthetic import planted

SHORT = {"max_iter": 40, "tol": 1e-4, "random_state": 0}


@pytest.fixture
def X(rng):
    W = rng.gamma(0.5, 3.0, (40, 3)) * (rng.random((40, 3)) < 0.6)
    return rng.poisson(3 * W @ (rng.gamma(0.5, 1.0, (3, 30)) * (rng.random((3, 30)) < 0.5))).astype(float)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_volume_costs_at_most_five_percent_of_the_fit(X, unit, tmp_path):
    settings = {"beta": 1, "random_state": 0, "max_iter": 60, "tol": 1e-4}
    X = unit * X
    model = BetaNMF(3, penalties=[Volume("auto")], **settings).fit(X)
    (path,) = model.penalty_path_
    assert path.alphas[0] == 0
    assert path.limit == pytest.approx((1 + LOSS_OF_FIT) * path.values[0], rel=1e-9)
    assert model.reconstruction_err_ <= path.limit
    assert path.values[path.alphas > path.alpha].min() > path.limit  # a larger one would cost more
    assert path.values[path.alphas == path.alpha] <= path.limit
    assert model.penalties_.terms == (Volume(path.alpha),)
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert again.penalty_path_[0].penalty == path.penalty
    assert again.penalty_path_[0].values.tobytes() == path.values.tobytes()
    direct = BetaNMF(3, penalties=[Volume(path.alpha)], **settings).fit(X)
    assert direct.components_.tobytes() == model.components_.tobytes()


def test_sparsity_is_chosen_by_held_out_entries(X):
    model = DRNMF(3, betas=(1, 2), penalties=["sparsity:auto"], random_state=0, max_iter=30, tol=1e-4).fit(X)
    (path,) = model.penalty_path_
    near = path.alphas[path.values <= path.limit]
    assert path.values.min() == 0
    assert path.alpha in near
    assert model.penalties_.terms == ((Sparsity(path.alpha),) if path.alpha else ())
    assert model.references_.shape == (2,)


def test_too_few_entries_choose_nothing(rng):
    model = BetaNMF(2, penalties=["sparsity:auto"], random_state=0, max_iter=5).fit(rng.uniform(size=(6, 5)))
    assert model.penalty_path_[0].alpha == 0
    assert model.penalty_ == 0


@pytest.mark.parametrize("penalty", [Volume("auto"), Sparsity("auto", on="W")], ids=lambda penalty: penalty.key)
def test_entries_that_are_not_observed_have_no_say(X, penalty):
    seen = np.random.default_rng(1).random(X.shape) < 0.8
    paths = []
    for hidden in (X, np.where(seen, X, 1e3)):
        model = BetaNMF(3, beta=1, penalties=[penalty], **SHORT).fit(hidden, entry_weight=seen.astype(float))
        paths.append(model.penalty_path_[0])
    assert paths[0].alpha > 0
    assert paths[0].alpha == paths[1].alpha
    np.testing.assert_allclose(paths[0].values, paths[1].values, rtol=1e-10)
    gaps = BetaNMF(3, beta=1, penalties=[penalty], **SHORT).fit(np.where(seen, X, np.nan)).penalty_path_[0]
    assert gaps.alpha == paths[0].alpha


def test_the_loss_under_weights_is_what_the_volume_may_raise(X):
    given = {"uncertainty": np.sqrt(X + 1)}
    plain = BetaNMF(3, beta=2, **SHORT).fit(X, **given)
    model = BetaNMF(3, beta=2, penalties=[Volume("auto")], **SHORT).fit(X, **given)
    (path,) = model.penalty_path_
    assert path.limit == pytest.approx(1.05 * plain.reconstruction_err_, rel=0.01)
    assert plain.reconstruction_err_ < model.reconstruction_err_ <= 1.01 * path.limit


def test_an_interval_and_entries_held_out_by_the_caller(X):
    model = DRNMF(3, betas=Interval(1, 2), penalties=[Volume("auto")], **SHORT).fit(X + 1, entry_weight=HeldOut(0.1))
    (path,) = model.penalty_path_
    assert path.alpha > 0
    assert model.penalties_.terms[0].alpha == path.alpha
    assert model.penalty_ > 0


def test_a_front_chooses_once_for_all_points(X):
    front = pareto_front(
        DRNMF(3, betas=(1, 2), penalties=[Volume("auto")], **SHORT), X + 1, weights=3, return_factors=True
    )
    (path,), (term,) = front.penalty_path, front.penalties
    assert term.alpha == path.alpha > 0
    at = path.alphas.tolist().index(path.alpha)
    assert path.values[at] <= path.limit == pytest.approx(1.05 * path.values[0])
    given = pareto_front(
        DRNMF(3, betas=(1, 2), penalties=[term], solver=Solver(references=front.references), **SHORT), X + 1, weights=3
    )
    assert given.dr.penalty == pytest.approx(front.dr.penalty, rel=0.1)


def test_the_summary_lists_alphas(X, tmp_path):
    np.save(tmp_path / "X.npy", X)
    out = tmp_path / "out"
    asked = ["fit", tmp_path / "X.npy", "-r", 3, "--betas", 1, "--penalty", "volume:auto,l2:0.1", "--max-iter", 20]
    result = CliRunner().invoke(app, [*map(str, [*asked, "--tol", 0, "--out", out])])
    assert result.exit_code == 0, result.output
    given, chosen = json.loads((out / "summary.json").read_text())["penalties"]
    assert given == {"penalty": "l2:0.1", "alpha": 0.1, "alphas": None, "values": None, "limit": None}
    assert chosen["penalty"] == f"volume:{chosen['alpha']!r}"
    assert chosen["alpha"] in chosen["alphas"]
    assert len(chosen["alphas"]) == len(chosen["values"])
    assert f"{chosen['penalty']}: alpha = " in result.output


def test_a_sparsity_is_chosen_by_entries_in_the_unit_of_x():
    X = planted("poisson", 40, 30, seed=1, rank=3)[0].astype(float)
    model = BetaNMF(3, beta=1, penalties="sparsity:auto", random_state=0, max_iter=60)
    paths = [model.fit(unit * X).penalty_path_[0] for unit in (1.0, 4.0**5)]
    assert paths[0].alpha == paths[1].alpha < 0.1
    np.testing.assert_allclose(paths[0].values, paths[1].values, atol=1e-6)
