"""Nonnegative matrix factorization for data whose noise you do not know."""

from drnmf.divergence import beta_divergence
from drnmf.estimators import DRNMF, BetaNMF, MultiObjectiveNMF, load

__version__ = "0.1.0"

__all__ = ["DRNMF", "BetaNMF", "MultiObjectiveNMF", "beta_divergence", "load"]
