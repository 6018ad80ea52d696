"""From a table to components one can trust: noise -> rank -> consensus, in one call."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.base import Data
from drnmf.losses.base import Omega
from drnmf.losses.beta import KL, Beta
from drnmf.losses.interval import Interval, as_interval
from drnmf.losses.names import as_losses, noise_of, text_of
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.numerics import Array, Vector
from drnmf.objective.objective import Objective
from drnmf.objective.penalty import Penalty
from drnmf.parameters.checks import check_choice, check_integer, check_number
from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import checked, parameters_of
from drnmf.parameters.solver import Solver, as_solver
from drnmf.problem.problem import dispersions, objective_of
from drnmf.problem.receive import Received
from drnmf.problem.units import Units, mean_of
from drnmf.selection.alpha import AlphaPath, decided
from drnmf.selection.assignment.assign import Assignment, assigned, assigned_in_time, encoded, opened, supports_of
from drnmf.selection.choose import Tried
from drnmf.selection.consensus import Consensus
from drnmf.selection.entries import ONE_COMPONENT, Indices, one_component
from drnmf.selection.intervals.bars import Intervals
from drnmf.selection.intervals.door import check_level
from drnmf.selection.matching import Known, Matching, match
from drnmf.selection.noise import NoiseProfile
from drnmf.selection.rank import check_ranks
from drnmf.selection.resampling import RESAMPLINGS, UNCERTAINTY, cap_factors
from drnmf.selection.stages.contributions import FOR_W, LAST, contributions
from drnmf.selection.stages.grouped import in_groups, search_beside_known
from drnmf.selection.stages.ranks import rows_of
from drnmf.selection.stages.residuals import Residuals, residuals
from drnmf.selection.stages.run_pool import RunPool, Study, draw_seeds
from drnmf.selection.stages.runs import Run, Store
from drnmf.selection.stages.schedule import Moment, Schedule, shown
from drnmf.selection.stages.stages import LEAST_RUNS, RUNS_PER_RANK, Question, Stages, plan
from drnmf.selection.stages.sure import SURE, Sure
from drnmf.solve.encode import Encoder
from drnmf.solve.settings import (
    JUDGED_ITERATIONS,
    JUDGED_TOLERANCE,
    as_part,
    asked_losses,
    check_model,
    control_of,
    jobs_of,
    reading_of,
    settled_budget,
    terms_of,
)
from drnmf.storage.records import described

HEAVY_CHOICES = ("auto", "keep", "cap")
_ELSEWHERE = ("n_components", "solver", "max_time", "warm_start")
"""Parameters of the model that no finished run depends on, or that are written down otherwise."""
MOST_ASSIGNED = 20_000_000
"""Entries of X up to which contributions get real zeros: every row is fitted some dozen times."""


@dataclass(frozen=True)
class Discovery:
    """What a search found. Components are those of the consensus: stable ones first, each by contribution.

    Attributes
    ----------
    components : (r, n), every row sums to one
    contributions : (m, r), W under the losses of the fit, in the unit of X, with real zeros: every row has the
        components that it needs (`assign`)
    stability : (r,), mean silhouette of each component over the runs
    stable : (r,) bool, whether it reaches the threshold; none where fewer than four runs came to their end
    intervals : Intervals of the components and of `dense`, from draws apart from the runs; None with a reason in the
        notes
    found_in : (r,) int, runs that have the component, with a cosine of at least 0.9
    spread : (r, n), standard deviation of every entry over the runs: how far these differ, and no error bar
    rank : r
    losses : the losses of the fit
    noise : NoiseProfile, or None where the losses were given
    ranks : list of dict, the ranks that were tried
    matching : partners in the reference, or None
    residuals : where the components do not fit
    runs : the runs behind the consensus
    stages : list of dict with name, seconds and whether the stage was finished
    interrupted : whether Ctrl-C ended it: it then holds what the runs so far agree on
    missing : tuple of str, what was not finished, for lack of time or by Ctrl-C
    max_time : the limit that was given, or None
    resample : what each run saw of X: "poisson", "bootstrap", "uncertainty", or None for X itself
    seconds : float
    notes : tuple of str
    penalties : tuple of str, those of the runs and the contributions ("sparsity:0.003:W")
    penalty_path : tuple of AlphaPath, what was tried for alphas that the data chose
    sources : with groups, which of them, or "all", found each component
    dense : (m, r), W with all components in every row
    dispersions : (p,), phi of every loss that the best run left
    encoder : the components as a function of rows, which gives the contributions of new ones
    settings : the model, which says how X was read
    """

    components: Vector
    contributions: Array
    stability: Vector
    stable: np.ndarray[Any, np.dtype[np.bool_]]
    intervals: Intervals | None
    found_in: Indices
    spread: Vector
    rank: int
    losses: Omega
    noise: NoiseProfile | None
    ranks: list[dict[str, Any]]
    matching: Matching | None
    residuals: Residuals
    runs: list[Run] = field(repr=False)
    stages: list[dict[str, Any]]
    interrupted: bool
    missing: tuple[str, ...]
    max_time: float | None
    resample: str | None
    seconds: float
    notes: tuple[str, ...]
    penalties: tuple[str, ...] = ()
    penalty_path: tuple[AlphaPath, ...] = ()
    sources: tuple[tuple[str, ...], ...] = ()
    dense: Array = field(default_factory=lambda: np.empty((0, 0)), repr=False)
    dispersions: Vector = field(default_factory=lambda: np.empty(0), repr=False)
    encoder: Encoder | None = field(default=None, repr=False)
    settings: Parameters = field(default_factory=Parameters, repr=False)

    def assign(self, X: Any, *, entry_weight: Any = None, uncertainty: Any = None) -> Assignment:
        """Find which of the components new rows have, and how much of each, as in `contributions`.

        Parameters
        ----------
        X : as in `discover`, with the same columns
        entry_weight, uncertainty : as in `discover`, of these rows

        Returns
        -------
        Assignment
            Contributions with real zeros, and what judged them.
        """
        assert self.encoder is not None
        problem = opened(X, "assign", reading_of(self.settings, entry_weight, uncertainty))
        return assigned(self.encoder, problem, encoded(self.encoder, problem))

    @property
    def sizes(self) -> Vector:
        """Part of each component in the sum of all contributions, (r,)."""
        sums = np.asarray(self.contributions, dtype=np.float64).sum(axis=0)
        return sums / (sums.sum() or 1.0)

    def summary(self) -> str:
        """Say in a few sentences what was found; what is missing, and what to do about it, comes first."""
        count, ended, first = int(self.stable.sum()), sum(run.whole for run in self.runs), ""
        if self.missing:
            cure = "let it run to its end" if self.interrupted else f"raise max_time, which was {self.max_time:g} s"
            why = "Interrupted" if self.interrupted else "Out of time"
            first = f"{why}: {'; '.join(self.missing)}. To finish it, {cure}. "
        if ended < LEAST_RUNS:
            cure = "" if self.missing else f" Raise n_runs to {LEAST_RUNS} or more."
            return f"{first}{_too_few(ended)}{cure}"
        if not count:
            return (
                f"{first}Found nothing to trust: of {self.rank} components none comes again in the runs (largest "
                f"stability {self.stability.max():.2f})."
            )
        names = ", ".join(f"{loss.name} ({noise_of(loss)})" for loss in self.losses)
        return f"{first}{'So far ' if first else ''}{count} stable components of {self.rank}, under {names}."


@dataclass(frozen=True)
class Asked:
    """What is asked of a discovery; `drnmf.discover` says what each means.

    Attributes
    ----------
    reference : Known components under the columns of X, or None
    entry_weight, uncertainty : as in `BetaNMF.fit`
    groups : the group of every row, or None
    """

    ranks: Iterable[int] | int | None = None
    n_runs: int = 20
    resample: str | None = "auto"
    heavy: str = "auto"
    threshold: float = 0.6
    counts: bool | None = None
    level: float | None = 0.9
    reference: Known | None = None
    keep: bool = False
    entry_weight: Any = None
    uncertainty: Any = None
    groups: Iterable[Any] | None = None

    def __post_init__(self) -> None:
        check_integer("n_runs", self.n_runs, 2)
        check_choice("heavy", self.heavy, HEAVY_CHOICES)
        check_number("threshold", self.threshold, -1.0)
        if self.level is not None:
            check_level(self.level)
        if self.keep and (self.reference is None or self.groups is not None):
            raise ValueError("keep=True keeps known components: give them as reference, and no groups beside them.")

    def matched(self, components: Vector) -> Matching | None:
        """Partners of components in the reference."""
        known = self.reference
        return None if known is None else match(components, known.components, names=known.names)


def search(X: Any, model: Parameters | None, asked: Asked) -> Discovery:
    """Find components of X and what is known of them, without labels; see `drnmf.discover`.

    Parameters
    ----------
    X : array or SciPy sparse matrix of shape (m, n)
    model : what every run fits; the `callback` of its solver is called with a `Moment` after every run
    asked : everything else
    """
    model = _discovered(model)
    if asked.groups is not None:
        return in_groups(search, X, model, asked)
    return search_beside_known(search, X, model, asked) if asked.keep else _searched(X, model, asked)


def _searched(X: Any, raw: Parameters, asked: Asked) -> Discovery:
    """Search all rows at once, with nothing kept."""
    model = settled_budget(raw, JUDGED_ITERATIONS, JUDGED_TOLERANCE)
    betas, seed = asked_losses(model), check_integer("random_state", model.random_state or 0, 0)
    solver, terms = as_solver(model.solver), terms_of(model)
    schedule = Schedule({}, control_of(model).max_time, None)
    losses = None if isinstance(betas, str) and betas == "auto" else as_interval(betas) or as_losses(betas)
    study = Study.of(X, model, "discover", reading_of(model, asked.entry_weight, asked.uncertainty))
    given, remarks = study.problem.given, list(study.problem.given.notes)
    shape = study.problem.data.shape
    if losses is None and (given.known or given.signed):
        losses = as_losses(2)
    if min(shape) < 2:
        raise ValueError(f"X has shape {shape}: components can be told apart only with at least 2 rows and 2 columns.")
    tried = check_ranks([asked.ranks] if isinstance(asked.ranks, int) else asked.ranks, shape)
    if one_component(given.X):
        tried = (1,) if asked.ranks is None else tried[:1]
        remarks.append(ONE_COMPONENT)
    _check_resampling(asked.resample, given)
    asked.matched(np.ones((1, shape[1])))  # shapes that do not fit are refused before hours of work
    heavy = asked.heavy
    factors, auto = None if heavy == "keep" else cap_factors(given.X), [term for term in terms if term.alpha == "auto"]
    judge = heavy == "auto" and factors is not None and given.observed is None
    shared = as_part(model, penalties=decided(terms, ()), solver=Solver(update=solver.update))
    study = replace(study, model=shared, losses=losses or (KL,), factors=factors if heavy == "cap" else None)
    question = Question(
        tried,
        Parameters(random_state=seed, max_iter=raw.max_iter, tol=raw.tol),
        asked.threshold,
        asked.n_runs,
        counts=asked.counts,
    )
    stages = Stages(question, losses, schedule, remarks)
    with shown(model.verbose) as show, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of single runs: what matters is in the notes
        work, sure = plan(tried, asked.n_runs, losses is None, judge, len(auto)), Sure(asked.level, seed)
        schedule.take(sure.planned(work, tried[len(tried) // 2]), _both(show, solver.callback), leftover=(SURE,))
        kept = {"X": study.problem.data.digest(), **_settings(model, asked, tried, losses, seed)}
        with Store(solver.checkpoint, kept) as store:
            seeds = draw_seeds(seed, max(asked.n_runs, RUNS_PER_RANK))
            pool = RunPool(study, store, schedule, seeds, jobs_of(model))
            pool, table, noise = stages.settle(pool, bool(auto))
            pool = pool.changed(resample=_resampling(asked, pool.study, noise))
            if judge and factors is not None:
                pool = stages.heavy(pool, table, factors)
            pool, table = stages.penalise(pool, table, tuple(auto)) if auto else (pool, table)
            runs, found, table = stages.consensus(pool, table)
        encoder = _encoder(pool.study, found, runs)
        bars = sure.stage(stages, pool, runs, found, encoder)
        return _assembled(pool.study, encoder, stages, noise, table, runs, found, bars, asked)


def _settings(
    model: Parameters, asked: Asked, tried: tuple[int, ...], losses: Omega | Interval | None, seed: int
) -> dict[str, Any]:
    """What finished runs depend on, for the folder that keeps them; more time may be given to the others."""
    own = [name for name, known in parameters_of(Parameters).items() if known.result and name not in _ELSEWHERE]
    return {name: described(getattr(model, name)) for name in own} | {
        "ranks": list(tried),
        "betas": "auto" if losses is None else _texts(losses),
        "random_state": seed,
        "update": described(as_solver(model.solver).update),
        "penalties": [term.key for term in terms_of(model)],
        **{name: getattr(asked, name) for name in ("resample", "heavy", "threshold", "counts")},
    }


def _discovered(model: Parameters | None) -> Parameters:
    """Return the model that every run fits, and refuse what a discovery does not know."""
    if model is None:
        model = Parameters()
    check_model(model, "discover")
    solver = as_solver(model.solver)
    unknown = {
        "sum_to_one": model.sum_to_one is not None,
        "fixed_W": solver.fixed_W is not None,
        "device": model.device is not None,
    }
    for name in (name for name, given in unknown.items() if given):
        raise ValueError(f"discover takes no {name}: leave it out of the model.")
    return model


def _check_resampling(resample: str | None, given: Received) -> None:
    """Refuse what cannot be drawn; weights belong to their rows, which the bootstrap would tear apart."""
    if resample is None:
        return
    check_choice("resample", resample, ("auto", *RESAMPLINGS, UNCERTAINTY))
    if resample == UNCERTAINTY and not given.known:
        raise ValueError('resample="uncertainty" draws X by the uncertainties of its entries: give uncertainty.')
    if resample == "bootstrap" and given.observed is not None:
        raise ValueError('resample="bootstrap" draws rows of X, which have weights here: use "poisson" or None.')


def _resampling(asked: Asked, study: Study, noise: NoiseProfile | None) -> str | None:
    """Choose what each run sees, by what is known of counts: what the user says, what the noise says, or the loss."""
    given = study.problem.given
    if asked.resample != "auto":
        return asked.resample
    if given.known:
        return UNCERTAINTY
    said = noise.counts if noise is not None else _of_counts(study.losses)
    if study.facts.unit == 1.0 and (said if asked.counts is None else asked.counts):
        return "poisson"
    return None if given.observed is not None else "bootstrap"


def _of_counts(losses: Omega | Interval) -> bool:
    """Tell whether losses that were given are those of counts."""
    if isinstance(losses, Interval):
        return losses.low <= 1.0 <= losses.high
    return any(loss == KL or isinstance(loss, NegativeBinomial) for loss in losses)


def _texts(losses: Any) -> Any:
    """Write losses for the identity of what is kept; one of the caller's own by its key."""
    if isinstance(losses, Interval):
        return str(losses)
    return [text_of(loss) if isinstance(loss, Beta | NegativeBinomial) else loss.key for loss in losses]


