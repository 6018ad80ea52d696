r"""Newton steps for every column at once, with the curvature that the sweep brings along.

With W fixed the columns of H are separate problems in r variables. Near h~ the weighted loss of a column is

.. math:: f(h) \approx f(\tilde h) + (P - N)'(h - \tilde h) + \tfrac12 (h - \tilde h)' Q (h - \tilde h), \quad
          Q = W' \mathrm{diag}(\textstyle\sum_\beta c_\beta d''_\beta(x, v)) W

(`divergence.divergence_curvature`). For the expected curvature Q h~ = P whatever beta is, so the multiplicative step is
the same model with Q replaced by diag(P / h~): it leaves out that components overlap, and that is what makes it slow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from drnmf.algorithms.updates.base import Extrapolated, Momentum, Parts, usable
from drnmf.algorithms.updates.hals import shared_step
from drnmf.backends.base import native_core
from drnmf.numerics import NEWTON_DELAY, NEWTON_PASSES, RULE_DELAY, Array, Vector, namespace, power_ceiling


def quadratic_step(
    F: Array, N: Array, P: Array, Q: Array, floor: float, passes: int, gram: Vector | None = None
) -> Array:
    """argmin over h >= floor of the model of every column, by cyclic coordinate descent from F.

    The curvature of a column is its own part of Q and, where there is one, `gram`, which all columns share. It is
    scaled in every column so that F'QF = F'P: lambda may have moved since the sweep that made it. A column whose
    curvature is not usable (zero, or beyond the range of the dtype) takes the multiplicative step.

    >>> one = np.ones((1, 1))
    >>> quadratic_step(2 * one, 3 * one, 2 * one, one, 0.0, 1)  # slope -1, curvature 1 scaled to P / F
    array([[3.]])
    """
    core = native_core() if isinstance(F, np.ndarray) else None
    if core is None:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # such columns take the other step
            return _descend(F, N, P, Q, floor, passes, gram)
    out = np.empty_like(F)
    core.quadratic_step(F, N, P, Q, gram, floor, power_ceiling(F.dtype), passes, out)
    return out


def _descend(F: Array, N: Array, P: Array, Q: Array, floor: float, passes: int, gram: Vector | None = None) -> Array:
    """The same in the array library of F: the reference of the compiled step."""
    xp = namespace(F)
    if gram is not None:
        Q = Q + xp.asarray(gram[np.tril_indices(len(gram))][:, None], dtype=Q.dtype)
    r, rows = F.shape[0], _triangle_rows(F.shape[0])
    scale = sum((Q[rows[k]] * F).sum(0) * F[k] for k in range(r)) / (F * P).sum(0)
    H, slope = [F[k] for k in range(r)], (P - N) * scale
    for _ in range(passes):
        for k, row in enumerate(rows):
            bent, bend = Q[row[k]] > 0, Q[row[k]]
            moved = xp.where(bent, xp.clip(H[k] - slope[k] / xp.where(bent, bend, 1.0), floor, None), H[k])
            slope = slope + Q[row] * (moved - H[k])
            H[k] = moved
    step = xp.stack(H)
    good = (scale > 0) & (scale < power_ceiling(np.float32 if F.itemsize == 4 else np.float64)) & (step == step)
    return xp.where(good, step, xp.clip(F * usable(N / P, P), floor, None))


def _triangle_rows(r: int) -> list[list[int]]:
    """Where row k of a symmetric matrix lies in its packed lower triangle.

    >>> _triangle_rows(2)
    [[0, 1], [1, 2]]
    """
    return [[max(k, l) * (max(k, l) + 1) // 2 + min(k, l) for l in range(r)] for k in range(r)]


@dataclass(frozen=True)
class Newton:
    """`updates.Extrapolated` for `delay` steps, then Newton steps, halved towards F while the objective rises.

    Which local minimum a run ends in is decided early: until then it follows the multiplicative steps.

    delay : extrapolated steps taken first, of which RULE_DELAY plain
    largest_rank : above it all steps are extrapolated; the curvature costs r (r + 1) / 2 products a sweep
    passes : of coordinate descent over the model
    """

    delay: int = NEWTON_DELAY
    largest_rank: int | None = None
    passes: int = NEWTON_PASSES
    separate: bool = False
    best: bool = True
    chooses: bool = False

    @property
    def first(self) -> Extrapolated:
        return Extrapolated(geometric=True, delay=RULE_DELAY)

    def certain(self, betas: tuple[float, ...]) -> bool:
        return False

    def curves(self, step: int, rank: int) -> bool:
        return step >= self.delay and (self.largest_rank is None or rank <= self.largest_rank)

    def init(self, F: Array) -> Momentum:
        return self.first.init(F)

    def step(self, F: Array, parts: Parts, state: Momentum) -> tuple[Array, Momentum]:
        if state.steps < self.delay or (parts.Q is None and parts.gram is None):
            return self.first.step(F, parts, state)
        stepped = self._descend(F, parts)
        return stepped, Momentum(stepped, 1.0, state.steps + 1)

    def _descend(self, F: Array, parts: Parts) -> Array:
        """The minimum of the model; beta = 2 alone has one curvature for all columns."""
        if parts.Q is None and parts.gram is not None:
            return shared_step(F, parts.N[0], parts.gram, parts.floor, self.passes)
        assert parts.Q is not None
        N, P = parts.weighted()
        return quadratic_step(F, N, P, parts.Q, parts.floor, self.passes, parts.gram)

    def retry(self, F: Array, tried: Array, attempt: int, state: Momentum) -> tuple[Array, Momentum]:
        return self.first.retry(F, tried, attempt, state)

    def restart(self, state: Momentum) -> Momentum:
        return replace(state, nu=1.0)
