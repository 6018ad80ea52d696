r"""Which noise? The losses already know: C(beta) at the single-objective solutions, with warm starts along beta.

A beta-divergence is half a Tweedie unit deviance, variance = phi mu^(2 - beta): Gaussian for beta = 2, Poisson for 1,
Gamma for 0. See `likelihood` for the criterion.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from drnmf.algorithms.initialize import Start
from drnmf.algorithms.result import Result
from drnmf.losses.base import Omega
from drnmf.losses.beta import KL, Beta
from drnmf.losses.interval import Interval, as_interval
from drnmf.losses.names import as_losses, lacks_size
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import checked
from drnmf.parameters.solver import as_solver
from drnmf.problem.device import place
from drnmf.problem.problem import Problem, reference_floors
from drnmf.problem.receive import Received
from drnmf.problem.weights import Reading
from drnmf.selection.counts import negative_binomial
from drnmf.selection.entries import Facts, bound, counted, facts_of, mostly_zero, near_one, sampled, weighs_one
from drnmf.selection.held_out import Compared, Scores, Split, check_fraction, compare, mask_seed, too_few_to_hold_out
from drnmf.selection.likelihood import Candidate, half_log_sums
from drnmf.selection.slope import residual_slope
from drnmf.selection.walk import Walk, grown
from drnmf.selection.words import describe, structured
from drnmf.solve.pipeline import running
from drnmf.solve.runner import Runner
from drnmf.solve.settings import check_model, only_compared, problem_of, reading_of

BETAS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
"""The grid, from Gamma over Poisson to Gaussian."""

LEAST_BETA = 0.1
"""What stands for beta = 0 where X has zeros, under which the Itakura-Saito divergence is infinite."""

RARE = 0.01
"""Share of zeros below which they are no reason to leave beta = 0 out of a set that excludes nothing."""

MAX_ITER, TOLERANCE = 1000, 1e-5
"""Iterations of fits that are only compared, where they are left to the library, and their least tolerance."""

HELD_OUT = 0.1
"""Share of the entries that fits leave out to be scored."""

STRUCTURE = 0.5
"""Share of the held-out loss that twice the components explain, above which what is left is structure, not noise."""

EXACT = 1e4
"""A loss below this many floors (1e-16 of the constant model's loss) is rounding: the fit is exact."""


@dataclass(frozen=True)
class NoiseProfile:
    """What X says about its noise.

    Attributes
    ----------
    best : float or NegativeBinomial
        The loss to fit with: the smallest criterion of all candidates (of their held-out scores where X is mostly
        zeros).
    beta : float
        The best beta-divergence alone.
    interval : tuple of float
        The betas that held-out entries cannot tell from the best: within one standard error of it. All of them where
        `structure` exceeds one half: what is left is then not noise, and cannot name the loss. Beta = 0 is then among
        them where less than 1 % of X is zero, although the comparison had 0.1 in its place.
    table : list of dict
        One row for each candidate: name, beta (NaN for the negative binomial), loss (D), criterion (C), held_out
        (difference to the best by held-out entries, per entry), standard_error (of that difference), within (whether it
        is within one standard error).
    slope : float
        Slope of log squared residual against log fitted value: about 2 - beta.
    structure : float
        Share of the loss of held-out entries that twice the components explain: near zero, or below, where only noise
        is left; NaN where it was not looked at.
    notes : tuple of str
    solutions : dict
        Candidate's name -> (W, H), for the rows and columns of X that were looked at.
    unfinished : tuple of str
        Names of the candidates whose fits `max_time` ended.
    """

    best: float | NegativeBinomial
    beta: float
    interval: tuple[float, ...]
    table: list[dict[str, Any]]
    slope: float
    structure: float = math.nan
    notes: tuple[str, ...] = ()
    solutions: dict[str, Start] = field(default_factory=dict, repr=False)
    unfinished: tuple[str, ...] = ()

    @property
    def losses(self) -> tuple[float, ...] | Interval:
        """What the data cannot tell apart, as `DRNMF` takes it: an Interval, or the one beta."""
        low, high = min(self.interval), max(self.interval)
        return Interval(low, high) if low < high else (low,)


@dataclass(frozen=True)
class Fitted:
    """A candidate at its solution.

    Attributes
    ----------
    candidate : the loss, read as a distribution
    run : its fit
    loss, criterion : D and C there
    exact : whether D is nothing but rounding
    """

    candidate: Candidate
    run: Result
    loss: float
    criterion: float
    exact: bool

    def magnified(self, power: int, count: int) -> Fitted:
        """Return the same at X times 2^power: the criteria of so many entries all shift by the same."""
        half, loss = 2.0 ** (power // 2), self.candidate.loss
        run = replace(self.run, W=self.run.W * half, H=self.run.H * half)
        with np.errstate(over="ignore", under="ignore"):
            value = float(np.exp2(np.log2(self.loss) + power * loss.degree))
        shifted = self.criterion + count * power * math.log(2.0)
        return Fitted(self.candidate.magnified(power), run, value, shifted, self.exact)


def noise_profile(
    model: Parameters,
    X: Any,
    *,
    betas: Iterable[float] | Interval | str | None = None,
    held_out: float = HELD_OUT,
    entry_weight: Any = None,
    uncertainty: Any = None,
) -> NoiseProfile:
    """Compare losses by how likely they make X, each at a factorisation of its own.

    Parameters
    ----------
    model : an estimator, for example ``BetaNMF(5)``. Its rank, starts, tolerances, update rule and device are used, not
        its losses, penalties and constraints. Where it leaves them to the library, max_iter is 1000; tol is 1e-5 at
        least. Its max_time is for all fits together; those that it ends are named in `unfinished`
    X : as in `BetaNMF.fit`
    betas : numbers >= 0, or an Interval (nine betas of it); None is 0, 0.25, ..., 2, without 0 where X has zeros, and
        where X holds counts Poisson with its variance fixed and the negative binomial too, for which
        ``NegativeBinomial("auto")`` among the betas asks
    held_out : share of the entries that are left out of a second round of fits and scored; 0 skips that round, which
        costs as much as the first, and the interval is the best beta alone
    entry_weight, uncertainty : as in `BetaNMF.fit`; a weight divides the variance of its entry. Models of counts are
        compared only where every observed entry weighs one

    Returns
    -------
    profile : NoiseProfile

    Notes
    -----
    Of more than 200,000 entries (on a host) so many are looked at: rows and columns chosen by a hash of the seed.

    Raises
    ------
    ValueError
        For bad X or parameters.

    Examples
    --------
    >>> from drnmf import BetaNMF
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.gamma(0.5, size=(40, 3)) @ rng.gamma(0.5, size=(3, 50)) * 100)
    >>> noise_profile(BetaNMF(3, random_state=0), X, held_out=0).beta
    1.0
    """
    check_model(model, "noise_profile")
    return compare_losses(model, X, reading_of(model, entry_weight, uncertainty), betas, held_out, betas is None)


def compare_losses(
    model: Parameters, X: Any, reading: Reading, betas: Any, held_out: float, count_models: bool = True
) -> NoiseProfile:
    """Compare losses as `noise_profile` does, and models of counts where they are asked for."""
    loose = 0.0 if model.tol == 0 else max(checked(model, "tol") or 0.0, TOLERANCE)
    start = "random" if model.init == "custom" else model.init
    parameters = only_compared(replace(model, tol=loose), MAX_ITER, TOLERANCE, init=start)
    solver, random_state = as_solver(parameters.solver), parameters.random_state
    placement = place(X, parameters.device, solver.precision)
    given, remark = _looked_at(placement.accept(X, "noise_profile", reading), parameters)
    given, power = near_one(given)
    entries = counted(given)
    facts = facts_of(entries)
    betas, sized = _without_size(betas)
    count_models = count_models or sized
    if sized and (facts.unit is None or not weighs_one(given)):
        raise ValueError("betas asks for the size of a negative binomial, but X does not hold counts of weight one.")
    omega = losses_to_try(betas, facts)
    fraction = check_fraction(held_out)
    runs = (checked(parameters, "n_init") + len(omega) + 2) * (2 if fraction else 1)
    problem = problem_of(parameters, placement.open(given), omega, given)
    with running(problem, Runner.of(solver.update, "auto", placement.gpu), parameters, runs) as runner:
        walk, starts = Walk(problem, runner), [problem.outside(start) for start in runner.starts]
        fits = [(Candidate(loss), run) for loss, run in zip(omega, walk.along(omega, starts), strict=True)]
        if count_models and facts.unit is not None and weighs_one(given):
            fits += _count_models(entries, walk, facts, fits)
        fitted = judged(entries, walk, facts, fits)
        slope = residual_slope(walk.data, _best(fitted).run)
        listed = [one.candidate for one in fitted]
        held, remarks = _held_out(problem, facts, starts, runner, listed, fraction, random_state)
    if power:
        fitted, facts = [one.magnified(power, facts.effective) for one in fitted], facts.magnified(power)
    profile = _profile(facts, fitted, slope, held, (*problem.notes, *remark, *remarks))
    return replace(profile, unfinished=tuple(f.candidate.name for f in fitted if f.run.reason == "max_time"))


def _looked_at(given: Received, parameters: Parameters) -> tuple[Received, tuple[str, ...]]:
    """Take some rows and columns of a large X, and say so."""
    given = bound(given)
    some = sampled(given, checked(parameters, "n_components"), mask_seed(parameters.random_state))
    if some.X.shape == given.X.shape:
        return given, ()
    (m, n), (rows, columns) = given.X.shape, some.X.shape
    return some, (f"Losses were compared on {rows} of {m} rows and {columns} of {n} columns of X.",)


@dataclass(frozen=True)
class Held:
    """What held-out entries say: the candidates by their scores, and the share of structure in what is left."""

    compared: Compared
    structure: float


def _held_out(
    problem: Problem, facts: Facts, starts: list[Start], runner: Runner, listed: list[Candidate], fraction: float,
    seed: Any,
) -> tuple[Held | None, tuple[str, ...]]:  # fmt: skip
    """Fit every candidate without some entries and compare the scores of those."""
    if not fraction:
        return None, ()
    too_few = too_few_to_hold_out(facts, problem.data.shape, problem.rank, fraction)
    if too_few:
        return None, too_few
    split = Split.of(problem.given.X, facts, problem.data, fraction, mask_seed(seed), problem.observed)
    walk = Walk(problem.without(split.mask.others), runner)
    omega = tuple(candidate.loss for candidate in listed if candidate.dispersion is None)
    runs = dict(zip(omega, walk.along(omega, starts), strict=True))
    for candidate in listed:
        if candidate.loss not in runs:
            near = runs[min(runs, key=lambda loss: abs(loss.beta - 1.0))]
            runs[candidate.loss] = walk.near(candidate.loss, (near.W, near.H))
    compared = compare([split.score(walk.data, candidate, runs[candidate.loss]) for candidate in listed])
    best = listed[compared.best]
    structure = _structure(split, walk, best, runs[best.loss], compared.scores[compared.best], mask_seed(seed))
    return Held(compared, structure), ()


def _structure(split: Split, walk: Walk, candidate: Candidate, run: Result, scores: Scores, seed: int) -> float:
    """Compute the share of the held-out loss that twice the components explain; 0 where X is too small for them.

    The median over blocks of columns: no heavy column rules.
    """
    (m, n), rank = walk.data.shape, run.H.shape[0]
    most = [k for k in range(rank + 1, min(2 * rank, m, n) + 1) if 2 * k * (m + n - k) <= walk.data.count]
    if not most:
        return 0.0
    start = grown(walk.data, (run.W, run.H), most[-1], np.random.RandomState(seed))
    more = split.score(walk.data, candidate, walk.near(candidate.loss, start))
    assert scores.losses is not None
    assert more.losses is not None
    used = scores.losses > 0
    return 1.0 - float(np.median(more.losses[used] / scores.losses[used])) if used.any() else 0.0


def _without_size(betas: Any) -> tuple[Any, bool]:
    """Take the negative binomial of a size yet to be found out of the betas, and say whether it was among them."""
    if not lacks_size(betas):
        return betas, False
    several = betas if isinstance(betas, Iterable) and not isinstance(betas, str) else (betas,)
    return tuple(loss for loss in several if not lacks_size(loss)) or (1.0,), True


def losses_to_try(betas: Any, facts: Facts) -> Omega:
    """List the beta-divergences to compare, in the order of their betas."""
    if betas is None:
        return tuple(Beta(LEAST_BETA if beta == 0 and facts.zeros else beta) for beta in BETAS)
    interval = as_interval(betas)
    if interval is not None:
        return tuple(Beta(beta) for beta in np.linspace(interval.low, interval.high, len(BETAS)).tolist())
    omega = as_losses(betas)
    others = [loss.name for loss in omega if not isinstance(loss, Beta)]
    if others:
        raise ValueError(f"betas names {others[0]}: give numbers; betas=None adds the models of counts.")
    return tuple(sorted(omega, key=lambda loss: loss.beta))


def _count_models(
    X: Any, walk: Walk, facts: Facts, fits: list[tuple[Candidate, Result]]
) -> list[tuple[Candidate, Result]]:
    """Poisson at the Kullback-Leibler solution, and the negative binomial from the most likely fit so far."""
    kl = min(fits, key=lambda fit: abs(fit[0].loss.beta - 1.0))[1]
    if kl.omega != (KL,):
        kl = walk.near(KL, (kl.W, kl.H))
    near = _best(judged(X, walk, facts, fits)).run
    return [(Candidate(KL, facts.unit), kl), negative_binomial(X, walk, facts, near)]


def judged(X: Any, walk: Walk, facts: Facts, fits: list[tuple[Candidate, Result]]) -> list[Fitted]:
    """Compute the criterion of every candidate at its solution."""
    listed = [candidate for candidate, _ in fits]
    floors = reference_floors(walk.data, tuple(candidate.loss for candidate in listed))
    sums = half_log_sums(X, facts, listed)
    found = []
    for (candidate, run), floor, half_log in zip(fits, floors, sums, strict=True):
        loss = max(float(run.losses[0]), float(floor))
        criterion = candidate.criterion(loss, max(facts.effective, 1), float(half_log))
        found.append(Fitted(candidate, run, loss, criterion, loss <= EXACT * floor))
    return found


def _best(fitted: list[Fitted]) -> Fitted:
    return min(fitted, key=lambda one: one.criterion)


def _profile(
    facts: Facts, fitted: list[Fitted], slope: float, held: Held | None, notes: tuple[str, ...]
) -> NoiseProfile:
    """Read the answer off the candidates; where nothing is left over there is no noise to learn from."""
    compared, structure = (None, math.nan) if held is None else (held.compared, held.structure)
    table = _table(fitted, compared)
    solutions = {one.candidate.name: (one.run.W, one.run.H) for one in fitted}
    (m, r), n = fitted[0].run.W.shape, fitted[0].run.H.shape[1]
    if any(one.exact for one in fitted) or facts.effective <= r * (m + n - r):
        notes += ("The fit is exact: X holds no noise to learn from at this rank, and beta = 1 is taken.",)
        return NoiseProfile(1.0, 1.0, (1.0,), table, slope, structure, notes, solutions)
    key = "held_out" if compared is not None and mostly_zero(facts) else "criterion"
    best = min(range(len(table)), key=lambda i: table[i][key])
    single = [i for i in range(len(table)) if fitted[i].candidate.dispersion is None]
    first = min(single, key=lambda i: table[i][key])
    loss, beta = fitted[best].candidate.loss, float(table[first]["beta"])
    chosen = loss if isinstance(loss, NegativeBinomial) else float(loss.beta)
    notes += describe(facts, beta, slope, table[best]["name"]) + structured(structure, r, structure > STRUCTURE)
    if structure > STRUCTURE:
        interval, more = everything([float(table[i]["beta"]) for i in single], facts)
        return NoiseProfile(chosen, beta, interval, table, slope, structure, notes + more, solutions)
    near = [] if compared is None else compared.among(single)
    interval = tuple(sorted({beta, *(float(table[single[i]]["beta"]) for i in near)}))
    return NoiseProfile(chosen, beta, interval, table, slope, structure, notes, solutions)


def everything(betas: list[float], facts: Facts) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Exclude no beta, 0 neither where only its zeros kept it out of the comparison and they are rare."""
    if betas[0] != LEAST_BETA or not 0 < facts.zeros <= RARE * facts.count:
        return tuple(betas), ()
    share = 100.0 * facts.zeros / facts.count
    note = f"Beta = 0 is not excluded either: only {share:.2g} % of X is zero, and a fit floors them."
    return (0.0, *betas[1:]), (note,)


def _table(fitted: list[Fitted], compared: Compared | None) -> list[dict[str, Any]]:
    rows = []
    for i, one in enumerate(fitted):
        row = {"name": one.candidate.name, "beta": one.candidate.loss.beta}
        row |= {"loss": one.loss, "criterion": one.criterion}
        row["held_out"] = math.nan if compared is None else float(compared.differences[i])
        row["standard_error"] = math.nan if compared is None else float(compared.errors[i])
        row["within"] = compared is not None and compared.within[i]
        rows.append(row)
    return rows
