r"""Any rule under constraints: columns that sum to one, and components that do not move.

The rule itself sees the free rows of a block alone, with `Parts.total` where their sum is given: the multiplicative and
the monotone steps then minimise the same majoriser with a multiplier for every column (`updates.roots`), and the
steps of second order minimise their quadratic model on the simplex (`updates.simplex_steps`). Under beta = 2 the fixed
components are taken off X, as far as the parts know it. The curvature of other losses is that of the whole block, whose
length F'QF = F'P gives: the free rows take it from there (`Parts.sizes`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from drnmf.algorithms.updates.base import Facts, Parts, Rule, State, Wants
from drnmf.algorithms.updates.steps import balanced_sizes, packed_product, triangle_rows
from drnmf.losses.base import Omega, is_frobenius
from drnmf.numerics import Array, Numbers, beside, namespace
from drnmf.objective.constraints import Constraints, left_over, normalised
from drnmf.objective.penalty import Bound, in_kind


@dataclass(frozen=True)
class Still(Rule):
    """No step at all: every component of the block is fixed."""

    facts: ClassVar[Facts] = Facts(bounded=True)

    def certain(self, omega: Omega) -> bool:
        return True

    def init(self, F: Array) -> None:
        return None

    def step(self, F: Array, parts: Parts, state: None) -> tuple[Array, None]:
        return F, None


@dataclass(frozen=True)
class OneSide(Rule):
    """A rule for a block of which some rows are fixed or the columns sum to one.

    Parameters
    ----------
    rule : takes the steps
    fixed : how many rows, the first ones, do not move
    sums : whether every column sums to one
    """

    rule: Rule
    fixed: int = 0
    sums: bool = False

    @property
    def facts(self) -> Facts:  # type: ignore[override]
        return self.rule.facts

    def certain(self, omega: Omega) -> bool:
        return self.rule.certain(omega)

    def wants(self, step: int, rank: int, omega: Omega) -> Wants:
        return replace(self.rule.wants(step, rank, omega), acceleration=False)

    def init(self, F: Array) -> State:
        return self.rule.init(self._free(F))

    def step(self, F: Array, parts: Parts, state: State) -> tuple[Array, State]:
        moved, after = self.rule.step(self._free(F), self._within(F, parts), state)
        return self._whole(F, moved, parts.floor), after

    def retry(self, F: Array, tried: Array, attempt: int, state: State) -> tuple[Array, State]:
        moved, after = self.rule.retry(self._free(F), self._free(tried), attempt, state)
        return self._whole(F, moved, 0.0), after

    def restart(self, state: State) -> State:
        return self.rule.restart(state)

    def _free(self, F: Array) -> Array:
        return F[self.fixed :]

    def _total(self, F: Array) -> Numbers:
        return 1.0 if not self.fixed else left_over(F[: self.fixed])

    def _whole(self, F: Array, moved: Array, floor: Numbers) -> Array:
        """The block with what moved, on the simplex to the last digit, beside what did not."""
        if self.sums:
            moved = normalised(moved, self._total(F), floor)
        if not self.fixed:
            return moved
        stacked: Array = namespace(F).concatenate((F[: self.fixed], moved))
        return stacked

    def _within(self, F: Array, parts: Parts) -> Parts:
        if self.fixed:
            parts = free_parts(F, parts, self.fixed)
        return replace(parts, total=self._total(F)) if self.sums else parts


def free_parts(F: Array, parts: Parts, fixed: int) -> Parts:
    """Restrict the parts of a block to its rows from `fixed` on, while those before stand."""
    xp, N, P, gram = namespace(F), parts.N[:, fixed:], parts.P[:, fixed:], parts.gram
    Q, correlation, sizes = parts.Q, parts.correlation, None
    if Q is not None:
        if all(loss.homogeneous for loss in parts.omega):
            _, whole = parts.weighted()
            bent = packed_product(Q, F) + (0.0 if gram is None else xp.asarray(beside(gram, F), dtype=F.dtype) @ F)
            sizes = (F * whole).sum(0) / (F * bent).sum(0)
        Q = Q[[row[l] for k, row in enumerate(triangle_rows(len(F))) if k >= fixed for l in range(fixed, k + 1)]]
        if is_frobenius(parts.omega):  # beta = 2 alone under weights: as below
            own = packed_product(Q, F[fixed:])[None]
            N, P, sizes = own + N - P, own, None
    elif gram is not None:  # beta = 2 alone: what the fixed components explain is taken off X
        off = xp.asarray(beside(gram[..., fixed:, :fixed], F), dtype=F.dtype) @ F[:fixed]
        N = N - off.reshape(N.shape)
    if correlation is not None:
        sizes = balanced_sizes(F, parts.weighted()[1], correlation)[fixed:]
        correlation = correlation[fixed:, fixed:]
    gram = None if gram is None else gram[..., fixed:, fixed:]
    if parts.penalties is not None:
        known: Any = Given(free_bound(F, parts.penalties.bound(F), fixed), parts.penalties.factor)
        parts = replace(parts, penalties=known)
    return replace(parts, N=_solid(N), P=_solid(P), gram=gram, Q=Q, correlation=correlation, sizes=sizes)


@dataclass(frozen=True)
class Given:
    """Penalties that were bounded already, at the current point: `BlockPenalties` for a part of a block."""

    known: Bound
    factor: float

    def bound(self, F: Array) -> Bound:
        return self.known


def free_bound(F: Array, bound: Bound, fixed: int) -> Bound:
    """Restrict the bound of penalties to the rows of a block from `fixed` on, while those before stand."""
    linear, rising, falling = (
        None if part is None else part[fixed:] if len(part) == len(F) else part
        for part in (bound.linear, bound.rising, bound.falling)
    )
    if bound.curvature is None:
        return Bound(linear, None, rising, falling)
    beside = in_kind(bound.curvature[fixed:, :fixed], F) @ F[:fixed]
    linear = beside if linear is None else linear + beside
    return Bound(linear, bound.curvature[fixed:, fixed:], rising, falling)


def _solid(stack: Array) -> Array:
    """The same numbers in one piece, as compiled steps need them."""
    return np.ascontiguousarray(stack) if isinstance(stack, np.ndarray) else stack.contiguous()


def constrained(rule: Rule, constraints: Constraints, block: str, rank: int) -> Rule:
    """Return the rule of one block, by its name, under constraints: itself where the block is free."""
    fixed, sums = constraints.of(block)
    if fixed == rank:
        return Still()
    return OneSide(rule, fixed, sums) if fixed or sums else rule
