"""The stages of a discovery: noise, ranks, heavy rows, penalties, consensus, each as far as the time allows.

`Stages.settle` is the one answer to "which noise, and how many components": `rank_profile`, ``n_components="auto"`` and
`discover` call it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from drnmf.losses.base import Loss, Omega, need_nonzeros_only
from drnmf.losses.interval import Interval
from drnmf.losses.names import as_loss
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.numerics import Vector
from drnmf.objective.penalties import Sparsity
from drnmf.objective.penalty import Penalty
from drnmf.parameters.common import Parameters
from drnmf.selection.alpha import (
    SPARSITIES,
    AlphaPath,
    path_of,
    said,
    sparsity_path,
    volume_path,
    with_alpha,
    with_path,
)
from drnmf.selection.choose import Tried, best_rank, near_best, undecided, why_rank
from drnmf.selection.consensus import Consensus, come_again, consensus
from drnmf.selection.folds import HELD_OUT, too_few_to_hold_out
from drnmf.selection.likelihood.scores import joined
from drnmf.selection.noise import NoiseProfile, read_noise
from drnmf.selection.resampling import HEAVY, POISSON, resampling_for
from drnmf.selection.stages.ranks import (
    COARSE,
    LADDER,
    capped_is_better,
    joined_scores,
    ladder,
    ranks_above,
    still_to_try,
    to_try,
    with_most_stable,
)
from drnmf.selection.stages.residuals import LAST
from drnmf.selection.stages.run_pool import RunPool, Study, rows_seen
from drnmf.selection.stages.runs import Run
from drnmf.selection.stages.schedule import Schedule
from drnmf.solve.settings import terms_of

RUNS_PER_RANK = 4
"""Runs that judge a rank, however many the consensus has: the answer must not depend on those."""
MORE_JUDGES = 4
"""How many times as many runs judge the ranks where uncertainties leave several of them."""
LOOKS = 2
"""Runs of a rank that say where to read the noise: the first of those that judge it, so that none is made twice."""
REDRAWN_RUNS = 8
"""Runs that tell how many components of a rank are stable, those the consensus begins with."""
LEAST_RUNS = 4
"""Runs that must have come to their end before anything is called stable."""
MOST_RANKS = 30
"""Largest rank that is tried where none is given."""
ROUNDS = 4
"""How often noise and rank are settled in turn, at most."""
FIRST_RANK = 3
"""Where noise is read first."""
SAME_SIZE = 1.25
"""Sizes of a negative binomial within this ratio are one loss."""
_NOISE_FITS = 8.0
"""Work of the noise profile, in fits: one, and short ones from where their neighbour ended."""
_MOMENT = 1e-3
"""Seconds that the first fits of the noise are given where the limit was over before them: a limit of 0 is none."""
_SPARE = 0.1
"""Part of the limit that must be left for more ranks to be tried after the consensus."""
_LAST_FITS = 0.5
"""Work of the contributions and residuals, in fits: they move one factor, and only as far as it moves."""
NOISE, RANKS, PENALTY, FINER = "noise", "ranks", "penalty", "finer ranks"
LEAST_PART = 0.6
"""Ranks below this part of the one found on the ladder are not tried again under penalties."""


@dataclass(frozen=True)
class Question:
    """What is asked of X."""

    ranks: tuple[int, ...]  # what may be tried
    model: Parameters  # whose tolerances noise is read with
    threshold: float = 0.6  # stability that a component needs
    n_runs: int = 0  # of the consensus
    judges: int = RUNS_PER_RANK  # runs that judge a rank
    how: str = LADDER  # which of the ranks are tried (`ranks.to_try`)
    held_out: float = HELD_OUT  # part of the entries that such a run does not see
    counts: bool | None = None  # whether X holds counts; None lets the data say
    criteria: bool = False  # whether C is wanted of every rank
    above: bool = True  # whether components of few rows are looked for at larger ranks


@dataclass
class Search:
    """Ranks that were tried in a stage, and whether the time was enough for all of them."""

    pool: RunPool
    stage: str
    ranks: tuple[int, ...]
    how: str
    judges: int
    found: dict[int, Tried] = field(default_factory=dict)
    finished: bool = False

    @property
    def table(self) -> list[Tried]:
        """What was found, by rank."""
        return [self.found[rank] for rank in sorted(self.found)]


@dataclass(frozen=True)
class Larger:
    """Runs of more components than predict best, of which more are stable, or of fewer, all of which are."""

    fitted: int  # components of a run
    stable: int  # how many of them are stable


@dataclass
class Stages:
    """The stages of a discovery, each of which may run out of time and then says so in `missing`."""

    ask: Question
    losses: Omega | Interval | None
    schedule: Schedule
    notes: list[str] = field(default_factory=list)
    done: list[dict[str, Any]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    interrupted: bool = False
    paths: tuple[AlphaPath, ...] = ()
    judging: RunPool | None = None
    larger: Larger | None = None
    _left: Search | None = None

    @property
    def ranks(self) -> tuple[int, ...]:
        """What may be tried."""
        return self.ask.ranks

    def settle(self, pool: RunPool, coarse: bool = False) -> tuple[RunPool, list[Tried], NoiseProfile | None]:
        """Find noise and rank in turn until both stand; losses given stay.

        Noise is read at the rank that was found, from below, never at the largest: too few components look like noise
        that is too wide, under which too many are not found; a fit of too many has eaten the noise, and stands by
        itself. The rounds look at the ladder of ranks alone. Returns the pool whose runs are made under the losses, the
        ranks that were tried under them, and the noise that chose them, None where they were given.
        """
        profile, judging, table, several = None, pool, list[Tried](), len(self.ranks) > 1
        if self.losses is None:
            profile = self.noise(pool.study, min(self.ranks, key=lambda rank: abs(rank - FIRST_RANK)))
            loss = self._one_loss()
            judging = self.judging = _under(pool, loss)
            for _ in range(ROUNDS if several else 0):
                look = Search(judging, NOISE, self.ranks, COARSE, min(LOOKS, self.ask.judges))
                self._try(look)
                if not look.found:
                    break
                if self.schedule.allowance(NOISE) == 0.0:
                    self.missing.append("the noise was not read again at the rank that was found")
                    break
                profile = self.noise(pool.study, best_rank(look.table).rank)
                if same_loss(self._one_loss(), loss):
                    break
                loss = self._one_loss()
                judging = self.judging = _under(pool, loss)
            else:
                if several:
                    self._note(f"Noise and rank did not settle in {ROUNDS} rounds: the last is taken.")
            self.schedule.close(NOISE)
            pool = _under(pool, self._one_loss())
        if several or self.ask.criteria:
            self.notes += _too_few(judging.study, self.ranks[0], self.ask.held_out)
            how = COARSE if coarse else self.ask.how  # `penalise` tries the others then
            table = self._try(Search(judging, RANKS, self.ranks, how, self.ask.judges))
            if not table:
                raise self._too_short(self.ranks[0])
            table = self._judged_again(judging, table, how)
        self._look_above(pool, judging, table, profile, coarse)
        return pool, table, profile

    def _one_loss(self) -> Loss:
        """The loss that was read off the noise."""
        assert isinstance(self.losses, tuple)
        return self.losses[0]

    def _look_above(
        self, pool: RunPool, judging: RunPool, table: list[Tried], noise: NoiseProfile | None, coarse: bool
    ) -> None:
        """Look for components that few rows have: counts drawn anew, at somewhat larger ranks than predict best.

        A component of few rows gains little in held-out entries, and every row pays for it. Runs of more components
        find it again and again where it is real, while what else they add differs from run to run: so the rank with
        the most stable ones is taken (`with_most_stable`). No more of them are than predict about as well as the best:
        where rows or columns are few, halves of a component come again too, even in counts that share no noise. The
        next smaller rank that predicts about as well takes part too. Runs that have not ended say nothing, for they
        still follow their start.
        """
        study, judged = pool.study, [one for one in table if one.scores is not None]
        one_sided = study.model.fixed is not None or study.factors is not None or bool(terms_of(study.model))
        plain = isinstance(study.losses, tuple) and len(study.losses) == 1 and not one_sided
        if (
            not plain
            or not self.ask.above
            or coarse
            or self._left
            or self.interrupted
            or len(judged) < 2
            or study.problem.columns
        ):
            return
        said = None if noise is None else noise.counts
        how = resampling_for(study.problem.given, study.losses, self.ask.counts, said)
        if how != POISSON:
            return
        pool, first, before = pool.changed(resample=how), best_rank(table).rank, self.schedule.seconds
        stability = dict[int, Vector]()
        with self._until_interrupted(pool):
            below = [one.rank for one in near_best(table) if one.rank < first]
            for rank in below[-1:] + ranks_above(first, self.ranks):
                self.schedule.expect(RANKS, REDRAWN_RUNS * rank)
                runs = pool.runs(RANKS, rank, REDRAWN_RUNS)
                if len(runs) < REDRAWN_RUNS or sum(run.settled for run in runs) < REDRAWN_RUNS // 2:
                    break
                stability[rank] = consensus([run.short_side for run in runs]).stability
        most = self._most(judging, table, stability)
        self.schedule.close(RANKS)
        self.ended(RANKS, before)
        counts = {rank: int((values >= self.ask.threshold).sum()) for rank, values in stability.items()}
        best = with_most_stable(stability, first, self.ask.threshold, most)
        if best < first and counts[best] == best and first in counts:
            self.larger = Larger(best, best)
            self._note(f"Of {first} components {counts[first]} are stable, and of {best} all: the {best} are taken.")
        if best > first and first in counts:
            self.larger = Larger(best, min(counts[best], most))
            taken = f"the {most} most stable" if counts[best] > most else f"the {counts[best]}"
            self._note(
                f"Runs of {best} components find {counts[best]} stable ones, and those of {first}, which predict best, "
                f"{counts[first]}: {taken} are taken. What few rows have gains little in held-out entries."
            )

    def _most(self, pool: RunPool, table: list[Tried], stability: dict[int, Vector]) -> int:
        """Count the components that may be taken: as many as predict about as well as the best.

        Where more are stable, four times as many runs say whether they do: one component more or less is what few
        masks cannot tell.
        """
        near = max(one.rank for one in near_best(table))
        wanted = with_most_stable(stability, best_rank(table).rank, self.ask.threshold, self.ranks[-1])
        stable = int((stability[wanted] >= self.ask.threshold).sum()) if wanted in stability else 0
        if stable <= near or stable not in self.ranks or self.interrupted:
            return near
        pool = self._that_judges(pool)
        again = list[Tried]()
        with self._until_interrupted(pool):
            for rank in (near, stable):
                runs = [run for run in pool.runs(RANKS, rank, MORE_JUDGES * self.ask.judges, True) if run.whole]
                again += [self._judged(pool, rank, runs)] if len(runs) >= self.ask.judges else []
        return stable if len(again) > 1 and again[-1] in near_best(again) else near

    def noise(self, study: Study, rank: int) -> NoiseProfile:
        """Read the losses off the noise at a rank."""
        before, allowed = self.schedule.seconds, self.schedule.allowance(NOISE)
        limit = None if allowed is None else max(allowed, _MOMENT)
        model = replace(self.ask.model, n_components=rank, n_init=1, init="random", max_time=limit, verbose=0)
        held_out, X = self.ask.held_out, study.problem.given.X
        profile = read_noise(study.upright, model, study.runner, held_out=held_out, counts=self.ask.counts)
        if study.turns:
            solutions = {name: (H.T, W.T) for name, (W, H) in profile.solutions.items()}
            profile = replace(profile, solutions=solutions)
        self.losses = (as_loss(profile.best),)
        if issparse(X) and not need_nonzeros_only(self.losses):
            self._take_sparse_loss(profile, self.losses[0])
        self.schedule.advance(NOISE, _NOISE_FITS * rank, f"{self.losses[0].name} is the likeliest", fresh=False)
        if profile.unfinished:
            missing = "the noise was read off fits that had not ended"
            self.missing += [missing] if missing not in self.missing else []
            self._note(f"Losses whose fits had not ended: {', '.join(profile.unfinished)}.")
        self.ended(NOISE, before, not profile.unfinished)
        return profile

    def _note(self, note: str) -> None:
        """Say something once."""
        if note not in self.notes:
            self.notes.append(note)

    def _take_sparse_loss(self, profile: NoiseProfile, best: Loss) -> None:
        """Take a loss that uses the sparsity of X, where held-out entries cannot tell it from the best."""
        near = [as_loss(beta) for beta in profile.interval if need_nonzeros_only((as_loss(beta),))]
        if near:
            loss = min(near, key=lambda loss: abs(loss.beta - profile.beta))
            self.losses = (loss,)
            alike = f"held-out entries cannot tell it from {best.name}, and it uses the sparsity of X"
            self._note(f"{loss.name} is fitted: {alike}.")

    def _try(self, search: Search) -> list[Tried]:
        """Try one rank after another, unless there is no time for two runs of it.

        But for the noise, of which it is a part, a search is a stage: what there is no time for is `_left` for later.
        """
        found, ranks, before = search.found, search.ranks, self.schedule.seconds
        pool, stage = self._that_judges(search.pool), search.stage != NOISE
        with self._until_interrupted(pool):
            for rank in to_try(ranks, found, search.how):
                if stage:
                    left = still_to_try(ranks, found, search.how)
                    self.schedule.expect(search.stage, search.judges * max(left, rank))
                    likely = self._rank(search.table) if found else ranks[len(ranks) // 2]
                    self._expect_results(pool, likely)
                made = pool.runs(search.stage, rank, search.judges, judge=True)
                whole = [run for run in made if run.whole]
                enough = min(2, search.judges)
                if len(made) < enough or (len(whole) < enough and rank != ranks[0]):
                    break
                found[rank] = self._judged(pool, rank, made)
            else:
                search.finished = True
        if stage:
            self._left = None if search.finished else search
            self.schedule.close(search.stage)
            self.ended(search.stage, before, search.finished)
        return search.table

    def _judged_again(self, pool: RunPool, table: list[Tried], how: str) -> list[Tried]:
        """Judge the ranks by more runs where uncertainties are known, and leave several of them.

        What single fits predict differs by as much as these ranks do: the answer would follow the seed.
        """
        if self._left or self.interrupted or not undecided(table):
            return table
        found = self._try(Search(pool, RANKS, self.ranks, how, MORE_JUDGES * self.ask.judges))
        if self._left is None:
            return found
        self._left = None
        self.missing.append("the ranks that predict about as well were not judged by more runs")
        return table

    def _that_judges(self, pool: RunPool) -> RunPool:
        """The pool whose runs do not see some entries, or see all where X is too small for that."""
        fraction = 0.0 if _too_few(pool.study, self.ranks[0], self.ask.held_out) else self.ask.held_out
        return pool if fraction == pool.study.fraction else pool.changed(fraction=fraction)

    def _judged(self, pool: RunPool, rank: int, runs: list[Run]) -> Tried:
        """Judge a rank by what its runs agree on and predict."""
        scores = [run.scores for run in runs if run.scores is not None]
        fits = [(run.W, run.H) for run in runs if run.W is not None]
        same_rows = len(fits) == len(runs)  # of a large X every run saw others
        stability = come_again(fits) if same_rows else consensus([run.H for run in runs]).stability
        study = pool.study
        wanted = not study.fraction or (self.ask.criteria and len(runs) >= self.ask.judges)
        one = runs[0] if study.fraction else min(runs, key=lambda run: run.error)  # of other masks losses are others
        criterion = study.criterion(one, pool.seeds[0]) if wanted and fits else math.nan
        error = min(run.error for run in runs)
        together = joined(scores) if scores else None
        return Tried(rank, together, stability, len(runs), error, criterion, study.problem.shape)

    def _expect_results(self, pool: RunPool, rank: int) -> None:
        """Plan the consensus at a rank, and the contributions of all rows, of which a run may see a part."""
        if not self.ask.n_runs:
            return
        given = pool.study.problem.given
        seen = rows_seen(given, 0, pool.study.omega)
        self.schedule.expect("consensus", pool.to_make(rank, self.ask.n_runs) * rank)
        part = 1.0 if isinstance(seen, slice) else given.X.shape[0] / len(seen)
        self.schedule.expect(LAST, _LAST_FITS * rank * part)

    def consensus(self, pool: RunPool, table: list[Tried]) -> tuple[list[Run], Consensus, list[Tried]]:
        """Make all runs at the rank that was chosen, and continue the search for it where that leaves time.

        Returns
        -------
        runs, found : the runs, and what they agree on
        table : the ranks that were tried, which may have become more
        """
        rank, n_runs = self._rank(table), self.ask.n_runs
        runs = self._consensus_runs(pool, rank)
        while self._left is not None and self._has_time(runs):
            before, table = len(table), self._try(self._left)
            if self._rank(table) != rank:
                rank = self._rank(table)
                runs = self._consensus_runs(pool, rank)
            if len(table) == before:
                break
        ended = sum(run.whole for run in runs)
        if self._left is not None:
            tried = ", ".join(str(one.rank) for one in table)
            self.missing.insert(0, f"of the ranks {self.ranks[0]} to {self.ranks[-1]} only {tried} were tried")
        if ended < n_runs:
            self.missing.insert(0, f"{ended} of the {n_runs} runs of the consensus were finished")
        if ended < min(LEAST_RUNS, n_runs):
            runs = self._runs_that_judged(pool, rank, runs)
        if table:
            self._note(why_rank(table))
        found = consensus([run.H for run in runs])
        if self.larger is not None:  # as many as were found stable: the number of runs, and who asks, have no say
            found = found.reordered(np.sort(np.argsort(-found.stability, kind="stable")[: self.larger.stable]))
        return runs, found, table

    def _consensus_runs(self, pool: RunPool, rank: int) -> list[Run]:
        before, runs = self.schedule.seconds, list[Run]()
        self._expect_results(pool, rank)
        with self._until_interrupted(pool):
            runs = pool.runs("consensus", rank, self.ask.n_runs)
        if not runs:
            runs = pool.runs("consensus", rank, self.ask.n_runs)
        self.ended("consensus", before, sum(run.whole for run in runs) == self.ask.n_runs)
        return runs

    def _has_time(self, runs: list[Run]) -> bool:
        """Whether all runs came to their end well before the limit."""
        ended = sum(run.whole for run in runs)
        return not self.interrupted and ended == self.ask.n_runs and self.schedule.left > _SPARE * self.schedule.limit

    def _runs_that_judged(self, pool: RunPool, rank: int, runs: list[Run]) -> list[Run]:
        """The runs that saw a part of the entries to judge the rank, where more of them than of these were finished."""
        pool.halt()
        others = (self.judging or pool).runs("consensus", rank, self.ask.judges, True)
        if len(others) > max(sum(run.whole for run in runs), 1):
            self.notes.append(
                "The components are those of the runs that judged the rank, each without a tenth of the entries."
            )
            return others
        if len(runs) < 2:
            raise self._too_short(rank)
        return runs

    def heavy(self, pool: RunPool, table: list[Tried], factors: Vector) -> RunPool:
        """Scale heavy rows down for the runs to come, where held-out entries of X are then predicted better."""
        before, rank, made = self.schedule.seconds, self._rank(table), list[list[Run]]()
        if _too_few(pool.study, self.ranks[0], self.ask.held_out):
            self.schedule.close("heavy")
            return pool
        capped = pool.changed("capped-", factors=factors)
        with self._until_interrupted(pool):
            made = [one.runs("heavy", rank, self.ask.judges, True) for one in (pool.as_it_is(), capped)]
        made = [[run for run in runs if run.whole] for runs in made]
        judged = len(made) == 2 and min(map(len, made)) >= 2
        self.schedule.close("heavy")
        self.ended("heavy", before, judged)
        rows = f"{int((factors < 1.0).sum())} rows weigh more than {HEAVY:g} times the median row"
        if not judged:
            self.missing.append(f"{rows}, and whether to scale them down was not judged")
            return pool
        better = capped_is_better(*made)
        held = "predicted better then" if better else "not predicted better otherwise"
        self.notes.append(f"{rows}: they are {'scaled down' if better else 'kept as they are'}, entries are {held}.")
        return capped if better else pool

    def penalise(self, pool: RunPool, table: list[Tried], terms: tuple[Penalty, ...]) -> tuple[RunPool, list[Tried]]:
        """Choose the alphas that are left to the data, at the best rank of the grid, and then the rank.

        A volume is not chosen by prediction, and prediction under it says nothing of the rank.
        """
        before, rank = self.schedule.seconds, self._rank(table)
        chosen = terms_of(pool.study.model)
        without = len(chosen)
        for term in terms:
            path = None
            with self._until_interrupted(pool):
                path = self._path(pool, rank, chosen, term)
            if path is None:
                self.missing.append(f"no alpha was chosen for the {term.name}, which is left out")
            else:
                self.paths += (path,)
                self.notes.append(said(path, term))
                chosen = with_path(chosen, term, path)
        self.schedule.close(PENALTY)
        self.ended(PENALTY, before, len(self.paths) == len(terms))
        sparse = any(isinstance(term, Sparsity) for term in chosen[without:])
        ranks = tuple(r for r in self.ranks if not sparse or r >= LEAST_PART * rank)
        if table:
            found, finished = self._finer(pool.penalised(chosen) if sparse else pool, ranks)
            table = found if finished or not sparse else table
        return pool.penalised(chosen) if len(chosen) > without else pool, table

    def _path(self, pool: RunPool, rank: int, known: tuple[Penalty, ...], term: Penalty) -> AlphaPath | None:
        """Try alphas of one penalty at a rank, next to those that are known."""
        judge, pool = isinstance(term, Sparsity), pool.as_it_is()

        def runs(alpha: float) -> list[Run]:
            one = pool.penalised((*known, with_alpha(term, alpha))) if alpha else pool
            made = one.runs(PENALTY, rank, self.ask.judges if judge else 1, judge)
            return [run for run in made if run.whole]

        if not judge:
            return volume_path(term, lambda alpha: min((run.error for run in runs(alpha)), default=math.inf))
        if _too_few(pool.study, self.ranks[0], self.ask.held_out):
            return path_of(term, 0.0, {}, math.nan)
        return sparsity_path(term, lambda alpha: joined_scores(made) if len(made := runs(alpha)) >= 2 else None)

    def _finer(self, pool: RunPool, ranks: tuple[int, ...]) -> tuple[list[Tried], bool]:
        """Search next to the best rank of the grid; under a sparsity all over, for more components may predict well."""
        found = self._try(Search(pool, FINER, ranks, LADDER, self.ask.judges))
        finished, self._left = self._left is None, None
        if not finished:
            tried = ", ".join(str(one.rank) for one in found) or "none"
            self.missing.append(f"of the ranks of the finer search only {tried} were tried")
        return found, finished

    def components(self, table: list[Tried]) -> int:
        """How many components there are, by the ranks that were tried."""
        return best_rank(table).rank if self.larger is None else self.larger.stable

    def _rank(self, table: list[Tried]) -> int:
        """How many components the runs of the consensus have."""
        if self.larger is not None:
            return self.larger.fitted
        return best_rank(table).rank if table else self.ranks[0]

    @contextmanager
    def _until_interrupted(self, pool: RunPool) -> Iterator[None]:
        """Do the work of a stage; after Ctrl-C no further run is made, and what is there must do."""
        try:
            yield
        except KeyboardInterrupt:
            self.interrupted = True
            pool.halt()

    def _too_short(self, rank: int) -> BaseException:
        """What to raise where there are no two runs to compare."""
        if self.interrupted:
            return KeyboardInterrupt()
        return ValueError(
            f"max_time={self.schedule.limit:g} seconds are too short: no two runs of rank {rank} ended. Allow more "
            "time or smaller ranks."
        )

    def ended(self, name: str, before: float, finished: bool = True) -> None:
        """Note how long a stage took, and whether it came to its end; one that comes again is one stage."""
        seconds = self.schedule.seconds - before + sum(one["seconds"] for one in self.done if one["name"] == name)
        self.done = [one for one in self.done if one["name"] != name]
        self.done.append({"name": name, "seconds": round(seconds, 3), "finished": finished})


def _under(pool: RunPool, loss: Loss) -> RunPool:
    """The pool whose runs are made under a loss."""
    return pool.changed(f"{loss.key.replace(':', '_')}-", losses=(loss,))


def _too_few(study: Study, rank: int, fraction: float) -> tuple[str, ...]:
    """Say that X is too small for held-out entries; nothing where none were asked for."""
    return too_few_to_hold_out(study.facts, study.problem.shape, rank, fraction) if fraction else ()


def same_loss(one: Loss, other: Loss) -> bool:
    """Tell whether two losses are one for the question of the rank.

    >>> from drnmf.losses.beta import KL
    >>> same_loss(NegativeBinomial(10), NegativeBinomial(11)), same_loss(NegativeBinomial(10), KL)
    (True, False)
    """
    if isinstance(one, NegativeBinomial) and isinstance(other, NegativeBinomial):
        return max(one.size, other.size) <= SAME_SIZE * min(one.size, other.size)
    return one == other


def plan(ranks: tuple[int, ...], n_runs: int, noise: bool, heavy: bool, penalties: int = 0) -> dict[str, float]:
    """Guess the work of every stage, in fits times rank."""
    middle = ranks[len(ranks) // 2]
    looks = RUNS_PER_RANK * len(ladder(ranks)) if len(ranks) > 1 else 0
    work = {NOISE: (_NOISE_FITS + looks) * middle} if noise else {}
    if len(ranks) > 1:
        work[RANKS] = RUNS_PER_RANK * (len(ladder(ranks)) + (0.0 if penalties else 4.0)) * middle
    if heavy:
        work["heavy"] = float(RUNS_PER_RANK * (1 if len(ranks) > 1 else 2) * middle)
    if penalties:
        work[PENALTY] = float(RUNS_PER_RANK * (len(SPARSITIES) - 1) * penalties * middle)
        work[FINER] = float(RUNS_PER_RANK * (len(ladder(ranks)) + 2.0) * middle) if len(ranks) > 1 else 0.0
    return work | {"consensus": float(n_runs * middle), LAST: _LAST_FITS * middle}
