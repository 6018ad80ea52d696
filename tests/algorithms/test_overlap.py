"""Lambda that follows slopes: what it expects of a step, and where it ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from drnmf.algorithms.iteration import Task, swept
from drnmf.algorithms.loop import Control
from drnmf.algorithms.overlap import overlap
from drnmf.algorithms.updates import RULES
from drnmf.algorithms.updates.newton import Newton
from drnmf.algorithms.weights import POLICIES, Level
from drnmf.backends.base import in_unit, losses_of
from drnmf.backends.open import open_data
from drnmf.losses.names import as_losses
from drnmf.problem.parts import groups_of, objective_of_part, parted, parts_alone, simplest_losses
from drnmf.problem.problem import Problem
from drnmf.problem.receive import Received
from drnmf.solve.runner import Budget, Runner
from drnmf.solve.solve import solve

SIZES, RANK = (30, 20, 10, 20), 3
GROUPS = np.repeat(np.arange(4), SIZES)


def planted(seed):
    """Four groups of a component each, which three components cannot serve alike."""
    rng = np.random.default_rng(seed)
    V = rng.gamma(1.0, size=(80, 2)) @ rng.gamma(1.0, size=(2, 25))
    for group in range(4):
        rows = np.flatnonzero(group == GROUPS)
        V[rows] += rng.gamma(1.0, size=(rows.size, 1)) @ rng.gamma(1.0, size=(1, 25))
    return rng.poisson(20.0 * V) + 0.0


def problem_of(beta, seed=0):
    X = planted(seed)
    problem = Problem.opened(in_unit(open_data(X)), Received(X)).asked(RANK, as_losses((beta,)))
    _, division = groups_of(X, GROUPS)
    alone = parts_alone(problem, division)
    raw = parted(problem, division, alone)
    pairs = zip(raw.omega, simplest_losses(raw), strict=True)
    objectives = tuple(objective_of_part(part, 0.0, float(cost), "regret") for part, cost in pairs)
    return raw.under(objectives, np.ones(len(objectives)))


def begin_of(beta, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.5, 1.0, (80, RANK)), rng.uniform(0.5, 1.0, (RANK, 25))


@pytest.mark.parametrize("beta", [1, 2])
def test_a_short_step_lowers_every_loss_as_foretold(beta):
    problem, (W, H) = problem_of(beta), begin_of(beta)
    rule = RULES["auto"]
    assert isinstance(rule, Newton)
    rule = rule.alone if beta == 2 else replace(rule, delay=0)
    task = Task.of(problem.modes, problem.objective, rule, False, RANK)
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    blocks = H, np.ascontiguousarray(W.T)
    point = swept(task, blocks, weights, tuple(map(rule.init, blocks)), 1, 0)
    A = overlap(task, point, weights)
    assert np.allclose(A, A.T)
    sweep, t = point.sweep, 1e-4
    if beta == 2:
        slope = np.tensordot(weights, sweep.gram @ H - sweep.N, 1)
        step = np.linalg.solve(np.tensordot(weights, sweep.gram, 1), slope)
    else:  # every column by itself, where the overlap has a mean, with H'QH = H'P as steps have it
        k, l = np.tril_indices(RANK)
        Q = np.zeros((25, RANK, RANK))
        Q[:, k, l] = Q[:, l, k] = sweep.Q.T
        P = np.tensordot(weights, sweep.P, 1)
        Q *= (H * P).sum() / np.einsum("kj,jkl,lj", H, Q, H)
        step = np.linalg.solve(Q, (P - np.tensordot(weights, sweep.N, 1)).T[:, :, None])[:, :, 0].T
    before, after = (losses_of(problem.data, W, F, problem.omega) for F in (H, H - t * step))
    assert np.allclose((before - after) / t, A @ weights, rtol=1e-2 if beta == 2 else 0.1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("beta", [1, 2])
def test_losses_that_count_come_to_one_level(beta, seed):
    problem, start = problem_of(beta, seed), begin_of(beta, seed)
    budget = Budget(Control(max_iter=300, tol=0.0), runs=2)
    plain, level = (
        replace(Runner.of("auto", policy), budget=budget).near() for policy in (POLICIES["fixed"], Level())
    )  # fmt: skip
    first = solve([problem.begun(start)], plain)[0]
    done = solve([problem.begun((first.W, first.H))], level)[0]
    worst = done.scaled_losses.max()
    assert worst < first.scaled_losses.max()
    assert (worst - done.scaled_losses[done.weights > 0.01]).max() <= 1e-3 * worst
