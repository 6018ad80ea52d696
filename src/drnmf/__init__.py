"""Nonnegative matrix factorization for data whose noise you do not know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drnmf.loading import lazily

if TYPE_CHECKING:
    from drnmf.backends.entries import beta_divergence
    from drnmf.backends.observed import HeldOut
    from drnmf.discovery.found import discover
    from drnmf.estimators.models import DRNMF, BetaNMF, MultiObjectiveNMF, load
    from drnmf.estimators.pareto import pareto_front
    from drnmf.estimators.tensor import CP
    from drnmf.losses.huber import Huber
    from drnmf.losses.interval import Interval
    from drnmf.losses.negative_binomial import NegativeBinomial
    from drnmf.losses.part import Rowwise
    from drnmf.objective.penalties import L1, L2, Smooth, Sparsity, Volume
    from drnmf.parameters.solver import Solver
    from drnmf.selection.assignment.assign import assign
    from drnmf.selection.consensus import consensus
    from drnmf.selection.intervals import intervals
    from drnmf.selection.matching import match
    from drnmf.selection.noise import noise_profile
    from drnmf.selection.rank import rank_profile

__version__ = "0.1.0"

__all__ = [
    "CP",
    "DRNMF",
    "L1",
    "L2",
    "BetaNMF",
    "HeldOut",
    "Huber",
    "Interval",
    "MultiObjectiveNMF",
    "NegativeBinomial",
    "Rowwise",
    "Smooth",
    "Solver",
    "Sparsity",
    "Volume",
    "assign",
    "beta_divergence",
    "consensus",
    "discover",
    "intervals",
    "load",
    "match",
    "noise_profile",
    "pareto_front",
    "rank_profile",
]

__getattr__ = lazily(
    __name__,
    {
        "backends.entries": ("beta_divergence",),
        "backends.observed": ("HeldOut",),
        "discovery.found": ("discover",),
        "estimators.models": ("DRNMF", "BetaNMF", "MultiObjectiveNMF", "load"),
        "estimators.pareto": ("pareto_front",),
        "estimators.tensor": ("CP",),
        "losses.huber": ("Huber",),
        "losses.interval": ("Interval",),
        "losses.negative_binomial": ("NegativeBinomial",),
        "losses.part": ("Rowwise",),
        "objective.penalties": ("L1", "L2", "Smooth", "Sparsity", "Volume"),
        "parameters.solver": ("Solver",),
        "selection.assignment.assign": ("assign",),
        "selection.consensus": ("consensus",),
        "selection.intervals": ("intervals",),
        "selection.matching": ("match",),
        "selection.noise": ("noise_profile",),
        "selection.rank": ("rank_profile",),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
