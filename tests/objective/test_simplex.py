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
