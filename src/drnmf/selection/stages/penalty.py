"""How much the penalties of a discovery count: alphas from the data, at the best rank of the ladder without them.

Sparsity: the smallest alpha that held-out entries cannot tell from the best, so that none is used where none helps.
Volume: the largest under which the loss is at most 5 % above that without, as in a fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from drnmf.objective.penalties import Sparsity
from drnmf.objective.penalty import Penalty
from drnmf.selection.choose import CLEARLY, first_within
from drnmf.selection.likelihood.scores import Scores, compare
from drnmf.selection.penalties.alpha import LOSS_OF_FIT, AlphaPath, largest, path_of, with_alpha
from drnmf.selection.stages.run_pool import RunPool

SPARSITIES = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1)
"""Alphas of a sparsity that are tried, in this order, until entries are predicted clearly worse."""


def penalised(pool: RunPool, terms: tuple[Penalty, ...]) -> RunPool:
    """Return a pool whose runs have these penalties and no others."""
    fitter = replace(pool.fitter, parameters=replace(pool.fitter.parameters, penalties=terms))
    kind = "".join(f"{term.key.replace(':', '_')}-" for term in terms)
    return replace(pool, fitter=fitter, kind=pool.kind + kind)


def sparsity_path(term: Penalty, scores_of: Callable[[float], Scores | None]) -> AlphaPath | None:
    """Choose the alpha of a sparsity.

    Parameters
    ----------
    term : the penalty
    scores_of : of the entries held out of runs with an alpha; None where no time is left

    Returns
    -------
    path : None where there was no time for two alphas
    """
    tried: dict[float, Scores] = {}
    for alpha in SPARSITIES:
        found = scores_of(alpha)
        if found is None:
            break
        tried[alpha] = found
        compared = compare(list(tried.values()))
        if compared.differences[-1] > CLEARLY * compared.errors[-1]:
            break
    return _smallest(term, tried) if len(tried) > 1 else None


def _smallest(term: Penalty, tried: Mapping[float, Scores]) -> AlphaPath:
    compared, alphas = compare(list(tried.values())), list(tried)
    found = first_within(list(tried.values()))
    differences = dict(zip(alphas, compared.differences.tolist(), strict=True))
    return path_of(term, alphas[found], differences, float(compared.errors[found]))


def volume_path(term: Penalty, loss_of: Callable[[float], float]) -> AlphaPath:
    """Choose the alpha of a volume by the loss that runs with an alpha have; infinite where no time is left."""
    tried: dict[float, float] = {}

    def loss(alpha: float) -> float:
        tried[alpha] = loss_of(alpha)
        return tried[alpha]

    limit = (1.0 + LOSS_OF_FIT) * loss(0.0)
    return path_of(term, largest(lambda alpha: np.isfinite(limit) and loss(alpha) <= limit), tried, limit)


def with_path(terms: tuple[Penalty, ...], term: Penalty, path: AlphaPath) -> tuple[Penalty, ...]:
    """Add a penalty with the alpha that was chosen, unless that is zero."""
    return (*terms, with_alpha(term, path.alpha)) if path.alpha > 0 else terms


def said(path: AlphaPath, term: Any) -> str:
    """Say what was chosen."""
    name = f"{term.word} of the {'contributions' if term.on == 'W' else 'components'}"
    if not path.alphas.size:
        return f"Too few entries to hold some out: no {name} is used."
    if isinstance(term, Sparsity):
        why = "held-out entries are predicted {} with it"
        none, some = why.format("no better"), why.format("better")
    else:
        none, some = "any costs more than 5 % of the fit", "the largest that costs at most 5 % of the fit"
    return f"The {name} has alpha = {path.alpha:.3g}: {some}." if path.alpha else f"No {name} is used: {none}."
