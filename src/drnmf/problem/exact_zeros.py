"""Entries of factors that ended at their floor come back as exact zeros, where no loss rises by it.

Steps that multiply never leave a zero, so a run keeps every entry above a floor (`numerics.factor_floor`). What stands
there at the end is a zero that the algorithm could not write.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from drnmf.algorithms.result import Result
from drnmf.backends.base import Data, losses_of
from drnmf.numerics import AT_FLOOR, Vector, namespace, rise_tolerance
from drnmf.objective.constraints import Constraints


def with_exact_zeros(data: Data, constraints: Constraints, result: Result) -> Result:
    """Return a result with zeros for what is at the floor of its factors; as it is where a loss would rise.

    A zero of WH at a positive entry of X makes most losses infinite: there the floor stays, and so it does in a factor
    of which nothing else would be left.
    """
    rank, found, counts = result.H.shape[0], [], []
    for side, where, F in (("W", data.T, result.W.T), ("H", data, result.H)):
        most, fixed = AT_FLOOR * constraints.floor(side, data.mean, rank), constraints.of(side)[0]
        F = where.space.put(F)
        counts.append(float(where.space.sum(partial(_count, most=most, fixed=fixed), F)[0]))
        found.append(where.space.map(partial(_zeroed, most=most, fixed=fixed), F) if counts[-1] else F)
    whole = [rank * length for length in data.shape]
    if not any(counts) or any(count == size for count, size in zip(counts, whole, strict=True)):
        return result
    W, H = found[0].T, found[1]
    with np.errstate(invalid="ignore"):
        losses = losses_of(data, W, H, result.omega)
        stays = bool(np.all(losses <= result.losses * (1.0 + rise_tolerance(data.dtype))))
    return result.at(W, H) if stays else result


def _at_floor(F: Any, most: float, fixed: int) -> Any:
    low = (F > 0) & ~(most < F)
    low[:fixed] = False
    return low


def _count(F: Any, most: float, fixed: int) -> Vector:
    return np.array([float(_at_floor(F, most, fixed).sum())])


def _zeroed(F: Any, most: float, fixed: int) -> Any:
    return namespace(F).where(_at_floor(F, most, fixed), F * 0.0, F)
