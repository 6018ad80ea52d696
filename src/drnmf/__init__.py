"""Nonnegative matrix factorization for data whose noise you do not know."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

_MODULES = {
    "CP": "estimators.tensor",
    "DRNMF": "estimators.models",
    "BetaNMF": "estimators.models",
    "MultiObjectiveNMF": "estimators.models",
    "HeldOut": "backends.observed",
    "Huber": "losses.huber",
    "Interval": "losses.interval",
    "NegativeBinomial": "losses.negative_binomial",
    "Rowwise": "losses.part",
    "L1": "objective.penalties",
    "L2": "objective.penalties",
    "Smooth": "objective.penalties",
    "Solver": "parameters.solver",
    "Sparsity": "objective.penalties",
    "Volume": "objective.penalties",
    "assign": "selection.assignment.assign",
    "consensus": "selection.consensus",
    "discover": "discovery.found",
    "intervals": "selection.intervals",
    "match": "selection.matching",
    "load": "estimators.models",
    "beta_divergence": "backends.entries",
    "noise_profile": "selection.noise",
    "pareto_front": "estimators.pareto",
    "rank_profile": "selection.rank",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that `drnmf --help` need not wait for scikit-learn."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
