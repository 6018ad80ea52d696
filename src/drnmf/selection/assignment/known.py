"""Known components that serve: those that some rows of X have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from drnmf.numerics import Vector
from drnmf.parameters.common import Parameters
from drnmf.problem.device import as_numpy
from drnmf.selection.assignment.assign import assign
from drnmf.selection.matching import shares
from drnmf.solve.settings import asked_losses

LEAST_ROWS, LEAST_PART = 2, 0.01
"""Rows that need a known component before it is kept: so many, and this part of all."""

MORE = 10
"""New components that are looked for beside known ones, at most, where no ranks are named."""


def search_beside_known(search: Callable[..., Any], X: Any, model: Parameters, asked: Any) -> Any:
    """Search with known components fixed where they serve.

    A search without them comes first. Known components serve where rows need them although they may have those that
    were found freely: so none is kept because it was the nearest thing at hand.

    Parameters
    ----------
    search : makes one search: search(X, model, asked)
    X, model : as in `discover`
    asked : with the reference

    Returns
    -------
    Discovery
    """
    known, free = asked.reference.components, replace(asked, reference=None, keep=False, level=None)
    H = serving(X, known, search(X, model, free).components, model, asked.entry_weight, asked.uncertainty)
    fixed = replace(model, fixed=H) if len(H) else model
    tried = ranks_beside(asked.ranks, len(H), min(X.shape)) if len(H) else asked.ranks
    found = search(X, fixed, replace(asked, keep=False, ranks=tried))
    said = f"{len(H)} of {len(known)} known components are needed, and were kept as they are in every run."
    return replace(found, notes=(said, *found.notes))


def _enough(rows: Any, count: int) -> Any:
    return rows >= max(LEAST_ROWS, LEAST_PART * count)


def serving(X: Any, known: Vector, others: Vector, model: Parameters, entry_weight: Any, uncertainty: Any) -> Vector:
    """Take the known components that some rows need beside others, as `assign` says.

    Parameters
    ----------
    X, entry_weight, uncertainty : as in `assign`
    known : (s, n), known components, under the columns of X
    others : (r, n), components that rows may have instead
    model : what the search fits; its loss where it is one

    Returns
    -------
    components : (f, n), in the order of the known
    """
    betas, names = asked_losses(model), ("zeros", "negatives", "unstored", "random_state")
    one = not isinstance(betas, str | int | float) and hasattr(betas, "__len__") and len(betas) > 1
    read: Any = Parameters(**{name: getattr(model, name) for name in names}) if one else replace(model, penalties=None)
    pool = np.vstack([shares(known), others])
    found = assign(X, pool, read, entry_weight=entry_weight, uncertainty=uncertainty)
    needed = (np.asarray(as_numpy(found.contributions))[:, : len(known)] > 0).sum(axis=0)
    return known[_enough(needed, X.shape[0])]


def ranks_beside(ranks: Any, known: int, most: int) -> list[int]:
    """List how many components to try where some are known.

    >>> ranks_beside(None, 3, 5), ranks_beside(range(2, 5), 3, 9)
    ([3, 4, 5], [3, 4])
    """
    listed = range(known, known + MORE + 1) if ranks is None else [ranks] if isinstance(ranks, int) else list(ranks)
    return [rank for rank in listed if known <= rank <= most] or [min(known, most)]
