"""CP beside tensorly under beta = 2, and beside its own multiplicative steps on sparse counts under beta = 1.

    DRNMF_DATA=... OMP_NUM_THREADS=1 python benchmarks/tensors.py [--seeds 5]

Processor time of one thread to the loss that the other reaches, from the same start. tensorly must be installed.
"""

import argparse
import os
import statistics
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from threadpoolctl import threadpool_limits

from drnmf import CP, Solver


def seconds_to(goal, X, start, betas):
    """Processor time until the default of CP has a loss; infinite where it never has."""
    began, reached = time.process_time(), []

    def look(progress):
        if progress.losses[0] <= goal:
            reached.append(time.process_time() - began)
        return bool(reached)

    rank = start[0].shape[1]
    CP(rank, betas=betas, init="custom", max_iter=1000, tol=0, solver=Solver(callback=look)).fit(X, factors=start)
    return reached[0] if reached else float("inf")


def beside_tensorly(rank, seed):
    """Time of tensorly over ours, dense 200 x 150 x 100."""
    import tensorly
    from tensorly.decomposition import non_negative_parafac_hals

    rng = np.random.default_rng(seed)
    X = np.einsum("ir,jr,kr->ijk", *(rng.gamma(0.7, 1.0, (size, rank)) for size in (200, 150, 100)), optimize=True)
    X = np.maximum(X + 0.3 * X.std() * rng.normal(size=X.shape), 0)
    start = [rng.uniform(size=(size, rank)) for size in X.shape]
    scale = (X.mean() / np.einsum("ir,jr,kr->ijk", *start, optimize=True).mean()) ** (1 / 3)
    start = [scale * factor for factor in start]
    given = tensorly.cp_tensor.CPTensor((np.ones(rank), [factor.copy() for factor in start]))
    began = time.process_time()
    weights, factors = non_negative_parafac_hals(X, rank, n_iter_max=200, init=given, tol=0)
    theirs = time.process_time() - began
    model = np.einsum("r,ir,jr,kr->ijk", weights, *factors, optimize=True)
    return theirs / seconds_to(0.5 * float(((X - model) ** 2).sum()), X, start, 2)


def beside_multiplicative(path, seed):
    """Time of 500 multiplicative steps over ours on the pick-ups of taxis."""
    stored = np.load(path)
    Y = stored[stored.files[0]]
    where = np.nonzero(Y)
    X = SimpleNamespace(coords=where, data=Y[where].astype(float), shape=Y.shape)
    rng = np.random.default_rng(seed)
    start = [rng.uniform(0.1, 1.0, (size, 20)) for size in Y.shape]
    began = time.process_time()
    slow = CP(20, betas=1, init="custom", max_iter=500, tol=0, solver="mu").fit(X, factors=start)
    theirs = time.process_time() - began
    return theirs / seconds_to(slow.losses_[0], X, start, 1)


def main():
    """Print a row for each comparison: median, smallest and largest ratio."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    seeds = range(parser.parse_args().seeds)
    threadpool_limits(1)
    rows = {f"tensorly, r = {rank}": [beside_tensorly(rank, seed) for seed in seeds] for rank in (10, 30)}
    uber = Path(os.environ.get("DRNMF_DATA", "")) / "tensors" / "uber.npz"
    if uber.exists():
        rows["multiplicative steps, sparse, r = 20"] = [beside_multiplicative(uber, seed) for seed in seeds]
    for name, ratios in rows.items():
        print(f"{name}: {statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})")


if __name__ == "__main__":
    main()
