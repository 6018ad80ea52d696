"""An update rule on a factor that lives in blocks of rows: the same rule, block by block, when somebody reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from drnmf.algorithms.updates.base import Parts, Rule
from drnmf.backends.dask.nodes import Begin, Node, Retry, Step

if TYPE_CHECKING:
    from drnmf.backends.dask.blocks import Factor

_NOTHING = np.empty(0)


@dataclass(frozen=True, eq=False)
class State:
    """The rule's state beside the rows that `rows` holds; `restart` is done by the step that uses it."""

    rows: Node
    restart: bool = False


@dataclass(frozen=True)
class Blockwise:
    """The rule lifted to blocks. Its steps look at one row of W at a time, so blocks change nothing in any bit."""

    rule: Rule

    @property
    def separate(self) -> bool:
        return self.rule.separate

    @property
    def best(self) -> bool:
        return self.rule.best

    @property
    def chooses(self) -> bool:
        return self.rule.chooses

    def certain(self, betas: tuple[float, ...]) -> bool:
        return self.rule.certain(betas)

    def curves(self, step: int, rank: int) -> bool:
        return self.rule.curves(step, rank)

    def init(self, F: Factor) -> State:
        return State(Node(Begin(self.rule), F.rows))

    def step(self, F: Factor, parts: Parts, state: State) -> tuple[Factor, State]:
        rest = replace(parts, N=_NOTHING, P=_NOTHING, Q=None, gram=None)
        rows = Node(Step(self.rule, rest, state.restart), F.rows, parts.N, state.rows, keep=True)
        return F.at(rows), State(rows)

    def retry(self, F: Factor, tried: Factor, attempt: int, state: State) -> tuple[Factor, State]:
        rows = Node(Retry(self.rule, attempt), F.rows, tried.rows, state.rows, keep=True)
        return F.at(rows), State(rows)

    def restart(self, state: State) -> State:
        return replace(state, restart=True)
