r"""How many components? Entries left out of the fits, scored rank by rank, with warm starts along the rank.

The smallest rank within one standard error of the best is taken, the error being that of paired differences. Beside it
stand the information criteria, each entry of W seeing n observations and each of H seeing m:

.. math:: \mathrm{BIC}(\beta, r) = 2 C(\beta) + r m \log n + r n \log m - r^2 \log \min(m, n)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from drnmf.algorithms.initialize import Start, start
from drnmf.algorithms.result import Result
from drnmf.losses.base import Loss
from drnmf.losses.names import as_loss
from drnmf.parameters.checks import check_integer
from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import checked
from drnmf.parameters.solver import as_solver
from drnmf.problem.device import as_numpy, place
from drnmf.problem.problem import Problem
from drnmf.problem.receive import Received
from drnmf.selection.alike import ONE_COMPONENT, one_component
from drnmf.selection.blocks import bi_cross_validation
from drnmf.selection.entries import Facts, bound, counted, facts_of
from drnmf.selection.held_out import (
    Compared,
    Scores,
    Split,
    check_fraction,
    compare,
    joined,
    mask_seed,
    too_few_to_hold_out,
)
from drnmf.selection.likelihood import Candidate, half_log_sums
from drnmf.selection.matching import agreement
from drnmf.selection.noise import HELD_OUT, NoiseProfile, compare_losses
from drnmf.selection.walk import Walk, grown
from drnmf.solve.pipeline import running
from drnmf.solve.runner import Runner
from drnmf.solve.settings import asked_losses, check_model, only_compared, problem_of, reading_of

MAX_ITER, TOLERANCE, STARTS = 1000, 3e-4, 2
"""Iterations, tolerance and least number of starts of the fits, where they are left to the library."""

PATIENCE = 3
"""Ranks in a row that are clearly worse than the best before the search stops."""

MASKS = 2
"""How often entries are held out, other ones each time."""


@dataclass(frozen=True)
class RankProfile:
    """What X says about the number of components.

    Attributes
    ----------
    best : int
        The smallest rank within one standard error of the best held-out score; by BIC where X is too small for that.
    loss : Loss
        The loss under which ranks were compared.
    table : list of dict
        One row for each rank: rank, held_out (difference to the best, per entry), standard_error (of that paired
        difference), within (one standard error), criterion (C), bic, aic, bi_cross_validation (mean score of entries,
        NaN where it was not asked for) and stability (mean cosine of the components of two runs, likewise).
    noise : NoiseProfile or None
        What the loss was chosen by.
    notes : tuple of str
    """

    best: int
    loss: Loss
    table: list[dict[str, Any]]
    noise: NoiseProfile | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tried:
    """A rank and what was found there."""

    rank: int
    runs: list[Result]
    criterion: float
    scores: Scores | None
    stability: float
    blocks: float


def rank_profile(
    model: Parameters,
    X: Any,
    *,
    ranks: int | Iterable[int] = 10,
    held_out: float = HELD_OUT,
    n_masks: int = MASKS,
    bi_cross_validate: bool = False,
    stability: int = 0,
    entry_weight: Any = None,
    uncertainty: Any = None,
) -> RankProfile:
    """Compare numbers of components by how well they predict entries that were left out.

    Parameters
    ----------
    model : an estimator with one loss, for example ``BetaNMF(beta="auto")``. Its loss, tolerances, update rule, seed
        and device are used, not its rank, penalties and constraints. "auto" is what `noise_profile` finds at the
        largest rank and, once more, at the best. At each rank there are `n_init` fresh random starts (two at least
        where `init` is "auto") beside the warm one from the rank below; all run to ten times `tol`, the best to its
        end. Where it leaves them to the library, max_iter is 1000 and tol 3e-4: the score of an entry moves by half
        of it, and standard errors are some 0.005
    X : as in `BetaNMF.fit`
    ranks : the numbers of components, all of which are tried; or the largest of 1, 2, ..., where the search stops once
        three in a row are worse than the best by more than two standard errors
    held_out : share of the entries left out of the fits; 0 compares by BIC alone
    n_masks : how often entries are held out, other ones each time: the time grows with it, and standard errors fall
    bi_cross_validate : predict blocks of rows and columns too (Owen and Perry 2009), which no neighbouring entry helps
    stability : how many runs from different starts to compare at each rank, 0 for none
    entry_weight, uncertainty : as in `BetaNMF.fit`; a weight divides the variance of its entry

    Returns
    -------
    profile : RankProfile

    Raises
    ------
    ValueError
        For bad X or parameters, X without a positive entry, and for ranks above what X can tell apart.

    Examples
    --------
    >>> from drnmf import BetaNMF
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.gamma(0.5, size=(40, 2)) @ rng.gamma(0.5, size=(2, 50)) * 100)
    >>> rank_profile(BetaNMF(beta=1, random_state=0), X, ranks=4).best
    2
    """
    check_model(model, "rank_profile")
    placement = place(X, model.device, as_solver(model.solver).precision)
    reading, betas = reading_of(model, entry_weight, uncertainty), asked_losses(model)
    given = bound(placement.accept(X, "rank_profile", reading))
    if bi_cross_validate and given.observed is not None:
        raise ValueError("bi_cross_validate=True needs every entry to count once: leave it out, or the weights.")
    listed, fraction, facts = check_ranks(ranks, given.X.shape), check_fraction(held_out), facts_of(counted(given))
    if facts.count == facts.zeros:
        raise ValueError("X is all zeros: it has no components.")
    alike = one_component(given.X)
    if alike:  # all ranks predict the same, and rounding would choose
        listed, fraction = listed[:1], 0.0
    starts = max(model.n_init, STARTS) if model.init == "auto" else model.n_init
    parameters = only_compared(model, MAX_ITER, TOLERANCE, n_components=listed[-1], n_init=starts)

    def noise(rank: int) -> NoiseProfile:
        plain = replace(parameters, n_components=rank, n_init=1, init="random", max_time=None, verbose=0)
        return compare_losses(plain, X, reading, None, 0.0, False)

    auto = isinstance(betas, str) and betas.strip().lower() == "auto"
    profile = noise(_rank_for_noise(listed, facts, given.X.shape)) if auto else None
    masks, repeats = check_integer("n_masks", n_masks, 1), check_integer("stability", stability, 0)
    ask = Question(listed, fraction, masks, bi_cross_validate, repeats, not isinstance(ranks, Iterable))
    search = partial(_search, given, facts, parameters, placement, ask)
    found = search(_one_loss(betas) if profile is None else as_loss(profile.beta))
    if profile is not None and found.best != listed[-1]:
        again = noise(found.best)
        if again.beta != profile.beta:
            profile, found = again, search(as_loss(again.beta))
    found = replace(found, notes=(ONE_COMPONENT, *found.notes)) if alike else found
    return found if profile is None else replace(found, noise=profile, notes=profile.notes + found.notes)


def _one_loss(betas: Any) -> Loss:
    """Return the loss under which ranks are compared, which must be one."""
    losses = [betas] if isinstance(betas, str) or not isinstance(betas, Iterable) else list(betas)
    if len(losses) != 1:
        raise ValueError(f"betas={betas!r} are {len(losses)} losses: ranks are compared under one, as of BetaNMF.")
    return as_loss(losses[0])


@dataclass(frozen=True)
class Question:
    """What is asked of every rank: see `rank_profile`."""

    ranks: list[int]
    fraction: float
    masks: int
    bi_cross_validate: bool
    stability: int
    early_stop: bool


def check_ranks(ranks: Any, shape: tuple[int, int]) -> list[int]:
    """Turn what a user wrote for ranks into increasing integers that X can tell apart.

    Raises
    ------
    ValueError
        For numbers that are none, below one or above min(m, n), an empty or reversed range.
    """
    most = min(int(shape[0]), int(shape[1]))
    if not isinstance(ranks, Iterable):
        ranks = range(1, min(check_integer("ranks", ranks, 1), most) + 1)
    given = list(ranks)
    if not given:
        raise ValueError(f"ranks={ranks!r} names no rank: write the smallest first, for example range(2, 9).")
    listed = sorted({check_integer("ranks", rank, 1) for rank in given})
    if listed[-1] > most:
        raise ValueError(f"ranks holds {listed[-1]}, but X of {shape[0]} x {shape[1]} has no more than {most}.")
    return listed


def _rank_for_noise(ranks: list[int], facts: Facts, shape: tuple[int, int]) -> int:
    """Choose the largest rank that leaves half of the entries to the noise: too few components look like noise."""
    m, n = shape
    fits = [rank for rank in ranks if 2 * rank * (m + n - rank) <= facts.effective]
    return fits[-1] if fits else ranks[0]


@dataclass(frozen=True)
class Fold:
    """X without some of its entries, and those entries (None where none is held out)."""

    walk: Walk
    split: Split | None


@dataclass(frozen=True)
class Search:
    """Everything that ranks under one loss have in common."""

    X: Any
    facts: Facts
    parameters: Parameters
    ask: Question
    runner: Runner
    candidate: Candidate
    folds: list[Fold]
    half_log: float

    def at(self, rank: int, below: list[Result] | None) -> Tried:
        """Fit one rank on every fold, from fresh starts and from the rank below, and look at what it predicts."""
        best = [self._best(i, rank, None if below is None else below[i]) for i in range(len(self.folds))]
        scores = [
            fold.split.score(fold.walk.data, self.candidate, run)
            for fold, run in zip(self.folds, best, strict=True)
            if fold.split is not None
        ]
        criterion = self._criterion(best[0], scores[0] if scores else None)
        return Tried(
            rank, best, criterion, joined(scores) if scores else None, self._stability(rank), self._blocks(rank)
        )

    def _best(self, i: int, rank: int, below: Result | None) -> Result:
        walk, rng = self.folds[i].walk, _seed(self.parameters.random_state, rank, i)
        fresh = self._starts(walk, rank, rng, checked(self.parameters, "n_init"))
        warm = () if below is None else (grown(walk.data, (below.W, below.H), rank, rng),)
        return walk.first(self.candidate.loss, fresh, warm)

    def _starts(self, walk: Walk, rank: int, rng: np.random.RandomState, count: int) -> list[Start]:
        return [start(walk.data, rank, "random", rng) for _ in range(count)]

    def _stability(self, rank: int) -> float:
        """Compare the components of runs from different starts, each brought to its end."""
        if self.ask.stability < 2:
            return math.nan
        walk, rng = self.folds[0].walk, _seed(self.parameters.random_state, rank, 0)
        runs = walk.all(self.candidate.loss, self._starts(walk, rank, rng, self.ask.stability))
        return agreement([as_numpy(run.H) for run in runs])

    def _criterion(self, run: Result, scores: Scores | None) -> float:
        """Compute C of the entries that were fitted."""
        count = self.facts.effective - (0.0 if scores is None else scores.effective)
        seen = self.half_log - (0.0 if scores is None else scores.half_log)
        return self.candidate.criterion(max(float(run.losses[0]), np.finfo(np.float64).tiny), count, seen)

    def _blocks(self, rank: int) -> float:
        if not self.ask.bi_cross_validate:
            return math.nan
        rng = _seed(self.parameters.random_state, 0, 0)  # the same parts at every rank
        return bi_cross_validation(self.X, self.facts, self.candidate, rank, self.runner, rng)


def _search(given: Received, facts: Facts, p: Parameters, placement: Any, ask: Question, loss: Loss) -> RankProfile:
    """Walk up the ranks under one loss."""
    candidate, problem = Candidate(loss), problem_of(p, placement.open(given), (loss,), given)
    runs = len(ask.ranks) * ask.masks * (checked(p, "n_init") + 1 + ask.stability)
    with running(problem, Runner.of(as_solver(p.solver).update, "auto", placement.gpu), p, runs) as runner:
        too_few = too_few_to_hold_out(facts, problem.data.shape, ask.ranks[0], ask.fraction) if ask.fraction else ()
        folds = _folds(problem, facts, runner, p, ask if not too_few else replace(ask, fraction=0.0))
        half_log = float(half_log_sums(counted(given), facts, [candidate])[0])
        search = Search(given.X, facts, p, ask, runner, candidate, folds, half_log)
        tried = list[Tried]()
        for rank in ask.ranks:
            tried.append(search.at(rank, tried[-1].runs if tried else None))
            if ask.early_stop and _hopeless(tried):
                break
    notes = problem.notes + too_few
    if len(tried) < len(ask.ranks):
        notes += (f"The search stopped at rank {tried[-1].rank}: {PATIENCE} ranks in a row were clearly worse.",)
    return _rank_profile(tried, loss, given.X.shape, notes)


def _folds(problem: Problem, facts: Facts, runner: Runner, p: Parameters, ask: Question) -> list[Fold]:
    """X under every mask, or as it is where nothing is held out."""
    if not ask.fraction:
        return [Fold(Walk(problem, runner), None)]
    X, data, seed = problem.given.X, problem.data, mask_seed(p.random_state)
    splits = [Split.of(X, facts, data, ask.fraction, seed + i, problem.observed) for i in range(ask.masks)]
    return [Fold(Walk(problem.without(split.mask.others), runner), split) for split in splits]


def _seed(random_state: Any, rank: int, fold: int) -> np.random.RandomState:
    """Draw starts of a rank that do not depend on the ranks before it, where a seed is given."""
    if isinstance(random_state, int | np.integer):
        return np.random.RandomState([int(random_state), rank, fold])
    return check_random_state(random_state)


def _hopeless(tried: list[Tried]) -> bool:
    """Whether the last ranks are all worse than the best by more than two standard errors."""
    if len(tried) <= PATIENCE or tried[-1].scores is None:
        return False
    compared = compare([one.scores for one in tried if one.scores is not None])
    last = range(len(tried) - PATIENCE, len(tried))
    return all(compared.differences[i] > 2.0 * compared.errors[i] for i in last)


def bayesian(criterion: float, rank: int, shape: tuple[int, int]) -> float:
    """Compute BIC from C: each entry of W sees n observations, each of H sees m."""
    m, n = shape
    return 2.0 * criterion + rank * m * math.log(n) + rank * n * math.log(m) - rank**2 * math.log(min(m, n))


def akaike(criterion: float, rank: int, shape: tuple[int, int]) -> float:
    """Compute AIC from C, with r (m + n - r) parameters."""
    m, n = shape
    return 2.0 * criterion + 2.0 * rank * (m + n - rank)


def _rank_profile(tried: list[Tried], loss: Loss, shape: tuple[int, int], notes: tuple[str, ...]) -> RankProfile:
    """Read the answer off the ranks that were tried."""
    scores = [one.scores for one in tried if one.scores is not None]
    compared = compare(scores) if scores else None
    table = [_row(one, i, compared, shape) for i, one in enumerate(tried)]
    if compared is None:
        best = min(table, key=lambda row: row["bic"])["rank"]
        notes += (f"BIC is smallest at rank {best}.",)
        return RankProfile(best, loss, table, None, notes)
    best = next(row["rank"] for row in table if row["within"])
    lowest = tried[compared.best].rank
    notes += (
        f"Held-out entries are predicted best at rank {lowest}; rank {best} is the smallest within one standard error.",
    )
    return RankProfile(best, loss, table, None, notes)


def _row(one: Tried, i: int, compared: Compared | None, shape: tuple[int, int]) -> dict[str, Any]:
    return {
        "rank": one.rank,
        "held_out": math.nan if compared is None else float(compared.differences[i]),
        "standard_error": math.nan if compared is None else float(compared.errors[i]),
        "within": compared is not None and compared.within[i],
        "criterion": one.criterion,
        "bic": bayesian(one.criterion, one.rank, shape),
        "aic": akaike(one.criterion, one.rank, shape),
        "bi_cross_validation": one.blocks,
        "stability": one.stability,
    }
