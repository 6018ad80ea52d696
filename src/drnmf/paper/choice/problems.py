"""Data whose truth is known, and how far a factorisation is from it."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from drnmf.numerics import Vector
from drnmf.synthetic import planted, planted_factors

NOISES = ("gaussian", "poisson", "gamma", "negative binomial")


@dataclass(frozen=True)
class Task:
    """X, the rank that is given, and the distance of W (of X) from the truth: 0 is best."""

    X: Any
    rank: int
    distance: Callable[[Vector], float]


@dataclass(frozen=True)
class Problem:
    """A data set of the study.

    Attributes
    ----------
    name : in the table
    measure : what its distance is
    file : below the data folder, None where the data are drawn
    load : folder, seed, quick -> the task
    """

    name: str
    measure: str
    file: str | None
    load: Callable[[Path | None, int, bool], Task]


def matched_cosine(W: Vector, truth: Vector) -> float:
    """Compute one minus the mean cosine of the true columns with those found, matched one to one."""
    cosines = _unit(truth).T @ _unit(W)
    return 1.0 - float(cosines[linear_sum_assignment(-cosines)].mean())


def matched_angle(W: Vector, truth: Vector) -> float:
    """Compute the mean angle (radians) of the true columns with those found, matched one to one."""
    angles = np.arccos(np.clip(_unit(truth).T @ _unit(W), -1.0, 1.0))
    return float(angles[linear_sum_assignment(angles)].mean())


def misplaced(W: Vector, labels: Any) -> float:
    """Compute the share of rows whose largest component is not the one matched with their class.

    >>> misplaced(np.array([[0.0, 2.0], [0.0, 1.0], [3.0, 1.0]]), np.array([0, 0, 1]))
    0.0
    """
    counts = np.zeros((int(labels.max()) + 1, W.shape[1]))
    np.add.at(counts, (labels, np.argmax(W, axis=1)), 1.0)
    return 1.0 - float(counts[linear_sum_assignment(-counts)].sum()) / labels.size


def _unit(F: Vector) -> Vector:
    return F / np.maximum(np.linalg.norm(F, axis=0), np.finfo(np.float64).tiny)


def _planted(noise: str, folder: Path | None, seed: int, quick: bool) -> Task:
    shape = (60, 80) if quick else (200, 150)
    X, _ = planted(noise, *shape, seed=seed)
    W, _ = planted_factors(*shape, seed=seed, rank=5)
    return Task(X, 5, partial(matched_cosine, truth=W))


def _table(path: Path, labels: int) -> Vector:
    """Read a table of numbers without its label columns."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    return np.array([[float(value) for value in row[labels:]] for row in rows])


def _signatures(name: str, labels: int, folder: Path | None, seed: int, quick: bool) -> Task:
    assert folder is not None
    X, truth = (_table(folder / "signatures" / f"{name}.{part}.csv", labels) for part in ("catalog", "sigs"))
    return Task(X[:, ::4] if quick else X, truth.shape[1], partial(matched_cosine, truth=truth))


def _samson(folder: Path | None, seed: int, quick: bool) -> Task:
    assert folder is not None
    stored = scipy.io.loadmat(folder / "hyperspectral" / "Samson.mat")
    X, truth = np.maximum(stored["Y"].astype(np.float64), 0.0), stored["GT"].T.astype(np.float64)
    return Task(np.ascontiguousarray(X[:, ::29] if quick else X), 3, partial(matched_angle, truth=truth))


def _raman(folder: Path | None, seed: int, quick: bool) -> Task:
    assert folder is not None
    stored = scipy.io.loadmat(folder / "hyperspectral" / "RamanSMCR.mat")
    W, H = stored["W"][:: 20 if quick else 2].astype(np.float64), stored["H"].astype(np.float64)
    V = np.maximum(W, 0.0) @ np.maximum(H, 0.0)
    V = 25.0 * V / V.mean()
    X = np.random.default_rng(seed).poisson(V).astype(np.float64)
    return Task(X, W.shape[1], partial(matched_cosine, truth=W))


def _words(folder: Path | None, seed: int, quick: bool) -> Task:
    assert folder is not None
    X = sp.csr_array(sp.load_npz(folder / "documents" / "tr23.npz")).toarray().astype(np.float64)
    labels = np.load(folder / "documents" / "tr23.labels.npy", allow_pickle=False).astype(np.int64)
    common = np.argsort(-X.sum(axis=0), kind="stable")[: 300 if quick else 2000]
    return Task(np.ascontiguousarray(X[:, np.sort(common)]), int(labels.max()) + 1, partial(misplaced, labels=labels))


COSINE, ANGLE, SHARE = "1 - cosine", "angle", "misplaced"
_SIGNATURES = "signatures/{}.Realistic.sigs.csv"

PROBLEMS = (
    *(Problem(f"planted, {noise}", COSINE, None, partial(_planted, noise)) for noise in NOISES),
    Problem("Raman, Poisson noise", COSINE, "hyperspectral/RamanSMCR.mat", _raman),
    Problem("Samson", ANGLE, "hyperspectral/Samson.mat", _samson),
    Problem("tr23, words", SHARE, "documents/tr23.npz", _words),
    Problem("indel_set1", COSINE, _SIGNATURES.format("indel_set1"), partial(_signatures, "indel_set1.Realistic", 4)),
    Problem("SBS_set1", COSINE, _SIGNATURES.format("SBS_set1"), partial(_signatures, "SBS_set1.Realistic", 2)),
)
