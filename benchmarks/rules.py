"""Which second-order rule pays at which rank: what `update="auto"` chooses from, each given the same processor time.

    DRNMF_DATA=... OMP_NUM_THREADS=1 python benchmarks/rules.py [seconds] [text]

KL from the same random start: a curvature for every column ("own"), one for all ("shared"), and none ("extrapolated").
How far each ends above the best of the three when its time is up, and how many sweeps an iteration took (two where no
step rose). The text picks the rows whose "X rank" holds it. Rows go to results/rules.csv as they are made.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

from frontier import renewed
from tables import tables
from threadpoolctl import threadpool_limits

from drnmf import BetaNMF, Solver
from drnmf.algorithms.result import Progress
from drnmf.algorithms.updates.base import Rule
from drnmf.algorithms.updates.newton import Newton

RANKS = (10, 20, 30, 50, 100, 200)
NAMES = ("planted Poisson", "digits", "tr11", "SBS_set1.Realistic", "sisec_wdrums magnitude")
RULES: dict[str, str | Rule] = {
    "own": Newton(largest_rank=10**9), "shared": Newton(largest_rank=0), "extrapolated": "extrapolated"
}  # fmt: skip


def run(X: Any, rank: int, rule: str | Rule, seconds: float) -> tuple[float, float]:
    """Loss after some processor seconds, and sweeps for every iteration."""
    begun = time.process_time()

    def late(progress: Progress) -> bool:
        return time.process_time() - begun > seconds

    model = BetaNMF(rank, beta=1, init="random", random_state=0, tol=0, solver=Solver(update=rule, callback=late)).fit(
        X
    )
    return float(model.losses_[0]), float(model.trace_.sweeps[-1]) / model.n_iter_


def row(name: str, X: Any, rank: int, seconds: float) -> dict[str, Any]:
    """One table at one rank."""
    found = {who: run(X, rank, rule, seconds) for who, rule in RULES.items()}
    best = min(value for value, _ in found.values())
    losses = {who: value / best for who, (value, _) in found.items()}
    return {"X": name, "rank": rank, "seconds": seconds} | losses | {f"sweeps {w}": s for w, (_, s) in found.items()}


def main(seconds: float, only: str) -> None:
    warnings.simplefilter("ignore")
    every = dict(tables())
    cases = [(name, rank) for name in NAMES if name in every for rank in RANKS if rank <= min(every[name].shape)]
    chosen = [case for case in cases if only in f"{case[0]} {case[1]}"]
    with threadpool_limits(1):
        renewed("rules", (row(name, every[name], rank, seconds) for name, rank in chosen))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 5.0, sys.argv[2] if len(sys.argv) > 2 else "")
