"""Nonnegative matrix factorization for data whose noise you do not know."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drnmf.divergence import beta_divergence
    from drnmf.estimators import DRNMF, BetaNMF, MultiObjectiveNMF, load
    from drnmf.interval import Interval
    from drnmf.pareto import pareto_front

__version__ = "0.1.0"

__all__ = ["DRNMF", "BetaNMF", "Interval", "MultiObjectiveNMF", "beta_divergence", "load", "pareto_front"]

_HOMES = {
    "DRNMF": "estimators",
    "BetaNMF": "estimators",
    "MultiObjectiveNMF": "estimators",
    "Interval": "interval",
    "load": "estimators",
    "beta_divergence": "divergence",
    "pareto_front": "pareto",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for, so that `drnmf --help` need not wait for scikit-learn."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
