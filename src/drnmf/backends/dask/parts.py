"""Parts of X in blocks of rows: what every block has of each, alone or beside the others."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.base import EVERY, Data
from drnmf.backends.observed import Ones, weigh
from drnmf.backends.parted import Parted, Piece
from drnmf.backends.weighted import Tally, Weighted
from drnmf.numerics import Indices

Place = tuple[Indices, bool]
"""Rows, or columns where the second says so."""


def part_of(data: Any, at: Indices, across: bool) -> Data:
    """Return some rows (columns) of a block, under their weights, in its unit and with its mean."""
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


class SomeEntries:
    """What a block has of a part alone; taken out of the block again whenever that is read from its source."""

    def __init__(self, holder: Any, place: Place, in_memory: bool):
        self.holder, self.place = holder, place
        data: Any = self._taken(1.0, 1.0)
        self.tally: Tally = data.tally if isinstance(data, Weighted) else data.tally(data.observed or Ones(data.shape))
        self._kept: tuple[tuple[float, float], Data] | None = None
        self._keeps = in_memory

    def _taken(self, mean: float, scale: float) -> Data:
        return part_of(self.holder.data(mean, scale), *self.place)

    def data(self, mean: float, scale: float) -> Data:
        if self._kept is not None and self._kept[0] == (mean, scale):
            return self._kept[1]
        found = self._taken(mean, scale)
        if self._keeps:
            self._kept = (mean, scale), found
        return found

    def __sizeof__(self) -> int:
        return sys.getsizeof(self.holder)


class PartedRows(SomeEntries):
    """A block that answers for its share of every part; it has none of some."""

    def __init__(self, holder: Any, places: Sequence[Place], in_memory: bool):
        self.holder, self.places = holder, places
        self._kept, self._keeps = None, in_memory

    def _taken(self, mean: float, scale: float) -> Data:
        data = self.holder.data(mean, scale)
        pieces = (Piece(at, part_of(data, at, across) if len(at) else None, across) for at, across in self.places)
        return Parted(data, tuple(pieces))
