"""Threads of the compiled core, and how threadpoolctl finds them.

The number of threads never changes a result. It starts from OMP_NUM_THREADS, else from the CPUs this process may use;
``threadpoolctl.threadpool_limits(1)`` and joblib's workers lower it like any other pool's.
"""

from __future__ import annotations

import threadpoolctl

from drnmf import _core


class DrnmfController(threadpoolctl.LibController):  # type: ignore[misc]
    """What threadpoolctl needs to see the core among the loaded libraries."""

    user_api = "drnmf"
    internal_api = "drnmf"
    filename_prefixes = ("_core",)
    check_symbols = ("drnmf_get_num_threads", "drnmf_set_num_threads")

    def get_num_threads(self) -> int:
        return int(self.dynlib.drnmf_get_num_threads())

    def set_num_threads(self, num_threads: int) -> None:
        self.dynlib.drnmf_set_num_threads(num_threads)

    def get_version(self) -> None:
        return None

    def set_additional_attributes(self) -> None:
        self.instruction_set = _core.instruction_set()


def register() -> None:
    """Make the core known to threadpoolctl (once; again does no harm)."""
    threadpoolctl.register(DrnmfController)


def get_num_threads() -> int:
    """Threads a sweep may use."""
    return _core.get_num_threads()


def set_num_threads(count: int) -> None:
    """Let sweeps use `count` threads (at least one)."""
    if count < 1:
        raise ValueError(f"count={count} is not a number of threads: use 1 or more.")
    _core.set_num_threads(count)
