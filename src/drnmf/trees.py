"""One walk over nested values: states of rules and policies, results, and whatever else must be stored or moved.

A tree is any nesting of tuples, lists, dicts with text keys and dataclasses; everything else is a leaf (arrays,
numbers, text, None). `flatten` takes a tree apart into its leaves and a structure that JSON can hold, `unflatten` puts
it together again.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from drnmf.numerics import Array

Structure = Any  # what JSON can hold
Types = Mapping[str, type]

LEAF = "leaf"


def flatten(tree: object, leaf: type | tuple[type, ...] = ()) -> tuple[list[object], Structure]:
    """Take a tree apart into its leaves and its structure; what is of type `leaf` stays whole.

    Leaves come from left to right, those of dicts and dataclasses by name, however a file sorts its keys.

    >>> flatten((1.0, {"a": "b"}))
    ([1.0, 'b'], {'tuple': ['leaf', {'dict': {'a': 'leaf'}}]})
    """
    found: list[object] = []

    def walk(item: object) -> Structure:
        if isinstance(item, leaf):
            found.append(item)
            return LEAF
        if isinstance(item, tuple | list):
            return {"tuple" if isinstance(item, tuple) else "list": [walk(entry) for entry in item]}
        if isinstance(item, dict) and all(isinstance(key, str) for key in item):
            return {"dict": {key: walk(item[key]) for key in sorted(item)}}
        if is_dataclass(item) and not isinstance(item, type):
            names = sorted(field.name for field in fields(item) if field.init)
            content = {name: walk(getattr(item, name)) for name in names}
            return {"type": name_of(type(item)), "fields": content}
        found.append(item)
        return LEAF

    return found, walk(tree)


def unflatten(structure: Structure, leaves: Iterable[object], types: Types | None = None, strict: bool = False) -> Any:
    """Put a tree together from its structure and its leaves, in the order of `flatten`.

    `types` maps names to dataclasses; one that is not among them is imported by name, unless `strict`. What `flatten`
    does not make is refused.

    >>> unflatten({"tuple": ["leaf", {"list": ["leaf"]}]}, [1, 2])
    (1, [2])
    """
    rest, known = iter(leaves), types or {}

    def build(item: Structure) -> object:
        if item == LEAF:
            return next(rest)
        if item.keys() == {"type", "fields"}:
            kind = known[item["type"]] if strict or item["type"] in known else imported_type(item["type"])
            return kind(**{name: build(item["fields"][name]) for name in sorted(item["fields"])})
        ((kind, content),) = item.items()
        if kind == "dict":
            return {key: build(content[key]) for key in sorted(content)}
        return {"tuple": tuple, "list": list}[kind](build(entry) for entry in content)

    try:
        tree = build(structure)
        unused = next(rest, rest)
    except (StopIteration, RuntimeError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not the structure of a tree ({type(error).__name__}: {error})") from None
    if unused is not rest:
        raise ValueError("there are more leaves than the structure has places for")
    return tree


def name_of(kind: type) -> str:
    """Name a class so that `imported_type` finds it."""
    return f"{kind.__module__}:{kind.__qualname__}"


def imported_type(name: str) -> type:
    """Import the dataclass of that name."""
    module, _, qualified = name.partition(":")
    found: object = importlib.import_module(module)
    for part in qualified.split("."):
        found = getattr(found, part)
    if not is_dataclass(found):
        raise TypeError(f"{name} is not a dataclass")
    return found  # type: ignore[return-value]


def leaves(tree: object, leaf: type | tuple[type, ...] = ()) -> Iterator[Any]:
    """Iterate over the leaves of a tree."""
    return iter(flatten(tree, leaf)[0])


def map_leaves(function: Callable[..., object], *trees: object, leaf: type | tuple[type, ...] = ()) -> Any:
    """Apply a function to every leaf of a tree, or to the leaves of several trees of one structure side by side.

    >>> map_leaves(lambda a, b: a + b, (1, [2]), (10, [20]))
    (11, [22])
    """
    parts = [flatten(tree, leaf) for tree in trees]
    return unflatten(parts[0][1], map(function, *(part[0] for part in parts)), types_in(trees[0]))


def types_in(tree: object) -> dict[str, type]:
    """Collect the dataclasses inside a tree, by name."""
    found: dict[str, type] = {}
    if is_dataclass(tree) and not isinstance(tree, type):
        found[name_of(type(tree))] = type(tree)
        tree = [getattr(tree, field.name) for field in fields(tree)]
    if isinstance(tree, tuple | list | dict):
        for entry in tree.values() if isinstance(tree, dict) else tree:
            found |= types_in(entry)
    return found


def types_beside(*objects: object) -> dict[str, type]:
    """Collect the dataclasses of some objects and of their modules: what the objects and their states may hold."""
    modules = {sys.modules.get(type(item).__module__) for item in objects} - {None}
    named = (*map(type, objects), *(entry for module in modules for entry in vars(module).values()))
    return {name_of(entry): entry for entry in named if isinstance(entry, type) and is_dataclass(entry)}


def pack(tree: object) -> tuple[Structure, dict[str, Array]]:
    """Split a tree into JSON and the arrays that it names; an array that stands in several places is stored once.

    Leaves are numbers, text, None and arrays of numbers; others are refused.

    >>> pack((1, np.ones(2)))
    ({'structure': {'tuple': ['leaf', 'leaf']}, 'leaves': [1, {'array': 'a0'}]}, {'a0': array([1., 1.])})
    """
    arrays: dict[str, Array] = {}
    names: dict[int, str] = {}

    def store(leaf: object) -> object:
        if leaf is None or (isinstance(leaf, bool | int | float | str) and not isinstance(leaf, np.generic)):
            return leaf
        array = np.asarray(leaf) if isinstance(leaf, np.generic) else leaf
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
            raise TypeError(
                f"{leaf!r} of type {type(leaf).__name__} cannot be stored: use numbers, text, arrays of numbers, "
                "tuples, lists, dicts with text as keys, or dataclasses of them."
            )
        if id(leaf) not in names:
            names[id(leaf)] = f"a{len(arrays)}"
            arrays[names[id(leaf)]] = array
        return {"scalar" if isinstance(leaf, np.generic) else "array": names[id(leaf)]}

    found, structure = flatten(tree)
    return {"structure": structure, "leaves": [store(leaf) for leaf in found]}, arrays


def unpack(content: Structure, arrays: Mapping[str, Array], types: Types | None = None, strict: bool = False) -> Any:
    """Put together what `pack` took apart; ValueError where it did not."""

    def load(leaf: object) -> object:
        if not isinstance(leaf, dict):
            return leaf
        ((kind, name),) = leaf.items()
        return arrays[name] if kind == "array" else arrays[name][()]

    try:
        return unflatten(content["structure"], [load(leaf) for leaf in content["leaves"]], types, strict)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a stored tree ({type(error).__name__}: {error})") from None
