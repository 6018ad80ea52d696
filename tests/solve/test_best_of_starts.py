"""Of several starts the best run is kept, whichever place it has."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from drnmf import BetaNMF
from drnmf.algorithms.loop import Control
from drnmf.backends.base import in_unit
from drnmf.backends.open import open_data
from drnmf.losses.beta import IS, KL
from drnmf.problem.problem import Problem
from drnmf.solve.references import compute_references
from drnmf.solve.runner import Budget, Runner
from drnmf.solve.solve import smallest, solve

RNG = np.random.default_rng(0)
X = RNG.gamma(1.0, size=(20, 3)) @ RNG.gamma(1.0, size=(3, 15)) + 0.01
GOOD = RNG.uniform(0.5, 1, (20, 3)), RNG.uniform(0.5, 1, (3, 15))
BAD = np.ones((20, 3)), np.ones((3, 15))
"""Equal components stay equal under multiplicative steps: a model of rank one, however long it runs."""


PROBLEM = Problem.opened(in_unit(open_data(X))).asked(3, (IS, KL))


def runner() -> Runner:
    return replace(Runner.of("mu", "fixed"), budget=Budget(Control(max_iter=30, tol=0), runs=9))


@pytest.mark.parametrize("starts", [(GOOD, BAD), (BAD, GOOD), (BAD, GOOD, BAD)], ids=["first", "last", "middle"])
def test_the_run_with_the_smallest_maximum_is_kept(starts) -> None:
    problem = PROBLEM.over(np.ones(2))
    best = smallest(solve([problem.begun(start) for start in starts], runner()))
    (alone,) = solve([problem.begun(GOOD)], runner())
    np.testing.assert_array_equal(best.W, alone.W)
    np.testing.assert_array_equal(best.H, alone.H)


def test_references_are_the_smallest_over_the_starts() -> None:
    both, good, bad = (compute_references(PROBLEM, starts, runner()).values for starts in ([BAD, GOOD], [GOOD], [BAD]))
    assert (good < bad).all()
    np.testing.assert_array_equal(both, good)


def test_a_continued_run_has_the_iterations_that_are_left() -> None:
    """A problem that is resumed counts what its run has spent, for the limit and for whoever watches."""
    seen: list[tuple[int, int]] = []
    watched = replace(runner(), callback=lambda now: seen.append((now.iteration, now.max_iter)))
    problem = PROBLEM.over(np.ones(2))
    (first,) = solve([problem.begun(GOOD)], watched, max_iter=20)
    (later,) = solve([problem.resumed(first)], watched)
    assert (first.n_iter, later.n_iter) == (20, 10)
    assert [at for at, _ in seen] == list(range(1, 31))
    assert seen[-1] == (30, 30)


def test_more_starts_are_never_worse() -> None:
    errors = [
        BetaNMF(3, beta=1, n_init=n, init="random", max_iter=5, tol=0, random_state=3, solver="mu").fit(X)
        for n in range(1, 7)
    ]
    values = [model.reconstruction_err_ for model in errors]
    assert all(later <= earlier for earlier, later in pairwise(values))
    assert values[-1] < values[0]
