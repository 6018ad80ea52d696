"""X in the memory of this process behind the protocol: choose between NumPy and the compiled extension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse

from drnmf.backends.base import Data
from drnmf.backends.core import chosen_backend
from drnmf.numerics import LARGEST_SINGLE, SINGLE_RANGE, Entries, Grid, positive_scale


def _numpy(X: Entries, mean: float | None) -> Data:
    from drnmf.backends.host.dense import DenseMatrix
    from drnmf.backends.host.sparse import SparseMatrix

    return SparseMatrix.of(X, mean) if issparse(X) else DenseMatrix.of(X, mean)


def _native(X: Entries, mean: float | None) -> Data:
    from drnmf.backends.host.native import NativeDense, NativeSparse

    return NativeSparse.of(X, mean) if issparse(X) else NativeDense.of(X, mean)


BACKENDS: dict[str, Callable[[object, float | None], Data]] = {"numpy": _numpy, "native": _native}
"""Backend for arrays of this process -> constructor."""


def reopened(data: Data, X: Grid, mean: float | None = None) -> Data:
    """Put other entries (some rows of X, or X drawn again) behind the backend that X has, without its weights."""
    from drnmf.backends.host.dense import HostMatrix
    from drnmf.backends.host.sparse import SparseMatrix

    kind: Any = type(getattr(data, "data", data))
    if not (issubclass(kind, HostMatrix) and issubclass(kind, SparseMatrix) == issparse(X)):
        return open_data(X, mean=mean)
    return kind.of(X if issparse(X) else np.asarray(X), mean)  # X may be a tensor of this machine's memory


def in_single(data: Data) -> Data | None:
    """Return X in single precision, in which a sweep over a dense one takes half the time.

    None where it is of another kind or already is, where the copy would be large, and where it has entries too far from
    the mean for powers of them.
    """
    from drnmf.backends.host.dense import DenseMatrix

    if not isinstance(data, DenseMatrix) or data.dtype == np.float32 or data.count > LARGEST_SINGLE:
        return None
    X, unit = data.X, positive_scale(data.mean) / data.scale
    least, most = np.min(X, initial=np.inf, where=X > 0), np.fmax.reduce(X, axis=None)
    if not unit / SINGLE_RANGE <= least <= most <= unit * SINGLE_RANGE:
        return None
    Y = np.empty_like(X, dtype=np.float32)
    np.multiply(X, data.scale, out=Y, casting="same_kind")  # in the unit of the data: the same numbers whatever X's is
    return type(data).of(Y, data.mean)


def open_data(X: Grid, backend: str | None = None, mean: float | None = None) -> Data:
    """Put checked X of float32 or float64 behind the protocol of the backends, without a copy if possible.

    The backend is "numpy" (the oracle) or "native" (the compiled extension); None takes the environment variable
    DRNMF_BACKEND, else the compiled extension where it was built, else NumPy. `mean` is the scale that floors refer to,
    where it is not X's own (new rows under an old model).
    """
    name = backend or chosen_backend()
    if name not in BACKENDS:
        raise ValueError(f"backend {name!r} is not known: use one of {sorted(BACKENDS)}.")
    return BACKENDS[name](X, mean)
