"""W as a Dask array over the blocks it lives in."""

from __future__ import annotations

import weakref
from typing import Any

import dask.array as da
import numpy as np

from drnmf.backends.dask import cluster
from drnmf.backends.dask.nodes import pick
from drnmf.numerics import Array, Precision


def as_array(F: Any) -> da.Array:
    """Return W (m, r) as a Dask array that nobody has computed yet. Files beneath it stay as long as the array."""
    stored = F.data.settled(F.node)
    parts = [cluster.task("rows", _take, block, stored.position, F.key) for block in stored.tuples]
    array = stacked(parts, F.data.sizes, F.rank, F.dtype)
    weakref.finalize(array, stored.files.__len__)
    return array


def _take(kept: Any, position: int, key: Any) -> Any:
    return np.ascontiguousarray(pick(kept[position], key).T)


def stacked(parts: list[Array], sizes: tuple[int, ...], rank: int, dtype: Precision) -> da.Array:
    """Stack lazy blocks of rows into one lazy array."""
    blocks = [da.from_delayed(part, (size, rank), dtype) for part, size in zip(parts, sizes, strict=True)]
    return da.concatenate(blocks, axis=0)
