"""Solver: how a fit is computed, as far as most users never ask."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from numpy.typing import ArrayLike

from drnmf.algorithms.updates import RULES
from drnmf.algorithms.updates.base import Rule
from drnmf.algorithms.weights import POLICIES, Policy
from drnmf.parameters.fields import Kind, choice, documented, integer, named, number, parameter

PRECISIONS = ("float32", "tf32")


@documented()
@dataclass(kw_only=True, eq=False, repr=False)
class Solver:
    """Collect the expert settings of an estimator; ``solver="mu"`` is short for ``Solver(update="mu")``.

    Examples
    --------
    >>> from drnmf import BetaNMF
    >>> BetaNMF(3, solver=Solver(update="mu", inner_iter=2)).get_params()["solver__update"]
    'mu'
    """

    update: str | Rule = parameter(
        "auto",
        named(RULES, "a rule"),
        "Update rule.",
        '"auto" is "hals" for beta = 2 alone; else 30 multiplicative steps, the later ones extrapolated, then '
        "Newton steps, up to r = 24, or more for a small X, each column with a curvature, above all with one. "
        '"mu" is Algorithm 1 of the paper and returns the last iterate, the others the best point met. '
        '"newton" has a curvature for every column at any r, "hals" is coordinate descent on W\'W.',
        "--update",
    )
    policy: str | Policy = parameter(
        "auto",
        named(POLICIES, "a policy"),
        "How the weights of several losses move.",
        '"auto" is "reactive" after 100 steps of Algorithm 3, with update="mu" Algorithm 3 throughout; '
        '"frank-wolfe" is Algorithm 3 (step 1/(k+1)), "frank-wolfe-2" has steps 2/(k+2), "minimax" steps that '
        "never raise the maximum. A policy has `init(p)` and `step(weights, scaled_losses, state)`.",
        "--policy",
    )
    inner_iter: int = parameter(
        1,
        integer(1),
        "Updates of W and H per move of the weights.",
        'With policy="subgradient" and many of them it is Algorithm 2.',
        "--inner-iter",
    )
    precision: str = parameter(
        "float32",
        choice(*PRECISIONS),
        "Products on a GPU, for X in float32 or half precision: tf32 is faster.",
        "docs/gpu.md says what it costs.",
        "--precision",
    )
    references: ArrayLike | None = parameter(
        None,
        Kind("(p,), > 0", none=True),
        "What the losses are divided by, aligned with them.",
        "None computes them; for one loss it is 1.",
    )
    part_scale: str = parameter(
        "regret",
        choice("regret", "ratio"),
        "How losses of groups and tables are made alike.",
        '"regret" is the distance from what a part reaches alone, in that of its simplest model; "ratio" divides '
        "by what it reaches alone.",
        "--part-scale",
    )
    checkpoint: str | os.PathLike[str] | None = parameter(
        None,
        Kind("path-like", none=True, type=Path),
        "Keep the fit in this folder, for `drnmf resume`.",
        "A fit that was stopped, by kill -9 too, is resumed when it is called again with the same X and parameters.",
        "--checkpoint",
        result=False,
        saved=False,
    )
    checkpoint_every: float = parameter(
        30.0, number(), "Seconds between two checkpoints; 0: every iteration.", "", "--checkpoint-every", result=False
    )
    callback: Callable[[Any], object] | None = parameter(
        None,
        Kind("callable", none=True),
        "Called after every iteration with iteration, losses, scaled_losses, weights and seconds.",
        "Returning True stops. `discover` calls it after every run, with a `Moment`.",
        result=False,
        saved=False,
    )
    normalize: bool = parameter(
        True, Kind("bool"), "Return components in canonical form: as long as their columns of W, the largest first."
    )
    fixed_W: ArrayLike | None = parameter(
        None,
        Kind("(m, f)", none=True),
        "Contributions that do not move: the first f columns of W.",
        "docs/constraints.md",
    )

    def __repr__(self) -> str:
        changed = [known for known in fields(self) if getattr(self, known.name) is not known.default]
        return f"Solver({', '.join(f'{known.name}={getattr(self, known.name)!r}' for known in changed)})"

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return the settings by name, as estimators of scikit-learn do."""
        return {known.name: getattr(self, known.name) for known in fields(self)}

    def set_params(self, **params: object) -> Self:
        """Change settings, as estimators of scikit-learn do.

        Raises
        ------
        ValueError
            For a name that is none of them.
        """
        for name, value in params.items():
            if name not in self.__dataclass_fields__:
                raise ValueError(f"Solver has no {name!r}: it has {', '.join(self.__dataclass_fields__)}.")
            setattr(self, name, value)
        return self


def as_solver(value: object) -> Solver:
    """Return the solver behind an estimator's `solver`: the object, or the one with the update rule of that name."""
    if isinstance(value, Solver):
        return value
    if isinstance(value, str):
        return Solver(update=value)
    raise ValueError(f"solver={value!r} must be a drnmf.Solver, or the name of an update rule such as 'mu'.")
