"""What an update rule is: one step of one block, given the parts of its gradient.

Only the update of H is written: the loop hands W over as its transpose. A rule is a few pure functions of a factor, its
parts and a state of its own, and a few facts about itself. The functions see each column by itself, so that they may be
called piece by piece, wherever the pieces live.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from drnmf.algorithms.updates.multiplier import multiplier_step
from drnmf.algorithms.updates.roots import Powers
from drnmf.backends.steps import multiplicative_step, weighted_sum
from drnmf.losses.base import Omega
from drnmf.numerics import Array, Vector
from drnmf.objective.constraints import NONE


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
    gram : (r, r) the part of it that all columns share (see `Sweep`)
    Q_scale : how much larger the coefficients are now than when Q was made
    correlation : (r, r) how the components of the other block overlap, for rules that ask for it
    total : what every column of the block must sum to, a number or (n,); None where its sum is free
    sizes : where the block is a part of a larger one, what the curvature of that one says of its length (see
        `updates.constrained`)
    """

    N: Array
    P: Array
    coefficients: Vector
    omega: Omega
    floor: Any
    scaled_losses: Vector | None = None
    references: Vector | None = None
    Q: Array | None = None
    gram: Any = None
    Q_scale: float = 1.0
    correlation: Any = None
    total: Any = None
    sizes: Any = None

    def weighted(self) -> tuple[Array, Array]:
        """Compute sum_b c_b N_b and sum_b c_b P_b.

        Returns
        -------
        N, P : (r, n) each
        """
        if self.N.shape[0] == 1:  # a common factor in both does not matter
            return self.N[0], self.P[0]
        return weighted_sum(self.coefficients, self.N), weighted_sum(self.coefficients, self.P)

    def multiplicative(self, F: Array) -> Array:
        """Take the multiplicative step from F.

        Parameters
        ----------
        F : (r, n) the block

        Returns
        -------
        stepped : (r, n), at least the floor
        """
        if self.total is None:
            return multiplicative_step(F, self.N, self.P, self.coefficients, self.floor)
        if len(self.omega) == 1:
            return multiplier_step(F, *self.powers(), self.total, self.floor)
        N, P = self.weighted()
        return multiplier_step(F, {0.0: P}, {1.0: N}, self.total, self.floor)

    def powers(self) -> tuple[Powers, Powers]:
        """Collect the slope of the majoriser in t, sum_b c_b [P_b t^a_b - N_b t^-b_b], by its exponents.

        Returns
        -------
        rising, falling : a -> (r, n) and b -> (r, n); needs the parts of every loss on their own
        """
        rising, falling = Powers(), Powers()
        for loss, c, N, P in zip(self.omega, self.coefficients, self.N, self.P, strict=True):
            if c > 0:
                a, b = loss.exponents
                rising[a] = rising[a] + float(c) * P if a in rising else float(c) * P
                falling[b] = falling[b] + float(c) * N if b in falling else float(c) * N
        return rising, falling


class Rule(Protocol):
    """What the loop asks of an update rule. Derive from it: `init` and `step` are enough.

    Attributes
    ----------
    separate : it wants every N_beta and P_beta on its own, not their weighted sum
    best : the run returns the best point met, not the last
    chooses : it finds lambda together with its step, in its state; the maximum is watched
    """

    separate: ClassVar[bool] = False
    best: ClassVar[bool] = True
    chooses: ClassVar[bool] = False

    def under(self, omega: Omega, shared: bool = True) -> Rule:
        """Return the rule that a run under these losses takes: itself, unless it knows a better one for them.

        Parameters
        ----------
        omega : the losses
        shared : whether the curvature of beta = 2 is cheap: all columns share it, or, where weights of entries leave
            each its own, the components are few

        Returns
        -------
        rule : Rule
        """
        return self

    def of_rank(self, rank: int) -> tuple[Rule, Rule]:
        """Return the rules of H and of W: itself for both, unless one of them is constrained.

        Parameters
        ----------
        rank : r

        Returns
        -------
        rules : pair of Rule
        """
        return self, self

    def floor(self, side: str, mean: float, rank: int) -> float:
        """Compute the smallest entry of a block, relative to the data.

        Parameters
        ----------
        side : "H" or "W"
        mean : mean(X)
        rank : r

        Returns
        -------
        floor : float
        """
        return NONE.floor(side, mean, rank)

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

    def curves(self, step: int, rank: int) -> bool:
        """Tell whether step number `step`, from 0, wants the curvature of the columns beside the parts.

        Parameters
        ----------
        step : int
        rank : r

        Returns
        -------
        curves : bool
        """
        return False

    def correlates(self, step: int, rank: int, omega: Omega) -> bool:
        """Tell whether step number `step`, from 0, wants the correlation of the other block's components.

        Parameters
        ----------
        step : steps taken by the block
        rank : r
        omega : the losses

        Returns
        -------
        wanted : bool
        """
        return False

    def init(self, F: Array) -> Any:
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

    def step(self, F: Array, parts: Parts, state: Any) -> tuple[Array, Any]:
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

    def retry(self, F: Array, tried: Array, attempt: int, state: Any) -> tuple[Array, Any]:
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
        return halve(F, tried), state

    def restart(self, state: Any) -> Any:
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
