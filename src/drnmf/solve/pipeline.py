"""From a problem to a result: starts -> references -> runs -> the best of them, its certificate and remarks.

A run under beta = 2 that ends well above what the singular values of X allow may stand in a poor local minimum: on
pictures of parts, where every position of a limb is a component, one in five of the default starts ends several percent
above another one. After ten iterations the losses tell which of two runs will be lower, so a second one that is not
costs little (docs/development/frobenius.md).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from drnmf.algorithms.certificates import certify
from drnmf.algorithms.correlation import row_sums
from drnmf.algorithms.initialize import Start, begun, least_loss, random_start, tensor_start
from drnmf.algorithms.loop import Control, with_notes
from drnmf.algorithms.result import Interrupted, Progress, Result
from drnmf.backends.base import losses_of
from drnmf.backends.core import single_blas
from drnmf.backends.open import batch_kind, largest_batch
from drnmf.numerics import (
    EMPTY_MODEL,
    EXACT_FIT,
    LITTLE_LEFT,
    NEARLY_EXACT,
    SECOND_LEAD,
    SECOND_LOOK,
    SETTLE_TOLERANCE,
    positive_scale,
)
from drnmf.objective.objective import Objective
from drnmf.objective.penalties import L1, L2
from drnmf.objective.penalty import Penalty
from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import checked
from drnmf.parameters.solver import as_solver
from drnmf.problem.device import as_numpy
from drnmf.problem.problem import Problem, constant_model_losses
from drnmf.problem.scikit import ConvergenceWarning, check_random_state
from drnmf.solve.encode import Encoding
from drnmf.solve.progress import progress_bar
from drnmf.solve.references import compute_references, run_improving
from drnmf.solve.runner import Budget, Runner
from drnmf.solve.settings import control_of, jobs_of, may_stop_early
from drnmf.solve.solve import smallest, solve
from drnmf.storage.checkpoint import keeper_of


@contextmanager
def running(
    problem: Problem,
    runner: Runner,
    parameters: Parameters,
    runs: int,
    *,
    identity: dict[str, object] | None = None,
    W: ArrayLike | None = None,
    H: ArrayLike | None = None,
) -> Iterator[Runner]:
    """Ready a runner for a problem; while the block runs its checkpoint folder is locked and its progress is shown.

    runs : how many will share the time
    identity : what must be the same for a fit to be resumed from its checkpoint
    W, H : the start, with ``init="custom"``
    """
    p, data, units = parameters, problem.data, problem.units
    solver, control, n_init = as_solver(p.solver), control_of(p, problem.omega), checked(p, "n_init")
    W, H = as_numpy(W), as_numpy(H)

    def make() -> tuple[list[Start], float]:
        rng, into = check_random_state(p.random_state), (units.left, units.right)
        if problem.columns and p.init in ("auto", "random"):
            made = [tensor_start(data, problem.columns, problem.rank, rng) for _ in range(n_init)]
            return [problem.feasible(*begin) for begin in made], 0.0
        # the first component of NNDSVD is the mean row, nearly all of a row that sums to one: the others stay small
        summing = p.init == "auto" and problem.constraints.sum_to_one is not None
        name = "random" if summing else p.init
        names = [name, *["random" if name == "auto" else name] * (n_init - 1)]  # NNDSVD is much the same every time
        found = [begun(data, problem.rank, name, rng, W, H, into) for name in names]
        least = least_loss(data, found[0][1]) if may_stop_early(p, problem.omega) else 0.0
        return [problem.feasible(*begin) for begin, _ in found], least

    def second() -> Start:
        return random_start(data, problem.rank, check_random_state(p.random_state))

    every = checked(solver, "checkpoint_every")
    kept = keeper_of(solver.checkpoint, every, data, identity or {}, (W, H))
    # a cluster and a GPU take one run at a time, or the starts of a small X at once; a checkpoint keeps runs in order
    batch = min(n_init, largest_batch(data.count)) if data.space.deferred and batch_kind(data) is not None else 1
    jobs = 1 if solver.checkpoint is not None else batch if data.space.deferred else jobs_of(p)
    with single_blas(), progress_bar(p.verbose, data.space.status, runs, p.max_time, jobs) as watch, kept as keeper:
        made, least = make() if keeper is None else keeper.starts(make)
        budget = Budget(replace(control, keeper=keeper, least=least), runs, watch, jobs, units, batched=batch > 1)
        another = second if least > 0 and n_init == 1 and p.init == "auto" else None
        yield replace(runner, budget=budget, starts=made, second=another)


def fit_factors(problem: Problem, runner: Runner) -> Result:
    """Run from every start under common references and keep the run with the smallest maximum.

    Where the references are not known they are found, one single-objective fit per loss and start, and those that a run
    beats are improved where the runner says so. Where they are known the starts are given up (a run may overwrite its
    start, and the list is emptied), and a second one is tried where the only run leaves room.
    """
    if problem.objective is not None:
        begun = [problem.begun(start) for start in runner.starts]
        runner.starts.clear()
        best = smallest(solve(begun, runner, overwrite=True))
        if runner.second is not None and leaves_room(best, runner.budget.control):
            best = second_look(problem, best, runner.second(), runner)
    else:
        if runner.improves and len(problem.omega) > 1:
            found = compute_references(problem, runner.starts, runner.roughly())
            done, found = run_improving(problem, runner.starts, found, runner)
        else:
            found = compute_references(problem, runner.starts, runner)
            scaled = problem.over(found.values)
            done = solve([scaled.begun(start) for start in runner.starts], runner)
        best = replace(with_notes(smallest(done), *found.notes), single_losses=found.losses)
    refuse_empty(problem, best)
    said = (*_better_than_reference(best), *remarks(problem.penalties, len(problem.shape)))
    return with_notes(certified(problem, best), *said)


def _better_than_reference(result: Result) -> tuple[str, ...]:
    """Say where the run itself met a smaller loss than the reference: e_beta is only a local minimum."""
    if len(result.omega) == 1:
        return ()
    smallest = np.nanmin(result.trace.scaled_losses, axis=0)
    return tuple(
        f"The run met a {loss.name} loss of {value:.6f} times its reference: the reference fit is not the best."
        for loss, value in zip(result.omega, smallest, strict=True)
        # a smaller difference is rounding
        if value < 1.0 - 1e-9
    )


def settle(problem: Problem, result: Result, control: Control) -> Result:
    """Where r > n, X and H do not determine W: take the W that `transform` gives, if it fits no worse.

    Penalties and constraints determine it. No worse means within 1 %; beside an exact fit, 1e-5 of the constant model's
    loss. The trace stays the run's.
    """
    data = problem.data
    if result.H.shape[0] <= data.shape[1] or problem.penalties or not problem.constraints.free:
        return result
    objective = Objective(result.omega, result.references, data.mean)
    W = Encoding(result.H, objective, result.weights, control.max_iter, control.tol).of(data)
    losses = losses_of(data, W, result.H, result.omega)
    constant = constant_model_losses(data, result.omega)
    exact = result.losses <= EXACT_FIT * constant
    if not np.all(losses <= np.where(exact, NEARLY_EXACT * constant, (1.0 + SETTLE_TOLERANCE) * result.losses)):
        return result
    return replace(result.at(W), losses=losses, scaled_losses=objective.scaled(losses))


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


def certified(problem: Problem, result: Result) -> Result:
    """Add its certificate to a result."""
    objective = problem.objective_of(result.omega, result.references, problem.penalties)
    found = certify(problem.modes, result.blocks, objective, result.weights, result.losses, problem.constraints)
    return replace(result, certificate=found)


def remarks(terms: tuple[Penalty, ...], modes: int = 2) -> tuple[str, ...]:
    """Say where a penalty can be undone by scaling one factor up and another down; X has so many modes."""
    of_modes = {term.mode for term in terms if isinstance(term, L1 | L2)} - {None}
    if of_modes and len(of_modes) < modes:
        return ("Some modes have an L1 or L2 penalty, which scaling others up undoes: Sparsity cannot be undone.",)
    given = {term.on for term in terms if isinstance(term, L1 | L2)}
    if of_modes or given not in ({"W"}, {"H"}):
        return ()
    (on,) = given
    other = "H" if on == "W" else "W"
    return (
        f"Only {on} has an L1 or L2 penalty, which scaling {on} down and {other} up undoes: Sparsity cannot be undone, "
        "nor can a penalty on both factors.",
    )


def refuse_empty(problem: Problem, result: Result) -> Result:
    """Refuse a fit whose penalties left nothing of WH.

    The error has the alpha from which a penalty alone outweighs the loss of the constant model.
    """
    data, terms = problem.data, problem.penalties
    if not terms:
        return result
    pairs = zip(problem.modes.spaces, result.blocks, strict=True)
    total = float(np.prod([space.sum(row_sums, space.put(F)) for space, F in pairs], axis=0).sum())
    if total > EMPTY_MODEL * positive_scale(data.mean) * data.shape[0] * data.shape[1]:
        return result
    level, names = _constant(problem, result), " and ".join(term.name for term in terms)
    raise ValueError(
        f"The penalties ({names}) leave nothing of the model: alpha is too large. A constant model costs as much by "
        f"its penalties as by its loss from {level:.2g} times these alphas on: stay well below."
    )


def _constant(problem: Problem, result: Result) -> float:
    """How many times the penalties of the balanced constant model go into its loss."""
    modes, r = problem.modes, result.blocks[0].shape[0]
    count = len(modes.sizes)
    root = (positive_scale(problem.data.mean) / r) ** (1.0 / count)
    penalties = problem.objective_of(result.omega, result.references, problem.penalties).penalties
    constant = (space.put(np.full((r, size), root)) for space, size in zip(modes.spaces, modes.sizes, strict=True))
    measures = tuple(penalties.measure(modes.spaces[k], F, k, count) for k, F in enumerate(constant))
    return penalties.setting.level / max(penalties.value(measures), np.finfo(np.float64).tiny)


def leaves_room(run: Result, control: Control) -> bool:
    """Tell whether a run ended by itself, and another one could end much lower."""
    return run.reason == "tol" and float(run.losses.max()) > (1.0 + LITTLE_LEFT) * control.least > 0.0


def second_look(problem: Problem, first: Result, start: Start, runner: Runner) -> Result:
    """Run from another start for as long as it is ahead of the first run; return the better of both."""
    runner.budget.expect(1)
    before = first.trace.losses.max(axis=1)

    def behind(progress: Progress) -> bool:
        at = min(progress.iteration, first.n_iter)
        return bool(at >= SECOND_LOOK and progress.losses.max() > (1.0 - SECOND_LEAD) * before[at])

    try:
        (second,) = solve([problem.begun(start)], runner, overwrite=True, until=behind)
    except Interrupted as stop:
        raise Interrupted(smallest([first, stop.result])) from None
    return smallest([first, second])
