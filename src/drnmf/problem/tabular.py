"""X with its labels, out of whatever a user holds it in: frames, labelled arrays, AnnData, cubes of pictures.

Nothing is imported for it: a frame is known by what it can do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from drnmf.numerics import Entries

COUNTS = "counts"
"""The layer of AnnData that is read where there is one: NMF wants counts, and X is often their logarithm."""

Names = tuple[str, ...] | None


@dataclass(frozen=True)
class Tabular:
    """X (m, n) and what its rows and columns are called."""

    X: Entries  # array, sparse matrix, or whatever it was where nothing had to be done
    # rows, columns: a name each, None where they have none
    rows: Names = None
    columns: Names = None
    image: tuple[int, int] | None = None  # rows and columns of the picture whose pixels the rows of X are
    kind: str = "array"  # "array", "frame" or "anndata"


def component_names(rank: int) -> list[str]:
    """Name components where they have no names of their own, in tables, on pages and in messages.

    >>> component_names(2)
    ['component_1', 'component_2']
    """
    return [f"component_{k + 1}" for k in range(rank)]


def is_anndata(X: object) -> bool:
    """Tell whether X is an AnnData object."""
    return all(hasattr(X, name) for name in ("obs_names", "var_names", "layers", "X"))


def tabular(X: Entries) -> Tabular:
    """Take X out of what holds it.

    pandas, polars and pyarrow frames: columns of numbers, after columns of labels; xarray.DataArray: names are its
    coordinates; AnnData: the layer "counts" where there is one, else X; arrays of three dimensions: a row for every
    pixel of rows x columns x bands.

    >>> cube = tabular(np.ones((2, 3, 5)))
    >>> cube.X.shape, cube.image
    ((6, 5), (2, 3))
    """
    if isinstance(X, Tabular):
        return X
    if is_anndata(X):
        return Tabular(_layer(X), _texts(X.obs_names), _texts(X.var_names), None, "anndata")
    if hasattr(X, "dims") and hasattr(X, "coords"):
        return _labelled_array(X)
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        # by place: a name that stands twice would give both columns, twice
        columns = [X.iloc[:, j].to_numpy() for j in range(X.shape[1])]
        return _frame(list(X.columns), columns, _index(X.index))
    if hasattr(X, "__dataframe__"):
        names = list(getattr(X, "column_names", None) or X.columns)
        return _frame(names, [np.asarray(X[name].to_numpy()) for name in names], None)
    if isinstance(X, np.ndarray) and X.ndim == 3:
        return Tabular(np.ascontiguousarray(X).reshape(-1, X.shape[2]), image=(X.shape[0], X.shape[1]))
    return Tabular(X)


def _layer(X: Entries) -> Entries:
    layer = X.layers[COUNTS] if COUNTS in list(X.layers) else X.X
    if layer is None:
        raise ValueError('this AnnData has no X and no layer "counts": give another layer as data.to_df("name").')
    return layer.tocsr() if hasattr(layer, "tocsr") else np.asarray(layer)


def _labelled_array(X: Entries) -> Tabular:
    values, names = np.asarray(X.values), [_coordinates(X, dim) for dim in X.dims]
    if values.ndim == 3:
        return Tabular(values.reshape(-1, values.shape[2]), None, names[2], (values.shape[0], values.shape[1]))
    return Tabular(values, names[0], names[1]) if values.ndim == 2 else Tabular(values)


def _coordinates(X: Entries, dim: object) -> Names:
    return _texts(np.asarray(X.coords[dim].values)) if dim in X.coords else None


def _index(index: Any) -> Names:
    """Give the labels of pandas' index; one that only counts is none."""
    return None if type(index).__name__ == "RangeIndex" else _texts(index)


def _frame(names: list[str], columns: list[Entries], index: Names) -> Tabular:
    """Read a frame column by column: labels as long as they are text, then numbers."""
    first = next((j for j, values in enumerate(columns) if _is_numeric(values)), len(columns))
    wrong = next((j for j in range(first, len(columns)) if not _is_numeric(columns[j])), None)
    if wrong is not None:
        raise ValueError(f"column {str(names[wrong])!r} of X holds no numbers: leave it out.")
    if first == len(columns):
        raise ValueError("X holds no column of numbers.")
    texts = [_texts(values) for values in columns[:first]] + ([index] if index is not None and not first else [])
    rows = tuple(map(" ".join, zip(*texts, strict=True))) if texts else index
    X = np.column_stack(
        [np.asarray(values, dtype=np.result_type(values.dtype, np.float32)) for values in columns[first:]]
    )
    return Tabular(X, rows, _texts(names[first:]), None, "frame")


def _is_numeric(values: object) -> bool:
    return np.asarray(values).dtype.kind in "buif"


def _texts(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(str(value) for value in values)
