"""What the paper says in words and `drnmf reproduce` does not measure: docs/reproduction.md has the answers.

python benchmarks/paper_words.py weights              # section 4.5: the stop on lambda, 2/(k+2), 10,000 iterations
DRNMF_DATA=... python benchmarks/paper_words.py zeros # section 5.3: zeros of the spectrogram under Gamma noise
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from harness import DATA, print_table

from drnmf.algorithms.initialize import random_start
from drnmf.apps.paper.fits import Options, fit_robust, fit_single
from drnmf.apps.paper.mary_figure import clean
from drnmf.apps.paper.weights_figure import BETAS, problem
from drnmf.backends.open import open_data
from drnmf.synthetic import mixed_noise, with_noise

SEEDS = range(3)
STOP = 1e-3
"""The paper's example of a tolerance on ||lambda(k+1) - lambda(k)||_1."""
EARLY = 100
"""Before this iteration losses cross by chance."""


def weights() -> list[dict[str, object]]:
    """Uniform 100 x 100, r = 10, {0, 1, 2}, as in the paper's figure; references after 1000 iterations."""
    rows = []
    for seed in SEEDS:
        X, begin = problem(seed)
        references = np.array([fit_single(X, begin, b, (b,), Options()).losses[0] for b in BETAS])
        for policy, most in (("frank-wolfe", 1000), ("frank-wolfe-2", 1000), ("subgradient", 10000)):
            trace = fit_robust(X, begin, BETAS, references, Options(max_iter=most), ("mu", policy)).trace
            still = np.flatnonzero(np.abs(np.diff(trace.weights, axis=0)).sum(axis=1) <= STOP) + 1
            below = np.flatnonzero(trace.scaled_losses[:, 0] <= trace.scaled_losses[:, 2])
            below = below[below > EARLY]
            rows.append({
                "seed": seed, "policy": policy,
                "first move <= 0.001": int(still[0]) if still.size else "none",
                "max there": f"{trace.maximum[still[0]]:.4f}" if still.size else "",
                "max at 1000": f"{trace.maximum[1000]:.4f}",
                "IS <= Frobenius from": int(below[0]) if below.size else "never",
                "IS, KL, Frobenius at the end": " ".join(f"{value:.4f}" for value in trace.scaled_losses[-1]),
            })  # fmt: skip
    return rows


def zeros() -> list[dict[str, object]]:
    """piano_Mary under Gamma noise 0.4: how many entries are zero, and their part of the loss of an IS-NMF."""
    assert DATA is not None, "DRNMF_DATA names the folder of data sets"
    rows = []
    for seed in SEEDS:
        rng = np.random.RandomState(seed)
        X, _ = clean(DATA / "audio" / "piano_Mary.wav")
        X = with_noise(X, mixed_noise(X, (0.0,), rng), 0.4)
        found = fit_single(X, random_start(open_data(X), 5, rng), 0.0, (0.0,), Options())
        V = found.W @ found.H
        ratio = np.maximum(X, np.finfo(np.float64).eps * X.mean()) / V
        terms = ratio - np.log(ratio) - 1
        rows.append(
            {
                "seed": seed,
                "zeros, percent": round(100 * float((X == 0).mean()), 2),
                "percent of the IS loss": round(100 * float(terms[X == 0].sum() / terms.sum()), 1),
            }
        )
    return rows


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for question in sys.argv[1:]:
        print_table({"weights": weights, "zeros": zeros}[question]())
