"""The multiplicative update of Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from drnmf.algorithms.updates.base import Facts, Parts, Rule
from drnmf.algorithms.updates.monotone import majorised
from drnmf.losses.base import Omega, is_monotone
from drnmf.numerics import Array


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
        if parts.tilt is not None and is_monotone(parts.omega):  # N and P are weighted already
            alone = replace(parts, coefficients=np.ones(1))
            return majorised(F, alone, parts.tilt.bound(F).slots(F)), None
        return parts.multiplicative(F), None
