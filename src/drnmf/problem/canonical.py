"""The form in which factors come back: balanced components, the largest first, and exact zeros.

Steps that multiply never leave a zero, so a run keeps every entry above a floor (`numerics.factor_floor`). What stands
there at the end is a zero that the algorithm could not write. Constraints are brought to hold: fixed components first,
sums of one; and whether they can.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from drnmf.algorithms.correlation import row_sums
from drnmf.algorithms.initialize import nonnegative_least_squares
from drnmf.algorithms.result import Result
from drnmf.backends.base import Ask, Data, Space
from drnmf.backends.modes import Factors, Modes
from drnmf.losses.base import Omega
from drnmf.numerics import (
    AT_FLOOR,
    LARGEST_FIXED,
    SMALLEST_SCALE,
    Array,
    Indices,
    Vector,
    as_float64,
    beside,
    namespace,
    positive_scale,
    rise_tolerance,
)
from drnmf.objective.constraints import Constraints, left_over, normalised
from drnmf.problem.unobserved import row_totals

Places = tuple[NDArray[np.intp], ...]
_AT_ONCE = 1 << 16


def canonical(data: Data, W: Array, H: Array, rescale: bool = True, fixed: int = 0) -> tuple[Array, Array]:
    """Return the same WH with ||w_k|| = ||h_k|| for every component, the largest contribution ||w_k|| ||h_k|| first.

    Without `rescale` components are ordered alone; the first `fixed` ones stay first, in their order.

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


def feasible_start(data: Modes, constraints: Constraints, starts: Factors) -> Factors:
    """Bring the blocks of a start to where the constraints hold, so that the model changes little.

    Fixed components take the place of those of the start that are most like them. Components are rescaled, as far as
    nothing of them is fixed, so that the sums of the factor that sums to one are as near to one as they can be.
    """
    if constraints.free:
        return starts
    blocks = [space.put(F) for space, F in zip(data.spaces, starts, strict=True)]
    pinned = 0
    for at, name in enumerate(data.names):
        fixed = constraints.block(name)
        if fixed is not None:
            _put_fixed(data, constraints, blocks, at, fixed, pinned > 0)
            pinned = max(pinned, len(fixed))
    if constraints.sum_to_one is not None:
        _rescale(data, constraints, blocks)
    return imposed(data, constraints, tuple(blocks))


def _most_free(data: Modes, constraints: Constraints, block: int) -> tuple[int, int]:
    """Choose another block that takes the scale of components, and say how many of its own are fixed."""
    bound = {k: constraints.of(name) for k, name in enumerate(data.names) if k != block}
    other = min(bound, key=lambda k: (bound[k][1], bound[k][0]))
    return other, bound[other][0]


def _put_fixed(
    data: Modes, constraints: Constraints, blocks: list[Array], at: int, fixed: Array, in_place: bool
) -> None:
    """Put fixed components first, in place of the start's most similar ones; another block keeps the contribution.

    in_place : components of another block are fixed already, so that all stay where they are
    """
    space, F, (other, held) = data.spaces[at], blocks[at], _most_free(data, constraints, at)
    given, f, rank = space.put(fixed), len(fixed), F.shape[0]
    like = space.sum(_products, F, given).reshape(rank, f)
    sizes, own = np.sqrt(space.sum(squared_norms, given)), np.sqrt(space.sum(squared_norms, F))
    order = list(range(rank)) if in_place else _matched(like / np.maximum(own[:, None], np.finfo(np.float64).tiny))
    scale = np.ones(rank)
    for k in range(held, f):
        scale[order[k]] = own[order[k]] / sizes[k]
    for k, block in enumerate(blocks):
        by = scale if k == other else np.ones(rank)
        blocks[k] = data.spaces[k].map(partial(multiplied, scale=by, order=order), block)
    blocks[at] = space.map(partial(_replaced, order=order), F, given)


def _matched(like: Vector) -> list[int]:
    """An order of the components of the start: the best match of every fixed one, then the rest."""
    chosen: list[int] = []
    for column in like.T:
        free = [k for k in range(len(like)) if k not in chosen]
        chosen.append(max(free, key=lambda k: float(column[k])))
    return chosen + [k for k in range(len(like)) if k not in chosen]


def _products(F: Array, given: Array) -> Vector:
    """Inner products of rows of F and of what is given, flat."""
    return np.array((as_float64(F) @ as_float64(given).T).reshape(-1).tolist())


