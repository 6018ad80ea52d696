r"""Coordinate descent on W'W for beta = 2 alone: hierarchical alternating least squares (HALS), extrapolated.

With W fixed the loss of every column of H is the quadratic function

.. math:: f(h) = \tfrac12 h' G h - N' h + \tfrac12 \|x\|^2, \qquad G = W'W, \quad N = W'x

with one matrix G for all columns, so a pass over the r components of all columns costs O(r^2 n), where a sweep costs
O(m n r), and no column has a matrix of its own. Each component in turn takes its exact minimum over h_k >= floor
(Cichocki, Zdunek and Amari 2007): f cannot rise, and zeros are reached from above. Several passes for one sweep pay
(Gillis and Glineur 2012), and so does moving on beyond the point they found (Ang and Gillis 2019): N and G say what f
is there, so a column that would end above where it began stays with its minimum, without a sweep to find out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from drnmf.algorithms.updates.base import Facts, Parts, Wants, halve
from drnmf.algorithms.updates.monotone import Extrapolated, Momentum, Moving
from drnmf.algorithms.updates.simplex_steps import ahead_on_simplex
from drnmf.algorithms.updates.steps import extrapolated_step, packed, packed_product, quadratic_step
from drnmf.losses.base import Omega, is_quadratic
from drnmf.numerics import HALS_DELAY, HALS_PASSES, Array, Numbers, namespace

_NESTEROV, _CURVATURE = Extrapolated(), Wants(curvature=True)


@dataclass(frozen=True)
class HALS(Moving):
    """Passes of coordinate descent on the shared curvature of beta = 2, then Nesterov's extrapolation of every column.

    F_k is found from F^ by `passes` of descent; the block moves on to F^ = max(F_k + a_k (F_k - F_(k-1)), floor) with
    the a_k of `Extrapolated`, except in columns that this would raise. The loss never rises, so nobody needs to look.

    Parameters
    ----------
    passes : of coordinate descent for every sweep
    delay : steps of a single pass taken first. Which local minimum a run ends in is decided early, and runs that
        follow each half-problem to its end from the start end higher (docs/development/frobenius.md)

    Examples
    --------
    >>> import numpy as np
    >>> from drnmf.losses.beta import FROBENIUS
    >>> N, P, G = np.full((1, 1, 1), 6.0), np.empty((0, 1, 1)), np.full((1, 1), 2.0)
    >>> parts = Parts(N, P, np.ones(1), (FROBENIUS,), 0.0)
    >>> rule, F = HALS(), np.ones((1, 1))
    >>> rule.step(F, replace(parts, gram=G), rule.init(F))[0]
    array([[3.]])
    """

    facts: ClassVar[Facts] = Facts(batched=True, overwrites=True)

    passes: int = HALS_PASSES
    delay: int = HALS_DELAY

    def certain(self, omega: Omega) -> bool:
        return True

    def wants(self, step: int, rank: int, omega: Omega) -> Wants:
        return _CURVATURE

    def step(self, F: Array, parts: Parts, state: Momentum) -> tuple[Array, Momentum]:
        if not is_quadratic(parts.omega) or (parts.gram is None and len(parts.omega) > 1):
            named = ", ".join(loss.name for loss in parts.omega)
            gaps = " with gaps or penalties" if is_quadratic(parts.omega) else ""
            raise ValueError(
                f"update='hals' minimises beta = 2 alone, and the losses are {named}{gaps}: use update='auto'."
            )
        passes, a, nu = self.schedule(state)
        if parts.total is not None:
            stepped, further = ahead_on_simplex(F, parts, state.F, a)
        elif parts.gram is None:
            stepped, further = self._weighted(F, parts, passes, state.F, a)
        else:
            N, G = parts.shared(F)
            stepped, further = extrapolated_step(F, N, G, parts.floor, passes, state.F, a, parts.final)
        return further, Momentum(stepped, nu, state.steps + 1)

    def schedule(self, state: Momentum) -> tuple[int, Numbers, Numbers]:
        """Return the passes of the step that begins at a state, how far it is extrapolated, and nu after it."""
        return 1 if state.steps < self.delay else self.passes, *_NESTEROV.momentum(state)

    def _weighted(self, F: Array, parts: Parts, passes: int, last: Array, momentum: Numbers) -> tuple[Array, Array]:
        """The same where the entries of X have weights, and with them every column a curvature of its own."""
        xp, N, P, Q = namespace(F), parts.N[0], parts.P[0], parts.Q
        assert Q is not None
        if parts.penalties is not None:
            bound = parts.penalties.bound(F)
            N, Q = N - bound.slope(), Q if bound.curvature is None else Q + packed(bound.curvature, F)
            P = packed_product(Q, F)
        stepped = quadratic_step(F, N, P, Q, parts.floor, passes)
        further = xp.clip(stepped + momentum * (stepped - last), parts.floor, None)
        slope = packed_product(Q, 0.5 * (F + further)) - N  # f(further) - f(F) = (further - F)'slope
        return stepped, xp.where(((further - F) * slope).sum(0) <= 0, further, stepped)

    def retry(self, F: Array, tried: Array, attempt: int, state: Momentum) -> tuple[Array, Momentum]:
        if attempt == 1 and tried is not state.F:
            return state.F, replace(state, nu=1.0)
        halved = halve(F, tried)
        return halved, replace(state, F=halved, nu=1.0)
