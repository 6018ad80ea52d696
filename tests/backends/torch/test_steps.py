"""Steps on one curvature for all columns: the kernel against NumPy, and fits that use it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from drnmf import BetaNMF, MultiObjectiveNMF, Solver
from drnmf.algorithms.updates.steps import correlated_step, extrapolated_step, shared_step
from tests.backends.table import DEVICE


def problem(r, n, dtype):
    rng = np.random.default_rng(r)
    W = rng.gamma(0.5, size=(50, r))
    F = rng.gamma(1.0, size=(r, n)).astype(dtype)
    return W.T @ W, F, (W.T @ rng.gamma(1.0, size=(50, n))).astype(dtype)


def on_device(*arrays):
    return [torch.as_tensor(array, device=DEVICE) for array in arrays]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("r", "n"), [(1, 3), (5, 70), (17, 33)])
@pytest.mark.parametrize("held", [False, True], ids=["gram on the host", "gram on the device"])
def test_coordinate_descent_is_that_of_the_host(dtype, r, n, held):
    gram, F, N = problem(r, n, dtype)
    if r > 1:
        gram[1] = gram[:, 1] = 0.0  # a component that has vanished stays
    matrix = on_device(gram)[0] if held else gram
    expected = shared_step(F, N, gram, 1e-9, 5)
    found = shared_step(*on_device(F, N), matrix, 1e-9, 5).cpu().numpy()
    np.testing.assert_allclose(found, expected, atol=(1e-5 if dtype == np.float32 else 1e-12) * abs(expected).max())
    for one, other in zip(
        extrapolated_step(*on_device(F, N), matrix, 1e-9, 2, on_device(0.9 * F)[0], 0.3),
        extrapolated_step(F, N, gram, 1e-9, 2, 0.9 * F, 0.3),
        strict=True,
    ):
        np.testing.assert_allclose(one.cpu().numpy(), other, rtol=1e-3 if dtype == np.float32 else 1e-9, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scaled_curvature_is_that_of_the_host(dtype):
    gram, F, N = problem(9, 40, dtype)
    size = np.sqrt(gram.diagonal())
    C, P = gram / (size[:, None] * size), gram.astype(dtype) @ F
    expected = correlated_step(F, N, P, C, 1e-9, 4)
    found = correlated_step(*on_device(F, N, P), C, 1e-9, 4).cpu().numpy()
    np.testing.assert_allclose(found, expected, atol=(1e-4 if dtype == np.float32 else 1e-11) * abs(expected).max())


@pytest.mark.parametrize("beta", [1, 2])
def test_the_default_descends(beta):
    X = np.random.default_rng(0).gamma(1.0, size=(20, 24)).astype(np.float32)
    model = BetaNMF(3, beta=beta, tol=0, max_iter=36, random_state=0).fit(on_device(X)[0])
    values = model.trace_.scaled_losses[:, 0]
    assert (np.diff(values) <= 1e-5 * values[:-1]).all()


def test_the_default_ends_lower_than_extrapolated_steps():
    X = on_device(np.random.default_rng(1).gamma(1.0, size=(20, 24)).astype(np.float32))[0]
    common = {"betas": (0, 1), "tol": 0, "max_iter": 45, "random_state": 0}
    values = [
        float(
            MultiObjectiveNMF(4, solver=Solver(update=update, references=(480.0, 480.0)), **common)
            .fit(X)
            .scaled_losses_.sum()
        )
        for update in ("auto" if DEVICE != "cpu" else "newton", "extrapolated")
    ]
    assert values[0] < values[1]
