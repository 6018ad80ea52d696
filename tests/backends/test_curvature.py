"""The curvature as the derivative of the gradient, and the step that uses it."""

from __future__ import annotations

import numpy as np
import pytest

from drnmf.algorithms.updates.steps import _descend, quadratic_step, triangle_rows
from drnmf.backends.base import Ask
from drnmf.backends.open import open_data
from drnmf.losses.beta import IS, KL, Beta
from drnmf.losses.negative_binomial import NegativeBinomial
from tests.backends.problems import completed, entries, factors


@pytest.mark.parametrize("beta", [1.0, 1.3, 1.7, 2.0])
def test_it_is_the_derivative_of_the_gradient_where_the_loss_is_convex(beta):
    X, (W, H) = entries((12, 9), np.float64, 0.0) + 0.1, factors(12, 9, 3, np.float64)
    data, step, omega = open_data(X), 1e-6, (Beta(beta),)
    ask = Ask(omega, curvature=np.ones(1))
    Q = completed(data.sweep(W, H, ask), H, ask).Q
    for k, row in enumerate(triangle_rows(3)):
        for l, at in enumerate(row):
            gradients = []
            for sign in (1, -1):
                moved = H.copy()
                moved[l] += sign * step
                sweep = data.sweep(W, moved, Ask(omega))
                gradients.append((sweep.P - sweep.N)[0, k])
            np.testing.assert_allclose(Q[at], (gradients[0] - gradients[1]) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize(
    ("loss", "homogeneous"), [(KL, True), (IS, True), (Beta(1.5), True), (NegativeBinomial(2), False)]
)
def test_homogeneous_losses_have_q_times_h_equal_to_p(loss, homogeneous):
    """Where x scatters around v: at X = V the expected curvature times h is P, which the Newton step relies on."""
    W, H = factors(12, 9, 3, np.float64)
    sweep = open_data(W @ H).sweep(W, H, Ask((loss,), curvature=np.ones(1)))
    product = np.stack([(sweep.Q[row] * H).sum(0) for row in triangle_rows(3)])
    assert np.allclose(product, sweep.P[0], rtol=1e-9) == homogeneous == loss.homogeneous


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (10, 401), (23, 64)], ids=str)
@pytest.mark.parametrize("scale", [None, 2.5])
def test_the_compiled_step_is_the_reference(dtype, shape, scale):
    pytest.importorskip("drnmf._core", reason="the compiled extension was not built")
    r, n = shape
    rng = np.random.default_rng(1)
    W, H = rng.random((r, 50)).T.astype(dtype), rng.random((r, n)).astype(dtype) + dtype(0.01)
    X = rng.gamma(0.5, 1.0, (50, n)).astype(dtype) + dtype(1e-3)
    sweep = open_data(X).sweep(W, H, Ask((IS, KL), np.full(2, 0.5), curvature=np.full(2, 0.5)))
    Q = sweep.Q.copy()
    Q[:, 0] = 0.0  # no curvature: the multiplicative step
    if n > 2:
        Q[:, 2] = np.nan
    ours = quadratic_step(H, sweep.N[0], sweep.P[0], Q, 1e-9, 4, scale)
    with np.errstate(divide="ignore", invalid="ignore"):
        reference = _descend(H, sweep.N[0], sweep.P[0], Q, 1e-9, 4, scale, None)
    np.testing.assert_allclose(ours, reference, rtol=1e-9 if dtype == np.float64 else 2e-3, atol=1e-5)
    bad = [0, 2] if n > 2 else [0]
    other = np.maximum(H * sweep.N[0] / sweep.P[0], 1e-9) if scale is None else H  # a given scale cannot be unusable
    np.testing.assert_allclose(ours[:, bad], other[:, bad], rtol=1e-6)
    assert ours.min() >= dtype(1e-9)


@pytest.mark.parametrize(("loss", "given"), [(KL, None), (NegativeBinomial(3), 1.0), (NegativeBinomial(3), 2.5)])
def test_many_passes_solve_the_model(loss, given):
    """The point at which every entry is either at the floor with a rising slope, or has none."""
    rng = np.random.default_rng(2)
    X, W, H = rng.gamma(0.3, 1.0, (40, 30)) + 1e-3, rng.random((5, 40)).T, rng.random((5, 30)) + 0.1
    sweep = open_data(X).sweep(W, H, Ask((loss,), curvature=np.ones(1)))
    N, P = sweep.N[0], sweep.P[0]
    step = quadratic_step(H, N, P, sweep.Q, 1e-12, 500, given)
    full = np.zeros((5, 5, 30))
    k, l = np.tril_indices(5)
    full[k, l] = full[l, k] = sweep.Q
    scale = np.einsum("kj,klj,lj->j", H, full, H) / (H * P).sum(0) if given is None else np.full(30, 1.0 / given)
    slope = (P - N) * scale + np.einsum("klj,lj->kj", full, step - H)
    free = step > 1e-12
    assert np.abs(slope[free]).max() < 1e-8 * np.abs((P - N) * scale).max()
    assert slope[~free].min() >= 0
