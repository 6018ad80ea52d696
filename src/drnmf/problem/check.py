"""Bad input is refused here, with what was wrong, where, and what to do."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import scipy.sparse as sp

from drnmf.backends.base import Ask, Data, Observed
from drnmf.backends.entries import check_structure, first_bad_entry, first_true, is_sound, refusal, row_blocks
from drnmf.backends.open import is_dask
from drnmf.losses.base import Omega, need_nonzeros_only
from drnmf.losses.beta import Beta
from drnmf.numerics import Array, Entries, Grid, MatrixLike, namespace
from drnmf.problem.scikit import BaseEstimator, check_array, validate_data
from drnmf.problem.tabular import Tabular, is_anndata, tabular

if TYPE_CHECKING:
    import torch

_ACCEPTED: dict[str, Any] = {
    "accept_sparse": ("csr", "csc"),
    "accept_large_sparse": True,
    "dtype": (np.float64, np.float32),
    "ensure_all_finite": False,
    "copy": False,
}


def check_matrix(estimator: BaseEstimator, X: MatrixLike, reset: bool) -> Grid:
    """X as float32 or float64, dense or CSR/CSC, copied only where it must be cast; its entries are not looked at.

    Those of a Dask array are looked at where they are (`backends.open`), all others in `inputs.receive`.
    """
    if is_dask(X):
        return validate_data(estimator, X, reset=reset, skip_check_array=True)
    known = reset or hasattr(estimator, "n_features_in_")
    if known and not hasattr(estimator, "feature_names_in_") and _plain(X):
        # nothing that scikit-learn could find, and what it takes adds up over small fits and many batches
        check_features(estimator, X, reset)
        return structured(X)
    table = _foreign(X)
    if table is None or table.columns is None:
        return validate_data(estimator, structured(X if table is None else table.X), reset=reset, **_ACCEPTED)
    found = check_array(structured(table.X), **_ACCEPTED)
    check_features(estimator, found, reset)
    if reset:
        estimator.feature_names_in_ = np.array(table.columns, dtype=object)
    return found


def _plain(X: Entries) -> TypeGuard[Grid]:
    """Whether X is a matrix with entries, in the form that fits have it."""
    known = type(X) is np.ndarray or (sp.issparse(X) and X.format in _ACCEPTED["accept_sparse"])
    return known and X.ndim == 2 and 0 not in X.shape and X.dtype in _ACCEPTED["dtype"]


def _foreign(X: MatrixLike) -> Tabular | None:
    """Take X out of AnnData, labelled arrays and cubes, of which scikit-learn knows nothing; None for anything else."""
    if is_anndata(X) or hasattr(X, "coords") or (isinstance(X, np.ndarray) and X.ndim == 3):
        return tabular(X)
    return None


def check_features(estimator: BaseEstimator, X: Grid, reset: bool) -> None:
    """Note the number of columns of a tensor, or refuse another number than the one seen in `fit`."""
    if reset:
        estimator.n_features_in_ = int(X.shape[1])
    elif X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} "
            "features as input."
        )


def check_tensor(X: torch.Tensor, consumer: str) -> None:
    """Check the form of a torch.Tensor as `check_matrix` checks that of arrays, where it is."""
    if X.ndim != 2:
        raise ValueError(f"Expected a 2-dimensional tensor as X, got {X.ndim} dimensions: reshape it to (m, n).")
    if 0 in X.shape:
        raise ValueError(f"X has shape {tuple(X.shape)}: at least one row and one column are required by {consumer}.")
    if not str(X.dtype).startswith(("torch.float", "torch.bfloat")):
        raise ValueError(f"X has dtype {X.dtype}: use float32, float64, float16 or bfloat16 (X.float()).")
    if str(X.layout) != "torch.strided":
        _check_sparse_tensor(X)


def check_tensor_entries(X: torch.Tensor, consumer: str) -> None:
    """Refuse negative and infinite entries of a tensor, and NaN where it is sparse; NaN in a dense one is missing."""
    sparse = str(X.layout) != "torch.strided"
    values = X.to_sparse_coo().coalesce().values() if sparse else X
    if values.numel() == 0:
        return
    good = (values >= 0) & values.isfinite()
    good = good if sparse else good | values.isnan()
    if bool(good.all()):
        return
    endless = ~values.isfinite() if sparse else values.isinf()  # first: no choice of `negatives` mends it
    bad = endless if bool(endless.any()) else ~good
    what = "Negative values" if bad is not endless else "NaN or infinity" if sparse else "Infinity"
    where = "among its non-zeros" if sparse else f"first at X{first_true(bad)}"
    raise ValueError(f"{what} in the tensor passed to {consumer} (input X), {where}: NMF needs finite values >= 0.")


def _check_sparse_tensor(X: torch.Tensor) -> None:
    """Refuse a sparse tensor whose indices lead outside of it: torch builds one without looking at them."""
    torch = sys.modules["torch"]
    try:
        if str(X.layout) == "torch.sparse_coo":
            torch.sparse_coo_tensor(X._indices(), X._values(), X.shape, check_invariants=True)
        else:
            by_row = str(X.layout) in ("torch.sparse_csr", "torch.sparse_bsr")
            ends, indices = (X.crow_indices, X.col_indices) if by_row else (X.ccol_indices, X.row_indices)
            torch.sparse_compressed_tensor(
                ends(), indices(), X.values(), X.shape, layout=X.layout, check_invariants=True
            )
    except RuntimeError as error:
        raise ValueError(f"Sparse X is malformed: {error} Build it again from its entries.") from None


def as_matrix(X: Entries) -> Grid:
    """Check the form of X as `check_matrix` does, for a function that is not an estimator."""
    if is_dask(X):
        return X
    if _plain(X):
        return structured(X)
    table = _foreign(X)
    return check_array(structured(X if table is None else table.X), **_ACCEPTED)


def on_host(X: MatrixLike) -> MatrixLike:
    """Return an array of another library as NumPy's, where its entries are in host memory; anything else as it is.

    It is refused where they are elsewhere, or where the library does not hand them out.
    """
    foreign = any(hasattr(X, name) for name in ("__array_namespace__", "__cuda_array_interface__"))
    if isinstance(X, np.ndarray) or not foreign:
        return X
    try:
        return np.asarray(X)
    except (TypeError, ValueError, RuntimeError, BufferError):
        kind = f"{type(X).__module__.partition('.')[0]}.{type(X).__qualname__}"
        raise TypeError(
            f"X is a {kind} whose entries NumPy cannot read: copy it to host memory first (X.get() in CuPy), or pass a "
            "torch.Tensor to fit on a GPU."
        ) from None


def structured(X: Entries) -> Entries:
    """Return X, with sound indices if it is sparse: looked at before anybody converts it, which follows them already.

    What a masked array hides is missing: NaN.
    """
    if isinstance(X, Mapping) and not sp.issparse(X):  # SciPy's matrix of keys is one
        raise ValueError(
            f"X is a dict of {', '.join(map(str, X))}: tables by name go into fit and transform, of DRNMF or "
            "MultiObjectiveNMF. Give one matrix here."
        )
    if isinstance(X, np.ma.MaskedArray) and X.dtype.kind in "biufc":
        return np.ma.filled(X.astype(np.result_type(X.dtype, np.float32), copy=False), np.nan)
    X = on_host(X)
    if isinstance(X, np.ndarray) and X.dtype.kind in "mMV":
        raise ValueError(f"X holds {X.dtype}, which are no numbers: NMF needs finite values >= 0.")
    if sp.issparse(X) and X.format in ("lil", "dok", "dia"):
        X = X.tocsr()
    check_structure(X)
    return X


def check_entries(X: Entries, consumer: str, first_row: int = 0, observed: Observed | None = None) -> None:
    """Raise with the first offending position unless every entry is finite and >= 0, or not observed.

    NaN in dense X is not observed, nor is what has the weight 0. Allocates nothing of X's size where all is well. A
    block of something larger begins there at `first_row`.
    """
    if is_sound(X, gaps=True):
        return
    bad = first_bad_entry(X) if sp.issparse(X) else _first_bad(X, observed)
    if bad is not None:
        row, column, value = bad
        raise refusal(first_row + row, column, value, consumer)


def _first_bad(X: Array, observed: Observed | None) -> tuple[int, int, float] | None:
    """Position and value of the first entry of dense X, row by row, that is negative or infinite, and observed."""
    for at in row_blocks(X.shape, X.itemsize):
        block = X[at]
        with np.errstate(invalid="ignore"):
            bad = (block < 0) | np.isinf(block)
        if observed is not None and bad.any():
            bad &= observed.within(at).tile(slice(0, X.shape[1])) > 0
        if bad.any():
            i, j = np.unravel_index(int(np.argmax(bad)), bad.shape)
            return at.start + int(i), int(j), float(block[i, j])
    return None


def check_scale(data: Data) -> None:
    """Refuse X without an entry to fit, or whose sum is infinite."""
    if data.count == 0:
        raise ValueError(
            "No entry of X is observed: all are missing (NaN) or have the weight 0. Give at least one entry of X a "
            "value and a weight > 0."
        )
    if not np.isfinite(data.mean):
        raise ValueError("The entries of X are finite, but their sum is not: divide X by its largest entry first.")


@dataclass(frozen=True)
class _Zeros(Beta):
    """No loss to be fitted: N is W'Z, where Z is one at the zeros of X that are observed."""

    @property
    def free_part(self) -> None:
        return None

    def parts(self, x: Array, v: Array, ceiling: float) -> tuple[Array, Array]:
        return (x == 0) * namespace(v).ones_like(v), v


