"""Rows as a worker has them: of X in memory, or read from their source whenever they are swept; of W on disk.

A holder hands out the rows of one block of X as a Data, multiplied by a scale, with floors that refer to a mean.

Dask computes what a lost worker held again from what it came from. Unchecked, that is the whole fit: every block of W
comes from the one an iteration before. So now and then each block writes its rows of W and the state of the rule to a
file (under a temporary name, then renamed), and the iterations after it start from tasks that read those files. What
lies before is forgotten. The files are arrays and a few numbers, never a pickle.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.core import flatten

from drnmf.backends.base import Data, Observed
from drnmf.backends.dask.nodes import Holder, Kept, arrays_in
from drnmf.backends.entries import check_structure, first_bad_entry, is_sound
from drnmf.backends.host import open_data
from drnmf.backends.observed import Ones
from drnmf.backends.weighted import Tally, Weighted
from drnmf.files import write_arrays
from drnmf.numerics import Entries, Precision
from drnmf.trees import pack, unpack


def usable(X: Entries, dtype: Any) -> Entries:
    """A block as the core takes it: a plain array or SciPy sparse rows, in the dtype of the fit."""
    if sp.issparse(X):
        check_structure(X)
        return X.astype(dtype, copy=False)
    return np.asarray(X, dtype=dtype)


class InMemory:
    """A block that stays where it is, with the sums over it that every sweep needs."""

    def __init__(self, X: Entries):
        self._data = open_data(X)

    def data(self, mean: float, scale: float) -> Data:
        data = self._data = scaled_to(self._data, scale)
        return replace(data, mean=mean)

    def __sizeof__(self) -> int:
        """Bytes as Dask's memory accounts see them: so it knows that moving a block is dear."""
        values = [getattr(self._data, name) for name in type(self._data).__dataclass_fields__]  # type: ignore[attr-defined]
        sparse = [array for X in values if sp.issparse(X) for array in (X.data, X.indices, X.indptr)]
        return 64 + sum(array.nbytes for array in (*arrays_in(values), *sparse))


class OutOfCore:
    """A block that is read from its source every time: the graph that makes it, and the name of its last task.

    The graph is run inside the task that sweeps the block, so that no more blocks are in memory than tasks run.
    """

    def __init__(self, graph: Mapping[object, object], key: object, dtype: Precision):
        self.graph, self.key, self.dtype = graph, key, dtype

    def read(self) -> Entries:
        return usable(dask.get(self.graph, self.key), self.dtype)

    def data(self, mean: float, scale: float) -> Data:
        return open_data(self.read(), mean=mean / scale).scaled(scale)


class Derived:
    """A block made of another one by function(data, argument); made again whenever that one is read from its source."""

    def __init__(self, holder: Holder, function: Callable[[Any, Any], Any], argument: object, in_memory: bool):
        self.holder, self.function, self.argument, self.in_memory = holder, function, argument, in_memory
        self._kept: tuple[tuple[float, float], Data] | None = None

    def data(self, mean: float, scale: float) -> Any:
        if self._kept is not None and self._kept[0] == (mean, scale):
            return self._kept[1]
        found = self.function(self.holder.data(mean, scale), self.argument)
        if self.in_memory:
            self._kept = (mean, scale), found
        return found

    def tally(self) -> Tally:
        """Count and add up its observed entries, in the unit of the caller."""
        data = self.data(1.0, 1.0)
        found: Tally = data.tally if isinstance(data, Weighted) else data.tally(data.observed or Ones(data.shape))
        return found

    def __sizeof__(self) -> int:
        return sys.getsizeof(self.holder) + sum(array.nbytes for array in arrays_in(self.argument))


def weighed_rows(data: Data, observed: Observed) -> Data:
    """Put a block under its rows of the weights."""
    return data.weigh(observed.placed(_read), data.mean)


def scaled_to(data: Data, scale: float) -> Any:
    """Return the rows at another scale; a block in memory keeps what it is asked for, sparse rows being a copy."""
    return data if data.scale == scale else data.scaled(scale / data.scale)


