"""X as users give it becomes X as it is fitted: negative readings dealt with, entries checked, weights beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from drnmf.backends.base import EVERY, Data, Observed
from drnmf.backends.observed import HeldOut
from drnmf.backends.open import is_dask
from drnmf.losses.base import Omega
from drnmf.numerics import Array, Entries, Grid, Indices, namespace
from drnmf.problem.check import check_entries, check_tensor_entries
from drnmf.problem.weights import Reading, weights_of

KEEP = "keep"
"""What leaves readings below zero as they are."""


@dataclass(frozen=True)
class Received:
    """X, checked."""

    X: Entries  # as it is fitted; NaN in dense X is not observed
    observed: Observed | HeldOut | None = None  # weights of the entries, None where each counts once
    notes: tuple[str, ...] = ()  # remarks on what was done to X
    known: bool = False  # whether the weights are one over the squares of known standard deviations
    signed: bool = False  # whether X holds readings below zero, which beta = 2 alone is defined for

    def columns(self, some: Indices) -> Received:
        """Return some columns, given by their indices; a `HeldOut` must be bound to X already."""
        assert not isinstance(self.observed, HeldOut)
        observed = None if self.observed is None else self.observed.within(EVERY, some)
        return replace(self, X=taken(self.X, some, 1), observed=observed, notes=())

    def rows(self, some: Indices | slice) -> Received:
        """Return some rows, given by a slice or by their indices; a `HeldOut` must be bound to X already."""
        assert not isinstance(self.observed, HeldOut)
        X = self.X.tocsr() if hasattr(self.X, "tocsr") else self.X
        observed = None if self.observed is None else self.observed.within(some)
        return replace(self, X=taken(X, some, 0), observed=observed, notes=())


def taken(X: Entries, some: Indices | slice, axis: int) -> Entries:
    """Return some rows (axis 0) or columns of a matrix of any kind; of sparse tensors by indices alone."""
    if str(getattr(X, "layout", "torch.strided")) != "torch.strided":
        entries = X.to_sparse_coo().coalesce()
        return entries.index_select(axis, entries.indices().new_tensor(some))
    return X[:, some] if axis else X[some]


def received(X: Entries, reading: Reading, consumer: str) -> Received:
    """Deal with negative entries, and check the others, of X whose form is checked already."""
    if reading.stored_alone and is_dask(X) and sp.issparse(X._meta):
        raise ValueError(
            "unstored='missing' needs a sparse X of SciPy or torch, and X is a Dask array of sparse blocks: give dense "
            "blocks with NaN where nothing was observed."
        )
    if reading.negatives == KEEP and _has_negatives(X):
        return _signed(X, reading, consumer)
    X, notes = _without_negatives(X, reading)
    observed = weights_of(X, reading)
    if isinstance(X, np.ndarray):
        check_entries(X, consumer, observed=None if isinstance(observed, HeldOut) else observed)
        X = _negatives_hidden(X)
    elif sp.issparse(X):
        check_entries(X, consumer)
    elif not is_dask(X):
        check_tensor_entries(X, consumer)
    return Received(X, observed, notes, reading.uncertainty is not None)


def refuse_signed(given: Received, omega: Omega) -> None:
    """Refuse readings below zero under losses that are not defined for them: all but beta = 2 alone."""
    others = [loss.name for loss in omega if loss.beta != 2.0]
    if given.signed and others:
        raise ValueError(
            f"X has negative entries, and the loss {others[0]} is not defined for them: negatives='keep' needs beta=2 "
            "alone (Frobenius), which takes them as they are. Use beta=2, or negatives='clip' or 'missing'."
        )


def _has_negatives(X: Entries) -> bool:
    """Whether X holds a finite entry below zero, of NumPy, SciPy or torch."""
    if is_dask(X):
        raise ValueError("negatives='keep' is not done on Dask arrays: give X in memory.")
    if not isinstance(X, np.ndarray) and not sp.issparse(X):
        raise ValueError("negatives='keep' is not done on tensors: give a NumPy array or a SciPy matrix.")
    values = X.data if sp.issparse(X) else X
    return values.size > 0 and bool(_negative(values).any())


def _signed(X: Entries, reading: Reading, consumer: str) -> Received:
    """X with readings below zero, which are noise about small means: they stay as they are."""
    check_entries(abs(X), consumer)
    values = X.data if sp.issparse(X) else X
    if not float(np.nansum(values, dtype=np.float64)) > 0:
        raise ValueError("The entries of X add up to zero or less: with negatives='keep' their mean must be positive.")
    count = int(np.count_nonzero(_negative(values)))
    note = f"{count} negative entries of X are kept as they are."
    return Received(X, weights_of(X, reading), (note,), reading.uncertainty is not None, signed=True)


def _negatives_hidden(X: Array) -> Array:
    """Dense X with NaN for negative entries, which have passed the check because their weight is 0."""
    low = np.fmin.reduce(X, axis=None)
    return np.where(X < 0, np.array(np.nan, X.dtype), X) if low < 0 else X


def _without_negatives(X: Entries, reading: Reading) -> tuple[Grid, tuple[str, ...]]:
    """X after `negatives`, copied where there are some, and a remark on how many there were."""
    choice = reading.negatives
    if choice in ("raise", KEEP):
        return X, ()
    if is_dask(X):
        raise ValueError(
            f"negatives={choice!r} is not done on Dask arrays: write it into the array, X.clip(0) or "
            "dask.array.where(X < 0, nan, X), and leave negatives='raise'."
        )
    if str(getattr(X, "layout", "torch.strided")) != "torch.strided":
        raise ValueError(f"negatives={choice!r} is not done on sparse tensors: give a dense tensor or a SciPy matrix.")
    negative = _negative(X.data if sp.issparse(X) else X)
    count = int(negative.sum())
    if count == 0:
        return X, ()
    done, fill = ("were set to 0", 0.0) if choice == "clip" else ("count as missing", np.nan)
    if sp.issparse(X):
        X = _sparse_without_negatives(X, reading)
    else:
        xp = namespace(X)
        X = xp.where(negative, xp.asarray(fill, dtype=X.dtype), X)
    return X, (f"{count} negative entries of X {done} (negatives={choice!r}).",)


def _negative(X: Entries) -> NDArray[np.bool_]:
    """Find negative readings; minus infinity is none, but an error."""
    return (X < 0) & (abs(X) < np.inf)


def _sparse_without_negatives(X: sp.sparray, reading: Reading) -> sp.sparray:
    X = X.copy()
    if reading.negatives == "clip":
        X.data[_negative(X.data)] = 0.0
        return X
    if not reading.stored_alone:
        raise ValueError(
            "negatives='missing' with a sparse X needs unstored='missing': an entry of X that is not stored counts as "
            "zero otherwise. Use negatives='clip', or a dense X."
        )
    entries = X.tocoo()
    kept = ~_negative(entries.data)
    return type(X)((entries.data[kept], (entries.row[kept], entries.col[kept])), shape=X.shape)


def remark_on_missing(data: Data) -> tuple[str, ...]:
    """Say how many entries of X are not observed; nothing where all are."""
    m, n = data.shape
    missing = m * n - data.count
    if missing == 0:
        return ()
    return (
        f"{missing} of {m * n} entries of X ({100 * missing / (m * n):.3g} %) are not observed: no loss counts them.",
    )
