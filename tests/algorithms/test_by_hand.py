"""Parts of steps, runs and certificates against numbers worked out by hand."""

from __future__ import annotations

import copy
import math
from dataclasses import FrozenInstanceError, dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from drnmf import L1, L2
from drnmf.algorithms import certificates
from drnmf.algorithms.batch import Together
from drnmf.algorithms.initialize import auto_start, nndsvdar_start, nonnegative_least_squares, random_start
from drnmf.algorithms.iteration import Point
from drnmf.algorithms.loop import Control, Log, _require_finite, solve
from drnmf.algorithms.result import Trace
from drnmf.algorithms.updates.base import Facts, Parts, Rule, Wants, halve
from drnmf.algorithms.updates.constrained import free_bound, free_parts
from drnmf.algorithms.updates.hals import HALS
from drnmf.algorithms.updates.minimax import _ascend, _equal, solve_dual, surrogates
from drnmf.algorithms.updates.monotone import Extrapolated, Momentum, Monotone, Multiplicative
from drnmf.algorithms.updates.newton import Newton, penalised_step
from drnmf.algorithms.updates.roots import _Search, searched
from drnmf.algorithms.updates.steps import packed
from drnmf.algorithms.weights import Fixed
from drnmf.backends.base import Sweep
from drnmf.backends.open import open_data
from drnmf.losses.beta import FROBENIUS, IS, KL, Beta
from drnmf.numerics import MAX_HALVINGS
from drnmf.objective.objective import Objective
from drnmf.objective.penalty import Bound

from .test_parts import parts, tilted


def integral(t: np.ndarray, power: float) -> np.ndarray:
    """Of s^power from 1 to t."""
    return np.log(t) if power == -1.0 else (t ** (power + 1) - 1) / (power + 1)


def test_surrogates_integrate_every_power(rng):
    """Of both signs, and of powers whose integral is a logarithm."""
    F, t = rng.uniform(1, 2, (3, 5)), rng.uniform(0.5, 2, (3, 5))
    omega, references = (IS, Beta(2.5)), np.array([2.0, 5.0])
    given = replace(parts(rng, omega), scaled_losses=np.array([3.0, 4.0]), references=references)
    a, b, c = rng.uniform(1, 2, (3, 3, 5))
    extra = (F * (a * integral(t, 0.5) - b * integral(t, -2.0) - c * integral(t, -1.0))).sum()
    expected = []
    for k, loss in enumerate(omega):
        up, down = loss.exponents
        change = (F * (given.P[k] * integral(t, up) - given.N[k] * integral(t, -down))).sum()
        expected.append(given.scaled_losses[k] + change / references[k] + extra)
    np.testing.assert_allclose(surrogates(F, t, given, ({0.5: a}, {2.0: b, 1.0: c})), expected)


@pytest.mark.parametrize("omega", [(KL,), (IS, KL), (IS, KL, FROBENIUS)])
def test_the_bound_of_a_minimax_step_counts_penalties_once(rng, omega):
    """The penalties stand beside the maximum: their bound does not change with the weights nor with their scale."""
    F = rng.uniform(1, 2, (3, 5))
    penalties = tilted(F, L1(0.3, on="H"), L2(0.2, on="H"))
    N, P = rng.uniform(1, 2, (2, len(omega), 3, 5))
    ones = np.ones(len(omega))
    given = Parts(N, P, ones, omega, 0.0, scaled_losses=2.0 * ones, references=3.0 * ones, penalties=penalties)
    weights, t, bound = solve_dual(F, given)
    slots = penalties.bound(F).times(1.0 / penalties.factor).slots(F)
    values = surrogates(F, t, given, slots)
    assert bound == pytest.approx(values.max())
    assert bound < 2.0
    np.testing.assert_allclose(values[weights > 1e-6], bound, rtol=1e-4)


