"""The curvature of the columns: every Data against its definition, and against differences of the gradient."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf.algorithms.updates.newton import _descend, quadratic_step
from drnmf.backends.base import identity, no_parts, wrap
from drnmf.losses.beta import divergence_curvature

from .problems import BETA_SETS, SHAPES, entries, factors, ordered

TOLERANCE = {np.float64: 1e-12, np.float32: 2e-5}


def expected(X, W, H, betas, c):
    V = (W @ H).astype(np.float64)
    bend = sum(cb * divergence_curvature(X.astype(np.float64), V, beta) for beta, cb in zip(betas, c, strict=True))
    full = np.einsum("ik,ij,il->klj", W.astype(np.float64), bend, W.astype(np.float64))
    return full[np.tril_indices(W.shape[1])]


def whole(sweep, n, r):
    """Q with the part that all columns share."""
    Q = np.zeros((r * (r + 1) // 2, n)) if sweep.Q is None else sweep.Q.astype(np.float64)
    return Q if sweep.gram is None else Q + sweep.gram[np.tril_indices(r)][:, None]


def check_parts(sweep, plain, H, betas):
    """What the curvature takes the place of is not made: Q where beta = 2 is alone, and there P, which is gram @ H."""
    alone = betas == (2.0,)
    assert (sweep.Q is None) == alone
    assert (sweep.gram is None) == (2.0 not in betas)
    assert np.array_equal(sweep.N, plain.N)
    assert np.array_equal(sweep.losses, plain.losses)
    if alone:
        assert sweep.P.shape == (0, *H.shape)
    else:
        assert np.array_equal(sweep.P, plain.P)


def close(a, b, dtype):
    np.testing.assert_allclose(a, b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * np.abs(b).max())


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("betas", BETA_SETS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_dense(backend, dtype, betas, shape):
    m, n, r = shape
    X, (W, H) = entries((m, n), dtype, 0.0) + dtype(0.1), factors(m, n, r, dtype)
    c = np.random.default_rng(0).random(len(betas))
    for order in ("C", "F", "slice"):
        data = wrap(ordered(X, order), backend)
        for mix in (no_parts(len(betas)), identity(len(betas)), c[None]):
            sweep = data.sweep(W, H, betas, mix, curvature=c)
            close(whole(sweep, n, r), expected(X, W, H, betas, c), dtype)
            check_parts(sweep, data.sweep(W, H, betas, mix), H, betas)
        assert data.sweep(W, H, betas, no_parts(len(betas))).Q is None
    left = wrap(X, backend).T.sweep(np.asfortranarray(H.T), np.ascontiguousarray(W.T), betas, c[None], curvature=c)
    close(whole(left, m, r), expected(X.T, H.T, W.T, betas, c), dtype)


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("betas", [(1.0,), (2.0,), (1.0, 2.0), (2.0, 1.0), (1.5,), (0.0, 1.0)], ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 1), (401, 20, 7), (20, 1000, 10), (70, 130, 64), (900, 50, 3)], ids=str)
def test_sparse(backend, dtype, index, betas, shape):
    m, n, r = shape
    X, (W, H) = entries((m, n), dtype, 0.8), factors(m, n, r, dtype)
    stored = sp.csr_array(X)
    stored.indices, stored.indptr = stored.indices.astype(index), stored.indptr.astype(index)
    data = wrap(stored, backend)
    floored = np.where(X == 0, dtype(2.2e-16 * X.mean(dtype=np.float64)), X) if 0.0 in betas else X
    c = np.random.default_rng(0).random(len(betas))
    for mix in (no_parts(len(betas)), identity(len(betas)), c[None]):
        sweep = data.sweep(W, H, betas, mix, curvature=c)
        close(whole(sweep, n, r), expected(floored, W, H, betas, c), dtype)
        check_parts(sweep, data.sweep(W, H, betas, mix), H, betas)


@pytest.mark.parametrize("beta", [1.0, 1.3, 1.7, 2.0])
def test_it_is_the_derivative_of_the_gradient_where_the_loss_is_convex(beta):
    X, (W, H) = entries((12, 9), np.float64, 0.0) + 0.1, factors(12, 9, 3, np.float64)
    data, step = wrap(X), 1e-6
    rows = {(k, l): k * (k + 1) // 2 + l for k in range(3) for l in range(k + 1)}
    Q = whole(data.sweep(W, H, (beta,), identity(1), curvature=np.ones(1)), 9, 3)
    for (k, l), at in rows.items():
        gradients = []
        for sign in (1, -1):
            moved = H.copy()
            moved[l] += sign * step
            sweep = data.sweep(W, moved, (beta,), identity(1))
            gradients.append((sweep.P - sweep.N)[0, k])
        np.testing.assert_allclose(Q[at], (gradients[0] - gradients[1]) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (10, 401), (23, 64)], ids=str)
def test_the_compiled_step_is_the_reference(dtype, shape):
    r, n = shape
    rng = np.random.default_rng(1)
    W, H = rng.random((r, 50)).T.astype(dtype), rng.random((r, n)).astype(dtype) + dtype(0.01)
    X = rng.gamma(0.5, 1.0, (50, n)).astype(dtype) + dtype(1e-3)
    sweep = wrap(X).sweep(W, H, (0.0, 1.0), np.full((1, 2), 0.5), curvature=np.full(2, 0.5))
    Q = sweep.Q.copy()
    Q[:, 0] = 0.0  # no curvature: the multiplicative step
    if n > 2:
        Q[:, 2] = np.nan
    ours, reference = (f(H, sweep.N[0], sweep.P[0], Q, 1e-9, 4) for f in (quadratic_step, _descend))
    np.testing.assert_allclose(ours, reference, rtol=1e-9 if dtype == np.float64 else 2e-3, atol=1e-5)
    gram = (W.T @ W).astype(np.float64)
    together = Q + gram[np.tril_indices(r)][:, None].astype(dtype)
    shared = quadratic_step(H, sweep.N[0], sweep.P[0], Q, 1e-9, 4, gram)
    assert np.array_equal(shared, quadratic_step(H, sweep.N[0], sweep.P[0], together, 1e-9, 4), equal_nan=True)
    assert r == 1 or not np.array_equal(shared, ours)  # one component is scaled to P whatever its curvature
    bad = [0, 2] if n > 2 else [0]
    np.testing.assert_allclose(ours[:, bad], np.maximum(H * sweep.N[0] / sweep.P[0], 1e-9)[:, bad], rtol=1e-6)
    assert ours.min() >= dtype(1e-9)


def test_many_passes_solve_the_model():
    """The point at which every entry is either at the floor with a rising slope, or has none."""
    rng = np.random.default_rng(2)
    X, W, H = rng.gamma(0.3, 1.0, (40, 30)) + 1e-3, rng.random((5, 40)).T, rng.random((5, 30)) + 0.1
    sweep = wrap(X).sweep(W, H, (1.0,), identity(1), curvature=np.ones(1))
    N, P = sweep.N[0], sweep.P[0]
    step = quadratic_step(H, N, P, sweep.Q, 1e-12, 500)
    full = np.zeros((5, 5, 30))
    k, l = np.tril_indices(5)
    full[k, l] = full[l, k] = sweep.Q
    scale = np.einsum("kj,klj,lj->j", H, full, H) / (H * P).sum(0)
    slope = (P - N) * scale + np.einsum("klj,lj->kj", full, step - H)
    free = step > 1e-12
    assert np.abs(slope[free]).max() < 1e-8 * np.abs((P - N) * scale).max()
    assert slope[~free].min() >= 0
