r"""Newton steps for every column at once, with the curvature that the sweep brings along.

With W fixed the columns of H are separate problems in r variables. Near h~ the weighted loss of a column is

.. math:: f(h) \approx f(\tilde h) + (P - N)'(h - \tilde h) + \tfrac12 (h - \tilde h)' Q (h - \tilde h), \quad
          Q = W' \mathrm{diag}(\textstyle\sum_\beta c_\beta d''_\beta(x, v)) W

(`Loss.curvature`). For the expected curvature of a beta-divergence Q h~ = P, so the multiplicative step is the same
model with Q replaced by diag(P / h~): it leaves out that components overlap, and that is what makes it slow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from drnmf.algorithms.correlation import shrunk
from drnmf.algorithms.updates.base import NOTHING, Facts, Parts, Rule, Setup, Wants, halve
from drnmf.algorithms.updates.monotone import Extrapolated, Momentum, Moving
from drnmf.algorithms.updates.simplex_steps import model_minimum
from drnmf.algorithms.updates.steps import correlated_step, packed, packed_product, quadratic_step, shared_step
from drnmf.losses.base import Omega, is_quadratic
from drnmf.numerics import (
    DAMPING_DECAY,
    LARGEST_KEPT,
    LEAST_DAMPING,
    NEWTON_DELAY,
    NEWTON_HALVINGS,
    NEWTON_PASSES,
    NEWTON_REFRESH,
    OWN_GAIN,
    RULE_DELAY,
    Array,
    Maybe,
    Numbers,
    namespace,
    power_ceiling,
    precision_of,
)
from drnmf.objective.penalty import Bound, in_kind


def own_pays(rank: int, entries: int, columns: int, serves: int) -> bool:
    """Tell whether a curvature for every column, good for so many steps (`serves`), is worth what it costs.

    With E entries that a sweep visits, S columns of all blocks and r components an iteration takes about, in
    nanoseconds,

        plain    400,000 + E (8 + 0.2 r) + 25 S r                two sweeps, and what Python adds
        own      plain + E r (r + 1) 0.08 / s + 5.4 S r^2        that of every column, good for s steps, and its model
        shared   plain + 950,000 + 86 S r                        one for all columns, scaled to each in NumPy

    (one core with AVX2, docs/development/performance.md; only ratios matter). To the same loss the own curvature needs
    1.7 to 2.8 times fewer iterations.

    >>> own_pays(30, 60 * 80, 60 + 80, 3), own_pays(30, 2000 * 500, 2000 + 500, 3)
    (True, False)
    """
    plain = 4e5 + entries * (8.0 + 0.2 * rank) + 25.0 * columns * rank
    own = plain + entries * rank * (rank + 1) * 0.08 / serves + 5.4 * columns * rank**2
    shared = plain + 9.5e5 + 86.0 * columns * rank
    return own <= OWN_GAIN * shared


@dataclass(frozen=True)
class Guarded(Momentum):
    """The state after a second-order step; F is the multiplicative step from the same point.

    damping : how far the correlation of the next step is shrunk towards the identity; in a batch one for every run
    Q : the whole curvature, where the next step takes it again
    """

    damping: Numbers = 0.0
    Q: Maybe = None


@dataclass(frozen=True)
class Newton(Moving):
    """`Extrapolated` for `delay` steps, then Newton steps, halved while the objective rises, then multiplicative.

    Which local minimum a run ends in is decided early: until then it follows the multiplicative steps.

    Parameters
    ----------
    delay, plain : extrapolated steps taken first, and how many of them are plain
    largest_rank : up to it every column has a curvature of its own, which costs r (r + 1) / 2 products a sweep; above
        it all columns have one, scaled (`algorithms.correlation`), unless X is small (`cost.own_pays`)
    passes : of coordinate descent over the model
    alone : the rule for beta = 2 alone, whose model is the loss itself and the same for all columns; None: this one
    refresh : steps that one curvature of every column serves, where it may be kept
    keeps : whether it may: set by `under`
    """

    facts: ClassVar[Facts] = Facts(batched=True)

    delay: int = NEWTON_DELAY
    largest_rank: int | None = None
    passes: int = NEWTON_PASSES
    alone: Rule | None = None
    refresh: int = NEWTON_REFRESH
    keeps: bool = False
    plain: int = RULE_DELAY

    def under(self, setup: Setup) -> Rule:
        omega, rank = setup.omega, setup.rank
        if is_quadratic(omega):
            return self.alone if setup.shared and self.alone is not None else self
        if setup.columns is None or rank * (rank + 1) // 2 * setup.columns > LARGEST_KEPT:
            return self
        # the length of a curvature that is not of the current point is found again by F'QF = F'P, which needs P = Q F
        rule = replace(self, keeps=True) if all(loss.homogeneous for loss in omega) else self
        return replace(rule, largest_rank=rank) if rule._exceeds(setup, setup.columns) else rule

    def _exceeds(self, setup: Setup, columns: int) -> bool:
        """Whether so small an X has a curvature for every column above the largest rank too."""
        if setup.entries is None or not self.largest_rank or setup.rank <= self.largest_rank:
            return False
        return own_pays(setup.rank, setup.entries, columns, self.refresh if self.keeps else 1)

    @property
    def first(self) -> Extrapolated:
        return Extrapolated(geometric=True, delay=self.plain)

    def wants(self, step: int, rank: int, omega: Omega) -> Wants:
        if step < self.delay:
            return NOTHING
        if self.largest_rank is None or rank <= self.largest_rank:  # every column has a curvature of its own
            return Wants(curvature=self._due(step), acceleration=step > self.delay)
        return Wants(correlation=all(loss.homogeneous for loss in omega))

    def _due(self, step: int) -> bool:
        """Whether a step of second order brings its own curvature."""
        return not self.keeps or (step - self.delay) % self.refresh == 0

    def step(self, F: Array, parts: Parts, state: Momentum) -> tuple[Array, Momentum]:
        if parts.Q is None and isinstance(state, Guarded) and state.Q is not None:
            parts = replace(parts, Q=state.Q)
        # P is not made beside a curvature that all columns share; steps that were given up are not in state.steps
        first = state.steps < self.delay and len(parts.P) > 0
        if first or (parts.Q is None and parts.gram is None and parts.correlation is None):
            return self.first.step(F, parts, state)
        damping = state.damping if isinstance(state, Guarded) else 0.0
        if parts.correlation is not None:
            parts = replace(parts, correlation=shrunk(parts.correlation, damping))
        stepped = self.minimum(F, parts)
        if parts.Q is None and parts.correlation is None:  # the model is the loss itself, and P was not made
            return stepped, Momentum(stepped, 1.0, state.steps + 1)
        return stepped, Guarded(
            parts.multiplicative(F), 1.0, state.steps + 1, DAMPING_DECAY * damping, self._kept(F, parts, state)
        )  # fmt: skip

    def _kept(self, F: Array, parts: Parts, state: Momentum) -> Maybe:
        """The curvature for the next step, None where that one brings its own."""
        if parts.Q is None or self._due(state.steps + 1):
            return None
        return parts.curvature(F)

    def minimum(self, F: Array, parts: Parts) -> Array:
        """The minimum of the model: with one curvature for all columns, scaled or not, or one for each."""
        if parts.total is not None:
            return model_minimum(F, parts)
        if parts.correlation is not None:
            N, P = parts.with_penalties(F)
            return correlated_step(F, N, P, parts.correlation, parts.floor, self.passes, parts.sizes)
        if parts.Q is None:
            return shared_step(F, *parts.shared(F), parts.floor, self.passes)
        # for other families Q h~ is not P, and the length of the model cannot be corrected by it
        scale = parts.sizes if all(loss.homogeneous for loss in parts.omega) else parts.Q_scale
        if parts.penalties is not None:
            return penalised_step(F, parts, self.passes, scale, parts.penalties.bound(F))
        return quadratic_step(F, *parts.weighted(), parts.Q, parts.floor, self.passes, scale, parts.gram)

    def retry(self, F: Array, tried: Array, attempt: int, state: Momentum) -> tuple[Array, Momentum]:
        if not isinstance(state, Guarded):
            return self.first.retry(F, tried, attempt, state)
        if attempt == 1:  # the components overlap less, or otherwise, in columns that are unlike the mean
            state = replace(state, damping=np.clip(2.0 * state.damping, LEAST_DAMPING, 1.0))
        return (state.F if attempt == NEWTON_HALVINGS + 1 else halve(F, tried)), state


def penalised_step(F: Array, parts: Parts, passes: int, scale: Numbers | None, bound: Bound) -> Array:
    """Take the step of `quadratic_step` under penalties, whose curvature needs no correction of its length."""
    (N, P), ceiling, xp = parts.weighted(), power_ceiling(precision_of(F)), namespace(F)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        whole = parts.curvature(F)
        length = (F * P).sum(0) / (F * packed_product(whole, F)).sum(0) if scale is None else scale
        usable = (length > 0) & (length < ceiling)
        whole = whole * xp.where(usable, length, xp.ones_like(F[0]))
        slope = P - N + bound.slope()
        if bound.curvature is not None:
            slope = slope + in_kind(bound.curvature, F) @ F
            whole = whole + packed(bound.curvature, F)
        own = packed_product(whole, F)  # with P = Q F nothing is left to correct
    return quadratic_step(F, own - slope, own, whole, parts.floor, passes)
