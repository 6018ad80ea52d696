"""Algorithms 1 and 3 of the paper, transcribed line by line without any code of the package.

Dense, float64, the textbook formulas. What the library's traces are compared with.
"""

from __future__ import annotations

import numpy as np


def divergence(X, Y, beta):
    if beta == 0:
        return np.sum(X / Y - np.log(X / Y) - 1)
    if beta == 1:
        return np.sum(X * np.log(X / Y) - X + Y)
    return np.sum(X**beta + (beta - 1) * Y**beta - beta * X * Y ** (beta - 1)) / (beta * (beta - 1))


def weighted(X, W, H, betas, weights, references):
    return sum(w * divergence(X, W @ H, b) / e for b, w, e in zip(betas, weights, references, strict=True))


def algorithm_1(X, W, H, betas, weights, references):
    """One multiplicative update of H with step halving."""
    V = W @ H
    negative = sum(w / e * (W.T @ (V ** (b - 2) * X)) for b, w, e in zip(betas, weights, references, strict=True))
    positive = sum(w / e * (W.T @ V ** (b - 1)) for b, w, e in zip(betas, weights, references, strict=True))
    full = H * negative / positive
    before = weighted(X, W, H, betas, weights, references)
    gamma, new = 1.0, full
    while weighted(X, W, new, betas, weights, references) > before * (1 + 1e-12):
        gamma /= 2
        if gamma < 2.0**-30:
            return H
        new = (1 - gamma) * H + gamma * full
    return new


def algorithm_3(X, W, H, betas, references, iterations, move=None):
    """Scaled losses and weights of every iteration; `move(weights, scaled, k)` replaces the Frank-Wolfe step."""
    p = len(betas)
    weights = np.full(p, 1 / p)

    def scaled():
        return np.array([divergence(X, W @ H, b) / e for b, e in zip(betas, references, strict=True)])

    losses, lambdas = [scaled()], [weights]
    for k in range(1, iterations + 1):
        H = algorithm_1(X, W, H, betas, weights, references)
        W = algorithm_1(X.T, H.T, W.T, betas, weights, references).T
        errors = scaled()
        if move is None:
            best = np.zeros(p)
            best[np.argmax(errors)] = 1
            weights = weights + (best - weights) / (k + 1)
        else:
            weights = move(weights, errors, k)
        losses.append(errors)
        lambdas.append(weights)
    return np.array(losses), np.array(lambdas), W, H
