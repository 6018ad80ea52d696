"""Residuals of a discovery: what a loss expects of them."""

from __future__ import annotations

import numpy as np
import pytest

from drnmf import NegativeBinomial
from drnmf.losses.beta import Beta
from drnmf.selection.stages.residuals import residuals


@pytest.mark.parametrize("size", [5.0, 30.0])
def test_the_negative_binomial_expects_its_own_variance(size):
    rng = np.random.default_rng(0)
    W, H = rng.gamma(2.0, 1.0, (300, 2)), rng.gamma(2.0, 20.0, (2, 200))
    V = W @ H
    X = rng.negative_binomial(size, size / (size + V)).astype(float)
    found = residuals(X, W, H, NegativeBinomial(size))
    np.testing.assert_allclose(found.expected, found.levels + found.levels**2 / size, rtol=0.1)
    np.testing.assert_allclose(found.squares, found.expected, rtol=0.25)
    as_counts = residuals(X, W, H, Beta(1.0)).expected  # Poisson's line has another slope
    assert found.expected[-1] / found.expected[0] > 2 * as_counts[-1] / as_counts[0]
