"""Does the bound of `Interval(0, 2)` hold? Every data set of benchmarks/algorithms.py that has no zeros.

A fit on the interval prints a bound; here every D_beta / e(beta) on a grid of 41 beta, computed anew from the factors
and from the reference fits' smallest losses, is held against it. Writes results/interval.csv.

    DRNMF_DATA=... python benchmarks/interval.py
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from algorithms import cases
from harness import write_csv

from drnmf import DRNMF, Interval
from drnmf.backends.base import losses_of
from drnmf.backends.open import open_data
from drnmf.losses.names import as_losses

GRID = np.linspace(0.0, 2.0, 41)


def check(dataset: str, rank: int, X: Any, init: str, W: Any, H: Any) -> dict[str, Any]:
    model = DRNMF(rank, betas=Interval(0, 2), init=init, random_state=0, max_iter=1000)
    fitted = model.fit_transform(X, W=W, H=H)
    losses = losses_of(open_data(X), fitted, model.components_, as_losses(GRID.tolist()))
    coverage = model.coverage_
    assert coverage is not None
    at = [int(np.argmin(np.abs(coverage.betas - beta))) for beta in GRID]
    np.testing.assert_allclose(coverage.betas[at], GRID, atol=1e-12)  # e(beta) is known at every one of them
    scaled = losses / coverage.references[at]
    return {
        "dataset": dataset, "rank": rank, "knots": len(model.betas_),
        "largest_at_knots": float(model.scaled_losses_.max()),
        "largest_of_41": float(scaled.max()), "at_beta": float(GRID[int(np.argmax(scaled))]), "bound": coverage.bound,
        "holds": bool(scaled.max() <= coverage.bound),
    }  # fmt: skip


def main() -> None:
    warnings.simplefilter("ignore")
    rows = []
    for case in cases(1):
        X, W, H = case.make()
        if sp.issparse(X) or not np.all(X):
            continue
        rows.append(check(case.dataset, case.rank, X, case.init, W, H))
        print(" ".join(f"{name}={value}" for name, value in rows[-1].items()), flush=True)
    write_csv("interval", rows)
    print(f"The bound holds in {sum(row['holds'] for row in rows)} of {len(rows)}.")


if __name__ == "__main__":
    main()
