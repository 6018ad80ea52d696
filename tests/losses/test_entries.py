"""Losses entry by entry, in NumPy: what every backend is compared with, against integrals and derivatives."""

from __future__ import annotations

import math

import numpy as np
import pytest

from drnmf.losses.beta import Beta, as_beta, beta_divergence_terms
from drnmf.losses.interval import Interval, coverage
from drnmf.losses.names import as_loss, as_losses, text_of
from drnmf.losses.negative_binomial import NegativeBinomial

BETAS = [0.0, 0.5, 1.0, 1.5, 1.999, 2.0, 3.0, 4.5]
RATIOS = np.array(
    [0.2, 0.45, 0.55, 0.9, 0.999, 1.0 - 1e-6, 1.0 + 1e-9, 1.0 + 1e-4, 1.2, 1.49, 1.51, 2.0, 2.7, 2.8, 5.0]
)


def integral(x: np.ndarray, y: np.ndarray, beta: float) -> np.ndarray:
    """d = (y - x)^2 times the integral of s u^(beta - 2) over s in [0, 1], u = x + s (y - x): nothing cancels."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    s = 0.5 * (nodes + 1.0)
    u = x[:, None] + s * (y - x)[:, None]
    return (y - x) ** 2 * (0.5 * weights * s * u ** (beta - 2.0)).sum(axis=1)


@pytest.mark.parametrize("beta", [*BETAS, 1e-300, 1.0 + 1e-12, 1.0 - 1e-7])
def test_terms_keep_their_digits_at_every_ratio(beta):
    x = np.full_like(RATIOS, 3.0)
    np.testing.assert_allclose(beta_divergence_terms(x, x * RATIOS, beta), integral(x, x * RATIOS, beta), rtol=2e-12)


@pytest.mark.parametrize("beta", BETAS)
def test_far_terms_are_the_leading_ones(beta):
    """y >> x: y^b / b without the rest, or log(y/x) - 1 for b = 0."""
    far = beta_divergence_terms(np.array([1e-40]), np.array([1.0]), beta)
    assert far == pytest.approx(math.log(1e40) - 1.0 if beta == 0 else 1.0 / beta, rel=1e-6)


def test_edges():
    x, y = np.array([0.0, 0.0, 2.0, 2.0]), np.array([0.0, 3.0, 0.0, 2.0])
    expected = {0.0: [0.0, np.inf, np.inf, 0.0], 1.0: [0.0, 3.0, np.inf, 0.0], 3.0: [0.0, 9.0, 4.0 / 3.0, 0.0]}
    for beta, terms in expected.items():
        np.testing.assert_allclose(beta_divergence_terms(x, y, beta), terms)


@pytest.mark.parametrize("beta", BETAS)
def test_parts_are_the_two_sides_of_the_derivative(beta):
    x, v = np.array([0.0, 2.0, 5.0]), np.array([0.5, 3.0, 4.0])
    N, P = Beta(beta).parts(x, v, 1e30)
    np.testing.assert_allclose(N, x * v ** (beta - 2.0))
    np.testing.assert_allclose(P, v ** (beta - 1.0))
    step = 1e-5
    slope = (beta_divergence_terms(x[1:], v[1:] + step, beta) - beta_divergence_terms(x[1:], v[1:] - step, beta)) / 2e-5
    np.testing.assert_allclose((P - N)[1:], slope, rtol=1e-6)


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 1.5])
def test_parts_stay_below_the_ceiling_and_a_zero_of_X_is_no_nan(beta):
    with np.errstate(over="ignore"):  # as in a sweep
        N, P = Beta(beta).parts(np.array([0.0, 1.0]), np.full(2, 1e-200), 1e30)
    assert N.tolist() == [0.0, 1e30]
    assert P.max() <= 1e30
    assert np.isfinite(P).all()


@pytest.mark.parametrize("beta", BETAS)
def test_curvature_is_the_second_derivative_where_the_loss_is_convex(beta):
    x, v, step = np.array([2.0, 5.0]), np.array([3.0, 4.0]), 1e-3
    down, here, up = (beta_divergence_terms(x, v + s, beta) for s in (-step, 0.0, step))
    second = (up - 2.0 * here + down) / step**2
    expected = second if 1 <= beta <= 2 else v ** (beta - 2.0)
    np.testing.assert_allclose(Beta(beta).curvature(x, v), expected, rtol=1e-5)


def test_exponents_of_the_separable_majoriser():
    found = [Beta(beta).exponents for beta in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)]
    assert found == [(0.0, 2.0), (0.0, 1.5), (0.0, 1.0), (0.5, 0.5), (1.0, 0.0), (2.0, 0.0)]


@pytest.mark.parametrize("size", [0.3, 5.0, 1e6])
def test_the_negative_binomial(size):
    loss, x, v = NegativeBinomial(size), np.array([0.0, 2.0, 5.0]), np.array([0.5, 3.0, 4.0])
    logs = np.where(x > 0, x * np.log(np.where(x > 0, x, 1.0) / v), 0.0)
    textbook = logs - (x + size) * np.log((x + size) / (v + size))
    np.testing.assert_allclose(loss.terms(x, v), textbook, rtol=1e-6)
    N, P = loss.parts(x, v, 1e30)
    step = 1e-5
    slope = (loss.terms(x, v + step) - loss.terms(x, v - step)) / (2 * step)
    np.testing.assert_allclose(P - N, slope, rtol=1e-6)
    assert loss.terms(v, v).tolist() == [0.0, 0.0, 0.0]


def test_losses_by_name():
    assert [as_beta(value) for value in ("frobenius", 0, 1.5)] == [2.0, 0.0, 1.5]
    assert [text_of(loss) for loss in as_losses(("KL", "nb:30", "beta=0.5", "NB(7)"))] == [
        "1.0",
        "nb:30.0",
        "0.5",
        "nb:7.0",
    ]
    for value, message in [
        (-1e-3, ">= 0"), (math.inf, "finite"), (1e9, "is above"), ("nb:x", "nb:SIZE"), ("beta=x", "not a known loss"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            as_loss(value)
    with pytest.raises(ValueError, match="holds 1 twice"):
        as_losses((1, 2, "KL"))
    with pytest.raises(ValueError, match="betas is empty"):
        as_losses(())


@pytest.mark.parametrize("settings", [{"knots": 1}, {"grid": 2}, {"max_knots": 2}, {"tol": 0.0}])
def test_intervals_need_knots(settings):
    assert Interval(0, 2, knots=2, grid=2, max_knots=2).first_knots() == (0.0, 2.0)
    with pytest.raises(ValueError, match="at least 2 knots"):
        Interval(0, 2, **settings)


def test_the_bound_of_an_interval_by_hand():
    """log D = 1 under the lower of log e = beta and 2 - beta: e at both ends, 1 in the middle; floors lift e."""
    interval = Interval(0, 2, grid=5)
    points = np.array(interval.points())
    losses, references = np.full(points.size, np.e), np.exp([points, 2.0 - points])
    found = coverage(interval, losses, references, np.zeros(points.size), np.e)
    assert found.bound == pytest.approx(np.e)
    assert found.factor == pytest.approx(1.0)
    np.testing.assert_allclose(np.log(found.references), 1.0 - abs(found.betas - 1.0), atol=1e-12)
    lifted = coverage(interval, losses, references, np.full(points.size, np.sqrt(np.e)), 1.0)
    assert lifted.bound == pytest.approx(np.sqrt(np.e))
    assert lifted.factor == pytest.approx(np.sqrt(np.e))
