"""Constraints and the objective by hand: floors, what is refused, coefficients and their power of two."""

from __future__ import annotations

import math

import numpy as np
import pytest

from drnmf.losses.beta import FROBENIUS, IS, KL
from drnmf.numerics import EPS, factor_floor
from drnmf.objective.constraints import UNCONSTRAINED, Constraints, as_constraints, left_over, normalised
from drnmf.objective.objective import Objective, complementarity_gap
from drnmf.objective.simplex import check_weights, project

NAMES = {"H": "fixed", "W": "fixed_W"}


def test_what_is_fixed_and_what_is_free():
    both = as_constraints("W", np.ones((2, 5)), np.ones((4, 3)))
    assert (both.fixed, both.free, both.of("H"), both.of("W")) == (3, False, (2, False), (3, True))
    assert both.block("W").shape == (3, 4)
    assert UNCONSTRAINED.free
    assert UNCONSTRAINED.of("H") == (0, False)
    assert not Constraints(sum_to_one="H").free


def test_products_of_floors_stay_relative_to_the_mean_of_X():
    assert UNCONSTRAINED.floor("W", 4.0, 3) == factor_floor(4.0, 3)
    on_W = Constraints(sum_to_one="W")
    assert on_W.floor("W", 4.0, 3) == EPS / 3
    assert on_W.floor("H", 4.0, 3) == 4.0 * EPS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("V", None, None), "sum_to_one='V' is not known"),
        ((None, "text", None), "fixed cannot be read"),
        ((None, [1.0, 2.0], None), "fixed has shape"),
        ((None, None, np.empty((3, 0))), "fixed_W has shape"),
        ((None, [[1.0, np.inf]], None), r"fixed\[0, 1\] = inf is not finite"),
        ((None, [[1.0, 2.0], [-3.0, 1.0]], None), r"fixed\[1, 0\] = -3 is negative"),
        ((None, [[1.0, 2.0], [0.0, 0.0]], None), "Component 1 of fixed is all zeros"),
        ((None, None, [[1.0, 0.0], [2.0, 0.0]]), "Component 1 of fixed_W is all zeros"),
    ],
)
def test_constraints_that_cannot_be_meant_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        as_constraints(*arguments)


@pytest.mark.parametrize(
    ("given", "rank", "message"),
    [
        ({"H": np.ones((1, 4))}, 2, "fixed has 4 entries for every component, but X has 5 columns"),
        ({"W": np.ones((5, 1))}, 2, "fixed_W has 5 entries for every component, but X has 4 rows"),
        ({"H": np.ones((3, 5))}, 2, "fixed holds 3 components, more than n_components=2"),
        ({"H": np.full((1, 5), 1.1), "sum_to_one": "H"}, 2, "column 0 of H sum to 1.1, and the others are >= 0"),
        ({"W": np.full((4, 2), 0.4), "sum_to_one": "W"}, 2, "row 0 of W sum to 0.8, and nothing else is free"),
    ],
)
def test_fixed_components_must_fit_X_and_leave_room(given, rank, message):
    with pytest.raises(ValueError, match=message):
        Constraints(**given).check((4, 5), rank, NAMES)


def test_fixed_components_that_fit_pass():
    Constraints(H=np.full((2, 5), 0.5), sum_to_one="H").check((4, 5), 2, NAMES)
    Constraints(H=np.full((1, 5), 1.0), sum_to_one="H").check((4, 5), 2, NAMES)
    Constraints(H=np.full((2, 5), 9.0), sum_to_one="W").check((4, 5), 2, NAMES)
    Constraints(W=np.full((4, 2), 9.0)).check((4, 5), 2, NAMES)


def test_sums_of_columns():
    F = np.array([[2.0, -1.0], [6.0, 3.0]])
    np.testing.assert_allclose(normalised(F, np.array([1.0, 2.0]), 0.0), [[0.25, 0.0], [0.75, 2.0]])
    np.testing.assert_allclose(left_over(np.array([[0.2, 0.9], [0.3, 0.4]])), [0.5, 0.0])


@pytest.mark.parametrize("mean", [1e-30, 1.0, 1e30])
def test_coefficients_are_the_weights_over_the_references_times_a_power_of_two(mean):
    objective, weights = Objective((IS, KL, FROBENIUS), np.array([2.0, 3.0, 5.0]), mean), np.array([0.5, 0.5, 0.0])
    c, factor = objective.coefficients(weights), objective.factor(weights)
    assert math.frexp(factor)[0] == 0.5
    np.testing.assert_allclose(c, factor * weights / [2.0, 3.0, 5.0])
    sizes = c[:2] * np.array([1.0 / mean, 1.0])  # c_beta mean^(degree - 1), of the losses that count
    assert 2**-0.5 <= sizes.max() <= 2**0.5


def test_the_objective_by_hand():
    objective, losses = Objective((IS, KL), np.array([2.0, 4.0]), 1.0), np.array([6.0, 4.0])
    assert objective.scaled(losses).tolist() == [3.0, 1.0]
    assert objective.value(np.array([0.25, 0.75]), losses) == 1.5
    assert objective.maximum(losses) == 3.0
    assert complementarity_gap(np.array([0.25, 0.75]), np.array([3.0, 1.0])) == 1.5


def test_weights_near_the_simplex_are_brought_onto_it():
    weights = check_weights([0.6, 0.4 + 1e-9, -1e-9], 3)
    assert weights.min() == 0.0
    assert weights.sum() == pytest.approx(1.0, abs=1e-15)
    for given, message in [
        ([0.5, 0.6], "sum to 1.1"), ([1.5, -0.5], ">= 0"), ([1.0], "one weight per beta"), ("text", "not numbers"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            check_weights(given, 2)
    np.testing.assert_allclose(project(np.array([0.9, 0.5, -0.2])), [0.7, 0.3, 0.0])
