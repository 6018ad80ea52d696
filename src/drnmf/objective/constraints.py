"""Constraints on the factors: rows of W or columns of H that sum to one, and components that do not move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from drnmf.numerics import EPS, Array, Numbers, factor_floor, namespace, positive_scale, real_numbers


@dataclass(frozen=True, eq=False)
class Constraints:
    """What W and H must satisfy beside W, H >= 0."""

    # "W" - every row of W sums to one; "H" - every column of H does; None - neither. Of a tensor the name of any block
    # (`block_name`)
    sum_to_one: str | None = None
    H: Array | None = None  # (f, n) the first rows of H, which do not move; None where all are free
    W: Array | None = None  # (m, f) the first columns of W, which do not move; None where all are free
    # (f, size) or None for every mode of the columns of a tensor's unfolding, in place of H
    columns: tuple[Array | None, ...] = ()

    @property
    def free(self) -> bool:
        """Whether nothing is constrained, so that components may be rescaled."""
        return self.sum_to_one is None and self.fixed == 0

    @property
    def fixed(self) -> int:
        """How many components, the first ones, have a part that does not move."""
        held = (self.H, *self.columns, self.block("W"))
        return max(0 if block is None else len(block) for block in held)

    def block(self, side: str) -> Array | None:
        """Return what does not move of one factor, component-first: (f, n) for "H", (f, m) for "W"."""
        if side == "W":
            return None if self.W is None else self.W.T
        return self.H if side == "H" else self.columns[int(side[1:])] if self.columns else None

    def of(self, side: str) -> tuple[int, bool]:
        """Tell how many components of one factor are fixed, and whether its entries sum to one."""
        block = self.block(side)
        return 0 if block is None else len(block), self.sum_to_one == side

    def cast(self, dtype: DTypeLike) -> Constraints:
        """Return the same with the fixed components in the dtype of the factors."""
        every = (self.H, self.W, *self.columns)
        H, W, *columns = (None if block is None else block.astype(dtype, copy=False) for block in every)
        return replace(self, H=H, W=W, columns=tuple(columns))

    def floor(self, side: str, mean: float, rank: int) -> float:
        """Compute the smallest entry of a factor, "W" or "H".

        Where one factor sums to one the other has the scale of X; products of floors stay relative to mean(X).
        """
        if self.sum_to_one is None:
            return factor_floor(mean, rank)
        return EPS / rank if side == self.sum_to_one else EPS * positive_scale(mean)

    def check(self, shape: tuple[int, ...], rank: int, names: dict[str, str]) -> None:
        """Refuse fixed components that do not fit X, the number of components, or one another.

        names : what the interface calls the fixed parts of "H" and "W"; those of a tensor are all of `fixed`
        """
        names = names if len(shape) == 2 else {block_name(mode, shape): "fixed" for mode in range(len(shape))}
        for mode in (*range(1, len(shape)), 0):
            side, length = block_name(mode, shape), shape[mode]
            block = self.block(side)
            if block is None:
                continue
            what = "columns" if side == "H" else "rows" if len(shape) == 2 else f"in mode {mode}"
            if block.shape[1] != length:
                raise ValueError(
                    f"{names[side]} has {block.shape[1]} entries for every component, but X has {length} {what}: "
                    f"give one for each."
                )
            if len(block) > rank:
                raise ValueError(
                    f"{names[side]} holds {len(block)} components, more than n_components={rank}, which counts them: "
                    f"raise n_components to {len(block)} at least."
                )
            self._check_sums(side, block, rank, names[side])

    def _check_sums(self, side: str, block: Array, rank: int, name: str) -> None:
        """The fixed part of a factor must leave room for a sum of one."""
        if self.sum_to_one != side:
            return
        sums, every = block.sum(axis=0), len(block) == rank
        worst = int(np.argmax(np.abs(sums - 1.0) if every else sums))
        if sums[worst] > 1.0 + _ROOM or (every and abs(sums[worst] - 1.0) > _ROOM):
            unit = "row" if side == "W" else "column"
            raise ValueError(
                f"{name} and sum_to_one={side!r} exclude each other: the fixed entries of {unit} {worst} of {side} sum "
                f"to {sums[worst]:g}, and {'nothing else is free' if every else 'the others are >= 0'}. Scale "
                f"{name} so that they sum to at most one."
            )


_ROOM = 1e-9  # how far fixed entries may sum above one: what is read from text files is rounded

UNCONSTRAINED = Constraints()
"""No constraint but W, H >= 0."""


def as_constraints(sum_to_one: str | None, fixed: ArrayLike | None, fixed_W: ArrayLike | None) -> Constraints:
    """Check given constraints as far as they can be without X.

    >>> as_constraints("W", [[1.0, 2.0]], None).fixed
    1
    """
    if sum_to_one not in (None, "W", "H"):
        raise ValueError(
            f"sum_to_one={sum_to_one!r} is not known: use 'W' (every row of W sums to one), 'H' (every column of H), "
            "or None."
        )
    W = _components("fixed_W", fixed_W, "one column for each component, as many rows as X")
    return Constraints(sum_to_one, _components("fixed", fixed, "one row for each component, as long as a row of X"), W)


def block_name(mode: int, shape: Sequence[int]) -> str:
    """Name the block of a mode: "W" and "H" of a matrix, "W", "H0", "H1", ... of a tensor's unfolding.

    >>> [block_name(mode, (5, 6, 7)) for mode in range(3)]
    ['W', 'H0', 'H1']
    """
    return "W" if mode == 0 else "H" if len(shape) == 2 else f"H{mode - 1}"


def mode_constraints(sum_to_one: int | None, fixed: Mapping[str, ArrayLike], shape: Sequence[int]) -> Constraints:
    """Check constraints of a tensor's modes: `sum_to_one` is one of them, `fixed` has (size, f) for some."""
    blocks = {
        block_name(int(mode), shape): _components(f"fixed[{mode}]", F, "one column for each component")
        for mode, F in fixed.items()
    }
    names = [block_name(mode, shape) for mode in range(1, len(shape))]
    rest = [None if blocks.get(name) is None else np.asarray(blocks[name]).T for name in names]
    name = None if sum_to_one is None else block_name(sum_to_one, shape)
    H, columns = (rest[0], ()) if len(rest) == 1 else (None, tuple(rest) if fixed else ())
    return Constraints(name, H, blocks.get("W"), columns)


