"""The stages of a discovery: noise, ranks, heavy rows, consensus, each as far as the time allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import scipy.sparse as sp

from drnmf.losses.base import Loss, need_nonzeros_only
from drnmf.losses.names import as_loss
from drnmf.numerics import Vector
from drnmf.objective.penalties import Sparsity
from drnmf.objective.penalty import Penalty
from drnmf.parameters.common import Parameters
from drnmf.selection.choose import best_rank, why_rank
from drnmf.selection.consensus import Consensus
from drnmf.selection.folds import HELD_OUT, too_few_to_hold_out
from drnmf.selection.noise import NoiseProfile, noise_profile
from drnmf.selection.penalties.alpha import AlphaPath, path_of, with_alpha
from drnmf.selection.rank import FIRST_RANK, ROUNDS, same_loss
from drnmf.selection.stages.contributions import LAST
from drnmf.selection.stages.heavy import HEAVY
from drnmf.selection.stages.penalty import SPARSITIES, penalised, said, sparsity_path, volume_path, with_path
from drnmf.selection.stages.ranks import Tried, capped_is_better, joined_scores, ladder, search, still_to_try
from drnmf.selection.stages.run_pool import RunPool
from drnmf.selection.stages.runs import Fitter, Run, rows_seen
from drnmf.selection.stages.schedule import Schedule
from drnmf.solve.settings import terms_of

T = TypeVar("T")
RUNS_PER_RANK = 4
"""Runs that judge a rank, however many the consensus has: the answer must not depend on those."""
LEAST_RUNS = 4
"""Runs that must have come to their end before anything is called stable."""
_NOISE_FITS = 8.0
"""Work of the noise profile, in fits: one, and short ones from where their neighbour ended."""
_SPARE = 0.1
"""Part of the limit that must be left for more ranks to be tried after the consensus."""
_LAST_FITS = 0.5
"""Work of the contributions and residuals, in fits: they move one factor, and only as far as it moves."""
NOISE, PENALTY, FINER = "noise", "penalty", "finer ranks"
LEAST_PART = 0.6
"""Ranks below this part of the one found on the ladder are not tried again under penalties."""


@dataclass
class Stages:
    """The stages of a discovery, each of which may run out of time and then says so in `missing`."""

    X: Any
    losses: Any
    ranks: tuple[int, ...]
    n_runs: int
    threshold: float
    schedule: Schedule
    done: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    interrupted: bool = False
    paths: tuple[AlphaPath, ...] = ()
    judging: RunPool | None = None
    unstored: str = "zero"
    _further: Callable[[], list[Tried]] | None = None

    def settle(
        self, pool: RunPool, seed: int, coarse: bool = False
    ) -> tuple[RunPool, list[Tried], NoiseProfile | None]:
        """Find noise and rank in turn until both stand (`rank.settled`), on the ladder of ranks; losses given stay.

        Returns
        -------
        pool : whose runs are made under the losses
        table : the ranks that were tried under them
        noise : what they were chosen by, None where they were given
        """
        if self.losses is not None:
            return pool, self.search(pool, coarse), None
        profile = self.noise(seed, min(self.ranks, key=lambda rank: abs(rank - FIRST_RANK)))
        self.judging = self._under(pool, self._judge(profile))
        for _ in range(ROUNDS if len(self.ranks) > 1 else 0):
            table = self._look(self.judging)
            if not table:
                break
            profile, before = self.noise(seed, self._rank(table)), self._judge(profile)
            if same_loss(self._judge(profile), before):
                break
            self.judging = self._under(pool, self._judge(profile))
        self.schedule.close(NOISE)
        likeliest: Any = self.losses
        return self._under(pool, likeliest[0]), self.search(self.judging, coarse), profile

    def _judge(self, profile: NoiseProfile) -> Loss:
        """The loss under which ranks are compared: that of the profile, unless X asked for one that is sparse."""
        loss: Loss = self.losses[0]
        return profile.judge if loss == as_loss(profile.best) else loss

    def _under(self, pool: RunPool, loss: Loss) -> RunPool:
        """The pool whose runs are made under a loss."""
        return replace(pool, fitter=replace(pool.fitter, losses=(loss,)), kind=f"{loss.key.replace(':', '_')}-")

    def _look(self, pool: RunPool) -> list[Tried]:
        """Try the ranks of the ladder, as a part of what the noise costs; the search finds these runs made."""
        table = dict[int, Tried]()
        attempt = partial(self._attempt, pool, NOISE)
        self._unless_interrupted(pool, lambda: search(self.ranks, attempt, table, self.threshold, coarse=True))
        return [table[rank] for rank in sorted(table)]

    def noise(self, seed: int, rank: int) -> NoiseProfile:
        """Read the losses off the noise at a rank."""
        before, left = self.schedule.seconds, self.schedule.allowance(NOISE)
        model = Parameters(rank, init="random", random_state=seed, max_time=left, unstored=self.unstored)
        profile = noise_profile(model, self.X)
        self.losses = (as_loss(profile.best),)
        if sp.issparse(self.X) and not need_nonzeros_only(self.losses):
            self._take_sparse_loss(profile)
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

    def _take_sparse_loss(self, profile: NoiseProfile) -> None:
        """Take a loss that uses the sparsity of X, where held-out entries cannot tell it from the best."""
        near = [as_loss(beta) for beta in profile.interval if need_nonzeros_only((as_loss(beta),))]
        if near:
            best, loss = self.losses[0], min(near, key=lambda loss: abs(loss.beta - profile.beta))
            self.losses = (loss,)
            alike = f"held-out entries cannot tell it from {best.name}, and it uses the sparsity of X"
            self._note(f"{loss.name} is fitted: {alike}.")

    def search(self, pool: RunPool, coarse: bool = False) -> list[Tried]:
        """Try ranks with a few runs each; `coarse` is those of a ladder alone, where `penalise` tries the others."""
        if len(self.ranks) == 1:
            return []
        self.notes += [note.replace("the criterion of all entries", "stability") for note in self._too_few(pool.fitter)]
        table = self._searched(pool, "ranks", self.ranks, coarse)
        if not table:
            raise self._too_short(self.ranks[0])
        return table

    def _searched(self, pool: RunPool, stage: str, ranks: tuple[int, ...], coarse: bool = False) -> list[Tried]:
        """Search among ranks, in a stage of its own; `_further` continues with what there was no time for."""
        table = dict[int, Tried]()

        def attempt(rank: int) -> Tried | None:
            left = still_to_try(ranks, table, self.threshold, coarse)
            self.schedule.expect(stage, RUNS_PER_RANK * max(left, rank))
            self._expect_results(pool, self._rank(list(table.values())) if table else ranks[len(ranks) // 2])
            return self._attempt(pool, stage, rank)

        def further() -> list[Tried]:
            before = self.schedule.seconds
            work = partial(search, ranks, attempt, table, self.threshold, coarse)
            finished = bool(self._unless_interrupted(pool, work))
            self._further = None if finished else further
            self.schedule.close(stage)
            self.ended(stage, before, finished)
            return [table[rank] for rank in sorted(table)]

        return further()

    def _expect_results(self, pool: RunPool, rank: int) -> None:
        """Plan the consensus at a rank, and the contributions of all rows, of which a run may see a part."""
        seen, m = rows_seen(pool.fitter.given, 0, pool.fitter.omega), self.X.shape[0]
        self.schedule.expect("consensus", pool.to_make(rank, self.n_runs) * rank)
        self.schedule.expect(LAST, _LAST_FITS * rank * (1.0 if isinstance(seen, slice) else m / len(seen)))

    def _attempt(self, pool: RunPool, stage: str, rank: int) -> Tried | None:
        """Try a rank; None where no two runs of it came to their end in time."""
        made = pool.runs(stage, rank, RUNS_PER_RANK, self._can_hold_out(pool.fitter))
        whole = [run for run in made if run.whole]
        if len(made) < 2 or (len(whole) < 2 and rank != self.ranks[0]):
            return None
        return Tried.of(made, pool.agreed(made))

    def _too_few(self, fitter: Fitter) -> tuple[str, ...]:
        return too_few_to_hold_out(fitter.facts, self.X.shape, self.ranks[0], HELD_OUT)

    def _can_hold_out(self, fitter: Fitter) -> bool:
        """Tell whether held-out entries can judge: X is large enough."""
        return not self._too_few(fitter)

    def consensus(self, pool: RunPool, table: list[Tried]) -> tuple[list[Run], Consensus, list[Tried]]:
        """Make all runs at the rank that was chosen, and continue the search for it where that leaves time.

        Returns
        -------
        runs, found : the runs, and what they agree on
        table : the ranks that were tried, which may have become more
        """
        rank = self._rank(table)
        runs = self._consensus_runs(pool, rank)
        while self._further is not None and self._has_time(runs):
            before, table = len(table), self._further()
            if self._rank(table) != rank:
                rank = self._rank(table)
                runs = self._consensus_runs(pool, rank)
            if len(table) == before:
                break
        ended = sum(run.whole for run in runs)
        if self._further is not None:
            tried = ", ".join(str(one.rank) for one in table)
            self.missing.insert(0, f"of the ranks {self.ranks[0]} to {self.ranks[-1]} only {tried} were tried")
        if ended < self.n_runs:
            self.missing.insert(0, f"{ended} of the {self.n_runs} runs of the consensus were finished")
        if ended < min(LEAST_RUNS, self.n_runs):
            runs = self._runs_that_judged(pool, rank, runs)
        if table:
            self._note(why_rank(table, self.threshold))
        return runs, pool.agreed(runs), table

    def _consensus_runs(self, pool: RunPool, rank: int) -> list[Run]:
        before = self.schedule.seconds
        self._expect_results(pool, rank)
        runs = self._unless_interrupted(pool, lambda: pool.runs("consensus", rank, self.n_runs))
        if not runs:
            runs = pool.runs("consensus", rank, self.n_runs)
        self.ended("consensus", before, sum(run.whole for run in runs) == self.n_runs)
        return runs

    def _has_time(self, runs: list[Run]) -> bool:
        """Whether all runs came to their end well before the limit."""
        ended = sum(run.whole for run in runs)
        return not self.interrupted and ended == self.n_runs and self.schedule.left > _SPARE * self.schedule.limit

    def _runs_that_judged(self, pool: RunPool, rank: int, runs: list[Run]) -> list[Run]:
        """The runs that saw a part of the entries to judge the rank, where more of them than of these were finished."""
        pool.halt()
        others = (self.judging or pool).runs("consensus", rank, RUNS_PER_RANK, True)
        if len(others) > max(sum(run.whole for run in runs), 1):
            self.notes.append(
                "The components are those of the runs that judged the rank, each without a tenth of the entries."
            )
            return others
        if len(runs) < 2:
            raise self._too_short(rank)
        return runs

    def heavy(self, pool: RunPool, table: list[Tried], factors: Vector | None) -> RunPool:
        """Scale heavy rows down for the runs to come, where held-out entries of X are then predicted better."""
        assert factors is not None
        before, rank, count = self.schedule.seconds, self._rank(table), RUNS_PER_RANK
        if not self._can_hold_out(pool.fitter):
            self.schedule.close("heavy")
            return pool
        capped = replace(pool, fitter=replace(pool.fitter, factors=factors), kind="capped-")

        def work() -> list[list[Run]]:
            return [one.runs("heavy", rank, count, True) for one in (pool, capped)]

        made = [[run for run in runs if run.whole] for runs in self._unless_interrupted(pool, work) or []]
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
        chosen = terms_of(pool.fitter.parameters)
        without = len(chosen)
        for term in terms:
            path = self._unless_interrupted(pool, partial(self._path, pool, rank, chosen, term))
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
            found, finished = self._finer(penalised(pool, chosen) if sparse else pool, ranks)
            table = found if finished or not sparse else table
        return penalised(pool, chosen) if len(chosen) > without else pool, table

    def _path(self, pool: RunPool, rank: int, known: tuple[Penalty, ...], term: Penalty) -> AlphaPath | None:
        """Try alphas of one penalty at a rank, beside those that are known."""
        count, hold_out = RUNS_PER_RANK, isinstance(term, Sparsity)

        def runs(alpha: float) -> list[Run]:
            one = penalised(pool, (*known, with_alpha(term, alpha))) if alpha else pool
            made = one.runs(PENALTY, rank, count if hold_out else 1, hold_out)
            return [run for run in made if run.whole]

        if not hold_out:
            return volume_path(term, lambda alpha: min((run.error for run in runs(alpha)), default=math.inf))
        if not self._can_hold_out(pool.fitter):
            return path_of(term, 0.0, {}, math.nan)
        return sparsity_path(term, lambda alpha: joined_scores(made) if len(made := runs(alpha)) >= 2 else None)

    def _finer(self, pool: RunPool, ranks: tuple[int, ...]) -> tuple[list[Tried], bool]:
        """Search beside the best rank of the grid; under a sparsity all over, for more components may predict well."""
        found = self._searched(pool, FINER, ranks)
        finished, self._further = self._further is None, None
        if not finished:
            tried = ", ".join(str(one.rank) for one in found) or "none"
            self.missing.append(f"of the ranks of the finer search only {tried} were tried")
        return found, finished

    def _rank(self, table: list[Tried]) -> int:
        return best_rank(table, self.threshold).rank if table else self.ranks[0]

    def _unless_interrupted(self, pool: RunPool, work: Callable[[], T]) -> T | None:
        """Do the work of a stage; after Ctrl-C no further run is made, and what is there must do."""
        try:
            return work()
        except KeyboardInterrupt:
            self.interrupted = True
            pool.halt()
            return None

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


def plan(ranks: tuple[int, ...], n_runs: int, noise: bool, heavy: bool, penalties: int = 0) -> dict[str, float]:
    """Guess the work of every stage, in fits times rank."""
    middle = ranks[len(ranks) // 2]
    looks = RUNS_PER_RANK * len(ladder(ranks)) if len(ranks) > 1 else 0
    work = {"noise": (_NOISE_FITS + looks) * middle} if noise else {}
    if len(ranks) > 1:
        work["ranks"] = RUNS_PER_RANK * (len(ladder(ranks)) + (0.0 if penalties else 4.0)) * middle
    if heavy:
        work["heavy"] = float(RUNS_PER_RANK * (1 if len(ranks) > 1 else 2) * middle)
    if penalties:
        work[PENALTY] = float(RUNS_PER_RANK * (len(SPARSITIES) - 1) * penalties * middle)
        work[FINER] = float(RUNS_PER_RANK * (len(ladder(ranks)) + 2.0) * middle) if len(ranks) > 1 else 0.0
    return work | {"consensus": float(n_runs * middle), LAST: _LAST_FITS * middle}
