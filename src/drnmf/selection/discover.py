"""From a table to components one can trust: noise -> rank -> consensus, in one call."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.base import Data
from drnmf.backends.observed import HeldOut
from drnmf.losses.base import Omega
from drnmf.losses.beta import KL, Beta
from drnmf.losses.interval import Interval, as_interval
from drnmf.losses.names import as_losses, text_of
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.numerics import Array, Vector
from drnmf.objective.objective import Objective
from drnmf.objective.penalty import Penalty
from drnmf.parameters.checks import check_choice, check_integer, check_number
from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import checked
from drnmf.parameters.solver import Solver, as_solver
from drnmf.problem.device import place
from drnmf.problem.problem import objective_of
from drnmf.problem.receive import Received, refuse_signed
from drnmf.problem.units import Units, mean_of
from drnmf.selection.alike import ONE_COMPONENT, one_component
from drnmf.selection.assignment.assign import Assignment, assigned, assigned_in_time, supports_of
from drnmf.selection.assignment.known import beside_known
from drnmf.selection.consensus import Consensus
from drnmf.selection.entries import bound, counted, facts_of
from drnmf.selection.matching import Matching, match
from drnmf.selection.noise import NoiseProfile
from drnmf.selection.penalties.alpha import AlphaPath, decided
from drnmf.selection.resampling import RESAMPLINGS, UNCERTAINTY
from drnmf.selection.stages.contributions import FOR_W, LAST, contributions
from drnmf.selection.stages.grouped import in_groups
from drnmf.selection.stages.heavy import cap_factors
from drnmf.selection.stages.ranks import Tried, rows_of
from drnmf.selection.stages.residuals import Residuals, residuals
from drnmf.selection.stages.run_pool import RunPool, draw_seeds
from drnmf.selection.stages.runs import Fitter, Run, Store
from drnmf.selection.stages.schedule import Moment, Schedule, shown
from drnmf.selection.stages.stages import LEAST_RUNS, RUNS_PER_RANK, Stages, plan
from drnmf.solve.encode import Encoder
from drnmf.solve.settings import asked_losses, check_model, control_of, count_jobs, reading_of, settled_budget, terms_of
from drnmf.storage.records import described

HEAVY_CHOICES = ("auto", "keep", "cap")
MAX_ITER, TOLERANCE = 500, 1e-5
"""Of every run, where the model leaves them to the library."""
MOST_ASSIGNED = 20_000_000
"""Entries of X up to which contributions get real zeros: every row is fitted some dozen times."""
MOST_RANKS = 30
"""Largest rank that is tried where none is given."""


@dataclass(frozen=True)
class Discovery:
    """What `discover` found. Components are those of the consensus, largest contribution first, unstable ones too.

    Attributes
    ----------
    components : (r, n), every row sums to one
    contributions : (m, r), W under the losses of the fit, in the unit of X, with real zeros: every row has the
        components that it needs (`assign`)
    stability : (r,), mean silhouette of each component over the runs
    stable : (r,) bool, whether it reaches the threshold; none where fewer than four runs came to their end
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
    missing : tuple of str, what was not finished, for lack of time or by Ctrl-C
    max_time : the limit that was given, or None
    resample : what each run saw of X: "poisson", "bootstrap", "uncertainty", or None for X itself
    seconds : float
    notes : tuple of str
    penalties : tuple of str, those of the runs and the contributions ("sparsity:0.003:W")
    penalty_path : tuple of AlphaPath, what was tried for alphas that the data chose
    sources : with groups, which of them, or "all", found each component
    dense : (m, r), W with all components in every row
    encoder : the components as a function of rows
    model : how X was read
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
    missing: tuple[str, ...]
    max_time: float | None
    resample: str | None
    seconds: float
    notes: tuple[str, ...]
    penalties: tuple[str, ...] = ()
    penalty_path: tuple[AlphaPath, ...] = ()
    dense: Array = field(default_factory=lambda: np.empty((0, 0)), repr=False)
    encoder: Encoder | None = field(default=None, repr=False)
    model: Parameters = field(default_factory=Parameters, repr=False)
    sources: tuple[tuple[str, ...], ...] = ()

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
        placement = place(X, None, "float32")
        given = bound(placement.accept(X, "assign", reading_of(self.model, entry_weight, uncertainty)))
        dense = np.asarray(self.encoder.rows(placement.open(given, self.encoder.objective.mean)))
        return assigned(self.encoder, given, placement, dense, uncertainty is not None)

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
        names = ", ".join(loss.name for loss in self.losses)
        return f"{first}{'So far ' if first else ''}{count} stable components of {self.rank}, under {names}."


