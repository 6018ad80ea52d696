"""A fit returns finite numbers, or says why it cannot."""

from __future__ import annotations

import numpy as np
import pytest

from drnmf import DRNMF, BetaNMF, Solver

UPDATES = ("auto", "mu", "extrapolated", "monotone", "newton")


def one_per_row() -> np.ndarray:
    X = np.zeros((30, 12), np.float32)
    X[np.arange(30), np.random.default_rng(0).integers(0, 12, 30)] = 1.0
    return X


def assert_finite(model, X):
    W = model.fit_transform(X)
    for name, values in {"W": W, "H": model.components_, "losses": model.losses_}.items():
        assert np.isfinite(values).all(), name
    assert min(W.min(), model.components_.min()) >= 0


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize(
    ("X", "beta"),
    [(np.eye(12, dtype=np.float32), 4), (one_per_row(), 5)]
    + [(np.zeros((12, 9), dtype), beta) for dtype in (np.float32, np.float64) for beta in (1, 2, 3, 5)],
    ids=["identity", "one-per-row", *(f"zeros-{d}-{b}" for d in ("f32", "f64") for b in (1, 2, 3, 5))],
)
def test_powers_that_underflow(X, beta, update):
    assert_finite(BetaNMF(5, beta=beta, random_state=0, max_iter=60, tol=1e-5, solver=Solver(update=update)), X)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("beta", [0, 1, 2, 3])
@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_extreme_scales(scale, beta):
    X = np.random.default_rng(0).uniform(0.1, 1.0, (20, 15)) * scale
    try:
        assert_finite(BetaNMF(3, beta=beta, random_state=0, max_iter=60, tol=1e-5), X)
    except ValueError as error:
        assert "Divide X by its mean" in str(error)  # noqa: PT017 - either outcome is right


def test_all_zero_x_under_several_losses():
    assert_finite(DRNMF(3, betas=(1, 2, 3), random_state=0, max_iter=40, tol=1e-5), np.zeros((9, 8), np.float32))
