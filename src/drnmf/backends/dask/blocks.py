"""X as a Dask array, in blocks of rows. Blocks are swept by the backend of each worker; all else about them is Dask's.

W lives where X lives, in the same blocks, and never comes together; H is a NumPy array. An iteration is one graph:
H goes down, every block sweeps, moves its rows of W and sweeps again, and its sums for the losses and for the parts of
H are added up in a tree of fixed order on the way back.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from operator import methodcaller
from typing import Any, ClassVar, Self

import numpy as np

from drnmf.backends.base import Ask, Data, Layer, Observed, OfData, Starts, Sweep
from drnmf.backends.dask import cluster
from drnmf.backends.dask.holders import Derived, RowFiles, Scratch, load_rows, unread, weighed_rows
from drnmf.backends.dask.nodes import (
    Holder,
    Kept,
    Node,
    OwnRows,
    Placed,
    Plan,
    Shared,
    Stored,
    SweepRows,
    Unit,
    plan,
    run_block,
)
from drnmf.backends.dask.partial_sums import SweepColumns, losses_alone, part_of, parted_rows
from drnmf.backends.dask.space import ColumnSpace, Factor, RowSpace
from drnmf.backends.entries import combined
from drnmf.backends.observed import Ones
from drnmf.backends.weighted import Tally, Weighted
from drnmf.losses.part import over_blocks
from drnmf.numerics import Array, Indices, Precision, Vector


@dataclass(frozen=True, eq=False)
class Blocks:
    """X in blocks of rows on Dask's workers.

    holders : one task per block, whose answer is in memory and hands out the block's rows (`backends.dask.holders`)
    sizes : rows of each block
    in_memory : X stays with the workers; else it is read from its source in every sweep
    assignment : the worker of each block, as long as it lives
    scratch : where W goes now and then, so that lost workers cost little; None where there are no workers
    traffic : bytes moved so far
    types : dataclasses that states of the rules may hold
    count : how many entries are observed
    observed : where there are weights, a mark: every block knows its own
    scale : what entries are multiplied by as they are read
    """

    compressed: ClassVar[bool] = False  # of blocks each for itself

    holders: tuple[object, ...]
    sizes: tuple[int, ...]
    columns: int
    dtype: Precision
    mean: float
    zeros: int
    in_memory: bool
    assignment: cluster.Assignment
    scratch: Scratch | None
    save_every: int
    traffic: cluster.Traffic = field(default_factory=cluster.Traffic)
    types: dict[str, type] = field(default_factory=dict)
    count: int = 0
    observed: Observed | None = None
    scale: float = 1.0

    @property
    def unit(self) -> Unit:
        """What the blocks are read with."""
        return self.mean, self.scale

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self.sizes), self.columns

    @cached_property
    def T(self) -> Transposed:
        return Transposed(self)

    @cached_property
    def space(self) -> ColumnSpace:
        return ColumnSpace(self)

    def sweep(self, W: Factor, H: Array, ask: Ask) -> Sweep:
        return _promise(Node(SweepColumns(self.asked(ask)), W, Shared(H), OwnRows()))

    def asked(self, ask: Ask) -> Ask:
        """Mark a question as one under weights, which every block puts in itself."""
        return ask if self.observed is None else replace(ask, observed=self.observed)

    def weigh(self, observed: Observed, mean: float | None) -> Blocks:
        """Give every block its rows of the weights, once."""
        ends = np.cumsum([0, *self.sizes]).tolist()
        parts = {i: observed.within(slice(*rows)) for i, rows in enumerate(pairwise(ends))}
        if not self.in_memory:
            parts = {i: part.placed(partial(unread, dtype=self.dtype)) for i, part in parts.items()}
        kept, tally = self._derived("weigh", weighed_rows, parts, _tally)
        return replace(
            self,
            holders=kept,
            mean=tally.mean * self.scale if mean is None else mean,
            zeros=tally.zeros,
            count=tally.count,
            observed=Ones(self.shape),
            traffic=cluster.Traffic(),
        )

    def _derived(
        self, kind: str, function: Callable[..., Any], arguments: Mapping[int, object], look: Callable[..., tuple[Any]]
    ) -> tuple[tuple[object, ...], Any]:
        """Make blocks of some blocks, where these are, and add up what a look at each of them tells."""
        holders = []
        for i, argument in arguments.items():
            with self.assignment.at(i):
                holders.append(cluster.task(kind, Derived, self.holders[i], function, argument, self.in_memory))
        kept, (found,) = cluster.run(holders, cluster.tree_sum([cluster.task("look", look, h) for h in holders], 0))
        return kept, found

    def scaled(self, factor: float) -> Blocks:
        return replace(self, mean=self.mean * factor, scale=self.scale * factor, traffic=cluster.Traffic())

    def local(self, at: Indices) -> list[Indices]:
        """List which of some rows of X, in order, every block has, counted from its first."""
        ends = np.cumsum([0, *self.sizes])
        bounds = np.searchsorted(at, ends)
        return [at[a:b] - first for a, b, first in zip(bounds, bounds[1:], ends, strict=False)]

    def part(self, at: Indices, across: bool) -> Blocks:
        """Return some rows (columns) of X alone, in the blocks that they are in."""
        own = [at] * len(self.sizes) if across else self.local(at)
        some = [i for i, local in enumerate(own) if len(local)]
        kept, tally = self._derived("part", part_of, {i: (own[i], across) for i in some}, _tally)
        sizes = self.sizes if across else tuple(len(own[i]) for i in some)
        columns = len(at) if across else self.columns
        return replace(
            self,
            holders=kept,
            sizes=sizes,
            columns=columns,
            zeros=tally.zeros,
            assignment=self.assignment.within(some),
            traffic=cluster.Traffic(),
            count=tally.count,
            observed=None if self.observed is None else Ones((sum(sizes), columns)),
        )

    def parted(self, places: Sequence[Indices], across: bool) -> Blocks:
        """Return X whose blocks also answer for losses of parts and of rows."""
        own = [[at] * len(self.sizes) if across else self.local(at) for at in places]
        parts = {i: [(local[i], across) for local in own] for i in range(len(self.holders))}
        kept, _ = self._derived("part", parted_rows, parts, _one)
        return replace(self, holders=kept, traffic=cluster.Traffic())

    def of_rows(self, function: Callable[..., Vector], W: Factor, H: Array) -> Vector:
        """Compute function(block, W', H), with a number for every row in its last axis, and bring all here."""
        return np.concatenate(self.collect(function, W.T, Shared(H)), axis=-1)

    def read(self, *sweeps: Sweep) -> tuple[Sweep, ...]:
        """Compute what the sweeps promise, in one graph; the parts of W stay with its rows."""
        nodes = [sweep.losses.node for sweep in sweeps]  # type: ignore[attr-defined]
        wanted = [
            (Placed(node), cluster.same if isinstance(node.operation, SweepColumns) else losses_alone) for node in nodes
        ]
        found = self.execute(plan(self.unit, wanted))
        read = []
        for sweep, node, sums in zip(sweeps, nodes, found, strict=True):
            if isinstance(node.operation, SweepColumns):
                sweep = node.operation.restore(sums, node.arguments[1].array)
            read.append(replace(sweep, losses=over_blocks(node.operation.ask.omega, sums.losses)))
        return tuple(read)

    def learn(self, types: dict[str, type]) -> None:
        """Remember the dataclasses that states may hold, for workers that cannot import them."""
        self.types.update(types)

    def execute(self, work: Plan) -> Sequence[Any]:
        """Run a plan on every block in one graph; nodes that stay know afterwards where they are."""
        shared = [cluster.for_all("H", array, len(self.holders)) for array in work.shared]
        depth = 1 + max((stored.depth for stored in work.stored), default=0)
        sources = tuple({id(files): files for stored in work.stored for files in stored.files}.values())
        lasting = all(node.lasting for node in work.kept) and bool(work.kept)
        files = self.scratch.files() if self.scratch is not None and lasting and depth >= self.save_every else None
        tasks = []
        ends = np.cumsum([0, *self.sizes]).tolist()
        for i, holder in enumerate(self.holders):
            rows = slice(ends[i], ends[i + 1])
            values, save = [stored.tuples[i] for stored in work.stored], None if files is None else files.save(i)
            with self.assignment.at(i):
                tasks.append(cluster.task("iterate", run_block, work.program, holder, rows, shared, values, save))
        stays = [cluster.item("W", task, 0) for task in tasks] if work.kept and files is None else []
        sums = [cluster.item("sums", task, 1) for task in tasks]
        kept, answer = cluster.run(stays, cluster.tree_sum(sums, work.nbytes))
        self.traffic.add(sum(array.nbytes for array in work.shared), sum(map(sys.getsizeof, answer)))
        if files is not None:
            self.assignment.refresh()
            kept, sources, depth = self.loads(files), (files,), 0
        for position, node in enumerate(work.kept):
            node.settle(Stored(kept, position, sources, depth))
        return answer

    def loads(self, files: RowFiles) -> tuple[Any, ...]:
        """Make tasks that read files, each where its block of X is."""
        return tuple(
            cluster.task("load", load_rows, files.save(i).path, self.types, holder)
            for i, holder in enumerate(self.holders)
        )

    def settled(self, node: Node) -> Stored:
        """Compute the values of a node, if they were not yet, and say where they are."""
        if node.stored is None:
            self.execute(plan(self.unit, [(Placed(node), _nothing)]))
        assert node.stored is not None
        return node.stored

    def draw(
        self, rank: int, rng: np.random.RandomState, scale: Callable[[float], float], floor: float
    ) -> tuple[Factor, Array]:
        """Draw the numbers of `Unweighted.draw` without ever holding W.

        The stream is run through here once, a block at a time, for the sums that the scale needs; each block gets the
        state of the generator where its rows begin and draws them again.
        """
        m, n = self.shape
        states, sums = [], np.zeros(rank)
        for size in self.sizes:
            states.append(rng.get_state())
            sums += rng.uniform(size=(size, rank)).sum(axis=0)
        H = rng.uniform(size=(rank, n))
        root = scale(float(sums @ H.sum(axis=1)) / (m * n))
        tuples = tuple(
            cluster.task("draw", _draw, state, size, rank, root, floor, self.dtype, holder)
            for state, size, holder in zip(states, self.sizes, self.holders, strict=True)
        )
        W = Factor(self, Node(None, stored=Stored(tuples, 0)), rank, transposed=True)
        return W, np.maximum(H * root, floor).astype(self.dtype)

    @property
    def starts(self) -> Self:
        return self

    def column(self, j: int) -> Vector:
        return np.concatenate(self.collect(methodcaller("column", j)))

    def dot(self, B: Array) -> Array:
        return np.concatenate(self.collect(_dot, Shared(B)))

    def squared_norms(self) -> Vector:
        return self.add_up(methodcaller("squared_norms"))

    def digest(self) -> str:
        """The hashes of the rows are made where the rows are, and meet here in order: blocks make no difference."""
        rows = combined(self.collect(_row_digests))
        return rows if self.observed is None else combined([rows.encode(), *self.collect(_weights_digest)])

    def add_up(self, function: Callable[..., object], *arguments: object) -> Any:
        """Sum function(block, *arguments) over the blocks."""
        return self.execute(plan(self.unit, [(Placed(Node(function, *arguments)), cluster.same)]))[0]

    def collect(self, function: Callable[..., object], *arguments: object) -> list[Any]:
        """Bring function(block, *arguments) of every block here."""
        return self.add_up(partial(_listed, function), *arguments)


@dataclass(frozen=True, eq=False)
class Transposed(OfData):
    """The side of W: sweeps whose parts stay with the rows that they belong to."""

    compressed: ClassVar[bool] = False  # of blocks each for itself

    data: Blocks

    @property
    def shape(self) -> tuple[int, int]:
        return self.data.shape[1], self.data.shape[0]

    @property
    def observed(self) -> Observed | None:
        return None if self.data.observed is None else self.data.observed.T

    @property
    def T(self) -> Blocks:
        return self.data

    def weigh(self, observed: Observed, mean: float | None) -> Transposed:
        return self.data.weigh(observed.T, mean).T

    def scaled(self, factor: float) -> Transposed:
        return self.data.scaled(factor).T

    @cached_property
    def space(self) -> RowSpace:
        return RowSpace(self.data)

    def sweep(self, W: Array, H: Factor, ask: Ask) -> Sweep:
        ask = ask if self.observed is None else replace(ask, observed=self.observed)
        return _promise(Node(SweepRows(ask), H, Shared(W.T), OwnRows(), keep="unless used"))

    @property
    def starts(self) -> Self:
        return self

    def column(self, j: int) -> Vector:
        block = int(np.searchsorted(np.cumsum(self.data.sizes), j, side="right"))
        row = j - sum(self.data.sizes[:block])
        return np.asarray(cluster.task("row", _row, self.data.holders[block], row, self.data.scale).compute())

    def dot(self, B: Array) -> Array:
        """X' B, each block with its rows of B."""
        A = self.space.put(np.ascontiguousarray(B.T))
        return np.asarray(self.data.add_up(_dot_transposed, A))

    def squared_norms(self) -> Vector:
        return np.concatenate(self.data.collect(_row_norms))


def _promise(node: Node) -> Sweep:
    """Make a sweep that nobody may look at before it is read."""
    names = ("losses", "N", "P", "Q", "gram")
    return Sweep(*(Placed(node, name) for name in names))  # type: ignore[arg-type]


def _draw(state: Any, size: int, rank: int, root: float, floor: float, dtype: Precision, beside: Array) -> Kept:
    """Rows of the random start; `beside` is not used, but draws the task to where the block is."""
    rng = np.random.RandomState()
    rng.set_state(state)
    W = np.maximum(rng.uniform(size=(size, rank)) * root, floor)
    return Kept((np.ascontiguousarray(W.T, dtype=dtype),))


def _one(value: object) -> tuple[int]:
    return (1,)


def _nothing(value: object) -> int:
    return 0


def _listed(function: Callable[..., object], data: Data, *arguments: object) -> list[object]:
    return [function(data, *arguments)]


def _row(holder: Holder, i: int, scale: float) -> Vector:
    return holder.data(1.0, scale).T.starts.column(i)


def _dot(data: Starts, B: Array) -> Array:
    return data.dot(B)


def _dot_transposed(data: Data, A: Array) -> Array:
    return data.T.starts.dot(np.ascontiguousarray(A.T))


def _row_digests(data: Layer) -> bytes:
    return b"".join(data.row_digests())


def _tally(holder: Derived) -> tuple[Tally]:
    return (holder.tally(),)


def _weights_digest(data: Weighted) -> bytes:
    return data.observed.digest().encode()


def _row_norms(data: Data) -> Vector:
    return data.T.starts.squared_norms()
