"""What a step sees of losses and penalties together, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from drnmf import L1, L2
from drnmf.algorithms.certificates import Residual
from drnmf.algorithms.updates.base import Parts
from drnmf.algorithms.updates.minimax import surrogates
from drnmf.algorithms.updates.simplex_steps import _model, model_slope
from drnmf.algorithms.updates.steps import packed
from drnmf.backends.base import Ask
from drnmf.backends.host.dense import HOST
from drnmf.backends.open import open_data
from drnmf.losses.beta import FROBENIUS, KL, Beta
from drnmf.objective.penalty import BlockPenalties, Bound, Penalties, Setting


def tilted(F: np.ndarray, *terms) -> BlockPenalties:
    penalties = Penalties(terms, Setting((4, F.shape[1]), 1.0, 3.0))
    measures = penalties.measure(HOST, F, 0)
    return penalties.of(0, (measures, penalties.measure(HOST, F, 1)), 2.0)


def parts(rng, omega, penalties=None, **more) -> Parts:
    N, P = rng.uniform(1, 2, (len(omega), 3, 5)), rng.uniform(1, 2, (len(omega), 3, 5))
    return Parts(N, P, np.array([0.25, 0.75])[: len(omega)], omega, 1e-9, penalties=penalties, **more)


def test_weighted_parts_and_those_of_penalties_add_up(rng):
    F = rng.uniform(1, 2, (3, 5))
    penalties = tilted(F, L1(0.3, on="H"), L2(0.2, on="H"))
    given = parts(rng, (KL, FROBENIUS), penalties)
    N, P = given.weighted()
    np.testing.assert_allclose(N, 0.25 * given.N[0] + 0.75 * given.N[1])
    down, up = penalties.bound(F).parts(F)
    np.testing.assert_allclose(given.multiplicative(F), F * (N + down) / (P + up))
    tilted_N, tilted_P = given.with_penalties(F)
    np.testing.assert_allclose(tilted_P - tilted_N, P + up - N - down)
    np.testing.assert_allclose(tilted_P - P, penalties.bound(F).curvature @ F)
    assert (tilted_N < N).all()


def test_a_curvature_of_both_signs_is_split():
    F = np.array([[1.0], [2.0]])
    up, down = Bound(curvature=np.array([[2.0, -1.0], [-1.0, 3.0]])).bend(F)
    np.testing.assert_allclose(up, [[2.0], [6.0]])
    np.testing.assert_allclose(down, [[2.0], [1.0]])


def test_the_quadratic_model_on_the_simplex_has_the_slope_of_loss_and_penalties(rng):
    """Columns with a curvature of their own, where entries have weights; and one matrix for all."""
    F = rng.uniform(1, 2, (3, 5))
    penalties = tilted(F, L1(0.3, on="H"), L2(0.2, on="H"))
    A = rng.normal(size=(6, 3))
    bound = penalties.bound(F)
    own = parts(rng, (FROBENIUS,), penalties, Q=np.repeat(packed(A.T @ A, F), 5, axis=1))
    shared = parts(rng, (FROBENIUS,), penalties, gram=A.T @ A)
    for given in (own, shared):
        expected = A.T @ A @ F - given.N[0] + bound.slope() + bound.curvature @ F
        np.testing.assert_allclose(model_slope(F, *_model(F, given)), expected)


@pytest.mark.parametrize("omega", [(KL, FROBENIUS), (Beta(0.0), Beta(1.5))])
def test_surrogates_touch_the_losses_have_their_slope_and_lie_above(rng, omega):
    """Of losses and of a penalty: G(1) = D / e, and G(t) bounds the losses at F t."""
    X, W, F = rng.uniform(1, 2, (6, 5)), rng.uniform(1, 2, (6, 3)), rng.uniform(1, 2, (3, 5))
    data, references, penalty = open_data(X), np.array([2.0, 5.0]), L2(0.2, on="H")
    penalties = Penalties((penalty,), Setting((6, 5), 1.0, 3.0))
    own = penalties.measure(HOST, F, 0)

    def values(H: np.ndarray) -> np.ndarray:
        extra = penalties.value((penalties.measure(HOST, H, 0), own))
        return data.sweep(W, H, Ask(omega)).losses / references + extra

    sweep = data.sweep(W, F, Ask(omega))
    slots = penalties.of(0, (own, own), 1.0).bound(F).slots(F)
    given = Parts(sweep.N, sweep.P, 1.0 / references, omega, 1e-9, sweep.losses / references, references)
    start = surrogates(F, np.ones_like(F), given, slots) - sweep.losses / references
    np.testing.assert_allclose(start, 0.0, atol=1e-12)
    for spread in (1e-5, 0.1, 1.0):
        t = np.exp(spread * rng.normal(size=F.shape))
        bound, change = surrogates(F, t, given, slots) - sweep.losses / references, values(F * t) - values(F)
        assert (bound >= change - 1e-12).all()
        if spread < 1e-4:
            np.testing.assert_allclose(bound, change, rtol=1e-3)


def test_the_residual_on_the_simplex_vanishes_where_the_slopes_of_a_column_agree():
    F = np.array([[0.25], [0.75]])
    for N, vanishes in (([[1.0], [1.0]], True), ([[1.0], [2.0]], False)):
        P = np.full((1, 2, 1), 3.0)
        violation, scale = Residual(np.ones(1), F.mean(), sums=True)(F, np.array([N]), P)
        assert (violation < 1e-12) == vanishes
        assert scale == (F * (3.0 + np.array(N))).sum()
    slope = np.array([[2.0], [1.0]])
    free = slope - (F * slope).sum()
    step = np.maximum(F, F.mean()) / 3.0
    expected = (3.0 * abs(F - np.maximum(F - step * free, 0.0))).sum()
    np.testing.assert_allclose(violation, expected)
