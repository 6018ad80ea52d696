"""Losses of the core where the textbook formulas lose their digits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf.backends.host.native import NativeDense, NativeSparse
from drnmf.losses.beta import beta_divergence
from tests.backends.problems import entries, factors

BETAS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)


def _losses(X, W, H, betas, p_mix=0):
    return NativeDense.of(X).sweep(W, H, betas, np.empty((0, len(betas)))).losses


@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("beta", BETAS)
def test_good_fits_keep_their_digits(beta, gap):
    W, H = factors(50, 60, 3, np.float64)
    X = (W @ H) * (1.0 + gap * np.random.default_rng(0).standard_normal((50, 60)))
    wanted = beta_divergence(X, W @ H, beta)
    assert _losses(X, W, H, (beta,))[0] == pytest.approx(wanted, rel=1e-9 if gap < 1e-5 else 1e-10)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("beta", BETAS)
def test_exact_fit_costs_nothing_and_never_less(beta, dtype):
    W, H = factors(50, 60, 3, dtype)
    X = W @ H
    loss = _losses(X, W, H, (beta,))[0]
    assert 0.0 <= loss <= X.size * 10 * np.finfo(dtype).eps ** 2 * float(X.max()) ** beta * 100


@pytest.mark.parametrize("beta", [0.0, 1.0, 2.0])
def test_continuous_in_beta(beta):
    X, (W, H) = entries((20, 30), np.float64, zeros=0.0), factors(20, 30, 3, np.float64)
    X = np.maximum(X, 1e-3)
    at, above = _losses(X, W, H, (beta,)), _losses(X, W, H, (beta + 1e-12,))
    assert above[0] == pytest.approx(at[0], rel=1e-9)


@pytest.mark.parametrize("scale", [1e-15, 1e-6, 1e6, 1e15])
@pytest.mark.parametrize("beta", [0.0, 1.0, 2.0])
def test_units_of_x_float32(beta, scale):
    X, (W, H) = entries((40, 50), np.float32, zeros=0.0), factors(40, 50, 3, np.float32)
    X = np.maximum(X, np.float32(1e-2))
    root = np.float32(np.sqrt(scale))
    scaled = NativeDense.of(X * root * root).sweep(W * root, H * root, (beta,), np.eye(1))
    plain = NativeDense.of(X).sweep(W, H, (beta,), np.eye(1))
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
        got = NativeDense.of(X).sweep(W, H, (2.0,), np.eye(1)).losses[0]
        assert got == pytest.approx(wanted, rel=1e-6 if noise > 0.01 else 1e-4)


@pytest.mark.parametrize("curvature", [None, np.ones(1)], ids=["plain", "curved"])
@pytest.mark.parametrize("kind", [NativeDense, NativeSparse])
def test_frobenius_near_exact_float64(kind, curvature):
    W, H = factors(80, 90, 4, np.float64)
    X = (W @ H) * (1 + 1e-7 * np.random.default_rng(0).standard_normal((80, 90)))
    wanted = 0.5 * float(((X - W @ H) ** 2).sum())
    data = kind.of(sp.csr_array(X) if kind is NativeSparse else X)
    sweep = data.sweep(W, H, (2.0,), np.eye(1), curvature=curvature)
    assert sweep.losses[0] == pytest.approx(wanted, rel=1e-6)


def test_zeros_count_as_the_floor_under_itakura_saito():
    X = entries((40, 50), np.float64, zeros=0.3)
    W, H = factors(40, 50, 3, np.float64)
    for data in (NativeDense.of(X), NativeSparse.of(sp.csr_array(X))):
        sweep = data.sweep(W, H, (0.0, 1.0), np.eye(2))
        assert np.isfinite(sweep.losses).all()
        filled = np.where(X == 0, 2.2e-16 * X.mean(), X)
        assert sweep.losses[0] == pytest.approx(beta_divergence(filled, W @ H, 0), rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_vanishing_model_stays_finite(dtype):
    X = entries((20, 30), dtype, zeros=0.2)
    W, H = factors(20, 30, 3, dtype)
    W, H = W * dtype(0), H
    for betas in ((0.0, 1.0, 2.0), (0.5,), (1.0,)):
        sweep = NativeDense.of(X).sweep(W, H, betas, np.eye(len(betas)))
        assert not np.isnan(sweep.N).any()
        assert not np.isnan(sweep.P).any()
        assert np.isfinite(sweep.losses).all()
