r"""Coordinate descent on W'W for beta = 2 alone: hierarchical alternating least squares (HALS), extrapolated.

With W fixed the loss of every column of H is the quadratic function

.. math:: f(h) = \tfrac12 h' G h - N' h + \tfrac12 \|x\|^2, \qquad G = W'W, \quad N = W'x

with one matrix G for all columns, so a pass over the r components of all columns costs O(r^2 n), where a sweep costs
O(m n r), and no column has a matrix of its own. Each component in turn takes its exact minimum over h_k >= floor
(Cichocki, Zdunek and Amari 2007): f cannot rise, and zeros are reached from above. Several passes for one sweep pay
(Gillis and Glineur 2012), and so does going on beyond the point they found (Ang and Gillis 2019): N and G say what f is
there, so a column that would end above where it began stays with its minimum, without a sweep to find out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drnmf.algorithms.updates.base import Extrapolated, Momentum, Parts
from drnmf.backends.base import native_core
from drnmf.numerics import HALS_PASSES, VANISHED, Array, Vector, namespace


def shared_step(F: Array, N: Array, gram: Vector, floor: float, passes: int) -> Array:
    """Take `passes` of coordinate descent over h >= floor on 1/2 h'Gh - N'h, in every column from F.

    A component of the other block that is all floor (`numerics.VANISHED`) says nothing: its entries stay. They would
    leave for the inverse of the floor, and the floor itself would then count.

    >>> shared_step(np.ones((1, 2)), np.array([[6.0, -1.0]]), np.full((1, 1), 2.0), 0.5, 1)
    array([[3. , 0.5]])
    """
    core = native_core() if isinstance(F, np.ndarray) else None
    if core is None:
        return _descend(F, N, gram, floor, passes)
    stepped = np.empty_like(F)
    core.hals_step(F, N, gram, floor, _smallest(gram), passes, stepped)
    return stepped


def extrapolated_step(
    F: Array, N: Array, gram: Vector, floor: float, passes: int, last: Array, pace: float
) -> tuple[Array, Array]:
    """Take the same step to F+, and go on to max(F+ + pace (F+ - last), floor) in the columns where f stays below f(F).

    Returns
    -------
    stepped, further : F+, and where the columns went.
    """
    core = native_core() if isinstance(F, np.ndarray) else None
    if core is None:
        stepped = _descend(F, N, gram, floor, passes)
        return stepped, _push(F, N, gram, floor, stepped, last, pace)
    stepped, further = np.empty_like(F), np.empty_like(F)
    core.hals_step_ahead(F, N, gram, floor, _smallest(gram), passes, last, pace, stepped, further)
    return stepped, further


def _smallest(gram: Any) -> float:
    """The square of a component that counts as vanished."""
    return VANISHED**2 * float(gram.diagonal().max())


def _descend(F: Array, N: Array, gram: Any, floor: float, passes: int) -> Array:
    """`shared_step` in the array library of F: the reference of the compiled one."""
    xp, square, smallest = namespace(F), gram.diagonal(), _smallest(gram)
    G, H = xp.asarray(gram, dtype=F.dtype), 1.0 * F
    for _ in range(passes):
        for k in range(F.shape[0]):
            if square[k] > smallest:
                H[k] = xp.clip(H[k] - (G[k] @ H - N[k]) / G[k, k], floor, None)
    return H


def _push(F: Array, N: Array, gram: Any, floor: float, stepped: Array, last: Array, pace: float) -> Array:
    """The extrapolation of `extrapolated_step` in the array library of F."""
    xp = namespace(F)
    moves = xp.asarray(gram.diagonal() > _smallest(gram))[:, None]  # what did not move is not carried on
    further = xp.clip(stepped + xp.where(moves, pace * (stepped - last), 0.0), floor, None)
    slope = xp.asarray(gram, dtype=F.dtype) @ (0.5 * (F + further)) - N  # f(further) - f(F) = (further - F)'slope
    return xp.where(((further - F) * slope).sum(0) <= 0, further, stepped)


@dataclass(frozen=True)
class HALS:
    """Passes of coordinate descent on the shared curvature of beta = 2, then Nesterov's extrapolation of every column.

    F_k is found from F^ by `passes` of descent; the block goes on to F^ = max(F_k + a_k (F_k - F_(k-1)), floor) with
    the a_k of `Extrapolated`, except in columns that this would raise. The loss never rises, so nobody needs to look.

    passes : of coordinate descent for every sweep

    >>> G, parts = np.full((1, 1), 2.0), Parts(np.full((1, 1, 1), 6.0), np.empty((0, 1, 1)), np.ones(1), (2.0,), 0.0)
    >>> rule, F = HALS(), np.ones((1, 1))
    >>> rule.step(F, replace(parts, gram=G), rule.init(F))[0]
    array([[3.]])
    """

    passes: int = HALS_PASSES
    separate: bool = False
    best: bool = True
    chooses: bool = False

    def certain(self, betas: tuple[float, ...]) -> bool:
        return True

    def curves(self, step: int, rank: int) -> bool:
        return True

    def init(self, F: Array) -> Momentum:
        return Momentum(F, 1.0)

    def step(self, F: Array, parts: Parts, state: Momentum) -> tuple[Array, Momentum]:
        if parts.betas != (2.0,):
            raise ValueError(
                f"update='hals' minimises beta = 2 alone, and the losses are {parts.betas}: use update='auto'."
            )
        if parts.gram is None:
            raise ValueError("update='hals' needs W'W from its sweeps, and this backend gives none: use update='auto'.")
        a, nu = Extrapolated().pace(state)
        stepped, further = extrapolated_step(F, parts.N[0], parts.gram, parts.floor, self.passes, state.F, a)
        return further, Momentum(stepped, nu, state.steps + 1)

    def retry(self, F: Array, tried: Array, attempt: int, state: Momentum) -> tuple[Array, Momentum]:
        return state.F, replace(state, nu=1.0)

    def restart(self, state: Momentum) -> Momentum:
        return replace(state, nu=1.0)
