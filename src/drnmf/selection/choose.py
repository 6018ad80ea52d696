"""One engine for every question that many fits answer: candidates x folds -> held-out scores -> compare -> a rule.

- Which noise: the likeliest, unless a simpler one is within two standard errors (`likeliest`).
- How many components: among the ranks that predict about as well as the best, the most stable (`best_rank`).
- Which alpha, and whether heavy rows rule: the first in order that is within one standard error (`first_within`).

Fits come from elsewhere: all that is asked of them is W and H for a fold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drnmf.algorithms.initialize import Start
from drnmf.losses.base import Loss, Omega
from drnmf.losses.beta import KL, Beta
from drnmf.losses.names import noise_of
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.numerics import Vector
from drnmf.selection.entries import Caution, Facts
from drnmf.selection.folds import Fold, count_parameters
from drnmf.selection.likelihood.masses import NegativeBinomialNoise, Noise, PoissonNoise, noise_for
from drnmf.selection.likelihood.scores import PROOF, Compared, Scores, compare, joined, simplest

COUNTS_BELOW = 30.0
"""Median mean, in units, above which a negative binomial cannot be told from relative error."""

WIDER = 0.01
"""Part of Poisson's variance that a negative binomial must add at the median mean to be told from it."""

CLEARLY = 2.0
"""Standard errors by which a candidate is clearly worse than the best."""

AS_SAID = 1.2
"""Factor up to which entries scatter about a fit as their uncertainties say, or as about another fit."""

NEUTRAL = 2.0 / 3.0
"""Stability at which a component speaks neither for its rank nor against it."""

DISAGREE = 0.5
"""Difference of two powers of the mean above which one of the two readings is wrong."""

OUTLYING = 2.5
"""How many times the share of the loss that the noise expects of them the worst entries hold, where they are said to be
outliers: 0.9 to 1.2 on planted noises, up to 1.9 where their noise is none of the candidates or they have structure
left (readings with an error of two parts, rounded ones, catalogues), 2.8 and more with one entry in a hundred off."""

POISSON, DISPERSED, RICHER = range(3)
"""How simple a noise is: Poisson, Kullback-Leibler with a dispersion, the negative binomial and every other beta."""


@dataclass(frozen=True)
class Candidate:
    """A noise, and the loss that is fitted for it."""

    noise: Noise
    loss: Loss

    @property
    def name(self) -> str:
        """Name for tables: "Poisson" is Kullback-Leibler with its variance fixed."""
        return self.noise.name if isinstance(self.noise, PoissonNoise) else self.loss.name

    @property
    def level(self) -> int:
        """How simple the noise is."""
        return POISSON if isinstance(self.noise, PoissonNoise) else DISPERSED if self.loss == KL else RICHER

    @property
    def counts(self) -> bool:
        """Whether it is a noise of counts alone."""
        return isinstance(self.noise, PoissonNoise | NegativeBinomialNoise)


def candidates(omega: Omega, counts: bool, size: float | None = None) -> list[Candidate]:
    """List the noises to compare: those of the betas, and where X has a grid those of counts."""
    listed = [Candidate(noise_for(loss), loss) for loss in omega]
    if counts:
        listed.append(Candidate(PoissonNoise(), KL))
        if size is not None:
            listed.append(Candidate(NegativeBinomialNoise(), NegativeBinomial(size)))
    return listed


Rows = list[dict[str, Any]]
"""Rows of a table for users: plain values under the names of their columns."""

Fits = dict[Loss, Start]
"""Losses -> W and H of their fits, on one fold."""


def noise_scores(folds: Sequence[Fold], fits: Sequence[Fits], listed: Sequence[Candidate]) -> list[Scores]:
    """Score every candidate at the fit of its loss.

    Where the best is none of the simple ones, those and the counts are scored at its fit too: what must be compared is
    noise, and of sparse counts the fit under another loss may be the better one.
    """

    def at(candidate: Candidate, loss: Loss) -> Scores:
        return joined(
            [fold.score(candidate.noise, fit[loss], shrink=True) for fold, fit in zip(folds, fits, strict=True)]
        )

    scores = [at(candidate, candidate.loss) for candidate in listed]
    best = listed[int(np.argmax([one.mean for one in scores]))]
    if best.level == RICHER:
        for i, candidate in enumerate(listed):
            if (candidate.level < RICHER or candidate.counts) and candidate.loss != best.loss:
                scores[i] = max(scores[i], at(candidate, best.loss), key=lambda one: one.mean)
    return scores


