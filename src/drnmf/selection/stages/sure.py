"""How sure the components and contributions of a discovery are: its stage of draws, apart from the consensus runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from drnmf.algorithms.initialize import Start
from drnmf.selection.consensus import Consensus
from drnmf.selection.intervals.bars import DRAWS, INNER_DRAWS, TRUTHS, Draws, Intervals, error_bars
from drnmf.selection.intervals.refits import Refits
from drnmf.selection.stages.run_pool import RunPool, rows_seen
from drnmf.selection.stages.runs import Run
from drnmf.selection.stages.schedule import Schedule
from drnmf.selection.stages.stages import LEAST_RUNS, Stages
from drnmf.solve.encode import Encoder

SURE = "intervals"
FITS = 10.0
"""Work of the draws, in fits: with a limit on the time they take what is left."""
LEAST = 2.0
"""Work of W, a fit of X and the fewest draws that say something, in fits."""


@dataclass(frozen=True)
class Sure:
    """What is asked of the stage."""

    level: float | None  # what intervals are to cover, None where none are wanted
    seed: int  # of the draws

    def planned(self, work: dict[str, float], rank: int) -> dict[str, float]:
        """Put the stage into a plan, before the last one."""
        if self.level is None:
            return work
        *others, last = work
        return {name: work[name] for name in others} | {SURE: FITS * rank, last: work[last]}

    def stage(
        self, stages: Stages, pool: RunPool, runs: list[Run], consensus: Consensus, encoder: Encoder
    ) -> Intervals | None:
        """Find intervals of the components, and of the contributions where runs see all rows; None with a reason."""
        if self.level is None:
            return None
        before, bars = stages.schedule.seconds, None
        ended = sum(run.whole for run in runs) >= LEAST_RUNS
        if not (ended and (consensus.stability >= stages.ask.threshold).any()):
            stages.notes.append("No intervals: no component is stable.")
        else:
            try:
                best = min(runs, key=lambda run: run.error)
                bars = None if stages.interrupted else self._bars(stages.schedule, pool, best, consensus, encoder)
            except KeyboardInterrupt:
                stages.interrupted = True
            if bars is None:
                stages.missing.append("no intervals were found")
            else:
                stages.notes += self._said(bars)
        stages.schedule.close(SURE)
        stages.ended(SURE, before, "no intervals were found" not in stages.missing)
        return bars

    def _bars(
        self, schedule: Schedule, pool: RunPool, best: Run, consensus: Consensus, encoder: Encoder
    ) -> Intervals | None:
        study = pool.study
        rows = rows_seen(study.problem.given, self.seed)
        whole, seen = isinstance(rows, slice), study.problem.rows(rows)
        factors = None if study.factors is None else study.factors[rows]
        refits = Refits(seen, study.runner, study.model, best.omega, best.references, best.weights, factors, pool.jobs)
        work = schedule.planned(SURE)

        def left() -> float:
            allowed = schedule.allowance(SURE)
            return float("inf") if allowed is None else allowed

        def tell(share: float, detail: str) -> None:
            schedule.advance(SURE, share * work, detail, fresh=False)

        assert self.level is not None
        if left() <= LEAST * len(consensus.stability) * schedule.rate:
            return None
        W = encoder.rows(seen.data if whole else study.problem.rows(rows, encoder.objective.mean).data)
        start: Start = np.asarray(W, dtype=np.float64), consensus.components
        bars = error_bars(refits, start, Draws(self.level, DRAWS, TRUTHS, self.seed, seen.given.known, left, tell))
        return bars if bars is None or whole else replace(bars, contributions=None)

    def _said(self, bars: Intervals) -> list[str]:
        fewer = []
        if bars.draws < DRAWS or bars.truths < TRUTHS:
            inner = f"{bars.truths} of {TRUTHS} times {INNER_DRAWS} in the simulation"
            fewer = [f"Intervals are from fewer draws than asked for: {bars.draws} of {DRAWS}, and {inner}."]
        if bars.contributions is None:
            fewer.append("X is large, and draws are of some of its rows: contributions have no intervals.")
        return [bars.summary(), *fewer]
