"""State as plain data: JSON and numeric arrays, and only the types named here; nothing read back can run anything.

`pack` turns a value into a tree that JSON can hold and the arrays that the tree names; `unpack` is its inverse, to the
bit. An array that stands in several places is stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from drnmf.algorithms.certificates import Certificate
from drnmf.algorithms.loop import Best
from drnmf.algorithms.result import Result, Trace
from drnmf.algorithms.updates.base import Momentum
from drnmf.algorithms.weights import Advance
from drnmf.losses.interval import Coverage

Tree = Any  # what JSON can hold

TYPES: dict[str, Callable[..., Any]] = {
    cls.__name__: cls for cls in (Momentum, Advance, Best, Result, Trace, Certificate, Coverage)
}
"""Dataclasses that may be written and read: results, and the states of rules and policies. A new state goes here."""

_NUMERIC = "biuf"


def pack(value: Any) -> tuple[Tree, dict[str, Any]]:
    """(tree, arrays) of a value made of numbers, text, None, arrays, tuples, lists, dicts and the types of `TYPES`.

    >>> tree, arrays = pack((1, np.ones(2)))
    >>> tree, arrays
    ({'tuple': [1, {'array': 'a0'}]}, {'a0': array([1., 1.])})
    >>> unpack(tree, arrays)
    (1, array([1., 1.]))
    """
    arrays: dict[str, Any] = {}
    names: dict[int, str] = {}

    def store(array: Any) -> str:
        if array.dtype.kind not in _NUMERIC:
            raise TypeError(f"an array of type {array.dtype} cannot be stored as plain data: use numbers.")
        if id(array) not in names:
            names[id(array)] = f"a{len(arrays)}"
            arrays[names[id(array)]] = array
        return names[id(array)]

    def walk(item: Any) -> Tree:
        if isinstance(item, np.ndarray):
            return {"array": store(item)}
        if isinstance(item, np.generic):  # kept apart from Python's numbers: the two promote float32 differently
            return {"scalar": store(np.asarray(item))}
        if item is None or isinstance(item, bool | int | float | str):
            return item
        if isinstance(item, tuple | list):
            return {"tuple" if isinstance(item, tuple) else "list": [walk(entry) for entry in item]}
        if isinstance(item, dict) and all(isinstance(key, str) for key in item):
            return {"dict": {key: walk(entry) for key, entry in item.items()}}
        name = type(item).__name__
        if TYPES.get(name) is type(item):
            return {"type": name, "fields": {field.name: walk(getattr(item, field.name)) for field in fields(item)}}
        raise TypeError(
            f"{item!r} of type {name} cannot be stored as plain data: use numbers, text, arrays, tuples, lists or "
            "dicts with text as keys."
        )

    return walk(value), arrays


def unpack(tree: Tree, arrays: Mapping[str, Any]) -> Any:
    """The value that `pack` was given; ValueError where the tree is not one that `pack` writes."""
    try:
        return _unpack(tree, arrays)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not the plain data of drnmf ({type(error).__name__}: {error}).") from None


def _unpack(tree: Tree, arrays: Mapping[str, Any]) -> Any:
    if not isinstance(tree, dict):
        if isinstance(tree, list):
            raise TypeError("a bare list")
        return tree
    if tree.keys() == {"type", "fields"}:
        return TYPES[tree["type"]](**{name: _unpack(entry, arrays) for name, entry in tree["fields"].items()})
    ((kind, content),) = tree.items()
    match kind:
        case "array":
            return arrays[content]
        case "scalar":
            return arrays[content][()]
        case "tuple":
            return tuple(_unpack(entry, arrays) for entry in content)
        case "list":
            return [_unpack(entry, arrays) for entry in content]
        case "dict":
            return {key: _unpack(entry, arrays) for key, entry in content.items()}
    raise KeyError(kind)


def carry(state: Any, shape: tuple[int, ...], move: Callable[[Any], Any]) -> Any:
    """The state with every factor of that shape in it moved, to the host or back to the device it lives on."""
    if is_dataclass(state) and not isinstance(state, type):
        return replace(state, **{f.name: carry(getattr(state, f.name), shape, move) for f in fields(state)})
    if isinstance(state, tuple):
        return tuple(carry(entry, shape, move) for entry in state)
    held = getattr(state, "shape", None)
    return move(state) if held is not None and tuple(held) == tuple(shape) else state
