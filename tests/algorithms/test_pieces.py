"""Pieces of rules, policies and the stop test on their own: what a whole fit would forgive."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from drnmf.algorithms.loop import Control, solve
from drnmf.algorithms.updates.base import Rule
from drnmf.algorithms.updates.monotone import Extrapolated, Momentum
from drnmf.algorithms.weights import Advance, Fixed, FrankWolfe, Mirror, Policy, Reactive, Subgradient, as_policy
from drnmf.backends.open import open_data
from drnmf.losses.beta import IS, KL
from drnmf.objective.objective import Objective
from drnmf.objective.simplex import uniform


def advanced(policy: Reactive, *scaled: tuple[float, float]):
    """The states of a policy that sees these losses, always from equal weights."""
    _, state = policy.init(2)
    for losses in scaled:
        _, state = policy.step(uniform(2), np.array(losses), state)
        yield state


HIGH, LOW = (2.0, 1.0), (1.0, 2.0)


def test_the_reactive_step_falls_when_the_advantages_turn_and_grows_while_they_stay() -> None:
    steps = [state.eta for state in advanced(Reactive(), HIGH, LOW, LOW, LOW, HIGH)]
    np.testing.assert_allclose(steps, np.array([1, 0.5, 0.55, 0.605, 0.3025]) * Reactive().eta)


def test_the_reactive_step_stays_between_its_bounds() -> None:
    policy = Reactive(smallest=0.9)
    assert [state.eta for state in advanced(policy, HIGH, HIGH, HIGH)] == 3 * [policy.eta]
    assert [state.eta for state in advanced(policy, HIGH, LOW, HIGH, LOW)][-1] == 0.9


def test_a_smaller_reactive_step_moves_the_weights_less() -> None:
    moved = [Reactive(gain=0.0).step(uniform(2), np.array(HIGH), Advance(1, eta))[0][0] for eta in (0.1, 1.0)]
    assert 0.5 < moved[0] < moved[1]


@dataclass(frozen=True)
class Still(Rule):
    """Steps that stay where they are."""

    def init(self, F):
        return 0

    def step(self, F, parts, state):
        return F, state


@dataclass(frozen=True)
class Drift(Policy):
    """Weights that move by the same step as long as there is room."""

    step_size: float = 0.01

    def init(self, p):
        return np.array([0.1, 0.9]), 0

    def step(self, weights, scaled_losses, state):
        first = min(weights[0] + self.step_size, 0.9)
        return np.array([first, 1 - first]), state


def run_still(policy: Policy, tol: float = 1e-6, max_iter: int = 60):
    rng = np.random.default_rng(0)
    data = open_data(rng.gamma(2.0, size=(12, 9)))
    objective = Objective((IS, KL), np.array([1.0, 2.0]), data.mean)
    W, H = rng.uniform(0.5, 1, (12, 3)), rng.uniform(0.5, 1, (3, 9))
    return solve(data, W, H, objective, Still(), policy, Control(max_iter=max_iter, tol=tol))


def test_a_run_does_not_stop_while_its_gap_moves() -> None:
    """The maximum stands still from the first iteration on; the weights, and with them the gap, do not."""
    result = run_still(Drift())
    assert np.ptp(result.trace.maximum) == 0
    assert abs(np.diff(result.trace.gap)).min() > 0
    assert (result.reason, result.n_iter) == ("max_iter", 60)


def test_a_run_stops_when_its_maximum_and_its_gap_stand_still() -> None:
    result = run_still(Fixed((0.3, 0.7)))
    assert (result.reason, result.n_iter) == ("tol", 2 * Control().window)
    assert run_still(Drift(0.1), max_iter=200).reason == "tol"  # once the weights have arrived
    assert run_still(Fixed((0.3, 0.7)), tol=0).reason == "max_iter"


@pytest.mark.parametrize(("nu", "halved"), [(8.0, 4.0), (3.0, 1.5), (1.5, 1.0)])
def test_a_rejected_extrapolation_goes_back_to_the_step_and_halves_nu(nu: float, halved: float) -> None:
    stepped, tried = np.full((2, 3), 2.0), np.full((2, 3), 5.0)
    F, state = Extrapolated().retry(np.ones((2, 3)), tried, 1, Momentum(stepped, nu, 7))
    assert F is stepped
    assert (state.nu, state.steps) == (halved, 7)


def test_a_step_rejected_twice_is_halved_and_begins_the_sequence_again() -> None:
    F, tried = np.ones((2, 3)), np.full((2, 3), 4.0)
    halved, state = Extrapolated().retry(F, tried, 2, Momentum(tried, 8.0, 7))
    assert ((halved > F) & (halved < tried)).all()
    assert state.nu == 1.0
    assert state.F is halved


def test_the_sequence_of_nesterov_and_its_delay() -> None:
    rule = Extrapolated(delay=2)
    assert rule.momentum(Momentum(np.ones(1), 1.0, 1)) == (0.0, 1.0)
    a, nu = rule.momentum(Momentum(np.ones(1), 2.0, 2))
    assert nu == pytest.approx((1 + 17**0.5) / 2)
    assert a == pytest.approx(1 / nu)


@pytest.mark.parametrize("a", [1.0, 2.0])
def test_frank_wolfe_moves_to_the_largest_loss_by_a_over_k_plus_a(a: float) -> None:
    weights, state = FrankWolfe(a).init(2)
    for k in (1, 2, 3):
        gamma = a / (k + a)
        expected = (1 - gamma) * weights + gamma * np.array([1.0, 0.0])
        weights, state = FrankWolfe(a).step(weights, np.array(HIGH), state)
        np.testing.assert_allclose(weights, expected)
    assert state == 4


def test_subgradient_steps_are_projected() -> None:
    weights, state = Subgradient().step(uniform(2), np.array([1.0, 0.6]), 1)
    np.testing.assert_allclose(weights, [0.6, 0.4])  # (1, 0.8) less 0.4
    slower, _ = Subgradient().step(uniform(2), np.array([1.0, 0.6]), state)
    np.testing.assert_allclose(slower, [0.5 + 0.2 / 3, 0.5 - 0.2 / 3])


def test_mirror_steps_fall_with_the_root_of_k_and_leave_every_weight_above_zero() -> None:
    for k in (1, 4):
        weights, state = Mirror().step(uniform(2), np.array(HIGH), k)
        assert math.log(weights[0] / weights[1]) == pytest.approx(2.0 / math.sqrt(k) * 0.5)
        assert state == k + 1
    assert Mirror().step(np.array([1.0, 1e-300]), np.array(HIGH), 1)[0][1] > 1e-12
    np.testing.assert_allclose(Mirror().step(uniform(2), np.zeros(2), 1)[0], uniform(2))


def test_the_reactive_policy_begins_with_frank_wolfe_and_caps_its_moves() -> None:
    policy = Reactive(delay=2)
    weights, state = policy.init(2)
    for k in (1, 2):
        expected = FrankWolfe().step(weights, np.array(HIGH), k)[0]
        weights, state = policy.step(weights, np.array(HIGH), state)
        np.testing.assert_allclose(weights, expected)
    assert (state.k, state.eta, state.advantage) == (3, policy.eta, None)
    calm = Advance(1, 2.0, np.array([-0.25, 0.25]))
    moved, after = Reactive().step(uniform(2), np.array(HIGH), calm)  # the direction is far above the largest move
    assert math.log(moved[0] / moved[1]) == pytest.approx(6.0)
    np.testing.assert_allclose(after.advantage, [0.25, -0.25])


def test_frank_wolfe_steps_grow_while_one_loss_stays_the_largest() -> None:
    policy = Reactive(delay=20, plain=2, growth=1.5, longest=0.6)
    losses, (weights, state), steps = [HIGH, HIGH, HIGH, HIGH, HIGH[::-1], HIGH[::-1]], policy.init(2), []
    for scaled in losses:
        to = np.eye(2)[int(np.argmax(scaled))]
        moved, state = policy.step(weights, np.array(scaled), state)
        steps.append(float((moved - weights)[0] / (to - weights)[0]))
        weights = moved
    np.testing.assert_allclose(steps, [1 / 2, 1 / 3, 1.5 / 4, 1.5**2 / 5, 1 / 6, 1.5 / 7])
    for _ in range(14):
        weights, state = policy.step(weights, np.array(HIGH), state)
    assert state.pace / state.k == pytest.approx(0.6)  # up to the longest


def test_policies_by_name() -> None:
    assert as_policy("frank-wolfe-2") == FrankWolfe(2.0)
    assert as_policy(Mirror()) == Mirror()
    for given, message in (("best", "is not known"), (Mirror, "needs methods"), (3, "needs methods")):
        with pytest.raises(ValueError, match=message):
            as_policy(given)


def test_extrapolation_by_hand() -> None:
    stepped, last = np.array([[2.0, 1.0, 40.0]]), np.array([[1.0, 3.0, 1.0]])
    np.testing.assert_allclose(Extrapolated().push(stepped, last, 0.5), [[2.5, 1.0, 59.5]])
    np.testing.assert_allclose(Extrapolated(geometric=True).push(stepped, last, 0.5), [[2 * 2**0.5, 1.0, 40 * 10**0.5]])
    assert Extrapolated().restart(Momentum(stepped, 5.0, 7)) == Momentum(stepped, 1.0, 7)
