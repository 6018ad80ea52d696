"""The divergences: textbook values, continuity in beta, edges, scale."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from drnmf import beta_divergence
from drnmf.losses.base import betas_of
from drnmf.losses.names import as_losses
from tests.transcription import divergence

positive = st.floats(1e-3, 1e3)


@given(positive, positive, st.sampled_from([0.0, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0]))
def test_textbook(x, y, beta):
    expected = divergence(np.array([[x]]), np.array([[y]]), beta)
    assert beta_divergence([[x]], [[y]], beta) == pytest.approx(expected, rel=1e-7, abs=1e-9 * max(x, y, 1) ** beta)


@given(positive, positive, st.sampled_from([0.0, 1.0, 2.0]), st.sampled_from([-1e-12, 1e-12]))
def test_continuous_in_beta(x, y, beta, step):
    if beta + step < 0:
        return
    here, there = (beta_divergence([[x]], [[y]], b) for b in (beta, beta + step))
    assert there == pytest.approx(here, rel=1e-9, abs=1e-300)


@given(positive, positive, st.floats(0, 4))
def test_never_negative_and_zero_only_at_equality(x, y, beta):
    assert beta_divergence([[x]], [[x]], beta) == 0
    assert beta_divergence([[x]], [[y]], beta) >= 0


@pytest.mark.parametrize("beta", [0, 0.5, 1, 1.5, 2, 3])
@pytest.mark.parametrize("distance", [1e-3, 1e-6, 1e-9])
def test_digits_near_equality(beta, distance):
    """d_beta(x|x(1+d)) = x^beta d^2 / 2 to first order: the textbook form has no digit left there."""
    y = 3.0 * (1.0 + distance)
    d = (y - 3.0) / 3.0
    assert beta_divergence([[3.0]], [[y]], beta) == pytest.approx(3.0**beta * d**2 / 2, rel=5 * distance + 1e-9)


@pytest.mark.parametrize("scale", [1e-30, 1e-8, 1e8, 1e30])
@pytest.mark.parametrize("beta", [0, 0.5, 1, 2])
def test_scale(rng, scale, beta):
    X, Y = rng.uniform(0.1, 1, (5, 6)), rng.uniform(0.1, 1, (5, 6))
    assert beta_divergence(scale * X, scale * Y, beta) == pytest.approx(scale**beta * beta_divergence(X, Y, beta))


def test_zeros():
    assert beta_divergence([[0.0]], [[2.0]], 1) == 2
    assert beta_divergence([[0.0]], [[2.0]], 2) == 2
    assert beta_divergence([[0.0]], [[2.0]], 0) == np.inf
    assert beta_divergence([[2.0]], [[0.0]], 1) == np.inf
    assert beta_divergence([[2.0]], [[0.0]], 3) == pytest.approx(8 / 6)
    assert beta_divergence([[0.0]], [[0.0]], 0) == 0


def test_frobenius_is_half_the_squared_norm(rng):
    X, Y = rng.uniform(size=(7, 3)), rng.uniform(size=(7, 3))
    assert beta_divergence(X, Y, "frobenius") == pytest.approx(0.5 * np.linalg.norm(X - Y) ** 2)


@pytest.mark.parametrize("beta", [0.5, 1, 2])
def test_sparse(rng, beta):
    X = sp.random(30, 20, density=0.2, random_state=1, format="csc")
    Y = rng.uniform(0.1, 1, (30, 20))
    assert beta_divergence(X, Y, beta) == pytest.approx(beta_divergence(X.toarray(), Y, beta), rel=1e-13)


def test_extremes_do_not_overflow():
    assert beta_divergence([[1e-200]], [[1.0]], 3) == pytest.approx(1 / 3)
    assert beta_divergence([[1e-300]], [[1.0]], 0) == pytest.approx(np.log(1e300) - 1)
    assert beta_divergence([[1.0]], [[1e-200]], 1) == pytest.approx(np.log(1e200) - 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0]], [[1.0, 2.0]], 1), "shape"),
        (([[-1.0]], [[1.0]], 1), "negative"),
        (([[np.nan]], [[1.0]], 1), "NaN"),
        (([[1.0]], [[1.0]], -1), ">= 0"),
        (([[1.0]], [[1.0]], "poisson"), "not a known loss"),
        (([[1.0]], [[1.0]], None), "not a number"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        beta_divergence(*arguments)


def test_names():
    assert betas_of(as_losses(("itakura-saito", "kullback-leibler", "frobenius"))) == [0.0, 1.0, 2.0]
    assert betas_of(as_losses(1)) == [1.0]
