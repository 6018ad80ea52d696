"""DR-NMF beside the single-objective fits that give its references: the same start, the same budget."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from drnmf.algorithms.loop import Callback
from drnmf.backends.base import in_unit
from drnmf.backends.host.single_blas import single_blas
from drnmf.backends.open import open_data
from drnmf.estimators.beta import BetaNMF
from drnmf.estimators.robust import DRNMF
from drnmf.losses.base import Omega, betas_of
from drnmf.losses.names import as_losses
from drnmf.numerics import REFERENCE_MARGIN, Array, Vector
from drnmf.problem.problem import floors_at
from drnmf.problem.units import losses_at
from drnmf.solve.progress import progress_bar


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
    def betas(self) -> tuple[float, ...]:
        """The betas of the losses."""
        return tuple(betas_of(self.omega))

    @property
    def robust(self) -> Method:
        return self.methods[-1]


def compare(
    X: Any,
    n_components: int,
    *,
    betas: Any,
    init: str = "auto",
    max_iter: int = 200,
    tol: float = 1e-5,
    random_state: int = 0,
    n_init: int = 1,
    max_time: float | None = None,
    verbose: int = 0,
) -> Comparison:
    """Fit X under every beta alone, then DR-NMF with the errors found as references; zeros of X are floored.

    A fit alone whose error DR-NMF beats by more than 1 % is made again from there, and so is DR-NMF after it. All fits
    begin at the same starts (`random_state` is a seed) and have the same budget; `max_time` is shared.

    >>> X = np.random.default_rng(0).uniform(0.1, 1, (20, 15))
    >>> found = compare(X, 3, betas=(0, 1), max_iter=300, tol=0)
    >>> [method.name for method in found.methods], bool(found.robust.scaled.max() < 1.1)
    (['IS-NMF', 'KL-NMF', 'DR-NMF'], True)
    """
    omega = as_losses(betas)
    common: dict[str, Any] = {
        "init": init, "max_iter": max_iter, "tol": tol, "zeros": "floor", "random_state": random_state,
        "n_init": n_init, "max_time": None if max_time is None else max_time / (len(omega) + 1),
    }  # fmt: skip
    with progress_bar(verbose, str, n_init * (len(omega) + 1), max_time) as watch:
        return _compared(X, n_components, omega, common, watch)


def _compared(
    X: Any, n_components: int, omega: Omega, common: dict[str, Any], watch: Callable[[str], Callback | None]
) -> Comparison:
    fits = [_timed(BetaNMF(n_components, beta=loss, **common), X, watch(f"{loss.name} alone")) for loss in omega]
    data = in_unit(open_data(X))

    def losses_alone() -> Vector:
        with single_blas():
            return np.array([losses_at(data, W, fit.components_, omega) for fit, W, _ in fits])

    with single_blas():
        floors = floors_at(data, omega)
    losses = losses_alone()
    references = np.maximum(losses.min(axis=0), floors)
    model, W, seconds = _timed(DRNMF(n_components, betas=omega, references=references, **common), X, watch("DRNMF"))
    beaten = np.flatnonzero(np.maximum(model.losses_, floors) < (1.0 - REFERENCE_MARGIN) * references)
    if beaten.size:  # once more from the point that showed that the fits alone were not the best
        here, H = common | {"init": "custom", "n_init": 1}, model.components_
        for b in beaten:
            again = _timed(BetaNMF(n_components, beta=omega[b], **here), X, watch(f"{omega[b].name} alone"), W, H)
            fits[b] = (*again[:2], fits[b][2] + again[2])
        losses = losses_alone()
        references = np.minimum(references, np.maximum(losses.min(axis=0), floors))
        robust_model = DRNMF(n_components, betas=omega, references=references, **here)
        model, W, more = _timed(robust_model, X, watch("DRNMF"), W, H)
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
    tol, max_iter = common["tol"], common["max_iter"]
    stopped = [f"{method.name}" for method in (*singles, robust) if tol > 0 and method.n_iter >= max_iter]
    if stopped:
        notes += (f"{', '.join(stopped)} had not converged after {max_iter} iterations.",)
    return Comparison(omega, references, (*singles, robust), model, (*model.notes_, *notes))


def _scale(model: DRNMF, references: Vector) -> None:
    """Divide the losses of a fitted model by other references, in its trace too; the factors stay."""
    model.references_, model.scaled_losses_ = references, model.losses_ / references
    model.reconstruction_err_ = float(model.scaled_losses_.max())
    model.trace_ = model.trace_.under(references)


def _timed(model: Any, X: Any, watcher: Callback | None, W: Any = None, H: Any = None) -> tuple[Any, Array, float]:
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # noted by `compare`
        W = model.set_params(callback=watcher).fit_transform(X, W=W, H=H)
    model.set_params(callback=None)
    return model, W, time.perf_counter() - started