@pytest.mark.parametrize(("first", "second", "expected"), [(0.9, 0.5, 0.2), (0.4, 0.5, 0.0), (2.6, 0.5, 1.0)])
def test_two_losses_meet_where_both_surrogates_are_equal(first, second, expected):
    """G = (first - w, second + w) meet at half of their distance, or a vertex is best."""
    tried = []

    def evaluate(weights):
        tried.append(weights)
        return np.array([first - weights[0], second + weights[0]])

    _equal(evaluate)
    np.testing.assert_allclose(tried[-1], [expected, 1.0 - expected], atol=1e-8)


def test_more_losses_are_weighed_by_ascent():
    """G = b - w / |w| is the slope of w'G = w'b - |w|, which is largest on the simplex at b / sum b."""
    tried, b = [], np.array([0.8, 0.6, 0.0])

    def evaluate(weights):
        tried.append(weights)
        return b - weights / np.linalg.norm(weights)

    _ascend(evaluate, np.full(3, 1 / 3))
    np.testing.assert_allclose([w.sum() for w in tried], 1.0)
    np.testing.assert_allclose(tried[-1], b / b.sum(), atol=1e-3)


def test_rows_of_groups_below_where_the_worst_ends_stay():
    """Entries of one objective each: nothing is weighed, and only what is above the bound moves."""
    owner = np.array([0, 0, 1, 2])
    P = 1.0 * (owner == np.arange(3)[:, None])[:, None, :]
    losses = np.array([1.0, 0.1, 0.95])
    given = Parts(0.5 * P, P, np.ones(3), (KL,) * 3, 0.0, scaled_losses=losses, references=np.ones(3))
    weights, t, bound = solve_dual(np.ones((1, 4)), given)
    assert weights is None
    np.testing.assert_allclose(t, [[0.5, 0.5, 1.0, 0.5]])
    np.testing.assert_allclose(surrogates(np.ones((1, 4)), t, given).max(), bound)


def test_weights_are_looked_for_from_near_those_of_the_last_step(monkeypatch, rng):
    """Inside the simplex, where every loss has a say."""
    begun = []

    def evaluated_once(evaluate, start):
        begun.append(start)
        evaluate(start)

    monkeypatch.setattr("drnmf.algorithms.updates.minimax._ascend", evaluated_once)
    N, P = rng.uniform(1, 2, (2, 4, 3, 5))
    ones = np.ones(4)
    given = Parts(N, P, ones, (IS, KL, FROBENIUS, Beta(3.0)), 0.0, scaled_losses=ones, references=ones)
    for guess in (None, np.array([1.0, 0.0, 0.0, 0.0])):
        solve_dual(np.ones((3, 5)), given, guess)
    np.testing.assert_allclose(begun, [[0.25] * 4, [0.9925, 0.0025, 0.0025, 0.0025]])


@pytest.mark.parametrize("kind", ["pole", "rising"])
def test_newtons_step_for_the_multiplier_is_exact_where_one_entry_is_free(rng, kind):
    """Then a power of the sum is a straight line in mu: one step ends at the root."""
    F, N, P = rng.uniform(1, 2, (3, 1, 6))
    rising, falling = ({0.0: P}, {1.7: N}) if kind == "pole" else ({1.5: P, 0.0: P}, {0.0: N})
    search = _Search(F, rising, falling, rng.uniform(0.2, 3, 6), 0.0)
    mu = search.mu = (0.3 * search.low + 0.7 * search.high + 0.1) if kind == "pole" else search.mu - 0.1
    t = search.at(mu, None)
    H = F * t
    search.mu = mu + search.step(H.sum(0) / search.sums, search.falls(t, H) / search.sums)
    np.testing.assert_allclose((F * search.at(search.mu, None)).sum(0), search.sums, rtol=1e-9)


