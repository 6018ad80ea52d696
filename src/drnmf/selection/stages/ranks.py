"""How many components? The rank at which most components come again in every run.

Too small a rank merges components, too large a rank splits them at random: both leave fewer that are found again. The
ranks are tried from a coarse grid inwards, a few runs each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drnmf.selection.consensus import Consensus
from drnmf.selection.stages.runs import Run

GRID = 6
"""Ranks of the coarse grid."""


@dataclass(frozen=True)
class Tried:
    """A rank that was tried.

    Attributes
    ----------
    rank, runs : int
    stable : how many components reach the threshold
    stability, least : mean and smallest stability
    error : the smallest loss of the runs
    """

    rank: int
    runs: int
    stable: int
    stability: float
    least: float
    error: float

    @classmethod
    def of(cls, runs: list[Run], found: Consensus, threshold: float) -> Tried:
        """Judge a rank by what its runs agree on."""
        rank, s = found.components.shape[0], found.stability
        stable = int((s >= threshold).sum())
        return cls(rank, len(runs), stable, float(s.mean()), float(s.min()), min(run.error for run in runs))

    def row(self) -> dict[str, Any]:
        """Write the rank as a row of ranks.csv."""
        return {
            "rank": self.rank, "runs": self.runs, "stable": self.stable, "mean_stability": self.stability,
            "least_stability": self.least, "loss": self.error,
        }  # fmt: skip


def best_of(tried: Sequence[Tried]) -> Tried:
    """Choose the rank with most stable components; of several the one with the largest mean stability."""
    return max(tried, key=lambda one: (one.stable, one.stability, -one.rank))


def grid(ranks: Sequence[int], count: int = GRID) -> list[int]:
    """Choose at most `count` ranks, evenly spread in the logarithm, both ends among them.

    >>> grid(range(2, 31))
    [2, 3, 6, 10, 17, 30]
    """
    ranks = sorted(ranks)
    wanted = np.geomspace(ranks[0], ranks[-1], min(count, len(ranks)))
    return sorted({min(ranks, key=lambda rank: abs(rank - goal)) for goal in wanted.tolist()})


def search(ranks: Sequence[int], attempt: Callable[[int], Tried | None], tried: dict[int, Tried]) -> bool:
    """Try ranks from a coarse grid inwards, halving the gaps beside the best until its neighbours are tried.

    Parameters
    ----------
    ranks : what may be tried
    attempt : tries a rank; None where no time is left, which ends the search
    tried : what was found, by rank; filled here, so that an interruption keeps it

    Returns
    -------
    finished : whether the search came to its end
    """
    waiting = grid(ranks)
    while waiting:
        for rank in waiting:
            found = attempt(rank)
            if found is None:
                return False
            tried[rank] = found
        waiting = _beside(best_of(list(tried.values())).rank, sorted(ranks), set(tried))
    return True


def _beside(best: int, ranks: list[int], tried: set[int]) -> list[int]:
    """The middles of the gaps below and above the best rank."""
    middles = []
    for side in ([r for r in ranks if r < best][::-1], [r for r in ranks if r > best]):
        gap = []
        for rank in side:
            if rank in tried:
                break
            gap.append(rank)
        if gap:
            middles.append(gap[len(gap) // 2])
    return sorted(middles)
