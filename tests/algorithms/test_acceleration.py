"""Extrapolation of whole iterations: what is tried, what is taken, and where it is left alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from drnmf import DRNMF, BetaNMF, Solver
from drnmf.algorithms.acceleration import Direction, accelerated
from drnmf.algorithms.iteration import Task, swept
from drnmf.algorithms.updates import RULES
from drnmf.algorithms.updates.newton import Newton
from drnmf.backends.modes import Matrix
from drnmf.backends.open import open_data
from drnmf.losses.beta import KL
from drnmf.numerics import NEWTON_DELAY, NEWTON_RANK
from drnmf.objective.objective import Objective
from tests.keeping import fitted, same, stop


def overlapping(seed: int = 0) -> np.ndarray:
    """Columns of very different size and components that are much alike: a slow end."""
    rng = np.random.default_rng(seed)
    W, H = rng.gamma(0.5, size=(40, 4)) + 0.5, (rng.gamma(0.5, size=(4, 12)) + 0.3) * 10 ** rng.uniform(-1, 2, 12)
    return rng.poisson(20 * W @ H).astype(float) + 0.1


def at_the_end(steps: int = NEWTON_DELAY + 3, fixed: bool = True, rank: int = 2, rule=RULES["auto"]):
    """A task, and a point near X of exact rank whose direction is known."""
    rng = np.random.default_rng(1)
    W, H = rng.uniform(1, 2, size=(6, rank)), rng.uniform(1, 2, size=(rank, 9))
    data, weights = Matrix(open_data(W @ H)), np.ones(1)
    task = replace(Task.of(data, Objective((KL,), np.ones(1), data.mean), rule, True, rank), fixed=fixed)
    return task, swept(task, (1.1 * H, W.T.copy()), weights, (None, None), 7, steps), weights


def without_acceleration(monkeypatch):
    wants = Newton.wants
    monkeypatch.setattr(Newton, "wants", lambda *given: replace(wants(*given), acceleration=False))


def _with_H(point, H):
    return (H, *point.blocks[1:])


def test_a_point_further_along_is_taken_where_it_is_lower():
    task, point, weights = at_the_end()
    since = Direction(
        _with_H(point, 1.15 / 1.1 * point.blocks[0]), point.steps - 2, 2.0
    )  # H came from 1.15, so 2 more end at 1.0
    moved, after = accelerated(task, point, weights, since)
    assert moved.sweep.losses[0] < 1e-12 < point.sweep.losses[0]
    np.testing.assert_allclose(moved.blocks[0], point.blocks[0] / 1.1)
    assert moved.sweeps == 8
    assert moved.steps == point.steps
    assert (after.blocks is moved.blocks, after.length, after.steps) == (True, 4.0, point.steps)


def test_a_point_further_along_is_refused_where_it_is_not_lower_and_the_next_is_nearer():
    task, point, weights = at_the_end()
    since = Direction(_with_H(point, 1.3 / 1.1 * point.blocks[0]), point.steps - 2, 2.0)  # 2 more end at 0.7
    moved, after = accelerated(task, point, weights, since)
    assert moved.blocks is point.blocks
    assert moved.sweep is point.sweep
    assert moved.sweeps == 8  # the trial counts
    assert (after.blocks is point.blocks, after.length) == (True, 1.0)
    _, last = accelerated(task, replace(point, steps=point.steps + 2), weights, replace(after, length=0.5))
    assert last.length == 0.5


def test_entries_stay_above_the_floor():
    task, point, weights = at_the_end()
    B = point.blocks[0].copy()
    B[0, 0] += 3.0
    moved, _ = accelerated(task, point, weights, Direction(_with_H(point, B), point.steps - 2, 2.0))
    assert moved.blocks[0].min() > 0


def test_trials_wait_for_two_iterations():
    task, point, weights = at_the_end()
    same, since = accelerated(task, point, weights, None)
    assert (same is point, since.blocks is point.blocks, since.steps) == (True, True, point.steps)
    same, again = accelerated(task, replace(point, steps=point.steps + 1), weights, since)
    assert (again is since, same.sweeps) == (True, 7)


@pytest.mark.parametrize(
    "case",
    [
        {"steps": NEWTON_DELAY},
        {"fixed": False},
        {"rank": NEWTON_RANK + 1},
        {"rule": RULES["mu"]},
    ],
    ids=["too early", "weights that move", "one curvature for all", "multiplicative"],
)
def test_where_iterations_are_left_as_they_are(case):
    task, point, weights = at_the_end(**case)
    since = Direction(_with_H(point, 2 * point.blocks[0]), point.steps - 2)
    assert accelerated(task, point, weights, since) == (point, None)


def test_a_run_falls_further_in_as_many_sweeps_and_never_rises(monkeypatch):
    X = overlapping()
    options = {"beta": 1, "init": "random", "random_state": 3, "tol": 0, "max_iter": 150}
    quick = BetaNMF(4, **options).fit(X)
    assert (np.diff(quick.trace_.losses[:, 0]) <= 1e-12 * quick.trace_.losses[1:, 0]).all()
    without_acceleration(monkeypatch)
    plain = BetaNMF(4, **{**options, "max_iter": 200}).fit(X)
    assert quick.trace_.sweeps[-1] <= plain.trace_.sweeps[-1]
    assert quick.losses_[0] < plain.losses_[0]


def test_constrained_and_robust_runs_are_left_as_they_are(monkeypatch):
    X, options = overlapping(), {"tol": 0, "max_iter": 50, "random_state": 0}
    fits = [
        lambda: BetaNMF(3, beta=1, sum_to_one="H", **options).fit(X).losses_.tolist(),
        lambda: DRNMF(3, betas=(1, 0), solver=Solver(references=(9.0, 1.0)), **options).fit(X).losses_.tolist(),
    ]
    with_it = [fit() for fit in fits]
    without_acceleration(monkeypatch)
    assert with_it == [fit() for fit in fits]


@pytest.mark.parametrize("k", [NEWTON_DELAY + 2, NEWTON_DELAY + 3, NEWTON_DELAY + 4])
def test_a_resumed_run_tries_the_same_points(k, tmp_path):
    X = overlapping()
    model = BetaNMF(4, beta=1, init="random", random_state=0, tol=0, max_iter=60)
    whole = fitted(model, X)
    stop(model, X, tmp_path, k)
    same(fitted(model, X, tmp_path), whole)
