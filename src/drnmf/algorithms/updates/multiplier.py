r"""The majorise-minimise step of columns whose sum is given.

With a multiplier mu for every column the minimum of the separable majoriser over the columns of a given sum solves

.. math:: \sum_k \max(floor, \tilde h_k t_k(\mu)) = total, \qquad
          \sum_\beta c_\beta [P_\beta t^{a_\beta} - N_\beta t^{-b_\beta}] + \mu = 0

(Leplat, Gillis and Idier 2021). Every t_k falls with mu, so one number per column is looked for, between the smallest
and the largest N - P of its entries: there all t_k are above or below one. Where no loss has beta > 1 the left side has
a pole at mu = -P_k, for the smallest P_k with N_k > 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from drnmf.algorithms.updates.roots import positive_root, total
from drnmf.numerics import Array, namespace, unit_roundoff
from drnmf.objective.constraints import normalised
from drnmf.objective.penalty import Powers

_STEPS = 60


def multiplier_step(F: Array, rising: Powers, falling: Powers, sums: Any, floor: Any) -> Array:
    """Minimise the majoriser over columns that sum to `sums`.

    Parameters
    ----------
    F : (r, n) the block, whose columns have these sums
    rising, falling : exponent -> (r, n), the majoriser's slope in t = h / h~ at one
    sums : a number, or (n,)
    floor : smallest entry

    Returns
    -------
    stepped : (r, n); a column whose parts have no root (all its observed entries are zeros) is uniform

    Examples
    --------
    >>> F, one = np.full((2, 1), 0.5), np.ones((2, 1))
    >>> multiplier_step(F, {0.0: one}, {1.0: np.array([[3.0], [1.0]])}, 1.0, 0.0).tolist()
    [[0.75], [0.25]]
    """
    xp = namespace(F)
    rising, falling = ({k: part + xp.zeros_like(F) for k, part in powers.items()} for powers in (rising, falling))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        search = _Search(F, rising, falling, sums, floor)
        stepped, known = normalised(search.minimum(), sums, floor), search.known
        return xp.where(known, stepped, xp.clip(0.0 * F + sums / F.shape[0], floor, None))


class _Search:
    """The root of every column: Newton's method inside a bracket."""

    def __init__(self, F: Array, rising: Powers, falling: Powers, sums: Any, floor: Any) -> None:
        xp: Any = namespace(F)
        nothing = xp.zeros_like(F)
        self.xp, self.floor = xp, floor
        constant = rising.get(0.0, nothing) - falling.get(0.0, nothing)
        self.rising = {a: P for a, P in rising.items() if a != 0.0}
        self.falling = {b: N for b, N in falling.items() if b != 0.0}
        self.pole = not self.rising
        slope = total(falling) - total(rising)  # of the majoriser at t = 1, downwards
        bend = total({a: a * P for a, P in rising.items()}) + total({b: b * N for b, N in falling.items()})
        self.moves = total(self.falling) > 0 if self.pole else bend > 0
        self.known = self.moves.any(0)
        # mu is counted from the pole: beside it the digits of P + mu would be lost
        shift = xp.amin(xp.where(self.moves, constant if self.pole else -slope, math.inf), axis=0)
        shift = xp.where(self.known, shift, 0.0)
        self.constant, slope = constant - shift, xp.where(self.moves, slope + shift, 0.0)
        self.F, self.sums = F, sums + 0.0 * F[0]
        self.low, self.high = xp.zeros_like(shift), xp.amax(slope, axis=0)
        if not self.pole:
            self.low, self.high = xp.amin(xp.where(self.moves, slope, math.inf), axis=0), xp.zeros_like(shift)
        weight = xp.where(self.moves, F / xp.where(self.moves, bend, 1.0), 0.0)
        self.mu = self.inside((weight * slope).sum(0) / weight.sum(0))

    def inside(self, mu: Array) -> Array:
        """Take the middle of the bracket where a value is not in it."""
        return self.xp.where((mu > self.low) & (mu < self.high), mu, 0.5 * (self.low + self.high))

    def minimum(self) -> Array:
        """Return max(floor, F t(mu)) at the root, up to rounding; columns that are done are left alone."""
        xp, found, near = self.xp, 1.0 * self.F, 8.0 * self.F.shape[0] * unit_roundoff(self.F)
        here = xp.where(self.known)[0]
        t: Array | None = None
        self._keep(here)
        for turn in range(_STEPS):
            t = self.at(self.mu, t)
            H = xp.clip(self.F * t, self.floor, None)
            reached = H.sum(0) / self.sums
            found[:, here] = H
            before, self.low = self.mu, xp.where(reached > 1.0, self.mu, self.low)
            self.high = xp.where(reached > 1.0, self.high, self.mu)
            rate = self.falls(t, H) / self.sums
            if self.pole:  # beside it the sum to the power -b is all but straight
                b = max(self.falling)
                step = (_power(reached, b) - 1.0) * reached / (b * rate)
            else:
                step = (reached - 1.0) / rate
            self.mu = self.inside(self.mu + step)
            left = (abs(reached - 1.0) > near) & (self.mu != before)
            if not bool(left.any()):
                break
            if turn % 4 == 3:
                some = xp.where(left)[0]
                here, t = here[some], t[:, some]
                self._keep(some)
        return found

    def _keep(self, some: Any) -> None:
        """Go on with some columns alone."""
        for name in ("F", "constant", "moves"):
            setattr(self, name, getattr(self, name)[:, some])
        for name in ("sums", "low", "high", "mu"):
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
            return xp.where(self.moves, (xp.clip(-constant, 0.0, None) / P) ** (1.0 / a), 1.0)
        rising = self.rising | {0.0: xp.clip(constant, 0.0, None)}
        falling = self.falling | {0.0: xp.clip(-constant, 0.0, None)}
        t = positive_root(rising, falling, xp.ones_like(constant) if near is None else near)
        return xp.where(t == t, t, 0.0)

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
