"""alpha="auto": what it promises of the fit, and what it refuses."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

from drnmf import DRNMF, BetaNMF, HeldOut, Interval, Solver, Sparsity, Volume, load, pareto_front
from drnmf.backends.base import in_unit
from drnmf.backends.open import open_data
from drnmf.cli import app
from drnmf.losses.names import as_losses
from drnmf.problem.receive import Received
from drnmf.selection.alpha import LOSS_OF_FIT
from drnmf.selection.warm_starts import Sample
from drnmf.solve.settings import problem_of
from drnmf.synthetic import planted

SHORT = {"max_iter": 40, "tol": 1e-4, "random_state": 0}
ENOUGH = {"max_iter": 200, "tol": 1e-4, "random_state": 0}


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
    assert path.limit == pytest.approx((1 + LOSS_OF_FIT) * path.values.min(), rel=1e-9)
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
    assert path.values[at] <= path.limit == pytest.approx(1.05 * path.values.min())
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


def image(rng, pixels=1010):
    spectra = np.exp(-((np.linspace(0, 1, 20) - np.array([[0.2], [0.8]])) ** 2) / 0.05) + 0.1
    return rng.dirichlet([0.5, 0.5], pixels) @ spectra * rng.gamma(400.0, 1 / 400.0, (pixels, 20))


def test_some_rows_choose_the_volume_of_many(rng, monkeypatch):
    """The alpha of a sample is that of all rows to a step of the search, and all rows are fitted under it."""
    X = image(rng)
    model = BetaNMF(2, beta=2, sum_to_one="W", penalties=[Volume("auto")], **ENOUGH)
    some = model.fit(X).penalty_path_[0]
    assert model.reconstruction_err_ <= 1.01 * some.limit
    scaled = clone(model).set_params(n_jobs=2).fit(16.0 * X)
    assert scaled.components_.tobytes() == (16.0 * model.components_).tobytes()
    monkeypatch.setattr(Sample, "of", lambda *_: None)
    every = model.fit(X).penalty_path_[0]
    assert 0.5 <= some.alpha / every.alpha <= 2.0


def test_references_of_all_rows_follow_those_of_some(rng):
    X = image(rng)
    model = DRNMF(2, betas=(1, 2), sum_to_one="W", penalties=[Volume("auto")], **ENOUGH).fit(X)
    alone = [BetaNMF(2, beta=beta, sum_to_one="W", **ENOUGH).fit(X).losses_[0] for beta in (1, 2)]
    np.testing.assert_allclose(model.references_, alone, rtol=0.01)


def test_rows_that_differ_most_are_in_every_sample(rng):
    """A component that one row alone shows must not be lost."""
    X = image(rng)
    X[123] = 5.0 * np.eye(20)[3] + 0.1
    problem = problem_of(BetaNMF(3, beta=2), in_unit(open_data(X)), as_losses(2), Received(X))
    sample = Sample.of(problem, 0)
    assert 123 in sample.rows
    assert sample.some.data.scale == problem.data.scale
    assert Sample.of(problem, 0, most=len(X)) is None
