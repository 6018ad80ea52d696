"""X behind the protocol: choose the backend for a matrix, and how many runs see it at once."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, cast

from drnmf.backends.base import Data, Layer
from drnmf.backends.host import in_single as in_single
from drnmf.backends.host import open_data as open_data
from drnmf.backends.host import reopened as reopened
from drnmf.losses.base import Omega
from drnmf.numerics import Grid

if TYPE_CHECKING:
    import torch

    from drnmf.backends.torch.load import TorchBatch

LARGEST = 1 << 20
"""Entries of X from which a run fills a GPU by itself."""
MOST_ENTRIES = 1 << 26
"""Entries of X that all runs of a batch see together."""
MOST_RUNS = 128


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


def largest_batch(entries: int) -> int:
    """Say how many runs of an X with so many entries to make at once; one where X is large.

    >>> largest_batch(96 * 540), largest_batch(10**7)
    (128, 1)
    """
    return 1 if entries > LARGEST else min(MOST_RUNS, MOST_ENTRIES // max(1, entries))


def batch_kind(data: Data) -> Hashable:
    """Say what matrices must have in common for their runs to be made at once.

    None where they cannot be: X must be dense, small and without gaps, on a device of torch.
    """
    if "torch" not in sys.modules:
        return None
    from drnmf.backends.torch.dense import TorchDense

    if not isinstance(data, TorchDense) or data.observed is not None or largest_batch(data.X.numel()) == 1:
        return None
    return data.shape, data.working, data.device, data.fused, data.fast


def batch_of(data: Sequence[Data], omega: Omega) -> TorchBatch:
    """Return the matrices of several runs, one each and of one `batch_kind`, as one, for losses that will be asked for.

    A sweep over a small X is shorter than what it costs to begin one on a GPU; begun once for all runs it costs each of
    them next to nothing.
    """
    from drnmf.backends.torch.load import TorchBatch

    return TorchBatch.of(data, omega)
