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
from drnmf.backends.base import Data, Observed
from drnmf.backends.observed import HeldOut, weigh
from drnmf.fit.continued import Runs, smallest
from drnmf.fit.method import Budget, Method
from drnmf.fit.references import compute_references
from drnmf.inputs.receive import Received
from drnmf.losses.base import Omega
from drnmf.numerics import Vector
from drnmf.objective.penalties import Sparsity
from drnmf.objective.penalty import Penalty
from drnmf.selection.entries import counted, facts_of
from drnmf.selection.folds import HELD_OUT, Fold, mask_seed, too_few_to_hold_out
from drnmf.selection.likelihood.masses import noise_for
from drnmf.selection.likelihood.scores import compare
from drnmf.selection.walk import on_host

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


@dataclass(frozen=True)
class Choice:
    """A fit that leaves alphas to the data.

    Attributes
    ----------
    data, X : in its backend, with the weights of its entries, and as it was received
    starts, omega, references : of the fit; references None computes them
    method, budget : how it is fitted
    seed : of the entries that are held out
    whole : what the objective is multiplied by in the units of the fit; paths are in those of the caller
    observed : the weights of the entries of X, None where each counts once: held-out entries are among the observed
    """

    data: Data
    X: Any
    starts: list[Start]
    omega: Omega
    references: Vector | None
    method: Method
    budget: Budget
    seed: Any
    whole: float = 1.0
    observed: Observed | HeldOut | None = None

    def decide(self) -> tuple[Method, tuple[AlphaPath, ...], Vector]:
        """Choose one alpha after another; those not chosen yet are left out meanwhile.

        Returns
        -------
        method : with numbers for every alpha; penalties with alpha = 0 are left out
        paths : what was tried
        references : e_beta, which the fit need not compute again
        """
        known = tuple(term for term in self.method.penalties if term.alpha != "auto")
        references = self._references(self.data)
        paths = []
        for term in self.method.penalties:
            if term.alpha == "auto":
                search = self._sparsity if isinstance(term, Sparsity) else self._volume
                path = search(term, known, references)
                paths.append(path)
                known += (replace(term, alpha=path.alpha),) if path.alpha > 0 else ()  # type: ignore[type-var]
        return replace(self.method, penalties=known), tuple(paths), references

    def _references(self, data: Data) -> Vector:
        if self.references is not None:
            return self.references
        return compute_references(data, self.starts, self.omega, self.method, self.budget).values

    def _weights(self) -> Observed | None:
        if isinstance(self.observed, HeldOut):
            return self.observed.bind(self.data.shape, self.data.grouped)
        return self.observed

    def _fit(
        self, data: Data, starts: list[Start], references: Vector, terms: tuple[Penalty, ...], near: bool = False
    ) -> Result:
        """The best run from the starts, to a tolerance that is enough to compare alphas."""
        tol = self.budget.control.tol
        budget = replace(self.budget, control=replace(self.budget.control, tol=max(tol, _TOLERANCE) if tol else 0.0))
        budget.expect(len(starts))
        method = replace(self.method.near() if near else self.method, penalties=terms)
        return smallest(Runs(data, self.omega, method, budget, None, "alpha").begin(starts, references))

    def _volume(self, term: Penalty, known: tuple[Penalty, ...], references: Vector) -> AlphaPath:
        """Raise alpha until the fit suffers, then halve the last step."""
        tried: dict[float, float] = {}

        def loss(alpha: float) -> float:
            terms = (*known, *((with_alpha(term, alpha),) if alpha else ()))
            fit = self._fit(self.data, self.starts, references, terms)
            tried[alpha] = float(fit.scaled_losses.max()) / self.whole
            return tried[alpha]

        limit = (1.0 + LOSS_OF_FIT) * loss(0.0)
        found = largest(lambda alpha: loss(alpha) <= limit)
        return path_of(term, found, tried, limit)

    def _sparsity(self, term: Penalty, known: tuple[Penalty, ...], references: Vector) -> AlphaPath:
        """Fit without some entries, each alpha from where the smaller one ended, and compare their prediction."""
        weights, rank = self._weights(), self.starts[0][1].shape[0]
        facts = facts_of(counted(Received(self.X, weights)))
        if too_few_to_hold_out(facts, self.data.shape, rank, HELD_OUT):
            return AlphaPath(with_alpha(term, 0.0).key, 0.0, np.empty(0), np.empty(0), np.nan)
        fold = Fold.of(self.X, facts, self.data, HELD_OUT, mask_seed(self.seed), weights)
        assert fold.mask is not None
        data, starts, scores = weigh(self.data, fold.mask.others), self.starts, []
        e = references * (data.count / self.data.count)  # as many entries as there are to fit
        for alpha in _SPARSITIES:
            run = self._fit(data, starts, e, (*known, *((with_alpha(term, alpha),) if alpha else ())), alpha > 0)
            starts, loss = [(run.W, run.H)], run.omega[int(np.argmax(run.weights))]
            W, H = on_host(data, (run.W, run.H))
            scores.append(fold.score(noise_for(loss), (W / self.data.scale, H)))  # X is in the unit of the caller
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
    found : what `Choice.decide` left; an alpha that it chose means the same in all units

    Returns
    -------
    terms : those with a given alpha first
    """
    kinds = [(type(term), getattr(term, "on", None)) for term in terms if term.alpha == "auto"]
    chosen = (term for term in found if (type(term), getattr(term, "on", None)) in kinds and term not in terms)
    return (*(term for term in terms if term.alpha != "auto"), *chosen)
