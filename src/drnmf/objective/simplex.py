"""The set Lambda of weights: lambda >= 0, sum lambda = 1. Vectors of length |Omega| in float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from drnmf.numerics import SADDLE_RIDGE, SIMPLEX_TOLERANCE, Vector, as_vector


def uniform(p: int) -> Vector:
    """lambda_beta = 1/|Omega|, where every algorithm of the paper starts."""
    return np.full(p, 1.0 / p)


def vertex(p: int, index: int) -> Vector:
    """All weight on one loss.

    >>> vertex(3, 1)
    array([0., 1., 0.])
    """
    weights = np.zeros(p)
    weights[index] = 1.0
    return weights


def project(point: Vector) -> Vector:
    """Euclidean projection on the simplex: max(point - tau, 0) with tau such that the sum is one.

    >>> project(np.array([1.0, 1.0]))
    array([0.5, 0.5])
    >>> project(np.array([1e30, 1e20]))
    array([1., 0.])
    """
    if abs(point).max() > 1e8:  # the one below would be lost beside such numbers, and a shift changes nothing
        point = point - point.max()
    descending = np.sort(point)[::-1]
    excess = np.cumsum(descending) - 1.0
    support = np.count_nonzero(descending * np.arange(1, point.size + 1) > excess)
    return np.maximum(point - excess[support - 1] / support, 0.0)


def linear_oracle(direction: Vector) -> Vector:
    """The vertex that maximises <lambda, direction>, the first one on ties (step 5 of Algorithm 3)."""
    return vertex(direction.size, int(np.argmax(direction)))


def entropy_step(weights: Vector, direction: Vector) -> Vector:
    """lambda_b exp(direction_b), normalised: one entropic mirror ascent step."""
    raised = weights * np.exp(direction - direction.max())
    return raised / raised.sum()


def saddle(values: Vector, bend: Vector, start: Vector | None = None) -> Vector:
    """Maximise <lambda, values> - 1/2 lambda' bend lambda over the simplex, by an active set.

    `bend` is symmetric and positive semidefinite. The weights are equal where nothing is told. Those that are zero in
    `start` are taken for zero at first; without it all begin equal.

    >>> saddle(np.array([3.0, 1.0]), np.eye(2))
    array([1., 0.])
    >>> saddle(np.array([1.0, 1.0]), np.diag([1.0, 3.0]))
    array([0.75, 0.25])
    >>> saddle(np.ones(2), np.full((2, 2), np.nan))
    array([0.5, 0.5])
    """
    p, scale = values.size, max(float(np.ptp(values)), float(bend.diagonal().max()))
    weights, system, given = uniform(p), np.ones((p + 1, p + 1)), np.ones(p + 1)
    if not (np.isfinite(values).all() and np.isfinite(bend).all() and scale > 0):
        return weights
    values, bend = (values - values.mean()) / scale, bend / scale + SADDLE_RIDGE * np.eye(p)
    system[:p, :p], system[p, p], given[:p] = bend, 0.0, values
    weights = weights if start is None else start
    free = weights > 0
    for _ in range(10 * p):
        k = np.flatnonzero(free)
        kept = np.append(k, p)
        *best, level = np.linalg.solve(system[kept[:, None], kept], given[kept])
        moved = np.zeros(p)
        moved[k] = best
        falling = k[moved[k] < 0]
        if falling.size:  # only as far as the first weight that vanishes
            ratios = weights[falling] / (weights[falling] - moved[falling])
            weights = np.maximum(weights + float(ratios.min()) * (moved - weights), 0.0)
            weights[falling[np.argmin(ratios)]] = 0.0
            free = free & (weights > 0)
            continue
        weights = moved
        rises = np.where(free, -np.inf, values - bend @ weights - level)
        if rises.max() <= SADDLE_RIDGE:
            break
        free[np.argmax(rises)] = True
    return weights / weights.sum()


def one_per_beta(name: str, values: ArrayLike, p: int, one: str = "one") -> Vector:
    """Read a vector of numbers that is aligned with the betas; errors call one of them `one`."""
    try:
        vector = as_vector(values)
    except (TypeError, ValueError):
        raise ValueError(f"{name}={values!r} are not numbers.") from None
    if vector.shape != (p,):
        raise ValueError(f"{name} has shape {vector.shape}, but there are {p} betas: give {one} per beta.")
    return vector


def check_weights(weights: ArrayLike, p: int) -> Vector:
    """Given weights as a vector on the simplex; an error that says what is off otherwise."""
    vector = one_per_beta("weights", weights, p, "one weight")
    if not np.isfinite(vector).all() or vector.min() < -SIMPLEX_TOLERANCE:
        raise ValueError(f"weights={vector.tolist()} must be finite and >= 0.")
    if abs(vector.sum() - 1.0) > SIMPLEX_TOLERANCE:
        raise ValueError(f"weights={vector.tolist()} sum to {vector.sum():g}: they must sum to one.")
    vector = np.maximum(vector, 0.0)
    return vector / vector.sum()
