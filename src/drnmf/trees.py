"""One walk over nested values: states of rules and policies, results, and whatever else must be stored or moved.

A tree is any nesting of tuples, lists, dicts with text keys and dataclasses; everything else is a leaf (arrays, numbers,
text, None). `flatten` takes a tree apart into its leaves and a structure that JSON can hold, `unflatten` puts it
together again.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

Structure = Any  # what JSON can hold
Types = Callable[[str], type]

LEAF = "leaf"


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """Take a tree apart into its leaves, from left to right, and its structure.

    >>> flatten((1.0, {"a": "b"}))
    ([1.0, 'b'], {'tuple': ['leaf', {'dict': {'a': 'leaf'}}]})
    """
    found: list[Any] = []

    def walk(item: Any) -> Structure:
        if isinstance(item, tuple | list):
            return {"tuple" if isinstance(item, tuple) else "list": [walk(entry) for entry in item]}
        if isinstance(item, dict) and all(isinstance(key, str) for key in item):
            return {"dict": {key: walk(entry) for key, entry in item.items()}}
        if is_dataclass(item) and not isinstance(item, type):
            content = {field.name: walk(getattr(item, field.name)) for field in fields(item) if field.init}
            return {"type": name_of(type(item)), "fields": content}
        found.append(item)
        return LEAF

    return found, walk(tree)


def unflatten(structure: Structure, leaves: Iterable[Any], types: Types | None = None) -> Any:
    """Put a tree together from its structure and its leaves.

    Parameters
    ----------
    structure : what `flatten` returned
    leaves : iterable, in the order of `flatten`
    types : function from the name of a dataclass to the class; None imports the module that the name begins with

    Raises
    ------
    ValueError
        Where the structure is not one that `flatten` makes, or the number of leaves is another.

    Examples
    --------
    >>> unflatten({"tuple": ["leaf", {"list": ["leaf"]}]}, [1, 2])
    (1, [2])
    """
    rest, find = iter(leaves), types or imported_type

    def build(item: Structure) -> Any:
        if item == LEAF:
            return next(rest)
        if item.keys() == {"type", "fields"}:
            return find(item["type"])(**{name: build(entry) for name, entry in item["fields"].items()})
        ((kind, content),) = item.items()
        if kind == "dict":
            return {key: build(entry) for key, entry in content.items()}
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
    found: Any = importlib.import_module(module)
    for part in qualified.split("."):
        found = getattr(found, part)
    if not is_dataclass(found):
        raise TypeError(f"{name} is not a dataclass")
    return found  # type: ignore[return-value]


def leaves(tree: Any) -> Iterator[Any]:
    """Iterate over the leaves of a tree."""
    return iter(flatten(tree)[0])


def map_leaves(function: Callable[..., Any], *trees: Any) -> Any:
    """Apply a function to every leaf of a tree, or to the leaves of several trees of one structure side by side.

    >>> map_leaves(lambda a, b: a + b, (1, [2]), (10, [20]))
    (11, [22])
    """
    if not isinstance(trees[0], tuple | list | dict) and not is_dataclass(trees[0]):
        return function(*trees)  # a leaf by itself
    parts = [flatten(tree) for tree in trees]
    kinds = {name_of(type(node)): type(node) for tree in trees for node in _dataclasses(tree)}
    return unflatten(parts[0][1], map(function, *(part[0] for part in parts)), kinds.__getitem__)


def _dataclasses(tree: Any) -> Iterator[Any]:
    """Every dataclass inside a tree, itself included."""
    if is_dataclass(tree) and not isinstance(tree, type):
        yield tree
        tree = [getattr(tree, field.name) for field in fields(tree)]
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, tuple | list):
        for entry in tree:
            yield from _dataclasses(entry)
