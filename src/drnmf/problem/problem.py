"""A problem: X in its backend and unit, what is observed of it, and what its factors are to minimise.

X is opened once (`Problem.opened`), in the only place that knows two units. From a problem come others: under other
losses (`asked`), with some rows, with X drawn again, without some entries, from another start, over given references.
`solve.solve` runs a list of them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from drnmf.algorithms.initialize import Start
from drnmf.algorithms.result import Result
from drnmf.algorithms.weights import WeightState
from drnmf.backends.base import Data, Observed, in_unit, losses_of
from drnmf.backends.modes import Factors, Matrix, Modes
from drnmf.backends.observed import HeldOut, Stored, weigh
from drnmf.backends.open import reopened
from drnmf.backends.products import split_columns
from drnmf.backends.tensor import modes_of
from drnmf.losses.base import Loss, Omega, is_quadratic
from drnmf.losses.beta import Beta
from drnmf.numerics import REFERENCE_FLOOR, Array, Grid, Indices, Vector, positive_scale
from drnmf.objective.constraints import UNCONSTRAINED, Constraints
from drnmf.objective.objective import Objective
from drnmf.objective.penalty import Penalties, Penalty, Setting
from drnmf.problem.canonical import canonical, check_fixed, feasible_start, imposed, with_exact_zeros
from drnmf.problem.check import check_scale, check_zeros, warn_dense_tiles, warn_rank
from drnmf.problem.device import is_sparse
from drnmf.problem.receive import Received, refuse_signed, remark_on_missing
from drnmf.problem.units import Units, divided
from drnmf.problem.unobserved import Unobserved

logger = logging.getLogger("drnmf")


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be minimised over W and H.

    Everything but `given` is in the unit of the data; `back` takes a result into that of the caller.
    """

    data: Data  # X in its backend, in a unit of its own
    units: Units  # between the caller's and those of the data
    rank: int  # r
    omega: Omega  # the losses
    unobserved: Unobserved  # the rows and columns of X without any observed entry
    given: Received  # X and the weights of its entries as they were received
    penalties: tuple[Penalty, ...] = ()  # what stands beside the losses
    constraints: Constraints = UNCONSTRAINED  # what W and H must satisfy
    notes: tuple[str, ...] = ()  # remarks on X
    # the losses over their references, and the penalties; None while the references are not known
    objective: Objective | None = None
    start: Start | None = None  # where a run begins, None where that is not settled
    # spent, weight_state: iterations that the run to this start took, and how its weights go on, where it is continued
    spent: int = 0
    weight_state: WeightState | None = None
    # sizes of the modes that the columns of X are made of, where X is the unfolding of a tensor
    columns: tuple[int, ...] = ()

    @classmethod
    def opened(cls, data: Data, given: Received | None = None, columns: tuple[int, ...] = ()) -> Problem:
        """Check X in its backend, in a unit of its own (`Placement.open`), of which nothing is asked yet.

        given : X as it was received, for whoever looks at its entries
        columns : sizes of the modes of the columns of X, where it is the unfolding of a tensor
        """
        given = Received(None) if given is None else given
        check_scale(data)
        missing, unobserved = remark_on_missing(data), Unobserved.of(data)
        if columns:  # what the other modes say of an index of one mode says of all its columns
            unobserved = replace(unobserved, columns=None)
        for note in (*given.notes, *missing):
            logger.info(note)
        notes = (*given.notes, *missing, *unobserved.notes())
        return cls(data, Units(data.scale), 0, (), unobserved, given, notes=notes, columns=columns)

    def asked(
        self,
        rank: int,
        omega: Omega,
        *,
        references: Vector | None = None,
        penalties: tuple[Penalty, ...] = (),
        constraints: Constraints = UNCONSTRAINED,
        zeros: str = "raise",
    ) -> Problem:
        """Check what is asked of the factors of X, in the unit of the caller, and take it into that of the data.

        references : None where they are to be found
        zeros : what to do with zeros of X under a loss that is infinite there
        """
        data = self.data
        refuse_signed(self.given, omega)
        constraints.check(self.shape, rank, {"H": "fixed", "W": "fixed_W"})
        units = Units(data.scale, references, constraints.sum_to_one)
        units.losses(np.full(len(omega), REFERENCE_FLOOR * data.count), omega)  # refuse now what no fit could hand out
        bound = units.constraints(constraints)
        check_fixed(data, bound, units.omega(omega), rank)
        notes = (*self.notes, *check_zeros(data, omega, zeros))
        warn_dense_tiles(is_sparse(self.given.X) and not isinstance(self.given.observed, Stored), data.shape, omega)
        warn_rank(rank, data.shape)
        problem = replace(
            self,
            units=units,
            rank=rank,
            omega=units.omega(omega),
            penalties=units.terms(penalties, omega),
            constraints=bound.cast(data.dtype),
            notes=notes,
        )
        known = units.references(omega)
        return problem if known is None else problem.over(known)

    def drawn(self, X: Grid, mean: float | None = None) -> Problem:
        """Return other entries in the place of those of X, under the same weights; nothing is asked of them yet.

        mean : in the unit of the caller, where floors refer to another than theirs
        """
        given = replace(self.given, X=X, notes=())
        return Problem.opened(self.entries(given, mean), given, self.columns)

    def entries(self, given: Received, mean: float | None = None) -> Data:
        """Open other entries as X was opened, rows of it as well as what was drawn.

        mean : as in `drawn`
        """
        return in_unit(weigh(reopened(self.data, given.X, mean), given.observed, mean))

    @property
    def turned(self) -> Problem:
        """X transposed; nothing is asked of it yet."""
        observed = None if self.observed is None else self.observed.T
        given = replace(self.given, X=self.given.X.T, observed=observed)
        sides = Unobserved(self.unobserved.columns, self.unobserved.rows)
        return replace(self, data=self.data.T, given=given, unobserved=sides)

    def rows(self, some: Indices | slice, mean: float | None = None) -> Problem:
        """Return some rows of X, by a slice or by indices, as often as they are named; nothing is asked of them yet."""
        if isinstance(some, slice) and some == slice(None):
            return self
        given = replace(self.given, observed=self.observed).rows(some)
        return Problem.opened(self.entries(given, mean), given, self.columns)

    @property
    def observed(self) -> Observed | None:
        """The weights of the entries of X, None where each counts once; entries that are held out are bound to X."""
        observed = self.given.observed
        return observed.bind(self.data.shape) if isinstance(observed, HeldOut) else observed

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes of X."""
        return self.data.shape[0], *(self.columns or self.data.shape[1:])

    @property
    def modes(self) -> Modes:
        """X as the loop sees it."""
        return modes_of(self.data, self.columns) if self.columns else Matrix(self.data)

    def blocks(self, start: Start) -> Factors:
        """Return factors W and H as the blocks that the loop moves; those of a tensor may be blocks already."""
        if len(start) > 2:
            return start
        W, H = start
        return (*split_columns(H, self.columns), W.T) if self.columns else (H, W.T)

    @property
    def begins(self) -> Start:
        """Where the run begins."""
        assert self.start is not None
        return self.start

    def over(self, references: Vector) -> Problem:
        """Return the same with its losses over references."""
        return replace(self, objective=self.objective_of(self.omega, references, self.penalties))

    def objective_of(self, omega: Omega, references: Vector, terms: tuple[Penalty, ...]) -> Objective:
        """Return the objective of a fit: the scaled losses, and the penalties in units that X gives."""
        return objective_of(self.data, omega, references, terms, self.columns)

    def under(self, omega: Omega, references: Vector) -> Problem:
        """Return the same under other losses, over their references."""
        return replace(self, omega=omega).over(references)

    def alone(self, loss: Loss) -> Problem:
        """Return the same under one loss, not divided by anything, and without the penalties."""
        objective, units = Objective((loss,), np.ones(1), self.data.mean), replace(self.units, given=np.ones(1))
        return replace(self, omega=(loss,), penalties=(), objective=objective, units=units, spent=0)

    def penalised(self, penalties: tuple[Penalty, ...]) -> Problem:
        """Return the same with other penalties; its references are to be given again."""
        return replace(self, penalties=penalties, objective=None)

    def without(self, mask: Observed) -> Problem:
        """Return the same with the entries of X weighed by a mask: those of weight zero are not seen."""
        seen = replace(self, data=weigh(self.data, mask))
        return seen if self.objective is None else seen.over(self.objective.references)  # penalties know their X

    def begun(self, start: Start) -> Problem:
        """Return the same from a start, of a tensor its blocks: products of their columns need not be kept."""
        return replace(self, start=self.blocks(start) if self.columns else start, spent=0, weight_state=None)

    def coarse(self, single: Data | None) -> Problem:
        """Return the same with X, which is handed in, and the start in single precision, for runs that others continue.

        Itself where that saves nothing, and where powers of X that the losses need may leave its range.
        """
        kept = self.penalties or not self.constraints.free or is_quadratic(self.omega)
        floored = self.data.zeros and any(loss.infinite_at_zero for loss in self.omega)
        large = not all(isinstance(loss, Beta) and 0 <= loss.beta <= 2 for loss in self.omega)
        if single is None or kept or floored or large:
            return self
        return replace(self, data=single, start=tuple(np.asarray(F, single.dtype) for F in self.begins))

    def refined(self, run: Result) -> Result:
        """Return where a run of `coarse` stands, in the precision of X, with its losses there."""
        fine = replace(run, blocks=tuple(np.asarray(F, self.data.dtype) for F in run.blocks))
        fine = replace(fine, losses=losses_of(self.data, fine.W, fine.H, self.omega))
        return fine.under(run.references)

    def resumed(self, run: Result) -> Problem:
        """Return the same from where a run of it stands, with the iterations that the run has left."""
        return replace(self, start=point_of(run), spent=run.n_iter, weight_state=run.weight_state)

    def feasible(self, W: Array, H: Array) -> Start:
        """Bring a start to where the constraints hold, without a trace of rows and columns that are not observed."""
        start = self.unobserved.clear(self.data, W, H)
        if self.constraints.free:
            return start
        blocks = feasible_start(self.modes, self.constraints, self.blocks(start))
        return blocks if self.columns else (blocks[1].T, blocks[0])

    def with_zeros(self, result: Result, overwrite: bool = False) -> Result:
        """Return a result with exact zeros for what is at the floor of its factors, where the losses allow it.

        overwrite : its factors may be written over
        """
        return with_exact_zeros(self.modes, self.constraints, result, overwrite)

    def canonical(self, result: Result, normalize: bool = True) -> Result:
        """Bring a result into canonical form, where that is wanted.

        Rows and columns that are not observed have no say in it, and penalties and constraints have one in the scale of
        components. Whoever folds the factors of a tensor's unfolding orders them.
        """
        result = self.unobserved.cleared(self.data, result)
        if not normalize or self.columns:
            return result
        rescale = self.constraints.free and not self.penalties
        W, H = canonical(self.data, result.W, result.H, rescale, self.constraints.fixed)
        return result.at(W, H)

    def completed(self, result: Result) -> Result:
        """Give rows and columns of which nothing is known the mean of the others, within the constraints."""
        done = self.unobserved.complete(result)
        if self.constraints.free or done is result:
            return done
        return replace(done, blocks=imposed(self.modes, self.constraints, done.blocks))

    def back(self, result: Result) -> Result:
        """Return a result in the unit of the caller."""
        return self.units.result(self.data, result)

    def inside(self, start: Start) -> Start:
        """Return factors of the caller in the unit of the data."""
        return self._divided(start, 1.0 / self.units.left, 1.0 / self.units.right)

    def outside(self, start: Start) -> Start:
        """Return factors in the unit of the caller."""
        return self._divided(start, self.units.left, self.units.right)

    def _divided(self, start: Start, left: float, right: float) -> Start:
        A, B = self.data.T.space.put(start[0].T), self.data.space.put(start[1])
        W = self.data.T.space.map(partial(divided, by=left), A).T
        return W, self.data.space.map(partial(divided, by=right), B)


def point_of(run: Result) -> Start:
    """Return where a run stands: W and H, or the blocks of a tensor, in whose scales penalties have a say."""
    return (run.W, run.H) if len(run.blocks) == 2 else run.blocks


def objective_of(
    data: Data, omega: Omega, references: Vector, terms: tuple[Penalty, ...] = (), columns: tuple[int, ...] = ()
) -> Objective:
    """Return the objective of a fit: the scaled losses, and the penalties in units that X gives.

    The unit is the loss of the constant model, WH = mean(X), which needs no fit and is the same for every start.

    columns : as in `Problem`
    """
    if not terms:
        return Objective(omega, references, data.mean)
    level = float((constant_model_losses(data, omega) / references).max())
    shape = data.shape[0], *(columns or data.shape[1:])
    return Objective(omega, references, data.mean, Penalties(terms, Setting(shape, data.mean, level)))


def constant_model_losses(data: Data, omega: Omega) -> Vector:
    """Compute D_beta(X, mean(X)): what the simplest model costs, the yardstick of the floor under e_beta."""
    m, n = data.shape
    root = np.sqrt(positive_scale(data.mean))
    return losses_of(data, np.full((m, 1), root, dtype=data.dtype), np.full((1, n), root, dtype=data.dtype), omega)


def reference_floors(data: Data, omega: Omega) -> Vector:
    """Compute the smallest e_beta that is used: 1e-16 of the constant model's loss."""
    return np.maximum(REFERENCE_FLOOR * constant_model_losses(data, omega), np.finfo(np.float64).tiny)


def floors_at(data: Data, omega: Omega) -> Vector:
    """Compute the smallest e_beta that is used, in the units of the caller."""
    units = Units(data.scale)
    return np.maximum(units.losses(reference_floors(data, units.omega(omega)), omega), np.finfo(np.float64).tiny)


def dispersions(data: Data, losses: Vector, omega: Omega, rank: int) -> Vector:
    """Estimate phi of every loss from a fit, 2 D over its degrees of freedom."""
    return 2.0 * np.maximum(losses, floors_at(data, omega)) / degrees_of_freedom(data, rank)


def degrees_of_freedom(data: Data, rank: int) -> int:
    """Count what a fit leaves of N entries, N - r (m + n - r), or N where nothing would be left."""
    m, n = data.shape
    free = data.count - rank * (m + n - rank)
    return free if free > 0 else data.count
