r"""What a block sends up for H: its part of every sum, and no number that the receiver can make itself.

.. math:: P_1 = W^T 1, \qquad P_2 = W^T W H

so beta = 1 needs r numbers and beta = 2 needs r^2, where any other loss needs r n. The curvature, where a rule asks for
it, is r (r + 1) / 2 numbers for every column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.base import EVERY, Ask, Data, Sweep
from drnmf.backends.observed import weigh
from drnmf.backends.parted import Parted, Piece
from drnmf.backends.weighted import Sums, Weighted
from drnmf.losses.base import OfEntries
from drnmf.numerics import Array, Indices, Vector

_COLUMNS = 1 << 14  # rows of W that W'W takes at a time


@dataclass(frozen=True, eq=False)
class PartialSums(Sums):
    """The sums over one block, or over several.

    losses : (p,)
    N : (slots, r, n)
    P : (slots that need more than free parts, r, n)
    sums, gram : W' 1 (r,) and W'W (r, r), float64; empty where nobody needs them
    Q : (r (r + 1) / 2, n), empty where nobody needs it
    """

    losses: Vector
    N: Array
    P: Array
    sums: Vector
    gram: Vector
    Q: Array

    def __sizeof__(self) -> int:
        """Bytes as Dask's memory accounts see them."""
        return 64 + self.nbytes

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, name).nbytes for name in self.__dataclass_fields__)


def sent_slots(ask: Ask) -> list[int]:
    """List the slots whose P must be sent.

    >>> from drnmf.losses.beta import IS, KL, FROBENIUS
    >>> sent_slots(Ask((IS, KL))), sent_slots(Ask((KL, FROBENIUS), np.array([0.5, 0.5])))
    ([0], [])
    """
    # under weights of the entries no part is free: W'M is as large as any other
    far = [b for b, loss in enumerate(ask.omega) if loss.free_part is None or ask.observed is not None]
    if ask.weights is not None:
        return [0] if any(ask.weights[b] != 0 for b in far) else []
    return far if ask.parts is not None else []


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
    """The sweep whose parts belong to H, as the block's part of it."""

    ask: Ask

    @property
    def of_parts(self) -> bool:
        """Whether objectives are of parts or rows of X, whose weights leave nothing free."""
        return any(isinstance(loss, OfEntries) for loss in self.ask.omega)

    def __call__(self, data: Data, A: Array, H: Array, rows: slice) -> PartialSums:
        sweep, ask = data.sweep(A.T, H, self.ask.within(rows)), self.ask
        far, empty = sent_slots(ask), np.empty(0)
        if self.of_parts:
            gram = empty if sweep.gram is None else sweep.gram
            return PartialSums(sweep.losses, sweep.N, sweep.P, empty, gram, empty if sweep.Q is None else sweep.Q)
        free = {loss.free_part for loss in ask.omega} if len(far) < ask.slots or ask.shared is not None else set()
        sums = A.sum(axis=1, dtype=np.float64) if "sums" in free else empty
        gram = _gram(A) if "gram" in free else empty
        return PartialSums(sweep.losses, sweep.N, sweep.P[far], sums, gram, empty if sweep.Q is None else sweep.Q)

    def restore(self, sums: PartialSums, H: Array) -> Sweep:
        """Make the sweep over all rows from the sums over all blocks."""
        Q = sums.Q if sums.Q.size else None
        if self.of_parts:
            return Sweep(sums.losses, sums.N, sums.P, Q, sums.gram if sums.gram.size else None)
        shared = None if self.ask.shared is None else self.ask.shared * sums.gram
        if self.ask.shared_alone:
            return Sweep(sums.losses, sums.N, sums.P, None, shared)
        far = sent_slots(self.ask)
        P = np.empty_like(sums.N)
        P[far] = sums.P
        for slot in sorted(set(range(len(P))) - set(far)):
            P[slot] = self._free_part(slot, sums, H)
        return Sweep(sums.losses, sums.N, P, Q, shared)

    def _free_part(self, slot: int, sums: PartialSums, H: Array) -> Array:
        """sum_b weights_b P_b of a slot, from W' 1 and W'W."""
        weights = np.eye(len(self.ask.omega))[slot] if self.ask.weights is None else self.ask.weights
        total = np.zeros(H.shape, H.dtype)
        for weight, loss in zip(weights, self.ask.omega, strict=True):
            if loss.free_part == "sums" and weight != 0:
                total += (weight * sums.sums).astype(H.dtype)[:, None]
            elif loss.free_part == "gram" and weight != 0:
                total += (weight * sums.gram).astype(H.dtype) @ H
        return total


def losses_alone(sweep: Sweep) -> PartialSums:
    """Keep what goes up of a sweep whose parts stay with the rows of W."""
    empty = np.empty(0)
    return PartialSums(sweep.losses, empty, empty, empty, empty, empty)


Place = tuple[Indices, bool]
"""Rows, or columns where the second says so."""


def part_of(data: Any, place: Place) -> Data:
    """Return some rows (columns) of a block, under their weights, in its unit and with its mean."""
    at, across = place
    raw = data.data if isinstance(data, Weighted) else data
    X = raw.by_row.T if hasattr(raw, "by_row") else raw.X
    some = X[:, at] if across else X[at]
    if sp.issparse(some):  # whose values are multiplied already
        part = replace(type(raw).of(some, raw.mean), scale=raw.scale)
    else:
        part = type(raw).of(np.ascontiguousarray(some), raw.mean / raw.scale).scaled(raw.scale)
    if raw is data:
        return part
    observed = data.observed.within(EVERY, at) if across else data.observed.within(at)
    return weigh(part, observed, raw.mean)


def parted_rows(data: Data, places: Sequence[Place]) -> Parted:
    """Let a block answer for its share of every part; it has none of some."""
    some = (Piece(place[0], part_of(data, place) if len(place[0]) else None, place[1]) for place in places)
    return Parted(data, tuple(some))
