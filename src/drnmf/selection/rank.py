r"""How many components? Entries left out of the fits, scored rank by rank, with warm starts along the rank.

Among the ranks that held-out entries cannot tell from the best the most stable is taken (`choose.best_rank`). Beside
it stand the information criteria, from C, minus the log-likelihood of the fitted entries, each entry of W seeing n
observations and each of H seeing m:

.. math:: \mathrm{BIC}(\beta, r) = 2 C(\beta) + r m \log n + r n \log m - r^2 \log \min(m, n)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from drnmf.algorithms.initialize import Start, start
from drnmf.algorithms.result import Result
from drnmf.losses.base import Loss
from drnmf.losses.names import as_loss
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.numerics import Vector
from drnmf.parameters.checks import check_integer
from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import checked
from drnmf.parameters.solver import as_solver
from drnmf.problem.device import as_numpy, place
from drnmf.problem.problem import Problem
from drnmf.problem.receive import Received
from drnmf.selection.alike import ONE_COMPONENT, one_component
from drnmf.selection.blocks import bi_cross_validation
from drnmf.selection.choose import Tried, best_rank, clearly_worse, why_rank
from drnmf.selection.consensus import consensus
from drnmf.selection.entries import Facts, bound, counted, facts_of
from drnmf.selection.folds import HELD_OUT, Fold, check_fraction, mask_seed, too_few_to_hold_out
from drnmf.selection.likelihood.masses import Noise, noise_for
from drnmf.selection.likelihood.scores import Compared, compare, joined
from drnmf.selection.matching import agreement
from drnmf.selection.noise import NoiseProfile, compare_losses
from drnmf.selection.warm_starts import Walk, grown, on_host
from drnmf.solve.pipeline import running
from drnmf.solve.runner import Runner
from drnmf.solve.settings import asked_losses, check_model, only_compared, problem_of, reading_of

MAX_ITER, TOLERANCE, STARTS = 1000, 3e-4, 2
"""Iterations, tolerance and least number of starts of the fits, where they are left to the library."""

PATIENCE = 3
"""Ranks in a row that are clearly worse than the best before the search stops."""

MASKS = 4
"""How often entries are held out, other ones each time."""

ROUNDS = 4
"""How often noise and rank are settled in turn, at most."""

SAME_SIZE = 1.25
"""Sizes of a negative binomial within this ratio are one loss."""

FIRST_RANK = 3
"""Where noise is read first."""

IDLE = 1e-3
"""Part of the whole below which a component is empty."""

THRESHOLD = 0.6
"""Stability that a component needs."""


@dataclass(frozen=True)
class RankProfile:
    """What X says about the number of components.

    Attributes
    ----------
    best : int
        The most stable of the ranks within one standard error of the best held-out score; by BIC where X is too small.
    loss : Loss
        The loss under which ranks were compared.
    table : list of dict
        One row for each rank: rank, held_out (difference to the best, per entry), standard_error (of that paired
        difference), within (one standard error), criterion (C), bic, aic, bi_cross_validation (mean score of entries,
        NaN where it was not asked for) and stability (of the components over the masks; where runs were asked for the
        mean cosine of their components).
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
class Found:
    """A rank, its fits on every fold, and what was found beside its scores."""

    tried: Tried
    runs: list[Result]
    criterion: float
    agreement: float
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
        and device are used, not its rank, penalties and constraints. "auto" settles noise (`noise_profile`)
        and rank in turn, until both stand. At each rank there are `n_init` fresh random starts (two at least
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
    entry_weight, uncertainty : as in `BetaNMF.fit`; a weight says how often its entry counts, an uncertainty is its
        standard deviation

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
        return compare_losses(plain, X, reading, None, held_out)

    auto, known = isinstance(betas, str) and betas.strip().lower() == "auto", uncertainty is not None
    masks, repeats = check_integer("n_masks", n_masks, 1), check_integer("stability", stability, 0)
    ask = Question(listed, fraction, masks, bi_cross_validate, repeats, not isinstance(ranks, Iterable), known)
    search = partial(_search, given, facts, parameters, placement, ask)
    if auto:
        found = settled(search, noise, min(listed, key=lambda rank: abs(rank - FIRST_RANK)))
    else:
        found = search(_one_loss(betas))
    return replace(found, notes=(ONE_COMPONENT, *found.notes)) if alike else found


def _one_loss(betas: Any) -> Loss:
    """Return the loss under which ranks are compared, which must be one."""
    losses = [betas] if isinstance(betas, str) or not isinstance(betas, Iterable) else list(betas)
    if len(losses) != 1:
        raise ValueError(f"betas={betas!r} are {len(losses)} losses: ranks are compared under one, as of BetaNMF.")
    return as_loss(losses[0])


def settled(search: Callable[[Loss], RankProfile], noise: Callable[[int], NoiseProfile], first: int) -> RankProfile:
    """Settle rank and noise in turn until both stand: noise is read at the rank that was found, never at the largest.

    From below: too few components look like noise that is too wide, under which too many are not found; a fit of too
    many has eaten the noise, and stands by itself.

    Parameters
    ----------
    search : finds the rank under a loss
    noise : finds the noise at a rank
    first : the rank to begin with
    """
    loss = noise(first).judge
    for _ in range(ROUNDS):
        found = search(loss)
        profile = noise(found.best)
        if same_loss(profile.judge, loss):
            return replace(found, noise=profile, notes=profile.notes + found.notes)
        loss = profile.judge
    remark = f"Noise and rank did not settle in {ROUNDS} rounds: the last is taken."
    return replace(found, noise=profile, notes=(*profile.notes, *found.notes, remark))


def same_loss(one: Loss, other: Loss) -> bool:
    """Tell whether two losses are one for the question of the rank.

    >>> from drnmf.losses.beta import KL
    >>> same_loss(NegativeBinomial(10), NegativeBinomial(11)), same_loss(NegativeBinomial(10), KL)
    (True, False)
    """
    if isinstance(one, NegativeBinomial) and isinstance(other, NegativeBinomial):
        return max(one.size, other.size) <= SAME_SIZE * min(one.size, other.size)
    return one == other


@dataclass(frozen=True)
class Question:
    """What is asked of every rank: see `rank_profile`."""

    ranks: list[int]
    fraction: float
    masks: int
    bi_cross_validate: bool
    stability: int
    early_stop: bool
    known: bool = False


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


@dataclass(frozen=True)
class Search:
    """Everything that ranks under one loss have in common."""

    X: Any
    facts: Facts
    parameters: Parameters
    ask: Question
    runner: Runner
    loss: Loss
    folds: list[Fold]
    walks: list[Walk]

    @property
    def noise(self) -> Noise:
        """What entries are scored under."""
        return noise_for(self.loss)

    def at(self, rank: int, below: list[Result] | None) -> Found:
        """Fit one rank on every fold, from fresh starts and from the rank below, and look at what it predicts."""
        runs = [self._best(i, rank, None if below is None else below[i]) for i in range(len(self.walks))]
        fits = [on_host(walk.data, (run.W, run.H)) for walk, run in zip(self.walks, runs, strict=True)]
        scores = None
        if self.ask.fraction:
            scores = joined([fold.score(self.noise, fit) for fold, fit in zip(self.folds, fits, strict=True)])
        criterion = -self.folds[0].score(self.noise, fits[0], seen=bool(self.ask.fraction)).mean * self.facts.count
        tried = Tried(rank, scores, come_again(fits))
        return Found(tried, runs, criterion, self._agreement(rank), self._blocks(rank))

    def _best(self, i: int, rank: int, below: Result | None) -> Result:
        walk, rng = self.walks[i], _seed(self.parameters.random_state, rank, i)
        fresh = self._starts(walk, rank, rng, checked(self.parameters, "n_init"))
        warm = () if below is None else (grown(walk.data, (below.W, below.H), rank, rng),)
        return walk.first(self.loss, fresh, warm)

    def _starts(self, walk: Walk, rank: int, rng: np.random.RandomState, count: int) -> list[Start]:
        return [start(walk.data, rank, "random", rng) for _ in range(count)]

    def _agreement(self, rank: int) -> float:
        """Compare the components of runs from different starts, each brought to its end."""
        if self.ask.stability < 2:
            return math.nan
        walk, rng = self.walks[0], _seed(self.parameters.random_state, rank, 0)
        runs = walk.all(self.loss, self._starts(walk, rank, rng, self.ask.stability))
        return agreement([as_numpy(run.H) for run in runs])

    def _blocks(self, rank: int) -> float:
        if not self.ask.bi_cross_validate:
            return math.nan
        rng = _seed(self.parameters.random_state, 0, 0)  # the same parts at every rank
        return bi_cross_validation(self.X, self.facts, self.loss, rank, self.runner, rng)


def come_again(fits: list[Start]) -> Vector:
    """Compute how well components come again in several fits: by both factors, so that X and X' say the same."""
    if len(fits) < 2:
        return np.empty(0)
    sides = [consensus([F[side].T if side == 0 else F[side] for F in fits]).stability for side in (0, 1)]
    found = np.mean([np.sort(side) for side in sides], axis=0)
    found[: min(_idle(W, H) for W, H in fits)] = 0.0
    return np.asarray(found)


def _idle(W: Vector, H: Vector) -> int:
    """Count components that a fit has left empty: exact data need no more, and nothing comes again of those."""
    sizes = W.sum(axis=0, dtype=np.float64) * H.sum(axis=1, dtype=np.float64)
    return int((sizes < IDLE * sizes.sum()).sum())


def _search(given: Received, facts: Facts, p: Parameters, placement: Any, ask: Question, loss: Loss) -> RankProfile:
    """Walk up the ranks under one loss."""
    problem = problem_of(p, placement.open(given), (loss,), given)
    runs = len(ask.ranks) * ask.masks * (checked(p, "n_init") + 1 + ask.stability)
    with running(problem, Runner.of(as_solver(p.solver).update, "auto", placement.gpu), p, runs) as runner:
        too_few = too_few_to_hold_out(facts, problem.data.shape, ask.ranks[0], ask.fraction) if ask.fraction else ()
        ask = replace(ask, fraction=0.0) if too_few else ask
        folds = _folds(problem, facts, p, ask)
        walks = [Walk(fold.problem(problem), runner) for fold in folds]
        search = Search(given.X, facts, p, ask, runner, loss, folds, walks)
        found = list[Found]()
        for rank in ask.ranks:
            found.append(search.at(rank, found[-1].runs if found else None))
            if ask.early_stop and _hopeless([one.tried for one in found]):
                break
    notes = problem.notes + too_few
    if len(found) < len(ask.ranks):
        notes += (f"The search stopped at rank {found[-1].tried.rank}: {PATIENCE} ranks in a row were clearly worse.",)
    return _rank_profile(found, loss, given.X.shape, notes)


def _folds(problem: Problem, facts: Facts, p: Parameters, ask: Question) -> list[Fold]:
    """X under every mask, or as it is where nothing is held out."""
    X, seed = problem.given.X, mask_seed(p.random_state)
    seeds = range(seed, seed + ask.masks) if ask.fraction else [seed]
    return [Fold.of(X, facts, ask.fraction, one, problem.observed, ask.known) for one in seeds]


def _seed(random_state: Any, rank: int, fold: int) -> np.random.RandomState:
    """Draw starts of a rank that do not depend on the ranks before it, where a seed is given."""
    if isinstance(random_state, int | np.integer):
        return np.random.RandomState([int(random_state), rank, fold])
    return check_random_state(random_state)


def _hopeless(tried: list[Tried]) -> bool:
    """Whether the last ranks are all clearly worse than the best."""
    worse = clearly_worse(tried)
    return len(tried) > PATIENCE and all(one.rank in worse for one in tried[-PATIENCE:])


def bayesian(criterion: float, rank: int, shape: tuple[int, int]) -> float:
    """Compute BIC from C: each entry of W sees n observations, each of H sees m."""
    m, n = shape
    return 2.0 * criterion + rank * m * math.log(n) + rank * n * math.log(m) - rank**2 * math.log(min(m, n))


def akaike(criterion: float, rank: int, shape: tuple[int, int]) -> float:
    """Compute AIC from C, with r (m + n - r) parameters."""
    m, n = shape
    return 2.0 * criterion + 2.0 * rank * (m + n - rank)


def _rank_profile(found: list[Found], loss: Loss, shape: tuple[int, int], notes: tuple[str, ...]) -> RankProfile:
    """Read the answer off the ranks that were tried."""
    tried = [one.tried for one in found]
    scores = [one.scores for one in tried if one.scores is not None]
    compared = compare(scores) if scores else None
    table = [_row(one, i, compared, shape) for i, one in enumerate(found)]
    if compared is None:
        best = min(table, key=lambda row: row["bic"])["rank"]
        notes += (f"BIC is smallest at rank {best}.",)
        return RankProfile(best, loss, table, None, notes)
    best = best_rank(tried, THRESHOLD).rank
    return RankProfile(best, loss, table, None, (*notes, why_rank(tried, THRESHOLD)))


def _row(one: Found, i: int, compared: Compared | None, shape: tuple[int, int]) -> dict[str, Any]:
    rank = one.tried.rank
    return {
        "rank": rank,
        "held_out": math.nan if compared is None else float(compared.differences[i]),
        "standard_error": math.nan if compared is None else float(compared.errors[i]),
        "within": compared is not None and compared.within[i],
        "criterion": one.criterion,
        "bic": bayesian(one.criterion, rank, shape),
        "aic": akaike(one.criterion, rank, shape),
        "bi_cross_validation": one.blocks,
        "stability": one.tried.mean_stability if math.isnan(one.agreement) else one.agreement,
    }
