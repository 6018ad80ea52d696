"""Spectra and fractions found by sum_to_one and Volume, with alpha chosen by the data alone.

    DRNMF_DATA=... python benchmarks/unmixing.py samson raman
    OMP_NUM_THREADS=1 python benchmarks/unmixing.py image

Samson (156 bands, 95 x 95 pixels, three materials): every pixel is scaled to sum one, so that its spectrum is a mixture
of spectra that sum to one whatever its brightness. Printed: the mean angle (radians) between the spectra found and the
true ones, and the root mean square error of the fractions, for five random starts. RamanSMCR (151 mixtures of five
spectra of 2478 channels): noise is added in three ways, each fitted under its own loss. Nearly all mixtures hold all
five components, and the spectra are lines: so the volume is that of the parts, `on="W"`, whose partner has the zeros
(docs/penalties/volume.md).
The image is generated: 10,000 pixels of 198 bands mix four smooth spectra, with 2 % of noise; the time of its robust
fit with three losses counts. Printed: the cosine of every spectrum with the true one. Rows go to results/unmixing.csv.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
from harness import read_csv, write_csv

from drnmf import DRNMF, BetaNMF, Volume

NOISES = {"gaussian": 2, "poisson": 1, "gamma": 0}


def stored(name: str) -> dict[str, Any]:
    return scipy.io.loadmat(Path(os.environ["DRNMF_DATA"]) / "hyperspectral" / name)


def cosines(H: Any, truth: Any) -> tuple[list[int], Any]:
    """Match the rows of two matrices; return the order and the cosine of every pair."""
    unit, true = (F / np.linalg.norm(F, axis=1, keepdims=True) for F in (H, truth))
    table = np.clip(unit @ true.T, -1.0, 1.0)
    order = max(permutations(range(len(true))), key=lambda o: table[list(o), range(len(true))].sum())
    return list(order), table[list(order), range(len(true))]


def samson(penalty: Volume, seed: int) -> dict[str, Any]:
    data = stored("Samson.mat")
    pixels, truth = np.maximum(data["Y"].astype(float).T, 0.0), data["GT"].astype(float)
    fractions = np.transpose(data["S_GT"], (1, 0, 2)).reshape(-1, 3)  # the image is stored column by column
    X = pixels / pixels.sum(axis=1, keepdims=True)
    model = BetaNMF(3, beta=2, sum_to_one="W", penalties=[penalty], random_state=seed, max_iter=1000)
    W = model.fit_transform(X)
    order, close = cosines(model.components_, truth)
    error = float(np.sqrt(np.mean((W[:, order] - fractions) ** 2)))
    alpha = model.penalties_.terms[0].alpha if model.penalties_.terms else 0.0
    return {"alpha": alpha, "angle": float(np.arccos(close).mean()), "error": error, "cosines": close.round(4).tolist()}


def noisy(X: Any, noise: str, rng: np.random.Generator) -> Any:
    """X with noise of about five percent."""
    if noise == "gaussian":
        return np.maximum(X + 0.05 * X.mean() * rng.normal(size=X.shape), 0.0)
    counts = 400.0 / X.mean()
    return rng.poisson(counts * X) / counts if noise == "poisson" else X * rng.gamma(400.0, 1.0 / 400.0, X.shape)


def raman(penalty: Volume, noise: str, seed: int) -> dict[str, Any]:
    data = stored("RamanSMCR.mat")
    spectra, parts = data["W"].astype(float).T, data["H"].astype(float).T
    X = np.ascontiguousarray(noisy(parts @ spectra, noise, np.random.default_rng(seed)))
    given = {"penalties": [penalty], "init": "random", "random_state": seed, "max_iter": 3000, "zeros": "floor"}
    model = BetaNMF(5, beta=NOISES[noise], **given).fit(X)
    _, close = cosines(model.components_, spectra)
    alpha = model.penalties_.terms[0].alpha if model.penalties_.terms else 0.0
    return {"alpha": alpha, "smallest": float(close.min()), "cosines": close.round(4).tolist()}


def image(penalty: Volume, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    places = np.linspace(0.0, 1.0, 198)
    bumps = rng.uniform(0.2, 1.0, (4, 6, 1)) * np.exp(
        -(((places - rng.uniform(0.0, 1.0, (4, 6, 1))) / rng.uniform(0.05, 0.25, (4, 6, 1))) ** 2)
    )
    spectra = 0.05 + bumps.sum(axis=1)
    pixels = rng.dirichlet(np.full(4, 0.4), 10_000) @ spectra
    pixels *= np.maximum(1.0 + 0.02 * rng.normal(size=pixels.shape), 0.0)
    X = pixels / pixels.sum(axis=1, keepdims=True)
    model = DRNMF(4, betas=[0, 1, 2], sum_to_one="W", penalties=[penalty], random_state=seed).fit(X)
    _, close = cosines(model.components_, spectra)
    return {
        "alpha": model.penalties_.terms[0].alpha,
        "smallest": float(close.min()),
        "cosines": close.round(4).tolist(),
    }


def main() -> None:
    warnings.simplefilter("ignore")  # runs that end at max_iter
    rows, jobs = [row for row in read_csv("unmixing") if row["data"] not in sys.argv], []
    if "samson" in sys.argv:
        jobs += [("samson", f"seed {s}", lambda s=s: samson(Volume("auto"), s)) for s in range(5)]
    if "raman" in sys.argv:
        jobs += [("raman", noise, lambda noise=noise: raman(Volume("auto", on="W"), noise, 0)) for noise in NOISES]
    if "image" in sys.argv:
        jobs += [("image", f"seed {s}", lambda s=s: image(Volume("auto"), s)) for s in range(5)]
    for name, what, job in jobs:
        began = time.process_time()
        found = job()
        rows.append({"data": name, "run": what, **found, "cpu_seconds": round(time.process_time() - began, 1)})
        print(rows[-1], flush=True)
    write_csv("unmixing", rows)


if __name__ == "__main__":
    main()
