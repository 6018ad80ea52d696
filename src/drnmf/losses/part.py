r"""Objectives made of a loss of entries: of a part of X, or of rows, of which those that do not fit count less.

Of a maximum over parts an objective is a loss, the part that it is of, and the scale that makes parts alike,

.. math:: f_o = (\rho(D_{b,S}) - \rho(e_o)) / \rho(D^0_{b,S})

The default is regret: how far a part is above what it reaches alone, in what its simplest model costs, with rho(D) =
sqrt(2 D) for beta = 2 and D else. A ratio, D / e, has no use for parts of rank r, which have e = 0. The root is
concave, so that a step under its slope at the current point never raises it.

Of rows it is a concave function of the loss of each,

.. math:: \sum_i \rho(D_b(x_i, v_i)), \qquad \rho(D) = \sqrt{D + 10^{-6} g} \ \text{ or } \ \log(1 + D / g)

with g the median loss of a row of the fit under the base loss, fixed from then on. For beta = 2 the root is the L2,1
norm. Under weights rho'(D_i) of the rows a step under the base loss lowers both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from drnmf.losses.base import Loss, OfEntries, Omega
from drnmf.losses.beta import SHORT, Beta, as_beta
from drnmf.numerics import Vector, rescaled

_EXACT = 1e-12
"""Of the simplest model's loss: below it a part is fitted exactly, and its root is not followed further."""


@dataclass(frozen=True)
class Part(OfEntries):
    """A loss of some rows, or of some columns, of X.

    >>> from drnmf.losses.beta import Beta
    >>> part = Part(Beta(2.0), 0, "hospital B", 2.0, 50.0, root=True)
    >>> part.name, part.value(8.0)
    ('Fro, hospital B', 0.2)
    """

    base: Loss  # the loss
    index: int  # which part of the data (`backends.parted.Parted`)
    label: str  # what the part is called
    # offset, divisor: e_o and D^0_o, in the unit of X; a divisor None leaves the loss as it is
    offset: float = 0.0
    divisor: float | None = None
    root: bool = False  # whether distances are compared, sqrt(2 D), and not losses
    ratio: bool = False  # the divisor is e_o itself
    # the slope found over all blocks of X, where this is asked of one of them: losses, which add up, then come as they
    # are (`over_blocks`)
    tangent: float | None = None

    @property
    def error(self) -> float:
        """What the part reaches alone, as far as it counts."""
        return float(self.divisor or 0.0) if self.ratio else self.offset

    @property
    def name(self) -> str:
        return f"{self.base.name}, {self.label}"

    @property
    def key(self) -> str:
        return f"{self.base.key}, {self.label}"

    @property
    def beta(self) -> float:
        return self.base.beta

    @property
    def degree(self) -> float:
        return self.base.degree if self.divisor is None else 0.0

    @property
    def raw(self) -> Part:
        """The loss of the part, not scaled."""
        return replace(self, offset=0.0, divisor=None, root=False)

    def scaled(self, factor: float) -> Part:
        base = self.base.scaled(factor)
        if self.divisor is None:
            return replace(self, base=base)
        offset, divisor = (float(rescaled(number, factor, self.base.degree)) for number in (self.offset, self.divisor))
        return replace(self, base=base, offset=offset, divisor=divisor)

    def value(self, loss: float) -> float:
        """Compute f_o from the loss of the part."""
        if self.divisor is None or self.tangent is not None:
            return loss
        if self.root:
            return (math.sqrt(loss) - math.sqrt(self.offset)) / math.sqrt(self.divisor)
        return (loss - self.offset) / self.divisor

    def slope(self, loss: float) -> float:
        """Compute the derivative of f_o in the loss of the part."""
        if self.tangent is not None:
            return self.tangent
        if self.divisor is None:
            return 1.0
        if self.root:
            return 0.5 / math.sqrt(max(loss, _EXACT * self.divisor) * self.divisor)
        return 1.0 / self.divisor


_SHORT = {name.lower(): beta for beta, name in SHORT.items()}
KINDS = ("sqrt", "log")
_SMOOTHING = 1e-6
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
        return np.sqrt(losses + _SMOOTHING * self.level) if self.rho == "sqrt" else np.log1p(losses / self.level)

    def slopes(self, losses: Vector) -> Vector:
        """Compute rho' of the loss of every row: how much it counts."""
        assert self.level is not None
        return 0.5 / np.sqrt(losses + _SMOOTHING * self.level) if self.rho == "sqrt" else 1.0 / (losses + self.level)


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


def in_blocks(omega: Omega, losses: Vector | None = None) -> Omega:
    """Return objectives as blocks of X are asked for them, each of which knows its own losses alone.

    `losses` are those of the parts over all blocks, as they are; None where no slope depends on them, or nobody needs
    one.
    """
    known = [0.0] * len(omega) if losses is None else losses.tolist()
    return tuple(
        replace(loss, tangent=loss.slope(value)) if isinstance(loss, Part) else loss
        for loss, value in zip(omega, known, strict=True)
    )


def over_blocks(omega: Omega, losses: Vector) -> Vector:
    """Compute objectives from their losses in all blocks of X, added up.

    >>> from drnmf.losses.beta import Beta
    >>> part = Part(Beta(2.0), 0, "hospital B", 2.0, 50.0, root=True)
    >>> over_blocks(in_blocks((part,)), np.array([8.0])).tolist()
    [0.2]
    """
    pairs = zip(omega, losses, strict=True)
    return np.array([replace(one, tangent=None).value(v) if isinstance(one, Part) else v for one, v in pairs])
