"""BLAS kept to one thread inside a fit.

A BLAS product may add in another order for another number of threads. The products left in Python are
small, so one thread costs nothing there, results do not depend on the thread count, and BLAS's pool does not
spin against the core's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _libraries() -> list[Any]:
    """The BLAS libraries of this process: looking for them takes as long as many small fits."""
    found: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return found


@contextmanager
def single_blas() -> Iterator[None]:
    """Context in which BLAS runs on one thread; the caller's setting comes back afterwards."""
    before = [(library, library.get_num_threads()) for library in _libraries()]
    try:
        for library, _ in before:
            library.set_num_threads(1)
        yield
    finally:
        for library, threads in before:
            library.set_num_threads(threads)
