"""The parameters that every fit has, declared and checked once."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike

from drnmf.algorithms.loop import Callback, Control
from drnmf.algorithms.updates.base import Rule
from drnmf.inputs.check import check_choice, check_integer, check_number
from drnmf.inputs.weights import Reading
from drnmf.losses.base import Omega
from drnmf.numerics import HALS_TOLERANCE, HALS_WINDOW, TOLERANCE
from drnmf.objective.constraints import Constraints, as_constraints
from drnmf.objective.penalties import as_penalties, settled
from drnmf.objective.penalty import Penalty, without_zeros


def count_jobs(n_jobs: int | None) -> int:
    """Count the runs that go side by side, as joblib counts them."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral)):
        raise ValueError(f"n_jobs={n_jobs!r} must be None or an integer: -1 uses every core.")
    if n_jobs == 0:
        raise ValueError("n_jobs=0 is no number of jobs: use None or 1 for one, -1 for every core.")
    return int(effective_n_jobs(n_jobs))


@dataclass(kw_only=True, eq=False, repr=False)
class Parameters:
    """What estimators and Pareto fronts take alike; each is described in `BetaNMF`."""

    n_components: int = field(default=10, kw_only=False)
    update: str | Rule = "auto"
    init: str = "auto"
    references: ArrayLike | None = None
    max_iter: int = 10_000
    tol: float | None = None
    zeros: str = "raise"
    negatives: str = "raise"
    unstored: str = "zero"
    random_state: int | np.random.RandomState | None = None
    n_init: int = 1
    max_time: float | None = None
    callback: Callback | None = None
    verbose: int = 0
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_every: float = 30.0
    device: str | None = None
    precision: str = "float32"
    n_jobs: int | None = None
    penalties: Any = None
    sum_to_one: str | None = None
    fixed: ArrayLike | None = None
    fixed_W: ArrayLike | None = None

    def constraints(self) -> Constraints:
        """Check what W and H must satisfy, as far as it can be without X."""
        return as_constraints(self.sum_to_one, self.fixed, self.fixed_W)

    def rank(self) -> int:
        """Check the number of components."""
        return check_integer("n_components", self.n_components, 1)

    def terms(self) -> tuple[Penalty, ...]:
        """Check the penalties; those with alpha = 0 are left out."""
        return settled(without_zeros(as_penalties(self.penalties)), self.sum_to_one)

    def starts(self) -> int:
        """Check the number of starts."""
        return check_integer("n_init", self.n_init, 1)

    def jobs(self) -> int:
        """Count the runs that go side by side."""
        return count_jobs(self.n_jobs)

    def zeros_choice(self) -> str:
        """Check what to do with zeros of X."""
        return check_choice("zeros", self.zeros, ("raise", "floor"))

    def reading(self, entry_weight: Any = None, uncertainty: Any = None) -> Reading:
        """Check what counts as missing, and collect it with the weights of the entries."""
        return Reading(
            check_choice("negatives", self.negatives, ("raise", "clip", "missing")),
            check_choice("unstored", self.unstored, ("zero", "missing")),
            entry_weight,
            uncertainty,
        )

    def checkpoint_seconds(self) -> float:
        """Check the seconds between two checkpoints."""
        return check_number("checkpoint_every", self.checkpoint_every, 0.0)

    def control(self, inner_iter: int = 1, omega: Omega = ()) -> Control:
        """Check when to stop.

        Parameters
        ----------
        inner_iter : updates of (W, H) per move of lambda
        omega : the losses of the fit; without them nothing is minimised but one factor
        """
        early = self.may_stop_early(omega)
        tol = (HALS_TOLERANCE if early else TOLERANCE) if self.tol is None else check_number("tol", self.tol, 0.0)
        return Control(
            max_iter=check_integer("max_iter", self.max_iter, 1),
            tol=tol,
            fraction=HALS_WINDOW if early else 0.0,
            max_time=None if self.max_time is None else check_number("max_time", self.max_time, 0.0, strict=True),
            inner_iter=check_integer("inner_iter", inner_iter, 1),
        )

    def may_stop_early(self, omega: Omega) -> bool:
        """Tell whether a fit takes plain steps of coordinate descent, of which long runs gain little, to its end."""
        steps = self.update in ("auto", "hals") and [loss.free_part for loss in omega] == ["gram"]
        return self.tol is None and steps and not self.terms() and self.constraints().free
