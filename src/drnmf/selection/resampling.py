"""What a run sees of X: the same experiment again, from the one matrix there is, and rows that must not rule.

Rows may be much heavier than the others: hypermutated samples, deep libraries.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from drnmf.backends.base import Observed
from drnmf.backends.observed import HeldOut
from drnmf.losses.base import Omega
from drnmf.losses.beta import KL
from drnmf.losses.interval import Interval
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.numerics import Entries, Vector
from drnmf.parameters.fields import check_choice
from drnmf.problem.receive import Received
from drnmf.selection.entries import facts_of, pieces

POISSON, BOOTSTRAP = "poisson", "bootstrap"
RESAMPLINGS = (POISSON, BOOTSTRAP)
UNCERTAINTY = "uncertainty"
"""X drawn again by the uncertainties of its entries, which are weights 1 / uncertainty^2."""
HEAVY = 10.0
"""A capped row weighs at most this many times the median row."""
FEW = 1000.0
"""Units up to which the median positive entry may be a count; above, other errors are larger than that of counting."""
_LARGEST = 1e18
"""Largest mean that the Poisson generator takes."""


def resampling_for(received: Received, losses: Omega | Interval, counts: bool | None, said: bool | None) -> str | None:
    """Choose what each run sees, by what is known of counts: from the user (`counts`), the noise (`said`) or the loss.

    Entries on a grid under a loss of counts are drawn as counts, whether the loss was given or found: among rows drawn
    anew a component of few rows is absent from many runs. Where a user gave it (`said` is None) nothing but whole
    numbers says so; where the noise asked for it X may be in any unit, as long as its entries are few of them (`FEW`).
    """
    if received.known:
        return UNCERTAINTY
    unit = facts_of(received.X).unit
    if unit is not None:
        few = unit == 1.0 if said is None else _middle(received.X) <= FEW * unit
        if (said or (few and _of_counts(losses))) if counts is None else counts:
            return POISSON
    return None if received.observed is not None else BOOTSTRAP


def _middle(X: Entries) -> float:
    return float(np.median(np.concatenate([values[values > 0] for values, _ in pieces(X)])))


def _of_counts(losses: Omega | Interval) -> bool:
    """Tell whether losses that were given are those of counts."""
    if isinstance(losses, Interval):
        return losses.low <= 1.0 <= losses.high
    return any(loss == KL or isinstance(loss, NegativeBinomial) for loss in losses)


def seen_by_run(received: Received, how: str | None, factors: Vector | None, seed: int) -> Entries:
    """Return what a run sees of X: entries drawn again, rows scaled down by factors, then counts or rows drawn again.

    `how` is "uncertainty", "poisson", "bootstrap", or None for X itself.
    """
    assert not isinstance(received.observed, HeldOut)
    X = redrawn(received.X, received.observed, seed) if how == UNCERTAINTY else received.X
    X = X if factors is None else scaled_rows(X, factors)
    unit = facts_of(received.X).unit if how == POISSON else None
    return resampled(X, how, seed, unit or 1.0) if how in RESAMPLINGS else X


def resampled(X: Entries, how: str, seed: int, unit: float = 1.0) -> Entries:
    """Draw another X from a seed: "poisson", counts with X as their mean, or "bootstrap", rows of X with replacement.

    Counts are multiples of a unit, and only their number is drawn.

    >>> resampled(np.array([[0.0, 4.0]]), "bootstrap", 0).tolist()
    [[0.0, 4.0]]
    """
    check_choice("resample", how, RESAMPLINGS)
    rng = np.random.default_rng(seed)
    if how == "bootstrap":
        return X[rng.integers(X.shape[0], size=X.shape[0])]
    entries = X.data if sp.issparse(X) else X
    missing = np.isnan(entries)
    means = np.where(missing, 0.0, entries) / unit
    if unit == 1.0:
        check_whole(means)
    drawn = np.where(missing, np.nan, unit * rng.poisson(means)).astype(entries.dtype)
    if not sp.issparse(X):
        return drawn
    again = X.copy()
    again.data = drawn
    return again


def check_whole(X: Entries) -> None:
    """Refuse to draw counts where entries are no whole numbers; NaN is not observed."""
    for values, _ in pieces(X):
        seen = values[np.isfinite(values)]
        if bool(((seen != np.floor(seen)) | (seen < 0)).any()) or float(seen.max(initial=0.0)) > _LARGEST:
            raise ValueError('resample="poisson" draws counts, but X holds other numbers: use "bootstrap" or None.')


def redrawn(X: Entries, observed: Observed | None, seed: int) -> Entries:
    """Draw X + U z with z normal, cut off at zero unless X goes below it; U = 1 / sqrt(weight), none without weight.

    Of a sparse X what is stored is drawn.

    >>> from drnmf.backends.observed import Entries
    >>> redrawn(np.full((1, 2), 5.0), Entries(np.array([[1e16, 0.0]])), 0).round(6).tolist()
    [[5.0, 5.0]]
    """
    entries = sp.csr_array(X, copy=True) if sp.issparse(X) else X
    weights = np.ones(1) if observed is None else np.asarray(observed.tile(slice(0, X.shape[1])), dtype=np.float64)
    if sp.issparse(X):
        places = entries.tocoo()
        weights = np.broadcast_to(weights, X.shape)[places.row, places.col]
    values = entries.data if sp.issparse(X) else entries
    deviation = np.divide(1.0, np.sqrt(weights), out=np.zeros_like(weights), where=weights > 0)
    drawn = values + deviation * np.random.default_rng(seed).standard_normal(values.shape)
    drawn = np.maximum(drawn, -np.inf if bool((values < 0).any()) else 0.0)
    if not sp.issparse(X):
        return drawn.astype(X.dtype)
    entries.data = drawn.astype(X.dtype)
    return entries


def cap_factors(X: Entries) -> Vector | None:
    """Compute by what every row of X (m, n) is multiplied so that none is too heavy; None where none is.

    >>> cap_factors(np.array([[1.0], [1.0], [40.0]])).tolist()
    [1.0, 1.0, 0.25]
    """
    sums = np.asarray(X.sum(axis=1) if sp.issparse(X) else np.nansum(X, axis=1), dtype=np.float64).ravel()
    limit = HEAVY * float(np.median(sums[sums > 0]))
    factors = limit / np.maximum(sums, limit)
    return factors if bool((factors < 1.0).any()) else None


def scaled_rows(X: Entries, factors: Vector) -> Entries:
    """Multiply the rows of X by factors; counts stay counts, in their unit.

    >>> scaled_rows(np.array([[4.0, 3.0]]), np.array([0.5])).tolist()
    [[2.0, 2.0]]
    >>> scaled_rows(np.array([[0.4, 0.3]]), np.array([0.5])).round(12).tolist()
    [[0.2, 0.2]]
    """
    unit = facts_of(X).unit
    scaled = sp.csr_array(sp.diags_array(factors) @ X) if sp.issparse(X) else X * factors[:, None]
    if unit is not None:
        scaled = ((scaled / unit).rint() if sp.issparse(X) else np.rint(scaled / unit)) * unit
    return scaled.astype(X.dtype)
