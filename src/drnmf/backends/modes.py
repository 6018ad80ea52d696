"""X as the blocks of a model see it: all that the loop asks of data, be they a matrix or have they more modes.

A block is a factor with its components as rows. While one block moves the others stand, and the model is linear in it:
so a matrix, whose blocks are H (r, n) and W' (r, m), and a tensor differ in how a sweep is made, and in nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from drnmf.backends.base import Ask, Data, Descending, Descends, OfData, Space, Sweep
from drnmf.backends.batch import Batch
from drnmf.backends.weighted import shares_curvature
from drnmf.numerics import Array, Precision, Vector

Factors = tuple[Array, ...]


class Modes(Protocol):
    """X with one mode for every block, in the order in which the blocks move."""

    @property
    def names(self) -> tuple[str, ...]:
        """What penalties and constraints call the blocks."""
        ...

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of columns of every block."""
        ...

    @property
    def spaces(self) -> tuple[Space, ...]:
        """Where every block lives; what the first one says of sweeps (`deferred`, `read`) holds for all."""
        ...

    @property
    def dtype(self) -> Precision:
        """float32 or float64, as in `Data`."""
        ...

    @property
    def mean(self) -> float:
        """Mean of the observed entries, as in `Data`."""
        ...

    @property
    def scale(self) -> float:
        """What the caller's X is multiplied by, as in `Data`."""
        ...

    @property
    def shares_curvature(self) -> bool:
        """Whether all columns of a block share the curvature of beta = 2."""
        ...

    @property
    def reuses(self) -> bool:
        """Whether a sweep may be written into an earlier one for the same block (`Ask.into`)."""
        ...

    def sweep(self, block: int, blocks: Factors, ask: Ask) -> Sweep:
        """Pass over X once, at the model of all blocks, for the parts and the curvature of one of them.

        Parameters
        ----------
        block : which one, from 0
        blocks : (r, columns) each, in their spaces
        ask : what is wanted

        Returns
        -------
        sweep : N and P (slots, r, columns) and the curvature of that block, and every loss; completed by `Space.read`
        """
        ...

    def descent(self, start: Descending) -> Descends | None:
        """Make whole iterations of coordinate descent in one call each; None where the backend cannot.

        Parameters
        ----------
        start : where they begin

        Returns
        -------
        descent : Descends or None
        """
        ...

    def sum_others(self, block: int, function: Callable[[Array], Vector], blocks: Factors) -> Vector:
        """Add up a function over pieces of what stands while a block moves.

        Parameters
        ----------
        block : the one that moves
        function : (r, some columns) -> (k,) float64; the columns are those of the matrix G by which the model is F'G,
            the other block of a matrix, column-wise products of the other blocks of a tensor
        blocks : all of them

        Returns
        -------
        total : (k,) float64, on the host
        """
        ...


@dataclass(frozen=True, eq=False)
class Matrix(OfData):
    """A matrix: H moves first, then W, which is handed over as its transpose."""

    names = ("H", "W")

    @cached_property
    def sides(self) -> tuple[Data | Batch, Data | Batch]:
        """X for each block: the side whose columns are those of the block."""
        return self.data, self.data.T

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        m, n = self.data.shape
        return n, m

    @cached_property
    def spaces(self) -> tuple[Space, ...]:
        return tuple(side.space for side in self.sides)

    @property
    def shares_curvature(self) -> bool:
        return shares_curvature(self.data)

    @cached_property
    def reuses(self) -> bool:
        return not self.spaces[0].deferred and self.data.observed is None

    def sweep(self, block: int, blocks: Factors, ask: Ask) -> Sweep:
        return self.sides[block].sweep(blocks[1 - block].T, blocks[block], ask)

    def descent(self, start: Descending) -> Descends | None:
        begin = getattr(self.data, "descent", None)  # the compiled backend alone has it
        return None if begin is None else begin(start)

    def sum_others(self, block: int, function: Callable[[Array], Vector], blocks: Factors) -> Vector:
        return self.spaces[1 - block].sum(function, blocks[1 - block])
