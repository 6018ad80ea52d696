"""The compiled extension, where it was built and is in use."""

from __future__ import annotations

import logging
import os
from functools import cache
from typing import Any

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
