"""The library's traces against an independent transcription of the paper's algorithms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from drnmf import DRNMF, BetaNMF, MultiObjectiveNMF, Solver
from tests.transcription import algorithm_1, algorithm_3, divergence, weighted

SETS = [(0,), (1,), (2,), (0.5,), (0, 1), (1, 2), (0, 1, 2), (0, 0.5, 1.5, 3)]


@pytest.mark.parametrize("betas", SETS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_algorithm_3(betas, seed):
    rng = np.random.default_rng(seed)
    m, n, r = [*rng.integers(5, 40, 2).tolist(), int(rng.integers(1, 6))]
    X = rng.uniform(0.05, 1.0, (m, r)) @ rng.uniform(0.05, 1.0, (r, n)) * rng.uniform(0.3, 2.0, (m, n))
    W, H = rng.uniform(0.1, 1.0, (m, r)), rng.uniform(0.1, 1.0, (r, n))
    references = [divergence(X, np.full_like(X, X.mean()), b) for b in betas]
    losses, weights, _, _ = algorithm_3(X, W, H, betas, references, 60)
    model = DRNMF(
        r,
        betas=betas,
        init="custom",
        tol=0,
        max_iter=60,
        solver=Solver(update="mu", policy="frank-wolfe", references=references),
    )
    model.fit(X, W=W, H=H)
    assert model.trace_.scaled_losses.shape == (61, len(betas))
    np.testing.assert_allclose(model.trace_.scaled_losses, losses, rtol=1e-8)
    np.testing.assert_allclose(model.trace_.weights, weights, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(model.losses_, losses[-1] * references, rtol=1e-8)


def test_mu_alone_asks_for_algorithm_3(problem):
    X, W, H = problem
    options = {"betas": (0, 1), "init": "custom", "tol": 0, "max_iter": 130}
    solvers = ("mu", Solver(update="mu", policy="frank-wolfe"))
    plain, paper = (DRNMF(4, **options, solver=solver).fit(X, W=W, H=H) for solver in solvers)
    np.testing.assert_array_equal(plain.trace_.weights, paper.trace_.weights)
    default = DRNMF(4, **options).fit(X, W=W, H=H)
    assert not np.array_equal(default.trace_.weights, paper.trace_.weights)


def test_computed_references_are_the_single_objective_errors(problem):
    X, W, H = problem
    model = DRNMF(
        4, betas=(0, 1), init="custom", tol=0, max_iter=40, solver=Solver(update="mu", policy="frank-wolfe")
    ).fit(X, W=W, H=H)
    for beta, reference in zip((0, 1), model.references_, strict=True):
        losses, _, _, _ = algorithm_3(X, W, H, (beta,), (1.0,), 40)
        assert reference == pytest.approx(losses[-1, 0], rel=1e-8)
        single = BetaNMF(4, beta=beta, init="custom", tol=0, max_iter=40, solver="mu").fit(X, W=W, H=H)
        assert reference == pytest.approx(single.reconstruction_err_, rel=1e-12)


def test_fixed_weights(problem):
    X, W, H = problem
    references = [divergence(X, np.full_like(X, X.mean()), b) for b in (0, 2)]
    lam = (0.3, 0.7)
    _losses, _, _W1, _H1 = algorithm_3(X, W, H, (0, 2), references, 30, move=lambda w, e, k: np.array(lam))
    # the transcription starts from uniform weights: repeat it with the given ones from the start
    A, B = W, H
    for _ in range(30):
        B = algorithm_1(X, A, B, (0, 2), lam, references)
        A = algorithm_1(X.T, B.T, A.T, (0, 2), lam, references).T
    model = MultiObjectiveNMF(
        4,
        betas=(0, 2),
        weights=lam,
        init="custom",
        tol=0,
        max_iter=30,
        solver=Solver(update="mu", references=references),
    ).fit(X, W=W, H=H)
    assert model.scaled_losses_ @ lam == pytest.approx(weighted(X, A, B, (0, 2), lam, references), rel=1e-8)
    assert (model.trace_.weights == lam).all()


def test_subgradient_variant_and_algorithm_2(problem):
    X, W, H = problem
    references = [divergence(X, np.full_like(X, X.mean()), b) for b in (0, 1)]

    def subgradient(weights, errors, k):
        point = weights + errors / (k + 1)
        # projection on the segment lambda = (t, 1 - t)
        t = np.clip((point[0] - point[1] + 1) / 2, 0, 1)
        return np.array([t, 1 - t])

    losses, weights, _, _ = algorithm_3(X, W, H, (0, 1), references, 30, move=subgradient)
    common = {"betas": (0, 1), "init": "custom", "tol": 0}
    solver = Solver(update="mu", policy="subgradient", references=references)
    model = DRNMF(4, max_iter=30, solver=solver, **common).fit(X, W=W, H=H)
    np.testing.assert_allclose(model.trace_.scaled_losses, losses, rtol=1e-8)
    np.testing.assert_allclose(model.trace_.weights, weights, rtol=1e-8, atol=1e-12)

    # Algorithm 2: many updates per move of lambda, one trace row per move
    lam, A, B = np.array([0.5, 0.5]), W, H
    for k in range(1, 5):
        for _ in range(7):
            B = algorithm_1(X, A, B, (0, 1), lam, references)
            A = algorithm_1(X.T, B.T, A.T, (0, 1), lam, references).T
        lam = subgradient(
            lam, np.array([divergence(X, A @ B, b) / e for b, e in zip((0, 1), references, strict=False)]), k
        )
    many = DRNMF(4, max_iter=4, solver=replace(solver, inner_iter=7), **common).fit(X, W=W, H=H)
    assert many.n_iter_ == 4
    assert many.trace_.scaled_losses.shape == (5, 2)
    np.testing.assert_allclose(many.weights_, lam, rtol=1e-8)


def test_backtracking_is_entered_and_counted():
    """Starts from which the plain step overshoots: the objective must still fall, and sweeps tell the price."""
    for seed in (7, 27, 40):
        rng = np.random.default_rng(seed)
        X = 10.0 ** rng.uniform(-4, 4, (6, 7))
        W, H = 10.0 ** rng.uniform(-3, 3, (6, 3)), 10.0 ** rng.uniform(-3, 3, (3, 7))
        losses, _, _, _ = algorithm_3(X, W, H, (5,), (1.0,), 12)
        model = BetaNMF(3, beta=5, init="custom", tol=0, max_iter=12, solver="mu").fit(X, W=W, H=H)
        np.testing.assert_allclose(model.trace_.scaled_losses, losses, rtol=1e-8)
        assert (np.diff(losses[:, 0]) <= 1e-12 * losses[:-1, 0]).all()
        assert model.trace_.sweeps[-1] > 1 + 2 * 12
