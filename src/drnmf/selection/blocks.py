"""Bi-cross-validation (Owen and Perry 2009): a block of rows and columns is predicted from the rest of X."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.algorithms.initialize import start
from drnmf.backends.base import Data, in_unit
from drnmf.backends.open import open_data
from drnmf.numerics import Vector
from drnmf.objective.objective import Objective
from drnmf.problem.device import as_numpy, is_tensor
from drnmf.problem.problem import Problem
from drnmf.problem.units import Units, losses_at
from drnmf.selection.entries import Facts, total
from drnmf.selection.likelihood import Candidate
from drnmf.selection.walk import Walk
from drnmf.solve.encode import encode
from drnmf.solve.runner import Runner

PARTS = 2
"""Parts of the rows and of the columns; every pair of parts is held out once."""

ENCODE_ITERATIONS = 300
"""Steps of the factors of the held-out rows and columns."""


def bi_cross_validation(
    X: Any, facts: Facts, candidate: Candidate, rank: int, runner: Runner, rng: np.random.RandomState
) -> float:
    """Compute the mean score of the entries of X, each block predicted from the rows and columns outside of it.

    Parameters
    ----------
    X : on the host: an array, a sparse matrix or a tensor
    facts : what is known of its entries
    candidate : the loss
    rank, runner : of the fits
    rng : draws the parts and the starts
    """
    X = as_numpy(X) if is_tensor(X) else X.compute() if hasattr(X, "compute") else X
    X = sp.csr_array(X) if sp.issparse(X) else X
    rows, columns = (np.array_split(rng.permutation(size), PARTS) for size in X.shape)
    scores = [_block(X, facts, candidate, rank, runner, rng, I, J) for I in rows for J in columns]
    return float(np.sum(scores)) / facts.count


def _block(
    X: Any, facts: Facts, candidate: Candidate, rank: int, runner: Runner, rng: np.random.RandomState, rows: Vector,
    columns: Vector,
) -> float:  # fmt: skip
    """Sum the scores of one block."""
    other_rows, other_columns = (np.setdiff1d(np.arange(s), k) for s, k in zip(X.shape, (rows, columns), strict=True))
    part = _part(X, other_rows, other_columns)
    rank = min(rank, *part.shape)
    walk = Walk(Problem.of(in_unit(open_data(part)), rank, (candidate.loss,)), runner)
    kept = walk.data
    run = walk.first(candidate.loss, [start(kept, rank, "random", rng)])
    W = _encoded(in_unit(open_data(_part(X, rows, other_columns), mean=kept.mean)), run.H, candidate)
    H = _encoded(in_unit(open_data(_part(X, other_rows, columns), mean=kept.mean)).T, run.W.T, candidate).T
    block = _part(X, rows, columns)
    data = in_unit(open_data(block, mean=kept.mean))
    loss = float(losses_at(data, W, np.ascontiguousarray(H), (candidate.loss,))[0])
    m, n = kept.shape
    free = m * n - rank * (m + n - rank)
    phi = 2.0 * float(run.losses[0]) / (free if free > 0 else m * n)
    fixed = Candidate(candidate.loss, candidate.dispersion or max(phi, np.finfo(np.float64).tiny))
    half_log = float(total(block, lambda x: np.array([candidate.half_log_variance(x).sum()]), facts.zero)[0])
    zeros = block.shape[0] * block.shape[1] - (block.nnz if sp.issparse(block) else np.count_nonzero(block))
    count = block.shape[0] * block.shape[1] - (0 if facts.unit is not None else zeros)
    return fixed.criterion(loss, count, half_log)


def _part(X: Any, rows: Vector, columns: Vector) -> Any:
    part = X[rows][:, columns]
    return part if sp.issparse(part) else np.ascontiguousarray(part)


def _encoded(data: Data, H: Any, candidate: Candidate) -> Any:
    """W of rows under H, both in the units of the caller."""
    units = Units(data.scale)
    objective = Objective(units.omega((candidate.loss,)), np.ones(1), data.mean)
    return (
        encode(data, np.ascontiguousarray(H * units.right), objective, np.ones(1), ENCODE_ITERATIONS, 1e-6) / units.left
    )
