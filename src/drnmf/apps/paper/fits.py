"""The fits that every experiment is made of, each from a given start with a given budget."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from drnmf.algorithms.result import Trace
from drnmf.algorithms.updates import as_rule
from drnmf.algorithms.weights import as_policy
from drnmf.backends.base import losses_of
from drnmf.backends.core import single_blas
from drnmf.backends.open import open_data
from drnmf.estimators.base import NMF
from drnmf.estimators.models import DRNMF, BetaNMF, MultiObjectiveNMF
from drnmf.files import left_over, write_text
from drnmf.losses.names import as_losses
from drnmf.numerics import Array, Entries, Vector
from drnmf.parameters.solver import Solver
from drnmf.storage.archive import read_archive, write_archive

FORMAT = "drnmf-reproduction-2"

Facts = dict[str, Any]
"""Plain values by name, as JSON holds them."""


@dataclass(frozen=True)
class Saved:
    """What a unit leaves: plain values and arrays."""

    values: Facts
    arrays: dict[str, Array] = field(default_factory=dict)


Lookup = Callable[[str], Saved]
"""Name of an earlier unit of the same experiment -> what it left."""


@dataclass(frozen=True)
class Unit:
    """One piece of work that is done once and kept.

    name : unique in its experiment, for example "piano_Mary/seed-0/kl"
    settings : everything that decides the result; other settings are another file
    compute : the work; it may look up units that stand before it in the plan
    """

    name: str
    settings: Mapping[str, object]
    compute: Callable[[Lookup], Saved]

    @property
    def file(self) -> str:
        """Readable name, then a digest of the settings."""
        text = json.dumps(dict(self.settings), sort_keys=True)
        return f"{self.name.replace('/', '.')}.{hashlib.sha256(text.encode()).hexdigest()[:12]}.npz"


@dataclass(frozen=True)
class Plan:
    """What an experiment will do: its units, and what its page must say beside their results."""

    units: list[Unit]
    facts: Facts


@dataclass(frozen=True)
class Results:
    """The finished units of one experiment, read on demand, with the facts of its plan."""

    folder: Path
    files: dict[str, str]
    facts: Facts

    def __call__(self, name: str) -> Saved:
        return read(self.folder / self.files[name])


class Store:
    """A results folder: `reproduction.json` marks it as ours, `units/NAME/` holds what NAME has finished."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def check(self) -> None:
        """Refuse a folder that holds something else than a reproduction."""
        marker = self.folder / "reproduction.json"
        if marker.exists():
            if json.loads(marker.read_text()).get("format") != FORMAT:
                raise ValueError(f"{self.folder} was written by another version: choose another --out.")
        elif self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise FileExistsError(f"{self.folder} exists and is not a reproduction folder: choose another --out.")

    def open(self) -> None:
        """Create the folder or accept one of our own."""
        self.check()
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(self.folder / "reproduction.json", json.dumps({"format": FORMAT}) + "\n")
        for folder in self.folder.glob("units/*"):
            for path in left_over(folder, "*"):
                path.unlink(missing_ok=True)

    def run(self, experiment: str, plan: Plan) -> Iterator[Unit]:
        """Compute what is not there yet, each unit after it was named.

        The plan goes to disk first, so that `results` needs nothing else.
        """
        folder = self.folder / "units" / experiment
        folder.mkdir(parents=True, exist_ok=True)
        files = {unit.name: unit.file for unit in plan.units}
        write_text(folder / "plan.json", json.dumps({"facts": plan.facts, "files": files}, indent=1) + "\n")
        done = Results(folder, files, plan.facts)
        for unit in plan.units:
            yield unit
            if not finished(folder / unit.file):
                write(folder / unit.file, unit.compute(done))

    def results(self, experiment: str) -> Results:
        """What `run` left, for rendering; an error says what is still to be computed."""
        folder = self.folder / "units" / experiment
        try:
            plan = json.loads((folder / "plan.json").read_text())
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.folder} holds no results of {experiment}: run it first.") from None
        absent = [name for name, file in plan["files"].items() if not (folder / file).exists()]
        if absent:
            raise ValueError(
                f"{experiment}: {len(absent)} of {len(plan['files'])} results are missing in {self.folder} "
                f"(the first is {absent[0]}): run the same command again, it resumes."
            )
        return Results(folder, plan["files"], plan["facts"])


def write(path: Path, saved: Saved) -> None:
    """Write what a unit leaves, all or nothing."""
    write_archive(path, saved.arrays, {"values": saved.values}, FORMAT)


def read(path: Path) -> Saved:
    """Read what `write` wrote."""
    arrays, meta = read_archive(path, FORMAT)
    return Saved(meta["values"], arrays)


def finished(path: Path) -> bool:
    """Whether a unit's file is there and as it was written."""
    try:
        read(path)
    except (OSError, ValueError):
        return False
    return True


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


def excesses(lookup: Lookup, prefix: str, names: tuple[str, ...], ours: bool) -> dict[str, float]:
    """Compute how far the fits of a row of a table are above e_beta, in percent: METHOD_LOSS_excess.

    `names` are those of the fits under one loss; "dr" and, where they were made, "ours" follow.
    """
    e = references(lookup, prefix, names)
    methods = (*names, "dr", "ours") if ours else (*names, "dr")
    losses = {method: lookup(f"{prefix}/{method}").values["losses"] for method in methods}
    return {
        f"{'ours_dr' if method == 'ours' else method}_{own}_excess": excess(losses[method][b], e[b])
        for b, own in enumerate(names)
        for method in methods
        if method != own
    }


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
