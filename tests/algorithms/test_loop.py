"""The loop itself: looking late changes nothing, and a run goes on from a snapshot as if it had never stopped."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from types import SimpleNamespace

import numpy as np
import pytest

from drnmf.algorithms.loop import Control, Log, Run, solve
from drnmf.algorithms.updates import RULES
from drnmf.algorithms.updates.minimax import Minimax
from drnmf.algorithms.weights import POLICIES, ByRule
from drnmf.backends.host.dense import HostSpace
from drnmf.backends.open import open_data
from drnmf.losses.beta import FROBENIUS, IS, KL
from drnmf.objective.objective import Objective

FACTORS = ("W", "H", "losses", "weights")
PAIRS = [
    ("auto", "auto"),
    ("mu", "frank-wolfe"),
    ("extrapolated", "reactive"),
    ("monotone", "mirror"),
    ("mu", "fixed"),
    ("newton", "auto"),
]


class Unread:
    """Losses that nobody may look at yet."""

    def __init__(self, losses):
        self.hidden = losses


class LateSpace(HostSpace):
    """A space whose sweeps hide their losses until they are read."""

    deferred = True

    def __init__(self, waits):
        self.waits = waits

    def read(self, *sweeps):
        self.waits.append(len(sweeps))
        return tuple(replace(sweep, losses=sweep.losses.hidden) for sweep in sweeps)


class Late:
    """A Data whose sweeps are promises."""

    def __init__(self, data, waits):
        self.data, self.waits, self.space = data, waits, LateSpace(waits)

    def __getattr__(self, name):
        return getattr(self.data, name)

    @cached_property
    def T(self):
        return Late(self.data.T, self.waits)

    def sweep(self, W, H, ask):
        sweep = self.data.sweep(W, H, ask)
        return replace(sweep, losses=Unread(sweep.losses))


def problem(m=40, n=30, r=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.gamma(0.3, 1.0, (m, n)) + 1e-3
    return open_data(X), rng.random((m, r)) + 0.1, rng.random((r, n)) + 0.1


def method(update, policy):
    return (Minimax(), ByRule()) if policy == "minimax" else (RULES[update], POLICIES[policy])


@pytest.mark.parametrize(("update", "policy"), [*PAIRS, ("mu", "minimax")])
def test_reading_late_gives_the_same_run(update, policy):
    data, W, H = problem()
    objective = Objective((IS, KL), np.array([3.0, 1.0]), data.mean)
    control = Control(max_iter=80, tol=0)
    rule, policy = method(update, policy)
    now = solve(data, W, H, objective, rule, policy, control)
    waits = []
    late = solve(Late(data, waits), W, H, objective, rule, policy, control)
    for name in FACTORS:
        np.testing.assert_array_equal(getattr(now, name), getattr(late, name))
    np.testing.assert_array_equal(now.trace.scaled_losses, late.trace.scaled_losses)
    if rule.certain(objective.omega):
        assert waits == [1] + 80 * [2]


def test_an_iteration_without_rejections_waits_once():
    data, W, H = problem()
    waits = []
    objective = Objective((KL, FROBENIUS), np.ones(2), data.mean)
    result = solve(Late(data, waits), W, H, objective, RULES["mu"], POLICIES["fixed"], Control(max_iter=20, tol=0))
    assert result.trace.sweeps[-1] == 41
    assert waits == [1] + 20 * [2]


class Memory:
    """A keeper that holds the last snapshot of the run, and hands it out to the next."""

    def __init__(self, stop_at, known=None):
        self.stop_at, self.known, self.count, self.taken = stop_at, known, 0, None

    def recall(self, data, omega, *owners):
        return self.known

    def offer(self, snapshot):
        self.count += 1
        if self.count == self.stop_at:
            self.taken = snapshot()
            raise Stop

    def done(self, result):
        self.result = result


class Stop(Exception):
    pass


@pytest.mark.parametrize(("update", "policy"), [*PAIRS, ("mu", "minimax")])
@pytest.mark.parametrize("stop_at", [1, 37])
def test_a_run_goes_on_from_its_snapshot(update, policy, stop_at):
    data, W, H = problem()
    objective = Objective((IS, KL), np.array([3.0, 1.0]), data.mean)
    rule, policy = method(update, policy)
    whole = solve(data, W, H, objective, rule, policy, Control(max_iter=120, tol=1e-5))
    keeper = Memory(stop_at)
    with pytest.raises(Stop):
        solve(data, W, H, objective, rule, policy, Control(max_iter=120, tol=1e-5, keeper=keeper))
    resumed = Memory(-1, keeper.taken)
    result = solve(data, W, H, objective, rule, policy, Control(max_iter=120, tol=1e-5, keeper=resumed))
    assert resumed.result is result
    assert (result.n_iter, result.reason) == (whole.n_iter, whole.reason)
    for name in FACTORS:
        np.testing.assert_array_equal(getattr(whole, name), getattr(result, name))
    for name in ("scaled_losses", "weights", "gap", "sweeps"):
        np.testing.assert_array_equal(getattr(whole.trace, name), getattr(result.trace, name))


def test_a_finished_run_is_not_run_again():
    data, W, H = problem()
    objective = Objective((KL,), np.ones(1), data.mean)
    first = solve(data, W, H, objective, RULES["mu"], POLICIES["fixed"], Control(max_iter=3))
    again = solve(data, W, H, objective, RULES["mu"], POLICIES["fixed"], Control(keeper=Memory(-1, first)))
    assert again is first


def test_a_nearly_exact_fit_stops_though_it_would_fall_by_the_same_fraction_for_ever():
    def reached(least, tol):
        return stalled([0.9**k for k in range(400) if 0.9**k >= least], Control(tol=tol))

    assert not reached(1e-10, tol=1e-3)
    assert reached(3e-12, tol=1e-3)
    assert not reached(3e-12, tol=1e-6)
    assert reached(3e-15, tol=1e-6)


def test_a_window_that_grows_with_the_run_sees_slow_decrease():
    slow = [1.0 + 100.0 / (100.0 + k) for k in range(200)]  # falls by less than 2 % over ten iterations, not over sixty
    assert stalled(slow, Control(tol=2e-2))
    assert not stalled(slow, Control(tol=2e-2, fraction=0.3))
    ended = [*slow, *[slow[-1]] * 100]
    assert stalled(ended, Control(tol=2e-2, fraction=0.3))


def test_a_run_that_gathers_speed_goes_on():
    """Beside a saddle the loss stands nearly still, and then falls faster and faster."""
    control = Control(tol=3e-3, fraction=0.3)
    saddle = [*np.geomspace(1.1, 1.0, 30), *(1.0 - 1e-6 * 1.3 ** np.arange(20))]
    assert not stalled(saddle, control)
    slowing = [*np.geomspace(1.1, 1.0, 30), *(1.0 - 1e-4 * (1.0 - 0.8 ** np.arange(20)))]
    assert stalled(slowing, control)


def test_rounding_is_no_speed():
    still = [*np.geomspace(1.1, 1.0, 20), *[1.0] * 15, 1.0 - 1e-13]
    assert stalled(still, Control(tol=3e-3, fraction=0.3))


def test_the_window_is_shorter_where_little_is_left_and_tol_smaller_where_much_is():
    ended = [*np.geomspace(2.0, 1.0, 8), *[1.0] * 5]
    assert not stalled(ended, Control(tol=3e-3, fraction=0.3))
    assert not stalled(ended, Control(tol=3e-3, fraction=0.3, least=0.9))
    assert stalled(ended, Control(tol=3e-3, fraction=0.3, least=0.97))
    slow = [*np.geomspace(2.0, 1.0, 20), *(1.0 - 1e-4 * np.arange(20))]
    assert stalled(slow, Control(tol=3e-3, fraction=0.3))
    assert stalled(slow, Control(tol=3e-3, fraction=0.3, least=0.9))
    assert not stalled(slow, Control(tol=3e-3, fraction=0.3, least=0.2))
    assert not stalled(slow, Control(tol=3e-3, fraction=0.3, least=1e-9))


def stalled(values, control):
    """What a run says that watched these values."""
    ones, each = [np.ones(1)] * len(values), [value * np.ones(1) for value in values]
    run = Run.__new__(Run)
    run.log = Log(losses=each, scaled=each, weights=ones, seconds=[0.0] * len(values), watched=values)
    run.task = SimpleNamespace(data=SimpleNamespace(dtype=np.float64))
    return run._stalled(control)
