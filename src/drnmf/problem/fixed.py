"""Fixed components that X refuses: those that cannot explain it, and those of a size far from its own."""

from __future__ import annotations

import numpy as np

from drnmf.backends.base import Data
from drnmf.losses.base import Loss, Omega
from drnmf.numerics import LARGEST_FIXED, Array, positive_scale
from drnmf.objective.constraints import Constraints
from drnmf.problem.unobserved import row_totals


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
