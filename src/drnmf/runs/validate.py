"""JSON against the types of the schema: where it does not fit, and what is there instead."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict


def misfit(value: Any, kind: Any, where: str = "") -> str | None:
    """Find the first place where a value is not of a type; None where it is.

    Parameters
    ----------
    value : what JSON gave
    kind : a TypedDict, list[...], dict[str, ...], a union, a Literal, or a class
    where : the name of the value, for the message

    Returns
    -------
    wrong : str or None

    Examples
    --------
    >>> misfit({"a": [1, 2.5]}, dict[str, list[float]])
    >>> misfit({"a": [1, "x"]}, dict[str, list[float]])
    "a[1] is 'x', not float"
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return None
    if origin is NotRequired:
        return misfit(value, inner[0], where)
    if is_typeddict(kind):
        return _misfit_record(value, kind, where)
    if origin in (UnionType, Union):
        wrong = [misfit(value, one, where) for one in inner]
        return None if None in wrong else wrong[0]
    if origin is Literal:
        return None if value in inner else _said(value, where, f"one of {', '.join(map(str, inner))}")
    if origin is list and isinstance(value, list):
        return _first(misfit(item, inner[0], f"{where}[{i}]") for i, item in enumerate(value))
    if origin is dict and isinstance(value, dict):
        return _first(misfit(item, inner[1], _inside(where, name)) for name, item in value.items())
    accepted = (int, float) if kind is float else NoneType if kind is None else origin or kind
    sound = isinstance(value, accepted) and (kind is bool or not isinstance(value, bool))
    return None if sound else _said(value, where, getattr(origin or kind, "__name__", str(kind)))


def _misfit_record(value: Any, kind: Any, where: str) -> str | None:
    if not isinstance(value, dict):
        return _said(value, where, "an object")
    hints = get_type_hints(kind, include_extras=True)  # annotations are text: only here is NotRequired seen
    required = {name for name in kind.__required_keys__ if get_origin(hints[name]) is not NotRequired}
    missing = sorted(required - value.keys())
    if missing:
        return f"{_inside(where, missing[0])} is missing"
    known = (name for name in value if name in hints)
    return _first(misfit(value[name], hints[name], _inside(where, name)) for name in known)


def _inside(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _first(found: Any) -> str | None:
    return next((wrong for wrong in found if wrong is not None), None)


def _said(value: Any, where: str, wanted: str) -> str:
    text = repr(value)
    return f"{where or 'it'} is {text if len(text) <= 40 else text[:37] + '...'}, not {wanted}"
