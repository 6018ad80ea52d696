"""SPA as a start on the Samson image: which side of X the pixels are on decides what SPA can pick.

    DRNMF_DATA=... python benchmarks/spa_on_samson.py

Prints the mean angle (radians) between the spectra found and the true ones.
"""

from __future__ import annotations

import os
import warnings
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io

from drnmf import DRNMF
from drnmf.algorithms.initialize import spa_start, successive_projection
from drnmf.backends.open import open_data


def mean_angle(spectra: Any, truth: Any) -> float:
    """Compute the mean angle of the columns of two matrices, matched as well as possible."""
    unit, true = (F / np.linalg.norm(F, axis=0) for F in (spectra, truth))
    angles = np.arccos(np.clip(unit.T @ true, -1.0, 1.0))
    return min(float(angles[list(order), range(3)].mean()) for order in permutations(range(3)))


def main() -> None:
    stored = scipy.io.loadmat(Path(os.environ["DRNMF_DATA"]) / "hyperspectral" / "Samson.mat")
    Y, truth = np.maximum(stored["Y"].astype(float), 0.0), stored["GT"].T.astype(float)  # 156 bands x 9025 pixels
    scaled = Y / np.maximum(Y.sum(axis=0), np.finfo(float).tiny)
    picked = successive_projection(open_data(scaled), 3)
    print(f"pixels that SPA picks after scaling each to sum one: {mean_angle(Y[:, picked], truth):.3f}")
    for name, X in (("pixels as columns", Y), ("pixels as rows", np.ascontiguousarray(Y.T))):
        W, H = spa_start(open_data(X), 3, np.random.RandomState(0))
        print(f"{name}: SPA's start {mean_angle(W if X is Y else H.T, truth):.3f}", end="")
        for init in ("spa", "random"):
            model = DRNMF(3, betas=(1, 2), init=init, max_iter=300, random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # 300 iterations may not be enough
                W = model.fit_transform(X)
            print(f", init={init!r} {mean_angle(W if X is Y else model.components_.T, truth):.3f}", end="", flush=True)
        print()


if __name__ == "__main__":
    main()
