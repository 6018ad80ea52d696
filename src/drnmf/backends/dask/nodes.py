"""Values that exist once per block of rows, and the one task that computes them for a block.

A `Node` is a promise: an operation and the nodes it needs. Making one costs nothing and dropping one costs nothing.
Reading some of them runs, for every block, a single task that holds all operations between what is in memory and
what was asked for: within an iteration that is the sweep for W, the step on its rows, and the sweep for H.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from drnmf.backends.base import Ask, Data, Sweep
from drnmf.backends.core import single_blas
from drnmf.numerics import Array
from drnmf.trees import leaves, map_leaves

Unit = tuple[float, float]
"""mean(X) and what X is multiplied by: a block cannot know them by itself."""

Operation = Callable[..., Any]
"""What a node does on one block, a function of (data, *arguments): pure, and small enough to travel with every task."""


@dataclass(frozen=True)
class Stored:
    """Where the values of a node are: element `position` of the tuple behind each of the `tuples`, one per block.

    files : the files that the tuples descend from; they must outlive the tuples, which a lost worker computes again
    depth : graphs between the files and the tuples
    """

    tuples: tuple[object, ...]
    position: int
    files: tuple[object, ...] = ()
    depth: int = 0


class Node:
    """One value per block of rows, computed when it is read.

    keep : "always", "unless used" (by another node of the same graph), or "never", in memory where it was computed
    lasting : it holds rows of W or states, which may be written to files
    """

    def __init__(
        self,
        operation: Operation | None,
        *arguments: object,
        keep: str = "never",
        lasting: bool = False,
        stored: Stored | None = None,
    ):
        self.operation, self.arguments, self.keep, self.lasting = operation, arguments, keep, lasting
        self.stored = stored

    def settle(self, stored: Stored) -> None:
        """Note where the values are and forget where they came from, so that older points can go."""
        self.stored, self.arguments = stored, ()

    def parents(self) -> Iterator[Node]:
        return (leaf.node for leaf in leaves(self.arguments) if isinstance(leaf, Placed))


class Placed:
    """A handle to what a node holds on every block: all of it, or one element or attribute of it."""

    def __init__(self, node: Node, key: int | str | None = None):
        self.node, self.key = node, key


def pick(value: Any, key: int | str | None) -> Any:
    """Take an element or an attribute of a value; None takes all of it."""
    if key is None:
        return value
    return getattr(value, key) if isinstance(key, str) else value[key]


class Shared:
    """An array that every block needs: it travels once to each worker, not once with each block."""

    def __init__(self, array: Array):
        self.array = array

    @property
    def address(self) -> tuple[int, tuple[int, ...]]:
        return int(self.array.__array_interface__["data"][0]), self.array.shape


class OwnRows:
    """The rows of X that a block holds, a slice of its own for every block."""


class Kept:
    """What stays of one block: a tuple, whose bytes Dask's memory accounts see."""

    def __init__(self, values: tuple[object, ...]):
        self.values = values

    def __getitem__(self, position: int) -> object:
        return self.values[position]

    def __sizeof__(self) -> int:
        return 64 + sum(array.nbytes for array in arrays_in(self.values))


def arrays_in(value: object) -> list[Array]:
    """List the arrays inside a value, each once."""
    return list({id(leaf): leaf for leaf in leaves(value) if isinstance(leaf, np.ndarray)}.values())


@dataclass(frozen=True)
class SweepRows:
    """The sweep whose parts belong to the block's rows of W."""

    ask: Ask

    def __call__(self, data: Data, A: Array, H: Array, rows: slice) -> Sweep:
        return data.T.sweep(H.T, A, self.ask.T.within(rows).T)


@dataclass(frozen=True)
class Call:
    """A function of the arguments alone."""

    function: Callable[..., object]

    def __call__(self, data: Data, *arguments: object) -> object:
        return self.function(*arguments)


class Slot:
    """An argument of a program: the answer of step `index`, an array sent to all blocks, a value in memory, or rows."""

    def __init__(self, kind: str, index: int, position: int = 0, key: int | str | None = None):
        self.kind, self.index, self.position, self.key = kind, index, position, key


