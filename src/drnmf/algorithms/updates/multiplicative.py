"""The multiplicative update of Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from drnmf.algorithms.updates.base import Parts, Rule
from drnmf.losses.base import Omega, is_monotone
from drnmf.numerics import Array


@dataclass(frozen=True)
class Multiplicative(Rule):
    """Algorithm 1: H+ = H * (sum c_b N_b) / (sum c_b P_b), halved towards H while the objective rises."""

    best: ClassVar[bool] = False

    def certain(self, omega: Omega) -> bool:
        return is_monotone(omega)

    def init(self, F: Array) -> None:
        return None

    def step(self, F: Array, parts: Parts, state: None) -> tuple[Array, None]:
        return parts.multiplicative(F), None
