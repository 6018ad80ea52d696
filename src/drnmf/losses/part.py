r"""One objective of a maximum over parts of X: a loss, the part that it is of, and the scale that makes parts alike.

.. math:: f_o = (\rho(D_{b,S}) - \rho(e_o)) / \rho(D^0_{b,S})

The default is regret: how far a part is above what it reaches alone, in what its simplest model costs, with rho(D) =
sqrt(2 D) for beta = 2 and D else. A ratio, D / e, has no use for parts of rank r, which have e = 0. The root is
concave, so that a step under its slope at the current point never raises it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from drnmf.losses.base import Loss, OfEntries, Omega
from drnmf.numerics import Vector, rescaled

_EXACT = 1e-12
"""Of the simplest model's loss: below it a part is fitted exactly, and its root is not followed further."""


@dataclass(frozen=True)
class Part(OfEntries):
    """A loss of some rows, or of some columns, of X.

    Attributes
    ----------
    base : the loss
    index : which part of the data (`backends.parted.Parted`)
    label : what the part is called
    offset, divisor : e_o and D^0_o, in the unit of X; a divisor None leaves the loss as it is
    ratio : the divisor is e_o itself
    root : whether distances are compared, sqrt(2 D), and not losses
    tangent : the slope found over all blocks of X, where this is asked of one of them: losses, which add up, then come
        as they are (`over_blocks`)

    Examples
    --------
    >>> from drnmf.losses.beta import Beta
    >>> part = Part(Beta(2.0), 0, "hospital B", 2.0, 50.0, root=True)
    >>> part.name, part.value(8.0)
    ('Fro, hospital B', 0.2)
    """

    base: Loss
    index: int
    label: str
    offset: float = 0.0
    divisor: float | None = None
    root: bool = False
    ratio: bool = False
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


def bases_of(omega: Omega) -> Omega:
    """List the losses that objectives are made of, each once."""
    return tuple(dict.fromkeys(loss.base if isinstance(loss, Part) else loss for loss in omega))


def in_blocks(omega: Omega, losses: Vector | None = None) -> Omega:
    """Return objectives as blocks of X are asked for them, each of which knows its own losses alone.

    Parameters
    ----------
    losses : those of the parts over all blocks, as they are; None where no slope depends on them, or nobody needs one
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
