r"""The negative binomial: counts whose variance exceeds their mean.

.. math:: d(x | v) = x \log(x / v) - (x + a) \log\frac{x + a}{v + a}, \qquad \mathrm{Var} = v + v^2 / a

with the size a. It is half a unit deviance; a to infinity gives the Kullback-Leibler divergence. Its parts are

.. math:: N = W^T (X / V), \qquad P = W^T \frac{X + a}{V + a}

and its majoriser has the exponents of Kullback-Leibler's, so t = N / P never raises it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from drnmf.losses.base import Sized
from drnmf.numerics import Array, as_float64, namespace


@dataclass(frozen=True, repr=False)
class NegativeBinomial(Sized):
    """The negative binomial loss of a given size, taken wherever a beta is.

    Parameters
    ----------
    size : number > 0, in the units of X; the variance of a count with mean v is v + v^2 / size. Or "auto", for
        `BetaNMF` and `DRNMF`: found by likelihood in turn with the factors, then frozen (`unsized`)

    Examples
    --------
    >>> NegativeBinomial(30).name, NegativeBinomial(30).key
    ('NB(30)', 'nb:30')
    """

    size: float

    title: ClassVar[str] = "NB"
    degree: ClassVar[float] = 1.0
    exponents: ClassVar[tuple[float, float]] = (0.0, 1.0)
    homogeneous: ClassVar[bool] = False

    @property
    def a(self) -> float:
        """The size in the units that the loss is computed in, where sums with it stay in the range of float64."""
        return min(max(self.size * self.scale, 1e-300), 1e300)

    def terms(self, x: Array, v: Array) -> Array:
        """x log(1 + s) - a log(1 + f), s = a (x - v) / (v (x + a)), f = (x - v) / (v + a).

        Neither a large nor a small a makes it the difference of two large terms.
        """
        x, v, a, xp = as_float64(x), as_float64(v), self.a, namespace(x)
        x1, fraction = xp.where(x > 0, x, 1.0), a / (x + a)
        first = xp.where(x > 0, x * _log(x1 / v * ((v + a) / (x + a)), (x - v) / v * fraction), 0.0)
        return xp.clip(first - a * _log((x + a) / (v + a), (x - v) / (v + a)), 0.0, None)

    def parts(self, x: Array, v: Array, ceiling: float) -> tuple[Array, Array]:
        a = min(self.a, ceiling)  # a size beyond the range of float32 is the limit, P = 1
        return namespace(v).clip(x / v, None, ceiling), (x + a) / (v + a)

    def curvature(self, x: Array, v: Array) -> Array:
        """a / (v (v + a)), the expected second derivative; the observed one can be negative."""
        return 1.0 / (v * (1.0 + v / self.a))


def _log(ratio: Array, rise: Array) -> Array:
    """Compute the logarithm of a ratio from its distance to one where that is small, and so more accurate."""
    xp, close = namespace(ratio), abs(rise) < 0.5
    return xp.where(close, xp.log1p(xp.where(close, rise, 0.0)), xp.log(ratio))
