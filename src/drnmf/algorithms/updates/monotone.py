r"""The exact majorise-minimise step: t = h/h~ solves, entry by entry, the increasing equation

.. math:: \sum_\beta c_\beta [P_\beta t^{a_\beta} - N_\beta t^{-b_\beta}] = 0

with the exponents of each loss (`Loss.exponents`; for a beta-divergence max(beta,1) - 1 and 2 - min(beta,2)): the
stationarity of the separable convex majoriser of section 3.1's objectives, so the weighted objective never rises and no
line search is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from drnmf.algorithms.updates.base import Facts, Parts, Rule, halve
from drnmf.algorithms.updates.roots import NO_SLOTS, Slots, multiplier_step, positive_root, total
from drnmf.algorithms.updates.steps import usable
from drnmf.losses.base import Omega, is_monotone
from drnmf.numerics import Array, Numbers, namespace, of_each_run


@dataclass(frozen=True)
class Monotone(Rule):
    """The step to the minimum of the majoriser."""

    facts: ClassVar[Facts] = Facts(separate=True, bounded=True)

    def certain(self, omega: Omega) -> bool:
        return True

    def init(self, F: Array) -> None:
        return None

    def step(self, F: Array, parts: Parts, state: None) -> tuple[Array, None]:
        return majorised(F, parts, parts.bound(F).slots(F)), None


def majorised(F: Array, parts: Parts, penalty: Slots = NO_SLOTS) -> Array:
    """Take the step to the minimum of the majoriser, over columns of a given sum where the parts have one.

    penalty : the terms of the penalties, in the units of the coefficients
    """
    if parts.total is None:
        stepped: Array = namespace(F).clip(F * majoriser_root(parts, penalty), parts.floor, None)
        return stepped
    return multiplier_step(F, *parts.slots(penalty), parts.total, parts.floor)


def majoriser_root(parts: Parts, penalty: Slots = NO_SLOTS) -> Array:
    """Find the positive root t of the majoriser's derivative, entry by entry; one where there is no finite root."""
    rising, falling = parts.slots(penalty)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return usable(positive_root(rising, falling), total(rising))


@dataclass(frozen=True)
class Multiplicative(Rule):
    """Algorithm 1: H+ = H * (sum c_b N_b) / (sum c_b P_b), halved towards H while the objective rises.

    Where that is the exact step of the majoriser it remains so under penalties.
    """

    facts: ClassVar[Facts] = Facts(best=False, bounded=True, batched=True)

    def certain(self, omega: Omega) -> bool:
        return is_monotone(omega)

    def init(self, F: Array) -> None:
        return None

    def step(self, F: Array, parts: Parts, state: None) -> tuple[Array, None]:
        if parts.penalties is not None and is_monotone(parts.omega):  # N and P are weighted already
            alone = replace(parts, coefficients=np.ones(1))
            return majorised(F, alone, parts.penalties.bound(F).slots(F)), None
        return parts.multiplicative(F), None


@dataclass(frozen=True)
class Momentum:
    """State of `Extrapolated`: the last block before extrapolation, nu of Nesterov's sequence, steps taken.

    In a batch of runs nu may be a vector, one for every run.
    """

    F: Array
    nu: Numbers
    steps: int = 0


class Moving(Rule):
    """A rule whose state is a `Momentum`: an iteration that raised what is minimised begins the sequence anew."""

    def init(self, F: Array) -> Momentum:
        return Momentum(F, 1.0)

    def restart(self, state: Momentum) -> Momentum:
        return replace(state, nu=1.0)


@dataclass(frozen=True)
class Extrapolated(Moving):
    """Multiplicative steps from extrapolated points (Hien, Leplat and Gillis 2024).

    F_k = F^ * (sum c_b N_b) / (sum c_b P_b) at the extrapolated point F^, then F^ = F_k + a_k max(F_k - F_(k-1), 0)
    with nu_k = (1 + sqrt(1 + 4 nu_(k-1)^2)) / 2 and a_k = (nu_(k-1) - 1) / nu_k. Sweeps stand at the extrapolated
    points, which are feasible. A point that raised the objective is replaced by F_k alone and nu is halved; an
    iteration that raised what is minimised well above the best restarts the sequence.

    Parameters
    ----------
    geometric : extrapolate by F^ = F_k max(F_k / F_(k-1), 1)^a_k, at most tenfold, instead
    delay : plain steps taken first. Which local minimum a run ends in is decided early; with a delay the run follows
        the paper's algorithm while that happens.
    """

    facts: ClassVar[Facts] = Facts(batched=True)

    geometric: bool = False
    delay: int = 0

    def step(self, F: Array, parts: Parts, state: Momentum) -> tuple[Array, Momentum]:
        stepped = parts.multiplicative(F)
        a, nu = self.momentum(state)
        further = self.push(stepped, state.F, of_each_run(a, stepped)) if np.any(a) else stepped
        return further, Momentum(stepped, nu, state.steps + 1)

    def momentum(self, state: Momentum) -> tuple[Numbers, Numbers]:
        """Compute (a_k, nu_k) of the step that begins at `state`."""
        if state.steps < self.delay:
            return 0.0, 1.0
        before = state.nu
        if isinstance(before, float):  # of one run, as most are
            nu = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * before**2))
            return (before - 1.0) / nu, nu
        several = _plain(0.5 * (1.0 + np.sqrt(1.0 + 4.0 * before**2)))
        return (before - 1.0) / several, several

    def push(self, stepped: Array, last: Array, a: Numbers) -> Array:
        """Extrapolate; a = 0 leaves the point at F_k."""
        xp = namespace(stepped)
        if self.geometric:
            return stepped * xp.clip(stepped / last, 1.0, 10.0) ** a
        further = stepped - last  # in place from here on: W may be large
        xp.clip(further, 0.0, None, out=further)
        further *= a
        further += stepped
        return further

    def retry(self, F: Array, tried: Array, attempt: int, state: Momentum) -> tuple[Array, Momentum]:
        if attempt == 1 and tried is not state.F:
            return state.F, replace(state, nu=_plain(np.maximum(1.0, 0.5 * state.nu)))
        halved = halve(F, tried)
        return halved, replace(state, F=halved, nu=1.0)


def _plain(number: Numbers) -> Numbers:
    """One number as Python's own, which leaves the dtype of arrays alone; a vector stays."""
    return float(number) if isinstance(number, float) or np.ndim(number) == 0 else number
