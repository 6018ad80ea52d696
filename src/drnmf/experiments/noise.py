"""The noise of section 5.1: one part per divergence, each of norm one, together a given share of the data."""

from __future__ import annotations

import numpy as np

from drnmf.numerics import Vector


def noise_part(X: Vector, beta: float, rng: np.random.RandomState) -> Vector:
    """N_IS = X * G with G normal, N_KL Poisson of parameter 1, N_F normal."""
    if beta == 0.0:
        return X * rng.standard_normal(X.shape)
    if beta == 1.0:
        return rng.poisson(1.0, X.shape).astype(np.float64)
    if beta == 2.0:
        return rng.standard_normal(X.shape)
    raise ValueError(f"The paper's recipe has no noise for beta={beta}: use 0, 1 or 2.")


def add_noise(X: Vector, betas: tuple[float, ...], level: float, rng: np.random.RandomState) -> Vector:
    """max(0, X + N) with N the sum of the unit-norm parts, scaled so that ||N|| = level ||X||."""
    parts = [noise_part(X, beta, rng) for beta in betas]
    total = np.sum([part / np.linalg.norm(part) for part in parts], axis=0)
    return np.maximum(X + level * np.linalg.norm(X) / np.linalg.norm(total) * total, 0.0)
