"""From a validated X to a Result: starts, references, runs, the best of them, canonical form.

What the estimators and the Pareto front share, with nothing of scikit-learn in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from drnmf.data.base import Data
from drnmf.encode import encode, losses_of
from drnmf.numerics import SETTLE_TOLERANCE, Array, Vector
from drnmf.objective import Objective
from drnmf.references import Start, compute_references, constant_model_losses
from drnmf.result import Result
from drnmf.solver import Callback, Control, solve, with_notes
from drnmf.updates import Rule
from drnmf.weights import Policy


@dataclass
class Budget:
    """Hands out the controls of a fit's runs one after another; max_time is shared evenly by the runs left."""

    control: Control
    runs: int
    watch: Callable[[str], Callback | None] = lambda stage: None
    started: float = field(default_factory=time.perf_counter)

    def take(self, stage: str, callback: Callback | None = None) -> Control:
        """The control of the next run; `callback` is the user's, beside whatever watches the stage."""
        watcher = self.watch(stage)
        left = None
        if self.control.max_time is not None:
            left = max(self.control.max_time - (time.perf_counter() - self.started), 0.0) / max(self.runs, 1)
        self.runs -= 1
        return replace(self.control, max_time=left, callback=_both(watcher, callback))


def _both(first: Callback | None, second: Callback | None) -> Callback | None:
    if first is None or second is None:
        return first or second

    def call(progress: Any) -> Any:
        first(progress)
        return second(progress)

    return call


def fit_factors(
    data: Data,
    starts: list[Start],
    betas: tuple[float, ...],
    references: Vector | None,
    rule: Rule,
    policy: Policy,
    budget: Budget,
    callback: Callback | None = None,
    stage: str = "fit",
) -> Result:
    """Run from every start under common references and keep the run with the smallest maximum.

    references : e_beta; None computes them, one single-objective fit per beta and start.
    """
    notes: tuple[str, ...] = ()
    if references is None:
        found = compute_references(data, starts, betas, rule, budget.take)
        references, notes = found.values, found.notes
    objective = Objective(betas, references, data.mean)
    runs = [solve(data, *start, objective, rule, policy, budget.take(stage, callback)) for start in starts]
    best = min(runs, key=lambda run: float(run.scaled_losses.max()))
    return with_notes(best, *notes)


def settle(data: Data, result: Result, control: Control) -> Result:
    """Where r > n, X and H do not determine W: take the W that `transform` gives, if it fits no worse.

    No worse means by less than 1e-6 of the constant model's loss. The trace stays the run's.
    """
    if result.H.shape[0] <= data.shape[1]:
        return result
    objective = Objective(result.betas, result.references, data.mean)
    W = encode(data, result.H, objective, result.weights, control.max_iter, control.tol)
    losses = losses_of(data, W, result.H, result.betas)
    if np.any(losses - result.losses > SETTLE_TOLERANCE * constant_model_losses(data, result.betas)):
        return result
    return replace(result, W=W, losses=losses, scaled_losses=objective.scaled(losses))


def canonical(W: Array, H: Array) -> tuple[Array, Array]:
    """The same WH with ||w_k|| = ||h_k|| for every component, the largest contribution ||w_k|| ||h_k|| first.

    >>> W, H = canonical(np.array([[1.0, 4.0]]), np.array([[1.0], [4.0]]))
    >>> W.tolist(), H.tolist()
    ([[4.0, 1.0]], [[4.0], [1.0]])
    """
    w = np.linalg.norm(W.astype(np.float64), axis=0)
    h = np.linalg.norm(H.astype(np.float64), axis=1)
    scale = np.sqrt(h / w)
    order = np.argsort(-(w * h), kind="stable")
    W = np.ascontiguousarray((W * scale[None, :])[:, order], dtype=W.dtype)
    H = np.ascontiguousarray((H / scale[:, None])[order], dtype=H.dtype)
    return W, H