@pytest.mark.parametrize("columns", [1, 7])
def test_the_bracket_of_the_multiplier_holds_its_root(rng, columns):
    """At its lower end an entry alone is the total, at its upper end none is more than an r-th of it."""
    F = rng.uniform(1, 2, (5, columns))
    N, P, sums = rng.uniform(1, 2, F.shape), rng.uniform(1, 2, F.shape), rng.uniform(0.5, 3, columns)
    for rising, falling in (({0.0: P}, {1.0: N}), ({1.0: P}, {1.0: N}), ({1.0: P, 0.0: P}, {0.0: 4 * N})):
        search = _Search(F, rising, falling, sums, 0.0)
        low, high = (F * search.at(mu, None) for mu in (search.low, search.high))
        np.testing.assert_allclose(low.max(0), sums)
        np.testing.assert_allclose(high.max(0), sums / 5)
        np.testing.assert_allclose(searched(F, rising, falling, sums, 0.0).sum(0), sums)
    alike = searched(np.ones((5, columns)), {0.0: np.ones(F.shape)}, {1.0: np.ones(F.shape)}, sums, 0.0)
    np.testing.assert_allclose(alike, np.broadcast_to(sums / 5, F.shape))


def test_ranks_with_a_curvature_for_every_column_and_those_with_one_for_all():
    rule = Newton(delay=3, largest_rank=4)
    wanted = [rule.wants(step, rank, (KL,)) for step in (2, 3, 4) for rank in (3, 4, 5)]
    found = [(wants.curvature, wants.correlation) for wants in wanted]
    assert found == 3 * [(False, False)] + 2 * [(True, False), (True, False), (False, True)]
    assert Newton(delay=3).wants(3, 1000, (KL,)) == Wants(curvature=True)


def test_a_newton_step_under_penalties_is_the_minimum_of_loss_and_penalties(rng):
    """Of the model: (whole + curvature) (h - F) = -(slope of both) where no entry is at the floor."""
    F = rng.uniform(4, 5, (3, 4))
    A, B = rng.uniform(size=(6, 3)), rng.uniform(size=(5, 3))
    curvature, linear, gram = 3.0 * np.eye(3), np.full((3, 1), 0.1), B.T @ B
    Q = np.repeat(packed(A.T @ A, F), 4, axis=1)
    whole = A.T @ A + gram
    P = whole @ F
    N = P - rng.uniform(0.1, 0.2, P.shape)
    for scale in (None, 2.0):
        parts = Parts(N[None], P[None], np.ones(1), (KL,), 1e-9, Q=Q, gram=gram)
        stepped = penalised_step(F, parts, 500, scale, Bound(linear, curvature))
        slope = P - N + linear + curvature @ F
        expected = F - np.linalg.solve((1.0 if scale is None else scale) * whole + curvature, slope)
        np.testing.assert_allclose(stepped, expected, rtol=1e-6)
    assert expected.min() > 0


def test_parts_of_the_free_rows_keep_the_length_of_the_whole_model(rng):
    F = rng.uniform(1, 2, (4, 5))
    A, B = rng.normal(size=(6, 4)), rng.normal(size=(6, 4))
    given = Parts(
        rng.uniform(1, 2, (1, 4, 5)), rng.uniform(1, 2, (1, 4, 5)), np.array([0.5]), (KL,), 1e-9,
        Q=np.repeat(packed(A.T @ A, F), 5, axis=1), gram=B.T @ B,
    )  # fmt: skip
    free = free_parts(F, given, 2)
    whole = (A.T @ A + B.T @ B) @ F
    np.testing.assert_allclose(free.sizes, (F * given.weighted()[1]).sum(0) / (F * whole).sum(0))
    np.testing.assert_allclose(free.Q, np.repeat(packed((A.T @ A)[2:, 2:], F[2:]), 5, axis=1))
    np.testing.assert_allclose(free.gram, (B.T @ B)[2:, 2:])
    np.testing.assert_allclose(free.N, given.N[:, 2:])
    other = free_parts(F, replace(given, omega=(FROBENIUS,), Q=None), 2)
    np.testing.assert_allclose(other.N[0], given.N[0, 2:] - (B.T @ B)[2:, :2] @ F[:2])


def test_the_bound_of_the_free_rows_has_the_slope_of_the_whole(rng):
    F = rng.uniform(1, 2, (4, 5))
    A = rng.normal(size=(4, 4))
    bound = Bound(np.arange(4.0)[:, None], A + A.T)
    free = free_bound(F, bound, 1)
    np.testing.assert_allclose(
        free.slope() + free.curvature @ F[1:], (bound.slope() + bound.curvature @ F)[1:], rtol=1e-12
    )
    assert free_bound(F, Bound(np.ones((1, 1))), 1).linear.shape == (1, 1)


