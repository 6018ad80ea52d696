"""Values that exist once per block of rows, and the one task that computes them for a block.

A `Node` is a promise: an operation and the nodes it needs. Making one costs nothing and dropping one costs nothing.
Reading some of them runs, for every block, a single task that holds all operations between what is in memory and
what was asked for: within an iteration that is the sweep for W, the step on its rows, and the sweep for H.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from drnmf.algorithms.updates.base import Parts, Rule
from drnmf.backends.base import Data, Sweep
from drnmf.backends.host.blas import single_blas
from drnmf.numerics import Array, Vector

if TYPE_CHECKING:
    from drnmf.backends.dask.scratch import Cut


class Operation(Protocol):
    """What a node does on one block: pure, and small enough to travel with every task."""

    def __call__(self, data: Data, *arguments: Any) -> Any: ...


@dataclass(frozen=True)
class Held:
    """Where the values of a node are: element `position` of the tuple behind each of the `tuples`, one per block.

    cuts : the files that the tuples descend from; they must outlive the tuples, which a lost worker computes again
    depth : graphs between the files and the tuples
    """

    tuples: tuple[Any, ...]
    position: int
    cuts: tuple[Cut, ...] = ()
    depth: int = 0


class Node:
    """One value per block of rows, computed when it is read. `keep` leaves it in memory where it was computed."""

    def __init__(self, operation: Operation | None, *arguments: Any, keep: bool = False, held: Held | None = None):
        self.operation, self.arguments, self.keep, self.held = operation, arguments, keep, held

    def settle(self, held: Held) -> None:
        """The values are there: forget where they came from, so that older points can go."""
        self.held, self.arguments = held, ()

    def parents(self) -> Iterator[Node]:
        return (argument for argument in self.arguments if isinstance(argument, Node))


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of W of one block, component-first (r, rows), and the state of the rule that belongs to them."""

    A: Array
    state: Any = None

    def like(self) -> Rows:
        """Rows of the same kind, with nothing in their arrays: what a file needs to be read back."""
        return Rows(np.empty(0), _emptied(self.state))

    def __sizeof__(self) -> int:
        """Bytes as Dask's memory accounts see them."""
        return 64 + sum(array.nbytes for array in arrays_in((self.A, self.state)))


def _emptied(state: Any) -> Any:
    if isinstance(state, np.ndarray):
        return np.empty(0)
    if not is_dataclass(state) or isinstance(state, type):
        return state
    return replace(state, **{name: _emptied(getattr(state, name)) for name in state.__dataclass_fields__})


def arrays_in(value: Any) -> list[Array]:
    """The arrays inside rows or a state, each once."""
    if isinstance(value, np.ndarray):
        return [value]
    items: Sequence[Any] = ()
    if isinstance(value, tuple | list):
        items = value
    elif hasattr(value, "__dataclass_fields__"):
        items = [getattr(value, name) for name in value.__dataclass_fields__]
    found: dict[int, Array] = {}
    for item in items:
        found |= {id(array): array for array in arrays_in(item)}
    return list(found.values())


@dataclass(frozen=True)
class SweepRows:
    """The sweep whose parts belong to the block's rows of W."""

    betas: tuple[float, ...]
    mix: Vector
    losses: bool
    curvature: Vector | None

    def __call__(self, data: Data, rows: Rows, H: Array) -> Sweep:
        return data.T.sweep(H.T, rows.A, self.betas, self.mix, losses=self.losses, curvature=self.curvature)


@dataclass(frozen=True)
class Begin:
    """The rule's first state for the rows."""

    rule: Rule

    def __call__(self, data: Data, rows: Rows) -> Rows:
        return Rows(rows.A, self.rule.init(rows.A))


@dataclass(frozen=True)
class Step:
    """One step of the rule on the rows, from the parts of a sweep; `parts` carries everything else."""

    rule: Rule
    parts: Parts
    restart: bool

    def __call__(self, data: Data, rows: Rows, sweep: Sweep, holder: Rows) -> Rows:
        state = self.rule.restart(holder.state) if self.restart else holder.state
        return Rows(
            *self.rule.step(rows.A, replace(self.parts, N=sweep.N, P=sweep.P, Q=sweep.Q, gram=sweep.gram), state)
        )


