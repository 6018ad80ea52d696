"""Roots of sums of powers, and columns of a given sum: what they must solve, at ordinary and at extreme sizes."""

from __future__ import annotations

import numpy as np
import pytest

from drnmf.algorithms.updates import roots
from drnmf.algorithms.updates.roots import _power, joined_slots, multiplier_step, positive_root

SLOTS = [
    ((0.0,), (1.0,)),
    ((0.5,), (2.0,)),
    ((0.0,), (1.0, 2.0)),
    ((1.0,), (1.0, 0.0)),
    ((0.0, 1.0), (1.0,)),
    ((0.0, 1.0), (0.0, 1.0)),
    ((0.0, 0.5), (1.0, 1.5)),
    ((2.0, 0.3), (0.0, 2.0)),
]


def powers(rng, exponents, shape=(4, 6), spread=1.0):
    return {k: np.exp(rng.normal(0.0, spread, shape)) for k in exponents}


def sides(rising, falling, t):
    return sum(P * t**a for a, P in rising.items()), sum(N * t**-b for b, N in falling.items())


@pytest.mark.parametrize("spread", [1.0, 12.0])
@pytest.mark.parametrize("slots", SLOTS, ids=str)
def test_both_sides_are_equal_at_the_root(rng, slots, spread):
    rising, falling = (powers(rng, exponents, spread=spread) for exponents in slots)
    for near in (None, np.exp(rng.normal(0.0, 2.0, (4, 6)))):
        left, right = sides(rising, falling, positive_root(rising, falling, near))
        np.testing.assert_allclose(left, right, rtol=1e-9)


def test_a_start_at_the_root_needs_two_steps(rng, monkeypatch):
    rising, falling = powers(rng, (0.0, 0.5)), powers(rng, (1.0, 1.5))
    root = positive_root(rising, falling)
    monkeypatch.setattr(roots, "_NEWTON_STEPS", 2)
    np.testing.assert_allclose(positive_root(rising, falling, root), root, rtol=1e-12)
    assert abs(positive_root(rising, falling) / root - 1.0).max() > 1e-8


def test_terms_of_two_slopes_add_up_by_their_powers():
    one, two = np.ones(1), np.full(1, 2.0)
    rising, falling = joined_slots(({0.0: one}, {1.0: two}), ({0.0: two, 1.0: one}, {2.0: one}))
    assert {k: float(v[0]) for k, v in rising.items()} == {0.0: 3.0, 1.0: 1.0}
    assert {k: float(v[0]) for k, v in falling.items()} == {1.0: 2.0, 2.0: 1.0}


@pytest.mark.parametrize("sums", [1.0, np.array([0.2, 1.0, 5.0, 1.0, 1.0, 3.0])], ids=["one", "given"])
@pytest.mark.parametrize("slots", [((0.0,), (1.0,)), ((0.0,), (1.0, 2.0)), ((1.0,), (0.0,)), *SLOTS[3:]], ids=str)
def test_columns_of_a_given_sum_are_where_the_slopes_agree(rng, slots, sums):
    """sum P t^a - sum N t^-b is one number in a column, but for entries at the floor, which want to shrink."""
    F = rng.dirichlet(np.ones(4), 6).T * sums
    rising, falling = (powers(rng, exponents) for exponents in slots)
    H = multiplier_step(F, rising, falling, sums, 1e-9)
    np.testing.assert_allclose(H.sum(axis=0), sums + np.zeros(6), rtol=1e-12)
    left, right = sides(rising, falling, H / F)
    slope, free = left - right, H > 1e-8
    level = np.where(free, slope, -np.inf).max(axis=0)
    assert (free.sum(axis=0) > 1).any()
    assert (abs(np.where(free, slope - level, 0.0)) <= 1e-6 * (left + right)).all()
    assert (np.where(free, 0.0, slope - level) >= -1e-6 * (left + right)).all()


def test_a_column_that_nothing_is_known_of_is_uniform():
    F = np.array([[0.25, 0.25], [0.75, 0.75]])
    P, N = np.ones((2, 2)), np.array([[3.0, 0.0], [1.0, 0.0]])
    H = multiplier_step(F, {0.0: P}, {1.0: N}, 1.0, 0.0)
    np.testing.assert_allclose(H, [[0.5, 0.5], [0.5, 0.5]])


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0, 3.0])
def test_shorter_ways_to_a_power(exponent):
    t = np.array([0.3, 2.0])
    np.testing.assert_allclose(_power(t, exponent), t**exponent)
