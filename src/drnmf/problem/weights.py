"""What the entries of X weigh: weights and uncertainties as users give them become kinds of `backends.observed`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from drnmf.backends.base import Observed
from drnmf.backends.entries import check_structure
from drnmf.backends.observed import Entries, HeldOut, Outer, Stored, product
from drnmf.backends.open import is_dask
from drnmf.numerics import Array, Grid, MatrixLike, Precision, real_numbers, refuse_complex
from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import checked

WeightsLike = MatrixLike | HeldOut | None
"""What users may hand in as weights of the entries of X: numbers that broadcast to X, or a mask that is drawn."""

_CHUNK = 1 << 20
_ROUNDING = 4
"""Relative difference, in units of the precision, by which a weight may differ from a product of two."""


class CellError(ValueError):
    """An entry of X, or of what belongs to it, that cannot be used.

    Attributes
    ----------
    row, column : its place
    what : what is wrong with it and what to do
    """

    def __init__(self, name: str, place: tuple[int, int], what: str) -> None:
        self.row, self.column = place
        self.what = what
        super().__init__(f"{name}[{self.row}, {self.column}] {what}")


@dataclass(frozen=True)
class Reading:
    """How X is read: what counts as missing, and what the entries weigh."""

    negatives: str = "raise"  # what is done with entries below zero, as a model has it
    stored_alone: bool = False  # of a sparse X the stored entries alone are observed; without it the others are zeros
    # entry_weight, uncertainty: as users give them, at most one of the two
    entry_weight: WeightsLike = None
    uncertainty: WeightsLike = None


def reading_of(model: Parameters, entry_weight: WeightsLike = None, uncertainty: WeightsLike = None) -> Reading:
    """Check how a model reads X, and collect it with the weights of the entries."""
    stored_alone = checked(model, "unstored") == "missing"
    return Reading(checked(model, "negatives"), stored_alone, entry_weight, uncertainty)


def weights_of(X: Grid, reading: Reading) -> Observed | HeldOut | None:
    """Turn weights or uncertainties of the entries of X into a kind of `backends.observed`.

    None where every entry counts once, but for NaN. X is checked for its form, not for its entries. Both at once, a
    wrong shape and a number that is no weight are refused, the last with its cell.
    """
    if reading.entry_weight is not None and reading.uncertainty is not None:
        raise ValueError(
            "entry_weight and uncertainty were both given, and uncertainties are weights 1 / uncertainty^2 already: "
            "give one of the two."
        )
    name = "entry_weight" if reading.uncertainty is None else "uncertainty"
    given = reading.entry_weight if reading.uncertainty is None else reading.uncertainty
    if isinstance(given, HeldOut) and name == "uncertainty":
        raise ValueError(f"uncertainty={given!r} holds entries out, and is no uncertainty: give it as entry_weight.")
    if given is not None and not isinstance(given, HeldOut):
        given = _checked(name, given, X)
    matrix = _sparse_form(X)
    if reading.stored_alone and matrix is not None:
        return _stored(matrix, given)
    if given is None or isinstance(given, HeldOut):
        return given
    if sp.issparse(given):
        return Stored(given) if matrix is not None else Entries(given.toarray())
    return _kind(given, (X.shape[0], X.shape[1]))


def _sparse_form(X: Any) -> sp.sparray | None:
    """X as a SciPy matrix where it is sparse, of SciPy or of torch; None where it is dense."""
    if sp.issparse(X):
        return X
    if is_dask(X) or not hasattr(X, "layout") or str(X.layout) == "torch.strided":
        return None
    entries = X.detach().cpu().to_sparse_coo().coalesce()
    rows, columns = entries.indices().numpy()
    return sp.csr_array((entries.values().double().numpy(), (rows, columns)), shape=tuple(X.shape))


def _stored(X: sp.sparray, given: Any) -> Observed | None:
    """Observe what a sparse X stores, under the weights given."""
    kept = Stored.of(X)
    if given is None:
        return kept
    if isinstance(given, HeldOut):
        return product(kept, given.bind(X.shape))
    places = sp.coo_array(kept.weights)
    if sp.issparse(given):
        values = sp.csr_array(given)[places.row, places.col]
    else:
        values = np.broadcast_to(given, X.shape)[places.row, places.col]
    return Stored(sp.csr_array((np.asarray(values, dtype=X.dtype).ravel(), (places.row, places.col)), shape=X.shape))


def _kind(M: Array, shape: tuple[int, int]) -> Observed | None:
    """The cheapest kind for an array of weights: none at all, rows times columns, or one for every entry."""
    m, n = shape
    if is_dask(M):
        return Entries(M)
    if M.shape[1] == 1:
        rows, columns = np.ascontiguousarray(np.broadcast_to(M[:, 0], m)), np.ones(n, M.dtype)
    elif M.shape[0] == 1:
        rows, columns = np.ones(m, M.dtype), M[0]
    else:
        outer = as_outer(M)
        if outer is None:
            return Entries(M)
        rows, columns = outer
    return None if (rows == 1).all() and (columns == 1).all() else Outer(rows, columns)


def observed_values(X: sp.sparray, observed: Stored) -> Array:
    """The entries of a sparse X that have a positive weight, as a vector."""
    places = sp.coo_array(observed.by_column)
    values: Array = np.asarray(sp.csr_array(X)[places.row, places.col]).ravel()
    return values


def as_outer(M: Array) -> tuple[Array, Array] | None:
    """Weights of rows and of columns whose product M is, up to rounding; None where there are none.

    >>> as_outer(np.array([[2.0, 0.0], [6.0, 0.0]]))
    (array([2., 6.]), array([1., 0.]))
    >>> as_outer(np.array([[1.0, 1.0], [1.0, 0.0]])) is None
    True
    """
    i, j = np.unravel_index(int(np.argmax(M)), M.shape)
    if M[i, j] == 0:
        return np.zeros(M.shape[0], M.dtype), np.zeros(M.shape[1], M.dtype)
    rows, columns = np.ascontiguousarray(M[:, j]), M[i] / M[i, j]
    tolerance, step = _ROUNDING * np.finfo(M.dtype).eps, max(1, _CHUNK // M.shape[1])
    for first in range(0, M.shape[0], step):
        block = M[first : first + step]
        if (abs(rows[first : first + step, None] * columns - block) > tolerance * block).any():
            return None
    return rows, columns


def _checked(name: str, given: Any, X: Grid) -> Any:
    """Weights as numbers that broadcast to X, in its precision; uncertainties are weights from here on."""
    shape, dtype = tuple(X.shape), _precision(X)
    if is_dask(given) or sp.issparse(given):
        refuse_complex(name, given)
    if is_dask(given):
        return _checked_blocks(name, given, X)
    if sp.issparse(given):
        check_structure(given, name)
        if given.shape != shape:
            raise _wrong_shape(name, given.shape, shape)
        if name == "uncertainty" and not sp.issparse(X):
            raise ValueError(
                "uncertainty is sparse, and X is dense: give it as an array with a number for every entry."
            )
        weights = sp.csr_array(given, copy=True).astype(np.float64)
        weights.sum_duplicates()
        weights.data = _usable(name, weights.data, lambda at: _place(weights, at))
        return weights.astype(dtype)
    M = _numbers(name, given)
    if M.ndim != 2 or any(size not in (1, whole) for size, whole in zip(M.shape, shape, strict=True)):
        raise _wrong_shape(name, M.shape, shape)
    M = _without_gaps(name, M, X)
    return np.ascontiguousarray(_in_range(name, _weights(name, M), dtype))


def _checked_blocks(name: str, given: Any, X: Grid) -> Any:
    """Check a Dask array of weights by its extremes; uncertainties become weights block by block."""
    if given.shape != X.shape:
        raise _wrong_shape(name, given.shape, X.shape)
    low, high = (float(end) for end in (given.min().compute(), given.max().compute()))
    if not (low >= 0 and np.isfinite(high)) or (name == "uncertainty" and low == 0):
        need = "finite and >= 0" if name == "entry_weight" else "finite and > 0"
        raise ValueError(f"{name} ranges from {low:g} to {high:g}: every entry must be {need}.")
    return given if name == "entry_weight" else given**-2.0


def _precision(X: Grid) -> Precision:
    name = str(X.dtype).removeprefix("torch.")
    return np.dtype(np.float64 if name == "float64" else np.float32 if "float" in name else np.float64)


def _numbers(name: str, given: object) -> Array:
    """Read an array of numbers in float64; what a masked array hides is not a number."""
    if hasattr(given, "detach"):
        given = given.detach().cpu().numpy()
    other = ", or drnmf.HeldOut(fraction, seed)" if name == "entry_weight" else ""
    return real_numbers(name, given, f": give an array{other}")


def _wrong_shape(name: str, shape: tuple[int, ...], of_x: tuple[int, ...]) -> ValueError:
    m, n = of_x
    hint = ""
    if len(shape) == 1 and shape[0] in (m, n):
        side = "row" if shape[0] == m else "column"
        reshaped = "(-1, 1)" if shape[0] == m else "(1, -1)"
        hint = f" One number for every {side} is {name}.reshape({reshaped[1:-1]})."
    return ValueError(
        f"{name} has shape {tuple(shape)}, and X has {m} rows and {n} columns: give an array of shape {m} x {n}, "
        f"{m} x 1 or 1 x {n}.{hint}"
    )


def _is_weight(name: str, values: Array) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        return np.isfinite(values) & (values >= 0 if name == "entry_weight" else values > 0)


def _complaint(name: str, value: float) -> str:
    if name == "entry_weight":
        what = "is no number" if np.isnan(value) else "is negative" if value < 0 else "is infinite"
        return f"= {value:g} {what}: weights are finite and >= 0, and 0 stands for an entry that is not observed."
    what = "is no number" if np.isnan(value) else "is infinite" if value > 0 else "is not > 0"
    return (
        f"= {value:g} {what}: give the uncertainty (standard deviation) of this entry of X, or leave the entry of X "
        "itself missing (NaN)."
    )


def _without_gaps(name: str, M: Array, X: Grid) -> Array:
    """Refuse what is no weight where X is observed; where X is missing whatever stands there does not matter."""
    good = _is_weight(name, M)
    if good.all():
        return M
    wrong = np.broadcast_to(~good, tuple(X.shape))
    if isinstance(X, np.ndarray):
        wrong = wrong & ~np.isnan(X)
    if wrong.any():
        i, j = (int(at) for at in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
        at = min(i, M.shape[0] - 1), min(j, M.shape[1] - 1)
        raise CellError(name, at, _complaint(name, float(M[at])))
    return np.where(good, M, 0.0 if name == "entry_weight" else np.nan)


def _weights(name: str, M: Array) -> Array:
    """Weights from what was given: themselves, or 1 / U^2; zero where U is a gap that does not matter."""
    if name == "entry_weight":
        return M
    with np.errstate(over="ignore"):
        return np.where(np.isnan(M), 0.0, M**-2.0)


def _usable(name: str, values: Array, place: Callable[[int], tuple[int, int]]) -> Array:
    """The weights of a sparse matrix, checked one by one."""
    wrong = np.flatnonzero(~_is_weight(name, values))
    if wrong.size:
        raise CellError(name, place(int(wrong[0])), _complaint(name, float(values[wrong[0]])))
    return _in_range(name, _weights(name, values), np.dtype(np.float64))


def _place(weights: sp.sparray, at: int) -> tuple[int, int]:
    return int(np.searchsorted(weights.indptr, at, side="right")) - 1, int(weights.indices[at])


def _in_range(name: str, M: Array, dtype: Precision) -> Array:
    """Weights in the precision of X; none may leave its range on the way."""
    with np.errstate(over="ignore"):
        cast = M.astype(dtype, copy=False)
    if not np.isfinite(cast).all() or ((cast == 0) & (M > 0)).any():
        unit = "divide entry_weight by its mean" if name == "entry_weight" else "give X and uncertainty in another unit"
        raise ValueError(f"{name}: weights leave the range of {dtype}: {unit}.")
    return cast
