"""X as a Dask array, in blocks of rows: the fourth Data. Blocks are the compiled core; all else about them is Dask's.

W lives where X lives, in the same blocks, and never comes together; H is a NumPy array. An iteration is one graph:
H goes down, every block sweeps, moves its rows of W and sweeps again, and its shares of the losses and of the parts of
H are added up in a tree of fixed order on the way back.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from drnmf.algorithms.updates.base import Rule
from drnmf.backends.base import Sweep
from drnmf.backends.dask import cluster
from drnmf.backends.dask.blockwise import Blockwise, State
from drnmf.backends.dask.nodes import (
    Apply,
    Held,
    Node,
    Plan,
    Program,
    Retry,
    Rows,
    Shared,
    Step,
    SweepRows,
    plan,
    run_block,
)
from drnmf.backends.dask.scratch import Cut, SaveRows, Scratch, load_rows
from drnmf.backends.dask.shares import SweepColumns, as_it_is, losses_alone
from drnmf.backends.digest import combined
from drnmf.numerics import Array, Vector, factor_floor, positive_scale


@dataclass(frozen=True, eq=False)
class Factor:
    """W in blocks of rows: A = W' of shape (r, m), or W itself where `transposed`."""

    data: Blocks
    rows: Node
    rank: int
    transposed: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        m = self.data.shape[0]
        return (m, self.rank) if self.transposed else (self.rank, m)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.data.dtype

    @property
    def T(self) -> Factor:
        return Factor(self.data, self.rows, self.rank, not self.transposed)

    def at(self, rows: Node) -> Factor:
        """Another point, in the same shape."""
        return Factor(self.data, rows, self.rank, self.transposed)