def unread(array: object, dtype: Precision) -> Any:
    """Return what reads an array of weights from its source, for one that is a Dask array; any other stays."""
    if not isinstance(array, da.Array):
        return array
    (whole,) = dask.optimize(array.rechunk(-1))
    key = next(iter(flatten(whole.__dask_keys__())))
    return OutOfCore(dict(whole.__dask_graph__().cull({key})), key, dtype)


def _read(array: object) -> Any:
    return array.read() if isinstance(array, OutOfCore) else array


@dataclass(frozen=True)
class Summary:
    """What one look at a block tells.

    missing : how many entries are NaN
    bad : position and value of the first entry that is not >= 0 and finite
    """

    shape: tuple[int, ...]
    total: float
    zeros: int
    missing: int
    nbytes: int
    bad: tuple[int, int, float] | None


def hold(X: Entries, dtype: object) -> tuple[InMemory | None, Summary]:
    """A block, or what reads one, kept in memory, and its summary; nothing is kept of a block that cannot be used."""
    X = X.read() if isinstance(X, OutOfCore) else usable(X, dtype)
    if X.ndim != 2 or not is_sound(X, gaps=True):
        return None, Summary(X.shape, np.nan, 0, 0, 0, first_bad_entry(X, gaps=True) if X.ndim == 2 else None)
    holder = InMemory(X)
    return holder, _summary(X, holder)


def look(holder: OutOfCore) -> Summary:
    """The summary of a block that is read for it and let go."""
    return hold(holder, holder.dtype)[1]


def _summary(X: Entries, holder: InMemory) -> Summary:
    data = holder.data(1.0, 1.0)
    values = X.data if sp.issparse(X) else X
    missing = X.shape[0] * X.shape[1] - data.count
    total = float(values.sum(dtype=np.float64, where=~np.isnan(values)) if missing else values.sum(dtype=np.float64))
    return Summary(X.shape, total, data.zeros, missing, holder.__sizeof__(), None)


class Scratch:
    """A folder that every worker sees. A temporary one goes when the process ends or nobody refers to it."""

    def __init__(self, folder: str | os.PathLike[str] | None = None):
        base = None if folder is None else Path(folder)
        self._made = base if base is not None and not base.exists() else None
        if base is not None:
            base.mkdir(parents=True, exist_ok=True)
        self.path = Path(tempfile.mkdtemp(prefix="drnmf-", dir=base))
        self._count = 0
        self._clear = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def remove(self) -> None:
        """Remove everything, and the folder that was named too if it was not there before."""
        self._clear()
        if self._made is not None:
            self._made.rmdir()

    def files(self) -> RowFiles:
        """Make the next set of files, one per block."""
        self._count += 1
        return RowFiles(self, self.path / f"rows-{self._count:06d}")


class RowFiles:
    """One file per block; they go when no node descends from them."""

    def __init__(self, scratch: Scratch, folder: Path):
        self.scratch = scratch  # the folder above must not go first
        self.folder = folder
        folder.mkdir()
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def save(self, block: int) -> SaveRows:
        return SaveRows(str(self.folder / f"{block:06d}.npz"))


class SaveRows:
    """Writes what stays of one block, whole or not at all."""

    def __init__(self, path: str):
        self.path = path

    def __call__(self, values: tuple[object, ...]) -> None:
        content, arrays = pack(values)
        arrays["content"] = np.array(json.dumps(content))
        write_arrays(self.path, arrays, durable=False)  # after a power failure there is no fit left to read it


def load_rows(path: str, types: Mapping[str, type], beside: object = None) -> Kept:
    """Read what `SaveRows` wrote; `types` are dataclasses of a state that cannot be imported by name.

    beside : not used: as an argument it draws the task to where the block is
    """
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files if name != "content"}
        return Kept(unpack(json.loads(str(stored["content"])), arrays, types))
