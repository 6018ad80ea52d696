"""X behind the protocol: choose the backend for a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from drnmf.backends.base import Data
from drnmf.backends.host.open import open_data, reopened
from drnmf.numerics import Grid

if TYPE_CHECKING:
    import torch

__all__ = ["is_dask", "open_blocks", "open_data", "open_tensor", "reopened"]


def is_dask(X: object) -> bool:
    """Tell whether X is a Dask array, without importing Dask."""
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "chunks")


def open_blocks(X: Grid, mean: float | None = None) -> Data:
    """Put a Dask array behind the protocol; its entries are checked block by block."""
    from drnmf.backends.dask.arrays import blocks_of

    return cast(Data, blocks_of(X, mean))


def open_tensor(X: torch.Tensor, device: str, precision: str, blocks: bool, mean: float | None = None) -> Data:
    """Put a NumPy array, a SciPy matrix or a tensor behind the protocol on a device of torch."""
    from drnmf.backends.torch.load import load

    return load(X, device, precision, blocks, mean)