def _both(first: Callable[[Moment], Any] | None, second: Callable[[Moment], Any] | None) -> Callable[[Moment], Any]:
    def call(moment: Moment) -> None:
        for call_one in (first, second):
            if call_one is not None:
                call_one(moment)

    return call


def _objective(data: Data, run: Run, terms: tuple[Penalty, ...]) -> Objective:
    """What the contributions minimise, in the units of the caller."""
    units = Units(data.scale, run.references)
    omega, references = units.omega(run.omega), units.references(run.omega)
    assert references is not None
    setting = objective_of(data, omega, references, units.terms(terms, run.omega)).penalties.setting
    return Objective(run.omega, run.references, mean_of(data), units.penalties_out(terms, setting, run.omega))


def _too_few(ended: int) -> str:
    return f"Nothing is called stable on the word of fewer than {LEAST_RUNS} runs: {ended} came to their end."


def _encoder(study: Study, found: Consensus, runs: list[Run]) -> Encoder:
    """What finds W under the losses of the best run, and the penalties."""
    best, model = min(runs, key=lambda run: run.error), study.model
    control, terms = control_of(model), terms_of(model)
    return Encoder(
        found.components.astype(best.H.dtype),
        _objective(study.problem.data, best, terms),
        best.weights,
        control.max_iter,
        control.tol,
        checked(model, "zeros"),
        "discover",
        np.zeros(len(found.stability)),
    )


