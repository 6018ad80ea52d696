"""Which backend is taken, what is said when it is not the compiled one, and what every Data on the host promises."""

from __future__ import annotations

import logging
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf.backends.base import Ask, losses_of
from drnmf.backends.core import default_backend
from drnmf.backends.host.dense import DenseMatrix
from drnmf.backends.open import open_data
from drnmf.losses.beta import FROBENIUS, KL
from drnmf.problem.check import first_zero
from tests.backends.problems import DENSE, LAYOUTS, entries, factors

pytest.importorskip("drnmf._core", reason="the compiled extension was not built")
from drnmf.backends.host.native import NativeDense

DTYPES = (np.float64, np.float32)


@pytest.fixture
def _fresh_default():
    default_backend.cache_clear()
    yield
    default_backend.cache_clear()


@pytest.mark.usefixtures("_fresh_default")
def test_without_the_core_numpy_is_used_and_said_once(monkeypatch, caplog):
    monkeypatch.delenv("DRNMF_BACKEND", raising=False)
    monkeypatch.setitem(sys.modules, "drnmf._core", None)
    with caplog.at_level(logging.WARNING, logger="drnmf"):
        assert type(open_data(np.ones((2, 2)))) is DenseMatrix
        open_data(np.ones((2, 2)))
    assert len(caplog.records) == 1
    assert "NumPy is used" in caplog.text


@pytest.mark.usefixtures("_fresh_default")
def test_the_core_is_the_default(monkeypatch):
    monkeypatch.delenv("DRNMF_BACKEND", raising=False)
    assert type(open_data(np.ones((2, 2)))) is NativeDense
    monkeypatch.setenv("DRNMF_BACKEND", "numpy")
    assert type(open_data(np.ones((2, 2)))) is DenseMatrix


def test_unknown_backend_is_refused():
    with pytest.raises(ValueError, match="'native', 'numpy'"):
        open_data(np.ones((2, 2)), "fortran")


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_moments_without_copies(backend, dtype):
    X = entries((123, 457), dtype, zeros=0.3) * dtype(1e-3)
    squares = np.square(X, dtype=np.float64)
    for layout in LAYOUTS.values():
        data = open_data(layout(X), backend)
        assert data.mean == pytest.approx(X.mean(dtype=np.float64), rel=1e-13)
        assert data.zeros == X.size - np.count_nonzero(X)
        assert np.allclose(data.starts.squared_norms(), squares.sum(axis=0))
        if hasattr(data, "squared_norm"):
            assert data.squared_norm == pytest.approx(squares.sum(), rel=1e-13)
    assert [np.shares_memory(open_data(X, backend).X, X) for X in (X, X.T)] == [True, True]


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_a_start_asks_for(backend, layout):
    X = entries((40, 30), np.float64, zeros=0.3)
    data = open_data(LAYOUTS[layout](X), backend)
    B = np.random.default_rng(0).random((30, 4))
    assert np.allclose(data.starts.dot(B), X @ B)
    assert np.allclose(data.T.starts.dot(X @ B), X.T @ (X @ B))
    assert np.array_equal(data.starts.column(7), X[:, 7])
    assert np.array_equal(data.T.starts.column(5), X[5])
    assert first_zero(data) == tuple(int(i) for i in np.argwhere(X == 0)[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_losses_are_skipped_without_a_change_of_the_parts(dtype):
    X = entries((41, 77), dtype, zeros=0.2)
    W, H = factors(41, 77, 4, dtype)
    for data in (open_data(X, "native"), open_data(sp.csc_array(X), "native")):
        for omega in ((KL,), (FROBENIUS,), (KL, FROBENIUS)):
            looked, silent = data.sweep(W, H, Ask(omega)), data.sweep(W, H, Ask(omega, losses=False))
            assert np.isnan(silent.losses).all()
            assert np.array_equal(looked.N, silent.N)
            assert np.array_equal(looked.P, silent.P)


def test_nothing_asked_is_nothing_done():
    data = open_data(entries((5, 6), np.float64, 0.0), "native")
    W, H = factors(5, 6, 2, np.float64)
    ask = Ask((KL,), None, losses=False)
    assert ask.empty
    sweep = data.sweep(W, H, ask)
    assert np.isnan(sweep.losses).all()
    assert sweep.N.shape == sweep.P.shape == (0, 2, 6)


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("layout", [*DENSE, "csr32"])
def test_read_only_x(backend, layout):
    X = LAYOUTS[layout](entries((30, 40), np.float64, zeros=0.0))
    W, H = factors(30, 40, 3, np.float64)
    before = open_data(X, backend).sweep(W, H, Ask((KL,)))
    for array in (X.data if sp.issparse(X) else X, W, H):
        array.setflags(write=False)
    assert np.array_equal(open_data(X, backend).sweep(W, H, Ask((KL,))).N, before.N)


def test_wrong_shapes_are_refused():
    data = open_data(entries((30, 40), np.float64, zeros=0.0), "native")
    W, H = factors(30, 41, 3, np.float64)
    with pytest.raises(ValueError, match="do not fit"):
        data.sweep(W, H, Ask((KL,)))
    W, H = factors(30, 40, 3, np.float64)
    for ask in (Ask((KL, FROBENIUS), np.ones(1)), Ask((KL, FROBENIUS), curvature=np.ones(3))):
        with pytest.raises(ValueError, match="one number for each of 2 losses"):
            data.sweep(W, H, ask)


def test_sparse_input_is_put_in_order_and_left_alone():
    X = sp.coo_array(([1.0, 2.0, 0.0, 3.0], ([0, 0, 1, 2], [1, 1, 0, 2])), shape=(3, 3))
    for backend in ("numpy", "native"):
        data = open_data(X, backend)
        assert data.zeros == 7
        assert data.starts.column(1).tolist() == [3.0, 0.0, 0.0]
        assert X.nnz == 4


def test_losses_of_any_factors():
    X = entries((12, 9), np.float64, zeros=0.0)
    W, H = factors(12, 9, 2, np.float64)
    expected = open_data(X, "numpy").sweep(W, H, Ask((KL, FROBENIUS), None)).losses
    np.testing.assert_allclose(losses_of(open_data(X), np.ascontiguousarray(W), H, (KL, FROBENIUS)), expected)
