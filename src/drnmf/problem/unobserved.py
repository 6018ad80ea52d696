"""Rows and columns of X without any observed entry: nothing is known of them, so they get the mean of the others.

Weights of rows, scikit-learn's `sample_weight`, are weights of their entries.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from drnmf.algorithms.correlation import row_sums
from drnmf.algorithms.result import Result
from drnmf.backends.base import Ask, Data
from drnmf.backends.observed import HeldOut
from drnmf.backends.open import is_dask
from drnmf.losses.beta import KL
from drnmf.numerics import (
    Array,
    MatrixLike,
    Vector,
    as_float64,
    beside,
    factor_floor,
    namespace,
    positive_scale,
    real_numbers,
)
from drnmf.problem.device import as_numpy
from drnmf.problem.weights import WeightsLike


def column_weights(side: Data, G: Array | None = None) -> Array:
    """Sum G' M over the rows, (1, r, n) in the space of the side: P of Kullback-Leibler, which does not see X.

    G : (m, r); None is a column of ones, which gives the weight of every column
    """
    m, n = side.shape
    if G is None:
        G = side.T.space.put(np.ones((1, m), dtype=side.dtype)).T
    H = side.space.put(np.ones((G.shape[1], n), dtype=side.dtype))
    return side.space.read(side.sweep(G, H, Ask((KL,), losses=False)))[0].P


def _count(observed: Array) -> Vector:
    return np.array([float((observed > 0).sum())])


def _sums(F: Array, observed: Array) -> Vector:
    """Sum every row of a factor over the columns that are observed, in float64."""
    xp = namespace(F)
    return np.array(as_float64(xp.where(observed[0] > 0, F, 0.0)).sum(1).tolist())


def filled(F: Array, observed: Array, values: Vector) -> Array:
    """The factor with one column of values wherever no entry is observed.

    >>> filled(np.eye(2), np.array([[[1.0, 0.0]]]), np.array([5.0, 6.0]))
    array([[1., 5.],
           [0., 6.]])
    """
    xp = namespace(F)
    return xp.where(observed[0] > 0, F, xp.asarray(beside(values, F), dtype=F.dtype)[:, None])


@dataclass(frozen=True, eq=False)
class Side:
    """One side of X, rows or columns, of which some have no observed entry."""

    data: Data  # X with this side as its columns
    observed: Array  # (1, 1, n) the weight of each, where the factors of this side live
    seen: int  # how many have an observed entry

    @classmethod
    def of(cls, data: Data) -> Side | None:
        """None where all have an observed entry."""
        if data.count == data.shape[0] * data.shape[1]:
            return None
        observed = column_weights(data)
        seen = int(data.space.sum(_count, observed)[0])
        return None if seen == data.shape[1] else cls(data, observed, seen)

    @property
    def without(self) -> int:
        """How many have no observed entry."""
        return self.data.shape[1] - self.seen

    def fill(self, F: Array, values: Vector) -> Array:
        """Put one column of values in place of those without an observed entry."""
        return self.data.space.map(filled, self.data.space.put(F), self.observed, values)

    def mean(self, F: Array) -> Vector:
        """Average a factor (r, n) over those with an observed entry."""
        return self.data.space.sum(_sums, self.data.space.put(F), self.observed) / max(self.seen, 1)


@dataclass(frozen=True, eq=False)
class Unobserved:
    """Both sides; None where all of a side have an observed entry."""

    rows: Side | None
    columns: Side | None

    @classmethod
    def of(cls, data: Data) -> Unobserved:
        """Look at the weights of all rows and columns, in two sweeps; in none where nothing is missing."""
        return cls(Side.of(data.T), Side.of(data))

    def clear(self, data: Data, W: Array, H: Array) -> tuple[Array, Array]:
        """A start without a trace of them, so that a fit goes as if they were not there."""
        floor = np.full(H.shape[0], factor_floor(data.mean, H.shape[0]))
        if self.rows is not None:
            W = self.rows.fill(W.T, floor).T
        return W, H if self.columns is None else self.columns.fill(H, floor)

    def cleared(self, data: Data, result: Result) -> Result:
        """The result without a trace of them, so that they have no say in the canonical form."""
        if self.rows is None and self.columns is None:
            return result
        W, H = self.clear(data, result.W, result.blocks[0])  # a tensor has no such columns
        return result.at(W, None if self.columns is None else H)

    def complete(self, result: Result) -> Result:
        """The mean row of W, and the mean column of H, for those of which nothing is known."""
        if self.rows is not None:
            A = self.rows.data.space.put(result.W.T)
            result = result.at(self.rows.fill(A, self.rows.mean(A)).T)
        if self.columns is not None:
            result = result.at(result.W, self.columns.fill(result.H, self.columns.mean(result.H)))
        return result

    def notes(self) -> tuple[str, ...]:
        """Say how many there are."""
        sides = (("rows", "row of W", self.rows), ("columns", "column of H", self.columns))
        return tuple(
            f"{side.without} {name} of X have no observed entry: they get the mean {what}."
            for name, what, side in sides
            if side is not None
        )


def mean_row(data: Data, W: Array) -> Vector:
    """Average the rows of W, (r,): what `transform` gives to a row without any observed entry."""
    return data.T.space.sum(row_sums, data.T.space.put(W.T)) / data.shape[0]


def row_totals(data: Data, mean: float) -> Vector:
    """Sum every row of X, (m,): the part X V^-1 1 of Kullback-Leibler at a constant V.

    By a sweep, whose rows do not depend on one another. A product of matrices adds in an order that depends on how many
    rows there are, and a row alone would differ from the same row among others in its last bit.
    """
    m, n = data.shape
    V = positive_scale(mean)
    A = data.T.space.put(np.full((1, m), V, dtype=data.dtype))
    G: Array = data.space.put(np.ones((1, n), dtype=data.dtype)).T
    sums = data.T.sweep(G, A, Ask((KL,), losses=False)).N
    return V * np.asarray(as_numpy(sums), dtype=np.float64).reshape(m)


def row_weights(X: MatrixLike, sample_weight: ArrayLike | None) -> Vector | None:
    """Check one weight for every row, finite and nonnegative, not all zero; None where rows have none.

    >>> row_weights(np.ones((2, 3)), [1, 2]).tolist()
    [1.0, 2.0]
    """
    if sample_weight is None:
        return None
    rows = X.shape[0] if hasattr(X, "shape") else len(np.asarray(X))
    weights = real_numbers("sample_weight", as_numpy(sample_weight), ": give one for every row of X")
    if weights.ndim == 0:
        weights = np.full(rows, float(weights))
    if weights.shape != (rows,):
        raise ValueError(f"sample_weight has shape {weights.shape}, and X has {rows} rows: give one number for each.")
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if wrong.size:
        raise ValueError(f"sample_weight[{wrong[0]}] = {weights[wrong[0]]:g}: weights are finite and >= 0.")
    if not weights.any():
        raise ValueError("sample_weight is zero throughout: at least one weight must be positive.")
    return weights


def with_rows_weighted(
    rows: Vector | None, entry_weight: WeightsLike = None, uncertainty: WeightsLike = None
) -> WeightsLike:
    """Return `entry_weight` multiplied by the weight of every row; as it is where rows have none.

    Refused beside uncertainties, held-out entries and Dask arrays of weights, which are not multiplied here.
    """
    if rows is None:
        return entry_weight
    if uncertainty is not None:
        raise ValueError(
            "sample_weight and uncertainty were both given: give entry_weight = sample_weight / uncertainty^2 instead."
        )
    if isinstance(entry_weight, HeldOut) or is_dask(entry_weight):
        raise ValueError(
            f"sample_weight does not go with entry_weight of type {type(entry_weight).__name__}: leave one of the two "
            "out."
        )
    column = rows[:, None]
    if entry_weight is None:
        return column
    if sp.issparse(entry_weight):
        return sp.csr_array(entry_weight).multiply(column).tocsr()
    return real_numbers("entry_weight", as_numpy(entry_weight)) * column
