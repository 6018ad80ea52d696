"""Applications: each has its data, its commands and the sections of its pages, and nothing outside imports it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, names: Mapping[str, Iterable[str]]) -> Callable[[str], object]:
    """Make the `__getattr__` of a package that loads a public name, listed under its module, when it is first used.

    `drnmf separate --help` imports the package of its command, and need not wait for SciPy.
    """
    module_of = {name: module for module, public in names.items() for name in public}

    def load(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{module_of[name]}"), name)

    return load
