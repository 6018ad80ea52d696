"""Many starts of a small fit: one after another, and side by side on the cores of this machine.

    python benchmarks/many_starts.py [--starts 48] [--rounds 5] [--jobs 1,2,4,16]

96 x 540 Poisson counts of 23 planted components, r = 23, beta = 0.5, random starts, tol=1e-6, at most 300 iterations
for each, sweeps on one thread. The numbers of jobs take turns, round after round. Wall seconds, the processor time of
all processes and that of this one alone, which no number of cores shortens; whether the factors are the same bits. On a
machine whose cores others use only the processor times mean something. Rows of results/speed.csv.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
import warnings
from typing import Any

import numpy as np
from harness import Timing, keep, print_table
from threadpoolctl import threadpool_limits

from drnmf import BetaNMF


def counts() -> Any:
    """A catalogue of mutations in its size and kind."""
    rng = np.random.default_rng(0)
    return rng.poisson(rng.gamma(0.3, size=(96, 23)) @ (100.0 * rng.gamma(0.3, size=(23, 540)))).astype(float)


def processor(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def timed(X: Any, starts: int, n_jobs: int, seed: int = 0) -> tuple[float, float, float, Any]:
    """Wall seconds, processor seconds of all processes and of this one, and components of the best of many starts."""
    model = BetaNMF(
        23, beta=0.5, init="random", n_init=starts, max_iter=300, tol=1e-6, n_jobs=n_jobs, random_state=seed
    )
    kinds = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    before, begun = [processor(kind) for kind in kinds], time.perf_counter()
    with threadpool_limits(1):
        model.fit(X)
    wall = time.perf_counter() - begun
    own, others = (processor(kind) - spent for kind, spent in zip(kinds, before, strict=True))
    return wall, own + others, own, model.components_


def main(starts: int, rounds: int, jobs: list[int]) -> None:
    warnings.simplefilter("ignore")
    X = counts()
    timed(X, 2, 2)
    runs = [{n: timed(X, starts, n, seed) for n in jobs} for seed in range(rounds)]
    rows = []
    for n in jobs:
        wall = Timing.of([turn[n][0] for turn in runs])
        rows.append(
            {
                "case": f"96 x 540, r = 23, {starts} starts, n_jobs={n}", "seconds": wall.median, "spread": wall.spread,
                "ratio": float(np.median([turn[jobs[0]][0] / turn[n][0] for turn in runs])),
                "processor": float(np.median([turn[n][1] for turn in runs])),
                "own_processor": float(np.median([turn[n][2] for turn in runs])),
                "same_bits": all(np.array_equal(turn[n][3], turn[jobs[0]][3]) for turn in runs),
            }
        )  # fmt: skip
    keep("many starts", rows)
    print_table(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--starts", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", default=",".join(str(n) for n in (1, 2, 4, 16) if n <= (os.cpu_count() or 1)))
    chosen = parser.parse_args()
    main(chosen.starts, chosen.rounds, [int(n) for n in chosen.jobs.split(",")])
