"""Candidates for counts: Poisson with its variance fixed, and the negative binomial with its size by likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np

from drnmf.algorithms.result import Result
from drnmf.backends.base import Data, losses_of
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.numerics import Vector, positive_scale
from drnmf.selection.entries import Facts
from drnmf.selection.likelihood import Candidate, half_log_sums
from drnmf.selection.walk import Walk

SIZES = (1e-2, 1e5)
"""Range of the sizes that are tried, relative to the mean of X."""

ROUNDS = 2
"""How often size and factors are found in turn before the size is frozen."""


def likely_size(X: Any, data: Data, facts: Facts, run: Result) -> float:
    """Find the size under which X is most likely at the V of a run: two grids, one pass over X for each."""
    low, high = (end * positive_scale(data.mean) for end in SIZES)
    sizes = np.geomspace(low, high, 15)
    for _ in range(2):
        at = int(np.argmin(_criteria(X, data, facts, run, sizes)))
        best = float(sizes[at])
        sizes = np.geomspace(sizes[max(at - 1, 0)], sizes[min(at + 1, sizes.size - 1)], 15)
    return best


def _criteria(X: Any, data: Data, facts: Facts, run: Result, sizes: Vector) -> Vector:
    listed = [Candidate(NegativeBinomial(float(size)), facts.unit) for size in sizes]
    losses = losses_of(data, run.W, run.H, tuple(candidate.loss for candidate in listed))
    sums = half_log_sums(X, facts, listed)
    return np.array([c.criterion(d, facts.effective, s) for c, d, s in zip(listed, losses, sums, strict=True)])


def negative_binomial(X: Any, walk: Walk, facts: Facts, run: Result) -> tuple[Candidate, Result]:
    """Fit the negative binomial from where another fit ended, its size and the factors in turn."""
    for _ in range(ROUNDS):
        loss = NegativeBinomial(float(f"{likely_size(X, walk.data, facts, run):.4g}"))
        run = walk.near(loss, (run.W, run.H))
    return Candidate(loss, facts.unit), run
