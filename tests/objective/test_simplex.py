"""Projection and weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from drnmf.objective import simplex

vectors = arrays(np.float64, st.integers(1, 6), elements=st.floats(-50, 50))


@given(vectors)
def test_projection_is_the_nearest_point(point):
    projected = simplex.project(point)
    assert projected.min() >= 0
    assert projected.sum() == pytest.approx(1)
    # optimality: <point - projected, v - projected> <= 0 for every vertex v
    for k in range(point.size):
        assert (point - projected) @ (simplex.vertex(point.size, k) - projected) <= 1e-9


@given(vectors)
def test_linear_oracle(direction):
    assert simplex.linear_oracle(direction) @ direction == direction.max()


@pytest.mark.parametrize(
    ("weights", "message"),
    [((0.5, 0.6), "sum to"), ((1.5, -0.5), ">= 0"), ((1.0,), "one weight per beta"), ((np.nan, 1), "finite")],
)
def test_bad_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        simplex.check_weights(weights, 2)


def test_an_entropic_step_stays_on_the_simplex_and_follows_the_direction():
    weights = np.array([0.2, 0.3, 0.5])
    moved = simplex.entropy_step(weights, np.array([1.0, 0.0, 0.0]))
    np.testing.assert_allclose(moved.sum(), 1.0)
    np.testing.assert_allclose(moved[0] / moved[1], np.e * weights[0] / weights[1])
    np.testing.assert_allclose(moved[2] / moved[1], weights[2] / weights[1])


@pytest.mark.parametrize("seed", range(30))
def test_a_saddle_has_no_better_direction(seed):
    rng = np.random.default_rng(seed)
    p = int(rng.integers(2, 12))
    root = 10.0 ** rng.uniform(-2, 2) * rng.normal(size=(p, int(rng.integers(1, p + 2))))
    values, bend = rng.normal(size=p), root @ root.T
    weights = simplex.saddle(values, bend)
    slope = values - bend @ weights
    assert weights.min() >= 0
    assert np.isclose(weights.sum(), 1.0)
    assert (slope - weights @ slope).max() <= 1e-9 * max(np.ptp(values), bend.diagonal().max())
