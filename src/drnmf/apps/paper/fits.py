"""The fits that every experiment is made of, each from a given start with a given budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drnmf.algorithms.result import Progress, Trace
from drnmf.algorithms.updates.table import as_rule
from drnmf.algorithms.weights import as_policy
from drnmf.apps.paper.store import Lookup, Saved, Unit, Watch
from drnmf.backends.base import losses_of
from drnmf.backends.open import open_data
from drnmf.backends.single_blas import single_blas
from drnmf.estimators.beta import BetaNMF
from drnmf.estimators.multi_objective import MultiObjectiveNMF
from drnmf.estimators.robust import DRNMF
from drnmf.losses.names import as_losses
from drnmf.numerics import Array, Vector
from drnmf.parameters.solver import Solver

Start = tuple[Array, Array]

SUBGRADIENT = "subgradient"
OURS = ("auto", "auto")
"""(update, policy) of the library's default algorithm."""


def identity(algorithm: tuple[str, str]) -> list[str]:
    """What the names stand for today, parameters and all: results of an older default are not taken for today's."""
    return [repr(as_rule(algorithm[0])), repr(as_policy(algorithm[1]))]


@dataclass(frozen=True)
class Options:
    """What `drnmf reproduce` was asked for.

    data : the data folder, None where the experiment makes its own data
    update, policy : the algorithm; the defaults are the paper's (Algorithms 1 and 3)
    ours : run the library's default algorithm as well
    """

    data: Path | None = None
    seeds: int = 10
    update: str = "mu"
    policy: str = "frank-wolfe"
    max_iter: int = 1000
    ours: bool = False

    def settings(self, **more: Any) -> dict[str, Any]:
        """What decides a fit's result, for the name of its file."""
        return {"update": self.update, "policy": self.policy, "max_iter": self.max_iter, **more}


@dataclass(frozen=True)
class Fit:
    """Factors, their losses D_beta for every beta of Omega, and how the run went."""

    W: Array
    H: Array
    losses: Vector
    trace: Trace

    def summary(self, **more: Any) -> Saved:
        """The losses alone, without factors or trace."""
        return Saved({"losses": self.losses.tolist(), "seconds": float(self.trace.seconds[-1]), **more})


def _fitted(model: Any, X: Any, start: Start, options: Options, watch: Watch) -> tuple[Any, Array]:
    """The model and W after so many iterations from the start; no stopping rule, zeros floored."""

    def tell(progress: Progress) -> None:
        watch(progress.iteration / progress.max_iter)

    W, H = start
    model.set_params(init="custom", max_iter=options.max_iter, tol=0, zeros="floor", solver__callback=tell)
    return model, model.fit_transform(X, W=W, H=H)


def fit_single(X: Any, start: Start, beta: float, betas: tuple[float, ...], options: Options, watch: Watch) -> Fit:
    """NMF under D_beta alone, and every loss of Omega at its solution."""
    rank = start[1].shape[0]
    model, W = _fitted(BetaNMF(rank, beta=beta, solver=options.update), X, start, options, watch)
    with single_blas():
        losses = losses_of(open_data(X), W, model.components_, as_losses(betas))
    return Fit(W, model.components_, losses, model.trace_)


def fit_weighted(
    X: Any, start: Start, betas: tuple[float, ...], weights: Vector, references: Vector, options: Options, watch: Watch
) -> Fit:
    """MO-NMF with fixed weights: every loss of Omega is traced, also those of weight zero."""
    model = MultiObjectiveNMF(
        start[1].shape[0], betas=betas, weights=weights, solver=Solver(references=references, update=options.update)
    )
    model, W = _fitted(model, X, start, options, watch)
    return Fit(W, model.components_, model.losses_, model.trace_)


def fit_robust(
    X: Any,
    start: Start,
    betas: tuple[float, ...],
    references: Vector,
    options: Options,
    watch: Watch,
    algorithm: tuple[str, str] | None = None,
) -> Fit:
    """DR-NMF under given references; `algorithm` is (update, policy) where it is not the options' own."""
    update, policy = algorithm or (options.update, options.policy)
    model = DRNMF(start[1].shape[0], betas=betas, solver=Solver(update=update, policy=policy, references=references))
    model, W = _fitted(model, X, start, options, watch)
    return Fit(W, model.components_, model.losses_, model.trace_)


def excess(loss: float, reference: float) -> float:
    """100 (D_beta / e_beta - 1): how much higher the error is than the single-objective one, in percent."""
    return 100.0 * (loss / reference - 1.0)


def references(lookup: Lookup, prefix: str, names: tuple[str, ...]) -> Vector:
    """Look up e_beta, the errors of the fits under each loss alone; `names` are those of the fits, in Omega's order."""
    return np.array([lookup(f"{prefix}/{name}").values["losses"][b] for b, name in enumerate(names)])


@dataclass(frozen=True)
class Comparison:
    """The fits of a row of a table: every loss alone, then DR-NMF under their errors, all from one start.

    prefix, names : units are called PREFIX/NAME, with a name for each loss, "dr" and "ours"
    problem : gives X and the start
    saved : what is kept of a fit under its references
    traced : trace every loss in the fits under one of them too
    """

    prefix: str
    names: tuple[str, ...]
    betas: tuple[float, ...]
    problem: Callable[[], tuple[Any, Start]]
    saved: Callable[[Fit, Vector], Saved]
    options: Options
    traced: bool = False

    def units(self, settings: Mapping[str, Any], cost: float, ours: bool) -> list[Unit]:
        """Plan the fits; `ours` adds the library's default algorithm."""
        units = [Unit(f"{self.prefix}/{name}", settings, cost, self._single(b)) for b, name in enumerate(self.names)]
        units.append(Unit(f"{self.prefix}/dr", settings, cost, self._robust(None)))
        if ours:
            more = {**settings, "ours": identity(OURS)}
            units.append(Unit(f"{self.prefix}/ours", more, cost, self._robust(OURS)))
        return units

    def _single(self, b: int) -> Callable[[Lookup, Watch], Saved]:
        def compute(lookup: Lookup, watch: Watch) -> Saved:
            X, begin = self.problem()
            one = np.ones(len(self.betas))
            if self.traced:
                weights = np.eye(one.size)[b]
                return self.saved(fit_weighted(X, begin, self.betas, weights, one, self.options, watch), one)
            return self.saved(fit_single(X, begin, self.betas[b], self.betas, self.options, watch), one)

        return compute

    def _robust(self, algorithm: tuple[str, str] | None) -> Callable[[Lookup, Watch], Saved]:
        def compute(lookup: Lookup, watch: Watch) -> Saved:
            e = references(lookup, self.prefix, self.names)
            X, begin = self.problem()
            return self.saved(fit_robust(X, begin, self.betas, e, self.options, watch, algorithm), e)

        return compute


def uniform_start(shape: tuple[int, int], rank: int, rng: np.random.RandomState) -> Start:
    """W and H uniform in [0, 1], as section 4.5 has them."""
    return rng.uniform(size=(shape[0], rank)), rng.uniform(size=(rank, shape[1]))
