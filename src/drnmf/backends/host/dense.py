"""Dense X in the memory of this process; what differs between the backends there is the sweep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from drnmf.backends.base import Ask, Sweep
from drnmf.backends.digest import combined, dense_rows
from drnmf.backends.entries import first_zero
from drnmf.backends.host.space import HOST, HostSpace, draw_uniform
from drnmf.backends.tiles import sweep_tiles
from drnmf.numerics import Array, Vector


@dataclass(frozen=True)
class HostMatrix:
    """What every matrix on the host does, whatever its layout."""

    space: ClassVar[HostSpace] = HOST
    tile_entries: ClassVar[int] = 1 << 18

    shape: ClassVar[tuple[int, int]]
    dtype: ClassVar[np.dtype[Any]]

    def row_digests(self) -> Iterator[bytes]:
        """Yield the SHA-256 of every row of X, 32 bytes each (see `backends.digest`)."""
        raise NotImplementedError

    def digest(self) -> str:
        return combined(self.row_digests())

    def draw(
        self, rank: int, rng: np.random.RandomState, scale: Callable[[float], float], floor: float
    ) -> tuple[Array, Array]:
        return draw_uniform(self.shape, self.dtype, rank, rng, scale, floor)

    def map_rows(self, function: Callable[[Any], Array], rank: int) -> Array:
        return function(self)

    def status(self) -> str:
        return ""


@dataclass(frozen=True)
class DenseMatrix(HostMatrix):
    """X in either order, never copied; T is a view. Sweeps tile by tile: the oracle."""

    X: Array
    mean: float
    zeros: int

    @classmethod
    def of(cls, X: Array, mean: float | None = None) -> Self:
        own = float(X.mean(dtype=np.float64)) if mean is None else mean
        return cls(X, own, int(X.size - np.count_nonzero(X)))

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return self.X.shape[0], self.X.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        return self.X.dtype

    @cached_property
    def T(self) -> Self:
        return replace(self, X=self.X.T)

    def sweep(self, W: Array, H: Array, ask: Ask) -> Sweep:
        return sweep_tiles(self, W, H, ask)

    def tile(self, columns: slice) -> Array:
        return self.X[:, columns]

    def first_zero(self) -> tuple[int, int]:
        return first_zero(self.X)

    def row_digests(self) -> Iterator[bytes]:
        return dense_rows(self.X)

    def column(self, j: int) -> Vector:
        return np.asarray(self.X[:, j], dtype=np.float64)

    def dot(self, B: Array) -> Array:
        return self.X @ B

    def squared_norms(self) -> Vector:
        return np.einsum("ij,ij->j", self.X, self.X, dtype=np.float64)