def _assembled(
    study: Study,
    encoder: Encoder,
    stages: Stages,
    noise: NoiseProfile | None,
    table: list[Tried],
    runs: list[Run],
    found: Consensus,
    bars: Intervals | None,
    asked: Asked,
) -> Discovery:
    """W under the losses of the best run and the penalties, components by size, partners, residuals."""
    best, schedule, model, X = min(runs, key=lambda run: run.error), stages.schedule, study.model, study.problem
    before, terms = schedule.seconds, terms_of(model)
    W, cut = contributions(encoder, X, schedule)
    if cut:
        stages.missing.append(f"the contributions of {cut} rows were still moving")
    dense, W = W, _few_causes(encoder, study, stages, W)
    ended = sum(run.whole for run in runs)
    stable = (found.stability >= stages.ask.threshold) & (ended >= LEAST_RUNS)
    order = np.lexsort((-W.sum(axis=0, dtype=np.float64), ~stable))  # numbered alike in files, pages and Python
    found, W, dense, stable = found.reordered(order), W[:, order], dense[:, order], stable[order]
    worst = best.omega[int(np.argmax(best.losses / best.references))]
    misfit = residuals(X.given.X, W, found.components, worst)
    schedule.advance(LAST, (1.0 - FOR_W) * schedule.planned(LAST), "residuals")
    stages.ended(LAST, before, not cut)
    encoder = replace(encoder, components=encoder.components[order], mean_row=dense.mean(axis=0, dtype=np.float64))
    return Discovery(
        components=found.components,
        contributions=W,
        stability=found.stability,
        stable=stable,
        intervals=None if bars is None else bars.around(order, found.components, np.asarray(dense, dtype=np.float64)),
        found_in=found.found_in,
        spread=found.spread,
        rank=len(found.stability),
        losses=best.omega,
        noise=noise,
        ranks=rows_of(table, stages.ask.threshold) if table else [],
        matching=asked.matched(found.components),
        residuals=misfit,
        runs=sorted(runs, key=lambda run: run.error),
        stages=stages.done,
        interrupted=stages.interrupted,
        missing=tuple(stages.missing),
        max_time=model.max_time,
        resample=study.resample,
        seconds=schedule.seconds,
        notes=_notes(stages, noise, found, ended, study.resample),
        penalties=tuple(term.key for term in terms),
        penalty_path=stages.paths,
        dense=dense,
        dispersions=dispersions(X.data, best.losses, best.omega, len(found.stability)),
        encoder=encoder,
        settings=model,
    )


