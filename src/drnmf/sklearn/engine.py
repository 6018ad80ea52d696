"""What scikit-learn's settings ask of this package: a problem, a rule and a time to stop."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from drnmf.algorithms.initialize import Start, begun
from drnmf.algorithms.loop import Callback, Control
from drnmf.algorithms.result import Interrupted, Progress, Result
from drnmf.algorithms.updates import as_rule
from drnmf.algorithms.updates.newton import Newton
from drnmf.backends.base import losses_of
from drnmf.backends.core import single_blas
from drnmf.losses.beta import Beta
from drnmf.numerics import ENCODE_ITERATIONS, ENCODE_TOLERANCE, HALS_WINDOW, Array, Entries, Vector
from drnmf.objective.objective import Objective
from drnmf.objective.penalties import L1, L2
from drnmf.objective.penalty import Penalties, Penalty, Setting
from drnmf.problem.device import Placement, as_numpy, place, replaced
from drnmf.problem.problem import Problem
from drnmf.problem.units import mean_of
from drnmf.problem.unobserved import row_weights, with_rows_weighted
from drnmf.problem.weights import Reading
from drnmf.solve.encode import Encoder
from drnmf.solve.runner import Budget, Runner
from drnmf.solve.solve import solve

_EVERY = 10
"""Iterations between two looks at the error under ``solver="mu"``, as in scikit-learn."""

_FIRST = 15
"""Multiplicative steps under ``solver="mu"`` before those of second order, half of what `BetaNMF` takes: from
scikit-learn's own start that many say where a fit goes (docs/development/performance.md)."""

_FALL = 5.0
"""Coordinate descent stops where the loss has fallen by less than this times tol over the last 30 % of the iterations,
at scikit-learn's default a sixth of what `BetaNMF` stops at: it ends as low as scikit-learn does in most fits
(docs/development/performance.md)."""


@dataclass(frozen=True)
class Settings:
    """What scikit-learn's parameters say of a fit."""

    beta: float = 2.0  # of the divergence, any number
    # l1, l2: of W and of H, to be multiplied by the number of columns and of rows of X
    l1: tuple[float, float] = (0.0, 0.0)
    l2: tuple[float, float] = (0.0, 0.0)
    # max_iter, tol, solver, verbose, device: as there
    max_iter: int = 200
    tol: float = 1e-4
    solver: str = "cd"
    verbose: int = 0
    device: str | None = None
    name: str = "NMF"  # what errors call the estimator
    # asked after every iteration whether the fit is over, in the units of X but for its loss, see `Units.cost`
    over: Callback | None = None

    def on(self, device: str) -> Settings:
        """Return the same on a device."""
        return replace(self, device=device)

    @property
    def penalties(self) -> tuple[Penalty, ...]:
        """The elastic net as penalties of this package."""
        found: list[Penalty] = []
        for side, l1, l2 in zip("WH", self.l1, self.l2, strict=True):
            found += [L1(l1, side, scaled=True)] if l1 else []
            found += [L2(l2, side, scaled=True)] if l2 else []
        return tuple(found)


@dataclass(frozen=True)
class Factors:
    """W, H, the error sqrt(2 D) at them and the iterations they took."""

    W: Array
    H: Array
    error: float
    n_iter: int


