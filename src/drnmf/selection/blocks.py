"""Bi-cross-validation (Owen and Perry 2009): a block of rows and columns is predicted from the rest of X."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.algorithms.initialize import start
from drnmf.backends.base import Data, in_unit
from drnmf.backends.open import open_data
from drnmf.losses.base import Loss
from drnmf.numerics import Vector
from drnmf.objective.objective import Objective
from drnmf.problem.device import as_numpy, is_tensor
from drnmf.problem.problem import Problem
from drnmf.problem.units import Units
from drnmf.selection.entries import Facts
from drnmf.selection.folds import Fold
from drnmf.selection.likelihood.masses import noise_for
from drnmf.selection.likelihood.scores import Scores, joined
from drnmf.selection.warm_starts import Walk
from drnmf.solve.encode import encode
from drnmf.solve.runner import Runner

PARTS = 2
"""Parts of the rows and of the columns; every pair of parts is held out once."""

ENCODE_ITERATIONS = 300
"""Steps of the factors of the held-out rows and columns."""


def bi_cross_validation(
    X: Any, facts: Facts, loss: Loss, rank: int, runner: Runner, rng: np.random.RandomState
) -> float:
    """Compute minus the mean log-mass of the entries, each block predicted from the rows and columns outside of it.

    Parameters
    ----------
    X : on the host: an array, a sparse matrix or a tensor
    facts : what is known of its entries
    loss : what is fitted, and scored by its noise
    rank, runner : of the fits
    rng : draws the parts and the starts
    """
    X = as_numpy(X) if is_tensor(X) else X.compute() if hasattr(X, "compute") else X
    X = sp.csr_array(X) if sp.issparse(X) else X
    rows, columns = (np.array_split(rng.permutation(size), PARTS) for size in X.shape)
    scores = [_block(X, facts, loss, rank, runner, rng, I, J) for I in rows for J in columns]
    return -joined(scores).mean


def _block(
    X: Any, facts: Facts, loss: Loss, rank: int, runner: Runner, rng: np.random.RandomState, rows: Vector,
    columns: Vector,
) -> Scores:  # fmt: skip
    """Score the entries of one block."""
    other_rows, other_columns = (np.setdiff1d(np.arange(s), k) for s, k in zip(X.shape, (rows, columns), strict=True))
    part = _part(X, other_rows, other_columns)
    rank = min(rank, *part.shape)
    walk = Walk(Problem.of(in_unit(open_data(part)), rank, (loss,)), runner)
    kept = walk.data
    run = walk.first(loss, [start(kept, rank, "random", rng)])
    W = _encoded(in_unit(open_data(_part(X, rows, other_columns), mean=kept.mean)), run.H, loss)
    H = _encoded(in_unit(open_data(_part(X, other_rows, columns), mean=kept.mean)).T, run.W.T, loss).T
    block = _part(X, rows, columns)
    scores = Fold(block, facts.grid, None).score(noise_for(loss), (W, np.ascontiguousarray(H)))
    sides = [np.zeros(size) for size in X.shape * 2]
    for whole, part, at in zip(
        sides, (scores.rows, scores.columns, scores.row_weights, scores.column_weights), (rows, columns) * 2,
        strict=True,
    ):  # fmt: skip
        whole[at] = part
    return Scores(sides[0], sides[1], sides[2], sides[3])


def _part(X: Any, rows: Vector, columns: Vector) -> Any:
    part = X[rows][:, columns]
    return part if sp.issparse(part) else np.ascontiguousarray(part)


def _encoded(data: Data, H: Any, loss: Loss) -> Any:
    """W of rows under H, both in the units of the caller."""
    units = Units(data.scale)
    objective = Objective(units.omega((loss,)), np.ones(1), data.mean)
    return (
        encode(data, np.ascontiguousarray(H * units.right), objective, np.ones(1), ENCODE_ITERATIONS, 1e-6) / units.left
    )