def discover(
    X: Any,
    model: Parameters | None = None,
    *,
    ranks: Iterable[int] | int | None = None,
    n_runs: int = 20,
    resample: str | None = "auto",
    heavy: str = "auto",
    threshold: float = 0.6,
    reference: Any = None,
    reference_names: Iterable[str] | None = None,
    keep: bool = False,
    entry_weight: Any = None,
    uncertainty: Any = None,
    groups: Iterable[Any] | None = None,
    callback: Callable[[Moment], Any] | None = None,
) -> Discovery:
    """Find how many components X has, under which noise, and which of them come again in every run.

    Noise (`noise_profile`) and rank are found in turn until both stand. Ranks are judged by entries held out of a few
    runs: of those within one standard error of the best the one with most stable components is taken. The components
    are the consensus of `n_runs` runs at that rank.

    Parameters
    ----------
    X : array or SciPy sparse matrix of shape (m, n), nonnegative
        Components are profiles over the columns; for profiles over the rows give X.T.
    model : estimator, optional
        What every run fits; None is ``BetaNMF(beta="auto")``. "auto" takes the loss of the noise, with uncertainties
        2, whose weights they are; several losses are fitted as `DRNMF` does. Penalties hold in all runs and in the
        contributions; ``Sparsity("auto", on="W")`` makes contributions as sparse as held-out entries ask for, and the
        rank is then searched under it. Its `random_state` is the seed of everything (None is 0), its `max_time` is for
        all stages, its `n_jobs` counts runs side by side, and the folder `checkpoint` of its solver keeps finished
        runs. Where it leaves them to the library, max_iter is 500 and tol 1e-5.
    ranks : iterable of int, or int
        What may be tried, at most min(m, n); None is 2 to 30, or 1 where the rows of X are multiples of one another. Of
        such X the smallest is taken.
    n_runs : int, at least 2
        Runs of the consensus. Nothing is called stable on the word of fewer than four.
    resample : {"auto", None, "poisson", "bootstrap", "uncertainty"}
        What each run sees; "auto" draws X again by its uncertainties where those are given ("uncertainty": X + U z, cut
        off at zero), counts with X as their mean ("poisson"), and rows of other data ("bootstrap"). What it became is
        in `resample` of the result; None is X itself, and then intervals say nothing of the noise.
    heavy : {"auto", "keep", "cap"}
        "cap" scales rows down that weigh more than ten times the median row, while components are sought; their
        contributions are those of X. "auto" does so where held-out entries of X are then predicted better.
    threshold : float
        Stability that a component needs.
    reference : array or DataFrame of shape (s, n), optional
        Known components; see `match`.
    reference_names : iterable of str, optional
    keep : bool
        Keep those known components that some rows of X need (`assign`) as they are in every run, and find others beside
        them. Ranks count both; None is no new one to ten.
    entry_weight, uncertainty : as in `BetaNMF.fit`
    groups : iterable of m labels, optional
        The group of every row: kinds of samples, sites, instruments. Components that few rows hold are looked for in
        every group and over all, and kept where they were found twice or held-out entries of their group ask for them.
    callback : callable, optional
        Called with a `Moment` after every run.

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
    model = _discovered(model)
    if keep and (reference is None or groups is not None):
        raise ValueError("keep=True keeps known components: give them as reference, and no groups beside them.")
    if groups is not None or keep:
        find = partial(discover, n_runs=n_runs, resample=resample, heavy=heavy, threshold=threshold, callback=callback)
        weights, names = {"entry_weight": entry_weight, "uncertainty": uncertainty}, _listed(reference_names)
        search = in_groups if groups is not None else beside_known
        together: Discovery = search(find, X, model, groups, ranks, weights, reference, names)
        return together
    betas, random_state, solver = asked_losses(model), model.random_state or 0, as_solver(model.solver)
    seed = check_integer("random_state", random_state, 0)
    jobs, control = count_jobs(model.n_jobs), control_of(model)
    schedule, terms = Schedule({}, control.max_time, None), terms_of(model)
    parameters = replace(
        model, penalties=decided(terms, ()), n_jobs=None, verbose=0, solver=Solver(update=solver.update)
    )
    losses = None if isinstance(betas, str) and betas == "auto" else as_interval(betas) or as_losses(betas)
    placement = place(X, None, "float32")
    given = placement.accept(X, "discover", reading_of(model, entry_weight, uncertainty))
    if isinstance(given.observed, HeldOut):
        given = replace(given, observed=given.observed.bind(given.X.shape))
    remarks, given = given.notes, replace(given, notes=())  # said once, and not by every run
    X = given.X
    if losses is None and (uncertainty is not None or given.signed):
        losses = as_losses(2)
    refuse_signed(given, losses if isinstance(losses, tuple) else ())
    if not float(X.max() if sp.issparse(X) else np.nanmax(X)) > 0:
        raise ValueError("X is all zeros: it has no components.")
    tried = check_ranks(ranks, X.shape)
    alike = one_component(X)
    if alike:
        tried = (1,) if ranks is None else tried[:1]
    how = _resampling(resample, given, uncertainty is not None)
    if reference is not None:  # labels and shapes that do not fit are refused before hours of work
        match(np.ones((1, X.shape[1])), reference, names=_listed(reference_names))
    settings = {
        "ranks": list(tried), "betas": "auto" if losses is None else _texts(losses), "resample": how, "heavy": heavy,
        "max_iter": control.max_iter, "tol": control.tol, "zeros": model.zeros, "random_state": seed,
        "threshold": threshold, "init": model.init, "n_init": model.n_init, "negatives": model.negatives,
        "unstored": model.unstored, "update": described(solver.update),
    }  # fmt: skip
    if parameters.fixed is not None:
        settings["fixed"] = np.asarray(parameters.fixed).tolist()
    if terms:
        settings["penalties"] = [term.key for term in terms]
    seeds = draw_seeds(seed, max(n_runs, RUNS_PER_RANK))
    with shown(model.verbose) as show, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of single runs: what matters is in the notes
        factors = None if heavy == "keep" else cap_factors(X)
        judge = heavy == "auto" and factors is not None and given.observed is None
        auto = tuple(term for term in terms if term.alpha == "auto")
        schedule.take(plan(tried, n_runs, losses is None, judge, len(auto)), _both(show, callback))
        data = placement.open(given)
        identity = {"X": data.digest(), **settings}
        with Store(solver.checkpoint, identity) as store:
            stages = Stages(
                X,
                losses,
                tried,
                n_runs,
                threshold,
                schedule,
                [],
                [*remarks, *([ONE_COMPONENT] if alike else [])],
                unstored=model.unstored,
            )
            capped, facts, known = (
                factors if heavy == "cap" else None,
                facts_of(counted(given)),
                uncertainty is not None,
            )
            fitter = Fitter(given, placement, parameters, losses or (KL,), how, facts, capped, known)
            pool, table, noise = stages.settle(RunPool(fitter, store, schedule, seeds, jobs), seed, bool(auto))
            pool = stages.heavy(pool, table, factors) if judge else pool
            pool, table = stages.penalise(pool, table, auto) if auto else (pool, table)
            runs, found, table = stages.consensus(pool, table)
        fitter = replace(pool.fitter, given=given)
        return _assembled(fitter, data, stages, noise, table, runs, found, reference, _listed(reference_names))


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
    return settled_budget(model, MAX_ITER, TOLERANCE)


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


def _resampling(resample: str | None, given: Received, uncertain: bool) -> str | None:
    """Choose what each run sees; weights belong to their rows, which the bootstrap would tear apart."""
    if resample is None:
        return None
    check_choice("resample", resample, ("auto", *RESAMPLINGS, UNCERTAINTY))
    weighted = given.observed is not None
    if resample == UNCERTAINTY and not uncertain:
        raise ValueError('resample="uncertainty" draws X by the uncertainties of its entries: give uncertainty.')
    if resample == "auto" and uncertain:
        return UNCERTAINTY
    if resample == "auto":
        return "poisson" if facts_of(given.X).unit == 1.0 else None if weighted else "bootstrap"
    if resample == "bootstrap" and weighted:
        raise ValueError('resample="bootstrap" draws rows of X, which have weights here: use "poisson" or None.')
    return resample


def _texts(losses: Any) -> Any:
    """Write losses for the identity of what is kept; one of the caller's own by its key."""
    if isinstance(losses, Interval):
        return str(losses)
    return [text_of(loss) if isinstance(loss, Beta | NegativeBinomial) else loss.key for loss in losses]


