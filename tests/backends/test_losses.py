"""Losses of the backends on the host where the textbook formulas lose their digits."""

from __future__ import annotations

import itertools
from decimal import Decimal, getcontext

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf import beta_divergence
from drnmf.backends.base import Ask
from drnmf.backends.open import open_data
from drnmf.losses.beta import FROBENIUS, IS, KL, Beta
from drnmf.losses.negative_binomial import NegativeBinomial
from tests.backends.problems import entries, factors

pytest.importorskip("drnmf._core", reason="the compiled extension was not built")

BETAS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)


def _losses(X, W, H, *betas, backend="native"):
    return open_data(X, backend).sweep(W, H, Ask(tuple(map(Beta, betas)), None)).losses


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("beta", BETAS)
def test_good_fits_keep_their_digits(beta, gap, backend):
    W, H = factors(50, 60, 3, np.float64)
    X = (W @ H) * (1.0 + gap * np.random.default_rng(0).standard_normal((50, 60)))
    wanted = beta_divergence(X, W @ H, beta)
    assert _losses(X, W, H, beta, backend=backend)[0] == pytest.approx(wanted, rel=1e-9 if gap < 1e-5 else 1e-10)


@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("size", [0.5, 30.0, 1e12])
@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_good_fits_keep_their_digits_under_the_negative_binomial(backend, size, gap):
    """Near x = v the loss is a (x - v)^2 / (2 v (v + a)) and its next term: no textbook formula has digits left."""
    W, H = factors(50, 60, 3, np.float64)
    V, e = W @ H, gap * np.random.default_rng(0).standard_normal((50, 60))
    X = V * (1.0 + e)
    u, w = X - V, V + size
    series = sum((-1) ** k * u**k / (k * (k - 1)) * (V ** (1 - k) - w ** (1 - k)) for k in range(2, 12))
    got = open_data(X, backend).sweep(W, H, Ask((NegativeBinomial(size),), None)).losses[0]
    assert got == pytest.approx(series.sum(), rel=1e-8)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e12])
@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_sizes_far_from_the_data_keep_the_digits_of_the_negative_binomial(backend, size):
    """Against 50 digits: x log(x/v) and (x + a) log((x + a) / (v + a)) agree in all but the last few."""
    getcontext().prec, a = 50, Decimal(size)
    for x, v in ((0.0, 1e4), (0.5, 1e3), (1e3, 0.5), (7.0, 2.0)):
        data, X, V = open_data(np.array([[x]]), backend), Decimal(x), Decimal(v)
        exact = (X * (X / V).ln() if x else 0) - (X + a) * ((X + a) / (V + a)).ln()
        got = data.sweep(np.array([[v]]), np.ones((1, 1)), Ask((NegativeBinomial(size),), None)).losses[0]
        assert got == pytest.approx(float(exact), rel=1e-13)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e12])
def test_entries_far_from_the_model_keep_their_loss_in_float32(size):
    """Ratios of x and v up to 1e36, and a zero: the bits of a ratio must not leave the range of float32."""
    getcontext().prec, a = 50, Decimal(size)
    for x, v in itertools.product((0.0, 1e-6, 1.0, 1e6), (1e-30, 1e-6, 1.0, 1e6)):
        X, V = (np.array([[value], [1.0]], np.float32) for value in (x, v))  # the second entry costs nothing
        exact_x, exact_v = (Decimal(float(value[0, 0])) for value in (X, V))
        exact = (exact_x * (exact_x / exact_v).ln() if x else 0) - (exact_x + a) * ((exact_x + a) / (exact_v + a)).ln()
        got = open_data(X, "native").sweep(V, np.ones((1, 1), np.float32), Ask((NegativeBinomial(size),), None))
        assert got.losses[0] == pytest.approx(float(exact), rel=3e-6, abs=1e-30)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("beta", BETAS)
def test_exact_fit_costs_nothing_and_never_less(beta, dtype):
    W, H = factors(50, 60, 3, dtype)
    X = W @ H
    loss = _losses(X, W, H, beta)[0]
    assert 0.0 <= loss <= X.size * 10 * np.finfo(dtype).eps ** 2 * float(X.max()) ** beta * 100


@pytest.mark.parametrize("beta", [0.0, 1.0, 2.0])
def test_continuous_in_beta(beta):
    X, (W, H) = entries((20, 30), np.float64, zeros=0.0), factors(20, 30, 3, np.float64)
    X = np.maximum(X, 1e-3)
    at, above = _losses(X, W, H, beta), _losses(X, W, H, beta + 1e-12)
    assert above[0] == pytest.approx(at[0], rel=1e-9)


