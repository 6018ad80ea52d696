"""How many components? Entries held out of the runs say which ranks predict well, stability which of those to take.

Too small a rank merges components and too large a rank splits them: both predict entries worse that a run has not
seen. Ranks up to the best and within one standard error of it are told apart by what comes again in every run. The
ranks are tried from a coarse grid inwards, a few runs each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drnmf.selection.consensus import Consensus
from drnmf.selection.held_out import Compared, Scores, compare, joined
from drnmf.selection.stages.runs import Run

GRID = 6
"""Ranks of the coarse grid."""
RESOLUTION = 0.1
"""Gaps beside the best rank that are smaller than this part of it are left alone."""
CLEARLY = 2.0
"""Standard errors by which a rank is worse than the best before no larger one is tried."""


@dataclass(frozen=True)
class Tried:
    """A rank that was tried.

    Attributes
    ----------
    rank, runs : int
    stable : how many components reach the threshold
    stability, least : mean and smallest stability
    error : the smallest loss of the runs
    scores : of the entries held out of the runs, None where none were
    """

    rank: int
    runs: int
    stable: int
    stability: float
    least: float
    error: float
    scores: Scores | None = None

    @classmethod
    def of(cls, runs: list[Run], found: Consensus, threshold: float) -> Tried:
        """Judge a rank by what its runs agree on and predict."""
        rank, s = found.components.shape[0], found.stability
        stable, scores = int((s >= threshold).sum()), [run.scores for run in runs if run.scores is not None]
        error = min(run.error for run in runs)
        return cls(rank, len(runs), stable, float(s.mean()), float(s.min()), error, joined(scores) if scores else None)


def rows_of(tried: Sequence[Tried]) -> list[dict[str, Any]]:
    """Write the ranks as rows of ranks.csv; held_out is the difference to the best score, per entry."""
    compared = _compared(tried)
    return [
        {
            "rank": one.rank, "runs": one.runs, "stable": one.stable, "mean_stability": one.stability,
            "least_stability": one.least, "loss": one.error,
            "held_out": math.nan if compared is None else float(compared.differences[i]),
            "standard_error": math.nan if compared is None else float(compared.errors[i]),
            "within": compared is None or compared.within[i],
        }
        for i, one in enumerate(tried)
    ]  # fmt: skip


def _compared(tried: Sequence[Tried]) -> Compared | None:
    """Compare held-out scores; None where some rank has none."""
    scores = [one.scores for one in tried if one.scores is not None]
    return compare(scores) if scores and len(scores) == len(tried) else None


def best_of(tried: Sequence[Tried]) -> Tried:
    """Choose among the ranks that held-out entries cannot tell from the best, none above it.

    Of those it is the one with most stable components; of several the one with the largest mean stability. What has
    more components and predicts no better has nothing that speaks for it, however large its standard error.
    """
    compared = _compared(tried)
    most = max(one.rank for one in tried) if compared is None else tried[compared.best].rank
    left = [one for i, one in enumerate(tried) if one.rank <= most and (compared is None or compared.within[i])]
    return max(left, key=lambda one: (one.stable, one.stability, -one.rank))


def joined_scores(runs: list[Run]) -> Scores:
    """Put the scores of runs together, each of which held out other entries."""
    return joined([run.scores for run in runs if run.scores is not None])


def capped_is_better(kept: list[Run], capped: list[Run]) -> bool:
    """Tell whether runs with heavy rows scaled down predict held-out entries better, by more than a standard error."""
    compared = compare([joined_scores(runs) for runs in (kept, capped)])
    return compared.best == 1 and not compared.within[0]


def too_large(tried: Sequence[Tried], rank: int) -> bool:
    """Tell whether a smaller rank predicts clearly worse than one that is smaller still."""
    compared = _compared(tried)
    if compared is None:
        return False
    worse = [one.rank for i, one in enumerate(tried) if compared.differences[i] > CLEARLY * compared.errors[i]]
    return any(tried[compared.best].rank < other < rank for other in worse)


def grid(ranks: Sequence[int], count: int = GRID) -> list[int]:
    """Choose at most `count` ranks, evenly spread in the logarithm, both ends among them.

    >>> grid(range(2, 31))
    [2, 3, 6, 10, 17, 30]
    """
    ranks = sorted(ranks)
    wanted = np.geomspace(ranks[0], ranks[-1], min(count, len(ranks)))
    return sorted({min(ranks, key=lambda rank: abs(rank - goal)) for goal in wanted.tolist()})


def search(
    ranks: Sequence[int], attempt: Callable[[int], Tried | None], tried: dict[int, Tried], coarse: bool = False
) -> bool:
    """Try ranks from a coarse grid inwards, halving the gaps beside the best until they are a tenth of it.

    Parameters
    ----------
    ranks : what may be tried
    attempt : tries a rank; None where no time is left, which ends the search
    tried : what was found, by rank; filled here, so that an interruption keeps it, and a search can be taken up again
    coarse : whether the grid alone is tried

    Returns
    -------
    finished : whether the search came to its end
    """
    waiting = grid(ranks)
    while waiting:
        for rank in waiting:
            if rank in tried or too_large(list(tried.values()), rank):
                continue
            found = attempt(rank)
            if found is None:
                return False
            tried[rank] = found
        if coarse:
            break
        known = {rank for rank in ranks if rank in tried or too_large(list(tried.values()), rank)}
        waiting = _beside(best_of(list(tried.values())).rank, sorted(ranks), known)
    return True


def still_to_try(ranks: Sequence[int], tried: Mapping[int, Tried], coarse: bool = False) -> int:
    """Guess the sum of the ranks that a search will still try: those of the grid, and two beside the best."""
    known = list(tried.values())
    waiting = [rank for rank in grid(ranks) if rank not in tried and not too_large(known, rank)]
    return sum(waiting) + (0 if coarse or not known else 2 * best_of(known).rank)


def _beside(best: int, ranks: list[int], tried: set[int]) -> list[int]:
    """The middles of the gaps below and above the best rank that are wider than a tenth of it.

    Runs cannot tell 20 components from 21, and large ranks cost most.
    """
    middles = []
    for side in ([r for r in ranks if r < best][::-1], [r for r in ranks if r > best]):
        gap = []
        for rank in side:
            if rank in tried:
                break
            gap.append(rank)
        if gap and abs(gap[-1] - best) >= int(best * RESOLUTION):
            middles.append(gap[len(gap) // 2])
    return sorted(middles)
