"""How much a penalty should count: alpha from the data.

`Volume`: the largest alpha under which the loss is at most 5 % above that without. `Sparsity`: the smallest alpha that
held-out entries cannot tell from the best, so that none is used where none helps. Fits and discoveries have one rule.

What the loss alone decides is tried on some rows of a large X, each alpha from where the next smaller one ended; the
fit of all rows begins with the components of those.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drnmf.algorithms.initialize import Start
from drnmf.algorithms.result import Result
from drnmf.numerics import Vector
from drnmf.objective.penalties import Sparsity
from drnmf.objective.penalty import Penalty
from drnmf.problem.problem import Problem, point_of, reference_floors
from drnmf.selection.choose import CLEARLY, first_within
from drnmf.selection.entries import counted, facts_of
from drnmf.selection.folds import HELD_OUT, Fold, mask_seed, too_few_to_hold_out
from drnmf.selection.likelihood.masses import noise_for
from drnmf.selection.likelihood.scores import Scores, compare
from drnmf.selection.warm_starts import Sample, on_host
from drnmf.solve.references import compute_references
from drnmf.solve.runner import Runner
from drnmf.solve.solve import smallest, solve

LOSS_OF_FIT = 0.05
"""How much larger than without it the loss may be under a volume penalty."""

_FIRST, _FACTOR, _LARGEST, _BISECTIONS = 1e-3, 4.0, 16.0, 3
"""The first alpha of a volume, the factor between two and the largest; then its logarithm is halved so often, after
which the alpha found is within 4^(1/8), a fifth, of the limit."""
SPARSITIES = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1)
"""Alphas of a sparsity that are tried, in this order, until entries are predicted clearly worse."""
_TOLERANCE = 1e-5
"""Least tolerance of fits that are only compared: the losses that are told apart differ by percents."""


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


@dataclass(frozen=True)
class Alphas:
    """What `choose_alphas` leaves."""

    # with numbers for every alpha and with references, which the fit need not compute again; penalties with alpha = 0
    # are left out
    problem: Problem
    runner: Runner  # how it is fitted, from where the last path ended if that was one of some rows
    paths: tuple[AlphaPath, ...]  # what was tried


def choose_alphas(problem: Problem, runner: Runner, seed: object) -> Alphas:
    """Choose the alphas that are left to the data, one after another; those not chosen yet are left out meanwhile.

    `seed` is that of the entries that are held out, and of the rows that stand for all.
    """
    by_loss = not any(isinstance(term, Sparsity) for term in problem.penalties if term.alpha == "auto")
    sample = Sample.of(problem, mask_seed(seed)) if by_loss else None
    if sample is not None:
        return _on_some_rows(sample, runner)
    references = _references(problem, runner)
    known = tuple(term for term in problem.penalties if term.alpha != "auto")
    paths = []
    for term in problem.penalties:
        if term.alpha == "auto":
            base = problem.penalised(known).over(references)
            sparse = isinstance(term, Sparsity)
            path = _sparsity(base, runner, term, seed) if sparse else _volume(base, runner, term)[0]
            paths.append(path)
            known = with_path(known, term, path)
    return Alphas(problem.penalised(known).over(references), runner, tuple(paths))


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


def _references(problem: Problem, runner: Runner) -> Vector:
    """Return those that are given, or find them."""
    if problem.objective is not None:
        return problem.objective.references
    return compute_references(problem, runner.starts, runner).values


def _on_some_rows(sample: Sample, runner: Runner) -> Alphas:
    """Choose alphas on some rows; all rows are fitted once, from where the last path ended."""
    some, whole, quick = sample.some, sample.whole, sample.runner(runner)
    alone = compute_references(some, quick.starts, quick) if some.objective is None else None
    scale = _references(some, quick) if alone is None else alone.values
    known, paths = tuple(term for term in some.penalties if term.alpha != "auto"), []
    for term in some.penalties:
        if term.alpha == "auto":
            path, last = _volume(some.penalised(known).over(scale), quick, term)
            paths.append(path)
            known = with_path(known, term, path)
    if alone is None:
        references = _references(whole, runner)
    else:
        runner.budget.expect(len(whole.omega))
        begun = [whole.alone(run.omega[0]).begun(sample.start(run)) for run in alone.solutions]
        runs = solve(begun, replace(runner.near().alone(level=True), rough=True))
        references = np.maximum([run.losses[0] for run in runs], reference_floors(whole.data, whole.omega))
    return Alphas(
        whole.penalised(known).over(references), replace(runner.near(), starts=[sample.start(last)]), tuple(paths)
    )


def _volume(problem: Problem, runner: Runner, term: Penalty) -> tuple[AlphaPath, Result]:
    """Raise alpha until the fit suffers, then halve the last step; each from where the next smaller one ended."""
    whole = problem.units.whole(problem.omega)  # paths are in the unit of the caller
    runs: dict[float, Result] = {}

    def loss_of(alpha: float) -> float:
        below = runs[max(tried for tried in runs if tried < alpha)] if runs else None
        how, starts = (runner, runner.starts) if below is None else (runner.near(), [point_of(below)])
        runs[alpha] = _fit(problem, term, alpha, how, starts)
        return float(runs[alpha].scaled_losses.max()) / whole

    path = volume_path(term, loss_of)
    return path, runs[path.alpha]


def _sparsity(problem: Problem, runner: Runner, term: Penalty, seed: object) -> AlphaPath:
    """Fit without some entries, each alpha from where the smaller one ended, and compare their prediction."""
    starts, facts = runner.starts, facts_of(counted(problem.given))
    if too_few_to_hold_out(facts, problem.data.shape, problem.rank, HELD_OUT):
        return path_of(term, 0.0, {}, math.nan)
    fold = Fold.of(replace(problem.given, known=False), facts, HELD_OUT, mask_seed(seed))
    seen = fold.problem(problem)
    assert problem.objective is not None
    # as many entries as there are to fit
    seen = seen.over(problem.objective.references * (seen.data.count / problem.data.count))

    def scores_of(alpha: float) -> Scores:
        nonlocal starts
        run = _fit(seen, term, alpha, runner.near() if alpha else runner, starts)
        starts, outside = [(run.W, run.H)], seen.back(run)
        noise = noise_for(outside.omega[int(np.argmax(run.weights))])
        return fold.score(noise, on_host(seen.data, (outside.W, outside.H)))

    path = sparsity_path(term, scores_of)
    assert path is not None
    return path


def sparsity_path(term: Penalty, scores_of: Callable[[float], Scores | None]) -> AlphaPath | None:
    """Choose the alpha of a sparsity by scores of entries held out of runs with it; None without time for two."""
    tried: dict[float, Scores] = {}
    for alpha in SPARSITIES:
        scores = scores_of(alpha)
        if scores is None:
            break
        tried[alpha] = scores
        compared = compare(list(tried.values()))
        if compared.differences[-1] > CLEARLY * compared.errors[-1]:
            break
    if len(tried) < 2:
        return None
    at = first_within(list(tried.values()))
    differences = dict(zip(tried, compared.differences.tolist(), strict=True))
    return path_of(term, list(tried)[at], differences, float(compared.errors[at]))


def volume_path(term: Penalty, loss_of: Callable[[float], float]) -> AlphaPath:
    """Choose the alpha of a volume by the loss that runs with an alpha have; infinite where no time is left."""
    tried: dict[float, float] = {}

    def loss(alpha: float) -> float:
        tried[alpha] = loss_of(alpha)
        return tried[alpha]

    def holds(alpha: float) -> bool:
        return bool(np.isfinite(least()) and loss(alpha) <= (1.0 + LOSS_OF_FIT) * least())

    def least() -> float:
        return min(tried.values())  # what a run met under a penalty could be had without

    loss(0.0)
    chosen = largest(holds)
    return path_of(term, chosen, tried, (1.0 + LOSS_OF_FIT) * least())


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


def path_of(term: Penalty, chosen: float, tried: dict[float, float], limit: float) -> AlphaPath:
    """Return what was tried for a penalty, in rising order of alpha."""
    alphas = sorted(tried)
    return AlphaPath(
        with_alpha(term, chosen).key, chosen, np.array(alphas), np.array([tried[alpha] for alpha in alphas]), limit
    )


def undecided(terms: tuple[Penalty, ...]) -> bool:
    """Tell whether an alpha is left to the data."""
    return any(term.alpha == "auto" for term in terms)


def decided(terms: tuple[Penalty, ...], chosen_terms: tuple[Penalty, ...]) -> tuple[Penalty, ...]:
    """Put what `choose_alphas` chose in the place of penalties that left their alpha to the data, after the others.

    An alpha that it chose means the same in all units.
    """
    kinds = [(type(term), getattr(term, "on", None)) for term in terms if term.alpha == "auto"]
    chosen = (term for term in chosen_terms if (type(term), getattr(term, "on", None)) in kinds and term not in terms)
    return (*(term for term in terms if term.alpha != "auto"), *chosen)
