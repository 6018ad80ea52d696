"""The conformance table of the library with the torch Data: plain and fused, dense, sparse and streamed."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from drnmf.backends.host.reference import ReferenceDense
from drnmf.backends.torch.dense import TorchDense
from drnmf.backends.torch.sparse import TorchSparse
from drnmf.backends.torch.stream import TorchStreamed
from drnmf.numerics import zero_floor
from tests.backends.problems import BETA_SETS, MIXES, ORDERS, entries, factors, mix_named, oracle, ordered
from tests.backends.torch.table import (
    CARD,
    DEVICE,
    FLOAT32,
    FUSED,
    PLAIN,
    SHAPES,
    TF32,
    assert_within,
    distance,
    tensor,
)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the interpreter computes lanes that are dropped
DTYPES = (np.float64, np.float32)
fused_only = pytest.mark.skipif(not FUSED, reason="the fused kernels need a card or TRITON_INTERPRET=1")
FULL = pytest.mark.skipif(not CARD, reason="takes a card")


def _check(datas, X, betas, r, bound, dtype, mixes):
    """Several forms of one X against one answer of the oracle, both sides."""
    W, H = factors(*X.shape, r, dtype)
    for name in mixes:
        mix = mix_named(name, len(betas))
        wanted = oracle(X, W, H, betas, mix, datas[0].mean)
        for data in datas:
            assert_within(data, data.sweep(W, H, betas, mix), wanted, bound)
    mix = mix_named("identity", len(betas))
    wanted = oracle(X.T, H.T, W.T, betas, mix, datas[0].mean)
    assert_within(datas[0].T, datas[0].T.sweep(H.T, np.ascontiguousarray(W.T), betas, mix), wanted, bound)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("betas", BETA_SETS, ids=str)
def test_plain_dense(betas, dtype):
    for m, n, r in SHAPES:
        X = entries((m, n), dtype, zeros=0.1)
        datas = [TorchDense.of(tensor(ordered(X, order)), fused=False) for order in ORDERS]
        _check(datas, X, betas, r, PLAIN[np.dtype(dtype)], dtype, MIXES)


@fused_only
@pytest.mark.parametrize("betas", BETA_SETS, ids=str)
def test_fused_dense(betas):
    for m, n, r in SHAPES:
        X = entries((m, n), np.float32, zeros=0.1)
        orders = ORDERS if CARD and r == 7 else ORDERS[:1]  # every order is compiled anew
        datas = [TorchDense.of(tensor(ordered(X, order)), fused=True) for order in orders]
        _check(datas, X, betas, r, FLOAT32, np.float32, ("identity", "row"))


@fused_only
@pytest.mark.parametrize("mix", MIXES)
def test_fused_mixes_and_strides(mix):
    X = entries((41, 140), np.float32, zeros=0.1)
    W, H = factors(41, 140, 7, np.float32)
    for betas in ((0.0, 1.0), (0.0, 0.5, 1.5, 3.0)):
        weights = mix_named(mix, len(betas))
        for order in ORDERS:
            data = TorchDense.of(tensor(ordered(X, order)), fused=True)
            wanted = oracle(X, W, H, betas, weights, data.mean)
            assert_within(data, data.sweep(W, H, betas, weights), wanted, FLOAT32)


@fused_only
@pytest.mark.parametrize("betas", [(0.0, 1.0), (2.0,), (0.5, 1.0)], ids=str)
def test_tf32_keeps_its_bound(betas):
    for m, n, r in ((600, 130, 16), (40, 70, 5)):
        X = entries((m, n), np.float32, zeros=0.0)
        W, H = factors(m, n, r, np.float32)
        for side, first, second, Y in ((0, W, H, X), (1, H.T, np.ascontiguousarray(W.T), X.T)):
            data = TorchDense.of(tensor(X), precision="tf32", fused=True)
            data = data.T if side else data
            wanted = oracle(Y, first, second, betas, np.eye(len(betas)), data.mean)
            assert_within(data, data.sweep(first, second, betas, np.eye(len(betas))), wanted, TF32)


@fused_only
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_storage(dtype):
    """X as stored counts: the arithmetic on it is float32."""
    X = tensor(entries((70, 136), np.float32, zeros=0.0)).to(dtype)
    held = X.double().cpu().numpy()
    W, H = factors(70, 136, 9, np.float32)
    for fused, bound in ((True, FLOAT32), (False, PLAIN[np.dtype("float32")])):
        data = TorchDense.of(X, fused=fused)
        wanted = oracle(held, W, H, (0.0, 1.0), np.eye(2), data.mean)
        assert data.dtype == np.float32
        assert_within(data, data.sweep(W, H, (0.0, 1.0), np.eye(2)), wanted, bound)


SPARSE_BETAS = [(1.0,), (2.0,), (1.0, 2.0), (2.0, 1.0), (0.0, 1.0), (0.5, 2.0)]


@pytest.mark.parametrize("fused", [False, pytest.param(True, marks=fused_only)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("betas", SPARSE_BETAS, ids=str)
def test_sparse(betas, dtype, fused):
    for m, n, r in ((31, 23, 7), *(((401, 20, 7), (200, 300, 20), (33, 65, 100)) if CARD else ())):
        X = sp.csr_array(entries((m, n), dtype, zeros=0.85))
        data = TorchSparse.of(X, device=DEVICE, fused=fused)
        _check([data], X, betas, r, PLAIN[np.dtype(dtype)], dtype, MIXES)


@fused_only
def test_long_columns_are_cut_and_added_again():
    rng = np.random.default_rng(0)
    X = rng.gamma(1.0, 1.0, (2500, 3)) * (rng.random((2500, 3)) < [0.95, 0.01, 0.5])
    data = TorchSparse.of(sp.csc_array(X), device=DEVICE, fused=True)
    assert data.by_column.segments.starts.numel() > 3
    W, H = factors(2500, 3, 4, np.float64)
    wanted = oracle(sp.csr_array(X), W, H, (1.0, 2.0), np.eye(2), data.mean)
    assert_within(data, data.sweep(W, H, (1.0, 2.0), np.eye(2)), wanted, PLAIN[np.dtype(np.float64)])


def test_sparse_near_exact_fit_keeps_its_digits():
    """The Frobenius identity has none left here."""
    W, H = factors(30, 40, 3, np.float64)
    X = (W @ H) * (1 + 1e-7 * np.random.default_rng(0).standard_normal((30, 40)))
    wanted = 0.5 * float(((X - W @ H) ** 2).sum())
    data = TorchSparse.of(sp.csr_array(X), device=DEVICE)
    (got,) = data.read(data.sweep(W, H, (2.0,), np.eye(1)))
    assert got.losses[0] == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_streamed_is_the_whole(dtype):
    X = entries((83, 140), dtype, zeros=0.1)
    H = factors(83, 140, 5, dtype)[1]
    streamed = TorchStreamed.of(torch.from_numpy(X), DEVICE, rows=17)
    bound = PLAIN[np.dtype(dtype)] if dtype is np.float64 or not FUSED else FLOAT32
    _check([streamed], X, (0.0, 1.0), 5, bound, dtype, MIXES)
    assert np.allclose(streamed.dot(H.T.copy()), X @ H.T, rtol=1e-5)
    assert np.allclose(streamed.squared_norms(), (X.astype(np.float64) ** 2).sum(0))


@pytest.mark.parametrize("make", [TorchDense.of, lambda X: TorchSparse.of(sp.csr_array(X), device=DEVICE)])
def test_what_a_start_asks_for(make):
    X = entries((40, 30), np.float64, zeros=0.3)
    data = make(X)
    B = np.random.default_rng(0).random((30, 4))
    assert data.mean == pytest.approx(X.mean())
    assert data.zeros == X.size - np.count_nonzero(X)
    assert np.allclose(data.dot(B), X @ B)
    assert np.allclose(data.column(7), X[:, 7])
    assert np.allclose(data.squared_norms(), (X**2).sum(0))
    assert np.allclose(data.T.column(5), X[5])


@fused_only
def test_same_bits_every_time():
    m, n = (3000, 2000) if CARD else (300, 20)
    X = entries((m, n), np.float32, zeros=0.0)
    W, H = factors(m, n, 10, np.float32)
    for data in (TorchDense.of(tensor(X), fused=True), TorchSparse.of(sp.csr_array(X), device=DEVICE, fused=True)):
        first, second = (data.read(data.sweep(W, H, (1.0, 2.0), np.eye(2)))[0] for _ in range(2))
        assert torch.equal(first.N, second.N)
        assert torch.equal(first.P, second.P)
        assert np.array_equal(first.losses, second.losses)


@pytest.mark.parametrize("fused", [False, pytest.param(True, marks=fused_only)])
def test_losses_are_skipped_on_request(fused):
    X = entries((41, 77), np.float32, zeros=0.2)
    W, H = factors(41, 77, 4, np.float32)
    data = TorchDense.of(tensor(X), fused=fused)
    looked = data.sweep(W, H, (1.0, 2.0), np.eye(2))
    silent = data.sweep(W, H, (1.0, 2.0), np.eye(2), losses=False)
    assert np.isnan(data.read(silent)[0].losses).all()
    assert torch.equal(looked.N, silent.N)


@pytest.mark.parametrize("fused", [False, pytest.param(True, marks=fused_only)])
def test_vanishing_model_stays_finite(fused):
    X = entries((20, 30), np.float32, zeros=0.2)
    W, H = factors(20, 30, 3, np.float32)
    data = TorchDense.of(tensor(X), fused=fused)
    for betas in ((0.0, 1.0, 2.0), (0.5,)):
        (sweep,) = data.read(data.sweep(W * np.float32(0), H, betas, np.eye(len(betas))))
        assert torch.isfinite(sweep.N).all()
        assert torch.isfinite(sweep.P).all()
        assert np.isfinite(sweep.losses).all()


@fused_only
@pytest.mark.parametrize("gap", [0.3, 0.1, 0.01])
def test_good_fits_keep_their_digits(gap):
    """Losses of 1e-5 an entry and more keep their six digits: the logarithm is accurate near one."""
    W, H = factors(120, 130, 3, np.float32)
    V = W.astype(np.float64) @ H.astype(np.float64)
    X = (V * np.maximum(1.0 + gap * np.random.default_rng(0).standard_normal(V.shape), 0.05)).astype(np.float32)
    data = TorchDense.of(tensor(X), fused=True)
    wanted = oracle(X, W, H, (0.0, 1.0, 1.5), np.eye(3), data.mean)
    (got,) = data.read(data.sweep(W, H, (0.0, 1.0, 1.5), np.eye(3)))
    assert np.max(np.abs(got.losses / wanted.losses - 1.0)) < (1e-6 if gap > 0.05 else 2e-5)


@FULL
def test_more_entries_than_an_int32_counts():
    m, n, r = 40_000, 60_000, 8
    generator = torch.Generator(DEVICE).manual_seed(0)
    X = torch.rand((m, n), device=DEVICE, generator=generator, dtype=torch.float16).add_(0.01)
    assert X.numel() > 2**31
    A, B = (torch.rand((r, k), device=DEVICE, generator=generator) for k in (m, n))
    data = TorchDense.of(X, fused=True)
    sweep = data.sweep(A.T, B, (0.0, 1.0), np.eye(2))
    last = slice(n - 64, n)
    plain = TorchDense(X[:, last], data.mean, 0).sweep(A.T, B[:, last], (0.0, 1.0), np.eye(2))
    assert distance(data.get(sweep.N[:, :, last]), data.get(plain.N)) < 1e-5
    other = data.T.sweep(B.T, A, (0.0, 1.0), np.eye(2))
    assert torch.allclose(sweep.losses, other.losses, rtol=1e-6)
    assert zero_floor(data.mean) > 0


@pytest.mark.parametrize("betas", [(0.0, 1.0), (1.5,), (2.0, 3.0)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_curvature(betas, dtype):
    X = entries((31, 23), dtype, zeros=0.3)
    W, H = factors(31, 23, 4, dtype)
    c = np.random.default_rng(0).random(len(betas))
    dense = TorchDense.of(tensor(X))
    forms = [
        dense,
        TorchSparse.of(sp.csr_array(X), device=DEVICE),
        TorchStreamed.of(torch.from_numpy(X), DEVICE, rows=7),
    ]
    wanted = ReferenceDense.of(X.astype(np.float64), dense.mean)
    for side, (first, second) in enumerate(((W, H), (H.T, np.ascontiguousarray(W.T)))):
        exact = (wanted.T if side else wanted).sweep(
            first.astype(np.float64), second.astype(np.float64), betas, np.eye(len(betas)), curvature=c
        )
        shared = 0.0 if exact.gram is None else exact.gram[np.tril_indices(4)][:, None]
        whole = exact.Q + shared  # torch adds what all columns share to each of them
        for form in forms:
            data = form.T if side else form
            Q = data.sweep(first, second, betas, np.eye(len(betas)), curvature=c).Q
            assert distance(data.get(Q), whole) < (1e-12 if dtype is np.float64 else 1e-5)