def _listed(names: Iterable[str] | None) -> list[str] | None:
    return None if names is None else [str(name) for name in names]


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


def _assembled(
    fitter: Fitter, data: Data, stages: Stages, noise: NoiseProfile | None, table: list[Tried], runs: list[Run],
    found: Consensus, reference: Any, names: list[str] | None,
) -> Discovery:  # fmt: skip
    """W under the losses of the best run and the penalties, components by size, partners, residuals."""
    best, schedule, parameters = min(runs, key=lambda run: run.error), stages.schedule, fitter.parameters
    before, control, terms = schedule.seconds, control_of(parameters), terms_of(parameters)
    encoder = Encoder(
        found.components.astype(best.H.dtype), _objective(data, best, terms), best.weights,
        control.max_iter, control.tol, checked(parameters, "zeros"), "discover", np.zeros(len(found.stability)),
    )  # fmt: skip
    W, cut = contributions(encoder, fitter.given, fitter.placement, schedule)
    if cut:
        stages.missing.append(f"the contributions of {cut} rows were still moving")
    dense = W
    W = _few_causes(encoder, fitter, stages, dense)
    order = np.argsort(-W.sum(axis=0, dtype=np.float64), kind="stable")
    found, W, dense = found.reordered(order), W[:, order], dense[:, order]
    encoder = replace(encoder, components=encoder.components[order], mean_row=dense.mean(axis=0))
    worst = best.omega[int(np.argmax(best.losses / best.references))]
    misfit = residuals(fitter.given.X, W, found.components, worst)
    schedule.advance(LAST, (1.0 - FOR_W) * schedule.planned(LAST), "residuals")
    stages.ended(LAST, before, not cut)
    ended = sum(run.whole for run in runs)
    stable = (found.stability >= stages.threshold) & (ended >= LEAST_RUNS)
    return Discovery(
        found.components, W, found.stability, stable, found.interval, found.spread, len(found.stability), best.omega,
        noise, rows_of(table, stages.threshold) if table else [],
        None if reference is None else match(found.components, reference, names=names),
        misfit, sorted(runs, key=lambda run: run.error), stages.done, stages.interrupted, tuple(stages.missing),
        parameters.max_time, fitter.resample, schedule.seconds, _notes(stages, noise, found, ended, fitter.resample),
        tuple(term.key for term in terms), stages.paths, dense, encoder, parameters,
    )  # fmt: skip


def _few_causes(encoder: Encoder, fitter: Fitter, stages: Stages, dense: Array) -> Array:
    """Contributions with real zeros, as far as there is time."""
    X, schedule = fitter.given.X, stages.schedule
    if not (isinstance(X, np.ndarray) or sp.issparse(X)) or X.shape[0] * X.shape[1] > MOST_ASSIGNED:
        stages.notes.append("X is large: its contributions hold all components in every row. assign finds few of each.")
        return dense
    W, left = assigned_in_time(
        supports_of(encoder, fitter.given, fitter.placement, dense, fitter.known), dense, lambda: schedule.left <= 0
    )
    if left:
        stages.missing.append(f"the contributions of {left} rows still hold all components")
    return W


_SEEN = {
    None: "Every run saw X itself: intervals say how far runs differ, and nothing of the noise.",
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
    if not (found.stability >= stages.threshold).any():
        return (*notes, f"No component reaches the stability of {stages.threshold:g}: there is nothing to trust here.")
    return notes