def factorise(X: Entries, W: Array, H: Array, settings: Settings, sample_weight: ArrayLike | None = None) -> Factors:
    """Minimise scikit-learn's objective from W and H, in the units of X, whose form is checked."""
    placement, rank = place(X, settings.device, "float32"), H.shape[0]
    rows = row_weights(X, sample_weight)
    given = placement.accept(X, settings.name, Reading(entry_weight=with_rows_weighted(rows)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # scikit-learn says nothing of many components and dense tiles
        problem = Problem.opened(placement.open(given), given).asked(
            rank, (Beta(settings.beta),), references=np.ones(1), penalties=settings.penalties, zeros="floor"
        )
    begins, _ = begun(problem.data, rank, "custom", check_random_state(None), W, H, _units(problem))  # draws nothing
    with single_blas():
        until = _until(settings, problem, begins)
        runner = _runner(settings, placement.gpu, problem)
        try:
            (run,) = solve([problem.begun(begins)], runner, overwrite=True, until=until)
        except Interrupted:  # Python ends a program as interrupted, not as failed, for the plain error alone
            raise KeyboardInterrupt from None
        run = problem.with_zeros(problem.unobserved.cleared(problem.data, run), overwrite=True)
    found = _handed_back(placement, problem, problem.completed(run))
    if rows is not None and not rows.all():
        W = replaced(found.W, np.flatnonzero(rows == 0), contributions(X, found.H, settings))
        return replace(found, W=W)
    return found


def _units(problem: Problem) -> tuple[float, float]:
    return problem.units.left, problem.units.right


def _handed_back(placement: Placement, problem: Problem, run: Result) -> Factors:
    error, (W, H) = problem.units.error(run.losses, run.omega), problem.outside((run.W, run.H))  # nobody asks for more
    W = problem.data.T.space.deliver(W.T)
    return Factors(placement.hand_back(W), placement.hand_back(H), error, run.n_iter)


def _runner(settings: Settings, gpu: bool, problem: Problem) -> Runner:
    """The rule, and how far it goes: coordinate descent stops by the rule of this package, at a multiple of tol."""
    rule = as_rule("auto", gpu)
    most, tol = settings.max_iter, settings.tol
    control = Control(max_iter=most, tol=_FALL * tol, fraction=HALS_WINDOW)
    if settings.solver == "mu":
        assert isinstance(rule, Newton)
        # beta = 2 alone too, so that a fit is continuous in beta, as multiplicative steps are
        rule = replace(rule, alone=None, delay=_FIRST, plain=_FIRST // 2)
        control = Control(max_iter=settings.max_iter, tol=0.0)
    budget = Budget(control, 1, units=problem.units)
    return replace(Runner.of(rule, "fixed"), budget=budget, callback=_said(settings))


def _until(settings: Settings, problem: Problem, begins: Start) -> Callback | None:
    """What else ends a run; errors are only compared with one another, so they may be in the unit of the data.

    Coordinate descent ends where the fit is exact but for tol. Under "mu" it is scikit-learn's rule: by how much the
    error has fallen in ten iterations, relative to that of the start.
    """
    if settings.over is not None:
        over, units = settings.over, problem.units  # it compares losses with those of earlier iterations
        return lambda now: over(replace(units.progress(now), losses=np.array([units.cost(now.losses, now.omega)])))
    if settings.tol <= 0:
        return None
    if settings.solver == "cd":
        return _exact(settings.tol)
    return _stalled(_error(losses_of(problem.data, begins[0], begins[1], problem.omega)), settings.tol)


def _error(losses: Vector) -> float:
    """scikit-learn's error, sqrt(2 D)."""
    return math.sqrt(2.0 * float(losses[0]))


def _exact(tol: float) -> Callback:
    """End a run once the error is below tol times that after the first iteration."""
    first: list[float] = []

    def call(progress: Progress) -> bool:
        first.append(_error(progress.losses)) if not first else None
        return first[0] > 0.0 and _error(progress.losses) <= tol * first[0]

    return call


def _stalled(first: float, tol: float) -> Callback:
    """End a run once the error has fallen by less than tol times the first one in ten iterations."""
    errors = [first]

    def call(progress: Progress) -> bool:
        if progress.iteration % _EVERY:
            return False
        errors.append(_error(progress.losses))
        return errors[-2] - errors[-1] < tol * first or first == 0

    return call


def _said(settings: Settings) -> Callback | None:
    """Print the error every ten iterations, in scikit-learn's words, where it is to be said."""
    if not settings.verbose:
        return None

    def call(progress: Progress) -> None:
        if progress.iteration % _EVERY == 0 or progress.iteration == settings.max_iter:
            error, seconds = _error(progress.losses), progress.seconds
            print(f"Epoch {progress.iteration:02d} reached after {seconds:.3f} seconds, error: {error:f}")

    return call


def contributions(X: Entries, H: Array, settings: Settings) -> Array:
    """Find W of every row of X under H: each row on its own, to its end."""
    placement = place(X, settings.device, "float32")
    data = placement.open(placement.accept(X, settings.name, Reading()))
    mean, rank = mean_of(data), H.shape[0]
    of_rows_alone = tuple(term for term in settings.penalties if getattr(term, "on", "") == "W")
    objective = Objective((Beta(settings.beta),), np.ones(1), mean, Penalties(of_rows_alone, Setting(data.shape, mean)))
    tol = min(settings.tol, ENCODE_TOLERANCE)
    encoder = Encoder(
        as_numpy(H), objective, np.ones(1), ENCODE_ITERATIONS, tol, "floor", settings.name, np.zeros(rank)
    )
    return placement.hand_back(encoder.rows(data))
