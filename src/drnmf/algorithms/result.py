"""What a run leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from drnmf.algorithms.certificates import Certificate
from drnmf.losses.base import Omega
from drnmf.losses.interval import Coverage
from drnmf.numerics import Array, Vector


@dataclass(frozen=True)
class Trace:
    """The run, iteration by iteration; row 0 is the start, row k stands after iteration k.

    Attributes
    ----------
    scaled_losses, weights : (n_iter + 1, p); row k of weights is the lambda that iteration k + 1 uses
    seconds, gap : (n_iter + 1,), time since the start and max Dbar - lambda'Dbar
    sweeps : (n_iter + 1,) int, passes over X so far
    added : (iteration, beta) of every beta that joined during the run (an Interval's knots); NaN stands in its column
        before that
    """

    scaled_losses: Vector
    weights: Vector
    seconds: Vector
    gap: Vector
    sweeps: np.ndarray[tuple[int], np.dtype[np.int64]]
    added: Vector = field(default_factory=lambda: np.empty((0, 2)))

    @property
    def maximum(self) -> Vector:
        """max Dbar_beta of every row."""
        return np.nanmax(self.scaled_losses, axis=1)


def no_components() -> Array:
    """Stand for the components of a progress that was made without a run."""
    raise ValueError("This progress belongs to no run: it has no components.")


@dataclass(frozen=True)
class Progress:
    """What a callback sees after each iteration; returning True from it stops the run.

    Attributes
    ----------
    iteration : int, from 1
    losses, scaled_losses, weights : (p,) D_beta, D_beta / e_beta and lambda after it
    seconds : since the run began
    max_iter : int, the most iterations of the run
    omega : the losses
    components : call it for H (r, n) after the iteration, as a NumPy array; on a GPU that is a copy to the host
    """

    iteration: int
    losses: Vector
    scaled_losses: Vector
    weights: Vector
    seconds: float
    max_iter: int
    omega: Omega
    components: Callable[[], Array] = no_components


@dataclass(frozen=True)
class Result:
    """A point and how it was reached. W has shape (m, r), H has shape (r, n).

    single_losses : (p, p), every loss (column) at the single-objective solution of each beta (row), where the run
        computed its references itself
    """

    W: Array
    H: Array
    omega: Omega
    references: Vector
    losses: Vector
    scaled_losses: Vector
    weights: Vector
    trace: Trace
    n_iter: int
    converged: bool
    reason: str
    notes: tuple[str, ...] = field(default=())
    single_losses: Vector | None = None
    certificate: Certificate | None = None
    coverage: Coverage | None = None


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run: still a KeyboardInterrupt, with the point reached so far in `result`."""

    def __init__(self, result: Result) -> None:
        super().__init__("interrupted")
        self.result = result
