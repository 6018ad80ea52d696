"""What the parameters of a model mean for a fit."""

from __future__ import annotations

from dataclasses import fields, replace
from numbers import Integral
from typing import Any, TypeVar

from joblib import effective_n_jobs

from drnmf.algorithms.loop import Control
from drnmf.backends.base import Data
from drnmf.backends.parted import Parted, rowwise
from drnmf.losses.base import Omega, is_frobenius
from drnmf.numerics import HALS_TOLERANCE, HALS_WINDOW, TOLERANCE, Vector
from drnmf.objective.constraints import Constraints, as_constraints, mode_constraints
from drnmf.objective.penalties import as_penalties, settled
from drnmf.objective.penalty import Penalty, without_zeros
from drnmf.parameters.common import MAX_ITER, Parameters
from drnmf.parameters.fields import check_integer, checked
from drnmf.parameters.solver import Solver, as_solver
from drnmf.problem.problem import Problem
from drnmf.problem.receive import Received

P = TypeVar("P", bound=Parameters)
JUDGED_ITERATIONS, JUDGED_TOLERANCE = 500, 1e-5
"""Of every run that judges a rank, where the model leaves them to the library."""


def check_model(model: object, function: str) -> None:
    """Refuse something else, X for example, in the place of a model."""
    if not isinstance(model, Parameters):
        raise TypeError(
            f"{function} takes a model, for example BetaNMF(5), where it was given {type(model).__name__}: see its "
            "documentation for the order of its arguments."
        )


def asked_losses(model: Parameters) -> object:
    """Return what was written for the loss or the losses of a model, "auto" where it names none."""
    return getattr(model, "betas", getattr(model, "beta", "auto"))


def settings_of(model: Parameters) -> dict[str, object]:
    """Collect all parameters of a model by name, those of its solver among them."""
    own = {known.name: getattr(model, known.name) for known in fields(model) if known.name != "solver"}
    return own | as_solver(model.solver).get_params()


def only_compared(model: P, max_iter: int, tol: float, **changes: Any) -> P:
    """Make the model of fits that are only compared: without penalties, constraints, policy, references, checkpoint.

    max_iter, tol : where the model leaves them to the library
    """
    solver = as_solver(model.solver)
    kept = Solver(update=solver.update, precision=solver.precision)
    free = replace(model, penalties=None, sum_to_one=None, fixed=None, warm_start=False, solver=kept)
    return replace(settled_budget(free, max_iter, tol), **changes)


def settled_budget(model: P, max_iter: int, tol: float) -> P:
    """Set iterations and tolerance where the model leaves them to the library."""
    return replace(
        model,
        max_iter=max_iter if model.max_iter is None else model.max_iter,
        tol=tol if model.tol is None else model.tol,
    )


def judged_budget(model: P) -> P:
    """Make the model of runs that judge ranks, without penalties, constraints, policy, references and checkpoint."""
    return only_compared(model, JUDGED_ITERATIONS, JUDGED_TOLERANCE)


def jobs_of(model: Parameters) -> int:
    """Count the runs of a model that go side by side, as joblib counts them."""
    n_jobs = model.n_jobs
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral)):
        raise ValueError(f"n_jobs={n_jobs!r} must be None or an integer: -1 uses every core.")
    if n_jobs == 0:
        raise ValueError("n_jobs=0 is no number of jobs: use None or 1 for one, -1 for every core.")
    return int(effective_n_jobs(n_jobs))


def as_part(model: P, **changes: Any) -> P:
    """Make the model of one of several runs: one at a time, and nothing shown."""
    return replace(model, n_jobs=None, verbose=0, **changes)


def constraints_of(model: Parameters) -> Constraints:
    """Check what the factors must satisfy, as far as it can be without X."""
    if model.shape is not None:
        return mode_constraints(model.sum_to_one, model.fixed or {}, model.shape)  # type: ignore[arg-type]
    return as_constraints(model.sum_to_one, model.fixed, as_solver(model.solver).fixed_W)


def terms_of(model: Parameters) -> tuple[Penalty, ...]:
    """Check the penalties; those with alpha = 0 are left out."""
    # two modes of a tensor have a scale to share where a third one sums to one
    return settled(without_zeros(as_penalties(model.penalties)), model.sum_to_one if model.shape is None else None)


def problem_of(
    model: Parameters, data: Data, omega: Omega, given: Received | None = None, references: Vector | None = None
) -> Problem:
    """Make the problem that a model asks of X under some losses; references None are to be found."""
    if rowwise(omega):
        if model.column_modes:
            raise ValueError("Losses of rows (Rowwise) are of a matrix, and X has more modes than two: unfold it.")
        data = Parted(data)
    return ask(Problem.opened(data, given, model.column_modes), model, omega, references)


def ask(X: Problem, model: Parameters, omega: Omega, references: Vector | None = None) -> Problem:
    """Ask what a model asks of X that is open already; see `problem_of`."""
    return X.asked(
        check_integer("n_components", model.n_components, 1),
        omega,
        references=references,
        penalties=terms_of(model),
        constraints=constraints_of(model),
        zeros=checked(model, "zeros"),
    )


def control_of(model: Parameters, omega: Omega = ()) -> Control:
    """Check when to stop; without losses nothing is minimised but one factor."""
    tol, max_iter = checked(model, "tol"), checked(model, "max_iter")
    early = may_stop_early(model, omega)
    return Control(
        max_iter=MAX_ITER if max_iter is None else max_iter,
        tol=(HALS_TOLERANCE if early else TOLERANCE) if tol is None else tol,
        fraction=HALS_WINDOW if early else 0.0,
        max_time=checked(model, "max_time"),
        inner_iter=checked(as_solver(model.solver), "inner_iter"),
    )


def may_stop_early(model: Parameters, omega: Omega) -> bool:
    """Tell whether a fit takes plain steps of coordinate descent, of which long runs gain little, to its end."""
    steps = as_solver(model.solver).update in ("auto", "hals") and is_frobenius(omega)
    return model.tol is None and steps and not terms_of(model) and constraints_of(model).free