def likeliest(listed: Sequence[Candidate], scores: Sequence[Scores], known: bool = False) -> int:
    """Choose the noise: the likeliest, unless a simpler one is within two standard errors of it.

    Where standard deviations are `known` all losses are scored by the Gaussian noise, whose loss is then the simplest.
    """
    levels = [int(one.loss.beta != 2.0) for one in listed] if known else [one.level for one in listed]
    return simplest(scores, levels)


def choose_noise(
    folds: Sequence[Fold], fits: Sequence[Fits], listed: Sequence[Candidate], unit: float | None, known: bool = False
) -> tuple[int, list[Scores], float]:
    """Score the fits under every noise, fold by fold, and choose one.

    Entries are multiples of `unit`, or None; `known` says that standard deviations are. Returns which it is, the scores
    of all, and the median of what the likeliest predicts for entries that were held out.
    """
    scores = noise_scores(folds, fits, listed)
    first = likeliest(listed, scores, known)
    middle = folds[0].middle(fits[0][listed[first].loss])
    return overdispersed(listed, first, unit, middle), scores, middle


def overdispersed(listed: Sequence[Candidate], chosen: int, unit: float | None, middle: float) -> int:
    """Take the negative binomial in the place of a beta below one, where X may hold counts: its entries are few units.

    Such a beta says that the variance of counts grows faster than their mean, which the negative binomial says of
    counts; a fit under it follows small entries, whose relative error is that of counting.
    """
    sized = [i for i, one in enumerate(listed) if isinstance(one.noise, NegativeBinomialNoise)]
    few = unit is not None and middle < COUNTS_BELOW * unit
    return sized[0] if sized and few and not listed[chosen].counts and listed[chosen].loss.beta < 1.0 else chosen


def no_wider_than_poisson(listed: Sequence[Candidate], chosen: int, middle: float) -> int:
    """Take Poisson in place of a negative binomial whose size, corrected by draws, adds nothing to its variance.

    Held-out entries of sparse counts vary with what a fit predicts badly; that is no noise of theirs.
    """
    loss, plain = listed[chosen].loss, [i for i, one in enumerate(listed) if one.counts and one.loss == KL]
    wider = not isinstance(loss, NegativeBinomial) or middle > WIDER * loss.size
    return chosen if wider or not plain else plain[0]


def holds_counts(candidate: Candidate, unit: float | None, middle: float) -> bool:
    """Tell whether the data say that they are counts: a noise of counts wins, at a median mean of few units."""
    return candidate.counts and unit is not None and middle < COUNTS_BELOW * unit


