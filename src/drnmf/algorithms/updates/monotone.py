r"""The exact majorise-minimise step: t = h/h~ solves, entry by entry, the increasing equation

.. math:: \sum_\beta c_\beta [P_\beta t^{a_\beta} - N_\beta t^{-b_\beta}] = 0

with the exponents of each loss (`Loss.exponents`; for a beta-divergence max(beta,1) - 1 and 2 - min(beta,2)): the
stationarity of the separable convex majoriser of section 3.1's objectives, so the weighted objective never rises and no
line search is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, ClassVar

import numpy as np

from drnmf.algorithms.updates.base import Parts, Rule
from drnmf.backends.steps import usable
from drnmf.losses.base import Omega
from drnmf.numerics import Array, namespace, precision_of
from drnmf.objective.penalty import Powers

Slots = tuple[Powers, Powers]  # exponents of the rising and of the falling powers -> what stands before them
NO_SLOTS: Slots = ({}, {})


@dataclass(frozen=True)
class Monotone(Rule):
    """The step to the minimum of the majoriser."""

    separate: ClassVar[bool] = True
    bounded: ClassVar[bool] = True

    def certain(self, omega: Omega) -> bool:
        return True

    def init(self, F: Array) -> None:
        return None

    def step(self, F: Array, parts: Parts, state: None) -> tuple[Array, None]:
        return namespace(F).clip(F * majoriser_root(parts, parts.bound(F).slots(F)), parts.floor, None), None


def majoriser_root(parts: Parts, penalty: Slots = NO_SLOTS) -> Array:
    """Find the positive root t of the majoriser's derivative, entry by entry; one where there is no finite root.

    Parameters
    ----------
    penalty : the terms of the penalties, in the units of the coefficients
    """
    rising, falling = Powers(), Powers()
    for loss, c, N, P in zip(parts.omega, parts.coefficients, parts.N, parts.P, strict=True):
        if c > 0:
            a, b = loss.exponents
            _add(rising, a, float(c) * P)
            _add(falling, b, float(c) * N)
    for powers, added in zip((rising, falling), penalty, strict=True):
        for exponent, part in added.items():
            _add(powers, exponent, part)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return usable(_root(rising, falling), _total(rising))


def _add(powers: Powers, exponent: float, part: Array) -> None:
    powers[exponent] = powers[exponent] + part if exponent in powers else part


def _root(rising: Powers, falling: Powers) -> Array:
    """Solve sum P_a t^a = sum N_b t^-b: in closed form where there is one, else by Newton steps."""
    xp: Any = namespace(next(iter(rising.values())))
    if len(rising) == len(falling) == 1:
        ((a, P),), ((b, N),) = rising.items(), falling.items()
        return N / P if a + b == 1.0 else (N / P) ** (1.0 / (a + b))
    if set(rising) == {0.0} and set(falling) == {1.0, 2.0}:  # P t^2 - N1 t - N2 = 0, as for beta in {0, 1}
        A, B, C = rising[0.0], falling[1.0], falling[2.0]
        return (B + xp.sqrt(B * B + 4.0 * A * C)) / (2.0 * A)
    if set(rising) | set(falling) == {0.0, 1.0} and 1.0 in rising:  # P1 t^2 + (P0 - N0) t - N1 = 0, as for {1, 2}
        none: Any = 0.0
        A, B, C = rising[1.0], rising.get(0.0, none) - falling.get(0.0, none), falling.get(1.0, none)
        root = xp.sqrt(B * B + 4.0 * A * C)  # no cancellation for either sign of B
        return xp.where(B > 0, 2.0 * C / xp.where(B > 0, B + root, 1.0), (root - B) / (2.0 * A))
    return _newton_root(rising, falling, xp)


_NEWTON_STEPS = 40


def _newton_root(rising: Powers, falling: Powers, xp: Any) -> Array:
    """Newton in s = log t on g(s) = log sum P e^(a s) - log sum N e^(-b s), which is increasing.

    Its slope stays between fixed bounds and the step is at most 2, so that the iteration cannot run away; a bracket
    kept from the signs of g catches the rest.
    """
    s = xp.zeros_like(next(iter(rising.values())))
    reach = 80.0 if precision_of(s) == "float32" else 700.0
    low, high = s - reach, s + reach
    for _ in range(_NEWTON_STEPS):
        up, up_slope = _with_slope(rising, s, 1.0, xp)
        down, down_slope = _with_slope(falling, s, -1.0, xp)
        g = xp.log(up) - xp.log(down)
        low, high = xp.where(g < 0, s, low), xp.where(g > 0, s, high)
        newton = s - xp.clip(g / (up_slope / up + down_slope / down), -2.0, 2.0)
        inside = (newton >= low) & (newton <= high)
        following = xp.where(inside, newton, 0.5 * (low + high))
        if bool((abs(following - s) <= 1e-14).all()):
            break
        s = following
    return xp.exp(s)


def _with_slope(powers: Powers, s: Array, sign: float, xp: Any) -> tuple[Array, Array]:
    """sum of F e^(sign k s) over the powers k, and the same with every term times k."""
    terms = {k: F * xp.exp(sign * k * s) for k, F in powers.items()}
    return _total(terms), _total({k: k * term for k, term in terms.items()})


def _total(powers: Powers) -> Array:
    return reduce(add, powers.values())
