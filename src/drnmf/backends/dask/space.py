"""Where the factors of a fit on Dask live: H here, W in blocks of rows where X lives."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import Any

import dask.array as da
import numpy as np

from drnmf.backends.base import Data, Elsewhere, Sweep
from drnmf.backends.dask import cluster
from drnmf.backends.dask.nodes import Call, Kept, Node, Placed, Stored, pick
from drnmf.backends.host.dense import HostSpace
from drnmf.numerics import Array, Indices, Precision, Vector
from drnmf.trees import leaves, map_leaves, types_beside


class Factor(Placed):
    """A handle to W in blocks of rows, A = W' of shape (r, m), or W itself where `transposed`; or to a state of W."""

    def __init__(self, data: Any, node: Node, rank: int, key: int | str | None = None, transposed: bool = False):
        super().__init__(node, key)
        self.data, self.rank, self.transposed = data, rank, transposed

    @property
    def shape(self) -> tuple[int, int]:
        m = self.data.shape[0]
        return (m, self.rank) if self.transposed else (self.rank, m)

    dtype = property(attrgetter("data.dtype"))

    @property
    def T(self) -> Factor:
        return Factor(self.data, self.node, self.rank, self.key, not self.transposed)


class BlockSpace:
    """A side of X in blocks: sweeps are promises until they are read."""

    deferred = True
    forks = False

    def __init__(self, data: Any):
        self.data = data

    def read(self, *sweeps: Sweep) -> tuple[Sweep, ...]:
        return self.data.read(*sweeps)


class ColumnSpace(BlockSpace, HostSpace):
    """The side of H: a NumPy array here."""

    def status(self) -> str:
        return str(self.data.traffic.describe())


class RowSpace(BlockSpace):
    """The side of W: handles to what every block holds."""

    whole = False

    def put(self, F: Array | Factor) -> Factor:
        """Take a given W' in blocks: through files where there is a scratch folder, else inside the graph."""
        return F if isinstance(F, Factor) else self._sent(self._parts(F), F.shape[0])

    def get(self, F: Factor) -> Array:
        return np.concatenate(self.data.collect(_first, F), axis=1)

    def take(self, F: Array | Factor, at: Indices | None, into: Any) -> Factor:
        """Take rows of W to the blocks of a part; they never come together."""
        whole, data = self.put(F), into.data
        stored = self.data.settled(whole.node)
        if at is None:
            return Factor(data, Node(None, stored=stored), whole.rank, whole.key)
        tuples = tuple(
            cluster.task("rows", _some, stored.tuples[block], stored.position, whole.key, local)
            for block, local in enumerate(self.data.local(at))
            if len(local)
        )
        return Factor(data, Node(None, stored=Stored(tuples, 0, stored.files)), whole.rank)

    def map(self, function: Callable[..., Any], *arguments: object, count: int = 1) -> Any:
        rank = next(leaf.rank for leaf in leaves(arguments) if isinstance(leaf, Factor))
        node = Node(Call(function), *arguments, keep="always" if count > 1 else "unless used", lasting=True)
        self.data.learn(types_beside(getattr(function, "__self__", None)))
        if count == 1:
            return Factor(self.data, node, rank)
        return tuple(Factor(self.data, node, rank, key) for key in range(count))

    def map_rows(self, function: Callable[[Data], Array], data: object, rank: int) -> Factor:
        """Make W' whose blocks are function(block of X), each where it is."""
        return Factor(self.data, Node(partial(_rows_from, function), keep="unless used", lasting=True), rank)

    def sum(self, function: Callable[..., Vector], *arguments: object) -> Vector:
        return self.data.add_up(partial(_without_data, function), *arguments)

    def join(self, state: object) -> Any:
        """Bring the states of all blocks together: they differ in their arrays alone."""
        return map_leaves(_joined, *self.data.collect(_first, state)) if isinstance(state, Factor) else state

    def split(self, whole: object) -> Any:
        """Give every block its columns of the arrays; numbers are the same for all."""

        def part(leaf: object, block: int) -> object:
            return self._parts(leaf.values)[block] if isinstance(leaf, Elsewhere) else leaf

        blocks = range(len(self.data.sizes))
        return self._sent([map_leaves(partial(part, block=i), whole, leaf=Elsewhere) for i in blocks], 0)

    def status(self) -> str:
        return str(self.data.traffic.describe())

    def deliver(self, F: Factor) -> Array:
        return as_array(F)

    def _parts(self, F: Array) -> list[Array]:
        """The columns of each block."""
        return [np.array(F[..., a:b], order="C") for a, b in pairwise(np.cumsum([0, *self.data.sizes]))]

    def _sent(self, parts: Sequence[object], rank: int) -> Factor:
        """Values of every block that start here."""
        scratch = self.data.scratch
        if scratch is None:
            tuples = tuple(cluster.constant("start", Kept((part,))) for part in parts)
            return Factor(self.data, Node(None, stored=Stored(tuples, 0)), rank)
        files = scratch.files()
        for i, part in enumerate(parts):
            files.save(i)((part,))
        return Factor(self.data, Node(None, stored=Stored(self.data.loads(files), 0, (files,))), rank)


def _first(data: object, value: object) -> Any:
    return value


def _rows_from(function: Callable[[Data], Array], data: Data) -> Array:
    return np.ascontiguousarray(function(data))


def _without_data(function: Callable[..., object], data: object, *arguments: object) -> Any:
    return function(*arguments)


def _joined(*parts: Array) -> object:
    return Elsewhere(np.concatenate(parts, axis=-1)) if isinstance(parts[0], np.ndarray) else parts[0]


def as_array(F: Factor) -> da.Array:
    """Return W (m, r) as a Dask array that nobody has computed yet. Files beneath it stay as long as the array."""
    stored = F.data.settled(F.node)
    parts = [cluster.task("rows", _take, block, stored.position, F.key) for block in stored.tuples]
    array = stacked(parts, F.data.sizes, F.rank, F.dtype)
    weakref.finalize(array, stored.files.__len__)
    return array


def _some(kept: Any, position: int, key: Any, local: Indices) -> Kept:
    return Kept((np.ascontiguousarray(pick(kept[position], key)[:, local]),))


def _take(kept: Any, position: int, key: Any) -> Any:
    return np.ascontiguousarray(pick(kept[position], key).T)


def stacked(parts: list[Array], sizes: tuple[int, ...], rank: int, dtype: Precision) -> da.Array:
    """Stack lazy blocks of rows into one lazy array."""
    blocks = [da.from_delayed(part, (size, rank), dtype) for part, size in zip(parts, sizes, strict=True)]
    return da.concatenate(blocks, axis=0)