@pytest.mark.parametrize("scale", [1e-15, 1e-6, 1e6, 1e15])
@pytest.mark.parametrize("beta", [0.0, 1.0, 2.0])
def test_units_of_x_float32(beta, scale):
    X, (W, H) = entries((40, 50), np.float32, zeros=0.0), factors(40, 50, 3, np.float32)
    X = np.maximum(X, np.float32(1e-2))
    root = np.float32(np.sqrt(scale))
    scaled = open_data(X * root * root, "native").sweep(W * root, H * root, Ask((Beta(beta),)))
    plain = open_data(X, "native").sweep(W, H, Ask((Beta(beta),)))
    assert scaled.losses[0] == pytest.approx(plain.losses[0] * float(root) ** (2 * beta), rel=1e-5)
    assert np.isfinite(scaled.N).all()


def test_frobenius_float32():
    """By the identity where the loss is a large share of ||X||^2 (the first two), summed directly where it is not."""
    rng = np.random.default_rng(0)
    for m, n, noise in (
        (60, 80, 2.0),
        (300, 400, 1.0),
        (60, 80, 0.5),
        (300, 400, 0.1),
        (300, 400, 0.014),
        (300, 400, 0.001),
    ):
        W, H = factors(m, n, 5, np.float32)
        X = np.abs((W @ H) * (1 + noise * rng.standard_normal((m, n)))).astype(np.float32)
        V = W.astype(np.float64) @ H.astype(np.float64)
        wanted = 0.5 * float(((X - V) ** 2).sum())
        got = _losses(X, W, H, 2.0)[0]
        assert got == pytest.approx(wanted, rel=1e-6 if noise > 0.01 else 1e-4)


def test_frobenius_near_exact_float64():
    W, H = factors(80, 90, 4, np.float64)
    X = (W @ H) * (1 + 1e-7 * np.random.default_rng(0).standard_normal((80, 90)))
    wanted = 0.5 * float(((X - W @ H) ** 2).sum())
    assert _losses(X, W, H, 2.0)[0] == pytest.approx(wanted, rel=1e-6)


def test_zeros_count_as_the_floor_under_itakura_saito():
    X = entries((40, 50), np.float64, zeros=0.3)
    W, H = factors(40, 50, 3, np.float64)
    for data in (open_data(form, name) for form in (X, sp.csr_array(X)) for name in ("numpy", "native")):
        sweep = data.sweep(W, H, Ask((IS, KL)))
        assert np.isfinite(sweep.losses).all()
        filled = np.where(X == 0, 2.2e-16 * X.mean(), X)
        assert sweep.losses[0] == pytest.approx(beta_divergence(filled, W @ H, 0), rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_vanishing_model_stays_finite(dtype):
    X = entries((20, 30), dtype, zeros=0.2)
    W, H = factors(20, 30, 3, dtype)
    W, H = W * dtype(0), H
    for omega in ((IS, KL, FROBENIUS), (Beta(0.5),), (KL,), (NegativeBinomial(30),), (IS, NegativeBinomial(1e-9))):
        for backend in ("numpy", "native"):
            sweep = open_data(X, backend).sweep(W, H, Ask(omega))
            assert not np.isnan(sweep.N).any()
            assert not np.isnan(sweep.P).any()
            assert np.isfinite(sweep.losses).all()


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_a_size_beyond_float32_is_kullback_leibler(backend):
    X, (W, H) = entries((20, 30), np.float32, zeros=0.2), factors(20, 30, 3, np.float32)
    data = open_data(X, backend)
    got, kl = (data.sweep(W, H, Ask((loss,), curvature=np.ones(1))) for loss in (NegativeBinomial(1e300), KL))
    np.testing.assert_allclose(got.losses, kl.losses, rtol=1e-5)
    np.testing.assert_allclose(got.N, kl.N, rtol=1e-5)
    np.testing.assert_allclose(got.P, kl.P, rtol=1e-5)
    expected = open_data(W @ H, backend).sweep(W, H, Ask((KL,), curvature=np.ones(1))).Q  # x / v^2 at x = v
    np.testing.assert_allclose(got.Q, expected, rtol=1e-5)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_the_compiled_extension_answers_every_loss_of_the_package(form, monkeypatch):
    def declined(*_: object) -> None:
        pytest.fail("the tiles of NumPy were asked")

    for module in ("native", "sparse"):
        monkeypatch.setattr(f"drnmf.backends.host.{module}.sweep_tiles", declined)
    W, H = factors(20, 30, 3, np.float64)
    data = open_data(form(entries((20, 30), np.float64, zeros=0.2)), "native")
    data.sweep(W, H, Ask((IS, KL, FROBENIUS, Beta(0.5), NegativeBinomial(30)), curvature=np.ones(5)))
