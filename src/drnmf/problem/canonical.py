"""The form in which factors come back: balanced components, the largest first, and exact zeros.

Steps that multiply never leave a zero, so a run keeps every entry above a floor (`numerics.factor_floor`). What stands
there at the end is a zero that the algorithm could not write.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from drnmf.algorithms.result import Result
from drnmf.backends.base import Ask, Data, Space
from drnmf.backends.modes import Factors, Modes
from drnmf.numerics import AT_FLOOR, Array, Indices, Vector, as_float64, beside, rise_tolerance
from drnmf.objective.constraints import Constraints

Places = tuple[NDArray[np.intp], ...]
_AT_ONCE = 1 << 16


def canonical(data: Data, W: Array, H: Array, rescale: bool = True, fixed: int = 0) -> tuple[Array, Array]:
    """Return the same WH with ||w_k|| = ||h_k|| for every component, the largest contribution ||w_k|| ||h_k|| first.

    Parameters
    ----------
    rescale : False leaves the scale of the components, and orders them alone
    fixed : how many components, the first ones, stay first, in their order

    Examples
    --------
    >>> from drnmf.backends.open import open_data
    >>> W, H = canonical(open_data(np.ones((1, 1))), np.array([[1.0, 4.0]]), np.array([[1.0], [4.0]]))
    >>> W.tolist(), H.tolist()
    ([[4.0, 1.0]], [[4.0], [1.0]])
    """
    A, B = data.T.space.put(W.T), data.space.put(H)
    w, h = (np.sqrt(side.space.sum(squared_norms, F)) for side, F in ((data.T, A), (data, B)))
    used = (w > 0) & (h > 0) & rescale  # a component whose norm underflows keeps its scale
    scale = np.sqrt(np.divide(h, w, out=np.ones_like(w), where=used))
    sizes = w * h
    sizes[:fixed] = np.inf
    order = np.argsort(-sizes, kind="stable")
    A = data.T.space.map(partial(multiplied, scale=scale, order=order), A)
    return A.T, data.space.map(partial(divided, scale=scale, order=order), B)


def squared_norms(F: Array) -> Vector:
    """Compute the squared Euclidean norm of every row of a factor (r, n), in float64."""
    if isinstance(F, np.ndarray):  # row by row: a float32 factor is twice as large in float64
        return np.array([(row * row).sum() for row in map(as_float64, F)])
    F = as_float64(F)
    return np.array((F * F).sum(1).tolist())


def multiplied(F: Array, scale: Vector, order: Indices | list[int]) -> Array:
    """Multiply row k by scale_k, then put the rows in the order given.

    >>> multiplied(np.array([[1.0], [2.0]]), np.array([10.0, 1.0]), [1, 0]).tolist()
    [[2.0], [10.0]]
    """
    moved = F[order]
    moved *= beside(scale[order][:, None], F)
    return moved


def divided(F: Array, scale: Vector, order: Indices | list[int]) -> Array:
    """Divide row k by scale_k, then put the rows in the order given."""
    moved = F[order]
    moved /= beside(scale[order][:, None], F)
    return moved


def with_exact_zeros(data: Modes, constraints: Constraints, result: Result, overwrite: bool = False) -> Result:
    """Return a result with zeros for what is at the floor of its factors; as it is where a loss would rise.

    A zero of WH at a positive entry of X makes most losses infinite: there the floor stays, and so it does in a factor
    of which nothing else would be left. Factors that may be overwritten save as much memory as they take.
    """
    if not all(space.whole for space in data.spaces):  # W of a Dask array: workers may have no room for it twice
        return result
    rank, sides = result.blocks[0].shape[0], []
    for name, space, F in zip(data.names, data.spaces, result.blocks, strict=True):
        most, fixed = AT_FLOOR * constraints.floor(name, data.mean, rank), constraints.of(name)[0]
        sides.append(_Side(space, space.put(F), most, fixed))
    counts, whole = [side.count() for side in sides], [rank * size for size in data.sizes]
    if not any(counts) or any(count == size for count, size in zip(counts, whole, strict=True)):
        return result
    if not overwrite or not all(isinstance(side.F, np.ndarray) for side in sides):
        blocks = tuple(side.zeroed() for side in sides)
        return replace(result, blocks=blocks) if _no_higher(data, result, blocks) else result
    kept, blocks = [side.write_zeros() for side in sides], tuple(side.F for side in sides)
    if not _no_higher(data, result, blocks):
        for factor, floor in zip(sides, kept, strict=True):
            factor.write_back(floor)
    return replace(result, blocks=blocks)


@dataclass(frozen=True)
class _Side:
    """A factor (r, n) where it lives, and what is at its floor; the first `fixed` components stay as they are."""

    space: Space
    F: Array
    most: float
    fixed: int

    def count(self) -> float:
        """Count the entries at the floor."""
        return float(self.space.sum(partial(_count, most=self.most, fixed=self.fixed), self.F)[0])

    def zeroed(self) -> Array:
        """Return the factor with zeros there."""
        return self.space.map(partial(_zeroed, most=self.most, fixed=self.fixed), self.F)

    def write_zeros(self) -> list[tuple[Places, Array]]:
        """Write zeros there, and return where they are and what was there, some components at a time."""
        kept = []
        for rows in _few_rows(self.F[self.fixed :]):
            places = np.nonzero(rows <= self.most)
            kept.append((places, rows[places]))
            rows[places] = 0.0
        return kept

    def write_back(self, kept: list[tuple[Places, Array]]) -> None:
        """Undo `write_zeros`."""
        for (places, values), rows in zip(kept, _few_rows(self.F[self.fixed :]), strict=True):
            rows[places] = values


def _no_higher(data: Modes, result: Result, blocks: Factors) -> bool:
    """Tell whether no loss is above that of a result at other factors; one that is finite at WH = 0 cannot notice."""
    one, none = np.ones(1), np.zeros(1)
    with np.errstate(all="ignore"):
        if all(np.isfinite(loss.terms(one, none)).all() for loss in result.omega):
            return True
        sweep = data.spaces[0].read(data.sweep(0, blocks, Ask(result.omega, parts=None)))[0]
        return bool(np.all(sweep.losses <= result.losses * (1.0 + rise_tolerance(data.dtype))))


def _few_rows(F: Array) -> Iterator[Array]:
    """Views of some rows at a time, one where they are long: a mask of W may be large."""
    few = max(1, _AT_ONCE // max(F.shape[1], 1))
    return (F[at : at + few] for at in range(0, F.shape[0], few))


def _count(F: Array, most: float, fixed: int) -> Vector:
    counts = (((rows > 0) & ~(rows > most)).sum() for rows in _few_rows(F[fixed:]))
    return np.array([float(sum(float(count) for count in counts))])


def _zeroed(F: Array, most: float, fixed: int) -> Array:
    above = most < F
    above[:fixed] = True
    return F * above
