"""The noise of section 5.1 on data that is not synthetic."""

from __future__ import annotations

import numpy as np

from drnmf.numerics import Vector
from drnmf.synthetic import NOISES


def add_noise(X: Vector, betas: tuple[float, ...], level: float, rng: np.random.RandomState) -> Vector:
    """max(0, X + N) with N the sum of the unit-norm noises that betas stand for, scaled to ||N|| = level ||X||."""
    parts = [NOISES[beta](X, rng) for beta in betas]
    total = np.sum([part / np.linalg.norm(part) for part in parts], axis=0)
    return np.maximum(X + level * np.linalg.norm(X) / np.linalg.norm(total) * total, 0.0)
