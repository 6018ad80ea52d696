"""Which noise? Every candidate at a factorisation of its own, scored by entries that the fits have not seen.

A beta-divergence is half a Tweedie unit deviance, variance = phi mu^(2 - beta): Gaussian for beta = 2, Poisson for 1,
Gamma for 0. See `masses` for what each makes of an entry, and `choose` for how they are compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drnmf.algorithms.initialize import Start
from drnmf.algorithms.result import Result
from drnmf.algorithms.updates.base import Rule
from drnmf.backends.observed import HeldOut, weigh
from drnmf.fit.method import Method
from drnmf.fit.parameters import Parameters
from drnmf.fit.references import reference_floors
from drnmf.fit.road import Opened, opened
from drnmf.inputs.check import check_choice
from drnmf.inputs.device import Placement, place
from drnmf.inputs.receive import Received
from drnmf.inputs.weights import Reading
from drnmf.losses.base import Loss, Omega
from drnmf.losses.beta import KL, Beta
from drnmf.losses.interval import Interval, as_interval
from drnmf.losses.names import as_loss, as_losses, lacks_size
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.selection.choose import Candidate, candidates, holds_counts, likeliest, noise_scores
from drnmf.selection.entries import Facts, bound, counted, facts_of, sampled
from drnmf.selection.folds import HELD_OUT, Fold, check_fraction, mask_seed, too_few_to_hold_out
from drnmf.selection.likelihood.masses import NegativeBinomialNoise
from drnmf.selection.likelihood.scores import Scores, compare, joined
from drnmf.selection.likelihood.size import corrected_size, drawn, likely_size
from drnmf.selection.slope import binned_slope
from drnmf.selection.walk import Walk, grown, on_host
from drnmf.selection.words import describe, structured

BETAS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
"""The grid, from Gamma over Poisson to Gaussian."""

LEAST_BETA = 0.1
"""What stands for beta = 0 where X has zeros, under which the Itakura-Saito divergence is infinite."""

RARE = 0.01
"""Share of zeros below which they are no reason to leave beta = 0 out of a set that excludes nothing."""

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
    table: list[dict[str, Any]]
    slope: float
    structure: float = math.nan
    notes: tuple[str, ...] = ()
    solutions: dict[str, Start] = field(default_factory=dict, repr=False)
    counts: bool = False
    unfinished: tuple[str, ...] = ()

    @property
    def judge(self) -> Loss:
        """The loss under which ranks are compared: `best`, a negative binomial with the size of held-out entries.

        That size holds the error of prediction too, and a fit under it follows few large entries less.
        """
        if not isinstance(self.best, NegativeBinomial):
            return as_loss(self.best)
        sizes = [row["parameter"] for row in self.table if math.isnan(row["beta"])]
        return NegativeBinomial(float(f"{sizes[0]:.4g}")) if sizes else self.best

    @property
    def losses(self) -> tuple[float, ...] | Interval:
        """What the data cannot tell apart, as `DRNMF` takes it: an Interval, or the one beta."""
        low, high = min(self.interval), max(self.interval)
        return Interval(low, high) if low < high else (low,)


def noise_profile(
    X: Any,
    n_components: int,
    *,
    betas: Iterable[float] | Interval | str | None = None,
    count_models: bool = True,
    held_out: float = HELD_OUT,
    update: str | Rule = "auto",
    init: str = "random",
    n_init: int = 1,
    max_iter: int = 1000,
    tol: float = 1e-5,
    random_state: int | np.random.RandomState | None = None,
    max_time: float | None = None,
    n_jobs: int | None = None,
    device: str | None = None,
    precision: str = "float32",
    verbose: int = 0,
    entry_weight: Any = None,
    uncertainty: Any = None,
    unstored: str = "zero",
) -> NoiseProfile:
    """Compare losses by how likely they make X, each at a factorisation of its own.

    Parameters
    ----------
    X : as in `BetaNMF.fit`
    n_components : r, the number of components
    betas : numbers >= 0, or an Interval (nine betas of it); None is 0, 0.25, ..., 2, without 0 where X has zeros.
        ``NegativeBinomial("auto")`` among them is `count_models`, and asks for counts
    count_models : where X lies on a grid, compare Poisson with its variance fixed and the negative binomial too
    held_out : share of the entries that are left out of the fits and scored, four times (of a large X twice); 0 scores
        the entries that were fitted
    max_time : seconds for all fits together; those that it ends are named in `unfinished`
    update, init, n_init, max_iter, tol, random_state, n_jobs, device, precision, verbose, unstored : as in `BetaNMF`
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
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.gamma(0.5, size=(40, 3)) @ rng.gamma(0.5, size=(3, 50)) * 100)
    >>> noise_profile(X, 3, held_out=0, random_state=0).beta
    1.0
    """
    parameters = Parameters(
        n_components=n_components, update=update, init=init, max_iter=max_iter, tol=tol, random_state=random_state,
        n_init=n_init, max_time=max_time, verbose=verbose, device=device, precision=precision, n_jobs=n_jobs,
    )  # fmt: skip
    placement = place(X, device, precision)
    given, remark = _looked_at(placement.accept(X, "noise_profile", Reading(
        "raise", check_choice("unstored", unstored, ("zero", "missing")), entry_weight, uncertainty
    )), parameters)  # fmt: skip
    facts = facts_of(counted(given))
    betas, sized = _without_size(betas)
    known = uncertainty is not None
    if sized and (facts.unit is None or known):
        raise ValueError("betas asks for the size of a negative binomial, but X does not hold counts (multiples of u).")
    omega = losses_to_try(betas, facts)
    fraction = check_fraction(held_out)
    method = Method.of(update, "auto", placement.gpu)
    few = too_few_to_hold_out(facts, given.X.shape, parameters.rank(), fraction) if fraction else ()
    fraction = 0.0 if few else fraction
    runs = (parameters.starts() + len(omega) + 2) * masks_of(facts, fraction)
    with opened(given, placement, parameters, omega, runs, {}, plain=True) as fit:
        ask = Asked(given, facts, placement, method, fit, mask_seed(random_state), fraction, known)
        return ask.profile(omega, (count_models or sized) and facts.unit is not None and not known, (*remark, *few))


def masks_of(facts: Facts, fraction: float) -> int:
    """Say how often entries are held out."""
    return 1 if not fraction else MASKS if facts.count <= SMALL else MASKS // 2


def _looked_at(given: Received, parameters: Parameters) -> tuple[Received, tuple[str, ...]]:
    """Take some rows and columns of a large X, and say so."""
    given = bound(given)
    some = sampled(given, parameters.rank(), mask_seed(parameters.random_state))
    if some.X.shape == given.X.shape:
        return given, ()
    (m, n), (rows, columns) = given.X.shape, some.X.shape
    return some, (f"Losses were compared on {rows} of {m} rows and {columns} of {n} columns of X.",)


@dataclass(frozen=True)
class Asked:
    """X, how it is fitted, and which entries are held out: what all candidates share."""

    given: Received
    facts: Facts
    placement: Placement
    method: Method
    fit: Opened
    seed: int
    fraction: float
    known: bool

    def profile(self, omega: Omega, counts: bool, notes: tuple[str, ...]) -> NoiseProfile:
        """Fit every loss on every fold, compare the noises, and read the answer off them."""
        folds = self._folds()
        walks = [self._walk(fold) for fold in folds]
        runs = [dict(zip(omega, walk.along(omega, self.fit.starts), strict=True)) for walk in walks]
        size = self._with_counts(folds, walks, runs) if counts else None
        listed = candidates(omega, counts, size)
        fits = [{loss: (run.W, run.H) for loss, run in found.items()} for found in runs]
        scores = noise_scores(folds, fits, listed)
        chosen = likeliest(listed, scores, self.known)
        best = listed[chosen]
        exact = self._exact(walks[0], runs[0])
        if size is not None and not exact:
            listed[-1] = Candidate(listed[-1].noise, NegativeBinomial(self._size(size, fits[0])))
        solutions = {
            one.name: runs[0][was.loss] for one, was in zip(listed, candidates(omega, counts, size), strict=True)
        }
        middle = folds[0].middle(fits[0][best.loss])
        structure = self._structure(folds[0], walks[0], best.loss, runs[0][best.loss]) if self.fraction else math.nan
        x, mu = folds[0].entries(fits[0][best.loss], seen=bool(self.fraction))
        slope = binned_slope(mu, (x - mu) ** 2)
        found = Compared(listed, scores, chosen, slope, structure, middle, exact, solutions, self.known)
        return found.profile(self.facts, (*self.fit.notes, *notes))

    def _folds(self) -> list[Fold]:
        observed = self.given.observed
        assert not isinstance(observed, HeldOut)
        seeds = range(self.seed, self.seed + masks_of(self.facts, self.fraction))
        return [
            Fold.of(self.given.X, self.facts, self.fit.data, self.fraction, seed, observed, self.known)
            for seed in seeds
        ]

    def _walk(self, fold: Fold) -> Walk:
        data = self.fit.data if fold.mask is None else weigh(self.fit.data, fold.mask.others)
        return Walk(data, self.method, self.fit.budget)

    def _with_counts(self, folds: list[Fold], walks: list[Walk], runs: list[dict[Loss, Result]]) -> float:
        """Fit Kullback-Leibler, and the negative binomial of the size that scored entries have there."""
        for walk, found in zip(walks, runs, strict=True):
            if KL not in found:
                near = found[min(found, key=lambda loss: abs(loss.beta - 1.0))]
                found[KL] = walk.near(KL, (near.W, near.H))
        at = [
            fold.score(NegativeBinomialNoise(), (found[KL].W, found[KL].H), shrink=True)
            for fold, found in zip(folds, runs, strict=True)
        ]
        size = float(f"{joined(at).parameter:.4g}")
        for walk, found in zip(walks, runs, strict=True):
            found[NegativeBinomial(size)] = walk.near(NegativeBinomial(size), (found[KL].W, found[KL].H))
        return size

    def _size(self, size: float, fits: dict[Loss, Start]) -> float:
        """Find the size that the fit of all entries should run under, corrected by draws of X."""
        unit, loss = self.facts.unit, NegativeBinomial(size)
        assert unit is not None
        whole = Fold.of(self.given.X, self.facts, self.fit.data, 0.0, self.seed, None)

        def found(walk: Walk, fold: Fold, start: Start) -> tuple[float, Start]:
            run = walk.near(loss, start)
            factors = on_host(walk.data, (run.W, run.H))
            return likely_size(*fold.entries(factors), self.facts.grid), factors

        first, (W, H) = found(Walk(self.fit.data, self.method, self.fit.budget), whole, fits[loss])
        V = W.astype(np.float64) @ H.astype(np.float64)

        def again(seed: int) -> float:
            self.fit.budget.expect(1)
            other = Received(drawn(V, first, unit, seed).astype(W.dtype), self.given.observed)
            data = self.placement.open_plain(other)
            fold = Fold.of(other.X, self.facts, data, 0.0, self.seed, None)
            return found(Walk(data, self.method, self.fit.budget), fold, (W, H))[0]

        return float(f"{corrected_size(first, again):.4g}")

    def _exact(self, walk: Walk, runs: dict[Loss, Result]) -> bool:
        """Tell whether some loss is nothing but rounding, or X too small to leave anything over."""
        (m, n), rank = walk.data.shape, next(iter(runs.values())).H.shape[0]
        floors = reference_floors(walk.data, tuple(runs))
        rounding = any(float(run.losses[0]) <= EXACT * floor for run, floor in zip(runs.values(), floors, strict=True))
        return rounding or self.facts.count <= rank * (m + n - rank)

    def _structure(self, fold: Fold, walk: Walk, loss: Loss, run: Result) -> float:
        """Compute the share of the held-out loss that twice the components explain; 0 where X is too small for them.

        The median over columns: no heavy column rules.
        """
        (m, n), rank = walk.data.shape, run.H.shape[0]
        most = [k for k in range(rank + 1, min(2 * rank, m, n) + 1) if 2 * k * (m + n - k) <= walk.data.count]
        if not most:
            return 0.0
        more = walk.near(loss, grown(walk.data, (run.W, run.H), most[-1], np.random.RandomState(self.seed)))
        before, after = (fold.losses(loss, (one.W, one.H)) for one in (run, more))
        used = before > 0
        return 1.0 - float(np.median(after[used] / before[used])) if used.any() else 0.0


@dataclass(frozen=True)
class Compared:
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
        counts, much = holds_counts(best, facts.unit, self.middle), self.structure > STRUCTURE
        rank = next(iter(solutions.values()))[1].shape[0]
        notes += describe(facts, beta, self.slope, best, counts, self.middle) + structured(self.structure, rank, much)
        near = [betas[k] for k, within in enumerate(compare([self.scores[i] for i in single]).within) if within]
        interval, more = everything(betas, facts) if much else (tuple(sorted({beta, *near})), ())
        notes += more
        return NoiseProfile(
            loss, beta, interval, table, self.slope, self.structure, notes, solutions, counts, unfinished
        )

    def _table(self, facts: Facts) -> list[dict[str, Any]]:
        compared = compare(self.scores)
        return [
            {
                "name": one.name, "beta": one.loss.beta, "loss": float(self.runs[one.name].losses[0]),
                "criterion": -scores.mean * facts.count, "held_out": float(compared.differences[i]),
                "standard_error": float(compared.errors[i]), "within": compared.within[i],
                "parameter": scores.parameter,
            }
            for i, (one, scores) in enumerate(zip(self.listed, self.scores, strict=True))
        ]  # fmt: skip


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
        raise ValueError(f"betas names {others[0]}: give numbers; count_models=True adds the models of counts.")
    return tuple(sorted(omega, key=lambda loss: loss.beta))


def everything(betas: list[float], facts: Facts) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Exclude no beta, 0 neither where only its zeros kept it out of the comparison and they are rare."""
    if betas[0] != LEAST_BETA or not 0 < facts.zeros <= RARE * facts.count:
        return tuple(betas), ()
    share = 100.0 * facts.zeros / facts.count
    note = f"Beta = 0 is not excluded either: only {share:.2g} % of X is zero, and a fit floors them."
    return (0.0, *betas[1:]), (note,)
