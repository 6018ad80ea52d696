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

from drnmf.apps.audio.notes import listen, recording_onsets
from drnmf.apps.paper import mary_figure, paper
from drnmf.losses.beta import KL
from drnmf.numerics import Vector
from drnmf.synthetic import planted, planted_factors

NOISES = ("gaussian", "poisson", "gamma", "negative binomial")


@dataclass(frozen=True)
class Task:
    """X, the rank that is given, and the distance of W and H from the truth: 0 is best."""

    X: Any
    rank: int
    distance: Callable[[Vector, Vector], float]


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


def unforeseen(W: Vector, H: Vector, X: Vector, where: Any = True) -> float:
    """Compute the Kullback-Leibler divergence, for each count, of entries that the fit has not seen.

    Whatever the noise, its expectation is smallest at the noise-free mean, and the rest is a constant of the noise:
    differences between methods are differences of their distances to that mean.

    >>> unforeseen(np.ones((2, 1)), np.ones((1, 2)), np.ones((2, 2)))
    0.0
    """
    seen = np.broadcast_to(where, X.shape)
    return float(KL.terms(X[seen], np.maximum(W @ H, np.finfo(np.float64).tiny)[seen]).sum() / X[seen].sum())


def wrong_notes(W: Vector, H: Vector, rate: int, times: Vector) -> float:
    """Compute how many onsets are missed or made up, for each onset of the score of piano_Mary."""
    frame, score = mary_figure.WINDOW / 2 / rate, paper.MARY_SCORE
    heard = listen(W, H, rate / mary_figure.WINDOW, frame, score, times, paper.MARY_NOTES)
    return (len(score) - heard.found + heard.false) / len(score)


def _of_W(measure: Callable[[Vector, Any], float], truth: Any) -> Callable[[Vector, Vector], float]:
    """Measure W alone."""
    return lambda W, H: measure(W, truth)


def _unit(F: Vector) -> Vector:
    return F / np.maximum(np.linalg.norm(F, axis=0), np.finfo(np.float64).tiny)


def _planted(noise: str, folder: Path | None, seed: int, quick: bool) -> Task:
    shape = (60, 80) if quick else (200, 150)
    X, _ = planted(noise, *shape, seed=seed)
    W, _ = planted_factors(*shape, seed=seed, rank=5)
    return Task(X, 5, _of_W(matched_cosine, W))


