"""The synthetic data of section 5.1: a low-rank matrix under one noise per loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from drnmf.losses.base import betas_of
from drnmf.losses.names import as_losses
from drnmf.numerics import Array, Vector, positive_scale
from drnmf.parameters.fields import check_integer, check_number
from drnmf.problem.scikit import check_random_state

RandomState = np.random.RandomState


@dataclass(frozen=True)
class Synthetic:
    """X = max(0, WH + N), and the factors W (m, r) and H (r, n) it was made from."""

    X: Vector
    W: Vector
    H: Vector


NOISES: dict[float, Callable[[Array, Any], Vector]] = {
    0.0: lambda clean, rng: clean * rng.normal(size=clean.shape),
    1.0: lambda clean, rng: rng.poisson(1.0, size=clean.shape).astype(np.float64),
    2.0: lambda clean, rng: rng.normal(size=clean.shape),
}
"""The noise each loss stands for: multiplicative ("Gamma" in the paper), Poisson, Gaussian."""


def mixed_noise(clean: Array, betas: Iterable[float], rng: object) -> Vector:
    """Draw the noises that `betas` stand for and add them up, each with norm one."""
    return sum((_unit(NOISES[beta](clean, rng)) for beta in betas), np.zeros(clean.shape))


def with_noise(X: Array, noise: Vector, level: float) -> Vector:
    """Add noise to X, scaled to ||N|| = level ||X||; what falls below zero becomes zero.

    >>> with_noise(np.full((1, 2), 2.0), np.array([[3.0, 4.0]]), 0.5)
    array([[2.84852814, 3.13137085]])
    """
    return np.maximum(X + level * np.linalg.norm(X) / positive_scale(float(np.linalg.norm(noise))) * noise, 0.0)


def synthetic(
    betas: Iterable[float | str],
    shape: tuple[int, int] = (200, 200),
    rank: int = 10,
    noise: float = 0.2,
    random_state: int | RandomState | None = None,
) -> Synthetic:
    r"""Draw a rank-r matrix with uniform factors under the noises that `betas` stand for (section 5.1).

    .. math:: X = \max(0, \tilde X + N), \quad N = \epsilon \|\tilde X\|_F \tilde N / \|\tilde N\|_F, \quad
              \tilde N = \sum_{\beta \in \Omega} N_\beta / \|N_\beta\|_F

    betas : which noises, among 0 (multiplicative), 1 (Poisson) and 2 (Gaussian)
    noise : epsilon, ||N||_F / ||WH||_F before the maximum with 0

    X may hold exact zeros, which the Itakura-Saito divergence refuses unless ``zeros="floor"``.

    >>> data = synthetic((0, 1), shape=(30, 20), rank=3, random_state=0)
    >>> data.X.shape, data.W.shape, data.H.shape
    ((30, 20), (30, 3), (3, 20))
    """
    omega = tuple(betas_of(as_losses(betas)))
    unknown = [beta for beta in omega if beta not in NOISES]
    if unknown:
        raise ValueError(f"betas={omega}: no noise is known for {unknown[0]:g}, only for {sorted(NOISES)}.")
    m, n = (check_integer("shape", size, 1) for size in shape)
    rank = check_integer("rank", rank, 1)
    noise = check_number("noise", noise, 0.0)
    # A stream of its own: a fit with the same seed would otherwise start from the very factors it looks for.
    rng = RandomState(check_random_state(random_state).randint(2**31 - 1))
    W, H = rng.uniform(size=(m, rank)), rng.uniform(size=(rank, n))
    clean = W @ H
    drawn = _unit(mixed_noise(clean, omega, rng))
    return Synthetic(np.maximum(0.0, clean + noise * np.linalg.norm(clean) * drawn), W, H)


def planted(noise: str, m: int = 60, n: int = 80, seed: int = 0, rank: int = 5) -> tuple[Vector, float]:
    """Draw X of a known rank with noise of 20 % of the mean, and name the beta of its noise.

    Parameters
    ----------
    noise : "gaussian" (sd 0.2 mean(V), negative values set to zero), "poisson" (of mean 25), "gamma" (of shape 25) or
        "negative binomial" (of mean 100 and size 25)
    m, n, seed, rank : shape, seed and number of components, whose factors are Gamma(0.5)

    Returns
    -------
    X : (m, n)
    beta : float; for the negative binomial the local power, 2 - mean((1 + 2 mu/a) / (1 + mu/a))
    """
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
    truth = 2.0 - float(np.mean((1 + 2 * V / a) / (1 + V / a)))
    return rng.negative_binomial(a, a / (a + V)).astype(np.float64), truth


def _unit(noise: Vector) -> Vector:
    """Divide noise by its norm ||noise||_F; nothing where there is none (a tiny Poisson draw may be all zeros)."""
    return noise / positive_scale(float(np.linalg.norm(noise)))
