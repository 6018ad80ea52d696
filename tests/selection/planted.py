"""Small matrices of rank 5 under four noises, with the beta that is true for each."""

from __future__ import annotations

import numpy as np


def planted(noise, m=60, n=80, seed=0, rank=5):
    """X, and the beta of its noise: the local power 2 - (1 + 2 mu/a) / (1 + mu/a) for the negative binomial."""
    rng = np.random.default_rng(seed)
    V = rng.gamma(0.5, size=(m, rank)) @ rng.gamma(0.5, size=(rank, n))
    V *= 25.0 / V.mean()
    if noise == "gaussian":
        return np.maximum(V + 5.0 * rng.normal(size=V.shape), 0.0), 2.0
    if noise == "poisson":
        return rng.poisson(V).astype(np.float64), 1.0
    if noise == "gamma":
        return V * rng.gamma(25.0, 1.0 / 25.0, size=V.shape), 0.0
    a, V = 25.0, 4.0 * V
    return rng.negative_binomial(a, a / (a + V)).astype(np.float64), 2.0 - np.mean((1 + 2 * V / a) / (1 + V / a))
