"""X as the blocks of a model see it: all that the loop asks of data, be they a matrix or have they more modes.

A block is a factor with its components as rows. While one block moves the others stand, and the model is linear in it:
so a matrix, whose blocks are H (r, n) and W' (r, m), and a tensor differ in how a sweep is made, and in nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from drnmf.backends.base import Ask, Data, Descending, OfData, Space, Sweep
from drnmf.backends.weighted import shares_curvature
from drnmf.numerics import Array, Vector

if TYPE_CHECKING:
    from drnmf.backends.torch.load import TorchBatch

Factors = tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class Modes(OfData):
    """X with one mode for every block, in the order in which the blocks move.

    Attributes
    ----------
    data : X as a matrix; of a tensor its unfolding
    names : what penalties and constraints call the blocks
    sizes : number of columns of every block
    spaces : where every block lives; what the first one says of sweeps (`deferred`, `read`) holds for all
    shares_curvature : whether all columns of a block share the curvature of beta = 2
    reuses : whether a sweep may be written into an earlier one for the same block (`Ask.into`)
    """

    @property
    def names(self) -> tuple[str, ...]:
        raise NotImplementedError

    @property
    def sizes(self) -> tuple[int, ...]:
        raise NotImplementedError

    @property
    def spaces(self) -> tuple[Space, ...]:
        raise NotImplementedError

    @property
    def reuses(self) -> bool:
        return False

    @property
    def shares_curvature(self) -> bool:
        return shares_curvature(self.data)

    def sweep(self, block: int, blocks: Factors, ask: Ask) -> Sweep:
        """Pass over X once, at the model of all blocks: the parts and the curvature of one of them, and every loss.

        blocks : (r, columns) each, in their spaces
        """
        raise NotImplementedError

    def sum_others(self, block: int, function: Callable[[Array], Vector], blocks: Factors) -> Vector:
        """Add up a function over pieces of what stands while a block moves, (k,) float64 on the host.

        function : of (r, some columns) of the matrix G by which the model is F'G: the other block of a matrix,
            column-wise products of the other blocks of a tensor
        """
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Matrix(Modes):
    """A matrix: H moves first, then W, which is handed over as its transpose."""

    names = ("H", "W")

    @cached_property
    def sides(self) -> tuple[Data | TorchBatch, Data | TorchBatch]:
        """X for each block: the side whose columns are those of the block."""
        return self.data, self.data.T

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        m, n = self.data.shape
        return n, m

    @cached_property
    def spaces(self) -> tuple[Space, ...]:
        return tuple(side.space for side in self.sides)

    @cached_property
    def reuses(self) -> bool:
        return not self.spaces[0].deferred and self.data.observed is None

    def sweep(self, block: int, blocks: Factors, ask: Ask) -> Sweep:
        return self.sides[block].sweep(blocks[1 - block].T, blocks[block], ask)

    def descent(self, start: Descending) -> Any:
        begin = getattr(self.data, "descent", None)  # the compiled backend alone has it
        return None if begin is None else begin(start)

    def sum_others(self, block: int, function: Callable[[Array], Vector], blocks: Factors) -> Vector:
        return self.spaces[1 - block].sum(function, blocks[1 - block])
