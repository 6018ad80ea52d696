"""The noise by which contributions are judged: that of the loss that was fitted, its parameter from the fit."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.observed import HeldOut, product
from drnmf.losses.base import Loss, Omega
from drnmf.losses.beta import KL, Beta
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.numerics import Vector
from drnmf.problem.problem import Problem
from drnmf.problem.receive import Received
from drnmf.selection.assignment.supports import Places
from drnmf.selection.choose import Fits, candidates, choose_noise
from drnmf.selection.entries import Facts, counted, facts_of, some_of
from drnmf.selection.folds import HELD_OUT, LEAST_ENTRIES, Fold
from drnmf.selection.likelihood.grid import Grid
from drnmf.selection.likelihood.masses import (
    Deviance,
    GaussianNoise,
    NegativeBinomialNoise,
    Noise,
    PoissonNoise,
    noise_for,
)
from drnmf.selection.likelihood.scores import DRAWS, PROOF, corrected_size, drawn, likely_parameters, likely_size
from drnmf.solve.encode import Encoder

BETAS = (0.0, 0.5, 1.0, 1.5, 2.0)
"""Betas that known components are compared under, 0.1 for 0 where X has zeros."""

LEAST_BETA = 0.1
MASKS = 2
"""How often entries are held out."""

STEPS, TO_THE_END = 60, 300
"""Steps of contributions that are only compared, and of those that tell a size."""

ENTRIES, LEAST_ROWS = 40_000, 50
"""Entries that tell the noise, and rows at least."""


@dataclass(frozen=True)
class Judged:
    """A noise with its parameter."""

    noise: Noise  # how entries scatter
    parameter: float = math.nan  # phi, the size or the standard deviation; NaN where nothing is free


@dataclass(frozen=True)
class Seen:
    """Entries of X, what a fit says of them, and their weights, one number for each."""

    # x, mu, weight: values, means and weights
    x: Vector
    mu: Vector
    weight: Vector
    free: int  # numbers that the fit was free to choose for them

    @classmethod
    def of(cls, given: Received, W: Any, H: Any) -> Seen:
        """Look at entries of X under W and H, where they have a weight."""
        assert not isinstance(given.observed, HeldOut)
        X = np.asarray(given.X.toarray() if sp.issparse(given.X) else given.X, dtype=np.float64)
        weight = np.ones(X.shape) if given.observed is None else given.observed.tile(slice(0, X.shape[1]))
        weight = np.broadcast_to(np.asarray(weight, dtype=np.float64), X.shape)
        at = np.isfinite(X) & (weight > 0) & (np.nan_to_num(X).sum(axis=1) > 0)[:, None]
        mu = np.maximum(np.asarray(W, np.float64) @ np.asarray(H, np.float64), np.finfo(np.float64).tiny)
        # a component below a thousandth of the largest of its row is none that the fit has used there
        free = int((np.asarray(W) > 1e-3 * np.max(W, axis=1, keepdims=True))[at.any(axis=1)].sum())
        return cls(X[at], mu[at], weight[at], free)


def noise_of(omega: Omega, seen: Seen, grid: Grid) -> Judged:
    """Find the noise of a fit; of several losses the one counts that makes entries likeliest.

    Counts under Kullback-Leibler are Poisson's unless a dispersion makes them clearly likelier.
    """
    found = [_judged(loss, seen, grid) for loss in omega]
    return max(found, key=lambda one: _likelihood(one, seen, grid))


def _judged(loss: Loss, seen: Seen, grid: Grid) -> Judged:
    if isinstance(loss, NegativeBinomial) and grid.unit is not None:
        return Judged(NegativeBinomialNoise(), loss.size)
    noise = Deviance(loss) if isinstance(loss, NegativeBinomial) else noise_for(loss)
    spread = Judged(noise, _parameter(noise, seen, grid))
    if loss != KL or grid.unit is None:
        return spread
    poisson = Judged(PoissonNoise())
    gain = _likelihood(spread, seen, grid) - _likelihood(poisson, seen, grid)
    return spread if gain > PROOF and spread.parameter > grid.unit else poisson


def _parameter(noise: Noise, seen: Seen, grid: Grid) -> float:
    """Find the parameter at which entries are likeliest, larger by what the fit has taken of the noise."""
    bounds = noise.bounds(seen.x, seen.mu, grid)
    if bounds is None:
        return math.nan
    found = likely_parameters(noise.log_mass(seen.x, seen.mu, grid), [seen.weight], bounds)[0]
    # at most tenfold: where the fit takes nearly all entries they do not tell their noise
    taken = seen.x.size / max(seen.x.size - seen.free, 0.1 * seen.x.size)
    return found * (math.sqrt(taken) if isinstance(noise, GaussianNoise) else taken)


def _likelihood(judged: Judged, seen: Seen, grid: Grid) -> float:
    return float(judged.noise.log_mass(seen.x, seen.mu, grid)(judged.parameter) @ seen.weight)


@dataclass(frozen=True)
class KnownComponents:
    """Components that are known, and what finds contributions of them."""

    problem: Problem  # some rows of X
    encoder: Encoder  # under any loss
    seed: int = 0  # of what is held out

    @classmethod
    def some(cls, problem: Problem, encoder: Encoder, seed: int) -> KnownComponents:
        """Look at some rows of a large X."""
        return cls(problem.rows(some_rows(problem.data.shape, seed)), encoder, seed)

    @property
    def given(self) -> Received:
        """The rows, with their weights."""
        return self.problem.given

    def likely_loss(self) -> Loss:
        """Find the loss of the noise of X: entries that are held out of the contributions tell."""
        facts = facts_of(counted(self.given))
        fraction = HELD_OUT if HELD_OUT * facts.count >= LEAST_ENTRIES else 0.0
        seeds = range(self.seed, self.seed + (MASKS if fraction else 1))
        folds = [Fold.of(self.given, facts, fraction, seed) for seed in seeds]
        omega = tuple(Beta(LEAST_BETA if beta == 0.0 and facts.zeros else beta) for beta in BETAS)
        fits: list[Fits] = [{loss: self._fit(loss, fold) for loss in omega} for fold in folds]
        size = None
        if facts.unit is not None:
            size = self._size(folds[0], fits[0])
            for fold, fit in zip(folds, fits, strict=True):
                fit[NegativeBinomial(size)] = self._fit(NegativeBinomial(size), fold)
        listed = candidates(omega, facts.unit is not None, size)
        loss = listed[choose_noise(folds, fits, listed, facts.unit)[0]].loss
        return self._corrected(loss, facts) if isinstance(loss, NegativeBinomial) else loss

    def _fit(self, loss: Loss, fold: Fold) -> tuple[object, object]:
        mask = None if fold.mask is None else fold.mask.others
        return self._contributions(loss, replace(self.given, observed=product(fold.observed, mask)))

    def _contributions(self, loss: Loss, given: Received, steps: int = STEPS) -> tuple[Any, Any]:
        objective = replace(self.encoder.objective, omega=(loss,))
        encoder = replace(self.encoder, objective=objective, max_iter=steps)
        W = encoder.rows(self.problem.entries(given, encoder.objective.mean))
        return np.asarray(W), self.encoder.components

    def _size(self, fold: Fold, fits: Fits) -> float:
        found = fold.score(NegativeBinomialNoise(), fits[KL], shrink=True).parameter
        return float(f"{found:.4g}")

    def _corrected(self, loss: NegativeBinomial, facts: Facts) -> NegativeBinomial:
        """The size at the fit of all entries, corrected for what that has taken of the noise."""
        unit, observed = facts.unit, self.given.observed
        assert unit is not None

        def found(given: Received) -> tuple[float, Vector]:
            W, H = self._contributions(loss, given, TO_THE_END)
            seen = Seen.of(given, W, H)
            return likely_size(seen.x, seen.mu, facts.grid, seen.weight), np.asarray(W, np.float64) @ H

        size, V = found(self.given)
        dense = np.asarray(self.given.X.toarray() if sp.issparse(self.given.X) else self.given.X, dtype=np.float64)
        V = np.where(np.isnan(dense), math.nan, V)
        again = [found(Received(drawn(V, size, unit, seed), observed))[0] for seed in range(DRAWS)]
        return NegativeBinomial(float(f"{corrected_size(size, again):.4g}"))


def some_rows(shape: tuple[int, int], seed: int) -> Places:
    """Choose rows of a large X by a hash of their numbers; all columns stay, because components have them."""
    m, n = shape
    count = max(LEAST_ROWS, ENTRIES // n)
    return np.arange(m) if count >= m else some_of(m, count, seed)
