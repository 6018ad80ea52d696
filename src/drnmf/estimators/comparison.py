"""DR-NMF beside the single-objective fits that give its references: the same start, the same budget."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from drnmf.algorithms.loop import Callback
from drnmf.backends.base import in_unit
from drnmf.backends.core import single_blas
from drnmf.backends.open import open_data
from drnmf.estimators.deciding import with_rank
from drnmf.estimators.models import DRNMF, BetaNMF
from drnmf.losses.base import Loss, Omega
from drnmf.losses.names import as_losses
from drnmf.numerics import REFERENCE_MARGIN, Array, Entries, MatrixLike, Maybe, Vector
from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import parameters_of
from drnmf.parameters.solver import as_solver
from drnmf.problem.problem import floors_at
from drnmf.problem.scikit import BaseEstimator, ConvergenceWarning
from drnmf.problem.units import losses_at
from drnmf.problem.weights import reading_of
from drnmf.solve.progress import progress_bar
from drnmf.solve.settings import control_of


@dataclass(frozen=True)
class Method:
    """One fit: X is about W H. `scaled` are its losses over the best that the fits alone reached."""

    name: str
    W: Array
    H: Array
    losses: Vector
    scaled: Vector
    n_iter: int
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """DR-NMF (`model`, last of `methods`) and one single-objective fit per beta, under common references."""

    omega: Omega
    references: Vector
    methods: tuple[Method, ...]
    model: DRNMF
    notes: tuple[str, ...] = field(default=())

    @property
    def robust(self) -> Method:
        return self.methods[-1]


def compare(model: DRNMF, X: MatrixLike) -> Comparison:
    """Fit X under every loss of a model alone, then the model with the errors found as references.

    A fit alone whose error DR-NMF beats by more than 1 % is made again from there, and so is DR-NMF after it. All fits
    begin at the same starts (`random_state` is a seed) and have the same budget; `max_time` is shared.

    >>> X = np.random.default_rng(0).uniform(0.1, 1, (20, 15))
    >>> found = compare(DRNMF(3, betas=(0, 1), max_iter=300, tol=0, random_state=0), X)
    >>> [method.name for method in found.methods], bool(found.robust.scaled.max() < 1.1)
    (['IS-NMF', 'KL-NMF', 'DR-NMF'], True)
    """
    model, _ = with_rank(model, X, reading_of(model))
    omega, limit, n_init = as_losses(model.betas), model.max_time, model.n_init
    shared = replace(model, betas=omega, max_time=None if limit is None else limit / (len(omega) + 1), verbose=0)
    with progress_bar(model.verbose, str, n_init * (len(omega) + 1), limit) as watch:
        return _compared(X, shared, omega, watch)


def _alone(model: DRNMF, loss: Loss) -> BetaNMF:
    """Make the model of one loss with the parameters of several."""
    common = {name: getattr(model, name) for name in parameters_of(Parameters)}
    return BetaNMF(beta=loss, **common)


def _compared(X: Entries, shared: DRNMF, omega: Omega, watch: Callable[[str], Callback | None]) -> Comparison:
    fits = [_timed(_alone(shared, loss), X, watch(f"{loss.name} alone")) for loss in omega]
    data = in_unit(open_data(X))

    def losses_alone() -> Vector:
        with single_blas():
            return np.array([losses_at(data, W, fit.components_, omega) for fit, W, _ in fits])

    with single_blas():
        floors = floors_at(data, omega)
    losses = losses_alone()
    references = np.maximum(losses.min(axis=0), floors)
    model, W, seconds = _timed(_under(shared, references), X, watch("DRNMF"))
    beaten = np.flatnonzero(np.maximum(model.losses_, floors) < (1.0 - REFERENCE_MARGIN) * references)
    if beaten.size:  # once more from the point that showed that the fits alone were not the best
        here, H = replace(shared, init="custom", n_init=1), model.components_
        for b in beaten:
            again = _timed(_alone(here, omega[b]), X, watch(f"{omega[b].name} alone"), W, H)
            fits[b] = (*again[:2], fits[b][2] + again[2])
        losses = losses_alone()
        references = np.minimum(references, np.maximum(losses.min(axis=0), floors))
        model, W, more = _timed(_under(here, references), X, watch("DRNMF"), W, H)
        seconds += more
    met = np.minimum(losses.min(axis=0), model.trace_.losses.min(axis=0))
    references = np.minimum(references, np.maximum(met, floors))
    _scale(model, references)
    singles = [
        Method(f"{loss.name}-NMF", W_, fit.components_, row, row / references, fit.n_iter_, spent)
        for loss, (fit, W_, spent), row in zip(omega, fits, losses, strict=True)
    ]
    robust = Method("DR-NMF", W, model.components_, model.losses_, model.scaled_losses_, model.n_iter_, seconds)
    notes = tuple(
        f"The {loss.name} error of the fit alone is numerically zero: its reference was raised to {floor:.3g}."
        for loss, value, floor in zip(omega, np.diag(losses), floors, strict=True)
        if value < floor
    )
    control = control_of(shared)
    tol, max_iter = control.tol, control.max_iter
    stopped = [f"{method.name}" for method in (*singles, robust) if tol > 0 and method.n_iter >= max_iter]
    if stopped:
        notes += (f"{', '.join(stopped)} had not converged after {max_iter} iterations.",)
    return Comparison(omega, references, (*singles, robust), model, (*model.notes_, *notes))


def _under(model: DRNMF, references: Vector) -> DRNMF:
    """Make the same model with given references."""
    return replace(model, solver=replace(as_solver(model.solver), references=references))


def _scale(model: DRNMF, references: Vector) -> None:
    """Divide the losses of a fitted model by other references, in its trace too; the factors stay."""
    model.references_, model.scaled_losses_ = references, model.losses_ / references
    model.reconstruction_err_ = float(model.scaled_losses_.max())
    model.trace_ = model.trace_.under(references)


def _timed(
    model: BaseEstimator, X: Entries, watcher: Callback | None, W: Maybe = None, H: Maybe = None
) -> tuple[BaseEstimator, Array, float]:
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # noted by `compare`
        W = model.set_params(solver__callback=watcher).fit_transform(X, W=W, H=H)
    model.set_params(solver__callback=None)
    return model, W, time.perf_counter() - started
