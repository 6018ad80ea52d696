"""Dense X, and factors, in the memory of this process; what differs between the backends there is the sweep."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np

from drnmf.backends.base import Ask, InOnePiece, Sweep
from drnmf.backends.entries import combined, dense_rows, row_blocks
from drnmf.backends.tiles import sweep_tiles, tiles_of
from drnmf.backends.weighted import Unweighted, UnweightedDense
from drnmf.numerics import Array, Vector


class HostSpace(InOnePiece):
    """Where factors are plain arrays and sweeps are done when they return (see `backends.base.Space`)."""

    deferred = False
    forks = True
    whole = True

    def read(self, *sweeps: Sweep) -> tuple[Sweep, ...]:
        return sweeps

    def put(self, F: Array) -> Array:
        return np.ascontiguousarray(F)

    def get(self, F: Array) -> Array:
        return F

    def join(self, state: object) -> Any:
        return state

    def split(self, whole: object) -> Any:
        return whole

    def deliver(self, F: Array) -> Array:
        return np.ascontiguousarray(F.T)


HOST = HostSpace()


@dataclass(frozen=True)
class HostMatrix(Unweighted):
    """What every matrix on the host does, whatever its layout."""

    space: ClassVar[HostSpace] = HOST
    tile_entries: ClassVar[int] = 1 << 18

    def digest(self: Any) -> str:
        return combined(self.row_digests())

    def beside(self: Any, array: Array) -> Array:
        """Take an array of weights into the dtype of X, once; integers stay."""
        return np.asarray(array, self.dtype if np.asarray(array).dtype.kind == "f" else None)


@dataclass(frozen=True)
class DenseMatrix(HostMatrix, UnweightedDense):
    """X in either order, never copied; T is a view. Sweeps tile by tile: the oracle.

    missing : how many entries are not finite, and so not observed
    scale : what entries are multiplied by as they are read
    """

    X: Array
    mean: float
    zeros: int
    missing: int = 0
    scale: float = 1.0

    @classmethod
    def of(cls, X: Array, mean: float | None = None) -> Self:
        own, zeros, missing = float(X.mean(dtype=np.float64)), int(X.size - np.count_nonzero(X)), 0
        if not np.isfinite(own):
            total, _, zeros, missing = moments(X)
            own = mean_of(X, total, missing)
        return cls(X, own if mean is None else mean, zeros, missing)

    def asked(self, ask: Ask) -> Ask:
        """Return the question under the weights of X with gaps, where there are no others."""
        return replace(ask, observed=self.observed) if self.missing and ask.observed is None else ask

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.X.shape[1]

    dtype = property(attrgetter("X.dtype"))

    @cached_property
    def T(self) -> Self:
        return replace(self, X=self.X.T)

    def sweep(self, W: Array, H: Array, ask: Ask) -> Sweep:
        return sweep_tiles(self, W, H, self.asked(ask))

    def tile(self, columns: slice) -> Array:
        tile = self.X[:, columns]
        return tile if self.scale == 1.0 else tile * self.scale

    def row_digests(self) -> Iterator[bytes]:
        """Yield the SHA-256 of every row of X, 32 bytes each (see `backends.entries`)."""
        return dense_rows(self.X)

    def column(self, j: int) -> Vector:
        return np.asarray(self.X[:, j], dtype=np.float64) * self.scale

    def dot(self, B: Array) -> Array:
        root = math.sqrt(self.scale)  # half of it on either side, where neither leaves the range of the dtype
        return (self.X @ (B * root)) * root

    def squared_norms(self) -> Vector:
        tiles = (np.square(self.tile(J), dtype=np.float64) for J in tiles_of(self))
        return np.concatenate([tile.sum(axis=0) for tile in tiles])


def moments(X: Array, scale: float = 1.0) -> tuple[float, float, int, int]:
    """Compute (sum, sum of squares, number of zeros, number of entries that are not finite) of dense X, scaled.

    The entries that are not finite have no part in the other three; a bounded block of rows is looked at at a time.
    """
    total, squares, zeros, missing = 0.0, 0.0, 0, 0
    for at in row_blocks((X.shape[0], X.shape[1]), 8):  # bytes of float64, in which they are added
        block = X[at].astype(np.float64) * scale
        seen = np.isfinite(block)
        if not seen.all():
            missing += block.size - int(np.count_nonzero(seen))
            block = block[seen]
        total += float(block.sum())
        with np.errstate(over="ignore"):  # in a unit where they are too large; a fit has another
            squares += float(np.square(block).sum())
        zeros += int(block.size - np.count_nonzero(block))
    return total, squares, zeros, missing


def mean_of(X: Array, total: float, missing: int) -> float:
    """Compute the mean of the observed entries from their sum; zero where there are none."""
    return total / (X.size - missing) if missing < X.size else 0.0
