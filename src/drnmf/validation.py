"""Bad input is refused here, with what was wrong, where, and what to do."""

from __future__ import annotations

import numbers
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_array, validate_data

from drnmf.data.base import Data

_CHUNK = 1 << 20
_ACCEPTED: dict[str, Any] = {
    "accept_sparse": ("csr", "csc"),
    "accept_large_sparse": True,
    "dtype": (np.float64, np.float32),
    "ensure_all_finite": False,
    "copy": False,
}


def check_integer(name: str, value: Any, least: int) -> int:
    """An integer parameter with a lower bound."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name}={value!r} must be an integer >= {least}.")
    return int(value)


def check_number(name: str, value: Any, least: float, strict: bool = False) -> float:
    """A finite real parameter with a lower bound."""
    bound = ">" if strict else ">="
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not np.isfinite(float(value)):
        raise ValueError(f"{name}={value!r} must be a finite number {bound} {least:g}.")
    if value < least or (strict and value == least):
        raise ValueError(f"{name}={value!r} must be {bound} {least:g}.")
    return float(value)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """A parameter that is one of a few words."""
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not known: use one of {list(choices)}.")
    return str(value)


def check_matrix(estimator: Any, X: Any, reset: bool) -> Any:
    """X as float32 or float64, dense or CSR/CSC, finite and nonnegative, copied only where it must be cast."""
    X = validate_data(estimator, X, reset=reset, **_ACCEPTED)
    check_entries(X, type(estimator).__name__)
    return X


def check_tensor(estimator: Any, X: Any, reset: bool) -> None:
    """The same checks for a torch.Tensor, made where it is."""
    consumer = type(estimator).__name__
    if X.ndim != 2:
        raise ValueError(f"Expected a 2-dimensional tensor as X, got {X.ndim} dimensions: reshape it to (m, n).")
    if 0 in X.shape:
        raise ValueError(f"X has shape {tuple(X.shape)}: at least one row and one column are required by {consumer}.")
    if not str(X.dtype).startswith(("torch.float", "torch.bfloat")):
        raise ValueError(f"X has dtype {X.dtype}: use float32, float64, float16 or bfloat16 (X.float()).")
    if reset:
        estimator.n_features_in_ = int(X.shape[1])
    elif X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {consumer} is expecting {estimator.n_features_in_} features as input."
        )
    sparse = str(X.layout) != "torch.strided"
    values = X.to_sparse_coo().coalesce().values() if sparse else X
    if values.numel() == 0:
        return
    low, high = (float(end) for end in values.aminmax())  # NaN propagates through both
    if low >= 0 and np.isfinite(high):
        return
    where = "among its non-zeros" if sparse else f"first at X{_first(~((X >= 0) & X.isfinite()))}"
    what = "Negative values" if low < 0 else "NaN or infinity"
    raise ValueError(f"{what} in the tensor passed to {consumer} (input X), {where}: NMF needs finite values >= 0.")


def _first(found: Any) -> list[int]:
    """Position of the first True of a tensor."""
    return [int(index) for index in found.nonzero()[0]]


def as_matrix(X: Any, consumer: str) -> Any:
    """What `check_matrix` does, for a function that is no estimator."""
    X = check_array(X, **_ACCEPTED)
    check_entries(X, consumer)
    return X


def check_entries(X: Any, consumer: str) -> None:
    """Raise with the first offending position unless every entry is finite and >= 0. Allocates nothing of X's size."""
    values = X.data if sp.issparse(X) else X
    if values.size == 0:
        return
    low, high = values.min(), values.max()  # NaN propagates through both
    if low >= 0 and np.isfinite(high):
        return
    row, column, value = first_bad_entry(X)
    where = f"X[{row}, {column}] = {value}"
    if value < 0:
        raise ValueError(
            f"Negative values in data passed to {consumer} (input X): the first is {where}. "
            "NMF needs values >= 0: clip them (np.maximum(X, 0)) or shift X if that makes sense for your data."
        )
    raise ValueError(
        f"Input X contains NaN or infinity: the first is {where}. "
        "Remove or impute such entries (for example with sklearn.impute.SimpleImputer)."
    )


def first_bad_entry(X: Any) -> tuple[int, int, float]:
    """Position and value of the first entry, row by row, that is negative, NaN or infinite."""
    if sp.issparse(X):
        entries = X.tocoo()
        bad = np.flatnonzero(~((entries.data >= 0) & np.isfinite(entries.data)))
        first = bad[np.lexsort((entries.col[bad], entries.row[bad]))[0]]
        return int(entries.row[first]), int(entries.col[first]), float(entries.data[first])
    step = max(1, _CHUNK // X.shape[1])
    for start in range(0, X.shape[0], step):
        block = X[start : start + step]
        bad = ~((block >= 0) & np.isfinite(block))
        if bad.any():
            i, j = np.unravel_index(int(np.argmax(bad)), bad.shape)
            return start + int(i), int(j), float(block[i, j])
    raise AssertionError("no bad entry")


def first_zero(X: Any) -> tuple[int, int]:
    """Position of the first zero of X, row by row."""
    if type(X).__module__.partition(".")[0] == "torch":
        i, j = _first(X.to_dense() == 0)
        return i, j
    if sp.issparse(X):
        rows = sp.csr_array(X)
        for i in range(rows.shape[0]):
            held = rows.indices[rows.indptr[i] : rows.indptr[i + 1]][
                rows.data[rows.indptr[i] : rows.indptr[i + 1]] != 0
            ]
            if held.size < rows.shape[1]:
                return i, int(np.setdiff1d(np.arange(rows.shape[1]), held)[0])
    else:
        for i, row in enumerate(X):
            if not row.all():
                return i, int(np.argmin(row != 0))
    raise AssertionError("no zero")


def check_zeros(X: Any, data: Data, betas: tuple[float, ...], zeros: str) -> tuple[str, ...]:
    """Zeros of X make the Itakura-Saito loss infinite: refuse them, or note that they are floored."""
    if 0.0 not in betas or data.zeros == 0:
        return ()
    if zeros == "raise":
        i, j = first_zero(X)
        raise ValueError(
            f"X has {data.zeros} zero entries (the first is X[{i}, {j}]), and the Itakura-Saito divergence (beta=0) "
            "of a zero is infinite. Pass zeros='floor' to replace them by 2.2e-16 mean(X), or leave 0 out of betas."
        )
    return (f"{data.zeros} zero entries of X count as 2.2e-16 mean(X), because beta=0 is in betas.",)


def warn_dense_tiles(sparse: bool, shape: tuple[int, int], betas: tuple[float, ...]) -> None:
    """Say what betas other than 1 and 2 cost on sparse data."""
    if sparse and not set(betas) <= {1.0, 2.0}:
        warnings.warn(
            f"Only beta = 1 and 2 can use the sparsity of X; betas={betas} take dense tiles, with time growing as "
            f"{shape[0]} x {shape[1]} x n_components an iteration.",
            UserWarning,
            stacklevel=3,
        )
