"""What a step sees of losses and penalties together, by hand."""

from __future__ import annotations

import numpy as np

from drnmf import L1, L2
from drnmf.algorithms.updates.base import Parts
from drnmf.algorithms.updates.on_simplex import _Model
from drnmf.backends.host.space import HOST
from drnmf.backends.steps import packed
from drnmf.losses.beta import FROBENIUS, KL
from drnmf.objective.penalty import Bound, Penalties, Setting, Tilt


def tilted(F: np.ndarray, *terms) -> Tilt:
    penalties = Penalties(terms, Setting((4, F.shape[1]), 1.0, 3.0))
    measures = penalties.measure(HOST, F, "H")
    return penalties.of("H", measures, penalties.measure(HOST, F, "W"), 2.0)


def parts(rng, omega, tilt=None, **more) -> Parts:
    N, P = rng.uniform(1, 2, (len(omega), 3, 5)), rng.uniform(1, 2, (len(omega), 3, 5))
    return Parts(N, P, np.array([0.25, 0.75])[: len(omega)], omega, 1e-9, tilt=tilt, **more)


def test_weighted_parts_and_those_of_penalties_add_up(rng):
    F = rng.uniform(1, 2, (3, 5))
    tilt = tilted(F, L1(0.3, on="H"), L2(0.2, on="H"))
    given = parts(rng, (KL, FROBENIUS), tilt)
    N, P = given.weighted()
    np.testing.assert_allclose(N, 0.25 * given.N[0] + 0.75 * given.N[1])
    down, up = tilt.bound(F).parts(F)
    np.testing.assert_allclose(given.multiplicative(F), F * (N + down) / (P + up))
    tilted_N, tilted_P = given.with_penalties(F)
    np.testing.assert_allclose(tilted_P - tilted_N, P + up - N - down)
    np.testing.assert_allclose(tilted_P - P, tilt.bound(F).curvature @ F)
    assert (tilted_N < N).all()


def test_a_curvature_of_both_signs_is_split():
    F = np.array([[1.0], [2.0]])
    up, down = Bound(curvature=np.array([[2.0, -1.0], [-1.0, 3.0]])).bend(F)
    np.testing.assert_allclose(up, [[2.0], [6.0]])
    np.testing.assert_allclose(down, [[2.0], [1.0]])


def test_the_quadratic_model_on_the_simplex_has_the_slope_of_loss_and_penalties(rng):
    """Columns with a curvature of their own, where entries have weights; and one matrix for all."""
    F = rng.uniform(1, 2, (3, 5))
    tilt = tilted(F, L1(0.3, on="H"), L2(0.2, on="H"))
    A = rng.normal(size=(6, 3))
    bound = tilt.bound(F)
    own = parts(rng, (FROBENIUS,), tilt, Q=np.repeat(packed(A.T @ A, F), 5, axis=1))
    shared = parts(rng, (FROBENIUS,), tilt, gram=A.T @ A)
    for given in (own, shared):
        expected = A.T @ A @ F - given.N[0] + bound.slope() + bound.curvature @ F
        np.testing.assert_allclose(_Model.of(F, given).slope(F), expected)
