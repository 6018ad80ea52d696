"""One table of rules and one of policies, every property for each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drnmf import DRNMF, BetaNMF, MultiObjectiveNMF, Solver, beta_divergence
from drnmf.algorithms.updates import RULES
from drnmf.algorithms.updates.base import Parts
from drnmf.algorithms.updates.minimax import solve_dual, surrogates
from drnmf.algorithms.updates.monotone import Monotone, majoriser_root
from drnmf.algorithms.updates.steps import multiplicative_step, ratio_step, weighted_sum
from drnmf.algorithms.weights import POLICIES, Fixed, FrankWolfe, Policy, as_policy
from drnmf.backends.base import Ask
from drnmf.backends.open import open_data
from drnmf.losses.names import as_losses

SETS = [(0.0,), (0.5,), (1.0,), (2.0,), (3.0,), (0.0, 1.0), (1.0, 2.0), (0.0, 2.0), (0.0, 1.0, 2.0), (0.0, 0.5, 3.0)]


def pairs(sets):
    """Every rule with every set of betas it is for."""
    return [(rule, betas) for rule in sorted(RULES) for betas in sets if rule != "hals" or betas == (2.0,)]


@st.composite
def problems(draw):
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    m, n, r = int(rng.integers(1, 20)), int(rng.integers(1, 20)), int(rng.integers(1, 5))
    spread = draw(st.sampled_from([0.3, 1.0, 3.0]))
    X = np.exp(spread * rng.normal(size=(m, n)))
    weights = rng.dirichlet(np.ones(4))
    return X, np.exp(rng.normal(size=(m, r))), np.exp(rng.normal(size=(r, n))), weights


@pytest.mark.parametrize(("rule", "betas"), pairs(SETS), ids=str)
@given(problem=problems())
def test_objective_falls_under_fixed_weights(rule, betas, problem):
    X, W, H, weights = problem
    weights = weights[: len(betas)] / weights[: len(betas)].sum()
    solver = Solver(references=np.ones(len(betas)), update=rule)
    model = MultiObjectiveNMF(W.shape[1], betas=betas, weights=weights, init="custom", tol=0, max_iter=8, solver=solver)
    model.fit(X, W=W, H=H)
    objective = model.trace_.scaled_losses @ weights
    assert (np.diff(objective) <= 1e-10 * objective[:-1] + 1e-14 * objective[0]).all()  # the rest is rounding


@pytest.mark.parametrize(("rule", "betas"), pairs([(2.0,), (0.0, 1.0), (1.0, 2.0), (0.0, 0.5, 2.0)]), ids=str)
def test_fixed_points_stay(rule, betas, rng):
    """At X = WH every gradient vanishes: the factors do not move."""
    W, H = rng.uniform(0.5, 1, (12, 3)), rng.uniform(0.5, 1, (3, 9))
    model = MultiObjectiveNMF(
        3,
        betas=betas,
        init="custom",
        tol=0,
        max_iter=5,
        solver=Solver(references=np.ones(len(betas)), update=rule, normalize=False),
    ).fit(W @ H, W=W, H=H)
    np.testing.assert_allclose(model.components_, H, rtol=1e-9)


@pytest.mark.parametrize(("rule", "betas"), pairs([(2.0,), (0.0, 1.0), (1.0, 2.0), (0.0, 0.5, 2.0)]), ids=str)
@pytest.mark.parametrize(
    ("dtype", "scales"), [(np.float64, (1e-30, 1e-8, 1e30)), (np.float32, (1e-15, 1e15))], ids=["float64", "float32"]
)
def test_scale_equivariance(rule, betas, dtype, scales, rng):
    X = rng.gamma(1.0, 1.0, (15, 12)).astype(dtype) + dtype(0.01)
    runs = {}
    for scale in (1.0, *scales):
        model = MultiObjectiveNMF(
            3, betas=betas, init="random", tol=0, max_iter=30, random_state=0, solver=Solver(update=rule)
        )
        model.fit((X * dtype(scale)).astype(dtype))
        runs[scale] = model
    for scale in scales:
        powers = np.array([scale**beta for beta in betas])
        rtol = 1e-9 if dtype is np.float64 else 2e-3
        np.testing.assert_allclose(runs[scale].losses_ / powers, runs[1.0].losses_, rtol=rtol)
        scaled = runs[scale].components_ / dtype(np.sqrt(scale))
        np.testing.assert_allclose(scaled, runs[1.0].components_, rtol=max(rtol, 1e-7), atol=1e-3 if rtol > 1e-6 else 0)


@given(problem=problems(), betas=st.sampled_from(SETS))
def test_monotone_root_solves_its_equation(problem, betas):
    X, W, H, weights = problem
    A = np.ascontiguousarray(W.T)
    sweep = open_data(X).sweep(A.T, H, Ask(as_losses(betas)))
    c = weights[: len(betas)]
    t = majoriser_root(Parts(sweep.N, sweep.P, c, as_losses(betas), 0.0))
    up = sum(c[b] * sweep.P[b] * t ** (max(beta, 1) - 1) for b, beta in enumerate(betas))
    down = sum(c[b] * sweep.N[b] * t ** (min(beta, 2) - 2) for b, beta in enumerate(betas))
    np.testing.assert_allclose(up, down, rtol=1e-9)


@given(problem=problems(), betas=st.sampled_from(SETS))
def test_monotone_never_rises_without_line_search(problem, betas):
    X, W, H, weights = problem
    c = weights[: len(betas)]
    A = np.ascontiguousarray(W.T)
    sweep = open_data(X).sweep(A.T, H, Ask(as_losses(betas)))
    stepped, _ = Monotone().step(H, Parts(sweep.N, sweep.P, c, as_losses(betas), 0.0), None)
    after = sum(w * beta_divergence(X, W @ stepped, beta) for w, beta in zip(c, betas, strict=False))
    assert after <= c[: len(betas)] @ sweep.losses * (1 + 1e-11)


@pytest.mark.parametrize("policy", sorted(POLICIES))
@given(losses=st.lists(st.floats(0.5, 1e6), min_size=3, max_size=3), steps=st.integers(1, 30))
def test_policies_stay_on_the_simplex(policy, losses, steps):
    chosen = as_policy(policy)
    weights, state = chosen.init(3)
    assert weights.tolist() == [1 / 3] * 3
    for _ in range(steps):
        weights, state = chosen.step(weights, np.array(losses), state)
        assert weights.min() >= 0
        assert weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("policy", sorted(set(POLICIES) - {"fixed", "minimax"}))
def test_policies_move_towards_the_largest_loss(policy):
    chosen = as_policy(policy)
    weights, state = chosen.init(2)
    for _ in range(50):
        weights, state = chosen.step(weights, np.array([1.0, 2.0]), state)
    assert weights[1] > 0.7


def test_frank_wolfe_steps_are_the_papers():
    weights, state = FrankWolfe(1.0).init(2)
    for k in range(1, 6):
        expected = weights + (np.array([1.0, 0.0]) - weights) / (k + 1)
        weights, state = FrankWolfe(1.0).step(weights, np.array([3.0, 2.0]), state)
        np.testing.assert_allclose(weights, expected, rtol=1e-15)


def test_fixed_weights_are_checked():
    with pytest.raises(ValueError, match="sum to"):
        Fixed((0.2, 0.2)).init(2)
    with pytest.raises(ValueError, match="not known"):
        as_policy("gradient")
    with pytest.raises(ValueError, match="needs methods"):
        as_policy(3)


MOVING = [(0.0, 1.0), (1.0, 2.0), (0.0, 2.0), (0.0, 1.0, 2.0), (0.0, 0.5, 1.5, 3.0)]


@pytest.mark.parametrize("betas", MOVING, ids=str)
@given(problem=problems())
def test_minimax_never_raises_the_maximum(betas, problem):
    X, W, H, _ = problem
    references = np.array([beta_divergence(X, np.full_like(X, X.mean()), beta) + 1e-3 for beta in betas])
    model = DRNMF(
        W.shape[1],
        betas=betas,
        init="custom",
        tol=0,
        max_iter=6,
        solver=Solver(policy="minimax", references=references),
    ).fit(X, W=W, H=H)
    assert (np.diff(model.trace_.maximum) <= 0).all()
    assert model.trace_.maximum[-1] < model.trace_.maximum[0]


def test_minimax_with_float32_zeros_and_empty_rows(rng):
    X = np.maximum(rng.normal(size=(20, 15)), 0).astype(np.float32)
    X[3], X[:, 4] = 0, 0
    model = DRNMF(3, betas=(1, 2), tol=0, max_iter=60, random_state=0, solver=Solver(policy="minimax")).fit(X)
    assert (np.diff(model.trace_.maximum) <= 0).all()


@given(problem=problems(), betas=st.sampled_from([*MOVING, (0.5,)]))
def test_surrogates_majorise(problem, betas):
    """G_b(t) >= Dbar_b at every t, with equality at t = 1."""
    X, W, H, weights = problem
    A = np.ascontiguousarray(W.T)
    sweep = open_data(X).sweep(A.T, H, Ask(as_losses(betas)))
    references = np.ones(len(betas))
    parts = Parts(sweep.N, sweep.P, references, as_losses(betas), 0.0, sweep.losses, references)
    np.testing.assert_allclose(surrogates(H, np.ones_like(H), parts), sweep.losses, rtol=1e-12)
    t = np.exp(weights[0] * 3 * np.sin(np.arange(H.size))).reshape(H.shape)
    true = np.array([beta_divergence(X, W @ (H * t), beta) for beta in betas])
    assert (surrogates(H, t, parts) >= true * (1 - 1e-10)).all()


def test_dual_equalises_what_it_can(rng):
    X = rng.gamma(1.0, 1.0, (15, 12)) + 0.05
    W, H = rng.uniform(0.2, 1, (15, 3)), rng.uniform(0.2, 1, (3, 12))
    A = np.ascontiguousarray(W.T)
    for betas in ((0.0, 1.0), (0.0, 1.0, 2.0)):
        sweep = open_data(X).sweep(A.T, H, Ask(as_losses(betas)))
        parts = Parts(sweep.N, sweep.P, np.ones(len(betas)), as_losses(betas), 0.0, np.ones(len(betas)), sweep.losses)
        weights, t, bound = solve_dual(H, parts)
        assert bound < 1
        # strong duality: the weighted sum of surrogates at the optimum is the maximum
        assert weights @ surrogates(H, t, parts) == pytest.approx(bound, rel=1e-4)


@pytest.mark.parametrize("betas", [(0, 1), (1, 2), (0, 1, 2)], ids=str)
def test_default_is_no_worse_than_the_paper_and_faster(betas):
    rng = np.random.default_rng(5)
    X = rng.gamma(1.0, 1.0, (40, 5)) @ rng.gamma(1.0, 1.0, (5, 30)) * rng.gamma(5.0, 0.2, (40, 30)) + 1e-2
    paper = DRNMF(
        5, betas=betas, tol=0, max_iter=600, random_state=0, solver=Solver(update="mu", policy="frank-wolfe")
    ).fit(X)
    ours = DRNMF(5, betas=betas, tol=0, max_iter=600, random_state=0, solver=Solver(references=paper.references_)).fit(
        X
    )
    assert ours.reconstruction_err_ <= paper.reconstruction_err_ * 1.001
    reached = np.argmax(ours.trace_.maximum <= paper.reconstruction_err_ * 1.0005)
    assert ours.trace_.sweeps[reached] < 0.7 * paper.trace_.sweeps[-1]
    assert ours.reconstruction_err_ == ours.trace_.maximum.min()


def test_rejected_points_cost_sweeps_and_are_counted(rng):
    X = rng.gamma(0.3, 1.0, (30, 25)) + 1e-4
    model = BetaNMF(4, beta=0, tol=0, max_iter=200, random_state=0, solver="extrapolated").fit(X)
    per_iteration = np.diff(model.trace_.sweeps)
    assert per_iteration.min() == 2
    assert per_iteration.max() > 2


@pytest.mark.slow
def test_certificates_vanish_at_a_solution_and_not_at_a_start(rng):
    X = rng.gamma(1.0, 1.0, (30, 4)) @ rng.gamma(1.0, 1.0, (4, 25)) * rng.uniform(0.8, 1.2, (30, 25)) + 0.01
    far = DRNMF(4, betas=(0, 1), tol=0, max_iter=2, random_state=0).fit(X)
    near = DRNMF(4, betas=(0, 1), tol=0, max_iter=4000, random_state=0).fit(X)
    assert far.stationarity_ > 1e-2
    assert near.stationarity_ < 1e-4
    assert near.gap_ < 1e-4
    scaled = DRNMF(4, betas=(0, 1), tol=0, max_iter=2, random_state=0).fit(1e6 * X)
    assert scaled.stationarity_ == pytest.approx(far.stationarity_, rel=1e-6)


def test_reported_when_a_run_beats_its_reference(rng):
    X = rng.uniform(0.1, 1, (20, 15))
    model = quick_dr(solver=Solver(references=(1e9, 1e9))).fit(X)
    assert sum("not the best" in note for note in model.notes_) == 2
    assert not quick_dr(solver=Solver(references=(1e-9, 1e-9))).fit(X).notes_


def quick_dr(**arguments):
    return DRNMF(3, betas=(0, 1), tol=0, max_iter=20, random_state=0, **arguments)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("parts", "shape"), [(1, (3, 17)), (2, (7, 9001)), (3, (1, 1))])
def test_the_compiled_multiplicative_step_is_the_written_one(parts, shape, dtype):
    rng = np.random.default_rng(0)
    F, N, P = (rng.random(size).astype(dtype) + dtype(0.1) for size in (shape, (parts, *shape), (parts, *shape)))
    N[:, 0, 0] = 0.0  # the floor takes over
    c = rng.random(parts) + 0.5
    ours = multiplicative_step(F, N, P, c, 0.25)
    assert ours.dtype == dtype
    assert ours[0, 0] == 0.25
    c = c if parts > 1 else np.ones(1)  # a common factor in both parts does not matter
    written = ratio_step(F, weighted_sum(c, N), weighted_sum(c, P), 0.25)
    np.testing.assert_allclose(ours, written, rtol=4 * np.finfo(dtype).eps)


def test_a_nan_in_the_parts_stays_one():
    one = np.ones((1, 1, 1))
    assert np.isnan(multiplicative_step(one[0], np.nan * one, one, np.ones(1), 0.5)).all()


def test_an_entry_without_a_slope_stays():
    one = np.ones((1, 1, 1))
    assert multiplicative_step(3 * one[0], one, 0 * one, np.ones(1), 0.5) == 3
    assert multiplicative_step(3 * one[0], 0 * one, 0 * one, np.ones(1), 0.5) == 3


class Constant(Policy):
    """A policy of the user's own that never moves lambda, and says so."""

    constant = True

    def init(self, p):
        return np.full(p, 1 / p), None

    def step(self, weights, scaled_losses, state):
        return weights, state


def test_a_constant_policy_of_the_users_own_is_treated_as_fixed(rng):
    X = rng.gamma(1.0, 1.0, (20, 15)) + 0.05
    ours, fixed = (
        DRNMF(3, betas=(0, 1), tol=0, max_iter=40, random_state=0, solver=Solver(policy=p))
        for p in (Constant(), "fixed")
    )
    np.testing.assert_array_equal(ours.fit_transform(X), fixed.fit_transform(X))
    np.testing.assert_array_equal(ours.trace_.scaled_losses, fixed.trace_.scaled_losses)
