"""The fits that every experiment is made of, each from a given start with a given budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from drnmf.algorithms.result import Trace
from drnmf.algorithms.updates.table import as_rule
from drnmf.algorithms.weights import as_policy
from drnmf.apps.paper.store import Lookup, Saved, Unit
from drnmf.backends.base import losses_of
from drnmf.backends.core import single_blas
from drnmf.backends.open import open_data
from drnmf.estimators.base import NMF
from drnmf.estimators.models import DRNMF, BetaNMF, MultiObjectiveNMF
from drnmf.losses.names import as_losses
from drnmf.numerics import Array, Entries, Vector
from drnmf.parameters.solver import Solver

Start = tuple[Array, Array]

Algorithm = tuple[str, str]
"""(update, policy)."""
PAPER, SUBGRADIENT, OURS = ("mu", "frank-wolfe"), ("mu", "subgradient"), ("auto", "auto")
"""The paper's Algorithm 3, its subgradient variant, and the library's default."""


def identity(algorithm: Algorithm) -> list[str]:
    """What the names stand for today, parameters and all: results of an older default are not taken for today's."""
    return [repr(as_rule(algorithm[0])), repr(as_policy(algorithm[1]))]


@dataclass(frozen=True)
class Options:
    """What `drnmf reproduce` was asked for.

    data : the data folder, None where the experiment makes its own data
    ours : run the library's default algorithm as well
    """

    data: Path | None = None
    seeds: int = 10
    max_iter: int = 1000
    ours: bool = False

    def settings(self, **more: object) -> dict[str, object]:
        """What decides a fit's result, for the name of its file."""
        return {"max_iter": self.max_iter, **more}


@dataclass(frozen=True)
class Fit:
    """Factors, their losses D_beta for every beta of Omega, and how the run went."""

    W: Array
    H: Array
    losses: Vector
    trace: Trace

    def summary(self, **more: object) -> Saved:
        """The losses alone, without factors or trace."""
        return Saved({"losses": self.losses.tolist(), "seconds": float(self.trace.seconds[-1]), **more})


def _fitted(model: NMF, X: Entries, start: Start, options: Options) -> Fit:
    """What the model is after so many iterations from the start; no stopping rule, zeros floored."""
    W, H = start
    model.set_params(init="custom", max_iter=options.max_iter, tol=0, zeros="floor")
    W = model.fit_transform(X, W=W, H=H)
    return Fit(W, model.components_, model.losses_, model.trace_)


def fit_single(X: Entries, start: Start, beta: float, betas: tuple[float, ...], options: Options) -> Fit:
    """NMF under D_beta alone, and every loss of Omega at its solution."""
    fit = _fitted(BetaNMF(start[1].shape[0], beta=beta, solver=PAPER[0]), X, start, options)
    with single_blas():
        return replace(fit, losses=losses_of(open_data(X), fit.W, fit.H, as_losses(betas)))


def fit_weighted(
    X: Entries, start: Start, betas: tuple[float, ...], weights: Vector, references: Vector, options: Options
) -> Fit:
    """MO-NMF with fixed weights: every loss of Omega is traced, also those of weight zero."""
    solver = Solver(references=references, update=PAPER[0])
    return _fitted(MultiObjectiveNMF(start[1].shape[0], betas=betas, weights=weights, solver=solver), X, start, options)


def fit_robust(
    X: Entries,
    start: Start,
    betas: tuple[float, ...],
    references: Vector,
    options: Options,
    algorithm: Algorithm = PAPER,
) -> Fit:
    """DR-NMF under given references."""
    solver = Solver(update=algorithm[0], policy=algorithm[1], references=references)
    return _fitted(DRNMF(start[1].shape[0], betas=betas, solver=solver), X, start, options)


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
    problem: Callable[[], tuple[Entries, Start]]
    saved: Callable[[Fit, Vector], Saved]
    options: Options
    traced: bool = False

    def units(self, settings: Mapping[str, object]) -> list[Unit]:
        """Plan the fits."""
        units = [Unit(f"{self.prefix}/{name}", settings, self._single(b)) for b, name in enumerate(self.names)]
        units.append(Unit(f"{self.prefix}/dr", settings, self._robust(PAPER)))
        if self.options.ours:
            more = {**settings, "ours": identity(OURS)}
            units.append(Unit(f"{self.prefix}/ours", more, self._robust(OURS)))
        return units

    def _single(self, b: int) -> Callable[[Lookup], Saved]:
        def compute(lookup: Lookup) -> Saved:
            X, begin = self.problem()
            one = np.ones(len(self.betas))
            if self.traced:
                weights = np.eye(one.size)[b]
                return self.saved(fit_weighted(X, begin, self.betas, weights, one, self.options), one)
            return self.saved(fit_single(X, begin, self.betas[b], self.betas, self.options), one)

        return compute

    def _robust(self, algorithm: Algorithm) -> Callable[[Lookup], Saved]:
        def compute(lookup: Lookup) -> Saved:
            e = references(lookup, self.prefix, self.names)
            X, begin = self.problem()
            return self.saved(fit_robust(X, begin, self.betas, e, self.options, algorithm), e)

        return compute
