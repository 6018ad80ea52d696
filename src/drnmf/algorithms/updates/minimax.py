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
import scipy
from numpy.typing import NDArray

from drnmf.algorithms.updates.base import Facts, Parts, Rule
from drnmf.algorithms.updates.monotone import majorised
from drnmf.algorithms.updates.roots import NO_SLOTS, Slots
from drnmf.numerics import Array, Library, Vector, as_float64, namespace
from drnmf.objective import simplex

Evaluate = Callable[[Vector], Vector]

_TRIALS = 40
_ALIKE = 1e-9
"""Of the larger of two surrogates, and of lambda: they are equal."""


def surrogates(F: Array, t: Array, parts: Parts, penalty: Slots = NO_SLOTS) -> Vector:
    """Compute G_beta(t) for every loss, in float64; the terms of the penalties are in the units of the objective."""
    xp = namespace(F)
    assert parts.scaled_losses is not None
    assert parts.references is not None
    values = np.empty(len(parts.omega))
    integrals: dict[float, Array] = {}  # parts of X under one loss have the same

    def integral(exponent: float) -> Array:
        if exponent not in integrals:
            integrals[exponent] = F * _power_integral(t, exponent, xp)
        return integrals[exponent]

    pairs = [loss.exponents for loss in parts.omega]
    for up, down in dict.fromkeys(pairs):
        alike = [b for b, pair in enumerate(pairs) if pair == (up, down)]
        P, N = (as_float64(part if len(alike) == len(part) else part[alike]) for part in (parts.P, parts.N))
        rise, fall = (as_float64(integral(exponent)).ravel() for exponent in (up + 1.0, 1.0 - down))
        change = np.array((P.reshape(len(alike), -1) @ rise - N.reshape(len(alike), -1) @ fall).tolist())
        values[alike] = parts.scaled_losses[alike] + change / parts.references[alike]
    for sign, powers in zip((1.0, -1.0), penalty, strict=True):
        for exponent, part in powers.items():
            values += sign * float((part * integral(1.0 + sign * exponent)).sum(dtype=xp.float64))
    return values


def _power_integral(t: Array, exponent: float, xp: Library) -> Array:
    """Integral of s^(exponent-1) from 1 to t: (t^exponent - 1) / exponent, or log t for exponent 0."""
    if exponent in (1.0, 2.0):
        return t - 1.0 if exponent == 1.0 else 0.5 * (t - 1.0) * (t + 1.0)
    return xp.log(t) if exponent == 0 else xp.expm1(exponent * xp.log(t)) / exponent


@dataclass(frozen=True)
class Minimax(Rule):
    """The min-max step as a rule; its state is the lambda it chose. Where no lambda improves, the block stays."""

    facts: ClassVar[Facts] = Facts(separate=True, chooses=True)

    def init(self, F: Array) -> Vector | None:
        return None

    def chosen(self, state: Vector | None) -> Vector | None:
        return state

    def step(self, F: Array, parts: Parts, state: Vector | None) -> tuple[Array, Vector | None]:
        xp = namespace(F)
        weights, t, bound = solve_dual(F, parts, state)
        assert parts.scaled_losses is not None
        if not bound < parts.scaled_losses.max():
            return F, weights
        return xp.clip(F * t, parts.floor, None), weights

    def retry(self, F: Array, tried: Array, attempt: int, state: Vector | None) -> tuple[Array, Vector | None]:
        return F, state


def solve_dual(F: Array, parts: Parts, guess: Vector | None = None) -> tuple[Vector | None, Array, float]:
    """Find (lambda, t, max_beta G_beta(t)) with the smallest maximum: Brent's method for two losses, SLSQP for more.

    lambda is None where it says nothing: every entry is of one objective, and those that do not move are not weighed.
    """
    assert parts.references is not None
    p, references = len(parts.omega), parts.references
    best: list[tuple[float, Vector, Array]] = []
    lowest = parts.floor / F  # the step ends at the floor: judge it there
    penalty = NO_SLOTS if parts.penalties is None else parts.bound(F).times(1.0 / parts.penalties.factor).slots(F)

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
    elif parts.penalties is None and _having(parts).sum(0).max() <= 1:  # as rows of W where objectives are of rows
        evaluate(references / references.sum())  # any lambda moves every entry to the same place
        bound, _, t = best[0]
        return None, namespace(F).where(_above(parts, bound), t, 1.0), bound
    elif p == 2:
        _equal(evaluate)
    else:
        if guess is None:  # the lambda that the run begins with
            guess = parts.coefficients * references / float(parts.coefficients @ references)
        _ascend(evaluate, 0.99 * guess + 0.01 / p)
    bound, weights, t = best[0]
    return weights, t, bound


def _having(parts: Parts) -> NDArray[np.bool_]:
    return namespace(parts.P).abs(parts.N) + parts.P > 0


def _above(parts: Parts, bound: float) -> NDArray[np.bool_]:
    """Tell which entries are of objectives above a bound; others need not move, and keep what they have to give."""
    assert parts.scaled_losses is not None
    above: NDArray[np.bool_] = namespace(parts.P).any(_having(parts)[parts.scaled_losses > bound], 0)
    return above


def _divided(penalty: Slots, number: float) -> Slots:
    rising, falling = ({exponent: part / number for exponent, part in powers.items()} for powers in penalty)
    return rising, falling


def _equal(evaluate: Evaluate) -> None:
    """Two losses: at the best lambda both surrogates are equal, or lambda is a vertex."""

    def apart(weight: float) -> float:
        G = evaluate(np.array([weight, 1.0 - weight]))
        difference = float(G[0] - G[1])
        return 0.0 if abs(difference) <= _ALIKE * G.max() else difference

    # the difference falls with lambda: of one sign at both ends, a vertex is best, and `evaluate` has kept it
    if apart(0.0) > 0.0 > apart(1.0):
        scipy.optimize.brentq(apart, 0.0, 1.0, xtol=_ALIKE, maxiter=_TRIALS, disp=False)


def _ascend(evaluate: Evaluate, start: Vector) -> None:
    """More losses: maximise the concave g on the simplex from values and gradients."""

    def negative(weights: Vector) -> tuple[float, Vector]:
        projected = simplex.project(weights)
        G = evaluate(projected)
        return -float(projected @ G), -G

    scipy.optimize.minimize(
        negative, start, jac=True, method="SLSQP", bounds=[(0.0, 1.0)] * start.size,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": np.ones_like},
        options={"maxiter": _TRIALS, "ftol": 1e-10},
    )  # fmt: skip
