"""How many components? Entries held out of the runs say which ranks predict well, stability which of those to take.

Too small a rank merges components and too large a rank splits them: both predict entries worse that a run has not
seen. The ranks are tried from below, a few runs each, first on a ladder and then next to the best; the ladder
ends where ranks are clearly worse, so that the largest rank offered has no say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from drnmf.numerics import Vector
from drnmf.selection.choose import Tried, best_rank, clearly_worse, differences, first_within
from drnmf.selection.likelihood.scores import Scores, joined
from drnmf.selection.stages.runs import Run

STEP = 2.0**0.5
"""Ratio of neighbouring ranks of the ladder."""
RESOLUTION = 0.1
"""Gaps next to the best rank that are smaller than this part of it are left alone."""
REACH = 2.0
"""Ranks up to so many times the best are looked around where they predict about as well."""
ABOVE = (1.0, 1.1, 1.2, 1.4)
"""Ranks at which components of few rows are looked for, as multiples of the one that predicts best."""
ALL, UPWARDS, LADDER, COARSE = "all", "upwards", "ladder", "coarse"
"""Which ranks are tried: all; from below until clearly worse; on a ladder and then next to the best; on a ladder."""


def rows_of(tried: Sequence[Tried], threshold: float) -> list[dict[str, Any]]:
    """Write the ranks as rows of ranks.csv; held_out is the difference to the best score, per entry."""
    judged = any(one.scores is not None for one in tried)
    return [
        {
            "rank": one.rank,
            "runs": one.runs,
            "stable": one.stable(threshold),
            "mean_stability": one.mean_stability,
            "least_stability": float(one.stability.min()),
            "loss": one.error,
            **row,
            "within": row["within"] or not judged,
        }
        for one, row in zip(tried, differences(tried), strict=True)
    ]


def joined_scores(runs: list[Run]) -> Scores:
    """Put the scores of runs together, each of which held out other entries."""
    return joined([run.scores for run in runs if run.scores is not None])


def capped_is_better(kept: list[Run], capped: list[Run]) -> bool:
    """Tell whether runs with heavy rows scaled down predict held-out entries better, by more than a standard error."""
    return first_within([joined_scores(runs) for runs in (kept, capped)]) == 1


def too_large(tried: Sequence[Tried], rank: int) -> bool:
    """Tell whether two smaller ranks predict clearly worse than the best, which is smaller still."""
    worse = clearly_worse(tried)
    best = max((one.rank for one in tried if one.rank not in worse), default=rank)
    return sum(best < other < rank for other in worse) >= 2


def ladder(ranks: Sequence[int]) -> list[int]:
    """Choose ranks of a ladder whose steps grow, those that are offered: the smallest, 2, 3, 4, 6, 8, 11, ...

    >>> ladder(range(2, 31))
    [2, 3, 4, 6, 8, 11, 16, 23, 30]
    """
    offered, steps = sorted(ranks), [float(min(ranks))]
    while steps[-1] < offered[-1]:
        steps.append(max(steps[-1] + 1.0, round(STEP * steps[-1])))
    return sorted({min(offered, key=lambda rank: abs(rank - goal)) for goal in steps})


def ranks_above(best: int, ranks: Sequence[int]) -> list[int]:
    """List the ranks at which components of few rows are looked for, those that are offered.

    >>> ranks_above(9, range(2, 31)), ranks_above(4, range(1, 6))
    ([9, 10, 11, 13], [4, 5])
    """
    return sorted({round(part * best) for part in ABOVE} & set(ranks))


def with_most_stable(found: Mapping[int, Vector], first: int, threshold: float, most: int) -> int:
    """Choose the rank of which most components are stable, the smallest of those; `most` of them count.

    More components than predict best (`first`) must not spoil the others: where their stable ones come again worse,
    taken together (`Tried.merit`), than those of the rank that predicts best, or of a smaller one, what came in
    addition is half of another.
    """
    stable = {rank: Tried(rank, None, values[values >= threshold]) for rank, values in found.items()}
    least = max((one.merit for rank, one in stable.items() if rank <= first), default=-math.inf)
    allowed = [rank for rank, one in stable.items() if rank <= first or one.merit >= least]
    return max(allowed, key=lambda rank: (min(stable[rank].stability.size, most), -rank), default=first)


def to_try(ranks: Sequence[int], tried: Mapping[int, Tried], how: str = LADDER) -> Iterator[int]:
    """Yield the ranks to try, one after another: those of a ladder, then the middles of the gaps next to the best.

    And next to those that are within one standard error of it, up to twice as large: a rank between two that predict
    nearly as well may predict best of all. The caller adds each rank to `tried` before it asks for the next; a search
    with some ranks in it is taken up again.
    """
    waiting = sorted(ranks) if how in (ALL, UPWARDS) else ladder(ranks)
    while waiting:
        for rank in waiting:
            if rank not in tried and (how == ALL or not too_large(list(tried.values()), rank)):
                yield rank
        if how != LADDER:
            return
        known = {rank for rank in ranks if rank in tried or too_large(list(tried.values()), rank)}
        near = in_reach(list(tried.values()))
        waiting = sorted({middle for rank in near for middle in _next_to(rank, sorted(ranks), known)})


def still_to_try(ranks: Sequence[int], tried: Mapping[int, Tried], how: str = LADDER) -> int:
    """Guess the sum of the ranks that a search will still try: those of the ladder, and two next to the best."""
    known = list(tried.values())
    asked = ranks if how in (ALL, UPWARDS) else ladder(ranks)
    waiting = [rank for rank in asked if rank not in tried and not too_large(known, rank)]
    return sum(waiting) + (0 if how != LADDER or not known else 2 * best_rank(known).rank)


def in_reach(tried: Sequence[Tried]) -> list[int]:
    """List the ranks next to which the best may be."""
    best = best_rank(tried).rank
    within = [one.rank for one, row in zip(tried, differences(tried), strict=True) if row["within"]]
    return sorted({best, *(rank for rank in within if rank <= REACH * best)})


def _next_to(best: int, ranks: list[int], tried: set[int]) -> list[int]:
    """The middles of the gaps below and above a rank that are wider than a tenth of it.

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
