"""BLAS kept to one thread inside a fit.

A BLAS product may add in another order for another number of threads. The products left in Python are
small, so one thread costs nothing there, results do not depend on the thread count, and BLAS's pool does not
spin against the core's own.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def single_blas() -> AbstractContextManager[object]:
    """Context in which BLAS runs on one thread; the caller's setting comes back afterwards."""
    return _controller().limit(limits=1, user_api="blas")
