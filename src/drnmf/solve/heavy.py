"""The heaviest rows of a stream under beta = 2: a handful of them may be most of its squares.

Sums fade because what a batch says of H belongs to the H at which its W was found. Of light rows others like them come
soon; a heavy one comes once, and with it would fade much of the loss. So a few of them are kept, their W is found anew
under every H, and takes the place of the one before in the sums.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.base import Data
from drnmf.numerics import Array, Indices, Vector

HEAVY = 8.0
"""How many times the mean of its batch the squares of a row are that is worth keeping."""

ROUNDING = 1e-9
"""By how much the squares of one row may differ, added up in another order."""

OF_A_COMPONENT = 4
"""Rows that are kept for each component, at most."""


def _none() -> Any:
    return np.empty(0)


@dataclass(frozen=True)
class Heavy:
    """Rows that count by themselves, in the unit of the stream."""

    rows: tuple[tuple[Indices, Array], ...] = ()  # (columns, values) of what each stores, in order
    squares: Vector = field(default_factory=_none)  # (k,) the squared norm of each
    shares: Vector = field(default_factory=_none)  # (k,) how much each counts in the means over rows
    A: Any = field(default_factory=lambda: np.empty((0, 0)))  # (r, k) W' with which they are in the sums

    def matrix(self, columns: int) -> sp.csr_array:
        """Return the rows as a matrix."""
        at, values = (np.concatenate(part) for part in zip(*self.rows, strict=True))
        ends = np.cumsum([0, *(len(own) for own, _ in self.rows)])
        return sp.csr_array((values, at, ends), shape=(len(self.rows), columns))

    def longer(self) -> Heavy:
        """Return the same with one component more, of which no row has anything."""
        return replace(self, A=np.pad(self.A, ((0, 1), (0, 0)))) if self.rows else self


def gathered(heavy: Heavy, data: Data, weights: Any, share: float, rank: int) -> tuple[Heavy, Vector, Indices]:
    """Return the heaviest of the rows that were kept and of those of a batch.

    `weights` are of its rows, or one for all; `share` is that of the batch in means over rows in which none fades but
    by what is forgotten. Returns the rows now, A as it was and zero of new ones; the shares of before, zero of new
    ones; and where each is in the batch, -1 where it is not. One that comes again is known by its entries.
    """
    with np.errstate(over="ignore"):  # what leaves the range of float64 is refused by its loss
        own = data.T.starts.squared_norms()
        weights = np.broadcast_to(weights, own.shape)
        most, sizes = OF_A_COMPONENT * rank, own * weights
    faded, full = (1.0 - share) * heavy.shares, len(heavy.rows) == most
    again, enough = (heavy.squares.min(), (heavy.squares * faded).min()) if full else (0.0, 0.0)
    entering = (own >= again) | (sizes * (share / len(own)) > enough)  # one that is kept already, or could be
    some = np.flatnonzero((sizes > HEAVY * sizes.mean()) & entering)
    rows, before, squares, own = [*heavy.rows], heavy.squares, heavy.squares.tolist(), own.tolist()
    shares, at = faded.tolist(), [-1] * len(rows)
    for i in some[np.argsort(-sizes[some], kind="stable")][:most].tolist():
        x = data.T.starts.column(i)
        columns = np.flatnonzero(x != 0.0)  # of booleans: four times as fast as of numbers
        values = x[columns].astype(data.dtype)
        near = np.flatnonzero(abs(before - own[i]) <= ROUNDING * own[i]).tolist()
        same = (k for k in near if at[k] < 0 and all(map(np.array_equal, rows[k], (columns, values))))
        k = next(same, len(rows))
        if k == len(rows):
            rows, squares, shares, at = [*rows, (columns, values)], [*squares, own[i]], [*shares, 0.0], [*at, -1]
        shares[k] += share / len(own) * weights[i]
        at[k] = i
    kept = np.sort(np.argsort(-np.multiply(squares, shares), kind="stable")[:most])
    new = len(rows) - len(heavy.rows)
    were, A = np.pad(heavy.shares, (0, new)), np.zeros((rank, len(rows)), data.dtype)
    A[:, : len(heavy.rows)] = heavy.A if heavy.rows else 0.0
    now = Heavy(tuple(rows[k] for k in kept), np.array(squares)[kept], np.array(shares)[kept], A[:, kept])
    return now, were[kept], np.array(at, int)[kept]
