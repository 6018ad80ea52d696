"""The positive root t of sum P_a t^a = sum N_b t^-b, entry by entry: what the steps of majorisers come down to."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

from drnmf.numerics import Array, Library, namespace, precision_of
from drnmf.objective.penalty import Powers

Slots = tuple[Powers, Powers]  # exponents of the rising and of the falling powers -> what stands before them
NO_SLOTS: Slots = ({}, {})


def joined_slots(first: Slots, second: Slots) -> Slots:
    """Add up the terms of two slopes."""
    rising, falling = (
        a | {k: a[k] + part if k in a else part for k, part in b.items()} for a, b in zip(first, second, strict=True)
    )
    return rising, falling


def positive_root(rising: Powers, falling: Powers, near: Array | None = None) -> Array:
    """Solve sum P_a t^a = sum N_b t^-b: in closed form where there is one, else by Newton steps, from `near`."""
    xp: Library = namespace(next(iter(rising.values())))
    if len(rising) == len(falling) == 1:
        ((a, P),), ((b, N),) = rising.items(), falling.items()
        return N / P if a + b == 1.0 else (N / P) ** (1.0 / (a + b))
    if set(rising) == {0.0} and set(falling) == {1.0, 2.0}:  # P t^2 - N1 t - N2 = 0, as for beta in {0, 1}
        A, B, C = rising[0.0], falling[1.0], falling[2.0]
        return (B + xp.sqrt(B * B + 4.0 * A * C)) / (2.0 * A)
    if set(rising) | set(falling) == {0.0, 1.0} and 1.0 in rising:  # P1 t^2 + (P0 - N0) t - N1 = 0, as for {1, 2}
        none: Any = 0.0
        A, B, C = rising[1.0], rising.get(0.0, none) - falling.get(0.0, none), falling.get(1.0, none)
        above, reach = B > 0, abs(B) + xp.sqrt(B * B + 4.0 * A * C)  # no cancellation for either sign of B
        return xp.where(above, 2.0 * C, reach) / xp.where(above, reach, 2.0 * A)
    return _newton_root(rising, falling, xp, near)


_NEWTON_STEPS = 40


def _newton_root(rising: Powers, falling: Powers, xp: Library, near: Array | None) -> Array:
    """Newton in s = log t on g(s) = log sum P e^(a s) - log sum N e^(-b s), which is increasing.

    Its slope stays between fixed bounds and the step is at most 2, so that the iteration cannot run away; a bracket
    kept from the signs of g catches the rest.
    """
    s = xp.zeros_like(next(iter(rising.values())))
    enough = 1e-14 if near is None else 1e-12
    reach = 80.0 if precision_of(s) == "float32" else 700.0
    low, high = s - reach, s + reach
    s = s if near is None else xp.clip(xp.log(near), -reach, reach)
    for _ in range(_NEWTON_STEPS):
        up, up_slope = _with_slope(rising, s, 1.0, xp)
        down, down_slope = _with_slope(falling, s, -1.0, xp)
        g = xp.log(up) - xp.log(down)
        low, high = xp.where(g < 0, s, low), xp.where(g > 0, s, high)
        newton = s - xp.clip(g / (up_slope / up + down_slope / down), -2.0, 2.0)
        inside = (newton >= low) & (newton <= high)
        following = xp.where(inside, newton, 0.5 * (low + high))
        if bool((abs(following - s) <= enough).all()):
            break
        s = following
    return xp.exp(s)


def _with_slope(powers: Powers, s: Array, sign: float, xp: Library) -> tuple[Array, Array]:
    """sum of F e^(sign k s) over the powers k, and the same with every term times k."""
    terms = {k: F * xp.exp(sign * k * s) for k, F in powers.items()}
    return total(terms), total({k: k * term for k, term in terms.items()})


def total(powers: Powers) -> Array:
    """Add up what stands before all powers."""
    return reduce(add, powers.values())
