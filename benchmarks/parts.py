"""What ten groups of rows cost over a plain fit: an iteration, and the whole fit with the references of the groups.

    python benchmarks/parts.py [--rounds 3] [--seed 0]

Planted, 1000 x 600, ten groups that share seven of ten components and have one each of their own, r = 10. Processor
time of one thread; plain fit and groups take turns.
"""

import argparse
import time
import warnings

import numpy as np
from harness import interleaved, keep, per_iteration, print_table
from threadpoolctl import threadpool_limits

from drnmf import DRNMF, BetaNMF

GROUPS, RANK = np.repeat(np.arange(10), 100), 10


def planted(beta, seed):
    """Counts for beta = 1, Gaussian noise for beta = 2."""
    rng = np.random.default_rng(seed)
    V = rng.gamma(0.7, size=(1000, 7)) @ rng.gamma(0.7, size=(7, 600))
    for group in range(10):
        rows = np.flatnonzero(group == GROUPS)
        V[rows] += rng.gamma(0.7, size=(rows.size, 1)) @ rng.gamma(0.7, size=(1, 600))
    return rng.poisson(5.0 * V) * 1.0 if beta == 1 else np.maximum(V + 0.3 * V.std() * rng.normal(size=V.shape), 0.0)


def models(X, beta, seed):
    """Return the plain fit and that of groups, with a number of iterations each; without one they stop by themselves.

    Iterations of groups are counted with references given, in the run after the plain fit.
    """

    def plain(most=None):
        stop = {} if most is None else {"max_iter": most, "tol": 0}
        return BetaNMF(RANK, beta=beta, random_state=seed, **stop).fit(X)

    def groups(most=None):
        stop = {} if most is None else {"max_iter": most, "tol": 0}
        return DRNMF(RANK, betas=(beta,), random_state=seed, **stop).fit(X, groups=GROUPS)

    return {"plain": plain, "ten groups": groups}


def iterations(X, beta, seed):
    """Return the same as runs of so many iterations under all groups, as fits make them, and under none."""
    from dataclasses import replace

    from drnmf.algorithms.loop import Control
    from drnmf.algorithms.weights import Fixed, Level
    from drnmf.backends.base import in_unit
    from drnmf.backends.open import open_data
    from drnmf.losses.names import as_losses
    from drnmf.problem.parts import groups_of, objective_of_part, parted, parts_alone, simplest_losses, stacked
    from drnmf.problem.problem import Problem
    from drnmf.problem.receive import Received
    from drnmf.solve.runner import Budget, Runner
    from drnmf.solve.solve import solve

    problem = Problem.opened(in_unit(open_data(X)), Received(X)).asked(RANK, as_losses((beta,)))
    _, division = groups_of(X, GROUPS)
    division = stacked(problem, division)
    alone = parts_alone(problem, division)
    raw = parted(problem, division, alone)
    pairs = zip(raw.omega, simplest_losses(raw), strict=True)
    parts = tuple(objective_of_part(part, 0.0, float(cost), "regret") for part, cost in pairs)
    rng = np.random.default_rng(seed)
    start = rng.uniform(0.5, 1.0, (1000, RANK)), rng.uniform(0.5, 1.0, (RANK, 600))
    cases = {
        "plain": (problem.alone(problem.omega[0]), Fixed()),
        "ten groups": (parted(problem, division, alone, parts), Level()),
    }

    def run(name, most):
        one, policy = cases[name]
        runner = Runner.of("auto", policy).near()
        runner = replace(runner, budget=Budget(Control(max_iter=most, tol=0.0), runs=1))
        return solve([one.begun(tuple(F.copy() for F in start))], runner)

    return {name: lambda most, name=name: run(name, most) for name in cases}


def main():
    """Print a row for each loss."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--betas", type=float, nargs="*", default=[1.0, 2.0])
    parser.add_argument("--keep", action="store_true", help="put the rows into results/speed.csv")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    with threadpool_limits(1):
        for beta in asked.betas:
            X = planted(beta, asked.seed)
            for what, timed in (
                ("iteration", per_iteration(iterations(X, beta, asked.seed), 20, 40, asked.rounds, time.process_time)),
                ("whole fit", interleaved(models(X, beta, asked.seed), asked.rounds, 1, time.process_time)),
            ):
                plain = timed["plain"]
                rows += [
                    {"case": f"beta = {beta:g}, {what}, {name}", "seconds": one.median, "spread": one.spread,
                     "ratio": one.median / plain.median}
                    for name, one in timed.items()
                ]  # fmt: skip
                print_table(rows[-2:])
    if asked.keep:
        keep("parts", rows)


if __name__ == "__main__":
    main()
