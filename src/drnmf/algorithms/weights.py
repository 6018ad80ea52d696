"""Weights policies: how lambda moves after each iteration.

A policy is `init(p) -> weights, state` and `step(weights, scaled_losses, state) -> weights, state`, pure
functions of what they are given. `constant` says that lambda never moves: sweeps may then weigh early, and the weighted
sum is what the run lowers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from drnmf.algorithms.updates.base import State
from drnmf.numerics import POLICY_DELAY, POLICY_PLAIN, WEIGHT_FLOOR, Vector
from drnmf.objective import simplex

WeightState = tuple[Vector, Any]
"""lambda, and the state of the policy that moves it: what a run under other references goes on with."""


def _floored(weights: Vector) -> Vector:
    """Keep weights where a few steps can raise them: one that reaches zero could never come back."""
    floored = np.maximum(weights, WEIGHT_FLOOR)
    return np.asarray(floored / floored.sum())


def _largest(scaled_losses: Vector) -> float:
    """The largest scaled loss, regrets of either sign, or one where the fit is exact and all are zero."""
    return float(abs(scaled_losses).max()) or 1.0


@runtime_checkable
class Policy(Protocol):
    """What the loop asks of a policy.

    Attributes
    ----------
    constant : whether lambda never moves
    slopes : whether it moves lambda by `follow`, and asks for how the slopes of the losses overlap
    """

    constant: ClassVar[bool] = False
    slopes: ClassVar[bool] = False

    def init(self, p: int) -> tuple[Vector, State]:
        """Return lambda before the first iteration and a state that comes back next time.

        Parameters
        ----------
        p : number of losses

        Returns
        -------
        weights : (p,) float64 on the simplex
        state : any nesting of arrays, numbers, text, tuples, lists, dicts and dataclasses
        """
        ...

    def step(self, weights: Vector, scaled_losses: Vector, state: State) -> tuple[Vector, State]:
        """Return lambda for the next iteration, from the scaled losses after this one, and the next state.

        Parameters
        ----------
        weights : (p,) lambda of this iteration
        scaled_losses : (p,) Dbar_beta after it
        state : what `init`, or the step before, returned

        Returns
        -------
        weights : (p,) float64 on the simplex
        state : any
        """
        ...

    def follow(self, weights: Vector, scaled_losses: Vector, overlap: Vector, state: State) -> tuple[Vector, State]:
        """Do the same where slopes are asked for.

        Parameters
        ----------
        overlap : (p, p), by how much a step under one weight lowers each scaled loss (`algorithms.overlap`)
        """
        return self.step(weights, scaled_losses, state)


@dataclass(frozen=True)
class Fixed(Policy):
    """Constant lambda: MO-NMF. None stands for 1/|Omega|."""

    weights: tuple[float, ...] | None = None

    constant: ClassVar[bool] = True

    def init(self, p: int) -> tuple[Vector, int]:
        return (simplex.uniform(p) if self.weights is None else simplex.check_weights(self.weights, p)), 0

    def step(self, weights: Vector, scaled_losses: Vector, state: int) -> tuple[Vector, int]:
        return weights, state


@dataclass(frozen=True)
class FrankWolfe(Policy):
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
class Subgradient(Policy):
    """Algorithm 2: lambda = Proj(lambda + rho_k Dbar) with rho_k = 1/(k+1)."""

    def init(self, p: int) -> tuple[Vector, int]:
        return simplex.uniform(p), 1

    def step(self, weights: Vector, scaled_losses: Vector, state: int) -> tuple[Vector, int]:
        return simplex.project(weights + scaled_losses / (state + 1)), state + 1


@dataclass(frozen=True)
class Mirror(Policy):
    """Entropic mirror ascent: lambda_b *= exp(eta Dbar_b / max Dbar), normalised, eta_k = eta / sqrt(k).

    Dividing by the maximum keeps the step the same whatever the level of the losses.
    """

    eta: float = 2.0

    def init(self, p: int) -> tuple[Vector, int]:
        return simplex.uniform(p), 1

    def step(self, weights: Vector, scaled_losses: Vector, state: int) -> tuple[Vector, int]:
        direction = self.eta / np.sqrt(state) * scaled_losses / _largest(scaled_losses)
        return _floored(simplex.entropy_step(weights, direction)), state + 1


@dataclass(frozen=True)
class Advance:
    """State of `Reactive`: iterations so far, the current step, and the last advantages.

    Before it reacts: which loss was the largest, and how many times as long as 1/(k+1) the last step was for it.
    """

    k: int
    eta: float
    advantage: Vector | None = None
    largest: int = -1
    pace: float = 1.0


@dataclass(frozen=True)
class Reactive(Policy):
    """Optimistic mirror ascent with a step that adapts: quick while lambda drifts, quiet once it swings.

    With the advantages A_b = (Dbar_b - lambda'Dbar) / max Dbar, the log-weights move by

        eta_k [A^(k) + gain (A^(k) - A^(k-1))]

    so lambda answers to how far a loss stands above the average and, `gain` times more, to how that changes: the
    factors follow lambda only slowly, and an answer to the distance alone would overshoot. eta grows by `up` while
    the advantages keep their sign (<A^(k), A^(k-1)>_lambda > 0) and falls by `down` when they turn.

    Which local minimum a run ends in is decided early, so lambda follows Frank-Wolfe at first. But steps of 1/k hardly
    move it after a while, and steps of second order wait for it: so they grow by `growth` while one loss stays the
    largest, and are 1/(k+1) again once another one is.

    delay, plain : iterations of Frank-Wolfe steps first, and how many of them are 1/(k+1) whatever the losses do
    growth, longest : of such a step, with every iteration in which the same loss is the largest; up to where it grows
    """

    eta: float = 2.0
    gain: float = 10.0
    up: float = 1.1
    down: float = 0.5
    smallest: float = 1e-3
    delay: int = 0
    plain: int = POLICY_PLAIN
    growth: float = 1.2
    longest: float = 0.2

    def init(self, p: int) -> tuple[Vector, Advance]:
        return simplex.uniform(p), Advance(1, self.eta)

    def step(self, weights: Vector, scaled_losses: Vector, state: Advance) -> tuple[Vector, Advance]:
        k = state.k + 1
        if state.k <= self.delay:
            return self._towards_largest(weights, scaled_losses, state)
        advantage = (scaled_losses - weights @ scaled_losses) / _largest(scaled_losses)
        eta, last = state.eta, advantage if state.advantage is None else state.advantage
        if state.advantage is not None:
            steady = float(weights @ (advantage * last)) > 0
            eta = min(eta * self.up, self.eta) if steady else max(eta * self.down, self.smallest)
        direction = np.clip(eta * (advantage + self.gain * (advantage - last)), -_LARGEST_MOVE, _LARGEST_MOVE)
        return _floored(simplex.entropy_step(weights, direction)), Advance(k, eta, advantage)

    def _towards_largest(self, weights: Vector, scaled_losses: Vector, state: Advance) -> tuple[Vector, Advance]:
        """Take a Frank-Wolfe step, longer the longer it goes to the same loss."""
        largest = int(np.argmax(scaled_losses))
        k, stays = state.k + 1, largest == state.largest and state.k > self.plain
        pace = max(min(self.growth * state.pace, self.longest * k), 1.0) if stays else 1.0
        moved = weights + pace / k * (simplex.linear_oracle(scaled_losses) - weights)
        return _floored(moved), Advance(k, self.eta, None, largest, pace)


_LARGEST_MOVE = 3.0  # of a log-weight in one iteration


@dataclass(frozen=True)
class Level(Policy):
    """The lambda under which the next step of H is to bring all losses to one level.

    With A the overlap of their slopes that is max over lambda of lambda'Dbar - share/2 lambda'A lambda, the dual of the
    min-max problem of the linear models of the losses: where H stands still, so does lambda, with equal losses.

    share : how much more than one step of H the losses answer to lambda, because W follows. A smaller one overshoots
    """

    share: float = 2.0

    slopes: ClassVar[bool] = True

    def init(self, p: int) -> tuple[Vector, int]:
        return simplex.uniform(p), 0

    def step(self, weights: Vector, scaled_losses: Vector, state: int) -> tuple[Vector, int]:
        return weights, state

    def follow(self, weights: Vector, scaled_losses: Vector, overlap: Vector, state: int) -> tuple[Vector, int]:
        above = np.where(weights > 2.0 * WEIGHT_FLOOR, weights, 0.0)
        found = simplex.saddle(scaled_losses, self.share * overlap, above / above.sum())
        return _floored(found), state


@dataclass(frozen=True)
class ByRule(Policy):
    """lambda comes with each step, from the min-max problem that the step solves (`minimax.Minimax`)."""

    def init(self, p: int) -> tuple[Vector, int]:
        return simplex.uniform(p), 0

    def step(self, weights: Vector, scaled_losses: Vector, state: int) -> tuple[Vector, int]:
        return weights, state


POLICIES: dict[str, Policy] = {
    "auto": Reactive(delay=POLICY_DELAY),
    "reactive": Reactive(),
    "frank-wolfe": FrankWolfe(1.0),
    "frank-wolfe-2": FrankWolfe(2.0),
    "subgradient": Subgradient(),
    "mirror": Mirror(),
    "minimax": ByRule(),
    "fixed": Fixed(),
}
"""Names that estimators and the command line take."""


def as_policy(policy: str | Policy) -> Policy:
    """The policy behind a name, or the object itself."""
    if isinstance(policy, str):
        if policy not in POLICIES:
            raise ValueError(f"policy={policy!r} is not known: use one of {sorted(POLICIES)} or an object.")
        return POLICIES[policy]
    if isinstance(policy, type) or not isinstance(policy, Policy):
        raise ValueError(
            f"policy={policy!r} needs methods init(p) and step(weights, scaled_losses, state): make an object of a "
            "class that derives from drnmf.algorithms.weights.Policy."
        )
    return policy
