"""X behind the protocol: choose the backend for a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from drnmf.backends.base import Data, Layer
from drnmf.backends.host.open import open_data, reopened
from drnmf.numerics import Grid

if TYPE_CHECKING:
    import torch

__all__ = ["is_dask", "open_blocks", "open_data", "open_tensor", "opened_beside", "reopened"]


def is_dask(X: object) -> bool:
    """Tell whether X is a Dask array, without importing Dask."""
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "chunks")


def open_blocks(X: Grid, mean: float | None = None) -> Data:
    """Put a Dask array behind the protocol; its entries are checked block by block."""
    from drnmf.backends.dask.arrays import blocks_of

    return cast(Data, blocks_of(X, mean))


def opened_beside(data: Data, X: Grid, mean: float | None = None) -> Data:
    """Put some rows or columns of X where X is: on its device, behind its backend, without its weights."""
    raw = data
    while isinstance(raw, Layer):
        raw = raw.data
    if not hasattr(raw, "device"):
        return reopened(raw, X, mean)
    from drnmf.backends.torch.load import load_beside

    return load_beside(raw, X, mean)


def open_tensor(X: torch.Tensor, device: str, precision: str, blocks: bool, mean: float | None = None) -> Data:
    """Put a NumPy array, a SciPy matrix or a tensor behind the protocol on a device of torch."""
    from drnmf.backends.torch.load import load

    return load(X, device, precision, blocks, mean)
