"""Weights policies: how lambda moves after each iteration.

A policy is `init(p) -> weights, state` and `step(weights, scaled_losses, state) -> weights, state`, pure
functions of what they are given. `fixed` says that lambda never moves, so that sweeps may weigh early.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from drnmf import simplex
from drnmf.numerics import WEIGHT_FLOOR, Vector


@runtime_checkable
class Policy(Protocol):
    """What the loop asks of a policy. `state` is whatever the policy wants back next time."""

    def init(self, p: int) -> tuple[Vector, Any]: ...

    def step(self, weights: Vector, scaled_losses: Vector, state: Any) -> tuple[Vector, Any]: ...


@dataclass(frozen=True)
class Fixed:
    """Constant lambda: MO-NMF. None stands for 1/|Omega|."""

    weights: tuple[float, ...] | None = None

    def init(self, p: int) -> tuple[Vector, int]:
        return (simplex.uniform(p) if self.weights is None else simplex.check_weights(self.weights, p)), 0

    def step(self, weights: Vector, scaled_losses: Vector, state: int) -> tuple[Vector, int]:
        return weights, state


@dataclass(frozen=True)
class FrankWolfe:
    """Algorithm 3: lambda += gamma_k (onehot(argmax Dbar) - lambda) with gamma_k = a / (k + a), k = 1, 2, ...

    a = 1 is the paper's 1/(k+1), a = 2 the textbook's 2/(k+2); a larger a reacts faster.

    >>> weights, state = FrankWolfe().init(2)
    >>> FrankWolfe().step(weights, np.array([1.0, 2.0]), state)[0]
    array([0.25, 0.75])
    """

    a: float = 1.0

    def init(self, p: int) -> tuple[Vector, int]:
        return simplex.uniform(p), 1

    def step(self, weights: Vector, scaled_losses: Vector, state: int) -> tuple[Vector, int]:
        gamma = self.a / (state + self.a)
        return weights + gamma * (simplex.linear_oracle(scaled_losses) - weights), state + 1


@dataclass(frozen=True)
class Subgradient:
    """Algorithm 2: lambda = Proj(lambda + rho_k Dbar) with rho_k = 1/(k+1)."""

    def init(self, p: int) -> tuple[Vector, int]:
        return simplex.uniform(p), 1

    def step(self, weights: Vector, scaled_losses: Vector, state: int) -> tuple[Vector, int]:
        return simplex.project(weights + scaled_losses / (state + 1)), state + 1


@dataclass(frozen=True)
class Mirror:
    """Entropic mirror ascent: lambda_b *= exp(eta Dbar_b / max Dbar), normalised, eta_k = eta / sqrt(k).

    Dividing by the maximum keeps the step the same whatever the level of the losses.
    """

    eta: float = 2.0

    def init(self, p: int) -> tuple[Vector, int]:
        return simplex.uniform(p), 1

    def step(self, weights: Vector, scaled_losses: Vector, state: int) -> tuple[Vector, int]:
        direction = self.eta / np.sqrt(state) * scaled_losses / scaled_losses.max()
        # A weight that reaches zero could never come back: keep it where a few steps can raise it.
        floored = np.maximum(simplex.entropy_step(weights, direction), WEIGHT_FLOOR)
        return floored / floored.sum(), state + 1


POLICIES: dict[str, Policy] = {
    "frank-wolfe": FrankWolfe(1.0),
    "frank-wolfe-2": FrankWolfe(2.0),
    "subgradient": Subgradient(),
    "mirror": Mirror(),
    "fixed": Fixed(),
}
"""Names that estimators and the command line take."""


def as_policy(policy: str | Policy) -> Policy:
    """The policy behind a name, or the object itself."""
    if isinstance(policy, str):
        if policy not in POLICIES:
            raise ValueError(f"policy={policy!r} is not known: use one of {sorted(POLICIES)} or an object.")
        return POLICIES[policy]
    if not isinstance(policy, Policy) or isinstance(policy, type):
        raise ValueError(f"policy={policy!r} needs methods init(p) and step(weights, scaled_losses, state).")
    return policy