def test_blocks_of_columns_hold_so_many_entries_at_most(monkeypatch):
    monkeypatch.setattr(certificates, "_BLOCK", 7)
    for shape, widths in (((3, 5), [2, 2, 1]), ((9, 2), [1, 1]), ((0, 3), [3]), ((1, 8), [7, 1])):
        blocks = list(certificates._column_blocks(np.empty(shape)))
        assert [len(range(*at.indices(shape[1]))) for at in blocks] == widths
        assert blocks[0].start == 0


def absolute(slopes):
    """The sum of absolute values of a sum of slopes over one, the matrix of its least squares, and equal scales."""

    def residual(w):
        slope = w @ slopes
        return float(abs(slope).sum()), slopes / np.maximum(abs(slope), 1e-9) @ slopes.T, np.ones(w.size)

    return residual


@pytest.mark.parametrize(("best", "found"), [(0.3, 0.3), (1.5, 1.0), (-0.5, 0.0)])
def test_the_best_multipliers_lie_on_the_simplex(best, found):
    residual = absolute(np.array([[1.0 - best], [-best]]))
    multipliers, value = certificates._smallest(residual, np.array([0.5, 0.5]))
    np.testing.assert_allclose(multipliers, [found, 1 - found], atol=1e-4)
    assert value == residual(multipliers)[0]


def test_multipliers_of_three_losses_and_of_one():
    start = np.ones(1)
    assert certificates._smallest(lambda w: (float(w[0]), np.empty((0, 0)), np.empty(0)), start) == (start, 1.0)
    target = np.array([0.2, 0.3, 0.5])
    found, value = certificates._smallest(absolute(np.eye(3) - target), np.full(3, 1 / 3))
    np.testing.assert_allclose(found, target, atol=1e-3)
    assert value < 1e-5


def test_multipliers_weigh_the_scale_as_well():
    """(w_0 + 2 w_1) / (w_0 + 5 w_1) is least where its numerator is largest."""
    slopes, scales = np.array([[1.0], [2.0]]), np.array([1.0, 5.0])

    def residual(w):
        return float((w @ slopes).sum() / (w @ scales)), slopes / (w @ slopes) @ slopes.T, scales

    found, value = certificates._smallest(residual, np.array([0.8, 0.2]))
    np.testing.assert_allclose(found, [0.0, 1.0], atol=1e-9)
    assert value == pytest.approx(0.4)


def test_nndsvd_starts_a_fit_whose_factors_are_not_too_large(monkeypatch, rng):
    data = open_data(rng.uniform(1, 2, (30, 7)))
    for most, expected in ((37 * 13, nndsvdar_start), (37 * 13 - 1, random_start)):
        monkeypatch.setattr("drnmf.algorithms.initialize.LARGEST_SVD", most)
        found, same = (make(data, 3, np.random.RandomState(0)) for make in (auto_start, expected))
        np.testing.assert_array_equal(found[0], same[0])
    monkeypatch.setattr("drnmf.algorithms.initialize.LARGEST_SVD", 10**9)
    for rank, expected in ((7, nndsvdar_start), (8, random_start)):
        found, same = (make(data, rank, np.random.RandomState(0)) for make in (auto_start, expected))
        np.testing.assert_array_equal(found[1], same[1])


def together(references, chosen, omega=(IS, KL)) -> Together:
    objectives = tuple(Objective(omega, np.array(values), 1.0) for values in references)
    floors = np.array([[1.0, 2.0], [3.0, 3.0]])
    made = Together(None, objectives[0], HALS(), False, (HALS(), HALS()), floors, (True, True), False, objectives)
    return made.under([np.array(weights) for weights in chosen])


def at_losses(losses, runs=2):
    F = np.ones((runs, 3, 4))
    return Point((F, F), Sweep(np.array(losses), F[:, None], F[:, None]), (), 1, np.ones((runs, 2)), 0)


