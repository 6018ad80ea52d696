"""Batches of scikit-learn's MiniBatchNMF as those of a stream of this package."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drnmf.algorithms.weights import Fixed
from drnmf.backends.base import Data, losses_of
from drnmf.backends.core import single_blas
from drnmf.estimators.streaming import opened
from drnmf.losses.beta import Beta
from drnmf.numerics import AT_FLOOR, Array, Entries, Maybe, Vector, factor_floor, rise_tolerance
from drnmf.objective.penalty import Penalties, Setting
from drnmf.problem.device import as_numpy, place
from drnmf.problem.units import Units
from drnmf.problem.unobserved import with_rows_weighted
from drnmf.problem.weights import Reading
from drnmf.sklearn.engine import Settings
from drnmf.solve.stream import StreamState, advance, begin


@dataclass(frozen=True)
class Step:
    """Where a stream stands after a batch."""

    state: StreamState  # what the next batch needs
    # W, H: of the batch and of all rows, in the units of X
    W: Array
    H: Array
    cost: float  # the objective of the batch before the last step of H, per row; see `Units.cost`


def take(
    state: StreamState | None,
    X: Entries,
    W: Maybe,
    H: Array,
    settings: Settings,
    forget: float | None,
    rows: Vector | None,
    made_of: tuple[Vector, int] | None = None,
) -> Step:
    """Take a batch of rows, checked, into account; the state is None where the stream begins at H.

    The search for W begins at W where that is known. `forget` is the half-life of rows; None where they fade as slowly
    as they may. `rows` is the weight of each, and `made_of` W'W of all rows over their number, and that, where H was
    made of them.
    """
    data = _opened(X, settings, state, rows)
    units, policy = Units(data.scale, np.ones(1)), Fixed()
    omega = units.omega((Beta(settings.beta),))
    floor = factor_floor(data.mean, H.shape[0])
    if state is None:
        gram, seen = (None, 0) if made_of is None else (made_of[0] * units.left**2, made_of[1])
        first = np.maximum(H * units.right, floor).astype(data.dtype)
        state = begin(data, first, policy, omega, np.ones(1), gram, seen)
    of_a_row = Penalties(settings.penalties, Setting((1, data.shape[1]), state.mean))
    warm = () if W is None else (np.maximum(W.T * units.left, floor).astype(data.dtype),)
    with single_blas():
        state, (A, *_) = advance(state, data, omega, policy, forget, warm, units.penalties(of_a_row, omega))
    W, H = as_numpy(A).T / units.left, state.followers[0].H / units.right
    measures = of_a_row.measure(data.space, H, 0), of_a_row.measure(data.T.space, W.T / X.shape[0], 1)
    return Step(state, W, H, units.cost(state.latest, omega, of_a_row.value(measures)))


def half_life(rows: int, kept: float) -> float | None:
    """Compute the rows over which sums fade by one half, if a part of them is kept after this many.

    >>> half_life(100, 0.5), half_life(100, 1.0)
    (100.0, None)
    """
    if kept == 1.0:
        return None
    return rows * math.log(0.5) / math.log(kept) if kept > 0.0 else 1e-3 * rows


def with_zeros(X: Entries, W: Array, H: Array, settings: Settings, rows: Vector | None) -> float:
    """Write zeros for what is at the floor of H, where the loss D does not rise by it, and return sqrt(2 D)."""
    data = _opened(X, settings, None, rows)
    units = Units(data.scale)
    omega = units.omega((Beta(settings.beta),))
    A, B = np.asfortranarray(W * units.left), H * units.right
    low = AT_FLOOR * factor_floor(data.mean, H.shape[0]) >= B
    with single_blas(), np.errstate(all="ignore"):
        loss, other = (losses_of(data, A, F, omega) for F in (B, np.where(low, 0.0, B).astype(B.dtype)))
    if not low.all() and other[0] <= loss[0] * (1.0 + rise_tolerance(data.dtype)):
        H[low], loss = 0.0, other
    return units.error(loss, omega)


def _opened(X: Entries, settings: Settings, state: StreamState | None, rows: Vector | None) -> Data:
    placement, reading = place(X, settings.device, "float32"), Reading(entry_weight=with_rows_weighted(rows))
    return opened(placement, placement.accept(X, settings.name, reading), state)
