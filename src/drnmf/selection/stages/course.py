"""The course of a discovery: noise, ranks, heavy rows, consensus, each as far as the time allows."""

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
from drnmf.selection.choose import best_rank, why_rank
from drnmf.selection.consensus import Consensus
from drnmf.selection.folds import HELD_OUT, too_few_to_hold_out
from drnmf.selection.noise import NoiseProfile, noise_profile
from drnmf.selection.penalties.alpha import AlphaPath, path_of, with_alpha
from drnmf.selection.rank import FIRST_RANK, ROUNDS, same_loss
from drnmf.selection.stages.crew import Crew
from drnmf.selection.stages.heavy import HEAVY
from drnmf.selection.stages.pace import Pace
from drnmf.selection.stages.penalty import SPARSITIES, penalised, said, sparsity_path, volume_path, with_path
from drnmf.selection.stages.ranks import Tried, capped_is_better, joined_scores, ladder, search
from drnmf.selection.stages.runs import EARLY, Fitter, Run

T = TypeVar("T")
RUNS_PER_RANK = 4
"""Runs that judge a rank, however many the consensus has: the answer must not depend on those."""
_NOISE_FITS = 8.0
"""Work of the noise profile, in fits: one, and short ones from where their neighbour ended."""
NOISE, PENALTY, FINER = "noise", "penalty", "finer ranks"
LEAST_PART = 0.6
"""Ranks below this part of the one found on the coarse grid are not tried again under penalties."""


