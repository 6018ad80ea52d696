"""Factors brought to where the constraints hold: fixed components first, sums of one; and whether they can hold."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from drnmf.algorithms.correlation import row_sums
from drnmf.algorithms.initialize import Start, nonnegative_least_squares
from drnmf.backends.base import Data
from drnmf.losses.base import Loss, Omega
from drnmf.numerics import LARGEST_FIXED, SMALLEST_SCALE, Array, Vector, as_float64, namespace, positive_scale
from drnmf.objective.constraints import Constraints, left_over, normalised
from drnmf.problem.canonical import divided, multiplied, squared_norms
from drnmf.problem.unobserved import row_totals


def feasible_start(data: Data, constraints: Constraints, W: Any, H: Any) -> Start:
    """Bring a start to where the constraints hold, so that WH changes little.

    Fixed components take the place of those of the start that are most like them. Components are rescaled, as far as
    nothing of them is fixed, so that the sums of the factor that sums to one are as near to one as they can be.
    """
    if constraints.free:
        return W, H
    sides = {"H": data, "W": data.T}
    blocks = {"H": data.space.put(H), "W": data.T.space.put(W.T)}
    for side, other in (("H", "W"), ("W", "H")):
        fixed = constraints.block(side)
        if fixed is not None:
            pinned = constraints.block("H") if side == "W" else None
            _put_fixed(sides, blocks, side, other, fixed, 0 if pinned is None else len(pinned))
    if constraints.sum_to_one is not None:
        _rescale(sides, blocks, constraints)
    return imposed(data, constraints, blocks["W"].T, blocks["H"])


def _put_fixed(
    sides: dict[str, Data], blocks: dict[str, Any], side: str, other: str, fixed: Array, pinned: int
) -> None:
    """Put fixed components first, in place of the start's most similar ones; their other halves keep the contribution.

    pinned : components, the first ones, whose other half is fixed already, so that they stay in place
    """
    space, F = sides[side].space, blocks[side]
    given, f, rank = space.put(fixed), len(fixed), F.shape[0]
    like = space.sum(_products, F, given).reshape(rank, f)
    sizes, own = np.sqrt(space.sum(squared_norms, given)), np.sqrt(space.sum(squared_norms, F))
    order = list(range(rank)) if pinned else _matched(like / np.maximum(own[:, None], np.finfo(np.float64).tiny))
    scale = np.ones(rank)
    for k in range(pinned, f):
        scale[order[k]] = own[order[k]] / sizes[k]
    blocks[side] = space.map(partial(_replaced, order=order), F, given)
    blocks[other] = sides[other].space.map(partial(multiplied, scale=scale, order=order), blocks[other])


def _matched(like: Vector) -> list[int]:
    """An order of the components of the start: the best match of every fixed one, then the rest."""
    chosen: list[int] = []
    for column in like.T:
        free = [k for k in range(len(like)) if k not in chosen]
        chosen.append(max(free, key=lambda k: float(column[k])))
    return chosen + [k for k in range(len(like)) if k not in chosen]


def _products(F: Any, given: Any) -> Vector:
    """Inner products of rows of F and of what is given, flat."""
    return np.array((as_float64(F) @ as_float64(given).T).reshape(-1).tolist())


def _replaced(F: Any, given: Any, order: list[int]) -> Any:
    """The rows in an order, the first of them replaced."""
    return namespace(F).concatenate((given, F[order[len(given) :]]))


def _rescale(sides: dict[str, Data], blocks: dict[str, Any], constraints: Constraints) -> None:
    """Scale the free components so that the sums are as near to one as least squares can bring them."""
    side = constraints.sum_to_one or ""
    other, rank = "WH".replace(side, ""), blocks[side].shape[0]
    free = np.arange(constraints.fixed, rank)
    if not free.size:
        return
    space, F = sides[side].space, blocks[side]
    gram, sums = space.sum(_products, F, F).reshape(rank, rank), space.sum(row_sums, F)
    pinned = np.arange(constraints.fixed)
    target = sums[free] - gram[np.ix_(free, pinned)].sum(axis=1)
    found = nonnegative_least_squares(gram[np.ix_(free, free)], np.maximum(target, 0.0)[:, None])[:, 0]
    plain = sides[side].shape[1] / max(float(sums[free].sum()), np.finfo(np.float64).tiny)
    scale = np.ones(rank)
    scale[free] = np.maximum(found, SMALLEST_SCALE * (found.max() if found.max() > 0 else plain))
    order = list(range(rank))
    blocks[side] = space.map(partial(multiplied, scale=scale, order=order), F)
    blocks[other] = sides[other].space.map(partial(divided, scale=scale, order=order), blocks[other])


def imposed(data: Data, constraints: Constraints, W: Any, H: Any) -> Start:
    """Put the fixed components back and scale the sums to one; what satisfies both stays, up to rounding."""
    found = []
    for side, where, F in (("W", data.T, W.T), ("H", data, H)):
        F, fixed = where.space.put(F), constraints.block(side)
        given = None if fixed is None else where.space.put(fixed)
        floor = constraints.floor(side, data.mean, F.shape[0])
        sums = constraints.sum_to_one == side
        found.append(where.space.map(partial(_imposed, floor=floor, sums=sums), F, given))
    return found[0].T, found[1]


def _imposed(F: Any, given: Any, floor: float, sums: bool) -> Any:
    xp, fixed = namespace(F), 0 if given is None else len(given)
    free = F[fixed:]
    if sums and fixed < len(F):
        free = normalised(free, 1.0 if given is None else left_over(given), floor)
    free = xp.clip(free, floor, None)
    return free if given is None else xp.concatenate((given, free))


def check_fixed(data: Data, constraints: Constraints, omega: Omega, rank: int) -> None:
    """Refuse fixed components that no fit of X could use.

    Parameters
    ----------
    data : X in the unit of the fit
    constraints : in the same unit
    omega : the losses
    rank : number of components

    Raises
    ------
    ValueError
        Where all components are fixed and zero in a column (row) of X that is not, under a loss that is infinite there,
        or where the size of a component is so far from that of X that the floor of the other factor would count.
    """
    for side, name, what in (("H", "fixed", "column"), ("W", "fixed_W", "row")):
        block = constraints.block(side)
        if block is None:
            continue
        if constraints.sum_to_one != side:
            _check_size(block, name, data.mean)
        infinite = [loss.name for loss in omega if _infinite_at_nothing(loss)]
        if infinite and len(block) == rank:
            sums = row_totals(data.T if side == "H" else data, data.mean)
            empty = np.flatnonzero((sums > 0) & ~(block > 0).any(axis=0))
            if empty.size:
                raise ValueError(
                    f"All components are fixed, and {name} is zero in {what} {empty[0]} of X, which is not: the "
                    f"{infinite[0]} loss is infinite. Give {name} a small positive number there, leave one component "
                    f"free (raise n_components), or use a loss with beta > 1."
                )


def _infinite_at_nothing(loss: Loss) -> bool:
    """Whether the loss of a positive entry grows without bound as V goes to zero: the integral of t^-b does."""
    return loss.exponents[1] >= 1.0


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
