"""What an update rule is: one step of one block, given the parts of its gradient.

Only the update of H is written: the loop hands W over as its transpose. A rule is a few pure functions of a factor, its
parts and a state of its own, and a few facts about itself. The functions see each column by itself, so that they may be
called piece by piece, wherever the pieces live.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from drnmf.algorithms.updates.roots import NO_SLOTS, Slots, joined_slots, multiplier_step
from drnmf.algorithms.updates.steps import multiplicative_step, packed, weighted_sum
from drnmf.losses.base import Omega
from drnmf.numerics import Array, Maybe, Numbers, Vector, beside, precision_of
from drnmf.objective.penalty import BlockPenalties, Bound

State = Any
"""What a rule keeps from step to step: any nesting of arrays, numbers, text, tuples, lists, dicts and dataclasses."""


@dataclass(frozen=True)
class Parts:
    """The gradient of one block, split as P - N.

    Attributes
    ----------
    N, P : (q, r, n); q = 1 holds the weighted sums, q = |Omega| the parts of every loss
    coefficients : (p,) c_beta = lambda_beta / e_beta up to a common factor
    omega : the losses
    floor : smallest entry the new block may have
    scaled_losses, references : (p,) Dbar_beta at the point and e_beta, for rules that choose lambda themselves
    Q : (r (r + 1) / 2, n) curvature of every column under the lambda of the sweep, for rules that ask for it
    gram : (r, r) the part of it that all columns share, or one for every N (see `Sweep`)
    Q_scale : how much larger the coefficients are now than when Q was made
    correlation : (r, r) how the components of the other block overlap, for rules that ask for it
    penalties : the penalties as a function of the block, None where there are none; they are in none of the parts above
    total : what every column of the block must sum to, a number or (n,); None where its sum is free
    sizes : where the block is a part of a larger one, what the curvature of that one says of its length (see
        `updates.constrained`)
    final : the step will not be taken back, so that the block and the arrays of the state may be overwritten
    """

    N: Array
    P: Array
    coefficients: Vector
    omega: Omega
    floor: Numbers
    scaled_losses: Vector | None = None
    references: Vector | None = None
    Q: Maybe = None
    gram: Maybe = None
    Q_scale: float = 1.0
    correlation: Maybe = None
    penalties: BlockPenalties | None = None
    total: Numbers | None = None
    sizes: Maybe = None
    final: bool = False

    def weighted(self) -> tuple[Array, Array]:
        """Compute sum_b c_b N_b and sum_b c_b P_b, (r, n) each."""
        if self.N.shape[0] == 1:
            return self.N[0], self.P[0]
        return weighted_sum(self.coefficients, self.N), weighted_sum(self.coefficients, self.P)

    def multiplicative(self, F: Array) -> Array:
        """Take the multiplicative step from F (r, n), to at least the floor."""
        if self.total is not None:
            return multiplier_step(F, *self._slots_of_ratio(F), self.total, self.floor)
        if self.penalties is None:
            return multiplicative_step(F, self.N, self.P, self.coefficients, self.floor)
        (N, P), (down, up) = self.weighted(), self.penalties.bound(F).parts(F)
        return multiplicative_step(F, (N + down)[None], (P + up)[None], np.ones(1), self.floor)

    def _slots_of_ratio(self, F: Array) -> Slots:
        """The majoriser of one loss; for several the terms P - N / t whose root is the multiplicative step."""
        penalty = self.bound(F).slots(F)
        if len(self.omega) == 1:  # N and P are weighted already
            return replace(self, coefficients=np.ones(1)).slots(penalty)
        N, P = self.weighted()
        return joined_slots(({0.0: P}, {1.0: N}), penalty)

    def slots(self, penalty: Slots = NO_SLOTS) -> Slots:
        """Collect the slope of the majoriser in t, sum_b c_b [P_b t^a_b - N_b t^-b_b], by its exponents a and b.

        Needs the parts of every loss on their own; terms of penalties are in the units of the coefficients.
        """
        found, exponents = penalty, {loss.exponents for loss in self.omega}
        if len(self.omega) > 1 and len(exponents) == 1:  # one loss of many parts of X
            ((a, b),) = exponents
            N, P = (_mixed(self.coefficients, part) for part in (self.N, self.P))
            return joined_slots(found, ({a: P}, {b: N}))
        for loss, c, N, P in zip(self.omega, self.coefficients, self.N, self.P, strict=True):
            if c > 0:
                a, b = loss.exponents
                found = joined_slots(found, ({a: float(c) * P}, {b: float(c) * N}))
        return found

    def bound(self, F: Array) -> Bound:
        """Bound the penalties at F; nothing but zeros where there are none."""
        return Bound() if self.penalties is None else self.penalties.bound(F)

    def with_penalties(self, F: Array) -> tuple[Array, Array]:
        """Compute the weighted N and P with those of the penalties at F.

        A slope that does not bend goes to N, which has either sign.
        """
        N, P = self.weighted()
        if self.penalties is None:
            return N, P
        bound = self.penalties.bound(F)
        up, down = bound.bend(F)
        return N - bound.slope() + (0.0 if down is None else down), P + (0.0 if up is None else up)

    def curvature(self, F: Array) -> Array:
        """Return the curvature of every column of the sweep, packed, with the part that all share."""
        assert self.Q is not None
        return self.Q if self.gram is None else self.Q + packed(self.gram, F)

    def shared(self, F: Array) -> tuple[Array, Array]:
        """Compute N (r, n) and G (r, r) of the model 1/2 h'Gh - N'h that all columns share, with the penalties at F."""
        assert self.gram is not None
        N, gram = self.N[0], self.gram
        if gram.ndim > N.ndim:  # many parts of X: one product is faster than a sum of terms
            N, gram = (_mixed(self.coefficients, part) for part in (self.N, gram))
        if self.penalties is None:
            return N, gram
        bound = self.penalties.bound(F)
        return N - bound.slope(), gram if bound.curvature is None else gram + beside(bound.curvature, gram)


def _mixed(coefficients: Vector, stack: Array) -> Array:
    """Compute sum_b c_b stack_b by one product."""
    weights = beside(coefficients.astype(precision_of(stack)), stack)
    mixed: Array = (weights @ stack.reshape(len(stack), -1)).reshape(stack.shape[1:])
    return mixed


@dataclass(frozen=True)
class Facts:
    """What a rule is, whatever the run."""

    separate: bool = False  # it wants every N_beta and P_beta on its own, not their weighted sum
    best: bool = True  # the run returns the best point met, not the last
    chooses: bool = False  # it finds lambda together with its step, in its state; the maximum is watched
    # where it is certain, it is so under penalties too, whose separable bounds it takes as they are
    bounded: bool = False
    # its functions also take blocks (runs, r, n) of several runs without penalties (`algorithms.batch`)
    batched: bool = False
    # it writes its steps over the block and its state where `Parts.final` says so; the run then returns the last point
    overwrites: bool = False


@dataclass(frozen=True)
class Setup:
    """What a rule may know of a run before it begins."""

    omega: Omega  # the losses
    rank: int  # r
    # whether the curvature of beta = 2 is cheap: all columns share it, or, where weights of entries leave each its own,
    # the components are few
    shared: bool = True
    # of all blocks together, where a state may keep what a sweep made; None where it may not
    columns: int | None = None
    # of X that a sweep visits, of a sparse one those that are stored; None where it is not in the memory of this
    # process
    entries: int | None = None


@dataclass(frozen=True)
class Wants:
    """What a step wants beside the parts."""

    curvature: bool = False  # that of the columns
    correlation: bool = False  # how the components of what stands overlap (`algorithms.correlation`)
    acceleration: bool = False  # whole iterations may be extrapolated before it (`algorithms.acceleration`)


NOTHING = Wants()


class Rule(Protocol):
    """What the loop asks of an update rule. Derive from it: `init` and `step` are enough."""

    facts: ClassVar[Facts] = Facts()

    def under(self, setup: Setup) -> Rule:
        """Return the rule that a run takes: itself, unless it knows a better one for its losses.

        Parameters
        ----------
        setup : of the run

        Returns
        -------
        rule : Rule
        """
        return self

    def certain(self, omega: Omega) -> bool:
        """Tell whether steps cannot raise the weighted objective, so that nobody needs to look.

        Parameters
        ----------
        omega : the losses

        Returns
        -------
        certain : bool
        """
        return False

    def wants(self, step: int, rank: int, omega: Omega) -> Wants:
        """Say what step number `step` of a block, from 0, wants beside the parts.

        Parameters
        ----------
        step : steps taken by the block
        rank : r
        omega : the losses

        Returns
        -------
        wants : Wants
        """
        return NOTHING

    def init(self, F: Array) -> State:
        """Return the state before the first step.

        Any nesting of arrays, numbers, text, tuples, lists, dicts and dataclasses. The last axis of its arrays is that
        of F, because columns may live apart; dataclasses are found in the module of the rule.

        Parameters
        ----------
        F : (r, n) the block

        Returns
        -------
        state : any
        """
        ...

    def step(self, F: Array, parts: Parts, state: State) -> tuple[Array, State]:
        """Return the next block and the state that goes with it.

        Parameters
        ----------
        F : (r, n) the block
        parts : its gradient
        state : what `init`, or the step before, returned

        Returns
        -------
        stepped : (r, n), at least ``parts.floor``
        state : any
        """
        ...

    def retry(self, F: Array, tried: Array, attempt: int, state: State) -> tuple[Array, State]:
        """Return another block after one that raised the objective: half-way back to F unless a rule knows better.

        Parameters
        ----------
        F : (r, n) the block before the step
        tried : (r, n) the block that raised the objective
        attempt : int, 1 for the first retry of a step
        state : that of the step

        Returns
        -------
        block : (r, n)
        state : any
        """
        return halve_state(F, tried, attempt, state)

    def chosen(self, state: State) -> Vector | None:
        """Return the lambda that a rule which chooses it has in its state, None where the block says nothing about it.

        Parameters
        ----------
        state : any

        Returns
        -------
        weights : (p,) or None
        """
        return None

    def restart(self, state: State) -> State:
        """Return the state after an iteration that raised what is minimised.

        Parameters
        ----------
        state : any

        Returns
        -------
        state : any
        """
        return state


def halve(F: Array, tried: Array) -> Array:
    """Go half-way back from a rejected block: (1-g) F + g F+ with g = 1/2, 1/4, ... one call after another."""
    return 0.5 * (F + tried)


def halve_state(F: Array, tried: Array, attempt: int, state: State) -> tuple[Array, State]:
    """Go half-way back and keep the state: what `Rule.retry` does where a rule says nothing else."""
    return halve(F, tried), state
