r"""The positive root t of sum P_a t^a = sum N_b t^-b, entry by entry: what the steps of majorisers come down to.

Where the sum of every column is given, a multiplier mu of its own is added to the slope of all its entries, and
:math:`\sum_k \max(floor, \tilde h_k t_k(\mu)) = total` decides it (Leplat, Gillis and Idier 2021). Every t_k falls with
mu, so one number per column is looked for. It is at least the mu at which one entry alone is as large as the total, and
at most the one at which every entry is at most an r-th of it. Where no loss has beta > 1 the slope has a pole at
mu = -P_k, for the smallest P_k with N_k > 0.
"""

from __future__ import annotations

import math
from functools import reduce
from itertools import chain
from operator import add
from typing import Any

import numpy as np

from drnmf.backends.core import native_core
from drnmf.numerics import LEAST_DIVISOR, SUM_TOLERANCE, Array, Library, Numbers, namespace, precision_of, unit_roundoff
from drnmf.objective.constraints import normalised
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
    # of log t; a search for sums, which begins near its last point, needs no more than SUM_TOLERANCE of it
    enough = 1e-14 if near is None else 1e-12
    # e^s must stay a number: e^88 is the largest of float32, e^709 that of float64
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


_STEPS = 60


def multiplier_step(F: Array, rising: Powers, falling: Powers, sums: Numbers, floor: Numbers) -> Array:
    """Minimise the majoriser over columns that sum to `sums`: compiled for NumPy arrays, in F's library elsewhere.

    `rising` and `falling` map exponents to the majoriser's slope in t = h / h~ at one, (r, n). A column whose parts
    have no root (all its observed entries are zeros) becomes uniform.

    >>> F, one = np.full((2, 1), 0.5), np.ones((2, 1))
    >>> multiplier_step(F, {0.0: one}, {1.0: np.array([[3.0], [1.0]])}, 1.0, 0.0).tolist()
    [[0.75], [0.25]]
    """
    core = native_core() if isinstance(F, np.ndarray) and np.ndim(floor) == 0 else None
    if core is None:
        return searched(F, rising, falling, sums, floor)
    parts = [{k: _like(powers[k], F) for k in sorted(powers)} for powers in (rising, falling)]
    plus, minus = (part.pop(0.0, None) for part in parts)
    terms, exponents = ([*chain(*pairs)] for pairs in ((p.values() for p in parts), parts))
    totals, out = np.full(F.shape[1], sums, dtype=F.dtype), np.empty(F.shape, F.dtype)
    F = np.ascontiguousarray(F)
    core.multiplier_step(F, plus, minus, terms, exponents, len(parts[0]), totals, floor, tolerance(F), _STEPS, out)
    return out


def _like(part: Array, F: Array) -> Array:
    """The numbers of a part for every entry of F, in one piece."""
    return np.ascontiguousarray(np.broadcast_to(part, F.shape), dtype=F.dtype)


def tolerance(F: Array) -> float:
    """Return how far the sum of a column may be from its total before it is scaled to it."""
    # the sum of r numbers is not known better than r roundings
    return max(SUM_TOLERANCE, 8.0 * F.shape[0] * unit_roundoff(F))


def searched(F: Array, rising: Powers, falling: Powers, sums: Numbers, floor: Numbers) -> Array:
    """`multiplier_step` in the array library of F: the reference of the compiled one."""
    xp = namespace(F)
    rising, falling = ({k: part + xp.zeros_like(F) for k, part in powers.items()} for powers in (rising, falling))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        search = _Search(F, rising, falling, sums, floor)
        stepped, known = normalised(search.minimum(), sums, floor), search.known
        return xp.where(known, stepped, xp.clip(0.0 * F + sums / F.shape[0], floor, None))