def test_what_runs_at_once_must_not_raise_is_the_weighted_sum_of_scaled_losses():
    both = together([[2.0, 5.0], [4.0, 1.0]], [[0.5, 0.5], [0.25, 0.75]])
    values = both.guarded(both.weights, at_losses([[2.0, 5.0], [8.0, 3.0]]))
    np.testing.assert_allclose(values, [1.0, 0.5 + 2.25])
    assert both.risen(values, np.array([1.0, 2.0])).tolist() == [1]
    assert both.risen(values, values) is None
    assert both.risen(np.array([np.nan, 0.0]), values).tolist() == [0]
    assert both.under([np.array([0.5, 0.5]), np.array([0.25, 0.75])]) is both
    assert both.coefficients(both.weights).shape == (2, 2)
    same = together([[2.0, 5.0], [2.0, 5.0]], [[0.5, 0.5], [0.5, 0.5]])
    np.testing.assert_allclose(same.coefficients(same.weights), same.made[1])


def test_floors_and_coefficients_of_runs_at_once():
    both, point = together([[2.0, 5.0], [4.0, 1.0]], [[0.5, 0.5], [0.25, 0.75]]), at_losses(np.ones((2, 2)))
    H, W = (both.parts(block, point, both.weights, both.coefficients(both.weights)) for block in (0, 1))
    np.testing.assert_array_equal(np.ravel(H.floor), [1.0, 2.0])
    assert W.floor == 3.0
    np.testing.assert_allclose([np.ravel(c) for c in H.coefficients], both.made.T)
    one = together([[2.0], [2.0]], [[1.0], [1.0]], (KL,))
    assert one.parts(0, point, one.weights, one.coefficients(one.weights)).coefficients == [1.0]


def test_some_of_many_runs_are_taken_and_put_back():
    tree, runs, four = (np.arange(4.0), 2.0, None, 1.0), np.array([1, 3]), together([[1.0, 1.0]] * 4, [[0.5, 0.5]] * 4)
    taken = four.take(tree, runs)
    assert taken[0].tolist() == [1.0, 3.0]
    assert taken[1:] == (2.0, None, 1.0)
    whole, number, nothing, same = four.put(tree, runs, (np.array([7.0, 8.0]), 5.0, None, 1.0))
    assert whole.tolist() == [0.0, 7.0, 2.0, 8.0]
    assert number.tolist() == [2.0, 5.0, 2.0, 5.0]
    assert (nothing, same) == (None, 1.0)
    assert tree[0].tolist() == [0.0, 1.0, 2.0, 3.0]  # what was given is left as it was


def test_a_log_knows_the_smallest_value_of_every_row():
    log = Log(watched=[3.0, 4.0, 1.0], penalty=[5.0, 5.0, 5.0])
    assert log.lowest == [3.0, 3.0, 1.0]
    log.add(np.ones(1), np.ones(1), np.ones(1), 0.1, 3, 2.0, 0.5)
    assert (log.penalty[-1], log.lowest[-1], log.watched[-1]) == (0.5, 1.0, 2.0)


def test_what_is_not_finite_is_refused_with_the_mean_of_X():
    data = SimpleNamespace(dtype=np.dtype("float32"), mean=6.0, scale=2.0)
    _require_finite(np.ones(3), data)
    with pytest.raises(ValueError, match=r"range of float32 \(mean of X 3\)"):
        _require_finite(np.array([1.0, np.nan]), data)


@dataclass(frozen=True)
class Rises(Rule):
    """Steps that raise the loss by a factor, and retries that do not come back."""

    factor: float = 2.0

    def init(self, F):
        return 0

    def step(self, F, parts, state):
        return self.factor * F, state + 1

    def retry(self, F, tried, attempt, state):
        return 1.5 * tried, state

    def restart(self, state):
        return state + 100


def run(rule: Rule, max_iter: int = 1, keeper=None):
    objective = Objective((FROBENIUS,), np.ones(1), 1.0)
    control = Control(max_iter=max_iter, tol=0.0, keeper=keeper)
    X, W, H = np.full((3, 4), 1.0), np.ones((3, 1)), np.ones((1, 4))
    return solve(open_data(X), W, H, objective, rule, Fixed((1.0,)), control)


