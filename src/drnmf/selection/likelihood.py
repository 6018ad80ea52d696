r"""How likely X is under a loss: half a unit deviance with its variance function, by the saddlepoint density.

A loss with variance phi v(mu) has, up to a constant that all losses share, minus the logarithm of its density

.. math:: \tfrac12 \log \phi + d(x | \mu) / \phi + \tfrac12 \log v(x)

with v(x) = x^(2 - beta) for a beta-divergence. Where phi is profiled out, phi = 2 D / N, the sum is

.. math:: C(\beta) = \tfrac{N}{2} \log(D_\beta / N) + (1 - \beta / 2) \sum \log x + \tfrac{N}{2} (1 + \log 2)

and the last term, which all losses share, is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from drnmf.losses.base import Loss
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.numerics import Vector
from drnmf.selection.entries import Facts, total

CONSTANT = 0.5 * (1.0 + math.log(2.0))
"""What every entry contributes under every loss once phi = 2 D / N: left out of C."""


@dataclass(frozen=True)
class Candidate:
    """A loss, read as a distribution.

    Attributes
    ----------
    loss : the loss
    dispersion : phi where it is fixed (counts: the unit), None where it is profiled out
    """

    loss: Loss
    dispersion: float | None = None

    @property
    def name(self) -> str:
        """Name for tables: "Poisson" is Kullback-Leibler with its variance fixed."""
        return "Poisson" if self.dispersion is not None and self.loss.beta == 1.0 else self.loss.name

    def half_log_variance(self, x: Vector) -> Vector:
        """Compute 1/2 log v(x) for every entry, x > 0: v is one over the curvature of d(x | mu) at mu = x.

        >>> from drnmf.losses.beta import Beta
        >>> Candidate(Beta(0.0)).half_log_variance(np.array([np.e])).round(12).tolist()
        [1.0]
        """
        return np.asarray(-0.5 * np.log(self.loss.curvature(x, x)))

    def magnified(self, power: int) -> Candidate:
        """Return the same for X times 2^power; a size beyond float64 is as good as its largest number.

        >>> from drnmf.losses.negative_binomial import NegativeBinomial
        >>> Candidate(NegativeBinomial(30), 1.0).magnified(1)
        Candidate(loss=NegativeBinomial(size=60.0), dispersion=2.0)
        """
        loss, limits = self.loss, np.finfo(np.float64)
        if isinstance(loss, NegativeBinomial):
            with np.errstate(over="ignore"):
                size = float(np.clip(np.ldexp(loss.size, power), limits.smallest_subnormal, limits.max))
            loss = NegativeBinomial(float(f"{size:.4g}") if size < limits.max else size)
        return Candidate(loss, None if self.dispersion is None else float(np.ldexp(self.dispersion, power)))

    def criterion(self, loss: float, count: float, half_log: float) -> float:
        """Compute C from D, the number of entries that count, and the sum of 1/2 log v(x)."""
        phi = 2.0 * loss / count if self.dispersion is None else self.dispersion
        return count * (0.5 * math.log(phi) - CONSTANT) + loss / phi + half_log


def half_log_sums(X: Any, facts: Facts, candidates: list[Candidate]) -> Vector:
    """Add up 1/2 log v(x) over the entries, for every candidate in one pass."""
    return total(X, lambda x: np.array([c.half_log_variance(x).sum() for c in candidates]), facts.zero)
