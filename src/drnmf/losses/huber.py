r"""Huber's loss: quadratic near, linear far, for single entries that are far off.

.. math:: d(x | v) = (x - v)^2 / 2 \ (|x - v| \le \delta), \quad \delta |x - v| - \delta^2 / 2 \text{ beyond}

It is a concave function of (x - v)^2, so it is majorised by beta = 2 under the weights min(1, delta / |x - v|) of the
entries: the parts are those of beta = 2 times the weights, and the exponents are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from drnmf.losses.base import Sized
from drnmf.numerics import Array, as_float64, namespace


@dataclass(frozen=True, repr=False)
class Huber(Sized):
    """Huber's loss, quadratic up to a distance of delta and linear beyond; taken wherever a beta is.

    Parameters
    ----------
    delta : number > 0, in the unit of X; or "auto": 1.345 standard deviations of the residuals, which are measured by
        their median in turn with the factors

    Examples
    --------
    >>> Huber(0.5).name, Huber("auto").key
    ('Huber(0.5)', 'huber:auto')
    """

    delta: float = "auto"  # type: ignore[assignment]

    title: ClassVar[str] = "Huber"
    degree: ClassVar[float] = 2.0
    exponents: ClassVar[tuple[float, float]] = (1.0, 0.0)
    homogeneous: ClassVar[bool] = True

    @property
    def distance(self) -> float:
        """Delta in the unit that the loss is computed in."""
        return self.delta * self.scale

    def terms(self, x: Array, v: Array) -> Array:
        off, delta = abs(as_float64(x) - as_float64(v)), self.distance
        near = namespace(off).clip(off, None, delta)
        return near * (off - 0.5 * near)

    def parts(self, x: Array, v: Array, ceiling: float) -> tuple[Array, Array]:
        weights = self.curvature(x, v)
        return weights * x, weights * v

    def curvature(self, x: Array, v: Array) -> Array:
        """Return ``min(1, delta / |x - v|)``, the curvature of the majoriser, which that of the loss is never above."""
        off, xp = abs(x - v), namespace(v)
        far = off > self.distance
        return xp.where(far, self.distance / xp.where(far, off, 1.0), xp.ones_like(v))