def _replaced(F: Array, given: Array, order: list[int]) -> Array:
    """The rows in an order, the first of them replaced."""
    return namespace(F).concatenate((given, F[order[len(given) :]]))


def _rescale(data: Modes, constraints: Constraints, blocks: list[Array]) -> None:
    """Scale the free components so that the sums are as near to one as least squares can bring them."""
    at = data.names.index(constraints.sum_to_one or "")
    other, rank = _most_free(data, constraints, at)[0], blocks[at].shape[0]
    free = np.arange(constraints.fixed, rank)
    if not free.size:
        return
    space, F = data.spaces[at], blocks[at]
    gram, sums = space.sum(_products, F, F).reshape(rank, rank), space.sum(row_sums, F)
    pinned = np.arange(constraints.fixed)
    target = sums[free] - gram[np.ix_(free, pinned)].sum(axis=1)
    found = nonnegative_least_squares(gram[np.ix_(free, free)], np.maximum(target, 0.0)[:, None])[:, 0]
    plain = data.sizes[at] / max(float(sums[free].sum()), np.finfo(np.float64).tiny)
    scale = np.ones(rank)
    scale[free] = np.maximum(found, SMALLEST_SCALE * (found.max() if found.max() > 0 else plain))
    order = list(range(rank))
    blocks[at] = space.map(partial(multiplied, scale=scale, order=order), F)
    blocks[other] = data.spaces[other].map(partial(divided, scale=scale, order=order), blocks[other])


def imposed(data: Modes, constraints: Constraints, blocks: Factors) -> Factors:
    """Put the fixed components back and scale the sums to one; what satisfies both stays, up to rounding."""
    found = []
    for name, space, block in zip(data.names, data.spaces, blocks, strict=True):
        F, fixed = space.put(block), constraints.block(name)
        given = None if fixed is None else space.put(fixed)
        floor = constraints.floor(name, data.mean, F.shape[0])
        sums = constraints.sum_to_one == name
        found.append(space.map(partial(_imposed, floor=floor, sums=sums), F, given))
    return tuple(found)


def _imposed(F: Array, given: Array, floor: float, sums: bool) -> Array:
    xp, fixed = namespace(F), 0 if given is None else len(given)
    free = F[fixed:]
    if sums and fixed < len(F):
        free = normalised(free, 1.0 if given is None else left_over(given), floor)
    free = xp.clip(free, floor, None)
    return free if given is None else xp.concatenate((given, free))


def check_fixed(data: Data, constraints: Constraints, omega: Omega, rank: int) -> None:
    """Refuse fixed components that no fit of X, in the same unit, could use.

    Such as are all components and zero in a column (row) of X that is not, under a loss that is infinite there, or
    whose size is so far from that of X that the floor of the other factor would count.
    """
    # the columns of a tensor are made of several modes, of whose single indices nothing is asked
    modes = [(f"H{k}", "fixed", "") for k in range(len(constraints.columns))]
    for side, name, what in (("H", "fixed", "column"), ("W", "fixed_W", "row"), *modes):
        block = constraints.block(side)
        if block is None:
            continue
        if constraints.sum_to_one != side:
            _check_size(block, name, data.mean)
        # grows without bound as V goes to zero, as the integral of t^-b does
        infinite = [loss.name for loss in omega if loss.exponents[1] >= 1.0]
        if infinite and len(block) == rank and what:
            sums = row_totals(data.T if side == "H" else data, data.mean)
            empty = np.flatnonzero((sums > 0) & ~(block > 0).any(axis=0))
            if empty.size:
                raise ValueError(
                    f"All components are fixed, and {name} is zero in {what} {empty[0]} of X, which is not: the "
                    f"{infinite[0]} loss is infinite. Give {name} a small positive number there, leave one component "
                    f"free (raise n_components), or use a loss with beta > 1."
                )


def _check_size(block: Array, name: str, mean: float) -> None:
    """The largest entry of every component must be comparable with X."""
    sizes = block.max(axis=1) / positive_scale(mean)
    far = np.flatnonzero((sizes > LARGEST_FIXED) | (sizes < 1.0 / LARGEST_FIXED))
    if far.size:
        k = far[0]
        raise ValueError(
            f"Component {k} of {name} is {sizes[k]:.0e} times the size that X asks for, and rounding would decide the "
            f"fit: divide it by that. Its other half grows by as much, and the model stays the same."
        )
