"""Coordinate descent on one matrix for all columns: the compiled step against its reference, and the rule."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf import BetaNMF, Solver
from drnmf._core import get_num_threads, set_num_threads
from drnmf.algorithms import loop
from drnmf.algorithms.loop import Control, solve
from drnmf.algorithms.result import Interrupted
from drnmf.algorithms.updates.hals import HALS
from drnmf.algorithms.updates.steps import _descend_shared, _push, extrapolated_step, shared_step
from drnmf.algorithms.weights import Fixed
from drnmf.backends.base import losses_of
from drnmf.backends.open import open_data
from drnmf.losses.beta import FROBENIUS
from drnmf.losses.names import as_loss
from drnmf.numerics import HALS_TOLERANCE, HALS_WINDOW, TOLERANCE
from drnmf.objective.objective import Objective
from drnmf.solve.settings import control_of
from tests.peak import SOURCE

FLOOR = 1e-9
SHAPES = [(1, 1), (1, 13), (3, 7), (10, 401), (23, 64), (64, 130), (200, 25)]
DTYPES = [np.float64, np.float32]


def problem(r, n, dtype, seed=1):
    """F, N, G and an earlier block, with a minimum on the boundary in about half of the entries."""
    rng = np.random.default_rng(seed)
    W, X = rng.random((300, r)), rng.gamma(0.5, 1.0, (300, n))
    F, last = rng.random((r, n)) + 0.01, rng.random((r, n)) + 0.01
    return F.astype(dtype), (W.T @ X).astype(dtype), W.T @ W, last.astype(dtype)


def value(H, N, G):
    """1/2 h'Gh - N'h of every column, in float64."""
    H = H.astype(np.float64)
    return (0.5 * H * (G @ H) - N * H).sum(0)


def close(ours, reference, dtype):
    np.testing.assert_allclose(ours, reference, rtol=1e-9 if dtype is np.float64 else 1e-3, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_compiled_step_is_the_reference(shape, dtype):
    F, N, G, last = problem(*shape, dtype)
    for passes in (1, 3):
        stepped = shared_step(F, N, G, FLOOR, passes)
        assert stepped.dtype == dtype
        close(stepped, _descend_shared(F, N, G, FLOOR, passes), dtype)
        for momentum in (0.0, 0.4, 3.0):
            same, further = extrapolated_step(F, N, G, FLOOR, passes, last, momentum)
            assert np.array_equal(same, stepped)
            close(further, _push(F, N, G, FLOOR, stepped, last, momentum), dtype)
            assert further.min() >= dtype(FLOOR)
            below = value(F, N, G)
            assert (value(further, N, G) <= below + (1e-12 if dtype is np.float64 else 1e-5) * np.abs(below)).all()


def test_a_step_may_take_the_place_of_the_block_before_it():
    F, N, G, last = problem(23, 130, np.float64)
    for before in (last, F):
        expected, place = extrapolated_step(F, N, G, FLOOR, 3, before, 0.4), F.copy()
        own = place if before is F else last.copy()
        stepped, further = extrapolated_step(place, N, G, FLOOR, 3, own, 0.4, overwrite=True)
        assert np.array_equal(stepped, expected[0])
        assert np.array_equal(further, expected[1])
        assert further is place


def alone(data, W, H, **control):
    rule, objective = HALS(), Objective((FROBENIUS,), np.ones(1), data.mean)
    return solve(data, W, H, objective, rule, Fixed(), Control(tol=0, max_iter=12, **control))


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_a_run_in_place_has_the_bits_of_one_that_keeps_its_points(layout):
    class Kept:
        seconds = 0.0
        recall = offer = done = lambda *_: None

    X = word_counts(70, 90)
    data, rng = open_data(X if layout == "dense" else sp.csr_matrix(X)), np.random.default_rng(1)
    W, H = np.asfortranarray(rng.random((70, 8))), rng.random((8, 90))
    given, expected = (W.copy(), H.copy()), alone(data, W, H, keeper=Kept())
    found = alone(data, W, H)
    assert np.array_equal(W, given[0])
    assert np.array_equal(H, given[1])
    over = alone(data, W, H, overwrite=True)
    assert np.shares_memory(over.H, H)
    assert np.shares_memory(over.W, W)
    for run in (found, over):
        assert np.array_equal(run.W, expected.W)
        assert np.array_equal(run.H, expected.H)
        assert np.array_equal(run.trace.losses, expected.trace.losses)


@pytest.mark.parametrize("call", [5, 6])
def test_ctrl_c_between_the_steps_of_an_iteration_leaves_factors_with_their_own_loss(call, monkeypatch):
    calls, step = [], HALS.step

    def interrupted(self, F, parts, state):
        calls.append(F)
        moved = step(self, F, parts, state)
        if len(calls) == call:
            raise KeyboardInterrupt
        return moved

    monkeypatch.setattr(HALS, "step", interrupted)
    monkeypatch.setattr(loop, "begin_descent", lambda *told: None)  # half by half
    data, rng = open_data(word_counts(70, 90)), np.random.default_rng(1)
    with pytest.raises(Interrupted) as stop:
        alone(data, rng.random((70, 8)), rng.random((8, 90)))
    found = stop.value.result
    assert np.array_equal(found.losses, losses_of(data, found.W, found.H, found.omega))
    assert found.losses[0] < found.trace.losses[-1, 0]


def test_ctrl_c_in_an_iteration_made_at_once_leaves_factors_with_their_own_loss(monkeypatch):
    calls, descend = [], loop.descend

    def interrupted(*told):
        calls.append(descend(*told))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return calls[-1]

    monkeypatch.setattr(loop, "descend", interrupted)
    data, rng = open_data(word_counts(70, 90)), np.random.default_rng(1)
    with pytest.raises(Interrupted) as stop:
        alone(data, rng.random((70, 8)), rng.random((8, 90)))
    found = stop.value.result
    assert np.array_equal(found.losses, losses_of(data, found.W, found.H, found.omega))
    assert found.losses[0] < found.trace.losses[-1, 0]


def test_neither_the_start_nor_what_a_callback_kept_is_overwritten():
    X, kept = np.random.default_rng(0).random((30, 40)), []
    W, H = np.full((30, 3), 0.5), np.random.default_rng(1).random((3, 40))
    given = H.copy()
    model = BetaNMF(
        3, beta=2, init="custom", tol=0, max_iter=12, solver=Solver(callback=lambda at: kept.append(at.components()))
    )
    model.fit(X, W=W, H=H)
    copies = []
    model.set_params(solver__callback=lambda at: copies.append(at.components().copy())).fit(X, W=W, H=H)
    assert np.array_equal(H, given)
    assert all(np.array_equal(one, copy) for one, copy in zip(kept, copies, strict=True))


def test_a_plain_fit_under_beta_2_stops_earlier_than_the_others():
    loss = (as_loss(2),)
    plain = control_of(BetaNMF(3, beta=2), loss)
    assert (plain.tol, plain.fraction) == (HALS_TOLERANCE, HALS_WINDOW)
    for other in (BetaNMF(3, solver="mu"), BetaNMF(3, penalties=["l1:0.1"]), BetaNMF(3, sum_to_one="W")):
        assert (control_of(other, loss).tol, control_of(other, loss).fraction) == (TOLERANCE, 0.0)
    assert control_of(BetaNMF(3), (as_loss(1),)).tol == TOLERANCE
    assert control_of(BetaNMF(3)).tol == TOLERANCE  # `transform` moves one factor alone
    assert control_of(BetaNMF(3, tol=1e-9), loss).tol == 1e-9


def test_columns_that_would_rise_stay_with_their_minimum():
    F, N, G, last = problem(10, 401, np.float64)
    stepped, further = extrapolated_step(F, N, G, FLOOR, 2, last, 20.0)
    kept = (further == stepped).all(axis=0)
    assert 0 < kept.sum() < 401
    risen = np.maximum(stepped + 20.0 * (stepped - last), FLOOR)
    assert (value(risen, N, G)[kept] > value(F, N, G)[kept]).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_many_passes_solve_the_problem_and_the_floor_is_exact(dtype):
    F, N, G, _ = problem(12, 50, dtype)
    step = shared_step(F, N, G, FLOOR, 2000)
    slope = G @ step.astype(np.float64) - N
    at_floor = step == dtype(FLOOR)
    assert 0 < at_floor.sum() < step.size
    assert step.min() == dtype(FLOOR)
    tolerance = (1e-9 if dtype is np.float64 else 1e-4) * np.abs(N).max()
    assert np.abs(slope[~at_floor]).max() < tolerance
    assert slope[at_floor].min() > -tolerance


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 2000), (23, 541)], ids=str)
def test_threads_and_neighbours_change_no_bit(shape, dtype):
    F, N, G, last = problem(*shape, dtype)
    before, found = get_num_threads(), []
    try:
        for count in (1, 2):
            set_num_threads(count)
            found.append(extrapolated_step(F, N, G, FLOOR, 40, last, 0.7))
    finally:
        set_num_threads(before)
    assert np.array_equal(found[0], found[1])
    part = slice(17, 30)
    alone = extrapolated_step(
        *(np.ascontiguousarray(a[:, part]) for a in (F, N)), G, FLOOR, 40, last[:, part].copy(), 0.7
    )
    assert np.array_equal(alone, [a[:, part] for a in found[0]])


@pytest.mark.parametrize("step", [shared_step, _descend_shared])
def test_entries_beside_a_component_that_vanished_stay(step):
    """They would leave for the inverse of the floor, and the floor itself would then be a part of the model."""
    F, N, G, last = problem(4, 30, np.float64)
    scale = np.array([1.0, 1.0, 1e-16, 1.0])
    N, G = N * scale[:, None], G * np.outer(scale, scale)
    stepped = step(F, N, G, FLOOR, 5)
    assert np.array_equal(stepped[2], F[2])
    assert (stepped[[0, 1, 3]] != F[[0, 1, 3]]).all()
    assert np.array_equal(extrapolated_step(F, N, G, FLOOR, 5, last, 0.5)[1][2], F[2])


def word_counts(m=120, n=90, seed=0):
    rng = np.random.default_rng(seed)
    topics = rng.gamma(0.1, 1.0, (m, 6)) @ rng.gamma(0.1, 1.0, (6, n))
    return rng.poisson(2.0 * topics).astype(np.float64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("rank", [3, 6, 40])
def test_the_loss_never_rises_and_falls_sooner_than_under_multiplicative_steps(layout, rank, dtype):
    X = word_counts().astype(dtype)
    X = sp.csr_array(X) if layout == "sparse" else X
    settings = {"beta": 2, "tol": 0, "max_iter": 60, "random_state": 0}
    model = BetaNMF(rank, solver="hals", **settings).fit(X)
    losses = model.trace_.scaled_losses[:, 0]
    slack = 1e-10 if dtype is np.float64 else 1e-5
    assert (np.diff(losses) <= slack * losses[:-1]).all()
    assert model.trace_.sweeps[-1] == 121
    multiplicative = BetaNMF(rank, solver="mu", **settings).fit(X).trace_.scaled_losses[:, 0]
    assert (losses[1:4] < multiplicative[1:4]).all()  # later each is in a local minimum of its own


def test_numpy_takes_the_same_steps(monkeypatch):
    X, settings = word_counts(), {"beta": 2, "solver": "hals", "tol": 0, "max_iter": 15, "random_state": 0}
    compiled = BetaNMF(5, **settings).fit(X)
    monkeypatch.setenv("DRNMF_BACKEND", "numpy")
    plain = BetaNMF(5, **settings).fit(X)
    np.testing.assert_allclose(plain.trace_.scaled_losses, compiled.trace_.scaled_losses, rtol=1e-9)


@pytest.mark.parametrize("beta", [0.5, 1.0])
def test_other_losses_are_refused(beta):
    with pytest.raises(ValueError, match="update='hals' minimises beta = 2 alone"):
        BetaNMF(3, beta=beta, solver="hals").fit(word_counts() + 1.0)


@pytest.mark.slow
def test_no_column_has_a_matrix_of_its_own():
    """At r = 100 the packed curvature of all columns would be 50 times the factor."""
    code = """
        import numpy as np, scipy.sparse as sp
        from drnmf import BetaNMF
        rng = np.random.default_rng(0)
        rows, columns = rng.integers(200, size=80_000), rng.integers(40_000, size=80_000)
        X = sp.csr_array((rng.uniform(size=80_000), (rows, columns)), shape=(200, 40_000))
        def fit(X, rank):
            return BetaNMF(rank, beta=2, solver="hals", init="random", tol=0, max_iter=3, random_state=0).fit(X)
        fit(X[:, :500], 3)
        before = peak_memory()
        model = fit(X, 100)
        print((peak_memory() - before) / model.components_.nbytes)
    """
    text = SOURCE + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 15