class Holder(Protocol):
    """A block of X in the memory of a worker, or what reads one there."""

    def data(self, mean: float, scale: float) -> Data:
        """Return its rows behind a backend, times a scale, with the mean that floors refer to."""
        ...


class Program:
    """The operations between what is in memory and what is asked for, in order, with their arguments as slots.

    Not a dataclass on purpose: Dask looks into those for collections, and there are none inside.
    """

    def __init__(self, unit: Unit, steps: list[tuple[Operation, Any]], keep: list[int], send: list[Any]):
        self.unit, self.steps, self.keep, self.send = unit, steps, keep, send

    def run(self, block: Holder, rows: slice, shared: Sequence[Array], stored: Sequence[Any]) -> tuple[Kept, Any]:
        """Compute (values that stay, values that go up) of one block, which holds these rows of X."""
        data, answers = block.data(*self.unit), list[Any]()

        def value(argument: object) -> Any:
            if not isinstance(argument, Slot):
                return argument
            if argument.kind == "rows":
                return rows
            if argument.kind == "shared":
                return shared[argument.index]
            done = argument.kind == "step"
            whole = answers[argument.index] if done else stored[argument.index][argument.position]
            return pick(whole, argument.key)

        for operation, arguments in self.steps:
            answers.append(operation(data, *map_leaves(value, arguments)))
        return Kept(tuple(answers[i] for i in self.keep)), tuple(pack(value(slot)) for pack, slot in self.send)


@dataclass(frozen=True)
class Plan:
    """A program, the arrays to send down, the tuples in memory that it starts from, and the nodes that will stay."""

    program: Program
    shared: list[Array]
    stored: list[Stored]
    kept: list[Node]

    @property
    def nbytes(self) -> int:
        """Bytes, about, that a block sends up: sums over H are as large as H."""
        return sum(array.nbytes for array in self.shared)


def plan(unit: Unit, wanted: Sequence[tuple[Placed, Callable[[Any], object]]]) -> Plan:
    """Make the program that computes the wanted values and hands up what `pack` makes of each."""
    order: list[Node] = []
    used: set[int] = set()

    def visit(node: Node) -> None:
        if node.stored is not None or any(node is known for known in order):
            return
        for parent in node.parents():
            used.add(id(parent))
            visit(parent)
        order.append(node)

    for placed, _ in wanted:
        visit(placed.node)
    shared: dict[object, tuple[int, Array]] = {}
    stored: dict[int, tuple[int, Stored]] = {}
    number = {id(node): i for i, node in enumerate(order)}

    def slot(argument: object) -> Any:
        if isinstance(argument, Shared):
            return Slot("shared", shared.setdefault(argument.address, (len(shared), argument.array))[0])
        if isinstance(argument, OwnRows):
            return Slot("rows", 0)
        if not isinstance(argument, Placed):
            return argument
        node = argument.node
        if node.stored is None:
            return Slot("step", number[id(node)], key=argument.key)
        index = stored.setdefault(id(node.stored.tuples), (len(stored), node.stored))[0]
        return Slot("stored", index, node.stored.position, argument.key)

    steps = [(node.operation, map_leaves(slot, node.arguments)) for node in order]
    stays = [node for node in order if node.keep == "always" or (node.keep != "never" and id(node) not in used)]
    send = [(pack, slot(placed)) for placed, pack in wanted]
    program = Program(unit, steps, [number[id(node)] for node in stays], send)  # type: ignore[arg-type]
    return Plan(program, [array for _, array in shared.values()], [h for _, h in stored.values()], stays)


def run_block(
    program: Program,
    block: Holder,
    rows: slice,
    shared: Sequence[Array],
    stored: Sequence[object],
    save: Callable[[tuple[object, ...]], None] | None,
) -> tuple[object, object]:
    """Run the task of one block. `save` writes what stays to a file before anybody sees it."""
    with single_blas():
        stays, sent = program.run(block, rows, shared, stored)
    if save is not None:
        save(stays.values)
    return stays, sent
