"""The scaled losses of section 2 and their weighted sum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from drnmf.losses.base import Omega
from drnmf.numerics import Vector, positive_scale
from drnmf.objective.penalty import NONE, Penalties


@dataclass(frozen=True)
class Objective:
    r"""Dbar_beta = D_beta / e_beta for the losses of Omega, and what the algorithms need of them.

    >>> from drnmf.losses.beta import Beta
    >>> objective = Objective((Beta(1.0), Beta(2.0)), np.array([2.0, 4.0]), 1.0)
    >>> objective.scaled(np.array([2.0, 8.0]))
    array([1., 2.])
    """

    omega: Omega  # the losses
    references: Vector  # (p,) float64, e_beta > 0
    mean: float  # mean(X), the scale of the data
    penalties: Penalties = NONE  # what stands beside the losses, once

    def scaled(self, losses: Vector) -> Vector:
        """Compute D_beta / e_beta. Never clipped: e_beta is only a local minimum, so it may be below one."""
        return losses / self.references

    def value(self, weights: Vector, losses: Vector) -> float:
        """Compute the sum of lambda_beta Dbar_beta, the objective of MO-NMF."""
        if len(weights) == 1:  # a loss alone, as most are: one product needs no array
            return float(weights[0]) * float(losses[0] / self.references[0])
        with np.errstate(invalid="ignore"):  # a loss beyond the range of floats is refused, whatever its weight
            return float(weights @ self.scaled(losses))

    def maximum(self, losses: Vector) -> float:
        """Compute the largest Dbar_beta, the objective of DR-NMF."""
        return float(self.scaled(losses).max())

    def rounding(self, weights: Vector, value: float, entries: int, unit: float) -> float:
        r"""Compute by how much rounding alone moves a value of the objective, in a dtype with this unit (its epsilon).

        Rounded factors give every v a relative error of about the unit of rounding u. That moves D_beta by u |sum (v -
        x) v^(beta - 1)|, which Cauchy and Schwarz bound by u sqrt(2 D_beta S_beta) with S_beta the sum of x^beta, and
        by u^2 S_beta / 2: far more than u D_beta where the fit is nearly exact. S_beta is of the size of mean(X)^beta
        times the number of entries.
        """
        powers = np.array([loss.degree for loss in self.omega]) * math.log2(positive_scale(self.mean))
        with np.errstate(over="ignore"):
            size = entries * float(weights @ np.exp2(powers - np.log2(self.references)))
        return unit * math.sqrt(value * size) + unit * unit * size if value >= 0 and size < math.inf else 0.0

    def coefficients(self, weights: Vector) -> Vector:
        """Compute c_beta = lambda_beta / e_beta, times a power of two that no ratio of parts feels.

        N_beta grows like mean^(degree-1), so c_beta may leave the range of float32 when X is far from one;
        the power of two brings the largest c_beta mean^(degree-1) near one, exactly.
        """
        return np.ldexp(weights / self.references, self._exponent(weights))

    def factor(self, weights: Vector) -> float:
        """Compute that power of two, which penalties are multiplied by too."""
        # 2^1024 is beyond float64
        return math.ldexp(1.0, min(self._exponent(weights), 1000))

    def _exponent(self, weights: Vector) -> int:
        unit, c = math.log2(positive_scale(self.mean)), (weights / self.references).tolist()
        sizes = [math.log2(one) + (loss.degree - 1.0) * unit for one, loss in zip(c, self.omega, strict=True) if one]
        return -round(max(sizes))


def complementarity_gap(weights: Vector, scaled_losses: Vector) -> Any:
    """Compute max Dbar - lambda'Dbar >= 0 of every row: how far lambda is from the best answer to the factors."""
    return scaled_losses.max(-1) - (weights[..., None, :] @ scaled_losses[..., :, None])[..., 0, 0]
