"""The rule that the default chooses beside fixed ones, on tables drawn from a seed: processor time to the same loss.

    OMP_NUM_THREADS=1 python benchmarks/rules.py

Six kinds of tables in five pairs of size and rank. Fixed are a curvature for every column, one for all columns, and
no step of second order; one start for all. The loss to reach is the higher of the ends of the first two. The ratio of a
row is the time of the default over that of the fastest fixed rule, each the fastest of three that take turns; the goal
is at most 1.2 in 27 of 30 (`algorithms/updates/newton.py`). Rows of results/speed.csv.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import keep, print_table
from likenesses import cells, notes, scene, topics
from threadpoolctl import threadpool_limits

from drnmf import BetaNMF, Solver
from drnmf.algorithms.result import Progress
from drnmf.algorithms.updates.monotone import Extrapolated
from drnmf.algorithms.updates.newton import Newton

FIXED = {"own": Newton(), "shared": Newton(largest_rank=0), "first order": Extrapolated()}
SIZES = ((60, 80, 30), (150, 120, 12), (150, 120, 40), (400, 300, 20), (400, 300, 30))
ITERATIONS = 150
ROUNDS = 3


def planted(m: int, n: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return rng.gamma(0.5, size=(m, 8)) @ rng.gamma(0.5, size=(8, n)), rng


def poisson(m: int, n: int, seed: int) -> Any:
    mean, rng = planted(m, n, seed)
    return rng.poisson(20.0 * mean).astype(float)


def gamma(m: int, n: int, seed: int) -> Any:
    mean, rng = planted(m, n, seed)
    return mean * rng.gamma(4.0, 0.25, size=mean.shape) + 1e-3


KINDS: dict[str, tuple[float, Callable[[int, int, int], Any]]] = {
    "counts": (1.0, poisson),
    "gamma": (0.0, gamma),
    "notes": (0.0, lambda m, n, seed: notes(m, n - n % 25, 12, seed)),
    "topics": (1.0, lambda m, n, seed: topics(m, n, 12, seed)),
    "cells": (1.0, lambda m, n, seed: cells(m, n, 8, seed)),
    "scene": (1.0, lambda m, n, seed: scene(m, n, 5, seed)),
}


def course(X: Any, rank: int, beta: float, update: Any) -> list[tuple[float, float]]:
    """Return the processor time and the loss after every iteration."""
    seen: list[tuple[float, float]] = []
    begun = time.process_time()

    def watch(progress: Progress) -> bool:
        seen.append((time.process_time() - begun, float(progress.losses[0])))
        return False

    BetaNMF(
        rank, beta=beta, init="random", random_state=0, tol=0, max_iter=ITERATIONS,
        solver=Solver(update=update, callback=watch),
    ).fit(X)  # fmt: skip
    return seen


def until(seen: list[tuple[float, float]], target: float) -> float:
    return next((seconds for seconds, loss in seen if loss <= target), float("inf"))


def row(kind: str, m: int, n: int, rank: int, seed: int) -> dict[str, object]:
    beta, make = KINDS[kind]
    X = make(m, n, seed)
    rules = {**FIXED, "auto": "auto"}
    rounds = [{name: course(X, rank, beta, rule) for name, rule in rules.items()} for _ in range(ROUNDS)]
    target = max(rounds[0][name][-1][1] for name in ("own", "shared")) * (1 + 1e-9)
    seconds = {name: min(until(courses[name], target) for courses in rounds) for name in rules}
    best = min(FIXED, key=seconds.__getitem__)
    return {
        "case": f"{kind}, beta = {beta:g}, {m} x {n}, r = {rank}", "seconds": seconds["auto"],
        "ratio": seconds["auto"] / seconds[best], "fastest": best,
    }  # fmt: skip


def main() -> None:
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        rows = [row(kind, *size, seed) for kind in KINDS for seed, size in enumerate(SIZES)]
    keep("choice of the rule", rows)
    print_table(rows)
    print(f"at most 1.2: {sum(float(str(r['ratio'])) <= 1.2 for r in rows)} of {len(rows)}")


if __name__ == "__main__":
    main()
