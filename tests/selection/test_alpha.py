"""alpha="auto": what it promises of the fit, and what it refuses."""

from __future__ import annotations

import warnings

import pytest

from drnmf import DRNMF, BetaNMF, HeldOut, Interval, Sparsity, Volume, load, pareto_front
from drnmf.selection.penalties.alpha import LOSS_OF_FIT


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


def test_what_cannot_choose_says_so(X):
    with pytest.raises(ValueError, match="chosen by an estimator"):
        pareto_front(X + 1, 2, betas=(0, 1), penalties=["volume:auto"])
    with pytest.raises(ValueError, match="give a number for alpha"):
        DRNMF(2, betas=Interval(0, 1), penalties=["volume:auto"]).fit(X + 1)
    with pytest.raises(ValueError, match="give a number for alpha"):
        BetaNMF(2, penalties=["sparsity:auto"]).fit(X, entry_weight=HeldOut(0.1, 0))
