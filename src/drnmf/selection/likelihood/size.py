r"""The size of a negative binomial at a fit, corrected for what the fit has taken of the noise.

.. math:: 1/a \leftarrow 2/\hat a - \mathrm{mean}(1/a^*)

with a* from draws at (V, a) that are fitted again: a fit follows the noise of its own entries, and leaves too little.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.stats import nbinom

from drnmf.numerics import Vector
from drnmf.selection.likelihood.grid import Grid
from drnmf.selection.likelihood.masses import NegativeBinomialNoise
from drnmf.selection.likelihood.scores import likely_parameters

DRAWS = 3
"""Draws that are fitted again."""


def likely_size(x: Vector, mu: Vector, grid: Grid, weight: Vector | None = None) -> float:
    """Find the size under which entries are most likely, their means given."""
    noise, weights = NegativeBinomialNoise(), np.ones(x.size) if weight is None else weight
    bounds = noise.bounds(x, mu, grid)
    assert bounds is not None
    return likely_parameters(noise.log_mass(x, mu, grid), [weights], bounds)[0]


def corrected_size(size: float, again: Callable[[int], float]) -> float:
    """Correct a size by those of draws.

    Parameters
    ----------
    size : found at the fit
    again : draws once more with a seed, fits, and returns the size found there

    Examples
    --------
    >>> round(corrected_size(3.0, lambda seed: 4.5), 12)
    2.25
    """
    inverse = 2.0 / size - float(np.mean([1.0 / again(seed) for seed in range(DRAWS)]))
    return 1.0 / inverse if inverse > 1e-5 / size else 1e5 * size


def drawn(V: Vector, size: float, unit: float, seed: int) -> Vector:
    """Draw entries with means V; what is NaN stays so."""
    # by quantiles: what V rounds to must not change which numbers other entries are drawn from
    quantiles, a = np.random.default_rng(seed).random(V.shape), size / unit
    return np.where(np.isnan(V), math.nan, unit * nbinom.ppf(quantiles, a, a / (a + np.nan_to_num(V) / unit)))
