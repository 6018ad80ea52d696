"""Every Data against the float64 oracle: same losses, same parts, whatever the layout, rank and mix.

A new Data is one entry in DENSE or SPARSE.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from drnmf.backends.host.reference import ReferenceDense, ReferenceSparse

from drnmf.backends.host.native import NativeDense, NativeSparse
from drnmf.backends.open import open_data
from tests.backends.problems import (
    BETA_SETS,
    MIXES,
    ORDERS,
    SHAPES,
    assert_close,
    entries,
    factors,
    mix_named,
    oracle,
    ordered,
)

DENSE = {"numpy": ReferenceDense.of, "native": NativeDense.of}
SPARSE = {"numpy": ReferenceSparse.of, "native": NativeSparse.of}
DTYPES = (np.float64, np.float32)


def _with_int64(data):
    for X in (data.by_column, data.by_row):
        X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return data


def _check(datas, X, betas, dtype, r, mixes=MIXES):
    """Several forms of one X against one answer of the oracle."""
    W, H = factors(*X.shape, r, dtype)
    for name in mixes:
        mix = mix_named(name, len(betas))
        wanted = oracle(X, W, H, betas, mix, datas[0].mean)
        for data in datas:
            assert_close(data.sweep(W, H, betas, mix), wanted, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("betas", BETA_SETS, ids=str)
@pytest.mark.parametrize("backend", DENSE)
def test_dense_matches_oracle(backend, betas, dtype):
    for m, n, r in SHAPES:
        X = entries((m, n), dtype, zeros=0.1)
        datas = [DENSE[backend](ordered(X, order)) for order in ORDERS]
        _check(datas, X, betas, dtype, r)
        _check([data.T for data in datas], X.T, betas, dtype, r, mixes=("row",))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("betas", [(1.0,), (2.0,), (1.0, 2.0), (0.0,), (0.0, 1.0), (0.5, 2.0)], ids=str)
@pytest.mark.parametrize("backend", SPARSE)
def test_sparse_matches_oracle(backend, betas, dtype):
    for m, n, r in (*SHAPES[1:], (200, 300, 20)):
        X = sp.csr_array(entries((m, n), dtype, zeros=0.85))
        datas = [SPARSE[backend](X), _with_int64(SPARSE[backend](X))]
        _check(datas, X, betas, dtype, r)
        _check([data.T for data in datas], X.T, betas, dtype, r, mixes=("identity",))


@pytest.mark.parametrize("betas", BETA_SETS, ids=str)
def test_sparse_is_dense(betas):
    X = entries((60, 90), np.float64, zeros=0.8)
    W, H = factors(60, 90, 5, np.float64)
    mix = mix_named("identity", len(betas))
    dense, sparse = NativeDense.of(X).sweep(W, H, betas, mix), NativeSparse.of(sp.coo_array(X)).sweep(W, H, betas, mix)
    assert_close(sparse, dense, np.float64)


@pytest.mark.parametrize("dtype", DTYPES)
def test_losses_are_skipped_on_request(dtype):
    X = entries((41, 77), dtype, zeros=0.2)
    W, H = factors(41, 77, 4, dtype)
    for data in (NativeDense.of(X), NativeSparse.of(sp.csc_array(X))):
        for betas in ((1.0,), (2.0,), (1.0, 2.0)):
            with_losses = data.sweep(W, H, betas, np.eye(len(betas)))
            without = data.sweep(W, H, betas, np.eye(len(betas)), losses=False)
            assert np.isnan(without.losses).all()
            assert np.array_equal(with_losses.N, without.N)
            assert np.array_equal(with_losses.P, without.P)


def test_moments_without_copies():
    for dtype in DTYPES:
        X = entries((123, 457), dtype, zeros=0.3) * dtype(1e-3)
        for order in ORDERS:
            data = open_data(ordered(X, order), "native")
            assert data.mean == pytest.approx(X.mean(dtype=np.float64), rel=1e-13)
            assert data.squared_norm == pytest.approx(np.square(X, dtype=np.float64).sum(), rel=1e-13)
            assert data.zeros == X.size - np.count_nonzero(X)
            assert np.allclose(data.squared_norms(), np.square(X, dtype=np.float64).sum(axis=0))
        sparse = open_data(sp.csr_array(X), "native")
        assert sparse.mean == pytest.approx(X.mean(dtype=np.float64), rel=1e-13)
        assert sparse.zeros == X.size - np.count_nonzero(X)


def test_read_only_x():
    X = entries((30, 40), np.float64, zeros=0.0)
    W, H = factors(30, 40, 3, np.float64)
    before = open_data(X, "native").sweep(W, H, (1.0,), np.eye(1))
    for array in (X, W, H):
        array.setflags(write=False)
    assert np.array_equal(open_data(X, "native").sweep(W, H, (1.0,), np.eye(1)).N, before.N)


def test_wrong_shapes_are_refused():
    data = open_data(entries((30, 40), np.float64, zeros=0.0), "native")
    W, H = factors(30, 41, 3, np.float64)
    with pytest.raises(ValueError, match="do not fit"):
        data.sweep(W, H, (1.0,), np.eye(1))
    W, H = factors(30, 40, 3, np.float64)
    with pytest.raises(ValueError, match="one column for each"):
        data.sweep(W, H, (1.0, 2.0), np.eye(1))


def test_sparse_input_is_put_in_order_and_left_alone():
    X = sp.coo_array(([1.0, 2.0, 0.0, 3.0], ([0, 0, 1, 2], [1, 1, 0, 2])), shape=(3, 3))
    data = open_data(X, "native")
    assert data.zeros == 7
    assert data.column(1).tolist() == [3.0, 0.0, 0.0]
    assert X.nnz == 4
