"""What a run leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from drnmf.algorithms.certificates import Certificate
from drnmf.algorithms.weights import WeightState
from drnmf.backends.modes import Factors
from drnmf.backends.products import column_products, split_columns
from drnmf.losses.base import Omega
from drnmf.losses.interval import Coverage
from drnmf.numerics import Array, Vector


@dataclass(frozen=True)
class Trace:
    """The run, iteration by iteration; row 0 is the start, row k stands after iteration k.

    Attributes
    ----------
    losses, scaled_losses, weights : (n_iter + 1, p); D_beta, D_beta / e_beta under the references of the result, and
        lambda, of which row k is what iteration k + 1 uses
    seconds, gap : (n_iter + 1,), time since the start and max Dbar - lambda'Dbar
    sweeps : (n_iter + 1,) int, passes over X so far
    added : (iteration, beta) of every beta that joined during the run (an Interval's knots); NaN stands in its column
        before that
    penalty : (n_iter + 1,), the sum of the penalties, beside the losses; zeros without any
    """

    losses: Vector
    scaled_losses: Vector
    weights: Vector
    seconds: Vector
    gap: Vector
    sweeps: np.ndarray[tuple[int], np.dtype[np.int64]]
    added: Vector = field(default_factory=lambda: np.empty((0, 2)))
    penalty: Vector = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        if not self.penalty.size:
            object.__setattr__(self, "penalty", np.zeros(len(self.losses)))

    @property
    def maximum(self) -> Vector:
        """max Dbar_beta of every row."""
        found: Vector = np.fmax.reduce(self.scaled_losses, axis=1)  # NaN stands before a beta joined
        return found

    @property
    def objective(self) -> Vector:
        """The maximum of every row plus its penalties."""
        return self.maximum + self.penalty

    def under(self, references: Vector) -> Trace:
        """Scale the losses of every row by other references."""
        scaled = self.losses / references
        gap = np.fmax.reduce(scaled, axis=1) - np.nansum(self.weights * scaled, axis=1)
        return replace(self, scaled_losses=scaled, gap=gap)

    def then(self, later: Trace) -> Trace:
        """Add the rows of a run that continued from here; the first of them takes the place of the last one here."""
        after = replace(later, seconds=later.seconds + self.seconds[-1], sweeps=later.sweeps + self.sweeps[-1])
        rows = {name: np.concatenate([getattr(self, name)[:-1], getattr(after, name)]) for name in _ROWS}
        return Trace(**rows, added=self.added)


_ROWS = ("losses", "scaled_losses", "weights", "seconds", "gap", "sweeps", "penalty")


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
    """A point and how it was reached.

    blocks : the factors with components as rows, in the order of the steps: H (r, n) and W' (r, m) of a matrix; of a
        tensor one for each mode of its unfolding's columns, and W' last
    single_losses : (p, p), every loss (column) at the single-objective solution of each beta (row), where the run
        computed its references itself
    penalty : the sum of the penalties at the point
    weight_state : lambda where the run stopped and the state of its policy, for whoever continues it; its
        point may be an earlier one
    """

    blocks: Factors
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
    penalty: float = 0.0
    weight_state: WeightState | None = None

    @property
    def W(self) -> Array:
        """(m, r), of a matrix or of the unfolding of a tensor."""
        return self.blocks[-1].T

    @property
    def H(self) -> Array:
        """(r, n), of a matrix or of the unfolding of a tensor."""
        return self.blocks[0] if len(self.blocks) == 2 else column_products(self.blocks[:-1])

    def at(self, W: Array, H: Array | None = None) -> Result:
        """Return the same with other factors of the matrix or of the unfolding; None leaves those of its columns."""
        columns = self.blocks[:-1] if H is None else split_columns(H, [F.shape[1] for F in self.blocks[:-1]])
        return replace(self, blocks=(*columns, W.T))

    @property
    def objective(self) -> float:
        """The largest scaled loss plus the penalties."""
        return float(self.scaled_losses.max()) + self.penalty

    @property
    def met(self) -> Vector:
        """(p,): the smallest of every loss along the run; at its point alone where the trace holds other losses."""
        whole = self.trace.losses.shape[1] == self.losses.size
        return np.nanmin(self.trace.losses, axis=0) if whole else self.losses

    def under(self, references: Vector) -> Result:
        """Return the same point scaled by other references, and so the trace where it holds the same losses."""
        whole = self.trace.losses.shape[1] == references.size
        trace = self.trace.under(references) if whole else self.trace
        return replace(self, references=references, scaled_losses=self.losses / references, trace=trace)

    def then(self, later: Result) -> Result:
        """Return the result of a run that continued from here, with the trace of both under its references."""
        trace = self.trace.under(later.references).then(later.trace)
        return replace(later, trace=trace, n_iter=self.n_iter + later.n_iter)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run: still a KeyboardInterrupt, with the point reached so far in `result`."""

    def __init__(self, result: Result) -> None:
        super().__init__("interrupted")
        self.result = result