@dataclass(frozen=True)
class Retry:
    """The step after one that raised the objective."""

    rule: Rule
    attempt: int

    def __call__(self, data: Data, rows: Rows, tried: Rows, holder: Rows) -> Rows:
        return Rows(*self.rule.retry(rows.A, tried.A, self.attempt, holder.state))


@dataclass(frozen=True)
class Apply:
    """Any function of (data, *arguments) whose answer is kept as it is."""

    function: Callable[..., Any]

    def __call__(self, data: Data, *arguments: Any) -> Any:
        return self.function(data, *arguments)


@dataclass(frozen=True)
class Slot:
    """An argument of a program: the answer of step `index`, an array sent to all blocks, or a value in memory."""

    kind: str  # "step", "shared" or "held"
    index: int
    position: int = 0


class Program:
    """The operations between what is in memory and what is asked for, in order, with their arguments as slots.

    Not a dataclass on purpose: Dask looks into those for collections, and there are none inside.
    """

    def __init__(self, mean: float, steps: list[tuple[Operation, tuple[Any, ...]]], keep: list[int], send: list[Any]):
        self.mean, self.steps, self.keep, self.send = mean, steps, keep, send

    def run(self, block: Any, shared: Sequence[Array], held: Sequence[tuple[Any, ...]]) -> tuple[Any, Any]:
        """(values that stay, values that go up) of one block."""
        data, answers = block.data(self.mean), list[Any]()

        def value(argument: Any) -> Any:
            if not isinstance(argument, Slot):
                return argument
            if argument.kind == "step":
                return answers[argument.index]
            return shared[argument.index] if argument.kind == "shared" else held[argument.index][argument.position]

        for operation, arguments in self.steps:
            answers.append(operation(data, *map(value, arguments)))
        return tuple(answers[i] for i in self.keep), tuple(pack(value(slot)) for pack, slot in self.send)


class Shared:
    """An array that every block needs: it travels once to each worker, not once with each block."""

    def __init__(self, array: Array):
        self.array = array

    @property
    def address(self) -> tuple[int, tuple[int, ...]]:
        return int(self.array.__array_interface__["data"][0]), self.array.shape


@dataclass(frozen=True)
class Plan:
    """A program, the arrays to send down, the tuples in memory that it starts from, and the nodes that will stay."""

    program: Program
    shared: list[Array]
    held: list[Held]
    kept: list[Node]

    @property
    def nbytes(self) -> int:
        """Bytes, about, that a block sends up: sums over H are as large as H."""
        return sum(array.nbytes for array in self.shared)


def plan(mean: float, wanted: Sequence[tuple[Node, Callable[[Any], Any]]]) -> Plan:
    """The program that computes the wanted nodes and hands up what `pack` makes of each."""
    order: list[Node] = []
    consumed: set[int] = set()

    def visit(node: Node) -> None:
        if node.held is not None or any(node is known for known in order):
            return
        for parent in node.parents():
            consumed.add(id(parent))
            visit(parent)
        order.append(node)

    for node, _ in wanted:
        visit(node)
    shared: dict[Any, tuple[int, Array]] = {}
    held: dict[int, tuple[int, Held]] = {}
    number = {id(node): i for i, node in enumerate(order)}

    def slot(argument: Any) -> Any:
        if isinstance(argument, Shared):
            return Slot("shared", shared.setdefault(argument.address, (len(shared), argument.array))[0])
        if not isinstance(argument, Node):
            return argument
        if argument.held is None:
            return Slot("step", number[id(argument)])
        home = held.setdefault(id(argument.held.tuples), (len(held), argument.held))
        return Slot("held", home[0], argument.held.position)

    steps = [(node.operation, tuple(map(slot, node.arguments))) for node in order]
    stays = [
        node for node in order if node.keep and (isinstance(node.operation, Step | Retry) or id(node) not in consumed)
    ]
    send = [(pack, slot(node)) for node, pack in wanted]
    program = Program(mean, steps, [number[id(node)] for node in stays], send)  # type: ignore[arg-type]
    return Plan(program, [array for _, array in shared.values()], [h for _, h in held.values()], stays)


def run_block(program: Program, block: Any, shared: Sequence[Array], held: Sequence[Any], save: Any) -> tuple[Any, Any]:
    """The task of one block. `save` writes what stays to a file before anybody sees it."""
    with single_blas():
        stays, sent = program.run(block, shared, held)
    if save is not None:
        save(stays)
    return stays, sent
