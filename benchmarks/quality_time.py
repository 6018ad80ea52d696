"""Processor seconds to a given quality, on one core: whole fits, everything included.

1. DR-NMF: the time of `DRNMF(solver="mu", tol=0)` with 1000 iterations, references included,
   against the time of a default fit, its own references included, until its factors are as good as the paper's:
   max_b D_b / e_b not above the paper's last value. Each side balances the losses for the references it found; e_b is
   the smaller of the two, the better estimate of what beta alone can reach.
2. One loss: the time of scikit-learn's `NMF(solver="mu")` with 1000 iterations against the time of a default `BetaNMF`
   until its loss is not above scikit-learn's.

A fit that ends elsewhere, in a worse local minimum, has not reached the quality: it counts with ratio 0.
Peers take turns in one process, three rounds, medians; processor time, so that a busy machine does no harm.
Writes results/quality-time.csv.

    DRNMF_DATA=... OMP_NUM_THREADS=1 python benchmarks/quality_time.py
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from algorithms import spectrogram
from harness import DATA, write_csv
from threadpoolctl import threadpool_limits

from drnmf import DRNMF, BetaNMF, Solver
from drnmf.algorithms.result import Progress

ROUNDS = 3


def problems() -> list[tuple[str, Any, int, tuple[float, ...], str]]:
    """(name, X, rank, betas, init) of the DR comparison."""
    rng = np.random.RandomState(1000)
    found: list[tuple[str, Any, int, tuple[float, ...], str]] = [
        ("uniform", rng.uniform(size=(100, 100)), 10, (0.0, 1.0, 2.0), "random")
    ]
    if DATA is None:
        print("DRNMF_DATA is not set: only the uniform problem runs.")
        return found
    for name, rank in (("piano_Mary", 4), ("piano_Mary", 10), ("sisec_wdrums", 10), ("isse_bass_drum", 10)):
        found.append((f"{name} r={rank}", spectrogram(DATA / "audio" / f"{name}.wav"), rank, (0.0, 1.0), "random"))
    for name, rank in (("tr11", 9), ("reviews", 5)):
        found.append((name, sp.load_npz(DATA / "documents" / f"{name}.npz").astype(float), rank, (1.0, 2.0), "spa"))
    return found


class Until:
    """A callback that ends the run once losses / references is at most the target, and remembers when."""

    def __init__(self, references: Any, target: float) -> None:
        self.references, self.target = references, target
        self.started = time.process_time()
        self.reached = float("inf")

    def __call__(self, progress: Progress) -> bool:
        if float((progress.losses / self.references).max()) <= self.target:
            self.reached = time.process_time() - self.started
            return True
        return False


def robust() -> list[dict[str, Any]]:
    rows = []
    for name, X, rank, betas, init in problems():
        seconds: dict[str, list[float]] = {"paper": [], "default": []}
        for seed in range(ROUNDS):
            common = {"betas": betas, "init": init, "random_state": seed}
            begun = time.process_time()
            paper = DRNMF(rank, tol=0, max_iter=1000, solver=Solver(update="mu", policy="frank-wolfe"), **common).fit(X)
            seconds["paper"].append(time.process_time() - begun)
            references = np.minimum(paper.references_, DRNMF(rank, **common).fit(X).references_)
            until = Until(references, float((paper.losses_ / references).max()))
            DRNMF(rank, solver=Solver(callback=until), **common).fit(X)
            seconds["default"].append(until.reached)
        rows.append(row("DRNMF", name, seconds["paper"], seconds["default"]))
    return rows


def single() -> list[dict[str, Any]]:
    from sklearn.decomposition import NMF

    rows = []
    cases: list[tuple[str, Any, int, float]] = []
    if DATA is not None:
        X = spectrogram(DATA / "audio" / "sisec_wdrums.wav")
        cases += [("sisec_wdrums dense", X, 10, beta) for beta in (0.0, 1.0)]
        cases.append(("reviews sparse", sp.load_npz(DATA / "documents" / "reviews.npz").astype(float), 5, 1.0))
    for name, X, rank, beta in cases:
        seconds: dict[str, list[float]] = {"scikit-learn": [], "default": []}
        for seed in range(ROUNDS):
            rng = np.random.RandomState(seed)
            scale = np.sqrt(X.mean() / rank)
            W, H = (scale * np.abs(rng.normal(size=shape)) + 1e-6 for shape in ((X.shape[0], rank), (rank, X.shape[1])))
            begun = time.process_time()
            peer = NMF(rank, solver="mu", beta_loss=beta, init="custom", max_iter=1000, tol=0)
            fitted = peer.fit_transform(X, W=W.copy(), H=H.copy())
            seconds["scikit-learn"].append(time.process_time() - begun)
            target = loss(X, fitted, peer.components_, beta)
            until = Until(np.ones(1), target)
            BetaNMF(rank, beta=beta, init="custom", tol=0, max_iter=3000, solver=Solver(callback=until)).fit(
                X, W=W, H=H
            )
            seconds["default"].append(until.reached)
        rows.append(row(f"BetaNMF beta={beta:g}", name, seconds["scikit-learn"], seconds["default"]))
    return rows


def loss(X: Any, W: Any, H: Any, beta: float) -> float:
    """D_beta without a dense m x n array where X is sparse."""
    from drnmf.backends.base import losses_of
    from drnmf.backends.open import open_data
    from drnmf.losses.names import as_losses

    return float(losses_of(open_data(X), W, H, as_losses(beta))[0])


def row(what: str, name: str, peer: list[float], ours: list[float]) -> dict[str, Any]:
    ratios = np.array(peer) / np.array(ours)
    print(f"{what:14s} {name:20s} peer {np.median(peer):8.2f} s  default {np.median(ours):7.3f} s  "
          f"ratio {np.median(ratios):5.1f} ({ratios.min():.1f} to {ratios.max():.1f})", flush=True)  # fmt: skip
    return {
        "comparison": what, "dataset": name, "peer_seconds": round(float(np.median(peer)), 4),
        "default_seconds": round(float(np.median(ours)), 4), "ratio": round(float(np.median(ratios)), 2),
        "ratio_smallest": round(float(ratios.min()), 2), "ratio_largest": round(float(ratios.max()), 2),
    }  # fmt: skip


def main() -> None:
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        write_csv("quality-time", robust() + single())


if __name__ == "__main__":
    main()