class _Search:
    """The root of every column: Newton's method inside a bracket."""

    def __init__(self, F: Array, rising: Powers, falling: Powers, sums: Numbers, floor: Numbers) -> None:
        xp: Library = namespace(F)
        nothing = xp.zeros_like(F)
        self.xp, self.floor, self.F, self.sums = xp, floor, F, sums + 0.0 * F[0]
        constant = rising.get(0.0, nothing) - falling.get(0.0, nothing)
        self.rising = {a: P for a, P in rising.items() if a != 0.0}
        self.falling = {b: N for b, N in falling.items() if b != 0.0}
        self.pole = not self.rising
        slope = total(falling) - total(rising)  # of the majoriser at t = 1, downwards
        bend = total({a: a * P for a, P in rising.items()}) + total({b: b * N for b, N in falling.items()})
        self.moves = (bend > 0) & (F > 0)
        self.known = self.moves.any(0)
        # mu is counted from the pole: beside it the digits of P + mu would be lost
        shift = xp.amin(xp.where(self.moves, constant if self.pole else -slope, math.inf), axis=0)
        shift = xp.where(self.known, shift, 0.0)
        self.constant = constant - shift
        self.low, self.high = self._alone(self.sums / F), self._alone(self.sums / (F.shape[0] * F))
        if self.pole:
            self.low = xp.clip(self.low, LEAST_DIVISOR, None)
        weight = xp.where(self.moves, F / xp.where(self.moves, bend, 1.0), 0.0)
        first = (weight * (slope + shift)).sum(0) / weight.sum(0)
        self.fresh = self.known  # columns of which only the bound `low` is known, and nothing was tried below the root
        self.mu = xp.where((first > self.low) & (first < self.high), first, self.low)

    def _alone(self, t: Array) -> Array:
        """The largest mu at which an entry is t times what it was: minus the slope there."""
        falls = [N / _power(t, b) for b, N in self.falling.items()]
        rises = [-P * _power(t, a) for a, P in self.rising.items()]
        found = sum([*falls, *rises], -self.constant)
        return self.xp.amax(self.xp.where(self.moves & (found == found), found, -math.inf), axis=0)

    def inside(self, mu: Array) -> Array:
        """Take the bound, once, or the middle of the bracket where a value is not in it."""
        xp, middle = self.xp, 0.5 * (self.low + self.high)
        return xp.where(
            (mu > self.low) & (mu < self.high), mu, xp.where(self.fresh & (mu <= self.low), self.low, middle)
        )

    def minimum(self) -> Array:
        """Return max(floor, F t(mu)) at the root, up to rounding; columns that are done are left alone."""
        xp, found, near = self.xp, 1.0 * self.F, tolerance(self.F)
        here = xp.where(self.known)[0]
        t: Array | None = None
        self._keep(here)
        for turn in range(_STEPS):
            t = self.at(self.mu, t)
            H = xp.clip(self.F * t, self.floor, None)
            reached = H.sum(0) / self.sums
            found[:, here] = H
            above, before = reached > 1.0, self.mu
            self.low, self.high = xp.where(above, self.mu, self.low), xp.where(above, self.high, self.mu)
            self.fresh = self.fresh & ~above
            self.mu = self.inside(self.mu + self.step(reached, self.falls(t, H) / self.sums))
            off = abs(reached - 1.0) > near
            if not bool((off & (self.mu != before)).any()):
                break
            # to leave columns out copies the others, which does not pay after every turn
            if turn % 4 == 3:
                some = xp.where(off)[0]
                here, t = here[some], t[:, some]
                self._keep(some)
        left = abs(found[:, here].sum(0) / self.sums - 1.0) > near
        if bool(left.any()):
            found[:, here] = xp.where(left, self._between(found[:, here]), found[:, here])
        return found

    def _between(self, found: Array) -> Array:
        """Return the columns between those of both ends of the bracket whose sums are the totals.

        Where an entry hardly bends beside others that do, mu has too few digits to place it.
        """
        xp, low, high = self.xp, self.low, self.high
        if not self.pole:  # both ends further apart by the digits that constant + mu may have lost
            digits = 4.0 * unit_roundoff(self.F)
            span = xp.amax(xp.where(self.moves, abs(self.constant), 0.0), axis=0)
            low, high = low - digits * (abs(low) + span), high + digits * (abs(high) + span)
        above, below = (xp.clip(self.F * self.at(mu, None), self.floor, None) for mu in (low, high))
        share = (self.sums - below.sum(0)) / (above.sum(0) - below.sum(0))  # above may be many times the total
        return xp.where((share >= 0) & (share <= 1), below + share * (above - below), found)

    def step(self, reached: Array, rate: Array) -> Array:
        """Newton's step for reached^q = 1, with the q that makes the left side all but straight in mu."""
        q = -max(self.falling) if self.pole else max(self.rising) if not self.falling else 1.0
        return (reached - _power(reached, 1.0 - q)) / (q * rate)

    def _keep(self, some: Array) -> None:
        """Go on with some columns alone."""
        for name in ("F", "constant", "moves"):
            setattr(self, name, getattr(self, name)[:, some])
        for name in ("sums", "low", "high", "mu", "fresh"):
            setattr(self, name, getattr(self, name)[some])
        self.rising = {a: P[:, some] for a, P in self.rising.items()}
        self.falling = {b: N[:, some] for b, N in self.falling.items()}

    def at(self, mu: Array, near: Array | None) -> Array:
        """Find t(mu), zero where an entry wants to vanish."""
        xp, constant = self.xp, self.constant + mu
        if self.pole:
            t = positive_root({0.0: xp.where(self.moves, constant, 1.0)}, self.falling, near)
            return xp.where(self.moves, t, 0.0)
        if not self.falling and len(self.rising) == 1:  # beta >= 2 alone: P t^a = N - mu
            ((a, P),) = self.rising.items()
            t = (xp.clip(-constant, 0.0, None) / P) ** (1.0 / a)
        else:
            rising = self.rising | {0.0: xp.clip(constant, 0.0, None)}
            falling = self.falling | {0.0: xp.clip(-constant, 0.0, None)}
            t = positive_root(rising, falling, xp.ones_like(constant) if near is None else near)
            t = xp.where(t == t, t, 0.0)
        return xp.where(self.moves, t, 1.0)

    def falls(self, t: Array, H: Array) -> Array:
        """Compute by how much the sum of a column falls with mu: sum of H / (t g'(t)) over what is above the floor."""
        xp, above = self.xp, self.floor < H
        t = xp.where(above, t, 1.0)
        if self.pole and len(self.falling) == 1:  # N t^-b = P + mu
            ((b, _),) = self.falling.items()
            bend = b * (self.constant + self.mu)
        else:
            powers = [a * P * _power(t, a) for a, P in self.rising.items()]
            powers += [b * N / _power(t, b) for b, N in self.falling.items()]
            bend = sum(powers[1:], powers[0])
        above &= bend > 0
        return xp.where(above, H / xp.where(above, bend, 1.0), 0.0).sum(0)


def _power(t: Array, exponent: float) -> Array:
    """t to a power, without the cost of a general one where there is a shorter way."""
    return t if exponent == 1.0 else t * t if exponent == 2.0 else t**exponent