@dataclass(frozen=True, eq=False)
class Blocks:
    """X in blocks of rows on Dask's workers.

    holders : one task per block, whose answer is in memory and hands out the block's rows (`holders.Holder`)
    sizes : rows of each block
    in_memory : X stays with the workers; else it is read from its source in every sweep
    homes : the worker of each block, as long as it lives
    scratch : where W goes now and then, so that lost workers cost little; None where there are no workers
    first_zero : position of the first zero of X, for the error that names it
    traffic : bytes moved so far
    """

    holders: tuple[Any, ...]
    sizes: tuple[int, ...]
    columns: int
    dtype: np.dtype[Any]
    mean: float
    zeros: int
    in_memory: bool
    homes: cluster.Homes
    scratch: Scratch | None
    cut_every: int
    first_zero: tuple[int, int] | None
    traffic: cluster.Traffic = field(default_factory=cluster.Traffic)
    deferred: bool = True

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self.sizes), self.columns

    @cached_property
    def T(self) -> Transposed:
        return Transposed(self)

    def sweep(
        self, W: Factor, H: Array, betas: tuple[float, ...], mix: Vector, losses: bool = True,
        curvature: Vector | None = None,
    ) -> Sweep:  # fmt: skip
        return _promise(Node(SweepColumns(betas, mix, losses, curvature), W.rows, Shared(H)))

    def read(self, *sweeps: Sweep) -> tuple[Sweep, ...]:
        nodes: list[Any] = [sweep.losses for sweep in sweeps]
        wanted = [(node, losses_alone if isinstance(node.operation, SweepRows) else as_it_is) for node in nodes]
        read = []
        for node, share in zip(nodes, self.execute(plan(self.mean, wanted)), strict=True):
            if isinstance(node.operation, SweepColumns):
                read.append(node.operation.restore(share, node.arguments[1].array))
            else:
                read.append(Sweep(share.losses, node, node))
        return tuple(read)

    def put(self, F: Array) -> Array:
        return np.ascontiguousarray(F)

    def get(self, F: Array) -> Array:
        return F

    def lift(self, rule: Rule) -> Rule:
        if rule.chooses:
            raise ValueError(
                f"{type(rule).__name__} chooses the weights from all parts of both factors in one place, and the rows "
                "of a Dask array are never in one place: use another policy, for example policy='auto'."
            )
        return rule

    def execute(self, work: Plan) -> Sequence[Any]:
        """Run a plan on every block in one graph; nodes that stay know afterwards where they are."""
        shared = [cluster.for_all("H", array, len(self.holders)) for array in work.shared]
        depth = 1 + max((held.depth for held in work.held), default=0)
        cuts = tuple({id(cut): cut for held in work.held for cut in held.cuts}.values())
        rows = all(isinstance(node.operation, Step | Retry) for node in work.kept) and bool(work.kept)
        cut = self.scratch.cut() if self.scratch is not None and rows and depth >= self.cut_every else None
        tasks = []
        for i, holder in enumerate(self.holders):
            values, save = [held.tuples[i] for held in work.held], None if cut is None else cut.save(i)
            with self.homes.at(i):
                tasks.append(cluster.task("iterate", run_block, work.program, holder, shared, values, save))
        stays = [cluster.item("W", task, 0) for task in tasks] if work.kept and cut is None else []
        shares = [cluster.item("share", task, 1) for task in tasks]
        kept, answer = cluster.run(stays, cluster.tree_sum(shares, work.nbytes))
        self.traffic.add(sum(array.nbytes for array in work.shared), sum(map(sys.getsizeof, answer)))
        if cut is not None:
            self.homes.refresh()
            kept = self.loads(cut, tuple(_like(node) for node in work.kept))
            cuts, depth = (cut,), 0
        for position, node in enumerate(work.kept):
            node.settle(Held(kept, position, cuts, depth))
        return answer

    def loads(self, cut: Cut, like: Sequence[Rows]) -> tuple[Any, ...]:
        """Tasks that read what a cut holds, each where its block of X is."""
        return tuple(
            cluster.task("load", load_rows, cut.save(i).path, list(like), holder)
            for i, holder in enumerate(self.holders)
        )

    def total(self, function: Callable[..., Vector], F: Array, sweep: Sweep | None = None) -> Vector:
        """sum of function(F, N, P) over the pieces that the factor comes in: H is one piece."""
        return function(F, *(() if sweep is None else (sweep.N, sweep.P)))

    def map_rows(self, function: Callable[[Any], Array], rank: int) -> Factor:
        """W' whose blocks are function(block) of shape (r, rows)."""
        rows = Node(Apply(partial(_rows_from, function)), keep=True)
        return Factor(self, rows, rank)

    def settled(self, rows: Node) -> Held:
        """Where the values of a node are, computed now if they were not yet."""
        if rows.held is None:
            self.execute(plan(self.mean, [(rows, _nothing)]))
        assert rows.held is not None
        return rows.held

    def random_start(self, rank: int, rng: np.random.RandomState) -> tuple[Factor, Array]:
        """The same numbers as `initialize.random_start` draws, without ever holding W.

        The stream is run through here once, a block at a time, for the sums that the scale needs; each block gets the
        state of the generator where its rows begin and draws them again.
        """
        m, n = self.shape
        states, sums = [], np.zeros(rank)
        for size in self.sizes:
            states.append(rng.get_state())
            sums += rng.uniform(size=(size, rank)).sum(axis=0)
        H = rng.uniform(size=(rank, n))
        root = float(np.sqrt(positive_scale(self.mean) / (float(sums @ H.sum(axis=1)) / (m * n))))
        floor = factor_floor(self.mean, rank)
        tuples = tuple(
            cluster.task("draw", _draw, state, size, rank, root, floor, self.dtype, holder)
            for state, size, holder in zip(states, self.sizes, self.holders, strict=True)
        )
        W = Factor(self, Node(None, held=Held(tuples, 0)), rank, transposed=True)
        return W, np.maximum(H * root, floor).astype(self.dtype)

    def column(self, j: int) -> Vector:
        return np.concatenate(self.collect(partial(_column, j)))

    def dot(self, B: Array) -> Array:
        return np.concatenate(self.collect(_dot, Shared(B)))

    def squared_norms(self) -> Vector:
        return self.add_up(_squared_norms)

    def digest(self) -> str:
        """The hashes of the rows are made where the rows are, and meet here in order: blocks make no difference."""
        return combined(self.collect(_row_digests))

    def add_up(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """sum over the blocks of function(block, *arguments)."""
        return self.execute(plan(self.mean, [(Node(Apply(function), *arguments), _same)]))[0]

    def collect(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """function(block, *arguments) of every block, here."""
        return self.add_up(partial(_listed, function), *arguments)


@dataclass(frozen=True, eq=False)
class Transposed:
    """The side of W: sweeps whose parts stay with the rows that they belong to."""

    data: Blocks
    deferred: bool = True

    @property
    def shape(self) -> tuple[int, int]:
        return self.data.shape[1], self.data.shape[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.data.dtype

    @property
    def mean(self) -> float:
        return self.data.mean

    @property
    def zeros(self) -> int:
        return self.data.zeros

    @property
    def T(self) -> Blocks:
        return self.data

    def sweep(
        self, W: Array, H: Factor, betas: tuple[float, ...], mix: Vector, losses: bool = True,
        curvature: Vector | None = None,
    ) -> Sweep:  # fmt: skip
        return _promise(Node(SweepRows(betas, mix, losses, curvature), H.rows, Shared(W.T), keep=True))

    def read(self, *sweeps: Sweep) -> tuple[Sweep, ...]:
        return self.data.read(*sweeps)

    def put(self, F: Array | Factor) -> Factor:
        """A given W' in blocks: through files where there is a scratch folder, else inside the graph."""
        if isinstance(F, Factor):
            return F
        return Factor(self.data, self._sent([Rows(part) for part in self._split(F)]), F.shape[0])

    def _split(self, F: Array) -> list[Array]:
        """The columns of each block."""
        return [np.array(F[:, a:b], order="C") for a, b in pairwise(np.cumsum([0, *self.data.sizes]))]

    def _sent(self, parts: list[Rows]) -> Node:
        """Rows of every block that begin here."""
        scratch = self.data.scratch
        if scratch is None:
            return Node(None, held=Held(tuple(cluster.constant("start", (part,)) for part in parts), 0))
        cut = scratch.cut()
        for i, part in enumerate(parts):
            cut.save(i)((part,))
        return Node(None, held=Held(self.data.loads(cut, (parts[0].like(),)), 0, (cut,)))

    def get_state(self, state: State) -> dict[str, Any]:
        """The state of a rule on W in one piece, for a checkpoint (see `records.HoldsStates`)."""
        return {"whole": _joined(self.data.collect(_state_of, state.rows)), "restart": state.restart}

    def put_state(self, state: dict[str, Any]) -> State:
        blocks = [Rows(np.empty((1, 0)), part) for part in self._parted(state["whole"])]
        return State(self._sent(blocks), state["restart"])

    def _parted(self, whole: Any) -> list[Any]:
        """The state of each block: arrays are split, numbers are the same for all."""
        if isinstance(whole, np.ndarray):
            return list(self._split(whole))
        if not is_dataclass(whole) or isinstance(whole, type):
            return len(self.data.sizes) * [whole]
        parts = {name: self._parted(getattr(whole, name)) for name in whole.__dataclass_fields__}
        return [replace(whole, **{name: part[i] for name, part in parts.items()}) for i in range(len(self.data.sizes))]

    def get(self, F: Factor) -> Array:
        return np.concatenate(self.data.collect(_rows_of, F.rows), axis=1)

    def lift(self, rule: Rule) -> Rule:
        return Blockwise(self.data.lift(rule))  # type: ignore[return-value]

    def total(self, function: Callable[..., Vector], F: Factor, sweep: Sweep | None = None) -> Vector:
        """sum of function(F, N, P) over the blocks of W."""
        return self.data.add_up(partial(_of_rows, function), F.rows, *(() if sweep is None else (sweep.N,)))

    def column(self, j: int) -> Vector:
        block = int(np.searchsorted(np.cumsum(self.data.sizes), j, side="right"))
        row = j - sum(self.data.sizes[:block])
        return np.asarray(cluster.task("row", _row, self.data.holders[block], row).compute())

    def dot(self, B: Array) -> Array:
        """X' B, each block with its rows of B."""
        A = self.put(np.ascontiguousarray(B.T))
        return np.asarray(self.data.add_up(_dot_transposed, A.rows))

    def squared_norms(self) -> Vector:
        return np.concatenate(self.data.collect(_row_norms))


def _promise(node: Any) -> Sweep:
    """A sweep that nobody may look at before it is read."""
    return Sweep(node, node, node)


def _like(node: Node) -> Rows:
    """Rows of the kind that the node will hold."""
    assert isinstance(node.operation, Step | Retry)
    empty = np.empty((1, 0))
    return Rows(empty, node.operation.rule.init(empty))


def _draw(state: Any, size: int, rank: int, root: float, floor: float, dtype: Any, beside: Any) -> tuple[Rows]:
    """Rows of the random start; `beside` is not used, but draws the task to where the block is."""
    rng = np.random.RandomState()
    rng.set_state(state)
    W = np.maximum(rng.uniform(size=(size, rank)) * root, floor)
    return (Rows(np.ascontiguousarray(W.T, dtype=dtype)),)


def _same(value: Any) -> Any:
    return value


def _nothing(value: Any) -> int:
    return 0


def _listed(function: Callable[..., Any], data: Any, *arguments: Any) -> list[Any]:
    return [function(data, *arguments)]


def _rows_from(function: Callable[[Any], Array], data: Any) -> Rows:
    return Rows(np.ascontiguousarray(function(data)))


def _state_of(data: Any, rows: Rows) -> Any:
    return rows.state


def _joined(parts: Sequence[Any]) -> Any:
    """One state from those of all blocks, which differ in their arrays alone."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts, axis=1)
    if not is_dataclass(parts[0]):
        return parts[0]
    names = parts[0].__dataclass_fields__
    return replace(parts[0], **{name: _joined([getattr(part, name) for part in parts]) for name in names})  # type: ignore[type-var]


def _rows_of(data: Any, rows: Rows) -> Array:
    return rows.A


def _of_rows(function: Callable[..., Any], data: Any, rows: Rows, sweep: Sweep | None = None) -> Any:
    return function(rows.A, *(() if sweep is None else (sweep.N, sweep.P)))


def _column(j: int, data: Any) -> Vector:
    return data.column(j)


def _row(holder: Any, i: int) -> Vector:
    return holder.data(1.0).T.column(i)


def _dot(data: Any, B: Array) -> Array:
    return data.dot(B)


def _dot_transposed(data: Any, rows: Rows) -> Array:
    return data.T.dot(np.ascontiguousarray(rows.A.T))


def _squared_norms(data: Any) -> Vector:
    return data.squared_norms()


def _row_digests(data: Any) -> bytes:
    return b"".join(data.row_digests())


def _row_norms(data: Any) -> Vector:
    return data.T.squared_norms()


__all__ = ["Blocks", "Factor", "Program", "SaveRows", "Transposed"]
