"""Checks of single values, each with a message that names the parameter."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable


def check_integer(name: str, value: object, least: int) -> int:
    """Check an integer with a lower bound."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name}={value!r} must be an integer >= {least}.")
    return int(value)


def check_number(name: str, value: object, least: float, strict: bool = False) -> float:
    """Check a finite real number with a lower bound."""
    bound = ">" if strict else ">="
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(float(value)):
        raise ValueError(f"{name}={value!r} must be a finite number {bound} {least:g}.")
    if value < least or (strict and value == least):
        raise ValueError(f"{name}={value!r} must be {bound} {least:g}.")
    return float(value)


def check_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Check that a value is one of a few words."""
    if value not in (known := list(choices)):
        raise ValueError(f"{name}={value!r} is not known: use one of {known}.")
    return str(value)
