"""What a checkpoint holds, as plain data on the host: snapshots, results, parameters, and a fingerprint of X.

Factors may live elsewhere (on a GPU, on a cluster): they come here through `Data.get` and go back through `Data.put`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from drnmf.algorithms.loop import Best, Log, Snapshot
from drnmf.algorithms.result import Result
from drnmf.backends.base import Data
from drnmf.numerics import Array
from drnmf.storage.plain import carry

Record = dict[str, Any]


def on_host(F: Array, side: Data) -> Array:
    """A factor (r, n) of that side as a NumPy array, wherever it lives."""
    return F if isinstance(F, np.ndarray) else side.get(F)


def _once(move: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """`move`, but an array that comes again is not moved again: what shared memory goes on sharing it."""
    seen: dict[int, tuple[Array, Array]] = {}

    def moved(F: Array) -> Array:
        if id(F) not in seen:
            seen[id(F)] = (F, move(F))
        return seen[id(F)][1]

    return moved


@runtime_checkable
class HoldsStates(Protocol):
    """A Data whose lifted rules keep their state where the factors live, in a form of its own."""

    def get_state(self, state: Any) -> Any:
        """The state as the rule itself would have it, with NumPy arrays."""
        ...

    def put_state(self, state: Any) -> Any:
        """The inverse."""
        ...


def _state_on_host(state: Any, F: Array, side: Data, get: Callable[[Array], Array]) -> Any:
    return side.get_state(state) if isinstance(side, HoldsStates) else carry(state, F.shape, get)


def _state_in_place(state: Any, F: Array, side: Data, put: Callable[[Array], Array]) -> Any:
    return side.put_state(state) if isinstance(side, HoldsStates) else carry(state, F.shape, put)


def state_shells(snapshot: Snapshot, data: Data) -> Any:
    """The states of rule and policy without their factors: to see whether they can be stored, at no cost."""
    sides = zip(snapshot.states, (snapshot.B, snapshot.A), (data, data.T), strict=True)
    rules = [None if isinstance(side, HoldsStates) else carry(s, F.shape, lambda _: None) for s, F, side in sides]
    return rules, snapshot.policy_state


def snapshot_record(snapshot: Snapshot, rows: int, data: Data) -> Record:
    """A snapshot with its log as arrays of `rows` rows: the log itself goes on growing."""
    get_A, get_B = _once(lambda F: on_host(F, data.T)), _once(lambda F: on_host(F, data))
    best, (state_B, state_A), log = snapshot.best, snapshot.states, snapshot.log
    states = (
        _state_on_host(state_B, snapshot.B, data, get_B),
        _state_on_host(state_A, snapshot.A, data.T, get_A),
    )
    return {field.name: getattr(snapshot, field.name) for field in fields(Snapshot)} | {
        "A": get_A(snapshot.A),
        "B": get_B(snapshot.B),
        "states": states,
        "best": replace(best, A=get_A(best.A), B=get_B(best.B)),
        "log": {field.name: np.array(getattr(log, field.name)[:rows]) for field in fields(Log)},
    }


def snapshot_of(record: Record, data: Data) -> Snapshot:
    """The inverse of `snapshot_record`."""
    put_A, put_B = _once(data.T.put), _once(data.put)
    A, B, best, (state_B, state_A) = record["A"], record["B"], record["best"], record["states"]
    m, n = data.shape
    if A.shape[1:] != (m,) or B.shape[1:] != (n,) or not isinstance(best, Best):
        raise ValueError(f"its blocks {A.shape} and {B.shape} do not fit X of shape {data.shape}")
    log = Log(**{name: list(rows.copy()) if rows.ndim > 1 else rows.tolist() for name, rows in record["log"].items()})
    moved = {
        "A": put_A(A),
        "B": put_B(B),
        "states": (_state_in_place(state_B, B, data, put_B), _state_in_place(state_A, A, data.T, put_A)),
        "best": replace(best, A=put_A(best.A), B=put_B(best.B)),
        "log": log,
    }
    return Snapshot(**({field.name: record[field.name] for field in fields(Snapshot)} | moved))


def result_record(result: Result, data: Data) -> Record:
    """A result with its factors on the host, and which of them lived there before."""
    local = tuple(isinstance(F, np.ndarray) for F in (result.W, result.H))
    W, H = on_host(result.W.T, data.T).T, on_host(result.H, data)
    return {"result": replace(result, W=W, H=H), "local": local}


def result_of(record: Record, data: Data) -> Result:
    """The inverse of `result_record`."""
    result = record["result"]
    if not isinstance(result, Result) or (result.W.shape[0], result.H.shape[1]) != data.shape:
        raise ValueError(f"no result for X of shape {data.shape}")
    local_W, local_H = record["local"]
    W = result.W if local_W else data.T.put(result.W.T).T
    return replace(result, W=W, H=result.H if local_H else data.put(result.H))


def fingerprint(data: Data) -> Record:
    """Tell one X from another by every entry; shape, dtype and zeros are there to say what differs."""
    return {
        "shape": list(data.shape), "dtype": str(data.dtype), "number of zeros": data.zeros,
        "SHA-256 of the entries": data.digest(),
    }  # fmt: skip


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
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


UNSTORED = ("callback", "verbose", "checkpoint", "checkpoint_every", "return_factors")
"""Parameters that do not change what a fit finds."""


def describe(parameters: Mapping[str, Any]) -> Record:
    """Parameters as JSON, to compare: numbers and text as they are, arrays by value, objects by what they print."""
    return {name: _described(value) for name, value in parameters.items() if name not in UNSTORED}


def _described(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, tuple | list):
        return [_described(entry) for entry in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    text = repr(value)
    return type(value).__qualname__ if " at 0x" in text or isinstance(value, np.random.RandomState) else text


def digest_of(values: Any) -> str | None:
    """A given start (W or H) in a few characters."""
    if values is None:
        return None
    array = np.ascontiguousarray(values, dtype=np.float64)
    return f"{array.shape} {hashlib.sha256(array.tobytes()).hexdigest()[:16]}"
