"""CP beside tensorly under beta = 2, beside its own multiplicative steps on sparse counts, and on planted tensors.

    DRNMF_DATA=... python benchmarks/tensors.py [tensorly] [counts] [planted] [--seeds 5] [--planted 20]

Processor time of one thread to the loss that the other reaches, from the same start; tensorly must be installed for the
first. Planted: rank 4 among 1 to 8 and the cosines of the factors, 30 x 25 x 20, under four noises.
"""

import argparse
import os
import statistics
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits

from drnmf import CP, Solver, rank_profile


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


NOISES = {
    "Poisson": (1, lambda V, rng: rng.poisson(V).astype(float)),
    "Gamma": (0, lambda V, rng: V * rng.gamma(5.0, 0.2, V.shape)),
    "Gaussian": (2, lambda V, rng: np.maximum(V + 0.3 * V.std() * rng.normal(size=V.shape), 0.0)),
    "Poisson, 30 % missing": (
        1,
        lambda V, rng: np.where(rng.random(V.shape) < 0.3, np.nan, rng.poisson(V).astype(float)),
    ),
}


def on_planted(noise, seed):
    """Plant four components; the rank that is chosen, and the smallest mean cosine of a mode at rank four."""
    beta, draw = NOISES[noise]
    rng = np.random.default_rng(seed)
    truth = [rng.gamma(0.5, 2.0, (size, 4)) for size in (30, 25, 20)]
    X = draw(np.einsum("ir,jr,kr->ijk", *truth, optimize=True) + 1e-3, rng)
    found = CP(4, betas=beta, n_init=5, random_state=seed).fit(X).factors_
    cosines = []
    for ours, theirs in zip(found, truth, strict=True):
        a, b = (F / np.linalg.norm(F, axis=0) for F in (ours, theirs))
        cosines.append(a.T @ b)
    _, columns = linear_sum_assignment(-np.prod(cosines, axis=0))
    means = [float(alike[np.arange(4), columns].mean()) for alike in cosines]
    return rank_profile(CP(betas=beta, random_state=seed), X, ranks=range(1, 9)).best, min(means)


def main():
    """Print a row for each comparison: median, smallest and largest ratio; ranks and cosines of planted tensors."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="*", default=["tensorly", "counts", "planted"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--planted", type=int, default=20)
    asked = parser.parse_args()
    seeds, rows = range(asked.seeds), {}
    threadpool_limits(1)
    if "tensorly" in asked.what:
        rows = {f"tensorly, r = {rank}": [beside_tensorly(rank, seed) for seed in seeds] for rank in (10, 30)}
    uber = Path(os.environ.get("DRNMF_DATA", "")) / "tensors" / "uber.npz"
    if "counts" in asked.what and uber.exists():
        rows["multiplicative steps, sparse, r = 20"] = [beside_multiplicative(uber, seed) for seed in seeds]
    for name, ratios in rows.items():
        print(f"{name}: {statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})")
    for noise in NOISES if "planted" in asked.what else ():
        done = []
        for seed in range(asked.planted):
            done.append(on_planted(noise, seed))
            ranks, cosines = zip(*done, strict=True)
            right = f"{noise}: rank right in {ranks.count(4)} of {len(done)} {list(ranks)}"
            print(f"{right}, cosine {statistics.median(cosines):.4f} (least {min(cosines):.4f})", flush=True)


if __name__ == "__main__":
    main()
