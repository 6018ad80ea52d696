"""Intervals, losses and penalties as values: what is the same, what cannot be changed, and bounds by hand."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from drnmf import L1, L2, Interval, NegativeBinomial, Smooth, Sparsity, Volume
from drnmf.losses.beta import KL, Beta
from drnmf.losses.interval import Coverage, as_interval, bound_factors, coverage
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


def test_a_bound_is_that_of_the_neighbouring_knots():
    """log e is straight between the knots, but at one beta of (1, 2) e is a quarter of that: four times the larger of
    the knots 1 and 2, whose scaled losses are 1 and 2; that of 0, which is 5, has no say there."""
    interval = Interval(0, 2, grid=5)
    knots, e = np.array([2.0, 0.0, 1.0]), np.array([8.0, 2.0, 4.0])
    references = np.array([2.0, 2.0 * 2**0.5, 4.0, 4.0 * 2**0.5, 8.0])
    np.testing.assert_allclose(bound_factors(np.array(interval.betas()), references, knots, e), 1.0)
    references[3] /= 4.0
    found = coverage(interval, references * 1.5, references, knots, e, e * [2.0, 5.0, 1.0])
    assert found.bound == pytest.approx(8.0)
    assert found.factor == pytest.approx(8.0 / 5.0)
    np.testing.assert_allclose(found.scaled_losses, 1.5)
    references[3] *= 4.0
    assert coverage(interval, references, references, knots, e, e * [2.0, 5.0, 1.0]).bound == pytest.approx(5.0)


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
