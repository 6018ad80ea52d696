"""Runs of one rank, side by side, and what they agree on."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from drnmf.backends.host.single_blas import single_blas
from drnmf.selection.consensus import Consensus, consensus
from drnmf.selection.stages.runs import Fitter, Run, Store
from drnmf.selection.stages.schedule import Schedule
from drnmf.solve.parallel import run_all


@dataclass
class RunPool:
    """Makes the runs of a discovery.

    Attributes
    ----------
    fitter : how a run is fitted
    store : where finished runs are kept
    schedule : told of every run
    seeds : one per run; run i of every rank has seed i
    jobs : runs at a time
    kind : what the names of its runs begin with, where another pool has others
    """

    fitter: Fitter
    store: Store
    schedule: Schedule
    seeds: list[int]
    jobs: int
    kind: str = ""
    _stop: threading.Event = field(default_factory=threading.Event)

    def runs(self, stage: str, rank: int, count: int, hold_out: bool = False) -> list[Run]:
        """Make runs 0, ..., count - 1 of a rank as far as the time of the stage allows; for `hold_out` see `Fitter`.

        Runs that were stopped early count only where fewer than two have come to their end.
        """
        allowed = self.schedule.allowance(stage)
        until = None if allowed is None else self.schedule.seconds + allowed
        ended: dict[int, Run] = {}
        tasks = [partial(self._run, stage, rank, i, count, until, ended, hold_out) for i in range(count)]
        batch = 1 if hold_out else self.fitter.batch
        with single_blas():  # around all runs: one that ends must not lift the limit of the others
            run_all(tasks, max(batch, self.jobs), self._stop, batched=batch > 1)
        whole = [ended[i] for i in sorted(ended) if ended[i].whole]
        return whole if len(whole) >= 2 else [ended[i] for i in sorted(ended)]

    def _run(
        self, stage: str, rank: int, i: int, count: int, until: float | None, ended: dict[int, Run], hold_out: bool
    ) -> None:
        name, made = self._name(rank, i, hold_out), False
        left = None if until is None else until - self.schedule.seconds - (self.schedule.overrun if i > 1 else 0.0)
        if left is not None and i == 0 and self.jobs == 1:
            left /= 2.0  # two runs can be compared, one cannot
        if not self.store.has(name) and (self._stop.is_set() or (left is not None and left <= 0)):
            return

        def make() -> Run:
            nonlocal made
            made, before = True, self.schedule.seconds
            run = self.fitter.run(rank, self.seeds[i], left, self._watch, hold_out)
            fitted = left if run.reason == "max_time" else run.seconds
            if fitted is not None:
                self.schedule.overran(self.schedule.seconds - before - fitted)
            return run

        ended[i] = self.store.run(name, make)
        if not self._stop.is_set():
            self.schedule.advance(stage, rank if ended[i].whole else 0.0, f"rank {rank}, run {i + 1} of {count}", made)

    def _name(self, rank: int, i: int, hold_out: bool) -> str:
        return f"{self.kind}rank{rank}-{'part' if hold_out else 'run'}{i}"

    def to_make(self, rank: int, count: int) -> int:
        """Count the runs of a rank, of so many, that are not there yet."""
        return sum(not self.store.has(self._name(rank, i, False)) for i in range(count))

    def halt(self) -> None:
        """Make no further run: only those that are there already are handed out."""
        self._stop.set()

    def _watch(self, progress: Any) -> bool:
        return self._stop.is_set()

    def agreed(self, runs: list[Run]) -> Consensus:
        """Find what runs agree on."""
        return consensus([run.H for run in runs])


def draw_seeds(random_state: int, count: int) -> list[int]:
    """Draw one seed per run; those of fewer runs are the first of more."""
    return [int(s) for s in np.random.SeedSequence(random_state).generate_state(count, np.uint32) >> 1]