def first_zero(data: Data) -> tuple[int, int]:
    """Find row and column of the first observed zero of X, row by row, in two sweeps.

    >>> from drnmf.backends.open import open_data
    >>> first_zero(open_data(np.array([[1.0, 2.0], [3.0, 0.0]])))
    (1, 1)
    """
    i = _zero_column(data.T, np.ones((1, data.shape[1])))
    return i, _zero_column(data, np.eye(1, data.shape[0], i))


def _zero_column(side: Data, rows: Array) -> int:
    """Find the first column of one side of X with a zero in rows, (1, m), of weight one."""
    W = side.T.space.put(rows.astype(side.dtype)).T
    H = side.space.put(np.ones((1, side.shape[1]), dtype=side.dtype))
    found = side.space.read(side.sweep(W, H, Ask((_Zeros(1.0),), losses=False)))[0].N
    return int(np.argmax(side.space.get(side.space.map(_only, H, found))[0] > 0))


def _only(H: Array, parts: Array) -> Array:
    """The parts of one loss; H says how many columns they have where they live in pieces."""
    return parts[0]


def check_zeros(data: Data, omega: Omega, zeros: str, first_row: int = 0) -> tuple[str, ...]:
    """Refuse zeros of X, which begins at a row, under a loss that is infinite there, or note that they are floored."""
    if data.zeros == 0 or not any(loss.infinite_at_zero for loss in omega):
        return ()
    if zeros == "raise":
        i, j = first_zero(data)
        raise ValueError(
            f"X has {data.zeros} zero entries (the first is X[{i + first_row}, {j}]), and the Itakura-Saito divergence "
            "(beta=0) of a zero is infinite. Pass zeros='floor' to replace them by 2.2e-16 mean(X), or leave 0 out of "
            "betas."
        )
    return (f"{data.zeros} zero entries of X count as 2.2e-16 mean(X), because beta=0 is in betas.",)


def warn_rank(rank: int, shape: tuple[int, int]) -> None:
    """Warn where there are more components than X has rows or columns: any of many W and H would do."""
    if rank > min(shape):
        warnings.warn(
            f"n_components={rank} is more than X of {shape[0]} x {shape[1]} can tell apart: with {min(shape)} "
            "components WH can equal X already, and further ones mean nothing. Use fewer.",
            UserWarning,
            stacklevel=4,
        )


def warn_dense_tiles(sparse: bool, shape: tuple[int, int], omega: Omega) -> None:
    """Say what losses that need every entry cost on sparse data."""
    if sparse and not need_nonzeros_only(omega):
        named = ", ".join(loss.key for loss in omega if not need_nonzeros_only((loss,)))
        warnings.warn(
            f"Only beta = 1 and 2 can use the sparsity of X; others ({named}) take dense tiles, with time growing as "
            f"{shape[0]} x {shape[1]} x n_components an iteration.",
            UserWarning,
            stacklevel=4,
        )
