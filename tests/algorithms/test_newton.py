"""Newton steps that take the curvature of an earlier point again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from drnmf import DRNMF, BetaNMF, MultiObjectiveNMF, Solver
from drnmf.algorithms.loop import Control, solve
from drnmf.algorithms.updates import GPU_RULES, RULES
from drnmf.algorithms.updates.base import Setup
from drnmf.algorithms.updates.newton import Newton
from drnmf.algorithms.weights import Fixed
from drnmf.backends.host.dense import DenseMatrix
from drnmf.losses.beta import Beta
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.numerics import LARGEST_KEPT, NEWTON_DELAY, NEWTON_RANK
from drnmf.objective.objective import Objective

SHAPE, RANK = (40, 60), 4


def run(beta, refresh, max_iter, tol=0.0):
    rng = np.random.default_rng(0)
    X = rng.poisson(20.0 * rng.gamma(1.0, size=(SHAPE[0], 4)) @ rng.gamma(1.0, size=(4, SHAPE[1]))) + 1.0
    data = DenseMatrix.of(X)
    objective = Objective((Beta(beta),), np.ones(1), data.mean)
    start = rng.random((SHAPE[0], RANK)), rng.random((RANK, SHAPE[1]))
    rule = Newton(delay=6, refresh=refresh)
    return solve(data, *start, objective, rule, Fixed(), Control(max_iter=max_iter, tol=tol))


def test_one_curvature_serves_three_steps_of_either_block(monkeypatch):
    asked, sweep = [], DenseMatrix.sweep

    def noted(self, W, H, ask):
        side = "HW"[self.shape != SHAPE]
        if not asked or asked[-1][0] != side:  # not a retry
            asked.append((side, ask.curvature is not None))
        return sweep(self, W, H, ask)

    monkeypatch.setattr(DenseMatrix, "sweep", noted)
    run(1.0, 3, 15)
    turns = [False] * 6 + [True, False, False] * 3
    assert [curved for side, curved in asked if side == "W"] == turns
    assert [curved for side, curved in asked if side == "H"] == [*turns, True]


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_the_same_minimum_is_reached(beta):
    often, seldom = run(beta, 1, 400, 1e-9), run(beta, 3, 400, 1e-9)
    assert seldom.losses == pytest.approx(often.losses, rel=1e-5)
    assert (np.diff(seldom.trace.losses[:, 0]) <= 1e-12 * seldom.trace.losses[0, 0]).all()
    assert not np.array_equal(seldom.trace.losses[-1], often.trace.losses[-1])


def test_a_curvature_is_kept_where_it_is_small_and_its_length_can_be_found_again():
    rule, losses = Newton(), (Beta(1.0),)
    most = LARGEST_KEPT // 15

    def kept(omega, columns):
        return rule.under(Setup(omega, 5, columns=columns))

    assert kept(losses, most) == replace(rule, keeps=True)
    assert kept(losses, most + 1) == rule
    assert kept((*losses, NegativeBinomial(3.0)), most) == rule
    assert kept((Beta(2.0),), most) == rule
    assert kept(losses, None) == rule


def test_a_curvature_is_kept_only_while_the_weights_stand(monkeypatch):
    asked = []
    monkeypatch.setattr(Newton, "under", lambda self, setup: asked.append(setup.columns) or self)
    X = np.random.default_rng(0).gamma(1.0, size=(12, 9))
    given = {"betas": (0, 1), "solver": Solver(references=(1, 1)), "max_iter": 3, "tol": 0, "random_state": 0}
    DRNMF(2, **given).fit(X)
    MultiObjectiveNMF(2, weights=(0.5, 0.5), **given).fit(X)
    MultiObjectiveNMF(2, weights=(0.5, 0.5), sum_to_one="W", **given).fit(X)  # nor within constraints
    assert asked == [None, 12 + 9, None]


def test_steps_that_were_given_up_before_the_first_newton_step_are_no_trouble():
    """An exact fit gives up steps; the state then counts fewer of them than the run, which has asked for no P."""
    model = BetaNMF(1, beta=2, tol=0, max_iter=60, random_state=0, solver="newton").fit(np.ones((31, 22)))
    assert model.reconstruction_err_ < 1e-20


@pytest.mark.parametrize(
    ("update", "shape", "rank", "own"),
    [
        ("auto", (60, 80), 30, True),
        ("auto", (2000, 5000), 30, False),
        ("auto", (2000, 5000), 20, True),
        ("gpu", (60, 80), 30, False),
    ],
)
def test_many_components_have_curvatures_of_their_own_where_x_is_small(update, shape, rank, own):
    rule = GPU_RULES["auto"] if update == "gpu" else RULES["auto"]
    setup = Setup((Beta(1.0),), rank, columns=sum(shape), entries=shape[0] * shape[1])
    wants = rule.under(setup).wants(NEWTON_DELAY, rank, setup.omega)
    assert (wants.curvature, wants.correlation) == (own, not own)
    elsewhere = rule.under(replace(setup, entries=None)).wants(NEWTON_DELAY, rank, setup.omega)
    assert elsewhere.curvature == (update == "auto" and rank <= NEWTON_RANK)
