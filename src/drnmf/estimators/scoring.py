"""A score that compares ranks and losses: every column of new rows predicted from the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from drnmf.backends.base import Data
from drnmf.backends.host.single_blas import single_blas
from drnmf.losses.base import Omega
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.numerics import Vector
from drnmf.problem.problem import floors_at
from drnmf.problem.units import losses_at
from drnmf.selection.entries import facts_of
from drnmf.selection.likelihood import Candidate, half_log_sums
from drnmf.solve.encode import Encoder

FOLDS = 5
"""Groups of columns, each predicted from W of the others."""


def dispersions(data: Data, losses: Vector, omega: Omega, rank: int) -> Vector:
    """Estimate phi of every loss from a fit, 2 D / (N - r (m + n - r)), with N where nothing would be left."""
    m, n = data.shape
    free = data.count - rank * (m + n - rank)
    return 2.0 * np.maximum(losses, floors_at(data, omega)) / (free if free > 0 else data.count)


def column_folds(n: int) -> list[Any]:
    """Split columns into groups, every FOLDS-th in one; one column alone cannot be held out."""
    return [np.arange(first, n, FOLDS) for first in range(min(FOLDS, n))] if n > 1 else []


def predicted_losses(n: int, open_columns: Callable[[Any], Data], encoder: Encoder) -> Vector:
    """Add up D over all columns of X, each under the W that the columns of the other groups give.

    Parameters
    ----------
    n : how many columns
    open_columns : puts some columns of X behind a backend
    encoder : what finds W

    Returns
    -------
    losses : (p,)
    """
    sums = np.zeros(1)
    for fold in column_folds(n) or [np.arange(n)]:
        others = np.setdiff1d(np.arange(n), fold) if n > 1 else fold
        known, asked = encoder.of_columns(others), encoder.of_columns(fold)
        rest = open_columns(others)
        found = known.rows(rest)
        # brought here, because W of a Dask array lives in the blocks of the columns that it was found from
        W = found if rest.T.space.whole else rest.T.space.get(found.T).T
        data = open_columns(fold)
        with single_blas():
            sums = sums + losses_at(data, W, asked.components, asked.objective.omega)
    return sums


def mean_log_likelihood(X: Any, omega: Omega, losses: Vector, phi: Vector) -> float:
    """Compute the mean logarithm of the density of an entry, that of the loss that suits X best, up to a constant."""
    facts = facts_of(X)
    listed = [
        Candidate(loss, (facts.unit or 1.0) if isinstance(loss, NegativeBinomial) else float(fitted))
        for loss, fitted in zip(omega, phi, strict=True)
    ]
    sums = half_log_sums(X, facts, listed)
    scores = [c.criterion(d, facts.effective, s) for c, d, s in zip(listed, losses, sums, strict=True)]
    return -float(min(scores)) / max(facts.count, 1)
