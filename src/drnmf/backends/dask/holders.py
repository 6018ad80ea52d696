"""Rows of X as a worker has them: in memory, or read from their source whenever they are swept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import dask
import numpy as np
import scipy.sparse as sp

from drnmf.backends.base import Data, wrap
from drnmf.backends.dask.nodes import arrays_in
from drnmf.backends.entries import check_structure, first_bad_entry, first_zero, is_sound


class Holder(Protocol):
    """Hands out the rows of one block of X as a Data."""

    def data(self, mean: float) -> Data: ...


def usable(X: Any, dtype: Any) -> Any:
    """A block as the core takes it: a plain array or SciPy sparse rows, in the dtype of the fit."""
    if sp.issparse(X):
        check_structure(X)
        return X.astype(dtype, copy=False)
    return np.asarray(X, dtype=dtype)


class InMemory:
    """A block that stays where it is, with the sums over it that every sweep needs."""

    def __init__(self, X: Any):
        self._data = wrap(X)

    def data(self, mean: float) -> Data:
        return replace(self._data, mean=mean)  # type: ignore[type-var]

    def __sizeof__(self) -> int:
        """Bytes as Dask's memory accounts see them: so it knows that moving a block is dear."""
        values = [getattr(self._data, name) for name in type(self._data).__dataclass_fields__]  # type: ignore[attr-defined]
        sparse = [array for X in values if sp.issparse(X) for array in (X.data, X.indices, X.indptr)]
        return 64 + sum(array.nbytes for array in (*arrays_in(values), *sparse))


class OutOfCore:
    """A block that is read from its source every time: the graph that makes it, and the name of its last task.

    The graph is run inside the task that sweeps the block, so that no more blocks are in memory than tasks run.
    """

    def __init__(self, graph: Mapping[Any, Any], key: Any, dtype: Any):
        self.graph, self.key, self.dtype = graph, key, dtype

    def read(self) -> Any:
        return usable(dask.get(self.graph, self.key), self.dtype)

    def data(self, mean: float) -> Data:
        return wrap(self.read(), mean=mean)


@dataclass(frozen=True)
class Summary:
    """What one look at a block tells.

    bad, zero : position (and value) of the first entry that is not >= 0 and finite, and of the first zero
    """

    shape: tuple[int, ...]
    total: float
    zeros: int
    nbytes: int
    bad: tuple[int, int, float] | None
    zero: tuple[int, int] | None


def hold(X: Any, dtype: Any) -> tuple[InMemory | None, Summary]:
    """A block, or what reads one, kept in memory, and its summary; nothing is kept of a block that cannot be used."""
    X = X.read() if isinstance(X, OutOfCore) else usable(X, dtype)
    if X.ndim != 2 or not is_sound(X):
        return None, _refused(X)
    holder = InMemory(X)
    return holder, _summary(X, holder)


def look(holder: OutOfCore) -> Summary:
    """The summary of a block that is read for it and let go."""
    return hold(holder, holder.dtype)[1]


def _refused(X: Any) -> Summary:
    bad = first_bad_entry(X) if X.ndim == 2 else None
    return Summary(X.shape, np.nan, 0, 0, bad, None)


def _summary(X: Any, holder: InMemory) -> Summary:
    data = holder.data(1.0)
    values = X.data if sp.issparse(X) else X
    zero = first_zero(X) if data.zeros else None
    return Summary(X.shape, float(values.sum(dtype=np.float64)), data.zeros, holder.__sizeof__(), None, zero)