def _few_causes(encoder: Encoder, study: Study, stages: Stages, dense: Array) -> Array:
    """Contributions with real zeros, as far as there is time."""
    X, schedule = study.problem.given.X, stages.schedule
    if not (isinstance(X, np.ndarray) or sp.issparse(X)) or X.shape[0] * X.shape[1] > MOST_ASSIGNED:
        stages.notes.append("X is large: its contributions hold all components in every row. assign finds few of each.")
        return dense
    W, left = assigned_in_time(supports_of(encoder, study.problem, dense), dense, lambda: schedule.left <= 0)
    if left:
        stages.missing.append(f"the contributions of {left} rows still hold all components")
    return W


_SEEN = {
    None: "Every run saw X itself: stability says how far runs differ, and nothing of the noise.",
    "poisson": "Every run saw counts drawn anew with X as their mean.",
    "bootstrap": "Every run saw rows of X drawn anew.",
    UNCERTAINTY: "Every run saw X drawn anew by its uncertainties.",
}
"""What is said of the runs of a consensus."""


def _notes(
    stages: Stages, noise: NoiseProfile | None, found: Consensus, ended: int, resample: str | None
) -> tuple[str, ...]:
    """What to say of a discovery: what is missing first."""
    why = "Interrupted" if stages.interrupted else "Out of time"
    missing = (f"{why}: {what}." for what in stages.missing)
    notes = (*missing, *(() if noise is None else noise.notes), *stages.notes, _SEEN[resample])
    if ended < LEAST_RUNS:
        return (*notes, _too_few(ended))
    if not (found.stability >= stages.ask.threshold).any():
        return (
            *notes,
            f"No component reaches the stability of {stages.ask.threshold:g}: there is nothing to trust here.",
        )
    return notes
