"""From a table to components one can trust: noise -> rank -> consensus, in one call."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.base import Data
from drnmf.losses.base import Omega
from drnmf.losses.beta import KL, Beta
from drnmf.losses.interval import Interval, as_interval
from drnmf.losses.names import as_losses, text_of
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.numerics import Array, MatrixLike
from drnmf.objective.objective import Objective
from drnmf.objective.penalty import Penalty
from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import check_choice, check_integer, checked, parameters_of
from drnmf.parameters.solver import Solver, as_solver
from drnmf.problem.problem import dispersions, objective_of
from drnmf.problem.receive import Received
from drnmf.problem.units import Units, mean_of
from drnmf.problem.weights import reading_of
from drnmf.selection.alpha import decided
from drnmf.selection.asked import Asked, AskedOfGroup, SearchResult, too_few_runs
from drnmf.selection.assignment.assign import assigned_in_time, settled, supports_of, within_supports
from drnmf.selection.choose import Tried, doubt
from drnmf.selection.consensus import Consensus
from drnmf.selection.entries import ONE_COMPONENT, one_component
from drnmf.selection.intervals.bars import Intervals
from drnmf.selection.noise import NoiseProfile
from drnmf.selection.rank import check_ranks
from drnmf.selection.resampling import POISSON, RESAMPLINGS, UNCERTAINTY, cap_factors, check_whole, resampling_for
from drnmf.selection.stages.groups import in_groups, search_beside_known
from drnmf.selection.stages.ranks import rows_of
from drnmf.selection.stages.residuals import FOR_W, LAST, contributions, residuals
from drnmf.selection.stages.run_pool import RunPool, Study, draw_seeds
from drnmf.selection.stages.runs import Run, Store
from drnmf.selection.stages.schedule import Moment, Schedule, shown
from drnmf.selection.stages.stages import LEAST_RUNS, MORE_JUDGES, REDRAWN_RUNS, RUNS_PER_RANK, Question, Stages, plan
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
    settled_budget,
    terms_of,
)
from drnmf.storage.records import described

_ELSEWHERE = ("n_components", "solver", "max_time", "warm_start")
"""Parameters of the model that no finished run depends on, or that are written down otherwise."""
MOST_ASSIGNED = 20_000_000
"""Entries of X up to which contributions get real zeros: every row is fitted some dozen times."""


def search(X: MatrixLike, model: Parameters | None, asked: Asked) -> SearchResult:
    """Find components of X and what is known of them, without labels; see `drnmf.discover`.

    Every run fits the model; the `callback` of its solver is called with a `Moment` after each.
    """
    raw = _discovered(model)
    if asked.groups is not None:
        return in_groups(search, X, raw, asked)
    if asked.keep:
        return search_beside_known(search, X, raw, asked)
    model = settled_budget(raw, JUDGED_ITERATIONS, JUDGED_TOLERANCE)
    betas, seed = asked_losses(model), check_integer("random_state", model.random_state or 0, 0)
    solver, terms = as_solver(model.solver), terms_of(model)
    schedule = Schedule({}, control_of(model).max_time, None)
    within = asked.within if isinstance(asked, AskedOfGroup) else None
    losses = within if isinstance(betas, str) and betas == "auto" else as_interval(betas) or as_losses(betas)
    study = Study.of(X, model, "discover", reading_of(model, asked.entry_weight, asked.uncertainty))
    received, remarks = study.problem.given, list(study.problem.given.notes)
    shape = study.problem.data.shape
    if losses is None and (received.known or received.signed):
        losses = as_losses(2)
    tried = _ranks_of(asked, received, shape, remarks)
    _check_resampling(asked.resample, received)
    asked.matched(np.ones((1, shape[1])))  # shapes that do not fit are refused before hours of work
    heavy = asked.heavy
    factors = None if heavy == "keep" else cap_factors(received.X)
    auto = [term for term in terms if term.alpha == "auto"]
    judge = heavy == "auto" and factors is not None and received.observed is None
    shared = as_part(model, penalties=decided(terms, ()), solver=Solver(update=solver.update))
    study = replace(study, model=shared, losses=losses or (KL,), factors=factors if heavy == "cap" else None)
    question = Question(
        tried,
        Parameters(random_state=seed, max_iter=raw.max_iter, tol=raw.tol),
        asked.threshold,
        asked.n_runs,
        counts=asked.counts,
        above=within is None,
    )
    stages = Stages(question, losses, schedule, remarks)
    with shown(model.verbose) as show, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of single runs: what matters is in the notes
        work, sure = plan(tried, asked.n_runs, losses is None, judge, len(auto)), Sure(asked.level, seed)
        schedule.take(sure.planned(work, tried[len(tried) // 2]), _both(show, solver.callback), leftover=(SURE,))
        kept = {"X": study.problem.data.digest(), **_settings(model, asked, tried, losses, seed)}
        with Store(solver.checkpoint, kept) as store:
            seeds = draw_seeds(seed, max(asked.n_runs, REDRAWN_RUNS, MORE_JUDGES * RUNS_PER_RANK))
            pool = RunPool(study, store, schedule, seeds, jobs_of(model))
            pool, table, noise = stages.settle(pool, bool(auto))
            how = _resampling(asked, pool.study, noise)
            pool = pool.changed(pool.kind if asked.resample == "auto" else f"{pool.kind}{how}-", resample=how)
            if judge and factors is not None:
                pool = stages.heavy(pool, table, factors)
            pool, table = stages.penalise(pool, table, tuple(auto)) if auto else (pool, table)
            runs, consensus, table = stages.consensus(pool, table)
        encoder = _encoder(pool.study, consensus, runs)
        bars = sure.stage(stages, pool, runs, consensus, encoder)
        return _assembled(pool.study, encoder, stages, noise, table, runs, consensus, bars, asked)


def _ranks_of(asked: Asked, received: Received, shape: tuple[int, int], remarks: list[str]) -> tuple[int, ...]:
    """List the ranks that are compared: one where X holds one component, which is remarked."""
    if min(shape) < 2:
        raise ValueError(f"X has shape {shape}: components can be told apart only with at least 2 rows and 2 columns.")
    tried = check_ranks([asked.ranks] if isinstance(asked.ranks, int) else asked.ranks, shape)
    if not one_component(received.X):
        return tried
    remarks.append(ONE_COMPONENT)
    return (1,) if asked.ranks is None else tried[:1]


def _settings(
    model: Parameters, asked: Asked, tried: tuple[int, ...], losses: Omega | Interval | None, seed: int
) -> dict[str, object]:
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


def _check_resampling(resample: str | None, received: Received) -> None:
    """Refuse what cannot be drawn; weights belong to their rows, which the bootstrap would tear apart."""
    if resample is None:
        return
    check_choice("resample", resample, ("auto", *RESAMPLINGS, UNCERTAINTY))
    if resample == UNCERTAINTY and not received.known:
        raise ValueError('resample="uncertainty" draws X by the uncertainties of its entries: give uncertainty.')
    if resample == POISSON:
        check_whole(received.X)
    if resample == "bootstrap" and received.observed is not None:
        raise ValueError('resample="bootstrap" draws rows of X, which have weights here: use "poisson" or None.')


def _resampling(asked: Asked, study: Study, noise: NoiseProfile | None) -> str | None:
    """What each run sees: what the user asked for, or what X asks for."""
    if asked.resample != "auto":
        return asked.resample
    said = None if noise is None else noise.counts
    return resampling_for(study.problem.given, study.losses, asked.counts, said)


def _texts(losses: Any) -> Any:
    """Write losses for the identity of what is kept; one of the caller's own by its key."""
    if isinstance(losses, Interval):
        return str(losses)
    return [text_of(loss) if isinstance(loss, Beta | NegativeBinomial) else loss.key for loss in losses]


