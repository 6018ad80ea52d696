"""The values that entries of X can take: multiples of a unit, with a pile at the top where readings were clipped."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drnmf.numerics import Vector

TOLERANCE, ROUNDING = 1e-3, 1e-7
"""How far a multiple may be from the grid: in units, and relative to it (what float32 rounds away)."""

ON_GRID = 0.999
"""Share of the positive entries that must lie on a grid."""

MOST_UNITS = 1e6
"""Largest value on a grid, in units: a finer one says no more than a density."""

DECIMALS = tuple(10.0**-k for k in range(10))
"""Units that are tried in any case: readings rounded to so many decimals and kept in float32 have no exact divisor."""

_SUBSETS, _SUBSET = 8, 48
"""Subsets of the entries whose units are tried, and their size: some hold none of the entries that lie off a grid."""

_BITS, _PILE, _NEAR, _LEAST = 15.0, 3.0, 10, 10
"""A pile at the top: at least so many units up, so many times the mean of the values below, of which so many are
looked at, and no fewer entries than that."""


@dataclass(frozen=True)
class Grid:
    """Where the entries of X lie."""

    unit: float | None = None  # u where they are 0, u, 2u, ...; None where there is no such u
    top: float | None = None  # the value at which larger readings were clipped, None where there is none
    # without a unit, what zero means: "below delta", the smallest positive entry; None where X has no zeros
    delta: float | None = None


def grid_of(values: Vector) -> Grid:
    """Find the grid of entries >= 0.

    >>> grid_of(np.array([0.0, 0.6, 1.4, 0.2])).unit
    0.2
    >>> grid_of(np.array([0.0, np.pi, np.e]))
    Grid(unit=None, top=None, delta=2.718281828459045)
    """
    positive = values[values > 0]
    unit = common_unit(positive)
    if math.isfinite(unit) and unit > 0:
        return Grid(unit, _pile(positive, unit))
    return Grid(delta=float(positive.min()) if 0 < positive.size < values.size else None)


def common_unit(positive: Vector) -> float:
    """Find the largest u of which nearly all positive values are multiples; infinity where there is none, 0 for none.

    >>> round(common_unit(np.array([0.7, 2.1, 1.4])), 12), common_unit(np.array([1.0, np.pi, np.e]))
    (0.7, inf)
    """
    if positive.size == 0:
        return 0.0
    ordered, most = np.sort(positive), float(positive.max())
    starts = range(min(_SUBSETS, max(1, positive.size // _SUBSET)))
    step = max(1, ordered.size // _SUBSET)
    units = {_divisor(ordered[min(start * step // len(starts), ordered.size - 1) :: step], most) for start in starts}
    units |= {unit for unit in DECIMALS if unit * MOST_UNITS >= most}
    accepted = [unit for unit in units if math.isfinite(unit) and _off(ordered, unit).mean() <= 1.0 - ON_GRID]
    if not accepted:
        return math.inf
    unit = max(accepted)
    on = ordered[~_off(ordered, unit)]
    return float(on.sum() / np.rint(on / unit).sum())


def _off(values: Vector, unit: float) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Tell which positive values are no multiples of a unit; none times it is no multiple, however small a value is."""
    off: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    times = np.rint(values / unit)
    off = (times == 0) | (np.abs(values - unit * times) > np.maximum(TOLERANCE * unit, ROUNDING * values))
    return off


def _divisor(values: Vector, most: float) -> float:
    """Find the greatest common divisor of some values (Euclid), infinity where it is finer than a grid may be."""
    unit = float(values.min())
    while unit * MOST_UNITS >= most:
        rest = np.abs(values - unit * np.rint(values / unit))
        off = rest > np.maximum(TOLERANCE * unit, ROUNDING * values)
        if not off.any():
            return float(values.sum() / np.rint(values / unit).sum())
        unit = float(rest[off].min())
    return math.inf


def _pile(positive: Vector, unit: float) -> float | None:
    """Find a pile at the largest value: many more entries than at the values just below."""
    steps = np.rint(positive / unit)
    top = float(steps.max())
    at, below = int((steps == top).sum()), int(((steps < top) & (steps >= top - _NEAR)).sum())
    return top * unit if top >= _BITS and at >= max(_LEAST, _PILE * below / _NEAR) else None
