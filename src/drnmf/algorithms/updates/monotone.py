r"""The exact majorise-minimise step: t = h/h~ solves, entry by entry, the increasing equation

.. math:: \sum_\beta c_\beta [P_\beta t^{a_\beta} - N_\beta t^{-b_\beta}] = 0

with the exponents of each loss (`Loss.exponents`; for a beta-divergence max(beta,1) - 1 and 2 - min(beta,2)): the
stationarity of the separable convex majoriser of section 3.1's objectives, so the weighted objective never rises and no
line search is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from drnmf.algorithms.updates.base import Facts, Parts, Rule
from drnmf.algorithms.updates.roots import NO_SLOTS, Slots, multiplier_step, positive_root, total
from drnmf.algorithms.updates.steps import usable
from drnmf.losses.base import Omega, is_monotone
from drnmf.numerics import Array, namespace


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
