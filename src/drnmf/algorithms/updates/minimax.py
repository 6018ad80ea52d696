r"""A step that never raises the maximum: the min-max problem of the majorisers, solved in lambda alone.

At the current block F~ every loss is majorised by a separable convex function of t = F / F~ (see `monotone`),

.. math:: G_\beta(t) = \bar D_\beta + \sum \tilde F [P_\beta \varphi_\beta(t) - N_\beta \psi_\beta(t)] / e_\beta,
          \quad \varphi' = t^{a_\beta}, \ \psi' = t^{-b_\beta}, \ \varphi(1) = \psi(1) = 0,

so that min over t of max over beta of G_beta is max over lambda of g(lambda) = min_t sum lambda_beta G_beta(t): a
concave problem with |Omega| - 1 variables and the gradient G(t(lambda)), without a pass over X. Whatever lambda is
found, the true maximum after the step is at most max_beta G_beta(t), which is known before the step is taken. Penalties
stand beside the maximum: the bound of their change is added to every G_beta, once whatever lambda is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.optimize import minimize

from drnmf.algorithms.updates.base import Facts, Parts, Rule
from drnmf.algorithms.updates.monotone import majorised
from drnmf.algorithms.updates.roots import NO_SLOTS, Slots
from drnmf.numerics import Array, Library, Vector, namespace
from drnmf.objective import simplex

Evaluate = Callable[[Vector], Vector]

_BISECTIONS = 30
_TRIALS = 40


def surrogates(F: Array, t: Array, parts: Parts, penalty: Slots = NO_SLOTS) -> Vector:
    """Compute G_beta(t) for every loss, in float64.

    Parameters
    ----------
    penalty : the terms of the penalties, in the units of the objective
    """
    xp = namespace(F)
    assert parts.scaled_losses is not None
    assert parts.references is not None
    values = np.empty(len(parts.omega))
    log_t = xp.log(t)
    for b, loss in enumerate(parts.omega):
        up, down = loss.exponents
        rise = _power_integral(log_t, up + 1.0, xp)
        fall = _power_integral(log_t, 1.0 - down, xp)
        change = (F * (parts.P[b] * rise - parts.N[b] * fall)).sum(dtype=xp.float64)
        values[b] = parts.scaled_losses[b] + float(change) / parts.references[b]
    for sign, powers in zip((1.0, -1.0), penalty, strict=True):
        for exponent, part in powers.items():
            integral = _power_integral(log_t, 1.0 + sign * exponent, xp)
            values += sign * float((F * (part * integral)).sum(dtype=xp.float64))
    return values


def _power_integral(log_t: Array, exponent: float, xp: Library) -> Array:
    """Integral of s^(exponent-1) from 1 to t: (t^exponent - 1) / exponent, or log t for exponent 0."""
    return log_t if exponent == 0 else xp.expm1(exponent * log_t) / exponent


@dataclass(frozen=True)
class Minimax(Rule):
    """The min-max step as a rule; its state is the lambda it chose. Where no lambda improves, the block stays."""

    facts: ClassVar[Facts] = Facts(separate=True, chooses=True)

    def init(self, F: Array) -> Vector | None:
        return None

    def step(self, F: Array, parts: Parts, state: Vector | None) -> tuple[Array, Vector]:
        xp = namespace(F)
        weights, t, bound = solve_dual(F, parts, state)
        assert parts.scaled_losses is not None
        if not bound < parts.scaled_losses.max():
            return F, weights
        return xp.clip(F * t, parts.floor, None), weights

    def retry(self, F: Array, tried: Array, attempt: int, state: Vector) -> tuple[Array, Vector]:
        return F, state


def solve_dual(F: Array, parts: Parts, guess: Vector | None = None) -> tuple[Vector, Array, float]:
    """Find (lambda, t, max_beta G_beta(t)) with the smallest maximum: bisection for two losses, SLSQP for more."""
    assert parts.references is not None
    p, references = len(parts.omega), parts.references
    best: list[tuple[float, Vector, Array]] = []
    lowest = parts.floor / F  # the step ends at the floor: judge it there
    penalty = NO_SLOTS if parts.tilt is None else parts.bound(F).times(1.0 / parts.tilt.factor).slots(F)

    def evaluate(weights: Vector) -> Vector:
        c = weights / references
        scaled = replace(parts, coefficients=c / c.max())
        t = namespace(F).maximum(majorised(F, scaled, _divided(penalty, float(c.max()))) / F, lowest)
        G = surrogates(F, t, parts, penalty)
        if not best or float(G.max()) < best[0][0]:
            best[:] = [(float(G.max()), weights, t)]
        return G

    if p == 1:
        evaluate(np.ones(1))
    elif p == 2:
        _bisect(evaluate)
    else:
        start = simplex.uniform(p) if guess is None else 0.99 * guess + 0.01 / p
        _ascend(evaluate, start)
    bound, weights, t = best[0]
    return weights, t, bound


def _divided(penalty: Slots, number: float) -> Slots:
    rising, falling = ({exponent: part / number for exponent, part in powers.items()} for powers in penalty)
    return rising, falling


def _bisect(evaluate: Evaluate) -> None:
    """Two losses: at the best lambda both surrogates are equal, or lambda is a vertex."""
    low, high = 0.0, 1.0  # weight of the first loss
    for vertex in (0.0, 1.0):
        G = evaluate(np.array([vertex, 1.0 - vertex]))
        if (vertex == 0.0 and G[0] <= G[1]) or (vertex == 1.0 and G[0] >= G[1]):
            return
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        G = evaluate(np.array([middle, 1.0 - middle]))
        if abs(G[0] - G[1]) <= 1e-9 * G.max():
            return
        low, high = (middle, high) if G[0] > G[1] else (low, middle)


def _ascend(evaluate: Evaluate, start: Vector) -> None:
    """More losses: maximise the concave g on the simplex from values and gradients."""

    def negative(weights: Vector) -> tuple[float, Vector]:
        projected = simplex.project(weights)
        G = evaluate(projected)
        return -float(projected @ G), -G

    minimize(
        negative, start, jac=True, method="SLSQP", bounds=[(0.0, 1.0)] * start.size,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": np.ones_like},
        options={"maxiter": _TRIALS, "ftol": 1e-10},
    )  # fmt: skip