def test_a_step_that_rises_is_retried_so_often_and_then_left():
    result = run(Rises())
    assert result.trace.sweeps.tolist() == [1, 1 + 2 * (MAX_HALVINGS + 2)]
    np.testing.assert_array_equal(result.H, 1.0)
    np.testing.assert_array_equal(result.W, 1.0)


@dataclass(frozen=True)
class Told(Rises):
    """Steps that are not looked at: the loss rises or stays, and the states say whether they were restarted."""

    factors: tuple = ()
    seen: tuple = ()

    def certain(self, omega):
        return True

    def step(self, F, parts, state):
        self.seen[0].append(state)
        return self.factors[state % 100] * F, state + 1


@pytest.mark.parametrize(
    ("factors", "states"),
    [
        ((1.0, 1.0, 1.0, 1.0), [0, 1, 2, 3]),
        ((2.0, 2.0, 2.0, 2.0), [0, 101, 202, 303]),
        ((3.0, 0.9, 0.9, 0.9), [0, 101, 102, 103]),  # above the best, but on the way down
        ((3.0, 0.9, 1.1, 0.9), [0, 101, 102, 203]),
    ],
)
def test_states_restart_where_the_objective_rose_and_only_there(factors, states):
    seen = []
    run(Told(factors=factors, seen=(seen,)), 4)
    assert seen == [state for state in states for _ in "HW"]


@dataclass(frozen=True)
class Last(Told):
    """The same, where the last point counts and not the best."""

    facts = Facts(best=False)


@pytest.mark.parametrize(("kind", "found"), [(Told, 1.0), (Last, 2.0)])
def test_a_run_returns_its_best_point_or_its_last(kind, found):
    """X is one, and WH is 1, 1/4 and then 4."""
    result = run(kind(factors=(0.5, 4.0), seen=([],)), 2)
    np.testing.assert_allclose(result.trace.losses.ravel(), [0.0, 6 * 0.75**2, 6 * 3.0**2])
    np.testing.assert_array_equal(result.H, found)


class Recalls:
    """A keeper with a snapshot of a run that had taken some time."""

    seconds = 0.0

    def __init__(self, known=None) -> None:
        self.known, self.taken, self.ended = known, [], []

    def recall(self, data, omega, *owners):
        return self.known

    def offer(self, snapshot):
        taken = snapshot()
        self.taken.append(replace(taken, log=copy.deepcopy(taken.log)))  # which keeps growing

    def done(self, result):
        self.ended.append(result)


def test_the_time_of_a_resumed_run_counts_on():
    keeper = Recalls()
    run(HALS(), 3, keeper)
    assert len(keeper.taken) == 2
    snapshot = keeper.taken[0]
    snapshot.log.seconds[-1] = 100.0
    resumed = run(HALS(), 3, Recalls(snapshot))
    assert resumed.n_iter == 3
    assert 100.0 <= resumed.trace.seconds[2] <= resumed.trace.seconds[3] < 1000.0
    assert run(HALS(), 3, Recalls(resumed)) is resumed


def trace(losses, weights) -> Trace:
    losses, weights = np.array(losses), np.array(weights)
    rows = np.arange(len(losses))
    return Trace(losses, losses, weights, 1.0 * rows, 0.0 * rows, 2 * rows + 1)


def test_a_trace_under_other_references():
    found = trace([[2.0, 6.0], [4.0, np.nan]], [[0.25, 0.75], [1.0, 0.0]]).under(np.array([1.0, 2.0]))
    np.testing.assert_allclose(found.scaled_losses, [[2.0, 3.0], [4.0, np.nan]])
    np.testing.assert_allclose(found.gap, [3.0 - 2.75, 0.0])
    np.testing.assert_allclose(found.maximum, [3.0, 4.0])
    np.testing.assert_allclose(replace(found, penalty=np.array([1.0, 2.0])).objective, [4.0, 6.0])


