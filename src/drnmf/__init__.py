"""Nonnegative matrix factorization for data whose noise you do not know."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drnmf.estimators.base import DRNMF, BetaNMF, MultiObjectiveNMF, load
    from drnmf.estimators.pareto import pareto_front
    from drnmf.losses.beta import beta_divergence
    from drnmf.losses.interval import Interval

__version__ = "0.1.0"

__all__ = ["DRNMF", "BetaNMF", "Interval", "MultiObjectiveNMF", "beta_divergence", "load", "pareto_front"]

_HOMES = {
    "DRNMF": "estimators.base",
    "BetaNMF": "estimators.base",
    "MultiObjectiveNMF": "estimators.base",
    "Interval": "losses.interval",
    "load": "estimators.base",
    "beta_divergence": "losses.beta",
    "pareto_front": "estimators.pareto",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for, so that `drnmf --help` need not wait for scikit-learn."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
