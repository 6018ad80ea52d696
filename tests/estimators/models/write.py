"""Write the models of test_kept_models.py. Run once for a version: its files are never written again.

python tests/estimators/models/write.py
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import drnmf
from drnmf import DRNMF, L1, BetaNMF, Interval, NegativeBinomial, Solver

FOLDER = Path(__file__).parent


def table() -> pd.DataFrame:
    """Return the X of the models: numbers that no version of NumPy draws otherwise."""
    i, j = np.indices((12, 7))
    return pd.DataFrame((3 * i + 5 * j + i * j) % 11 + 1.0, columns=[f"species {j}" for j in range(7)])


MODELS = {
    "beta": BetaNMF(3, beta=1, penalties=[L1(0.01, on="H")], random_state=0, max_iter=50, tol=0),
    "robust": DRNMF(2, betas=(0, 1, NegativeBinomial(30)), random_state=0, max_iter=50, solver=Solver(inner_iter=2)),
    "interval": DRNMF(2, betas=Interval(0, 2), random_state=0, max_iter=60, tol=0),
    "auto": BetaNMF(2, beta="auto", random_state=0, max_iter=50),
}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, model in MODELS.items():
        path = FOLDER / f"{drnmf.__version__}-{name}.npz"
        if path.exists():
            raise SystemExit(f"{path.name} is there already: files of a version stay as they are.")
        model.fit(table()).save(path)
        np.save(path.with_suffix(".npy"), model.transform(table()))
