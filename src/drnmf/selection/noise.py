"""Which noise? Every candidate at a factorisation of its own, scored by entries that the fits have not seen.

A beta-divergence is half a Tweedie unit deviance, variance = phi mu^(2 - beta): Gaussian for beta = 2, Poisson for 1,
Gamma for 0. See `masses` for what each makes of an entry, and `choose` for how they are compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from drnmf.algorithms.initialize import Start
from drnmf.algorithms.result import Result
from drnmf.losses.base import Loss, Omega, is_unsized
from drnmf.losses.beta import KL, Beta
from drnmf.losses.interval import Interval, as_interval
from drnmf.losses.names import as_loss, as_losses
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.numerics import Entries, MatrixLike
from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import check_integer, checked
from drnmf.parameters.solver import as_solver
from drnmf.problem.device import place
from drnmf.problem.problem import Problem, reference_floors
from drnmf.problem.receive import Received
from drnmf.problem.weights import Reading, WeightsLike, reading_of
from drnmf.selection.choose import (
    Candidate,
    Rows,
    candidates,
    choose_noise,
    describe,
    holds_counts,
    likeliest,
    no_wider_than_poisson,
    outlying,
    structured,
)
from drnmf.selection.entries import Facts, accepted, counted, facts_of, near_one, sampled, sampled_modes
from drnmf.selection.folds import HELD_OUT, Fold, check_fraction, count_parameters, mask_seed, too_few_to_hold_out
from drnmf.selection.intervals.scatter import held_by_few
from drnmf.selection.likelihood.masses import NegativeBinomialNoise
from drnmf.selection.likelihood.scores import DRAWS, Scores, compare, corrected_size, drawn, joined, likely_size
from drnmf.selection.stages.residuals import binned_slope
from drnmf.selection.warm_starts import fit_all, fit_along, grown, in_unit_of_X, on_host
from drnmf.solve.pipeline import running
from drnmf.solve.runner import Runner
from drnmf.solve.settings import ask, check_model, only_compared

BETAS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
"""The grid, from Gamma over Poisson to Gaussian."""

Betas = Iterable[float | str | Loss] | Interval | str | None
"""What users may name as losses to compare; None leaves it to X."""

LEAST_BETA = 0.1
"""What stands for beta = 0 where X has zeros, under which the Itakura-Saito divergence is infinite."""

RARE = 0.01
"""Share of zeros below which they are no reason to leave beta = 0 out of a set that excludes nothing."""

MAX_ITER, TOLERANCE = 1000, 1e-5
"""Iterations of fits that are only compared, where they are left to the library, and their least tolerance."""

MASKS, SMALL = 4, 20_000
"""How often entries are held out of an X with so many, other ones each time; of a larger one half as often."""

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
        The loss to fit with: that of the likeliest noise, or of a simpler one that is within two standard errors of it.
    beta : float
        The best beta-divergence alone.
    interval : tuple of float
        The betas that held-out entries cannot tell from the best: within one standard error of it. All of them where
        `structure` exceeds one half: what is left is then not noise, and cannot name the loss. Beta = 0 is then among
        them where less than 1 % of X is zero, although the comparison had 0.1 in its place.
    table : list of dict
        One row for each candidate: name, beta (NaN for the negative binomial), loss (D), criterion (minus the
        log-likelihood, of all entries), held_out (difference to the best by held-out entries, per entry),
        standard_error (of that difference), within (whether it is within one standard error), parameter (phi, the size
        or the standard deviation that the scored entries have; NaN where nothing is free).
    slope : float
        Slope of log squared residual against log fitted value: about 2 - beta.
    structure : float
        Share of the loss of held-out entries that twice the components explain: near zero, or below, where only noise
        is left; NaN where it was not looked at.
    notes : tuple of str
    solutions : dict
        Candidate's name -> (W, H), for the rows and columns of X that were looked at, without the first entries that
        were held out.
    counts : bool
        Whether X says that it holds counts: a noise of counts is the likeliest, at a median mean below 30 units.
    unfinished : tuple of str
        Names of the candidates whose fits `max_time` ended.
    """

    best: float | NegativeBinomial
    beta: float
    interval: tuple[float, ...]
    table: Rows
    slope: float
    structure: float = math.nan
    notes: tuple[str, ...] = ()
    solutions: dict[str, Start] = field(default_factory=dict, repr=False)
    counts: bool = False
    unfinished: tuple[str, ...] = ()

    def magnified(self, power: int) -> NoiseProfile:
        """Return the same for X times 2^power, an even one."""
        if not power:
            return self
        half, best = 2.0 ** (power // 2), self.best
        table = [row | self._larger(row, power) for row in self.table]
        solutions = {name: (W * half, H * half) for name, (W, H) in self.solutions.items()}
        solutions = {row["name"]: solutions[old["name"]] for row, old in zip(table, self.table, strict=True)}
        notes = self.notes
        for row, old in zip(table, self.table, strict=True):
            notes = tuple(type(note)(note.replace(old["name"], row["name"])) for note in notes)
        best = _magnified(best, power) if isinstance(best, NegativeBinomial) else best
        return replace(self, best=best, table=table, solutions=solutions, notes=notes)

    @staticmethod
    def _larger(row: dict[str, Any], power: int) -> dict[str, object]:
        """What a row of the table says of X times 2^power; masses on a grid have no unit."""
        loss = as_loss("KL" if row["name"] == "Poisson" else row["name"])
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            larger = {key: float(np.exp2(np.log2(row[key]) + power * loss.degree)) for key in ("loss", "parameter")}
        name = _magnified(loss, power).name if isinstance(loss, NegativeBinomial) else row["name"]
        return larger | {"name": name}

    @property
    def losses(self) -> tuple[float, ...] | Interval:
        """What the data cannot tell apart, as `DRNMF` takes it: an Interval, or the one beta."""
        low, high = min(self.interval), max(self.interval)
        return Interval(low, high) if low < high else (low,)


def _magnified(loss: NegativeBinomial, power: int) -> NegativeBinomial:
    """Return the negative binomial of X times 2^power; a size beyond float64 is as good as its largest number.

    >>> _magnified(NegativeBinomial(30), 1)
    NegativeBinomial(size=60.0)
    """
    limits = np.finfo(np.float64)
    with np.errstate(over="ignore"):
        size = float(np.clip(np.ldexp(loss.size, power), limits.smallest_subnormal, limits.max))
    return NegativeBinomial(float(f"{size:.4g}") if size < limits.max else size)


def noise_profile(
    model: Parameters,
    X: MatrixLike,
    *,
    betas: Betas = None,
    held_out: float = HELD_OUT,
    entry_weight: WeightsLike = None,
    uncertainty: WeightsLike = None,
) -> NoiseProfile:
    """Compare losses by how likely they make X, each at a factorisation of its own.

    Parameters
    ----------
    model : an estimator, for example ``BetaNMF(5)``. Its rank, starts, tolerances, update rule and device are used, not
        its losses, penalties and constraints. Where it leaves them to the library, max_iter is 1000; tol is 1e-5 at
        least. Its max_time is for all fits together; those that it ends are named in `unfinished`
    X : as in `BetaNMF.fit`, or in `CP.fit` where that is the model
    betas : numbers >= 0, or an Interval (nine betas of it); None is 0, 0.25, ..., 2, without 0 where X has zeros, and
        where X holds counts Poisson with its variance fixed and the negative binomial too, for which
        ``NegativeBinomial("auto")`` among the betas asks: alone, "nb:auto", it compares noises of counts only (Poisson,
        Kullback-Leibler, negative binomial)
    held_out : share of the entries that are left out of the fits and scored, four times (of a large X twice); 0 scores
        the entries that were fitted
    entry_weight, uncertainty : as in `BetaNMF.fit`; a weight says how often its entry counts, an uncertainty is its
        standard deviation, under which all losses are then compared

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
    model, X, entry_weight, uncertainty = model.unfolded(X, entry_weight, uncertainty)
    return compare_losses(model, X, reading_of(model, entry_weight, uncertainty), betas, held_out)


def compare_losses(model: Parameters, X: Entries, reading: Reading, betas: Betas, held_out: float) -> NoiseProfile:
    """Open X, and compare losses as `noise_profile` does."""
    solver = as_solver(model.solver)
    placement = place(X, model.device, solver.precision)
    received = accepted(placement, X, "noise_profile", reading)
    few, columns = _looked_at(received, model, model.column_modes)
    opened, runner = Problem.opened(placement.open(few), few, columns), Runner.of(solver.update, "auto", placement.gpu)
    return read_noise(opened, model, runner, betas=betas, held_out=held_out, of=received.X.shape)


def read_noise(
    opened: Problem,
    model: Parameters,
    runner: Runner,
    *,
    betas: Betas = None,
    held_out: float = HELD_OUT,
    counts: bool | None = None,
    of: tuple[int, int] | None = None,
) -> NoiseProfile:
    """Compare losses on X that is open already, by the rank, starts and tolerances of the model.

    `counts` says whether X holds counts: True compares noises of counts alone, False all others, None lets the data
    say. `of` is the shape of the whole X, where some of it was opened.
    """
    loose = 0.0 if model.tol == 0 else max(checked(model, "tol") or 0.0, TOLERANCE)
    start = "random" if model.init == "custom" else model.init
    parameters = only_compared(replace(model, tol=loose), MAX_ITER, TOLERANCE, init=start)
    looked_at, columns = _looked_at(opened.given, parameters, opened.columns)
    received, power = near_one(looked_at)
    whole, known = of or opened.data.shape, received.known
    if received is not opened.given:
        opened = replace(opened, given=received, columns=columns).drawn(received.X)
    facts, (betas, sized) = facts_of(counted(received)), _without_size(betas)
    uncounted = facts.unit is None or known
    if sized and uncounted:
        raise ValueError("betas asks for the size of a negative binomial, but X does not hold counts (multiples of u).")
    if counts and uncounted:
        raise ValueError("counts=True, but X does not hold counts (multiples of one unit, each of weight one).")
    omega = losses_to_try((1.0,) if counts and betas is None else betas, facts)
    fraction, rank = check_fraction(held_out), check_integer("n_components", parameters.n_components, 1)
    few = too_few_to_hold_out(facts, opened.shape, rank, fraction) if fraction else ()
    fraction = 0.0 if few else fraction
    runs = (checked(parameters, "n_init") + len(omega) + 2) * masks_of(facts, fraction)
    problem = ask(opened, parameters, omega)
    models = (counts or sized or (counts is None and betas is None)) and not uncounted
    with running(problem, runner, parameters, runs) as runner:
        asked = NoiseQuestion(problem, facts, runner, mask_seed(parameters.random_state), fraction, counts)
        return asked.profile(omega, models, (*_sampled(whole, received.X.shape), *few)).magnified(power)


def masks_of(facts: Facts, fraction: float) -> int:
    """Say how often entries are held out."""
    return 1 if not fraction else MASKS if facts.count <= SMALL else MASKS // 2


def _looked_at(received: Received, model: Parameters, columns: tuple[int, ...]) -> tuple[Received, tuple[int, ...]]:
    """Take some rows and columns of a large X, of the unfolding of a tensor some indices of every mode."""
    rank, seed = check_integer("n_components", model.n_components, 1), mask_seed(model.random_state)
    return sampled_modes(received, columns, rank, seed) if columns else (sampled(received, rank, seed), ())


def _sampled(whole: tuple[int, int], some: tuple[int, int]) -> tuple[str, ...]:
    """Say that some rows and columns were looked at."""
    if some == whole:
        return ()
    (m, n), (rows, columns) = whole, some
    return (f"Losses were compared on {rows} of {m} rows and {columns} of {n} columns of X.",)


@dataclass(frozen=True)
class NoiseQuestion:
    """X, how it is fitted, and which entries are held out: what all candidates share."""

    problem: Problem
    facts: Facts
    runner: Runner
    seed: int
    fraction: float
    counts: bool | None = None

    @property
    def known(self) -> bool:
        """Whether the standard deviations of the entries are known."""
        return self.problem.given.known

    def profile(self, omega: Omega, counts: bool, notes: tuple[str, ...]) -> NoiseProfile:
        """Fit every loss on every fold, compare the noises, and read the answer off them."""
        seeds = range(self.seed, self.seed + masks_of(self.facts, self.fraction))
        folds = [Fold.of(self.problem.given, self.facts, self.fraction, seed) for seed in seeds]
        seen = [fold.problem(self.problem) for fold in folds]
        starts = [self.problem.outside(start) for start in self.runner.starts]
        runs: list[dict[Loss, Result]] = []
        for part in seen:
            runs.append(dict(zip(omega, fit_along(part, self.runner, omega, starts), strict=True)))
        size = self._with_counts(folds, seen, runs) if counts else None
        listed = candidates(omega, counts, size)
        fits = [{loss: (run.W, run.H) for loss, run in found.items()} for found in runs]
        chosen, scores, middle = choose_noise(folds, fits, listed, self.facts.unit, self.known)
        exact = self._exact(seen[0], runs[0])
        if size is not None and not exact:
            listed[-1] = Candidate(listed[-1].noise, NegativeBinomial(self._size(size, fits[0])))
            chosen = no_wider_than_poisson(listed, chosen, middle)
        best = candidates(omega, counts, size)[chosen]
        solutions = {
            one.name: runs[0][was.loss] for one, was in zip(listed, candidates(omega, counts, size), strict=True)
        }
        structure = self._structure(folds[0], seen[0], best.loss, runs[0][best.loss]) if self.fraction else math.nan
        x, mu = folds[0].entries(fits[0][best.loss], seen=bool(self.fraction))
        slope, notes = binned_slope(x, mu), (*self.problem.notes, *notes)
        if not (exact or self.known):
            likely = listed[chosen]
            whole = likely.counts and self.facts.unit is not None
            notes += outlying(*held_by_few(x, mu, likely.loss, self.facts.grid, whole), likely.name)
        compared = ComparedNoises(
            listed, scores, chosen, slope, structure, middle, exact, solutions, self.known, self.counts
        )
        return compared.profile(self.facts, notes)

    def _with_counts(self, folds: list[Fold], seen: list[Problem], runs: list[dict[Loss, Result]]) -> float:
        """Fit Kullback-Leibler, and the negative binomial of the size that scored entries have there."""
        for part, fitted in zip(seen, runs, strict=True):
            if KL not in fitted:
                near = fitted[min(fitted, key=lambda loss: abs(loss.beta - 1.0))]
                fitted[KL] = fit_all(part, self.runner.near(), KL, [(near.W, near.H)])[0]
        at = [
            fold.score(NegativeBinomialNoise(), (fitted[KL].W, fitted[KL].H), shrink=True)
            for fold, fitted in zip(folds, runs, strict=True)
        ]
        sized = NegativeBinomial(float(f"{joined(at).parameter:.4g}"))
        for part, fitted in zip(seen, runs, strict=True):
            fitted[sized] = fit_all(part, self.runner.near(), sized, [(fitted[KL].W, fitted[KL].H)])[0]
        return sized.size

    def _size(self, size: float, fits: dict[Loss, Start]) -> float:
        """Find the size that the fit of all entries should run under, corrected by draws of X."""
        unit, loss, problem = self.facts.unit, NegativeBinomial(size), self.problem
        assert unit is not None

        def found(of: Problem, X: Entries, start: Start) -> tuple[float, Start]:
            run = fit_all(of, self.runner.near(), loss, [start])[0]
            factors = on_host(of.data, (run.W, run.H))
            everywhere = Fold.of(Received(X), self.facts, 0.0, self.seed)
            return likely_size(*everywhere.entries(factors), self.facts.grid), factors

        first, (W, H) = found(problem, problem.given.X, fits[loss])
        V, again = W.astype(np.float64) @ H.astype(np.float64), list[float]()
        for seed in range(DRAWS):
            self.runner.budget.expect(1)
            X = drawn(V, first, unit, seed).astype(W.dtype)
            again.append(found(problem.drawn(X).asked(problem.rank, (loss,)), X, (W, H))[0])
        return float(f"{corrected_size(first, again):.4g}")

    def _exact(self, seen: Problem, runs: dict[Loss, Result]) -> bool:
        """Tell whether some loss is nothing but rounding, or X too small to leave anything over."""
        rank = next(iter(runs.values())).blocks[0].shape[0]
        data, losses = in_unit_of_X(seen), tuple(runs)
        # the floor of a constant X is nothing, and a fit of it off by what rounding moves every entry
        least = (
            data.count * (16.0 * np.finfo(np.float64).eps) ** 2 * data.mean ** np.array([loss.beta for loss in losses])
        )
        floors = np.fmax(EXACT * reference_floors(data, losses), least)
        rounding = any(float(run.losses[0]) <= floor for run, floor in zip(runs.values(), floors, strict=True))
        return rounding or self.facts.count <= count_parameters(seen.shape, rank)

    def _structure(self, fold: Fold, seen: Problem, loss: Loss, run: Result) -> float:
        """Compute the share of the held-out loss that twice the components explain; 0 where X is too small for them.

        The median over columns: no heavy column rules.
        """
        (m, n), rank, data = seen.data.shape, run.blocks[0].shape[0], in_unit_of_X(seen)
        ranks = range(rank + 1, min(2 * rank, m, n) + 1)
        most = [k for k in ranks if 2 * count_parameters(seen.shape, k) <= data.count]
        if not most:
            return 0.0
        more = grown(data, (run.W, run.H), most[-1], np.random.RandomState(self.seed), seen.columns)
        more_run = fit_all(seen, self.runner.near(), loss, [more])[0]
        before, after = (fold.losses(loss, (one.W, one.H)) for one in (run, more_run))
        used = before > 0
        return 1.0 - float(np.median(after[used] / before[used])) if used.any() else 0.0


@dataclass(frozen=True)
class ComparedNoises:
    """Candidates, their scores, and what was found beside them."""

    listed: list[Candidate]
    scores: list[Scores]
    chosen: int
    slope: float
    structure: float
    middle: float
    exact: bool
    runs: dict[str, Result]
    known: bool = False
    counts: bool | None = None

    def profile(self, facts: Facts, notes: tuple[str, ...]) -> NoiseProfile:
        """Read the answer off the candidates; where nothing is left over there is no noise to learn from."""
        table = self._table(facts)
        solutions = {name: (run.W, run.H) for name, run in self.runs.items()}
        unfinished = tuple(name for name, run in self.runs.items() if run.reason == "max_time")
        if self.exact:
            notes += ("The fit is exact: X holds no noise to learn from at this rank, and beta = 1 is taken.",)
            return NoiseProfile(
                1.0, 1.0, (1.0,), table, self.slope, self.structure, notes, solutions, unfinished=unfinished
            )
        single = [i for i, one in enumerate(self.listed) if isinstance(one.loss, Beta) and not one.counts]
        betas = [float(self.listed[i].loss.beta) for i in single]
        best = self.listed[self.chosen]
        first = single[likeliest([self.listed[i] for i in single], [self.scores[i] for i in single], self.known)]
        beta = 1.0 if best.loss == KL else float(self.listed[first].loss.beta)
        loss = best.loss if isinstance(best.loss, NegativeBinomial) else float(best.loss.beta)
        said, much = holds_counts(best, facts.unit, self.middle), self.structure > STRUCTURE
        counts = said if self.counts is None else self.counts
        rank = next(iter(solutions.values()))[1].shape[0]
        notes += describe(facts, beta, self.slope, best, counts, self.middle) + structured(self.structure, rank, much)
        near = [betas[k] for k, within in enumerate(compare([self.scores[i] for i in single]).within) if within]
        interval, more = everything(betas, facts) if much else (tuple(sorted({beta, *near})), ())
        notes += more
        return NoiseProfile(
            loss, beta, interval, table, self.slope, self.structure, notes, solutions, counts, unfinished
        )

    def _table(self, facts: Facts) -> Rows:
        compared = compare(self.scores)
        return [
            {
                "name": one.name,
                "beta": one.loss.beta,
                "loss": float(self.runs[one.name].losses[0]),
                "criterion": -scores.mean * facts.count,
                "held_out": float(compared.differences[i]),
                "standard_error": float(compared.errors[i]),
                "within": compared.within[i],
                "parameter": scores.parameter,
            }
            for i, (one, scores) in enumerate(zip(self.listed, self.scores, strict=True))
        ]


def _without_size(betas: Betas) -> tuple[Betas, bool]:
    """Take the negative binomial of a size yet to be found out of the betas, and say whether it was among them."""
    if not is_unsized(betas, NegativeBinomial):
        return betas, False
    several = betas if isinstance(betas, Iterable) and not isinstance(betas, str) else ()
    return tuple(loss for loss in several if not is_unsized(loss, NegativeBinomial)) or (1.0,), True


def losses_to_try(betas: Betas, facts: Facts) -> Omega:
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


def everything(betas: list[float], facts: Facts) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Exclude no beta, 0 neither where only its zeros kept it out of the comparison and they are rare."""
    if betas[0] != LEAST_BETA or not 0 < facts.zeros <= RARE * facts.count:
        return tuple(betas), ()
    share = 100.0 * facts.zeros / facts.count
    note = f"Beta = 0 is not excluded either: only {share:.2g} % of X is zero, and a fit floors them."
    return (0.0, *betas[1:]), (note,)
