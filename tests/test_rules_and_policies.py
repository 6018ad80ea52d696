"""One table of rules and one of policies, every property for each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drnmf import MultiObjectiveNMF
from drnmf.data import wrap
from drnmf.data.base import identity
from drnmf.divergence import beta_divergence
from drnmf.updates import RULES, Monotone, Parts, majoriser_root
from drnmf.weights import POLICIES, Fixed, FrankWolfe, as_policy

SETS = [(0.0,), (0.5,), (1.0,), (2.0,), (3.0,), (0.0, 1.0), (1.0, 2.0), (0.0, 2.0), (0.0, 1.0, 2.0), (0.0, 0.5, 3.0)]


@st.composite
def problems(draw):
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    m, n, r = int(rng.integers(1, 20)), int(rng.integers(1, 20)), int(rng.integers(1, 5))
    spread = draw(st.sampled_from([0.3, 1.0, 3.0]))
    X = np.exp(spread * rng.normal(size=(m, n)))
    weights = rng.dirichlet(np.ones(4))
    return X, np.exp(rng.normal(size=(m, r))), np.exp(rng.normal(size=(r, n))), weights


@pytest.mark.parametrize("rule", sorted(RULES))
@pytest.mark.parametrize("betas", SETS, ids=str)
@given(problem=problems())
def test_objective_falls_under_fixed_weights(rule, betas, problem):
    X, W, H, weights = problem
    weights = weights[: len(betas)] / weights[: len(betas)].sum()
    model = MultiObjectiveNMF(
        W.shape[1], betas=betas, weights=weights, references=np.ones(len(betas)), update=rule, init="custom",
        tol=0, max_iter=8,
    ).fit(X, W=W, H=H)  # fmt: skip
    objective = model.trace_.scaled_losses @ weights
    assert (np.diff(objective) <= 1e-10 * objective[:-1] + 1e-14 * objective[0]).all()  # the rest is rounding


@pytest.mark.parametrize("rule", sorted(RULES))
@pytest.mark.parametrize("betas", [(0.0, 1.0), (1.0, 2.0), (0.0, 0.5, 2.0)], ids=str)
def test_fixed_points_stay(rule, betas, rng):
    """At X = WH every gradient vanishes: the factors do not move."""
    W, H = rng.uniform(0.5, 1, (12, 3)), rng.uniform(0.5, 1, (3, 9))
    model = MultiObjectiveNMF(
        3, betas=betas, references=np.ones(len(betas)), update=rule, init="custom", tol=0, max_iter=5, normalize=False
    ).fit(W @ H, W=W, H=H)
    np.testing.assert_allclose(model.components_, H, rtol=1e-9)


@pytest.mark.parametrize("rule", sorted(RULES))
@pytest.mark.parametrize("betas", [(0.0, 1.0), (1.0, 2.0), (0.0, 0.5, 2.0)], ids=str)
@pytest.mark.parametrize(
    ("dtype", "scales"), [(np.float64, (1e-30, 1e-8, 1e30)), (np.float32, (1e-15, 1e15))], ids=["float64", "float32"]
)
def test_scale_equivariance(rule, betas, dtype, scales, rng):
    X = rng.gamma(1.0, 1.0, (15, 12)).astype(dtype) + dtype(0.01)
    runs = {}
    for scale in (1.0, *scales):
        model = MultiObjectiveNMF(3, betas=betas, update=rule, tol=0, max_iter=30, random_state=0)
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
    sweep = wrap(X).sweep(A.T, H, betas, identity(len(betas)))
    c = weights[: len(betas)]
    t = majoriser_root(Parts(sweep.N, sweep.P, c, betas, 0.0))
    up = sum(c[b] * sweep.P[b] * t ** (max(beta, 1) - 1) for b, beta in enumerate(betas))
    down = sum(c[b] * sweep.N[b] * t ** (min(beta, 2) - 2) for b, beta in enumerate(betas))
    np.testing.assert_allclose(up, down, rtol=1e-9)


@given(problem=problems(), betas=st.sampled_from(SETS))
def test_monotone_never_rises_without_line_search(problem, betas):
    X, W, H, weights = problem
    c = weights[: len(betas)]
    A = np.ascontiguousarray(W.T)
    sweep = wrap(X).sweep(A.T, H, betas, identity(len(betas)))
    stepped, _ = Monotone().step(H, Parts(sweep.N, sweep.P, c, betas, 0.0), None)
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


@pytest.mark.parametrize("policy", sorted(set(POLICIES) - {"fixed"}))
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
