"""How sure the components and contributions of a discovery are: its stage of draws, apart from the consensus runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from drnmf.algorithms.initialize import Start
from drnmf.selection.consensus import Consensus
from drnmf.selection.intervals.bars import INNER_DRAWS, TRUTHS, Asked, Intervals, error_bars
from drnmf.selection.intervals.refits import Refits
from drnmf.selection.stages.course import LEAST_RUNS, Stages
from drnmf.selection.stages.crew import Crew
from drnmf.selection.stages.pace import Pace
from drnmf.selection.stages.runs import Run, rows_seen, taken
from drnmf.solve.encode import Encoder

SURE = "intervals"
FITS = 10.0
"""Work of the draws, in fits: with a limit on the time they take what is left."""


@dataclass(frozen=True)
class Sure:
    """What is asked of the stage.

    Attributes
    ----------
    level : what intervals are to cover, None where none are wanted
    draws : how many
    seed : of the draws
    """

    level: float | None
    draws: int
    seed: int

    def planned(self, work: dict[str, float], rank: int) -> dict[str, float]:
        """Put the stage into a plan, before the last one."""
        if self.level is None:
            return work
        *others, last = work
        return {name: work[name] for name in others} | {SURE: FITS * rank, last: work[last]}

    def stage(
        self, stages: Stages, crew: Crew, runs: list[Run], found: Consensus, encoder: Encoder
    ) -> Intervals | None:
        """Find intervals of the components, and of the contributions where runs see all rows; None with a reason."""
        if self.level is None:
            return None
        before, pace = stages.pace.seconds, stages.pace
        found_any = (found.stability >= stages.threshold).any() and sum(run.whole for run in runs) >= LEAST_RUNS
        bars = None
        if stages.interrupted:
            stages.missing.append("no intervals were found")
        elif not found_any:
            stages.notes.append("No intervals: no component is stable.")
        else:
            work = partial(self._bars, pace, crew, min(runs, key=lambda run: run.error), found, encoder)
            bars = stages._unless_interrupted(crew, work)
            if bars is None:
                stages.missing.append("there was no time for intervals")
            else:
                stages.notes += self._said(bars)
        pace.close(SURE)
        stages.ended(SURE, before, bars is not None or not found_any)
        return bars

    def _bars(self, pace: Pace, crew: Crew, best: Run, found: Consensus, encoder: Encoder) -> Intervals | None:
        fitter = crew.fitter
        rows = rows_seen(fitter.given, self.seed)
        whole = isinstance(rows, slice)
        given = taken(fitter.given, rows)
        factors = None if fitter.factors is None else fitter.factors[rows]
        refits = Refits(
            given, fitter.placement, fitter.parameters, best.omega, best.references, best.weights, factors, crew.jobs
        )
        work = pace.planned(SURE)

        def left() -> float:
            allowed = pace.allowance(SURE)
            return float("inf") if allowed is None else allowed

        def tell(share: float, detail: str) -> None:
            pace.advance(SURE, share * work, detail, fresh=False)

        assert self.level is not None
        W = encoder.rows(fitter.placement.open(given, encoder.objective.mean))
        start: Start = np.asarray(W, dtype=np.float64), found.components
        bars = error_bars(refits, start, Asked(self.level, self.draws, TRUTHS, self.seed, fitter.known, left, tell))
        return bars if bars is None or whole else replace(bars, contributions=None)

    def _said(self, bars: Intervals) -> list[str]:
        fewer = []
        if bars.draws < self.draws or bars.truths < TRUTHS:
            inner = f"{bars.truths} of {TRUTHS} times {INNER_DRAWS} in the simulation"
            fewer = [f"Intervals are from fewer draws than asked for: {bars.draws} of {self.draws}, and {inner}."]
        if bars.contributions is None:
            fewer.append("X is large, and draws are of some of its rows: contributions have no intervals.")
        return [bars.summary(), *fewer]
