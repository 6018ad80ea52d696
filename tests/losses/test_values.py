"""Intervals, losses and penalties as values: what is the same, what cannot be changed, and bounds by hand."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from drnmf import L1, L2, Interval, NegativeBinomial, Smooth, Sparsity, Volume
from drnmf.losses.beta import KL, Beta
from drnmf.losses.interval import Coverage, as_interval, chord_bound, coverage
from drnmf.objective.penalty import Penalties, Setting

VALUES = [
    lambda: Interval(0, 2),
    lambda: Beta(0.5),
    lambda: NegativeBinomial(3.0),
    lambda: L1(0.1),
    lambda: L2(0.1),
    lambda: Sparsity(0.1),
    lambda: Volume(0.1),
    lambda: Smooth(0.1),
    lambda: Setting((2, 3), 1.0, 2.0),
]


@pytest.mark.parametrize("make", VALUES)
def test_values_are_equal_hash_alike_and_cannot_be_changed(make):
    first, second = make(), make()
    assert {first: "known"}[second] == "known"
    with pytest.raises(FrozenInstanceError):
        first.alpha = 3.0


def test_a_bound_by_hand():
    """Between 1 and 2 the reference may fall as before and rise as after: to 1/e in the middle."""
    points, flat = np.array([0.0, 1.0, 2.0, 3.0]), np.ones(4)
    bent = np.exp([2.0, 0.0, 0.0, 2.0])
    assert chord_bound(points, flat, bent[None], 0.0 * flat) == pytest.approx(np.e)
    assert chord_bound(points, flat, bent[None], 0.5 * flat) == pytest.approx(2.0)  # e(beta) is at least the floor
    assert chord_bound(points, flat, np.array([bent, 9.0 * bent]), 0.0 * flat) == pytest.approx(np.e)
    interval = Interval(0, 2, grid=5)
    straight = 2.0 ** np.array(interval.points())
    found = coverage(interval, 3.0 * straight, straight[None], 0.0 * straight, 2.0)
    assert (found.bound, found.factor) == (pytest.approx(3.0), pytest.approx(1.5))
    np.testing.assert_allclose(found.scaled_losses, 3.0)


def test_the_worst_beta_has_the_largest_scaled_loss():
    betas = np.array([0.0, 1.0, 2.0])
    assert Coverage(betas, np.array([4.0, 9.0, 8.0]), np.array([1.0, 3.0, 4.0]), 9.0, 1.0).worst == 0.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"low": -0.5, "high": 1}, "finite with 0 <= low < high"),
        ({"low": 1, "high": 1}, "finite with 0 <= low < high"),
        ({"low": 0, "high": np.inf}, "finite with 0 <= low < high"),
        ({"low": 0, "high": 2, "knots": 1}, "at least 2 knots"),
        ({"low": 0, "high": 2, "knots": 3, "grid": 2}, "grid >= knots"),
        ({"low": 0, "high": 2, "knots": 3, "max_knots": 2}, "max_knots >= knots"),
        ({"low": 0, "high": 2, "tol": 0.0}, "tol > 0"),
    ],
)
def test_intervals_that_are_none_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Interval(**given)


def test_the_smallest_interval_and_what_stands_for_one():
    assert Interval(0, 2, knots=2, grid=2, max_knots=2).betas() == (0.0, 2.0)
    assert as_interval("0.5..2") == Interval(0.5, 2.0) == as_interval(Interval(0.5, 2.0))
    assert as_interval((0, 1)) is None
    with pytest.raises(ValueError, match=r"write low\.\.high"):
        as_interval("2..1")


def test_penalties_whose_bounds_lie_above_them():
    assert all(term.certain for term in (L1(0.1), L2(0.1), Sparsity(0.1), Volume(0.1)))
    setting = Setting((2, 3), 1.0, 2.0)
    assert Penalties((L1(0.1), L2(0.1)), setting).certain
    assert not Smooth(0.1).certain
    assert not Penalties((L1(0.1), Smooth(0.1)), setting).certain
    assert L1(0.1).pieces("W")
    assert not all(Smooth(0.1).pieces(side) for side in "WH")


def test_one_loss_per_name():
    assert Beta(1.0) == KL
    assert KL.name == "KL"
