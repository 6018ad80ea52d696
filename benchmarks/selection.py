"""How often the noise and the rank are found, on data whose truth is known.

    DRNMF_DATA=... python benchmarks/selection.py noise counts rank doors air signatures samson cost [--matrices 20]

Each question writes benchmarks/results/selection-QUESTION.csv and prints a summary. Rows that the file holds already
are kept, so that a run can be interrupted; --again measures them anew. `noise` and `counts` need no data.
Seconds are those of the processor.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
from harness import read_csv, write_csv
from scipy.optimize import linear_sum_assignment

from drnmf import DRNMF, BetaNMF, discover, noise_profile, rank_profile
from drnmf.matrices.files import read_matrix
from drnmf.selection.likelihood.grid import Grid
from drnmf.selection.likelihood.scores import likely_size
from drnmf.synthetic import planted

NOISES = ("gaussian", "poisson", "gamma", "negative binomial")
Row = dict[str, Any]
Case = tuple[Row, Callable[[], Row]]
"""What names a row, and what computes the rest of it."""


def data(*parts: str) -> Path:
    """Path below the folder of shared data."""
    return Path(os.environ["DRNMF_DATA"]).joinpath(*parts)


def noise(matrices: int) -> Iterator[Case]:
    """Beta of planted data, of X and of 1000 X."""
    for m, n in ((60, 80), (500, 300)):
        for kind in NOISES:
            for seed in range(matrices):
                yield {"shape": f"{m}x{n}", "noise": kind, "seed": seed}, partial(_noise_of, kind, m, n, seed)


def _noise_of(kind: str, m: int, n: int, seed: int) -> Row:
    X, truth = planted(kind, m, n, seed)
    began = time.process_time()
    found = [noise_profile(BetaNMF(5, random_state=0), c * X, held_out=0.0) for c in (1.0, 1000.0)]
    row: Row = {"truth": round(truth, 3), "beta": found[0].beta, "beta_1000": found[1].beta}
    row |= {"slope": round(found[0].slope, 3), "good": abs(found[0].beta - truth) <= 0.25}
    return row | {"same": found[0].beta == found[1].beta, "seconds": round((time.process_time() - began) / 2, 2)}


def counts(matrices: int) -> Iterator[Case]:
    """Sparse Poisson counts, sizes of negative binomials, and pictures in 8 bits with zeros."""
    for seed in range(matrices):
        for kind in ("poisson", "size", "bits"):
            yield {"noise": kind, "seed": seed}, partial(_counts_of, kind, seed)


def _counts_of(kind: str, seed: int) -> Row:
    rng = np.random.default_rng([7, seed])
    m, n, r = int(rng.integers(60, 220)), int(rng.integers(50, 160)), int(rng.integers(2, 6))
    V = rng.gamma(0.5, size=(m, r)) @ rng.gamma(0.5, size=(r, n))
    V *= (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)[seed % 6] / V.mean()
    size = (0.5, 2.0, 10.0)[seed % 3]
    if kind == "poisson":
        X = rng.poisson(V)
    elif kind == "size":
        X = rng.poisson(10.0 * V * rng.gamma(size, 1.0 / size, V.shape))
    else:
        V = rng.random((m, r)) @ (rng.random((r, n)) * (rng.random((r, n)) < 0.6))
        V *= 200.0 / V.max()
        X = np.clip(np.rint(V + (8, 20, 40, 60)[seed % 4] * rng.normal(size=V.shape)), 0, 255)
    began = time.process_time()
    found = noise_profile(BetaNMF(r, random_state=0), X.astype(np.float64))
    row: Row = {"X": f"{m}x{n}", "zeros": round(float((X == 0).mean()), 3), "best": str(found.best)}
    if kind == "size":
        (name,) = (one["name"] for one in found.table if one["name"].startswith("NB"))
        ratio = float(name[3:-1]) / likely_size(X.ravel().astype(np.float64), 10.0 * V.ravel(), Grid(1.0))
        row |= {"best": name, "good": 1 / 1.3 <= ratio <= 1.3}
    else:
        row["good"] = found.best == 1.0 if kind == "poisson" else found.beta >= 1.75
    return row | {"seconds": round(time.process_time() - began, 1)}


def doors(matrices: int) -> Iterator[Case]:
    """wtsi (rank 4) and sparse Poisson counts of rank 3 by `rank_profile` and `discover`; and made-up tables."""
    wtsi = np.load(data("rank", "wtsi.npz"))
    X = wtsi[wtsi.files[0]].astype(np.float64)
    for seed in range(min(matrices, 3)):
        for door in ("rank_profile", "discover"):
            for turned, name in ((X, "wtsi"), (X.T, "wtsi turned")):
                yield {"noise": name, "asked": door, "seed": seed}, partial(_door_of, door, turned, 4, seed)
            rng = np.random.default_rng([11, seed])
            V = rng.gamma(0.5, size=(300, 3)) @ rng.gamma(0.5, size=(3, 250))
            sparse = rng.poisson(0.5 * V / V.mean()).astype(np.float64)
            yield {"noise": "poisson 0.5", "asked": door, "seed": seed}, partial(_door_of, door, sparse, 3, seed)
    for seed in range(min(matrices, 10)):
        for kind in ("heavy column", "parts"):
            made, truth = _made(kind, seed)
            key = {"noise": kind, "asked": "rank_profile", "seed": seed}
            yield key, partial(_door_of, "rank_profile", made, truth, seed)


def _made(kind: str, seed: int) -> tuple[Any, int]:
    """A small catalogue of which one column weighs 12 times the median, or parts of 0 and 1 without noise."""
    rng = np.random.default_rng([13, seed])
    if kind == "parts":
        H = np.eye(6)[rng.permutation(np.arange(72) % 6)].T
        return (rng.random((120, 6)) < 0.5).astype(np.float64) @ H, 6
    V = rng.gamma(0.5, size=(96, 4)) @ rng.gamma(0.5, size=(4, 21))
    V /= V.sum(axis=0)
    weights = rng.lognormal(7.5, 0.5, 21)
    weights[0] = 12.0 * np.median(weights)
    return rng.poisson(V * weights).astype(np.float64), 4


def air(matrices: int) -> Iterator[Case]:
    """Tables of the air with uncertainties: one rank whatever the seed."""
    for name in ("Baltimore", "BatonRouge"):
        for seed in range(min(matrices, 5)):
            yield {"noise": name, "seed": seed}, partial(_air_of, name, seed)


def _air_of(name: str, seed: int) -> Row:
    suffix = ".txt" if name == "Baltimore" else ".csv"
    X, U = (read_matrix(data("air", f"{name}_{kind}{suffix}")).X for kind in ("con", "unc"))
    began = time.process_time()
    found = rank_profile(BetaNMF(beta=2, random_state=seed), X, ranks=range(2, 17), uncertainty=U)
    worst = max(row["held_out"] for row in found.table)
    row = {"rank": found.best, "worst": round(worst, 3), "good": math.isfinite(worst)}  # the rank is judged over seeds
    return row | {"seconds": round(time.process_time() - began, 1)}


def _door_of(door: str, X: Any, truth: int, seed: int) -> Row:
    began = time.process_time()
    if door == "discover":
        found = discover(X, BetaNMF(beta="auto", random_state=seed), ranks=range(1, 9))
        rank, loss = found.rank, found.losses[0].name
    else:
        profile = rank_profile(BetaNMF(beta="auto", random_state=seed), X, ranks=range(1, 9))
        rank, loss = profile.best, profile.loss.name
    return {"rank": rank, "loss": loss, "good": rank == truth, "seconds": round(time.process_time() - began, 1)}


def rank(matrices: int) -> Iterator[Case]:
    """Rank and beta of the matrices of rank 5."""
    kinds = ("poisson", "negative_binomial_10")
    stored = {kind: np.load(data("rank5", f"{kind}.npz"))["X"].astype(np.float64) for kind in kinds}
    for i in range(min(matrices, 100)):
        for kind in kinds:
            yield {"noise": kind, "matrix": i}, partial(_rank_of, stored[kind][i])


def _rank_of(X: Any) -> Row:
    began = time.process_time()
    found = rank_profile(BetaNMF(beta="auto", random_state=0), X, ranks=range(2, 9))
    by = {key: min(found.table, key=lambda row: row[key])["rank"] for key in ("held_out", "bic", "aic")}
    row = {"rank": found.best, "beta": found.loss.beta, **by, "good": found.best == 5}
    return row | {"seconds": round(time.process_time() - began, 1)}


def table_of(name: str, labels: int) -> Any:
    """A table of counts without its label columns."""
    rows = list(csv.reader(data("signatures", name).open(encoding="utf-8")))[1:]
    return np.array([[float(value) for value in row[labels:]] for row in rows])


def signatures(matrices: int) -> Iterator[Case]:
    """SBS_set1 Realistic, rank 23 given: mean cosine of the true signatures with those found."""
    for seed in range(min(matrices, 5)):
        for beta in ("auto", 1):
            yield {"seed": seed, "asked": beta}, partial(_signatures_of, seed, beta)


def _signatures_of(seed: int, beta: Any) -> Row:
    X = table_of("SBS_set1.Realistic.catalog.csv", 2)
    model = BetaNMF(23, beta=beta, random_state=seed)
    cosine = mean_cosine(model.fit_transform(X), table_of("SBS_set1.Realistic.sigs.csv", 2))
    good = beta == 1 or 0.25 <= model.beta_ <= 0.6  # the cosine is judged by its mean over the seeds
    return {"beta": model.beta_, "cosine": round(cosine, 4), "good": good}


def mean_cosine(found: Any, truth: Any) -> float:
    """Mean cosine of columns, matched one to one."""
    unit, true = (F / np.linalg.norm(F, axis=0) for F in (found, truth))
    cosines = true.T @ unit
    return float(cosines[linear_sum_assignment(-cosines)].mean())


def samson(matrices: int) -> Iterator[Case]:
    """Samson, rank 3 given, losses chosen by the data: mean spectral angle."""
    for seed in range(min(matrices, 5)):
        yield {"seed": seed}, partial(_samson_of, seed)


def _samson_of(seed: int) -> Row:
    stored = scipy.io.loadmat(data("hyperspectral", "Samson.mat"))
    Y, truth = np.maximum(stored["Y"].astype(float), 0.0), stored["GT"].T.astype(float)
    began = time.process_time()
    model = DRNMF(3, betas="auto", init="random", random_state=seed)  # NNDSVD ends at 0.44 under every loss
    W = model.fit_transform(Y)
    seconds = time.process_time() - began
    unit, true = (F / np.linalg.norm(F, axis=0) for F in (W, truth))
    angles = np.arccos(np.clip(true.T @ unit, -1.0, 1.0))
    angle = float(angles[linear_sum_assignment(angles)].mean())
    betas = " ".join(f"{beta:.3g}" for beta in model.noise_profile_.interval)
    # the angle is judged by its mean over the seeds
    return {"betas": betas, "angle": round(angle, 4), "good": angle <= 0.115, "seconds": round(seconds, 1)}


def cost(matrices: int) -> Iterator[Case]:
    """What C over nine betas costs, beside one fit with the same tolerance."""
    for seed in range(min(matrices, 3)):
        yield {"seed": seed}, partial(_cost_of, seed)


def _cost_of(seed: int) -> Row:
    X = table_of("SBS_set1.Realistic.catalog.csv", 2)
    began = time.process_time()
    BetaNMF(23, beta=0.5, random_state=seed).fit(X)
    middle = time.process_time()
    noise_profile(BetaNMF(23, random_state=seed), X, held_out=0.0)
    fit, profile = middle - began, time.process_time() - middle
    return {"fit": round(fit, 2), "profile": round(profile, 2), "good": profile <= 4 * fit}


QUESTIONS = {
    "noise": noise, "counts": counts, "rank": rank, "doors": doors, "signatures": signatures, "samson": samson,
    "cost": cost, "air": air,
}  # fmt: skip


def measured(question: str, matrices: int, again: bool) -> list[Row]:
    """Measure every case of a question that its file does not hold, and write each as soon as it is there."""
    rows = [] if again else read_csv(f"selection-{question}")
    known: list[Row] = list(rows)
    for key, compute in QUESTIONS[question](matrices):
        if any(all(row[name] == str(value) for name, value in key.items()) for row in rows):
            continue
        row = key | compute()
        print(question, *(f"{name}={value}" for name, value in row.items()), flush=True)
        known.append(row)
        write_csv(f"selection-{question}", known)
    return known


def summary(question: str, rows: list[Row]) -> None:
    """Print how many rows of each kind are good."""
    groups = defaultdict[str, list[bool]](list)
    for row in rows:
        name = " ".join(str(row[key]) for key in ("shape", "noise", "asked") if key in row)
        groups[name].append(str(row["good"]) == "True")
    for name, good in groups.items():
        print(f"{question} {name}: {sum(good)} of {len(good)} good")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("questions", nargs="+", choices=list(QUESTIONS))
    parser.add_argument("--matrices", type=int, default=100)
    parser.add_argument("--again", action="store_true", help="measure rows again that the file holds already")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for question in given.questions:
        summary(question, measured(question, given.matrices, given.again))


if __name__ == "__main__":
    main()
