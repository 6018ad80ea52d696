"""Whole iterations of coordinate descent in one call: the same bits as half by half, and only where nothing is kept."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf._core import get_num_threads, set_num_threads
from drnmf.algorithms import loop
from drnmf.algorithms.loop import Control, solve
from drnmf.algorithms.updates.hals import HALS
from drnmf.algorithms.weights import Fixed
from drnmf.backends.base import in_unit
from drnmf.backends.open import open_data
from drnmf.losses.beta import FROBENIUS
from drnmf.objective.objective import Objective
from drnmf.objective.penalties import L2
from drnmf.objective.penalty import Penalties, Setting

LAYOUTS = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2],
    "sparse": sp.csr_array,
}


def drawn(layout, dtype=np.float64, shape=(37, 23), scale=1.0):
    rng = np.random.default_rng(3)
    X = rng.gamma(0.5, size=shape) * (rng.random(shape) < 0.6) * scale
    return in_unit(open_data(LAYOUTS[layout](X.astype(dtype))))


def run(data, rank=6, penalties=None, iterations=30):
    rng = np.random.default_rng(4)
    W, H = (rng.random((size, rank)).astype(data.dtype) + 0.01 for size in data.shape)
    objective = Objective((FROBENIUS,), np.ones(1), data.mean, *([] if penalties is None else [penalties]))
    control = Control(max_iter=iterations, tol=0.0)
    return solve(data, W, np.ascontiguousarray(H.T), objective, HALS(), Fixed(), control)


def same(one, other):
    assert np.array_equal(one.trace.losses, other.trace.losses)
    assert np.array_equal(one.trace.sweeps, other.trace.sweeps)
    assert np.array_equal(one.H, other.H)
    assert np.array_equal(one.W, other.W)


@pytest.fixture
def calls(monkeypatch):
    """How often an iteration was made at once."""
    made, descend = [], loop.descend
    monkeypatch.setattr(loop, "descend", lambda *told: made.append(1) or descend(*told))
    return made


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("scale", [1.0, 2.5, 1e12])
def test_an_iteration_at_once_has_the_bits_of_one_in_halves(monkeypatch, calls, layout, dtype, scale):
    data = drawn(layout, dtype, scale=scale)
    whole = run(data)
    assert len(calls) == 29  # the first is made in halves
    monkeypatch.setattr(loop, "begin_descent", lambda *told: None)
    same(whole, run(data))
    assert len(calls) == 29


def test_a_component_that_vanished_stays_there_too(monkeypatch):
    data = in_unit(open_data(np.outer(np.arange(1.0, 30.0), np.arange(1.0, 20.0))))  # of rank one
    whole = run(data)
    monkeypatch.setattr(loop, "begin_descent", lambda *told: None)
    same(whole, run(data))


def test_threads_change_nothing(calls):
    data, before = drawn("rows", shape=(600, 500)), get_num_threads()
    try:
        set_num_threads(1)
        one = run(data, 20)
        set_num_threads(2)
        same(one, run(data, 20))
    finally:
        set_num_threads(before)
    assert calls


@pytest.mark.parametrize("layout", ["rows", "sparse"])
def test_penalties_and_gaps_are_stepped_in_halves(calls, layout):
    data = drawn(layout)
    run(data, penalties=Penalties((L2(0.1, "H"),), Setting(data.shape, data.mean)))
    if layout == "rows":
        X = np.array(data.X)
        X[0, 0] = np.nan
        run(in_unit(open_data(X)))
    assert not calls
