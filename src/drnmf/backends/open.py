"""X behind the protocol: choose the backend for a matrix."""

from __future__ import annotations

from typing import Any, cast

from drnmf.backends.base import Data
from drnmf.backends.host.open import open_data, reopened

__all__ = ["is_dask", "open_blocks", "open_data", "open_tensor", "reopened"]


def is_dask(X: Any) -> bool:
    """Tell whether X is a Dask array, without importing Dask."""
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "chunks")


def open_blocks(X: Any, mean: float | None = None) -> Data:
    """Put a Dask array behind the protocol; its entries are checked block by block."""
    from drnmf.backends.dask.arrays import blocks_of

    return cast(Data, blocks_of(X, mean))


def open_tensor(X: Any, device: str, precision: str, blocks: bool, mean: float | None = None) -> Data:
    """Put a NumPy array, a SciPy matrix or a tensor behind the protocol on a device of torch."""
    from drnmf.backends.torch.load import load

    return load(X, device, precision, blocks, mean)
