"""How much a penalty should count: alpha from the data.

`Volume`: the largest alpha under which the loss is at most 5 % above that without. `Sparsity`: the largest alpha whose
prediction of held-out entries is within one standard error of the best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drnmf.algorithms.initialize import Start
from drnmf.algorithms.result import Result
from drnmf.numerics import Vector
from drnmf.objective.penalties import Sparsity
from drnmf.objective.penalty import Penalty
from drnmf.problem.problem import Problem
from drnmf.problem.receive import Received
from drnmf.selection.entries import counted, facts_of
from drnmf.selection.folds import HELD_OUT, Fold, mask_seed, too_few_to_hold_out
from drnmf.selection.likelihood.masses import noise_for
from drnmf.selection.likelihood.scores import compare
from drnmf.selection.warm_starts import on_host
from drnmf.solve.references import compute_references
from drnmf.solve.runner import Runner
from drnmf.solve.solve import smallest, solve

LOSS_OF_FIT = 0.05
"""How much larger than without it the loss may be under a volume penalty."""

_FIRST, _FACTOR, _LARGEST, _BISECTIONS = 1e-3, 4.0, 16.0, 3
_SPARSITIES = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
_TOLERANCE = 1e-5


@dataclass(frozen=True)
class AlphaPath:
    """What was tried for the alpha of one penalty, and what was chosen.

    Attributes
    ----------
    penalty : its text, with the alpha chosen
    alpha : the one chosen
    alphas : (k,) those tried, in rising order
    values : (k,) the largest scaled loss at each; for a sparsity how much worse held-out entries are predicted than
        with the best alpha, in log-likelihood per entry
    limit : the largest value that was allowed
    """

    penalty: str
    alpha: float
    alphas: Vector
    values: Vector
    limit: float


def choose_alphas(problem: Problem, runner: Runner, seed: Any) -> tuple[Problem, tuple[AlphaPath, ...]]:
    """Choose the alphas that are left to the data, one after another; those not chosen yet are left out meanwhile.

    Parameters
    ----------
    problem : with alpha="auto" among its penalties
    runner : how it is fitted
    seed : of the entries that are held out

    Returns
    -------
    problem : with numbers for every alpha and with references, which the fit need not compute again; penalties with
        alpha = 0 are left out
    paths : what was tried
    """
    known = tuple(term for term in problem.penalties if term.alpha != "auto")
    if problem.objective is None:
        references = compute_references(problem, runner.starts, runner).values
    else:
        references = problem.objective.references
    paths = []
    for term in problem.penalties:
        if term.alpha == "auto":
            base = problem.penalised(known).over(references)
            path = _sparsity(base, runner, term, seed) if isinstance(term, Sparsity) else _volume(base, runner, term)
            paths.append(path)
            known += (with_alpha(term, path.alpha),) if path.alpha > 0 else ()
    return problem.penalised(known).over(references), tuple(paths)


def _fit(problem: Problem, term: Penalty, alpha: float, runner: Runner, starts: list[Start]) -> Result:
    """The best run from the starts with one more penalty, to a tolerance that is enough to compare alphas."""
    assert problem.objective is not None
    tol, budget = runner.budget.control.tol, runner.budget
    budget = replace(budget, control=replace(budget.control, tol=max(tol, _TOLERANCE) if tol else 0.0))
    budget.expect(len(starts))
    terms = (*problem.penalties, *((with_alpha(term, alpha),) if alpha else ()))
    tried = problem.penalised(terms).over(problem.objective.references)
    quiet = replace(runner, budget=budget, callback=None, stage="alpha")
    return smallest(solve([tried.begun(start) for start in starts], quiet))


def _volume(problem: Problem, runner: Runner, term: Penalty) -> AlphaPath:
    """Raise alpha until the fit suffers, then halve the last step."""
    tried: dict[float, float] = {}
    whole = problem.units.whole(problem.omega)  # paths are in the unit of the caller

    def loss(alpha: float) -> float:
        tried[alpha] = float(_fit(problem, term, alpha, runner, runner.starts).scaled_losses.max()) / whole
        return tried[alpha]

    limit = (1.0 + LOSS_OF_FIT) * loss(0.0)
    found = largest(lambda alpha: loss(alpha) <= limit)
    return path_of(term, found, tried, limit)


def _sparsity(problem: Problem, runner: Runner, term: Penalty, seed: Any) -> AlphaPath:
    """Fit without some entries, each alpha from where the smaller one ended, and compare their prediction."""
    weights, X, starts, scores = problem.observed, problem.given.X, runner.starts, []
    facts = facts_of(counted(Received(X, weights)))
    if too_few_to_hold_out(facts, problem.data.shape, problem.rank, HELD_OUT):
        return AlphaPath(with_alpha(term, 0.0).key, 0.0, np.empty(0), np.empty(0), np.nan)
    fold = Fold.of(X, facts, HELD_OUT, mask_seed(seed), weights)
    seen = fold.problem(problem)
    assert problem.objective is not None
    # as many entries as there are to fit
    seen = seen.over(problem.objective.references * (seen.data.count / problem.data.count))
    for alpha in _SPARSITIES:
        run = _fit(seen, term, alpha, runner.near() if alpha else runner, starts)
        starts, outside = [(run.W, run.H)], seen.back(run)
        noise = noise_for(outside.omega[int(np.argmax(run.weights))])
        scores.append(fold.score(noise, on_host(seen.data, (outside.W, outside.H))))
    compared = compare(scores)
    found = max(alpha for alpha, near in zip(_SPARSITIES, compared.within, strict=True) if near)
    limit = float(compared.errors[_SPARSITIES.index(found)])
    return path_of(term, found, dict(zip(_SPARSITIES, compared.differences.tolist(), strict=True)), limit)


def with_alpha(penalty: Penalty, alpha: float) -> Penalty:
    """Return the penalty with another alpha."""
    return replace(penalty, alpha=alpha)  # type: ignore[type-var]


def largest(holds: Callable[[float], bool]) -> float:
    """Find about the largest alpha that holds: by steps of a factor, then by halves of the last step."""
    low, high = 0.0, _FIRST
    while high <= _LARGEST and holds(high):
        low, high = high, high * _FACTOR
    if high > _LARGEST:
        return low
    for _ in range(_BISECTIONS):
        middle = float(np.sqrt(low * high)) if low else high / _FACTOR
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def path_of(term: Penalty, found: float, tried: dict[float, float], limit: float) -> AlphaPath:
    """Return what was tried for a penalty, in rising order of alpha."""
    alphas = sorted(tried)
    return AlphaPath(
        with_alpha(term, found).key, found, np.array(alphas), np.array([tried[alpha] for alpha in alphas]), limit
    )


def undecided(terms: tuple[Penalty, ...]) -> bool:
    """Tell whether an alpha is left to the data."""
    return any(term.alpha == "auto" for term in terms)


def decided(terms: tuple[Penalty, ...], found: tuple[Penalty, ...]) -> tuple[Penalty, ...]:
    """Put what was found in the place of penalties that left their alpha to the data.

    Parameters
    ----------
    terms : in the units of the caller
    found : what `choose_alphas` left; an alpha that it chose means the same in all units

    Returns
    -------
    terms : those with a given alpha first
    """
    kinds = [(type(term), getattr(term, "on", None)) for term in terms if term.alpha == "auto"]
    chosen = (term for term in found if (type(term), getattr(term, "on", None)) in kinds and term not in terms)
    return (*(term for term in terms if term.alpha != "auto"), *chosen)
