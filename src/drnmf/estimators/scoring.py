"""A score that compares ranks and losses: every column of new rows predicted from the others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from drnmf.backends.base import Data
from drnmf.backends.observed import HeldOut
from drnmf.losses.base import Omega
from drnmf.numerics import Indices
from drnmf.problem.device import as_numpy
from drnmf.problem.receive import Received
from drnmf.selection.entries import counted, facts_of
from drnmf.selection.folds import Fold
from drnmf.selection.likelihood.masses import noise_for
from drnmf.selection.likelihood.scores import Scores
from drnmf.solve.encode import Encoder

FOLDS = 5
"""Groups of columns, every FOLDS-th in one, each predicted from W of the others."""


def predicted_score(
    given: Received, open_columns: Callable[[Indices], Data], encoder: Encoder, omega: Omega, known: bool
) -> float:
    """Compute the mean log-mass of the entries of X, each column predicted from W that the others give.

    `open_columns` puts some columns of X behind a backend; of several losses the one whose noise suits X best counts;
    `known` says that weights are those of uncertainties.
    """
    grid, n = facts_of(counted(given)).grid, given.X.shape[1]
    scores = list[list[Scores]]([[] for _ in omega])
    # one column alone cannot be held out
    for fold in [np.arange(first, n, FOLDS) for first in range(min(FOLDS, n))] if n > 1 else [np.arange(n)]:
        others = np.setdiff1d(np.arange(n), fold) if n > 1 else fold
        asked, rest = encoder.of_columns(fold), open_columns(others)
        found = encoder.of_columns(others).rows(rest)
        # brought here, because W of a Dask array lives in the blocks of the columns that it was found from
        W = as_numpy(found if rest.T.space.whole else rest.T.space.get(found.T).T)
        part = given.columns(fold)
        assert not isinstance(part.observed, HeldOut)
        cell = Fold(part.X, grid, None, part.observed, known)
        for kept, loss in zip(scores, omega, strict=True):
            kept.append(cell.score(noise_for(loss), (W, asked.components)))
    sums = [(sum(one.rows.sum() for one in kept), sum(one.row_weights.sum() for one in kept)) for kept in scores]
    return float(max(total / max(weight, np.finfo(np.float64).tiny) for total, weight in sums))
