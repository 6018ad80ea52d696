"""Runs of one X, opened once: how each is fitted, several of a rank at a time, and what they agree on."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.algorithms.loop import Callback
from drnmf.backends.core import single_blas
from drnmf.losses.base import Omega, need_nonzeros_only
from drnmf.losses.beta import Beta
from drnmf.losses.interval import Interval
from drnmf.numerics import Vector
from drnmf.objective.penalty import Penalty
from drnmf.parameters.common import Parameters
from drnmf.parameters.solver import as_solver
from drnmf.problem.device import place, runs_at_once
from drnmf.problem.problem import Problem
from drnmf.problem.receive import Received
from drnmf.problem.weights import Reading
from drnmf.selection.entries import Facts, accepted, counted, facts_of
from drnmf.selection.folds import HELD_OUT, Fold
from drnmf.selection.likelihood.masses import noise_for
from drnmf.selection.likelihood.scores import joined
from drnmf.selection.resampling import POISSON, seen_by_run
from drnmf.selection.stages.runs import Run, Store
from drnmf.selection.stages.schedule import Schedule
from drnmf.selection.warm_starts import on_host
from drnmf.solve.exchange import fit_interval
from drnmf.solve.pipeline import fit_factors, running
from drnmf.solve.runner import Runner, Stopping
from drnmf.solve.settings import ask, terms_of
from drnmf.solve.solve import run_all

LARGE = 1 << 20
"""Entries above which every run sees a sample of the rows."""
SCORED = 16
"""So many entries are scored in the time that one takes in a fit, or less."""
LEAST_ROWS = 200
"""Rows that such a sample has at least."""
STARTS = 2
"""Starts of a run that judges a rank, where they are left to the library: NNDSVD and a random one. From NNDSVD alone,
which is much the same for every mask, components come again although the data do not ask for them; random starts alone
end higher where there are many components, and would say that fewer predict better."""


@dataclass(frozen=True)
class Study:
    """X opened once, and how every run is fitted to it: masked and redrawn X are problems that derive from it."""

    problem: Problem  # X, of which nothing is asked yet
    model: Parameters  # what all runs share; rank, seed and time are each run's own
    runner: Runner  # how they are made
    facts: Facts  # what is known of the entries of X
    losses: Omega | Interval = ()  # Omega, or an Interval
    resample: str | None = None  # what each run sees, None for X itself
    # what the rows of X are multiplied by while components are sought, None where they are kept
    factors: Vector | None = None
    fraction: float = HELD_OUT  # part of the entries that runs which judge a rank do not see
    batch: int = 1  # how many runs to make at once, on a GPU; one elsewhere
    # whether runs are compared with others that belong to one side of X, so that none may be turned
    sided: bool = False

    @classmethod
    def of(cls, X: Any, model: Parameters, consumer: str, reading: Reading) -> Study:
        """Check X and open it, in the name of a function."""
        solver = as_solver(model.solver)
        placement = place(X, model.device, solver.precision)
        given = accepted(placement, X, consumer, reading)
        facts = facts_of(counted(given))
        if facts.count == facts.zeros:
            raise ValueError("X is all zeros: it has no components.")
        batch = 1 if placement.blocks else runs_at_once(given.X, placement.device)
        runner = replace(Runner.of(solver.update, "auto", placement.gpu), stage="run")
        return cls(Problem.opened(placement.open(given), given, model.column_modes), model, runner, facts, batch=batch)

    @property
    def omega(self) -> Omega:
        """The losses; of an interval, those it is first bounded by."""
        if isinstance(self.losses, Interval):
            return tuple(Beta(beta) for beta in self.losses.first_knots())
        return self.losses

    @property
    def turns(self) -> bool:
        """Whether ranks are judged on the transpose: so that X and X' have one answer, the longer side is the rows.

        Penalties, fixed components, capped rows and a sample of the rows belong to one side, and X on a cluster or a
        GPU stays there.
        """
        X = self.problem.given.X
        one_sided = self.sided or self.factors is not None or bool(terms_of(self.model)) or self.model.fixed is not None
        one_sided = one_sided or X.shape[0] * X.shape[1] > LARGE or bool(self.problem.columns)
        return (sp.issparse(X) or isinstance(X, np.ndarray)) and not one_sided and X.shape[0] < X.shape[1]

    @property
    def upright(self) -> Problem:
        """X, or its transpose where ranks are judged on that."""
        return self.problem.turned if self.turns else self.problem

    def run(self, rank: int, seed: int, max_time: float | None, callback: Callback | None, judges: bool = False) -> Run:
        """Fit from the start of a seed, to what is drawn from X with the same seed.

        A run that `judges` its rank does not see some entries of X itself, and these score it. Counts are drawn anew
        upright too, for such runs have a say in the rank.
        """
        rows = rows_seen(self.problem.given, seed, self.omega, judges)
        turned = self.turns and (judges or self.resample == POISSON)
        whole, factors = self.problem.rows(rows), None if self.factors is None else self.factors[rows]
        whole = whole.turned if turned else whole
        X = seen_by_run(whole.given, None if judges else self.resample, factors, seed)
        drawn = whole if X is whole.given.X else whole.drawn(X)
        model = replace(self.model, n_components=rank, random_state=seed, max_time=max_time)
        if judges and model.init == "auto":
            model = replace(model, n_init=max(model.n_init, STARTS))
        single = isinstance(self.losses, tuple) and len(self.omega) == 1
        problem = ask(drawn, model, self.omega, np.ones(1) if single else None)
        fold = self.fold(whole.given, seed) if judges else None
        part = problem if fold is None else fold.problem(problem)
        runs = model.n_init if single else model.n_init * (1 + len(self.omega))
        with running(problem, replace(self.runner, callback=callback), model, runs) as runner:
            if isinstance(self.losses, Interval):
                result = part.back(fit_interval(part, self.losses, runner))
            else:
                result = part.back(fit_factors(part, runner))
        if fold is None and not turned:
            return Run.of(result)
        W, H = on_host(part.data, (result.W, result.H))
        if fold is None:
            return Run.of(result.at(H.T, W.T), keep_W=True)
        W = W if factors is None else W / factors[:, None]
        scores = joined([fold.score(noise_for(loss), (W, H)) for loss in result.omega]) if self.fraction else None
        result = result.at(H.T, W.T) if turned else result.at(W, H)
        return Run.of(result, scores, isinstance(rows, slice))

    def fold(self, given: Received, seed: int) -> Fold:
        """Find the entries that a run which judges does not see; they count in its score as they do in a fit."""
        return Fold.of(given, self.facts, self.fraction, seed)

    def criterion(self, run: Run, seed: int) -> float:
        """Compute C of a run that judged: minus the log-likelihood of the entries that it saw, of as many as X has."""
        assert run.W is not None
        loss = run.omega[int(np.argmax(run.weights))]
        factors = (run.H.T, run.W.T) if self.turns else (run.W, run.H)
        score = self.fold(self.upright.given, seed).score(noise_for(loss), factors, seen=self.fraction > 0)
        return -score.mean * self.facts.count


def rows_seen(given: Received, seed: int, omega: Omega | None = None, scored: bool = False) -> Any:
    """Draw the rows that a run sees: all, or of a large X as many as have LARGE entries.

    Components are over the columns, and rows are many. Of a sparse X only stored entries count under losses that need
    no others, unless entries are held out to be `scored`, each of them once. Weights belong to their rows, and all of
    those are taken.
    """
    X = given.X
    stored_alone = sp.issparse(X) and omega is not None and need_nonzeros_only(omega)
    m, size = X.shape[0], X.shape[0] * X.shape[1]
    entries = max(X.nnz, size // SCORED if scored else 0) if stored_alone else size
    if entries <= LARGE or given.observed is not None or not (sp.issparse(X) or isinstance(X, np.ndarray)):
        return slice(None)
    count = max(LEAST_ROWS, m * LARGE // entries)
    return np.sort(np.random.default_rng(seed).choice(m, min(count, m), replace=False))


@dataclass
class RunPool:
    """Makes the runs of a study."""

    study: Study  # X, and how a run is fitted
    store: Store  # where finished runs are kept
    schedule: Schedule  # hears of every run
    seeds: list[int]  # one per run; run i of every rank has seed i
    jobs: int  # runs at a time
    kind: str = ""  # what the names of its runs begin with, where another pool has others
    _stop: threading.Event = field(default_factory=threading.Event)

    def changed(self, kind: str | None = None, **changes: Any) -> RunPool:
        """Return a pool whose study has other losses, penalties or factors, and whose runs have other names."""
        return replace(self, study=replace(self.study, **changes), kind=self.kind if kind is None else kind)

    def as_it_is(self) -> RunPool:
        """Return a pool whose runs judge X and never its transpose, next to others that cannot be turned."""
        return self.changed(f"{self.kind}sided-", sided=True) if self.study.turns else self

    def penalised(self, terms: tuple[Penalty, ...]) -> RunPool:
        """Return a pool whose runs have these penalties and no others."""
        kind = "".join(f"{term.key.replace(':', '_')}-" for term in terms)
        return self.changed(self.kind + kind, model=replace(self.study.model, penalties=terms))

    def runs(self, stage: str, rank: int, count: int, judge: bool = False) -> list[Run]:
        """Make runs 0, ..., count - 1 of a rank as far as the time of the stage allows; see `Study.run` for `judge`.

        Runs that were stopped early count only where fewer than two have come to their end.
        """
        allowed = self.schedule.allowance(stage)
        until = None if allowed is None else self.schedule.seconds + allowed
        ended: dict[int, Run] = {}
        tasks = [partial(self._run, stage, rank, i, count, until, ended, judge) for i in range(count)]
        batch = 1 if judge else self.study.batch
        with single_blas():  # around all runs: one that ends must not lift the limit of the others
            run_all(tasks, max(batch, self.jobs), self._stop, batched=batch > 1)
        whole = [ended[i] for i in sorted(ended) if ended[i].whole]
        return whole if len(whole) >= 2 else [ended[i] for i in sorted(ended)]

    def _run(
        self, stage: str, rank: int, i: int, count: int, until: float | None, ended: dict[int, Run], judge: bool
    ) -> None:
        name, schedule = self._name(rank, i, judge), self.schedule
        left = None if until is None else until - schedule.seconds - (schedule.overrun if i > 1 else 0.0)
        if left is not None and i == 0 and self.jobs == 1:
            left /= 2.0  # two runs can be compared, one cannot
        run = self.store.get(name)
        made = run is None
        if run is None:
            if self._stop.is_set() or (left is not None and left <= 0):
                return
            before = schedule.seconds
            run = self.study.run(rank, self.seeds[i], left, Stopping(self._stop), judge)
            fitted = left if run.reason == "max_time" else run.seconds
            if fitted is not None:
                schedule.overran(schedule.seconds - before - fitted)
            self.store.keep(name, run)
        ended[i] = run
        if not self._stop.is_set():
            schedule.advance(stage, rank if run.whole else 0.0, f"rank {rank}, run {i + 1} of {count}", made)

    def _name(self, rank: int, i: int, judge: bool) -> str:
        return f"{self.kind}rank{rank}-{'part' if judge else 'run'}{i}"

    def to_make(self, rank: int, count: int) -> int:
        """Count the runs of a rank, of so many, that are not there yet."""
        return sum(not self.store.has(self._name(rank, i, False)) for i in range(count))

    def halt(self) -> None:
        """Make no further run: only those that are there already are handed out."""
        self._stop.set()


def draw_seeds(random_state: int, count: int) -> list[int]:
    """Draw one seed per run; those of fewer runs are the first of more."""
    return [int(s) for s in np.random.SeedSequence(random_state).generate_state(count, np.uint32) >> 1]
