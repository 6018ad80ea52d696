"""How often the noise and the rank are found, on data whose truth is known.

    DRNMF_DATA=... python benchmarks/selection.py noise rank signatures samson cost [--matrices 20]

Each question writes benchmarks/results/selection-QUESTION.csv and prints a summary. `noise` needs no data: `planted` is
its generator.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
from scipy.optimize import linear_sum_assignment

from drnmf import DRNMF, BetaNMF, noise_profile, rank_profile
from drnmf.synthetic import planted

RESULTS = Path(__file__).parent / "results"
NOISES = ("gaussian", "poisson", "gamma", "negative binomial")
Row = dict[str, Any]


def data(*parts: str) -> Path:
    """Path below the folder of shared data."""
    return Path(os.environ["DRNMF_DATA"]).joinpath(*parts)


def noise(matrices: int) -> Iterator[Row]:
    """Beta of planted data, of X and of 1000 X."""
    for m, n in ((60, 80), (500, 300)):
        for kind in NOISES:
            for seed in range(matrices):
                X, truth = planted(kind, m, n, seed)
                found = [noise_profile(c * X, 5, held_out=0.0, random_state=0) for c in (1.0, 1000.0)]
                row = {"shape": f"{m}x{n}", "noise": kind, "seed": seed, "truth": round(truth, 3)}
                row |= {"beta": found[0].beta, "beta_1000": found[1].beta, "slope": round(found[0].slope, 3)}
                yield row | {"good": abs(found[0].beta - truth) <= 0.25, "same": found[0].beta == found[1].beta}


def rank(matrices: int) -> Iterator[Row]:
    """Rank and beta of the matrices of rank 5."""
    for kind in ("poisson", "negative_binomial_10"):
        for i, X in enumerate(np.load(data("rank5", f"{kind}.npz"))["X"][:matrices]):
            began = time.perf_counter()
            found = rank_profile(X.astype(np.float64), range(2, 9))
            by = {key: min(found.table, key=lambda row: row[key])["rank"] for key in ("held_out", "bic", "aic")}
            row = {"noise": kind, "matrix": i, "rank": found.best, "beta": found.loss.beta, **by}
            yield row | {"good": found.best == 5, "seconds": round(time.perf_counter() - began, 1)}


def table_of(name: str, labels: int) -> Any:
    """A table of counts without its label columns."""
    rows = list(csv.reader(data("signatures", name).open(encoding="utf-8")))[1:]
    return np.array([[float(value) for value in row[labels:]] for row in rows])


def signatures(matrices: int) -> Iterator[Row]:
    """SBS_set1 Realistic, rank 23 given: mean cosine of the true signatures with those found."""
    X = table_of("SBS_set1.Realistic.catalog.csv", 2)
    truth = table_of("SBS_set1.Realistic.sigs.csv", 2)
    for seed in range(min(matrices, 5)):
        for beta in ("auto", 1):
            model = BetaNMF(23, beta=beta, random_state=seed)  # type: ignore[arg-type]
            cosine = mean_cosine(model.fit_transform(X), truth)
            good = beta == 1 or 0.25 <= model.beta_ <= 0.6  # the cosine is judged by its mean over the seeds
            yield {"seed": seed, "asked": beta, "beta": model.beta_, "cosine": round(cosine, 4), "good": good}


def mean_cosine(found: Any, truth: Any) -> float:
    """Mean cosine of columns, matched one to one."""
    unit, true = (F / np.linalg.norm(F, axis=0) for F in (found, truth))
    cosines = true.T @ unit
    return float(cosines[linear_sum_assignment(-cosines)].mean())


def samson(matrices: int) -> Iterator[Row]:
    """Samson, rank 3 given, losses chosen by the data: mean spectral angle."""
    stored = scipy.io.loadmat(data("hyperspectral", "Samson.mat"))
    Y, truth = np.maximum(stored["Y"].astype(float), 0.0), stored["GT"].T.astype(float)
    for seed in range(min(matrices, 5)):
        model = DRNMF(3, betas="auto", init="random", random_state=seed)  # NNDSVD ends at 0.44 under every loss
        W = model.fit_transform(Y)
        unit, true = (F / np.linalg.norm(F, axis=0) for F in (W, truth))
        angles = np.arccos(np.clip(true.T @ unit, -1.0, 1.0))
        angle = float(angles[linear_sum_assignment(angles)].mean())
        betas = " ".join(f"{beta:.3g}" for beta in model.noise_profile_.interval)
        yield {"seed": seed, "betas": betas, "angle": round(angle, 4), "good": angle <= 0.115}


def cost(matrices: int) -> Iterator[Row]:
    """What C over nine betas costs in passes over X's time, beside one fit with the same tolerance."""
    X = table_of("SBS_set1.Realistic.catalog.csv", 2)
    for seed in range(min(matrices, 3)):
        began = time.perf_counter()
        BetaNMF(23, beta=0.5, random_state=seed).fit(X)
        middle = time.perf_counter()
        noise_profile(X, 23, held_out=0.0, count_models=False, random_state=seed)
        fit, profile = middle - began, time.perf_counter() - middle
        yield {"seed": seed, "fit": round(fit, 2), "profile": round(profile, 2), "good": profile <= 4 * fit}


QUESTIONS = {"noise": noise, "rank": rank, "signatures": signatures, "samson": samson, "cost": cost}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("questions", nargs="+", choices=list(QUESTIONS))
    parser.add_argument("--matrices", type=int, default=100)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for question in given.questions:
        rows = list[Row]()
        with (RESULTS / f"selection-{question}.csv").open("w", newline="", encoding="utf-8") as file:
            for row in QUESTIONS[question](given.matrices):
                writer = csv.DictWriter(file, list(row))
                if not rows:
                    writer.writeheader()
                writer.writerow(row)
                file.flush()
                rows.append(row)
                print(question, *(f"{key}={value}" for key, value in row.items()), flush=True)
        print(f"{question}: {sum(row['good'] for row in rows)} of {len(rows)} good")


if __name__ == "__main__":
    main()
