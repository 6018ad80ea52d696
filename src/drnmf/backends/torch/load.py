"""X onto a device of torch: copied there once, or kept in host memory and streamed, with room checked first."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from drnmf.backends.base import Data
from drnmf.backends.torch.dense import TorchDense
from drnmf.backends.torch.sparse import TorchSparse
from drnmf.backends.torch.stream import TorchStreamed
from drnmf.numerics import Array

_SPARSE_FACTOR = 4  # values, indices and the sort, by column and by row


def load(X: torch.Tensor | Array, device: str, precision: str, blocks: bool, mean: float | None) -> Data:
    """X (NumPy, SciPy, or a tensor anywhere) as a Data on `device`."""
    if sp.issparse(X) or (isinstance(X, torch.Tensor) and X.layout != torch.strided):
        if blocks:
            raise ValueError("device='cuda-blocks' streams dense X only: use device='cuda' for sparse X.")
        _make_room(_SPARSE_FACTOR * _bytes_of(X), device, "sparse X in both orders", "a GPU with more memory")
        return TorchSparse.of(X, mean, device)
    tensor = X if isinstance(X, torch.Tensor) else torch.from_numpy(_positive_strides(X))
    if blocks:
        return TorchStreamed.of(tensor, device, mean, precision)
    if tensor.device != torch.device(device) and tensor.device.type != torch.device(device).type:
        _make_room(_bytes_of(tensor), device, "X", "device='cuda-blocks', which streams X from host memory in blocks")
        tensor = tensor.to(device)
    return TorchDense.of(tensor, mean, precision)


def load_beside(data: Any, X: torch.Tensor | Array, mean: float | None) -> Data:
    """Other entries as a Data on the device of one, read as it is."""
    streamed = isinstance(data, TorchStreamed)
    precision = data.precision if streamed else "tf32" if getattr(data, "fast", False) else "float32"
    return load(X, str(data.device), precision, streamed, mean)


def _positive_strides(X: Array) -> Array:
    return X if all(stride > 0 for stride in X.strides) else np.ascontiguousarray(X)


def _bytes_of(X: Any) -> int:
    """Bytes of X."""
    if isinstance(X, torch.Tensor):
        count = X.numel() if X.layout == torch.strided else X._nnz() * 3
        return count * X.element_size()
    return int(X.data.nbytes) * 3


def _make_room(needed: int, device: str, what: str, instead: str) -> None:
    """Refuse before the allocator does, in words that say what to do."""
    if torch.device(device).type != "cuda":
        return
    free, total = torch.cuda.mem_get_info(device)
    if needed > free:
        raise MemoryError(
            f"{what} needs {needed / 2**30:.1f} GiB on {device}, which has {free / 2**30:.1f} of "
            f"{total / 2**30:.1f} GiB free: use {instead}, or X in float16 (half the bytes)."
        )
