"""Many starts of a small fit by the clock: one after another, and side by side on the cores of this machine.

    python benchmarks/many_starts.py [STARTS]

96 x 540 Poisson counts of 23 planted components, r = 23, beta = 0.5, random starts, tol=1e-6, at most 300 iterations
for each. One after another with all threads for each run (`n_jobs=None`), on one thread, and as many at a time as there
are cores (`n_jobs=-1`): wall seconds, and whether the factors are the same bits. Writes results/many-starts.csv.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np
from harness import print_table, write_csv
from threadpoolctl import threadpool_limits

from drnmf import BetaNMF

STARTS = 100


def counts() -> Any:
    """A catalogue of mutations in its size and kind."""
    rng = np.random.default_rng(0)
    return rng.poisson(rng.gamma(0.3, size=(96, 23)) @ (100.0 * rng.gamma(0.3, size=(23, 540)))).astype(float)


def timed(X: Any, starts: int, threads: int | None, n_jobs: int | None) -> tuple[float, Any]:
    """Wall seconds and components of the best of many starts."""
    model = BetaNMF(23, beta=0.5, init="random", n_init=starts, max_iter=300, tol=1e-6, n_jobs=n_jobs, random_state=0)
    begun = time.perf_counter()
    with threadpool_limits(threads):
        model.fit(X)
    return time.perf_counter() - begun, model.components_


def main(starts: int) -> None:
    warnings.simplefilter("ignore")
    X = counts()
    timed(X, 2, None, -1)
    ways = {"n_jobs=None": (None, None), "n_jobs=None, one thread": (1, None), "n_jobs=-1": (None, -1)}
    found = {name: timed(X, starts, *way) for name, way in ways.items()}
    first, components = found["n_jobs=None"]
    rows = [
        {
            "way": name, "starts": starts, "seconds": seconds, "times_faster": first / seconds,
            "same_bits": bool(np.array_equal(H, components)),
        }
        for name, (seconds, H) in found.items()
    ]  # fmt: skip
    write_csv("many-starts", rows)
    print_table(rows)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else STARTS)
