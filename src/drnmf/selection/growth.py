"""One component more for a stream: found in what rows leave over, taken where rows not seen ask for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

from drnmf.algorithms.updates.steps import ratio_step
from drnmf.backends.base import Ask, Data
from drnmf.backends.open import open_data
from drnmf.losses.base import Loss
from drnmf.numerics import Array, Entries, Vector, factor_floor
from drnmf.objective.objective import Objective
from drnmf.selection.entries import facts_of
from drnmf.selection.folds import Fold
from drnmf.selection.likelihood.masses import noise_for
from drnmf.selection.likelihood.scores import GAIN, Chosen, Scores, joined, paired
from drnmf.solve.encode import Encoding

HELD, RECENT = 8, 512
"""Of every so many rows one is held out, and so many of the last that were are kept."""

FOLDS = 3
"""Groups of columns, each predicted from W that the others give."""

ROUNDS, ENCODED = 4, 9
"""Rounds of fitting a new component, and sweeps for W of held-out rows."""

DIRECTED, RARE = 12, 1e-3
"""Rounds of finding its direction, and the mean of a row, in that of X, below which all count alike."""


@dataclass(frozen=True)
class Growth:
    """A component that was added."""

    rows: int  # that the stream had seen
    # gain, error: of the mean log-likelihood of an entry that was held out, and the standard error of that difference
    gain: float
    error: float
    cosine: float  # the smallest between a component before and after the batch that added one


def leftover(data: Data, X: Entries, Wt: Array, H: Array, loss: Loss) -> Array | None:
    """Find a component (n,) for what WH leaves of X: the leading nonnegative one of X - WH, then fitted beside H.

    Rows count by the noise that the loss expects of their size, so that one heavy row is no component; and what is
    below WH counts against what is above it, or frequent columns would be the leading ones by their noise alone. None
    where nothing is left. The rows come in their backend and as a matrix, both in the unit of the stream.
    """
    if sp.issparse(X):
        left = aslinearoperator(X) - aslinearoperator(Wt.T) @ aslinearoperator(H)
    else:
        left = np.nan_to_num(X - Wt.T @ H)
    sizes = np.maximum(H.mean(axis=1) @ Wt, RARE * data.mean)
    w = even = np.sqrt(loss.curvature(sizes, sizes))
    for _ in range(DIRECTED):
        h = np.maximum(left.T @ (even * w), 0.0)
        if not (most := float(h.max())) > 0.0:
            return None
        w = even * np.maximum(left @ (h / most), 0.0)
        w = w / max(float(w.max()), np.finfo(np.float64).tiny)
    objective, floor = Objective((loss,), np.ones(1), data.mean), factor_floor(data.mean, len(H) + 1)
    new = np.maximum(h / most * (H.sum() / len(H) / float((h / most).sum())), floor)
    grown = np.concatenate([H, new[None]]).astype(data.dtype)
    for _ in range(ROUNDS):
        A = Encoding(grown, objective, np.ones(1), ENCODED, 0.0).of(data).T
        sweep = data.space.read(data.sweep(A.T, grown, Ask((loss,), losses=False)))[0]
        grown[-1:] = ratio_step(grown[-1:], sweep.N[0][-1:], sweep.P[0][-1:], floor)
    return grown[-1]


def gain_of(held: Entries, H: Array, new: Array, loss: Loss, mean: float) -> tuple[float, float]:
    """Compute how much likelier entries of held-out rows are with one component more, and its standard error."""
    grid, n = facts_of(held).grid, held.shape[1]
    scores: list[list[Scores]] = [[], []]
    objective = Objective((loss,), np.ones(1), mean)
    for first in range(min(FOLDS, n)):
        fold = np.arange(first, n, FOLDS)
        others = np.setdiff1d(np.arange(n), fold)
        data, cell = open_data(held[:, others], mean=mean), Fold(held[:, fold], grid, None)
        for kept, F in zip(scores, (H, np.concatenate([H, new[None]])), strict=True):
            F = F.astype(data.dtype)
            W = Encoding(np.ascontiguousarray(F[:, others]), objective, np.ones(1), ENCODED, 0.0).of(data)
            score = cell.score(noise_for(loss), (W, F[:, fold]))
            kept.append(score)
    return _paired(scores[1], scores[0])


def _paired(better: list[Scores], worse: list[Scores]) -> tuple[float, float]:
    """Compare scores of groups of columns: rows are common to all of them, columns are each group's own."""
    pairs = [paired(a, b) for a, b in zip(better, worse, strict=True)]
    weights = np.array([float(one.row_weights.sum()) for one in better])
    weights = weights / max(float(weights.sum()), np.finfo(np.float64).tiny)
    rows = [_by_rows(scores) for scores in (better, worse)]
    mean, error = paired(*rows)
    columns = float(np.sqrt(((weights * np.array([e for _, e in pairs])) ** 2).sum()))
    return mean, max(error, columns)


def _by_rows(scores: list[Scores]) -> Scores:
    """Put scores of groups of columns together by their rows."""
    return joined([replace(one, columns=one.rows, column_weights=one.row_weights) for one in scores])


def asked_for(gain: float, error: float) -> bool:
    """Tell whether a gain is worth a component: two standard errors."""
    return gain > GAIN * error


def held_rows(rows: int, before: int) -> Chosen:
    """Say which rows of a batch are held out, bool (rows,): every eighth of the stream."""
    return (np.arange(before, before + rows) % HELD) == HELD - 1


def smallest_cosine(before: Vector, after: Vector) -> float:
    """Compute the smallest cosine between components and what became of them."""
    size = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    return float(np.min((before * after).sum(1) / np.maximum(size, np.finfo(np.float64).tiny)))
