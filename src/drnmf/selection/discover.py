"""From a table to components one can trust: noise -> rank -> consensus, in one call."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.base import Data
from drnmf.backends.observed import HeldOut
from drnmf.fit.encode import Encoder
from drnmf.fit.parameters import Parameters, count_jobs
from drnmf.fit.penalised import objective_of
from drnmf.fit.units import Units, mean_of
from drnmf.inputs.check import check_choice, check_integer, check_number
from drnmf.inputs.device import place
from drnmf.inputs.receive import Received
from drnmf.inputs.weights import Reading
from drnmf.losses.base import Omega
from drnmf.losses.beta import KL
from drnmf.losses.interval import Interval, as_interval
from drnmf.losses.names import as_losses, text_of
from drnmf.numerics import Array, Vector
from drnmf.objective.objective import Objective
from drnmf.objective.penalty import Penalty
from drnmf.selection.consensus import Consensus
from drnmf.selection.entries import counted, facts_of
from drnmf.selection.matching import Matching, match
from drnmf.selection.noise import NoiseProfile
from drnmf.selection.penalties.alpha import AlphaPath, decided
from drnmf.selection.resampling import RESAMPLINGS
from drnmf.selection.stages.course import RUNS_PER_RANK, Stages, plan
from drnmf.selection.stages.crew import Crew, draw_seeds
from drnmf.selection.stages.heavy import cap_factors
from drnmf.selection.stages.pace import Moment, Pace, shown
from drnmf.selection.stages.ranks import Tried, rows_of
from drnmf.selection.stages.residuals import Residuals, residuals
from drnmf.selection.stages.runs import Fitter, Run, Store

HEAVY_CHOICES = ("auto", "keep", "cap")
MOST_RANKS = 30
"""Largest rank that is tried where none is given."""


@dataclass(frozen=True)
class Discovery:
    """What `discover` found. Components are those of the consensus, largest contribution first, unstable ones too.

    Attributes
    ----------
    components : (r, n), every row sums to one
    contributions : (m, r), W under the losses of the fit, in the unit of X
    stability : (r,), mean silhouette of each component over the runs
    stable : (r,) bool, whether it reaches the threshold
    interval : (2, r, n), 5 % and 95 % quantiles of every entry over the runs
    spread : (r, n), standard deviation of every entry over the runs
    rank : r
    losses : the losses of the fit
    noise : NoiseProfile, or None where the losses were given
    ranks : list of dict, the ranks that were tried
    matching : partners in the reference, or None
    residuals : where the components do not fit
    runs : the runs behind the consensus
    stages : list of dict with name, seconds and whether the stage was finished
    interrupted : whether Ctrl-C ended it: it then holds what the runs so far agree on
    seconds : float
    notes : tuple of str
    penalties : tuple of str, those of the runs and the contributions ("sparsity:0.003:W")
    penalty_path : tuple of AlphaPath, what was tried for alphas that the data chose
    """

    components: Vector
    contributions: Array
    stability: Vector
    stable: np.ndarray[Any, np.dtype[np.bool_]]
    interval: Vector
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
    seconds: float
    notes: tuple[str, ...]
    penalties: tuple[str, ...] = ()
    penalty_path: tuple[AlphaPath, ...] = ()

    @property
    def sizes(self) -> Vector:
        """Part of each component in the sum of all contributions, (r,)."""
        sums = np.asarray(self.contributions, dtype=np.float64).sum(axis=0)
        return sums / (sums.sum() or 1.0)

    def summary(self) -> str:
        """Say in a sentence what was found."""
        count = int(self.stable.sum())
        if not count:
            return (
                f"Found nothing to trust: of {self.rank} components none comes again in the runs (largest stability "
                f"{self.stability.max():.2f})."
            )
        names = ", ".join(loss.name for loss in self.losses)
        return f"{count} stable components of {self.rank}, under {names}."


def discover(
    X: Any,
    *,
    ranks: Iterable[int] | int | None = None,
    betas: Any = "auto",
    n_runs: int = 20,
    resample: str | None = "auto",
    heavy: str = "auto",
    threshold: float = 0.6,
    reference: Any = None,
    reference_names: Iterable[str] | None = None,
    entry_weight: Any = None,
    uncertainty: Any = None,
    max_iter: int = 500,
    tol: float = 1e-5,
    zeros: str = "raise",
    random_state: int = 0,
    n_jobs: int | None = None,
    max_time: float | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    callback: Callable[[Moment], Any] | None = None,
    verbose: int = 0,
    penalties: Any = None,
) -> Discovery:
    """Find how many components X has, under which noise, and which of them come again in every run.

    Noise (`noise_profile`) and rank are found in turn until both stand. Ranks are judged by entries held out of a few
    runs: of those within one standard error of the best the one with most stable components is taken. The components
    are the consensus of `n_runs` runs at that rank.

    Parameters
    ----------
    X : array or SciPy sparse matrix of shape (m, n), nonnegative
        Components are profiles over the columns; for profiles over the rows give X.T.
    ranks : iterable of int, or int
        What may be tried, at most min(m, n); None is 2 to 30.
    betas : "auto", number, list of losses, or Interval
        "auto" takes the loss of the noise; several losses are fitted as `DRNMF` does.
    n_runs : int, at least 2
        Runs of the consensus.
    resample : {"auto", None, "poisson", "bootstrap"}
        What each run sees; "auto" draws counts again ("poisson"), and rows of other data ("bootstrap").
    heavy : {"auto", "keep", "cap"}
        "cap" scales rows down that weigh more than ten times the median row, while components are sought; their
        contributions are those of X. "auto" does so where held-out entries of X are then predicted better.
    threshold : float
        Stability that a component needs.
    reference : array or DataFrame of shape (s, n), optional
        Known components; see `match`.
    reference_names : iterable of str, optional
    entry_weight, uncertainty : as in `BetaNMF.fit`
        With uncertainties betas="auto" is 2, whose weights they are; the noise is read off X without weights.
    max_iter, tol, zeros : as in `BetaNMF`
    penalties : as in `BetaNMF`
        They hold in all runs and in the contributions. ``Sparsity("auto", on="W")`` makes contributions as sparse as
        held-out entries ask for; the rank is then searched under it. None is no penalty.
    random_state : int
        Seed of everything.
    n_jobs : int or None
        Runs side by side. Results do not depend on it.
    max_time : float, optional
        Seconds for all stages. What could not be finished is named in `notes`.
    checkpoint : path-like, optional
        A folder where finished runs are kept; the same call again uses them.
    callback : callable, optional
        Called with a `Moment` after every run.
    verbose : int
        1 shows progress on standard error.

    Returns
    -------
    Discovery
        Components, stability, contributions, and what led to them.

    Raises
    ------
    ValueError
        For bad X or parameters, or a time limit too short for two runs.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.gamma(0.3, 50, (60, 3)) @ rng.dirichlet(np.full(20, 0.2), 3) * 10)
    >>> found = discover(X, ranks=range(2, 6), n_runs=5)
    >>> int(found.stable.sum())
    3
    """
    check_integer("n_runs", n_runs, 2)
    check_choice("heavy", heavy, HEAVY_CHOICES)
    check_number("threshold", threshold, -1.0)
    check_integer("random_state", random_state, 0)
    jobs = count_jobs(n_jobs)
    parameters = Parameters(max_iter=max_iter, tol=tol, zeros=zeros, max_time=max_time, penalties=penalties)
    parameters.control()
    terms = parameters.terms()
    parameters = replace(parameters, penalties=decided(terms, ()))
    losses = None if isinstance(betas, str) and betas == "auto" else as_interval(betas) or as_losses(betas)
    placement = place(X, None, "float32")
    given = placement.accept(X, "discover", Reading(entry_weight=entry_weight, uncertainty=uncertainty))
    if isinstance(given.observed, HeldOut):
        given = replace(given, observed=given.observed.bind(given.X.shape, sp.issparse(given.X)))
    X = given.X
    if losses is None and uncertainty is not None:
        losses = as_losses(2)
    if not float(X.max() if sp.issparse(X) else np.nanmax(X)) > 0:
        raise ValueError("X is all zeros: it has no components.")
    tried = check_ranks(ranks, X.shape)
    how = _resampling(resample, given)
    if reference is not None:  # labels and shapes that do not fit are refused before hours of work
        match(np.ones((1, X.shape[1])), reference, names=_listed(reference_names))
    settings = {
        "ranks": list(tried), "betas": "auto" if losses is None else _texts(losses), "resample": how, "heavy": heavy,
        "max_iter": max_iter, "tol": tol, "zeros": zeros, "random_state": random_state, "threshold": threshold,
    }  # fmt: skip
    if terms:
        settings["penalties"] = [term.key for term in terms]
    seeds = draw_seeds(random_state, max(n_runs, RUNS_PER_RANK))
    with shown(verbose) as show, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of single runs: what matters is in the notes
        factors = None if heavy == "keep" else cap_factors(X)
        judge = heavy == "auto" and factors is not None and given.observed is None
        auto = tuple(term for term in terms if term.alpha == "auto")
        pace = Pace(plan(tried, n_runs, losses is None, judge, len(auto)), max_time, _both(show, callback))
        data = placement.open(given)
        identity = {"X": data.digest(), **settings}
        with Store(checkpoint, identity) as store:
            stages = Stages(X, losses, tried, n_runs, threshold, pace, [])
            capped, facts = factors if heavy == "cap" else None, facts_of(counted(given))
            fitter = Fitter(given, placement, parameters, losses or (KL,), how, facts, capped, uncertainty is not None)
            crew, table, noise = stages.settle(Crew(fitter, store, pace, seeds, jobs), random_state, bool(auto))
            crew = stages.heavy(crew, table, factors) if judge else crew
            crew, table = stages.penalise(crew, table, auto) if auto else (crew, table)
            runs, found = stages.consensus(crew, table)
    parameters = crew.fitter.parameters
    return _assembled(X, data, stages, noise, table, runs, found, parameters, reference, _listed(reference_names))


def check_ranks(ranks: Iterable[int] | int | None, shape: tuple[int, int]) -> tuple[int, ...]:
    """Check the ranks to try: distinct, in order, none above min(m, n).

    >>> check_ranks(None, (100, 12))
    (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
    """
    most = min(shape)
    if most < 2:
        raise ValueError(f"X has shape {shape}: components can be told apart only with at least 2 rows and 2 columns.")
    if ranks is None:
        return tuple(range(2, min(MOST_RANKS, most) + 1))
    listed = [ranks] if isinstance(ranks, int) else list(ranks)
    if not listed:
        raise ValueError("ranks is empty: name at least one rank.")
    whole = sorted({check_integer("ranks", rank, 1) for rank in listed})
    if whole[-1] > most:
        raise ValueError(f"ranks go up to {whole[-1]}, but X of shape {shape} has at most {most} components.")
    return tuple(whole)


def _resampling(resample: str | None, given: Received) -> str | None:
    """Choose what each run sees; weights belong to their rows, which the bootstrap would tear apart."""
    if resample is None:
        return None
    check_choice("resample", resample, ("auto", *RESAMPLINGS))
    weighted = given.observed is not None
    if resample == "auto":
        return "poisson" if facts_of(given.X).unit == 1.0 else None if weighted else "bootstrap"
    if resample == "bootstrap" and weighted:
        raise ValueError('resample="bootstrap" draws rows of X, which have weights here: use "poisson" or None.')
    return resample


def _texts(losses: Any) -> Any:
    return str(losses) if isinstance(losses, Interval) else [text_of(loss) for loss in losses]


def _listed(names: Iterable[str] | None) -> list[str] | None:
    return None if names is None else [str(name) for name in names]


def _both(first: Callable[[Moment], Any] | None, second: Callable[[Moment], Any] | None) -> Callable[[Moment], Any]:
    def call(moment: Moment) -> None:
        for told in (first, second):
            if told is not None:
                told(moment)

    return call


def _objective(data: Data, run: Run, terms: tuple[Penalty, ...]) -> Objective:
    """What the contributions minimise, in the units of the caller."""
    units = Units(data.scale, run.references)
    omega, references = units.omega(run.omega), units.references(run.omega)
    assert references is not None
    setting = objective_of(data, omega, references, units.terms(terms, run.omega)).penalties.setting
    return Objective(run.omega, run.references, mean_of(data), units.penalties_out(terms, setting, run.omega))


def _assembled(
    X: Any, data: Data, stages: Stages, noise: NoiseProfile | None, table: list[Tried], runs: list[Run],
    found: Consensus, parameters: Parameters, reference: Any, names: list[str] | None,
) -> Discovery:  # fmt: skip
    """W under the losses of the best run and the penalties, components by size, partners, residuals."""
    best = min(runs, key=lambda run: run.error)
    control = parameters.control()
    encoder = Encoder(
        found.components.astype(best.H.dtype), _objective(data, best, parameters.terms()), best.weights,
        control.max_iter, control.tol, parameters.zeros_choice(), "discover", np.zeros(len(found.stability)),
    )  # fmt: skip
    W = encoder.rows(data)
    W = np.asarray(replace(encoder, mean_row=W[W.sum(axis=1) > 0].mean(axis=0)).rows(data))
    order = np.argsort(-W.sum(axis=0, dtype=np.float64), kind="stable")
    found, W = found.reordered(order), W[:, order]
    worst = best.omega[int(np.argmax(best.losses / best.references))]
    notes = (*(() if noise is None else noise.notes), *stages.notes)
    if not (found.stability >= stages.threshold).any():
        notes += (f"No component reaches the stability of {stages.threshold:g}: there is nothing to trust here.",)
    return Discovery(
        found.components, W, found.stability, found.stability >= stages.threshold, found.interval, found.spread,
        len(found.stability), best.omega, noise, rows_of(table, stages.threshold) if table else [],
        None if reference is None else match(found.components, reference, names=names),
        residuals(X, W, found.components, worst), sorted(runs, key=lambda run: run.error), stages.done,
        stages.interrupted, stages.pace.seconds, notes, tuple(term.key for term in parameters.terms()), stages.paths,
    )  # fmt: skip