def _both(
    first: Callable[[Moment], object] | None, second: Callable[[Moment], object] | None
) -> Callable[[Moment], object]:
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


def _encoder(study: Study, consensus: Consensus, runs: list[Run]) -> Encoder:
    """What finds W under the losses of the best run, and the penalties."""
    best, model = min(runs, key=lambda run: run.error), study.model
    control, terms = control_of(model), terms_of(model)
    return Encoder(
        consensus.components.astype(best.H.dtype),
        _objective(study.problem.data, best, terms),
        best.weights,
        control.max_iter,
        control.tol,
        checked(model, "zeros"),
        "discover",
        np.zeros(len(consensus.stability)),
    )


def _assembled(
    study: Study,
    encoder: Encoder,
    stages: Stages,
    noise: NoiseProfile | None,
    table: list[Tried],
    runs: list[Run],
    consensus: Consensus,
    bars: Intervals | None,
    asked: Asked,
) -> SearchResult:
    """W under the losses of the best run and the penalties, components by size, partners, residuals."""
    best, schedule, model, X = min(runs, key=lambda run: run.error), stages.schedule, study.model, study.problem
    before, terms = schedule.seconds, terms_of(model)
    W, cut = contributions(encoder, X, schedule)
    if cut:
        stages.missing.append(f"the contributions of {cut} rows were still moving")
    found_in, components, dense, W = consensus.found_in, consensus.components, W, _few_causes(encoder, study, stages, W)
    if np.any(W == 0) and not terms and model.fixed is None and not cut and schedule.left > 0:
        components, W = within_supports(encoder, X, W)
        encoder = replace(encoder, components=components.astype(encoder.components.dtype))
        dense = contributions(encoder, X, schedule)[0]
        W = settled(supports_of(encoder, X, dense), W, lambda: schedule.left <= 0)
    ended = sum(run.whole for run in runs)
    stable = (consensus.stability >= stages.ask.threshold) & (ended >= LEAST_RUNS)
    order = np.lexsort((-W.sum(axis=0, dtype=np.float64), ~stable))  # numbered alike in files, pages and Python
    consensus, W, dense, stable = consensus.reordered(order), W[:, order], dense[:, order], stable[order]
    components, found_in = components[order], found_in[order]
    worst = best.omega[int(np.argmax(best.losses / best.references))]
    misfit = residuals(X.given.X, W, components, worst)
    schedule.advance(LAST, (1.0 - FOR_W) * schedule.planned(LAST), "residuals")
    stages.ended(LAST, before, not cut)
    encoder = replace(encoder, components=encoder.components[order], mean_row=dense.mean(axis=0, dtype=np.float64))
    return SearchResult(
        components=components,
        contributions=W,
        stability=consensus.stability,
        stable=stable,
        intervals=None if bars is None else bars.around(order, components, np.asarray(dense, dtype=np.float64)),
        found_in=found_in,
        spread=consensus.spread,
        rank=len(consensus.stability),
        losses=best.omega,
        noise=noise,
        ranks=rows_of(table, stages.ask.threshold) if table else [],
        matching=asked.matched(components),
        residuals=misfit,
        runs=sorted(runs, key=lambda run: run.error),
        stages=stages.done,
        interrupted=stages.interrupted,
        missing=tuple(stages.missing),
        max_time=model.max_time,
        resample=study.resample,
        seconds=schedule.seconds,
        notes=_notes(stages, noise, table, consensus, ended, study.resample),
        penalties=tuple(term.key for term in terms),
        penalty_path=stages.paths,
        dense=dense,
        dispersions=dispersions(X.data, best.losses, best.omega, len(consensus.stability)),
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
    stages: Stages,
    noise: NoiseProfile | None,
    table: list[Tried],
    consensus: Consensus,
    ended: int,
    resample: str | None,
) -> tuple[str, ...]:
    """What to say of a discovery: what is missing first, then whether the rank is in doubt."""
    why = "Interrupted" if stages.interrupted else "Out of time"
    missing = (f"{why}: {what}." for what in stages.missing)
    unsure = doubt(table) if stages.larger is None else ()
    said = (*missing, *unsure, *(() if noise is None else noise.notes), *stages.notes, _SEEN[resample])
    notes = tuple(dict.fromkeys(said))  # the noise and the stages have the remarks on X from the same reader
    if ended < LEAST_RUNS:
        return (*notes, too_few_runs(ended))
    if not (consensus.stability >= stages.ask.threshold).any():
        return (
            *notes,
            f"No component reaches the stability of {stages.ask.threshold:g}: there is nothing to trust here.",
        )
    return notes
