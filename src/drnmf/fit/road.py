"""The one road from X to a result: X checked -> backend -> starts -> references -> runs -> the best of them.

Estimators and Pareto fronts walk it; nothing of scikit-learn is in it but the seed.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from drnmf.algorithms.initialize import Start, starts
from drnmf.algorithms.loop import Callback, Control, with_notes
from drnmf.algorithms.result import Result
from drnmf.backends.base import Data, losses_of
from drnmf.backends.batch import batch_kind, largest_batch
from drnmf.backends.host.single_blas import single_blas
from drnmf.backends.observed import Stored
from drnmf.fit.canonical import canonical
from drnmf.fit.continued import Runs, run_continued, smallest
from drnmf.fit.encode import encode
from drnmf.fit.feasible import feasible_start, imposed
from drnmf.fit.fixed import check_fixed
from drnmf.fit.method import Budget, Method
from drnmf.fit.parameters import Parameters
from drnmf.fit.penalised import certified, refuse_empty, remarks
from drnmf.fit.progress import progress_bar
from drnmf.fit.references import compute_references, constant_model_losses
from drnmf.fit.units import Units
from drnmf.fit.unobserved import Unobserved
from drnmf.inputs.check import check_scale, check_zeros, warn_dense_tiles, warn_rank
from drnmf.inputs.device import Placement, as_numpy, is_sparse
from drnmf.inputs.receive import Received, remark_on_missing
from drnmf.losses.base import Omega
from drnmf.numerics import EXACT_FIT, NEARLY_EXACT, REFERENCE_FLOOR, SETTLE_TOLERANCE, Vector
from drnmf.objective.constraints import UNCONSTRAINED, Constraints
from drnmf.objective.objective import Objective
from drnmf.storage.checkpoint import keeper_of

logger = logging.getLogger("drnmf")


@dataclass(frozen=True)
class Opened:
    """A fit that is ready to run.

    Attributes
    ----------
    data : X in its backend
    starts : where the runs start
    omega, references : the losses, and the references that were given, in the units of the data
    units : what takes results back into those of the caller
    budget : what hands out the controls of the runs
    notes : remarks on X
    unobserved : the rows and columns of X without any observed entry
    constraints : what W and H must satisfy
    """

    data: Data
    starts: list[Start]
    omega: Omega
    references: Vector | None
    units: Units
    budget: Budget
    notes: tuple[str, ...]
    unobserved: Unobserved
    constraints: Constraints = UNCONSTRAINED

    def completed(self, result: Result) -> Result:
        """Give rows and columns of which nothing is known the mean of the others, within the constraints."""
        done = self.unobserved.complete(result)
        if self.constraints.free or done is result:
            return done
        W, H = imposed(self.data, self.constraints, done.W, done.H)
        return replace(done, W=W, H=H)


@contextmanager
def opened(
    given: Received, placement: Placement, parameters: Parameters, omega: Omega, runs: int, identity: dict[str, Any],
    W: Any = None, H: Any = None, inner_iter: int = 1, references: Vector | None = None, plain: bool = False,
) -> Iterator[Opened]:  # fmt: skip
    """Open a fit of checked X; while the block runs its checkpoint folder is locked and its progress is shown.

    Parameters
    ----------
    given : X and the weights of its entries
    placement : where to fit
    runs : how many runs will share the time
    identity : what must be the same for a fit to be resumed from its checkpoint
    W, H : the start, with ``init="custom"``
    inner_iter : updates of (W, H) per move of lambda
    references : e_beta in the units of the caller, where they are given
    plain : leave X in the units of the caller
    """
    p = parameters
    control, rank, n_init = p.control(inner_iter, omega), p.rank(), p.starts()
    data, constraints = placement.open_plain(given) if plain else placement.open(given), p.constraints()
    check_scale(data)
    constraints.check(data.shape, rank, {"H": "fixed", "W": "fixed_W"})
    units = Units(data.scale, references, constraints.sum_to_one)
    units.losses(np.full(len(omega), REFERENCE_FLOOR * data.count), omega)  # refuse now what no fit could hand out
    constraints = units.constraints(constraints)
    check_fixed(data, constraints, omega, rank)
    constraints = constraints.cast(data.dtype)
    missing = remark_on_missing(data)
    unobserved = Unobserved.of(data)
    notes = (*given.notes, *missing, *unobserved.notes(), *check_zeros(data, omega, p.zeros_choice()))
    for note in (*given.notes, *missing):
        logger.info(note)
    warn_dense_tiles(is_sparse(given.X) and not isinstance(given.observed, Stored), data.shape, omega)
    warn_rank(rank, data.shape)
    W, H = as_numpy(W), as_numpy(H)

    def make() -> list[Start]:
        rng = check_random_state(p.random_state)
        into = (units.left, units.right)
        made = (unobserved.clear(data, *start) for start in starts(data, rank, p.init, rng, n_init, W, H, into))
        return [feasible_start(data, constraints, *start) for start in made]

    kept = keeper_of(p.checkpoint, p.checkpoint_seconds(), data, identity, W, H)
    # a cluster and a GPU take one run at a time, or the starts of a small X at once; a checkpoint keeps runs in order
    batch = min(n_init, largest_batch(data.count)) if data.space.deferred and batch_kind(data) is not None else 1
    jobs = 1 if p.checkpoint is not None else batch if data.space.deferred else p.jobs()
    with single_blas(), progress_bar(p.verbose, data.status, runs, p.max_time, jobs) as watch, kept as keeper:
        made = make() if keeper is None else keeper.starts(make)
        budget = Budget(replace(control, keeper=keeper), runs, watch, jobs, units, batched=batch > 1)
        inside = units.omega(omega), units.references(omega)
        yield Opened(data, made, *inside, units, budget, notes, unobserved, constraints)


def fit_factors(
    data: Data,
    starts: list[Start],
    omega: Omega,
    references: Vector | None,
    method: Method,
    budget: Budget,
    callback: Callback | None = None,
    stage: str = "fit",
) -> Result:
    """Run from every start under common references and keep the run with the smallest maximum.

    Parameters
    ----------
    starts : given up where the references are given: a run may overwrite its start, and the list is emptied
    references : e_beta; None computes them, one single-objective fit per loss and start, and improves those that a
        run beats where the method says so
    """
    runs = Runs(data, omega, method, budget, callback, stage)
    if references is not None:
        given_up = starts.copy()
        starts.clear()
        best = smallest(runs.begin(given_up, references, overwrite=True))
        return _finished(data, best, method)
    found = compute_references(data, starts, omega, method, budget)
    if method.improves and len(omega) > 1:
        done, found = run_continued(runs, starts, found)
    else:
        done = runs.begin(starts, found.values)
    best = smallest(done)
    return _finished(data, replace(with_notes(best, *found.notes), single_losses=found.losses), method)


def _finished(data: Data, best: Result, method: Method) -> Result:
    """The result with its certificate and with what is to be said of it."""
    refuse_empty(data, best, method.penalties)
    notes = (*_better_than_reference(best), *remarks(method.penalties))
    return with_notes(certified(data, best, method.penalties, method.constraints), *notes)


def _better_than_reference(result: Result) -> tuple[str, ...]:
    """Say where the run itself met a smaller loss than the reference: e_beta is only a local minimum."""
    if len(result.omega) == 1:
        return ()
    smallest = np.nanmin(result.trace.scaled_losses, axis=0)
    return tuple(
        f"The run met a {loss.name} loss of {value:.6f} times its reference: the reference fit is not the best."
        for loss, value in zip(result.omega, smallest, strict=True)
        if value < 1.0 - 1e-9
    )


def balanced(data: Data, result: Result, normalize: bool, rescale: bool = True, fixed: int = 0) -> Result:
    """Bring a result into canonical form, where that is wanted.

    Parameters
    ----------
    rescale : False where penalties or constraints have a say in the scale of components
    fixed : how many components, the first ones, stay first
    """
    if not normalize:
        return result
    W, H = canonical(data, result.W, result.H, rescale, fixed)
    return replace(result, W=W, H=H)


def settle(data: Data, result: Result, control: Control, bound: bool = False) -> Result:
    """Where r > n, X and H do not determine W: take the W that `transform` gives, if it fits no worse.

    Penalties and constraints (`bound`) determine it. No worse means within 1 %; beside an exact fit, 1e-5 of the
    constant model's loss. The trace stays the run's.
    """
    if result.H.shape[0] <= data.shape[1] or bound:
        return result
    objective = Objective(result.omega, result.references, data.mean)
    W = encode(data, result.H, objective, result.weights, control.max_iter, control.tol)
    losses = losses_of(data, W, result.H, result.omega)
    constant = constant_model_losses(data, result.omega)
    exact = result.losses <= EXACT_FIT * constant
    if not np.all(losses <= np.where(exact, NEARLY_EXACT * constant, (1.0 + SETTLE_TOLERANCE) * result.losses)):
        return result
    return replace(result, W=W, losses=losses, scaled_losses=objective.scaled(losses))


def _last_fall(result: Result) -> float:
    """Compute by how many percent the largest loss fell in the last tenth of the iterations."""
    lowest = np.minimum.accumulate(result.trace.objective)
    before = lowest[-1 - max(len(lowest) // 10, 1)] if len(lowest) > 1 else lowest[-1]
    return 100.0 * float(before - lowest[-1]) / float(before) if before > 0 else 0.0


def warn_unconverged(results: list[Result], control: Control, what: str) -> None:
    """Warn about runs that ended at max_iter."""
    short = sum(result.reason == "max_iter" for result in results)
    if control.tol > 0 and short:
        have = f"{what} has" if len(results) == 1 else f"{what}: {short} of {len(results)} runs have"
        fall = max(_last_fall(result) for result in results if result.reason == "max_iter")
        warnings.warn(
            f"{have} not converged after max_iter={control.max_iter} iterations (the objective fell by {fall:.1g} % in "
            "the last tenth of them): raise max_iter, or tol if that is near enough. Fewer components need fewer "
            "iterations, and so does update='auto' where another rule was chosen. Set tol=0 to run exactly max_iter "
            "iterations.",
            ConvergenceWarning,
            stacklevel=4,
        )