def _table(path: Path, labels: int) -> Vector:
    """Read a table of numbers (commas, or tabs in .tsv) without its label columns."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ","))[1:]
    return np.array([[float(value) for value in row[labels:]] for row in rows])


def _signatures(name: str, labels: int, folder: Path | None, seed: int, quick: bool) -> Task:
    assert folder is not None
    X, truth = (_table(folder / "signatures" / f"{name}.{part}.csv", labels) for part in ("catalog", "sigs"))
    return Task(X[:, ::4] if quick else X, truth.shape[1], _of_W(matched_cosine, truth))


def _liver(name: str, other: str, folder: Path | None, seed: int, quick: bool) -> Task:
    """One truth in several noises: the fit of one table foresees another."""
    assert folder is not None
    X, again = (_table(folder / "signatures" / LIVER.format(part), 1) for part in (name, other))
    some = slice(None, None, 2 if quick else 1)
    return Task(np.ascontiguousarray(X[:, some]), LIVER_RANK, partial(unforeseen, X=again[:, some]))


def _rank5(name: str, folder: Path | None, seed: int, quick: bool) -> Task:
    """The matrix of this number, a tenth of its entries left out."""
    assert folder is not None
    X = np.load(folder / "rank5" / f"{name}.npz")["X"][seed].astype(np.float64)
    hidden = np.random.default_rng(seed).random(X.shape) < 0.1
    return Task(np.where(hidden, np.nan, X), 5, partial(unforeseen, X=X, where=hidden))


def _mary(folder: Path | None, seed: int, quick: bool) -> Task:
    """A piano whose score is known: three notes and the hammer."""
    assert folder is not None
    X, rate = mary_figure.clean(folder / MARY)
    times = recording_onsets(X, len(paper.MARY_SCORE), mary_figure.WINDOW / 2 / rate)
    return Task(X, mary_figure.STUDIES["clean"].rank, partial(wrong_notes, rate=rate, times=times))


def _samson(folder: Path | None, seed: int, quick: bool) -> Task:
    assert folder is not None
    stored = scipy.io.loadmat(folder / "hyperspectral" / "Samson.mat")
    X, truth = np.maximum(stored["Y"].astype(np.float64), 0.0), stored["GT"].T.astype(np.float64)
    return Task(np.ascontiguousarray(X[:, ::29] if quick else X), 3, _of_W(matched_angle, truth))


def _raman(folder: Path | None, seed: int, quick: bool) -> Task:
    assert folder is not None
    stored = scipy.io.loadmat(folder / "hyperspectral" / "RamanSMCR.mat")
    W, H = stored["W"][:: 20 if quick else 2].astype(np.float64), stored["H"].astype(np.float64)
    V = np.maximum(W, 0.0) @ np.maximum(H, 0.0)
    V = 25.0 * V / V.mean()
    X = np.random.default_rng(seed).poisson(V).astype(np.float64)
    return Task(X, W.shape[1], _of_W(matched_cosine, W))


def _words(folder: Path | None, seed: int, quick: bool) -> Task:
    assert folder is not None
    X = sp.csr_array(sp.load_npz(folder / "documents" / "tr23.npz")).toarray().astype(np.float64)
    labels = np.load(folder / "documents" / "tr23.labels.npy", allow_pickle=False).astype(np.int64)
    common = np.argsort(-X.sum(axis=0), kind="stable")[: 300 if quick else 2000]
    return Task(np.ascontiguousarray(X[:, np.sort(common)]), int(labels.max()) + 1, _of_W(misplaced, labels))


COSINE, ANGLE, SHARE = "1 - cosine", "angle", "misplaced"
DRAW, ENTRIES, NOTES = "KL, another draw", "KL, entries left out", "wrong notes"
MARY = f"audio/{mary_figure.RECORDING}.wav"
LIVER = "liver-326{}.tsv"
LIVER_RANK = 11
"""What `rank_profile` finds in liver-326 itself (Kullback-Leibler); the number of its components is not told."""
_LIVERS = {"overdispersed": "-overdispersed-2.0", "contaminated": "-contamination-2", "perturbed": "-perturbed-0.0025"}
_SIGNATURES = "signatures/{}.Realistic.sigs.csv"

PROBLEMS = (
    *(Problem(f"planted, {noise}", COSINE, None, partial(_planted, noise)) for noise in NOISES),
    *(
        Problem(f"rank5, {name.split('_10')[0].replace('_', ' ')}", ENTRIES, f"rank5/{name}.npz", partial(_rank5, name))
        for name in ("poisson", "negative_binomial_10")
    ),
    Problem("liver, Poisson", DRAW, f"signatures/{LIVER.format('')}", partial(_liver, "", _LIVERS["overdispersed"])),
    *(
        Problem(f"liver, {noise}", DRAW, f"signatures/{LIVER.format(part)}", partial(_liver, part, ""))
        for noise, part in _LIVERS.items()
    ),
    Problem("piano_Mary", NOTES, MARY, _mary),
    Problem("Raman, Poisson noise", COSINE, "hyperspectral/RamanSMCR.mat", _raman),
    Problem("Samson", ANGLE, "hyperspectral/Samson.mat", _samson),
    Problem("tr23, words", SHARE, "documents/tr23.npz", _words),
    Problem("indel_set1", COSINE, _SIGNATURES.format("indel_set1"), partial(_signatures, "indel_set1.Realistic", 4)),
    Problem("SBS_set1", COSINE, _SIGNATURES.format("SBS_set1"), partial(_signatures, "SBS_set1.Realistic", 2)),
)
