"""Of several starts the best run is kept, whichever place it has."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from drnmf import BetaNMF
from drnmf.algorithms.loop import Control
from drnmf.backends.open import open_data
from drnmf.fit.continued import Runs, smallest
from drnmf.fit.method import Budget, Method
from drnmf.fit.references import compute_references
from drnmf.losses.beta import IS, KL

RNG = np.random.default_rng(0)
X = RNG.gamma(1.0, size=(20, 3)) @ RNG.gamma(1.0, size=(3, 15)) + 0.01
GOOD = RNG.uniform(0.5, 1, (20, 3)), RNG.uniform(0.5, 1, (3, 15))
BAD = np.ones((20, 3)), np.ones((3, 15))
"""Equal components stay equal under multiplicative steps: a model of rank one, however long it runs."""


def budget() -> Budget:
    return Budget(Control(max_iter=30, tol=0), runs=9)


@pytest.mark.parametrize("starts", [(GOOD, BAD), (BAD, GOOD), (BAD, GOOD, BAD)], ids=["first", "last", "middle"])
def test_the_run_with_the_smallest_maximum_is_kept(starts) -> None:
    data = open_data(X)
    runs = Runs(data, (IS, KL), Method.of("mu", "fixed"), budget(), None, "fit")
    best = smallest(runs.begin(list(starts), np.ones(2)))
    alone = smallest(runs.begin([GOOD], np.ones(2)))
    np.testing.assert_array_equal(best.W, alone.W)
    np.testing.assert_array_equal(best.H, alone.H)


def test_references_are_the_smallest_over_the_starts() -> None:
    data, method = open_data(X), Method.of("mu", "fixed")
    both = compute_references(data, [BAD, GOOD], (IS, KL), method, budget()).values
    good = compute_references(data, [GOOD], (IS, KL), method, budget()).values
    bad = compute_references(data, [BAD], (IS, KL), method, budget()).values
    assert (good < bad).all()
    np.testing.assert_array_equal(both, good)


def test_more_starts_are_never_worse() -> None:
    errors = [
        BetaNMF(3, beta=1, n_init=n, init="random", max_iter=5, tol=0, random_state=3, solver="mu").fit(X)
        for n in range(1, 7)
    ]
    values = [model.reconstruction_err_ for model in errors]
    assert all(later <= earlier for earlier, later in pairwise(values))
    assert values[-1] < values[0]