@dataclass
class Stages:
    """The stages of a discovery, each of which may run out of time and then says so in `notes`."""

    X: Any
    losses: Any
    ranks: tuple[int, ...]
    n_runs: int
    threshold: float
    pace: Pace
    done: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False
    paths: tuple[AlphaPath, ...] = ()
    judging: Crew | None = None

    def settle(self, crew: Crew, seed: int, coarse: bool = False) -> tuple[Crew, list[Tried], NoiseProfile | None]:
        """Find noise and rank in turn until both stand (`rank.settled`), on the ladder of ranks; losses given stay.

        Returns
        -------
        crew : whose runs are made under the losses
        table : the ranks that were tried under them
        noise : what they were chosen by, None where they were given
        """
        if self.losses is not None:
            return crew, self.search(crew, coarse), None
        profile = self.noise(seed, min(self.ranks, key=lambda rank: abs(rank - FIRST_RANK)))
        self.judging = self._under(crew, self._judge(profile))
        for _ in range(ROUNDS if len(self.ranks) > 1 else 0):
            table = self._look(self.judging)
            if not table:
                break
            profile, before = self.noise(seed, self._rank(table)), self._judge(profile)
            if same_loss(self._judge(profile), before):
                break
            self.judging = self._under(crew, self._judge(profile))
        self.pace.close(NOISE)
        likeliest: Any = self.losses
        return self._under(crew, likeliest[0]), self.search(self.judging, coarse), profile

    def _judge(self, profile: NoiseProfile) -> Loss:
        """The loss under which ranks are compared: that of the profile, unless X asked for one that is sparse."""
        loss: Loss = self.losses[0]
        return profile.judge if loss == as_loss(profile.best) else loss

    def _under(self, crew: Crew, loss: Loss) -> Crew:
        """The crew whose runs are made under a loss."""
        return replace(crew, fitter=replace(crew.fitter, losses=(loss,)), kind=f"{loss.key.replace(':', '_')}-")

    def _look(self, crew: Crew) -> list[Tried]:
        """Try the ranks of the ladder, as a part of what the noise costs; the search finds these runs made."""
        table = dict[int, Tried]()
        attempt = partial(self._attempt, crew, NOISE)
        self._unless_interrupted(crew, lambda: search(self.ranks, attempt, table, self.threshold, coarse=True))
        return [table[rank] for rank in sorted(table)]

    def noise(self, seed: int, rank: int) -> NoiseProfile:
        """Read the losses off the noise at a rank."""
        before = self.pace.seconds
        profile = noise_profile(self.X, rank, random_state=seed, max_time=self.pace.allowance(NOISE))
        self.losses = (as_loss(profile.best),)
        if sp.issparse(self.X) and not need_nonzeros_only(self.losses):
            self._take_sparse_loss(profile)
        self.pace.advance(NOISE, _NOISE_FITS * rank, f"{self.losses[0].name} is the likeliest")
        if profile.unfinished:
            names = ", ".join(profile.unfinished)
            self._note(f"Out of time: the noise was read off fits that had not ended ({names}).")
        self._ended(NOISE, before, not profile.unfinished)
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

    def search(self, crew: Crew, coarse: bool = False) -> list[Tried]:
        """Try ranks with a few runs each; `coarse` is those of a ladder alone, where `penalise` tries the others."""
        if len(self.ranks) == 1:
            return []
        self.notes += [note.replace("the criterion of all entries", "stability") for note in self._too_few(crew.fitter)]
        table, finished = self._searched(crew, "ranks", self.ranks, coarse)
        if not table:
            raise self._too_short(self.ranks[0])
        if not finished:
            tried = ", ".join(str(one.rank) for one in table)
            self.notes.append(f"{self._why()}: only the ranks {tried} were tried.")
        return table

    def _searched(
        self, crew: Crew, stage: str, ranks: tuple[int, ...], coarse: bool = False
    ) -> tuple[list[Tried], bool]:
        """Search among ranks, in a stage of its own."""
        before, table = self.pace.seconds, dict[int, Tried]()
        attempt = partial(self._attempt, crew, stage)
        finished = bool(self._unless_interrupted(crew, lambda: search(ranks, attempt, table, self.threshold, coarse)))
        self.pace.close(stage)
        self._ended(stage, before, finished)
        return [table[rank] for rank in sorted(table)], finished

    def _attempt(self, crew: Crew, stage: str, rank: int) -> Tried | None:
        """Try a rank; None where no two runs of it came to their end in time."""
        made = crew.runs(stage, rank, RUNS_PER_RANK, self._can_hold_out(crew.fitter))
        whole = [run for run in made if run.reason not in EARLY]
        if len(made) < 2 or (len(whole) < 2 and rank != self.ranks[0]):
            return None
        return Tried.of(made, crew.agreed(made))

    def _too_few(self, fitter: Fitter) -> tuple[str, ...]:
        return too_few_to_hold_out(fitter.facts, self.X.shape, self.ranks[0], HELD_OUT)

    def _can_hold_out(self, fitter: Fitter) -> bool:
        """Tell whether held-out entries can judge: X is large enough."""
        return not self._too_few(fitter)

    def consensus(self, crew: Crew, table: list[Tried]) -> tuple[list[Run], Consensus]:
        """Make all runs at the rank that was chosen."""
        before = self.pace.seconds
        rank = self._rank(table)
        if table:
            self._note(why_rank(table, self.threshold))
        self.pace.expect("consensus", self.n_runs * rank)
        runs = self._unless_interrupted(crew, lambda: crew.runs("consensus", rank, self.n_runs))
        if not runs:
            runs = crew.runs("consensus", rank, self.n_runs)
        whole = [run for run in runs if run.reason not in EARLY]
        if len(whole) < self.n_runs:
            self.notes.append(f"{self._why()}: {len(whole)} of the {self.n_runs} runs of the consensus were finished.")
        if len(runs) < 2:
            runs = self._runs_that_judged(self.judging or crew, rank)
        self._ended("consensus", before, len(whole) == self.n_runs)
        return runs, crew.agreed(runs)

    def _runs_that_judged(self, crew: Crew, rank: int) -> list[Run]:
        """The runs that saw a part of the entries to judge the rank: all there is where the time is up."""
        crew.halt()
        runs = crew.runs("consensus", rank, RUNS_PER_RANK, True)
        if len(runs) < 2:
            raise self._too_short(rank)
        self.notes.append(
            "The components are those of the runs that judged the rank, each without a tenth of the entries."
        )
        return runs

    def heavy(self, crew: Crew, table: list[Tried], factors: Vector | None) -> Crew:
        """Scale heavy rows down for the runs to come, where held-out entries of X are then predicted better."""
        assert factors is not None
        before, rank, count = self.pace.seconds, self._rank(table), RUNS_PER_RANK
        if not self._can_hold_out(crew.fitter):
            self.pace.close("heavy")
            return crew
        capped = replace(crew, fitter=replace(crew.fitter, factors=factors), kind="capped-")

        def work() -> list[list[Run]]:
            return [one.runs("heavy", rank, count, True) for one in (crew, capped)]

        made = [[run for run in runs if run.reason not in EARLY] for runs in self._unless_interrupted(crew, work) or []]
        judged = len(made) == 2 and min(map(len, made)) >= 2
        self.pace.close("heavy")
        self._ended("heavy", before, judged)
        rows = f"{int((factors < 1.0).sum())} rows weigh more than {HEAVY:g} times the median row"
        if not judged:
            self.notes.append(f"{self._why()}: {rows}, and whether to scale them down was not judged.")
            return crew
        better = capped_is_better(*made)
        held = "predicted better then" if better else "not predicted better otherwise"
        self.notes.append(f"{rows}: they are {'scaled down' if better else 'kept as they are'}, entries are {held}.")
        return capped if better else crew

    def penalise(self, crew: Crew, table: list[Tried], terms: tuple[Penalty, ...]) -> tuple[Crew, list[Tried]]:
        """Choose the alphas that are left to the data, at the best rank of the grid, and then the rank.

        A volume is not chosen by prediction, and prediction under it says nothing of the rank.
        """
        before, rank = self.pace.seconds, self._rank(table)
        chosen = crew.fitter.parameters.terms()
        without = len(chosen)
        for term in terms:
            path = self._unless_interrupted(crew, partial(self._path, crew, rank, chosen, term))
            if path is None:
                self.notes.append(f"{self._why()}: no alpha was chosen for the {term.name}, which is left out.")
            else:
                self.paths += (path,)
                self.notes.append(said(path, term))
                chosen = with_path(chosen, term, path)
        self.pace.close(PENALTY)
        self._ended(PENALTY, before, len(self.paths) == len(terms))
        sparse = any(isinstance(term, Sparsity) for term in chosen[without:])
        ranks = tuple(r for r in self.ranks if not sparse or r >= LEAST_PART * rank)
        if table:
            found, finished = self._finer(penalised(crew, chosen) if sparse else crew, ranks)
            table = found if finished or not sparse else table
        return penalised(crew, chosen) if len(chosen) > without else crew, table

    def _path(self, crew: Crew, rank: int, known: tuple[Penalty, ...], term: Penalty) -> AlphaPath | None:
        """Try alphas of one penalty at a rank, beside those that are known."""
        count, hold_out = RUNS_PER_RANK, isinstance(term, Sparsity)

        def runs(alpha: float) -> list[Run]:
            one = penalised(crew, (*known, with_alpha(term, alpha))) if alpha else crew
            made = one.runs(PENALTY, rank, count if hold_out else 1, hold_out)
            return [run for run in made if run.reason not in EARLY]

        if not hold_out:
            return volume_path(term, lambda alpha: min((run.error for run in runs(alpha)), default=math.inf))
        if not self._can_hold_out(crew.fitter):
            return path_of(term, 0.0, {}, math.nan)
        return sparsity_path(term, lambda alpha: joined_scores(made) if len(made := runs(alpha)) >= 2 else None)

    def _finer(self, crew: Crew, ranks: tuple[int, ...]) -> tuple[list[Tried], bool]:
        """Search beside the best rank of the grid; under a sparsity all over, for more components may predict well."""
        found, finished = self._searched(crew, FINER, ranks)
        if not finished:
            tried = ", ".join(str(one.rank) for one in found) or "none"
            self.notes.append(f"{self._why()}: of the ranks of the finer search only {tried} were tried.")
        return found, finished

    def _rank(self, table: list[Tried]) -> int:
        return best_rank(table, self.threshold).rank if table else self.ranks[0]

    def _unless_interrupted(self, crew: Crew, work: Callable[[], T]) -> T | None:
        """Do the work of a stage; after Ctrl-C no further run is made, and what is there must do."""
        try:
            return work()
        except KeyboardInterrupt:
            self.interrupted = True
            crew.halt()
            return None

    def _why(self) -> str:
        return "Interrupted" if self.interrupted else "Out of time"

    def _too_short(self, rank: int) -> BaseException:
        """What to raise where there are no two runs to compare."""
        if self.interrupted:
            return KeyboardInterrupt()
        return ValueError(
            f"max_time={self.pace.limit:g} seconds are too short: no two runs of rank {rank} ended. Allow more time "
            "or smaller ranks."
        )

    def _ended(self, name: str, before: float, finished: bool = True) -> None:
        """Note a stage; one that comes again is one stage."""
        seconds = self.pace.seconds - before + sum(one["seconds"] for one in self.done if one["name"] == name)
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
    return work | {"consensus": float(n_runs * middle)}
