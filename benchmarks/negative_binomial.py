"""Sweeps under the negative binomial beside those under Kullback-Leibler, in turns: the processor time of one thread.

    OMP_NUM_THREADS=1 python benchmarks/negative_binomial.py

500 x 600 counts of 4 components: parts and loss, with and without the curvature, with and without gaps. The ratio is
that of the smallest times; the goal is 1.6. Rows of results/speed.csv.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
from harness import interleaved, keep, print_table

from drnmf.backends.base import Ask
from drnmf.backends.host.native import NativeDense
from drnmf.losses.beta import KL
from drnmf.losses.negative_binomial import NegativeBinomial


def row(r: int, dtype: str, curvature: bool, gaps: bool) -> dict[str, object]:
    """Time both losses on one X."""
    rng = np.random.default_rng(0)
    X = rng.poisson(5 * rng.gamma(0.5, size=(500, 4)) @ rng.gamma(0.5, size=(4, 600))).astype(dtype)
    if gaps:
        X[rng.random(X.shape) < 0.1] = np.nan
    data = NativeDense.of(X)
    W, H = rng.random((500, r)).astype(dtype), rng.random((r, 600)).astype(dtype)
    bend = np.ones(1) if curvature else None
    asks = {loss.name: Ask((loss,), curvature=bend) for loss in (KL, NegativeBinomial(10))}
    cases = {name: partial(data.sweep, W, H, ask) for name, ask in asks.items()}
    kl, nb = interleaved(cases, rounds=60, now=time.thread_time).values()
    words = [f"r = {r}", dtype, *["curvature"] * curvature, *["gaps"] * gaps]
    return {
        "case": ", ".join(words), "seconds": nb.median, "spread": nb.spread, "ratio": nb.minimum / kl.minimum,
    }  # fmt: skip


def main() -> None:
    cases = [(r, c, g) for r in (4, 10, 23) for c in (False, True) for g in (False, True)]
    rows = [row(r, dtype, c, g) for dtype in ("float64", "float32") for r, c, g in cases]
    keep("negative binomial", rows)
    print_table(rows)


if __name__ == "__main__":
    main()
