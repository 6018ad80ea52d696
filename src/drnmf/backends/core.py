"""The compiled extension, where it was built and is in use, and BLAS, kept to one thread inside a fit.

A BLAS product may add in another order for another number of threads. The products left in Python are small, so one
thread costs nothing there, results do not depend on the thread count, and BLAS's pool does not spin against the core's
own.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import LibController, ThreadpoolController

logger = logging.getLogger("drnmf")


@cache
def default_backend() -> str:
    """Name the compiled extension where it was built, else NumPy; say once in the log when it is NumPy."""
    try:
        import drnmf._core  # noqa: F401
    except ImportError as error:
        logger.warning("The compiled extension is not available (%s): NumPy is used, which is slower.", error)
        return "numpy"
    return "native"


def chosen_backend() -> str:
    """Name the backend for arrays of this process: the environment variable DRNMF_BACKEND, else the default."""
    return os.environ.get("DRNMF_BACKEND") or default_backend()


def native_core() -> Any:
    """Return the compiled extension where it is in use, else None."""
    if chosen_backend() != "native":
        return None
    from drnmf import _core

    return _core


@cache
def _libraries() -> list[LibController]:
    """The BLAS libraries of this process: looking for them takes as long as many small fits."""
    libraries: list[LibController] = ThreadpoolController().select(user_api="blas").lib_controllers
    return libraries


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
