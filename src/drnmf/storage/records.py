"""What a checkpoint holds, as plain data on the host: snapshots, results, parameters, and a fingerprint of X.

Factors may live elsewhere (on a GPU, on a cluster): they come here through `Space.get` and go back through `Space.put`,
states through `Space.join` and `Space.split`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drnmf.algorithms.acceleration import Direction
from drnmf.algorithms.certificates import Certificate
from drnmf.algorithms.loop import Best, Log, Snapshot
from drnmf.algorithms.result import Result, Trace
from drnmf.algorithms.updates.monotone import Momentum
from drnmf.algorithms.updates.newton import Guarded
from drnmf.algorithms.weights import Advance
from drnmf.backends.base import Data, Elsewhere, Space
from drnmf.backends.modes import Modes
from drnmf.losses.interval import Coverage
from drnmf.losses.names import TYPES as LOSSES
from drnmf.losses.names import as_written
from drnmf.numerics import Array
from drnmf.objective.penalties import PENALTIES
from drnmf.objective.penalty import Penalty
from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import parameters_of
from drnmf.parameters.solver import Solver
from drnmf.trees import map_leaves, name_of, pack

Record = dict[str, Any]
Held = Any
"""A factor or a state, on the host or wherever a `Space` keeps it."""
Move = Callable[[Held], Held]

TYPES: dict[str, type] = {
    name_of(kind): kind
    for kind in (
        Momentum,
        Guarded,
        Advance,
        Best,
        Direction,
        Result,
        Trace,
        Certificate,
        Coverage,
        Elsewhere,
        *LOSSES,
        *PENALTIES.values(),
    )
}
"""Dataclasses that may be read back: results, losses, and the states of the package's rules and policies."""


def on_host(F: Held, space: Space) -> Array:
    """Bring a factor (r, n) of a space to the host, wherever it lives."""
    return F if isinstance(F, np.ndarray) else space.get(F)


def _once(move: Move) -> Move:
    """Move an array that comes again only the first time: what shared memory still shares it."""
    seen: dict[int, tuple[Held, Held]] = {}

    def moved(F: Held) -> Held:
        if id(F) not in seen:
            seen[id(F)] = (F, move(F))
        return seen[id(F)][1]

    return moved


def refuse_unstorable(snapshot: Snapshot) -> None:
    """Raise TypeError where the state of a rule or policy cannot be stored; factors are not looked at."""

    def shell(leaf: object) -> object:
        return None if hasattr(leaf, "shape") and not isinstance(leaf, np.ndarray) else leaf

    pack(map_leaves(shell, (snapshot.states, snapshot.policy_state)))


def _each(functions: Iterable[Move], values: Iterable[Held]) -> tuple[Held, ...]:
    """What belongs to every block, moved by the function of that block."""
    return tuple(function(value) for function, value in zip(functions, values, strict=True))


def snapshot_record(snapshot: Snapshot, rows: int, data: Modes) -> Record:
    """Describe a snapshot, with its log as arrays of `rows` rows: the log itself keeps growing."""
    get = [_once(partial(on_host, space=space)) for space in data.spaces]
    best, direction, log = snapshot.best, snapshot.direction, snapshot.log
    return {field.name: getattr(snapshot, field.name) for field in fields(Snapshot)} | {
        "blocks": _each(get, snapshot.blocks),
        "states": _each((space.join for space in data.spaces), snapshot.states),
        "best": replace(best, blocks=_each(get, best.blocks)),
        "direction": direction and replace(direction, blocks=_each(get, direction.blocks)),
        "log": {field.name: np.array(getattr(log, field.name)[:rows]) for field in fields(Log)},
    }


def snapshot_of(record: Record, data: Modes) -> Snapshot:
    """Invert `snapshot_record`."""
    put = [_once(space.put) for space in data.spaces]
    blocks, best, direction = (record[name] for name in ("blocks", "best", "direction"))
    if _sizes(blocks) != data.sizes or not isinstance(best, Best):
        raise ValueError(f"its blocks of {_sizes(blocks)} columns do not fit X, whose blocks have {data.sizes}")
    log = Log(**{name: list(rows.copy()) if rows.ndim > 1 else rows.tolist() for name, rows in record["log"].items()})
    moved = {
        "blocks": _each(put, blocks),
        "states": _each((space.split for space in data.spaces), record["states"]),
        "best": replace(best, blocks=_each(put, best.blocks)),
        "direction": direction and replace(direction, blocks=_each(put, direction.blocks)),
        "log": log,
    }
    return Snapshot(**({field.name: record[field.name] for field in fields(Snapshot)} | moved))


def _sizes(blocks: Iterable[Array]) -> tuple[int, ...]:
    return tuple(F.shape[1] for F in blocks)


def result_record(result: Result, data: Modes) -> Record:
    """Describe a result with its factors on the host, and which of them lived there before."""
    local = tuple(isinstance(F, np.ndarray) for F in result.blocks)
    get = (partial(on_host, space=space) for space in data.spaces)
    return {"result": replace(result, blocks=_each(get, result.blocks)), "local": local}


def result_of(record: Record, data: Modes) -> Result:
    """Invert `result_record`."""
    result = record["result"]
    if not isinstance(result, Result) or _sizes(result.blocks) != data.sizes:
        raise ValueError(f"no result for X, whose blocks have {data.sizes} columns")
    every = zip(data.spaces, result.blocks, record["local"], strict=True)
    return replace(result, blocks=tuple(F if local else space.put(F) for space, F, local in every))


def fingerprint(data: Data) -> Record:
    """Tell one X from another by every entry; shape, dtype and zeros are there to say what differs."""
    plain = {"shape": list(data.shape), "dtype": str(data.dtype), "number of zeros": data.zeros}
    return plain | {"SHA-256 of the entries": data.digest()}


def differences(there: Mapping[str, object], here: Mapping[str, object]) -> list[str]:
    """'name: this there, that here' for every entry that is not equal.

    >>> differences({"tol": 0.0, "n_init": 1}, {"tol": 0.0, "n_init": 2})
    ['n_init: 1 there, 2 here']
    """
    names = [*there, *(name for name in here if name not in there)]
    return [
        f"{name}: {there.get(name)!r} there, {here.get(name)!r} here"
        for name in names
        if there.get(name) != here.get(name)
    ]


UNSTORED = tuple(
    name for owner in (Parameters, Solver) for name, known in parameters_of(owner).items() if not known.result
)
"""Parameters that do not change what a fit finds."""


def describe(parameters: Mapping[str, object]) -> Record:
    """Parameters as JSON, to compare: numbers and text as they are, arrays by value, objects by what they print."""
    return {name: described(value) for name, value in parameters.items() if name not in UNSTORED}


def described(value: object) -> object:
    """Turn a parameter into JSON; a loss is the number or the text that a user writes for it.

    >>> from drnmf import NegativeBinomial
    >>> described((1.0, NegativeBinomial(30)))
    [1.0, 'nb:30.0']
    """
    if isinstance(value, Penalty):
        return value.key
    value = as_written(value)
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, tuple | list):
        return [described(entry) for entry in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    text = repr(value)
    return type(value).__qualname__ if " at 0x" in text or isinstance(value, np.random.RandomState) else text


def digest_of(values: ArrayLike | None) -> str | None:
    """A given start (W or H) in a few characters."""
    if values is None:
        return None
    array = np.ascontiguousarray(values, dtype=np.float64)
    return f"{array.shape} {hashlib.sha256(array.tobytes()).hexdigest()[:16]}"
