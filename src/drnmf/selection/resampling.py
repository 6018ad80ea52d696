"""X as it could have come out: the same experiment again, from the one matrix there is."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.parameters.checks import check_choice

RESAMPLINGS = ("poisson", "bootstrap")
_LARGEST = 1e18
"""Largest mean that the Poisson generator takes."""


def resampled(X: Any, how: str, seed: int) -> Any:
    """Draw another X from a seed.

    Parameters
    ----------
    X : array or SciPy sparse matrix of shape (m, n)
    how : "poisson" - counts with X as their mean; "bootstrap" - m rows of X drawn with replacement
    seed : int

    Returns
    -------
    drawn : like X

    Examples
    --------
    >>> resampled(np.array([[0.0, 4.0]]), "bootstrap", 0).tolist()
    [[0.0, 4.0]]
    """
    check_choice("resample", how, RESAMPLINGS)
    rng = np.random.default_rng(seed)
    if how == "bootstrap":
        return X[rng.integers(X.shape[0], size=X.shape[0])]
    entries = X.data if sp.issparse(X) else X
    missing = np.isnan(entries)
    means = np.where(missing, 0.0, entries)
    if not bool((means == np.floor(means)).all()) or float(means.max(initial=0.0)) > _LARGEST:
        raise ValueError('resample="poisson" draws counts, but X holds other numbers: use "bootstrap" or None.')
    drawn = np.where(missing, np.nan, rng.poisson(means)).astype(entries.dtype)
    if not sp.issparse(X):
        return drawn
    again = X.copy()
    again.data = drawn
    return again
