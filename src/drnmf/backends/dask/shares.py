r"""What a block sends up for H: its share of every sum, and no number that the receiver can make itself.

.. math:: P_1 = W^T 1, \qquad P_2 = W^T W H

so beta = 1 needs r numbers and beta = 2 needs r^2, where any other beta needs r n. The curvature, where a rule asks for
it, is r (r + 1) / 2 numbers for every column.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drnmf.backends.base import Data, Sweep
from drnmf.backends.dask.nodes import Rows
from drnmf.numerics import Array, Vector

_SMALL = (1.0, 2.0)
_COLUMNS = 1 << 14  # rows of W that W'W takes at a time


@dataclass(frozen=True, eq=False)
class Share:
    """One block's share, or the sum of several.

    losses : (p,)
    N : (q, r, n)
    P : (rows of the mix that reach beyond beta = 1 and 2, r, n)
    sums, gram : W' 1 (r,) and W'W (r, r), float64; empty where nobody needs them
    Q : (r (r + 1) / 2, n), empty where nobody needs it
    """

    losses: Vector
    N: Array
    P: Array
    sums: Vector
    gram: Vector
    Q: Array

    def __add__(self, other: Share) -> Share:
        return Share(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def __sizeof__(self) -> int:
        """Bytes as Dask's memory accounts see them."""
        return 64 + self.nbytes

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, name).nbytes for name in self.__dataclass_fields__)


def travels(betas: tuple[float, ...], mix: Vector) -> list[int]:
    """The rows of the mix whose P must be sent.

    >>> travels((0.0, 1.0), np.eye(2)), travels((1.0, 2.0), np.array([[0.5, 0.5]]))
    ([0], [])
    """
    far = [b for b, beta in enumerate(betas) if beta not in _SMALL]
    return [q for q in range(mix.shape[0]) if np.any(mix[q, far] != 0)]


def _gram(A: Array) -> Vector:
    """W'W in float64 from A = W' (r, rows), a slab at a time."""
    total = np.zeros((A.shape[0], A.shape[0]))
    buffer = np.empty((A.shape[0], min(_COLUMNS, A.shape[1])))  # one for all: fresh pages cost more than the product
    for start in range(0, A.shape[1], _COLUMNS):
        rows = A[:, start : start + _COLUMNS]
        slab = buffer[:, : rows.shape[1]]
        slab[...] = rows
        total += slab @ slab.T
    return total


@dataclass(frozen=True)
class SweepColumns:
    """The sweep whose parts belong to H, as the block's share of it."""

    betas: tuple[float, ...]
    mix: Vector
    losses: bool
    curvature: Vector | None

    def __call__(self, data: Data, rows: Rows, H: Array) -> Share:
        sweep = data.sweep(rows.A.T, H, self.betas, self.mix, losses=self.losses, curvature=self.curvature)
        far, empty = travels(self.betas, self.mix), np.empty(0)
        small = len(far) < self.mix.shape[0]
        sums = rows.A.sum(axis=1, dtype=np.float64) if small and 1.0 in self.betas else empty
        gram = _gram(rows.A) if 2.0 in self.betas and (small or self.curvature is not None) else empty
        return Share(sweep.losses, sweep.N, sweep.P[far], sums, gram, empty if sweep.Q is None else sweep.Q)

    def restore(self, share: Share, H: Array) -> Sweep:
        """The sweep over all rows from the sum of all shares."""
        if self.curvature is not None and self.betas == (2.0,):
            return Sweep(share.losses, share.N, share.P, None, self.curvature[0] * share.gram)
        far = travels(self.betas, self.mix)
        P = np.empty_like(share.N)
        P[far] = share.P
        for q in sorted(set(range(len(P))) - set(far)):
            P[q] = self._small_part(self.mix[q], share, H)
        if self.curvature is None:
            return Sweep(share.losses, share.N, P)
        shared = self.curvature[self.betas.index(2.0)] * share.gram if 2.0 in self.betas else None
        return Sweep(share.losses, share.N, P, share.Q, shared)

    def _small_part(self, weights: Vector, share: Share, H: Array) -> Array:
        """sum_b weights_b P_b, from W' 1 and W'W."""
        total = np.zeros(H.shape, H.dtype)
        for weight, beta in zip(weights, self.betas, strict=True):
            if beta == 1.0 and weight != 0:
                total += (weight * share.sums).astype(H.dtype)[:, None]
            elif beta == 2.0 and weight != 0:
                total += (weight * share.gram).astype(H.dtype) @ H
        return total


def losses_alone(sweep: Sweep) -> Share:
    """What goes up of a sweep whose parts stay with the rows of W."""
    empty = np.empty(0)
    return Share(sweep.losses, empty, empty, empty, empty, empty)


def as_it_is(share: Share) -> Share:
    """A share that goes up whole."""
    return share