def _components(name: str, value: ArrayLike | None, shape: str) -> Array | None:
    """Given components as float64: two axes, finite, nonnegative; None where there are none."""
    if value is None:
        return None
    block = np.array(real_numbers(name, value))
    if block.ndim != 2 or not block.size:
        raise ValueError(f"{name} has shape {block.shape}: give {shape}.")
    if not np.isfinite(block).all():
        i, j = np.argwhere(~np.isfinite(block))[0]
        raise ValueError(f"{name}[{i}, {j}] = {block[i, j]:g} is not finite: fixed components must be numbers >= 0.")
    if block.min() < 0:
        i, j = np.unravel_index(int(np.argmin(block)), block.shape)
        raise ValueError(f"{name}[{i}, {j}] = {block[i, j]:g} is negative: fixed components must be >= 0.")
    empty = np.flatnonzero(~(block > 0).any(axis=1 if name == "fixed" else 0))
    if empty.size:
        raise ValueError(f"Component {empty[0]} of {name} is all zeros, so that it explains nothing: leave it out.")
    return block


def normalised(F: Array, total: Numbers, floor: Numbers) -> Array:
    """Scale every column to its total, entries at least the floor: exact up to the rounding of a sum.

    >>> normalised(np.array([[1.0], [3.0]]), 1.0, 0.0).tolist()
    [[0.25], [0.75]]
    """
    xp = namespace(F)
    F = xp.clip(F, floor, None)
    F = F * (total / F.sum(0))
    return xp.clip(F, floor, None)


def left_over(fixed: Array) -> Array:
    """Compute what the free entries of every column must sum to, beside the fixed ones."""
    return namespace(fixed).clip(1.0 - fixed.sum(0), 0.0, None)