@dataclass(frozen=True)
class Tried:
    """A rank that was tried."""

    rank: int
    scores: Scores | None = None  # of the entries held out of its runs, None where none were
    # (rank,), how well each component comes again in every run
    stability: Vector = field(default_factory=lambda: np.empty(0))
    runs: int = 0  # how many there were
    error: float = math.nan  # the smallest loss of these
    criterion: float = math.nan  # C of the first, minus the log-likelihood of its entries; NaN where nobody asked
    shape: tuple[int, ...] = (2, 2)  # of X

    def stable(self, threshold: float) -> int:
        """How many components reach a threshold."""
        return int((self.stability >= threshold).sum())

    @property
    def factor(self) -> float:
        """How much farther held-out entries scatter than their uncertainties say; NaN where none are known."""
        return math.nan if self.scores is None else self.scores.factor

    @property
    def mean_stability(self) -> float:
        """Mean stability of the components; NaN where nobody asked."""
        return float(self.stability.mean()) if self.stability.size else math.nan

    @property
    def merit(self) -> float:
        """How well components come again: each counts 1 where it does in every run, 0 at NEUTRAL, less below."""
        return float((self.stability - NEUTRAL).sum()) / (1.0 - NEUTRAL)

    @property
    def bic(self) -> float:
        """BIC from C: each entry of W sees n observations, each of H sees m; what is not free sees the fewest."""
        seen = [math.prod(self.shape) // size for size in self.shape]
        every = [self.rank * size * math.log(others) for size, others in zip(self.shape, seen, strict=True)]
        held = self.rank * sum(self.shape) - count_parameters(self.shape, self.rank)
        return 2.0 * self.criterion + sum(every) - held * math.log(min(seen))

    @property
    def aic(self) -> float:
        """AIC from C, with r (m + n - r) parameters where X is a matrix."""
        return 2.0 * self.criterion + 2.0 * count_parameters(self.shape, self.rank)


def best_rank(tried: Sequence[Tried]) -> Tried:
    """Choose among the ranks that predict held-out entries about as well as the best (`near_best`).

    What counts is how well their components come again (`Tried.merit`): what a rank too large adds is unstable, and a
    split that is stable must bring more than it spoils. Where X is too small to hold entries out BIC decides, and
    stability where not even C is known.
    """
    if _compared(tried) is None and not any(math.isnan(one.bic) for one in tried):
        return min(tried, key=lambda one: one.bic)
    return max(near_best(tried), key=lambda one: (one.merit, -one.rank))


def near_best(tried: Sequence[Tried]) -> list[Tried]:
    """List the ranks that may be right: smaller ones not clearly worse than the best, larger ones within one error.

    Splits of components come again in runs that start alike, so that stability favours what is too large (28 instead of
    19 on one of the catalogues): more components than predict best need the better evidence. Where uncertainties are
    known and entries scatter as they say, a gain of PROOF in log-mass settles it: no noise is left that could be wider.
    Ranks at which entries scatter farther are out there: they take for noise what others explain. Where all
    uncertainties are too small that is asked of the ranks that predict about as well, whatever the unit of these is.
    """
    tried = _as_said(tried)
    compared = _compared(tried)
    if compared is None:
        return list(tried)
    best = tried[compared.best]
    most = _per_entry(PROOF, best) if best.factor <= AS_SAID else math.inf
    far = zip(tried, compared.differences, compared.errors, strict=True)
    errors = {True: CLEARLY, False: 1.0}
    near = [one for one, d, e in far if d <= max(min(errors[one.rank < best.rank] * e, most), _negligible(one))]
    least = min(one.factor for one in near)
    return [one for one in near if not one.factor > AS_SAID * least]


def undecided(tried: Sequence[Tried]) -> bool:
    """Tell whether several ranks may be right where uncertainties are known: single fits then decide by their seed."""
    return _compared(tried) is not None and not math.isnan(tried[0].factor) and len(near_best(tried)) > 1


def doubt(tried: Sequence[Tried]) -> tuple[str, ...]:
    """Say that the rank is uncertain, where neither held-out entries nor stability tell some ranks apart."""
    if _compared(tried) is None or best_rank(tried).merit > 0.0 or len(near := near_best(tried)) < 2:
        return ()
    ranks = [one.rank for one in near]
    said = (
        f"The rank is uncertain, between {min(ranks)} and {max(ranks)}: these predict held-out entries about as well, "
        "and fewer of their components come again than do not."
    )
    return (Caution(said),)


def _as_said(tried: Sequence[Tried]) -> Sequence[Tried]:
    """Return the ranks at which entries scatter as their uncertainties say; all where none are known, or none does."""
    return [one for one in tried if one.factor <= AS_SAID] or tried


def _per_entry(nats: float, one: Tried) -> float:
    """Return what a sum over all held-out entries is per entry."""
    return 0.0 if one.scores is None else nats / max(float(one.scores.row_weights.sum()), 1.0)


def _negligible(one: Tried) -> float:
    """Return what a nat over all held-out entries is per entry: less speaks for no rank, however small its error.

    Data without noise are predicted all but exactly by every rank that is large enough, and what is left is where fits
    stopped.
    """
    return _per_entry(1.0, one)


def _compared(tried: Sequence[Tried]) -> Compared | None:
    """Compare the scores of ranks, where all have some."""
    scores = [one.scores for one in tried if one.scores is not None]
    return compare(scores) if scores and len(scores) == len(tried) else None


def why_rank(tried: Sequence[Tried]) -> str:
    """Say in plain words why a rank was taken."""
    fewer = len(_as_said(tried)) < len(tried)
    tried = _as_said(tried)
    best, compared = best_rank(tried).rank, _compared(tried)
    if compared is None and not any(math.isnan(one.bic) for one in tried):
        return f"BIC is smallest at rank {best}."
    if compared is None:
        return f"The components of rank {best} are most stable; no entries were held out."
    lowest = tried[compared.best].rank
    near = [one.rank for one in near_best(tried)]
    others = ", ".join(str(rank) for rank in near if rank != lowest)
    why = f"Held-out entries are predicted best at rank {lowest}"
    why += ", of those at which they scatter as their uncertainties say" if fewer else ""
    kind: type[str] = str
    if tried[compared.best].factor > AS_SAID:
        factor, kind = tried[compared.best].factor, Caution
        why = f"Entries scatter {factor:.2g} times as far as their uncertainties say, or more. {why}"
    if not others:
        return kind(f"{why}.")
    but = "and" if lowest in near else "but scatter farther there, and are"
    why += f", {but} not clearly worse at {others}"
    return kind(f"{why}; of these the components of rank {best} come again best." if len(near) > 1 else f"{why}.")


def differences(tried: Sequence[Tried]) -> Rows:
    """Return for every rank how far its score is from the best, per entry, with its standard error, for tables."""
    compared = _compared(tried)
    if compared is None:
        return [{"held_out": math.nan, "standard_error": math.nan, "within": False} for _ in tried]
    rows = zip(compared.differences, compared.errors, compared.within, strict=True)
    return [{"held_out": float(far), "standard_error": float(e), "within": near} for far, e, near in rows]


def clearly_worse(tried: Sequence[Tried]) -> list[int]:
    """List the ranks that predict clearly worse than the best."""
    compared = _compared(tried)
    if compared is None:
        return []
    far = zip(tried, compared.differences, compared.errors, strict=True)
    return [one.rank for one, d, e in far if d > max(CLEARLY * e, _negligible(one))]


def first_within(scores: Sequence[Scores]) -> int:
    """Choose the first of ordered candidates that held-out entries cannot tell from the best."""
    return compare(scores).within.index(True)


def describe(facts: Facts, beta: float, slope: float, best: Candidate, counts: bool, middle: float) -> tuple[str, ...]:
    """Describe the noise of X, and what the residuals say."""
    on_grid = counts or facts.unit is not None
    notes = [f"The variance grows like mu^{2.0 - beta:.3g}: {noise_of(Beta(beta), on_grid)}."]
    if best.counts and counts:
        notes.append(f"X holds counts (multiples of {facts.unit:g}): {best.name} is the likeliest noise.")
    elif best.counts:
        told = f"counts of such means ({middle:.3g}) cannot be told from a relative error"
        notes.append(f"{best.name} is the likeliest noise; {told}.")
    expected = power_at(best.loss, middle)
    if math.isfinite(slope):
        notes.append(f"Squared residuals grow like mu^{slope:.2f}.")
        if abs(slope - expected) > DISAGREE:
            notes.append(
                f"{best.name} expects mu^{expected:.2f}: held-out entries are believed, because the slope of residuals "
                "follows few large ones."
            )
    return tuple(notes)


def power_at(loss: Loss, middle: float) -> float:
    """Compute the power of the mean with which the variance of a loss grows, at a mean.

    >>> power_at(NegativeBinomial(4.0), 4.0)
    1.5
    """
    if isinstance(loss, NegativeBinomial):
        return (1.0 + 2.0 * middle / loss.size) / (1.0 + middle / loss.size)
    return 2.0 - float(loss.beta)


def outlying(held: float, expected: float, name: str) -> tuple[str, ...]:
    """Say that a few entries hold much more of the loss than the noise expects, where that is so."""
    if not held > OUTLYING * expected:
        return ()
    said = (
        f"A few entries lie far from the fit: one in a hundred holds {100 * held:.0f} % of the loss, where {name} "
        f"expects {100 * expected:.0f} %. If they are errors, leave them out (NaN): they widen the noise, and may make "
        "components of their own."
    )
    return (Caution(said),)


def structured(share: float, rank: int, much: bool) -> tuple[str, ...]:
    """Say that what is left at this rank is not noise, where that is so."""
    if not much:
        return ()
    return (
        f"{100 * share:.0f} % of what rank {rank} leaves of held-out entries is explained by twice as many components: "
        "it is structure more than noise, and no loss is excluded by it.",
    )