def test_a_trace_that_continues_another():
    first, second = trace([[3.0], [2.0]], [[1.0], [1.0]]), trace([[2.0], [1.5], [1.0]], 3 * [[1.0]])
    both = first.then(second)
    assert both.losses.ravel().tolist() == [3.0, 2.0, 1.5, 1.0]
    assert both.seconds.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert both.sweeps.tolist() == [1, 4, 6, 8]
    assert both.penalty.tolist() == [0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("geometric", [False, True])
def test_an_extrapolated_step_goes_beyond_the_multiplicative_one(rng, geometric):
    F, last = rng.uniform(1, 2, (2, 3, 5))
    given, rule = parts(rng, (KL,)), Extrapolated(geometric=geometric)
    plain = given.multiplicative(F)
    nu = (1 + math.sqrt(1 + 4 * 9.0)) / 2
    a = (3.0 - 1) / nu
    further, state = rule.step(F, given, Momentum(last, 3.0, 7))
    expected = plain * np.clip(plain / last, 1, 10) ** a if geometric else plain + a * np.maximum(plain - last, 0)
    np.testing.assert_allclose(further, expected)
    np.testing.assert_array_equal(state.F, plain)
    assert (state.nu, state.steps) == (pytest.approx(nu), 8)
    np.testing.assert_array_equal(rule.step(F, given, Momentum(last, 1.0, 7))[0], plain)
    slow, state = replace(rule, delay=8).step(F, given, Momentum(last, 3.0, 7))
    np.testing.assert_array_equal(slow, plain)
    assert state.nu == 1.0


@pytest.mark.parametrize(("rule", "nu"), [(Extrapolated(), 1.5), (HALS(), 1.0)])
def test_a_point_too_far_ahead_is_replaced_by_the_step_and_then_halved(rng, rule, nu):
    F, stepped, ahead = rng.uniform(1, 2, (3, 3, 5))
    state = Momentum(stepped, 3.0, 7)
    first, after = rule.retry(F, ahead, 1, state)
    assert first is stepped
    assert (after.F is stepped, after.nu, after.steps) == (True, nu, 7)
    for tried, attempt in ((stepped, 1), (ahead, 2)):
        second, after = rule.retry(F, tried, attempt, state)
        np.testing.assert_allclose(second, halve(F, tried))
        assert (after.F is second, after.nu) == (True, 1.0)
    assert rule.restart(state).nu == 1.0


@pytest.mark.parametrize(
    "value", [Newton(), HALS(), Control(), Fixed((1.0,)), Bound(), Objective((KL,), np.ones(1), 1.0)]
)
def test_rules_policies_and_settings_cannot_be_changed(value):
    with pytest.raises(FrozenInstanceError):
        value.max_iter = 3


@pytest.mark.parametrize(
    ("rule", "certain"),
    [
        (Monotone(), (True, True, True)),
        (Multiplicative(), (False, True, True)),
        (Extrapolated(), (False, False, False)),
        (Newton(), (False, False, False)),
    ],
)
def test_rules_whose_steps_need_no_check(rule, certain):
    """The multiplicative step is that of the majoriser for one loss with 1 <= beta <= 2."""
    assert tuple(rule.certain(omega) for omega in ((IS,), (KL,), (FROBENIUS,))) == certain


def test_nonnegative_least_squares_meets_its_conditions(rng):
    """No slope where an entry is positive, none downwards where it is zero; whatever the unit."""
    W, X = rng.uniform(size=(9, 3)), rng.normal(size=(9, 6))
    for unit in (1e-3, 1.0, 1e3):
        gram, target = unit**2 * W.T @ W, unit**2 * W.T @ X
        H = nonnegative_least_squares(gram, target)
        slope = (gram @ H - target) / unit**2
        assert H.min() == 0 < H.max()
        np.testing.assert_allclose(slope[H > 0], 0.0, atol=1e-5)
        assert slope[H == 0].min() > -1e-5
    assert (nonnegative_least_squares(np.eye(2), -np.ones((2, 3))) == 0).all()
