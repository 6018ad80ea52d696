"""Modules imported once they are asked for: public names of a package, what a table places, optional packages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from types import ModuleType
from typing import Any


def lazily(package: str, names: Mapping[str, Iterable[str]]) -> Callable[[str], object]:
    """Make the `__getattr__` of a package that loads a public name, listed under its module, when it is first used.

    `drnmf --help` imports the package, and need not wait for SciPy and scikit-learn.
    """
    module_of = {name: module for module, public in names.items() for name in public}

    def load(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{module_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load


_taking = Lock()
"""So that of two threads neither takes a stand-in away that is the module by then."""


class _StandIn(ModuleType):
    """In the place of a module that is imported once something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        self.leave()
        return getattr(import_module(self.__name__), name)

    def leave(self) -> None:
        """Leave the place to the module itself."""
        with _taking:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]


@contextmanager
def later(*names: str) -> Iterator[None]:
    """Let what a block imports hold these modules without having run them.

    After the block others import them as ever. One that is imported already, or not installed, is as it was.
    """
    waiting = []
    for name in names:
        spec = None if name in sys.modules else find_spec(name)
        if spec is not None:
            module = sys.modules[name] = _StandIn(name)
            module.__spec__ = spec  # others ask `find_spec` whether it is installed
            waiting.append(module)
    try:
        yield
    finally:
        for module in waiting:
            module.leave()


def load(place: str) -> Any:
    """Import what stands at a place, "module:name".

    >>> load("drnmf.runs.schema:SUMMARY")
    'summary.json'
    """
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def needs(module: str, extra: str, purpose: str = "to read this") -> ModuleType:
    """Import an optional library, or say what it is needed for and how to get it."""
    try:
        return import_module(module)
    except (ImportError, OSError) as error:  # OSError: soundfile is there, libsndfile is not
        raise ImportError(f"{module} is needed {purpose} ({error}): pip install 'drnmf[{extra}]'.") from None
