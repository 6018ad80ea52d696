"""Models and functions with flat options, for tests that go through tables of settings."""

from __future__ import annotations

from typing import Any

import drnmf
from drnmf import DRNMF, BetaNMF, Solver
from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import parameters_of

SOLVER = parameters_of(Solver)


def make(cls: Any, *values: Any, **options: Any) -> Any:
    """Make an estimator; settings of its solver are among the options."""
    expert = {name: options.pop(name) for name in SOLVER if name in options}
    return cls(*values, **options, **({"solver": Solver(**expert)} if expert else {}))


def _parts(options: dict[str, Any], *more: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split options into those of the model and those of the function."""
    known = {*parameters_of(Parameters), *SOLVER, *more}
    model = {name: value for name, value in options.items() if name in known}
    return model, {name: value for name, value in options.items() if name not in known}


def noise_profile(X: Any, rank: int, **options: Any) -> Any:
    model, rest = _parts(options)
    return drnmf.noise_profile(make(BetaNMF, rank, **model), X, **rest)


def rank_profile(X: Any, ranks: Any, betas: Any = "auto", **options: Any) -> Any:
    model, rest = _parts(options)
    return drnmf.rank_profile(make(BetaNMF, beta=betas, **{"random_state": 0} | model), X, ranks=ranks, **rest)


def pareto_front(X: Any, rank: int, **options: Any) -> Any:
    model, rest = _parts(options, "betas")
    return drnmf.pareto_front(make(DRNMF, rank, **model), X, **rest)


def discover(X: Any, betas: Any = "auto", level: Any = None, **options: Any) -> Any:
    """Discover without intervals, which take longer than all the rest, unless a level is given."""
    model, rest = _parts(options)
    several = isinstance(betas, tuple | drnmf.Interval)
    loss = {"betas": betas} if several else {"beta": betas}
    return drnmf.discover(X, make(DRNMF if several else BetaNMF, **loss, **model), level=level, **rest)
