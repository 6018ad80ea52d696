r"""Rows that do not fit count less: a concave function of the loss of every row.

.. math:: \sum_i \rho(D_b(x_i, v_i)), \qquad \rho(D) = \sqrt{D + 10^{-6} g} \ \text{ or } \ \log(1 + D / g)

with g the median loss of a row of the fit under the base loss, fixed from then on. For beta = 2 the root is the L2,1
norm. Both are concave, so that under weights rho'(D_i) of the rows a step under the base loss lowers them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from drnmf.losses.base import Loss, OfEntries, Omega
from drnmf.losses.beta import SHORT, Beta, as_beta
from drnmf.numerics import Vector, rescaled

_SHORT = {name.lower(): beta for beta, name in SHORT.items()}
KINDS = ("sqrt", "log")
_EXACT = 1e-6
"""Of the level: what keeps the root of an exactly fitted row differentiable."""


@dataclass(frozen=True)
class Rowwise(OfEntries):
    """A loss of rows, of which those that do not fit count less; taken wherever a beta is.

    Parameters
    ----------
    base : the loss of a row: a beta, a name, or a loss
    rho : "sqrt" or "log", from mild to strong
    level : the loss of an ordinary row, in the unit of X; None takes the median row of the fit under the base loss

    Examples
    --------
    >>> Rowwise(2, "sqrt").name, Rowwise("KL", "log").key
    ('sqrt Fro of rows', 'rows:log:1')
    """

    base: Any
    rho: str = "sqrt"
    level: float | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not hasattr(self.base, "terms"):
            named: Any = self.base
            object.__setattr__(self, "base", Beta(as_beta(_SHORT.get(str(named).lower(), named))))
        if self.rho not in KINDS:
            raise ValueError(f"Rowwise(rho={self.rho!r}): use one of {', '.join(map(repr, KINDS))}.")
        if isinstance(self.base, Rowwise):
            raise ValueError("Rowwise of a Rowwise loss: name the loss of a row itself, for example Rowwise(2, 'log').")
        if self.level is not None and not (math.isfinite(self.level) and self.level > 0):
            raise ValueError(f"Rowwise(level={self.level!r}): the loss of an ordinary row is finite and > 0.")

    @property
    def name(self) -> str:
        return f"{self.rho} {self.base.name} of rows"

    @property
    def key(self) -> str:
        return f"rows:{self.rho}:{self.base.key}"

    @property
    def beta(self) -> float:
        return math.nan

    @property
    def degree(self) -> float:
        return 0.5 * self.base.degree if self.rho == "sqrt" else 0.0

    def scaled(self, factor: float) -> Rowwise:
        level = self.level if self.level is None else float(rescaled(self.level, factor, self.base.degree))
        return replace(self, base=self.base.scaled(factor), level=level)

    def settled(self, level: float) -> Rowwise:
        """Return the same with the loss of an ordinary row, where it has none yet."""
        return self if self.level is not None else replace(self, level=level)

    def values(self, losses: Vector) -> Vector:
        """Compute rho of the loss of every row."""
        assert self.level is not None
        return np.sqrt(losses + _EXACT * self.level) if self.rho == "sqrt" else np.log1p(losses / self.level)

    def slopes(self, losses: Vector) -> Vector:
        """Compute rho' of the loss of every row: how much it counts."""
        assert self.level is not None
        return 0.5 / np.sqrt(losses + _EXACT * self.level) if self.rho == "sqrt" else 1.0 / (losses + self.level)


def unsettled(omega: Omega) -> Omega:
    """List the base losses whose ordinary row is not known yet.

    >>> [loss.name for loss in unsettled((Rowwise(2, "sqrt"), Rowwise(2, "log"), Rowwise(1, "log", 3.0)))]
    ['Fro']
    """
    bases: list[Loss] = []
    for loss in omega:
        if isinstance(loss, Rowwise) and loss.level is None and loss.base not in bases:
            bases.append(loss.base)
    return tuple(bases)
