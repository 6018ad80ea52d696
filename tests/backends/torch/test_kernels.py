"""What the conformance table does not ask of torch: half precision, tf32, digits, bits, very large and broken X."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import triton
import triton.language as tl

from drnmf import BetaNMF
from drnmf.backends.base import Ask
from drnmf.backends.host.dense import DenseMatrix
from drnmf.backends.observed import Entries, HeldOut, Ones
from drnmf.backends.torch import fused
from drnmf.backends.torch.dense import TorchDense
from drnmf.backends.torch.sparse import TorchSparse
from drnmf.backends.torch.stream import TorchStreamed
from drnmf.backends.torch.triton_dense import two_pieces
from drnmf.losses.beta import FROBENIUS, IS, KL, Beta
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.numerics import zero_floor
from tests.backends.problems import answer, entries, factors, oracle
from tests.backends.table import (
    DEVICE,
    FLOAT32,
    FLOAT64,
    FUSED,
    GPU,
    KERNELS,
    PLAIN,
    TF32,
    assert_close,
    by_norm,
    tensor,
)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the interpreter computes lanes that are dropped
DTYPES = (np.float64, np.float32)
kernels_only = pytest.mark.skipif(not FUSED, reason="the Triton kernels need a CUDA GPU or TRITON_INTERPRET=1")
gpu_only = pytest.mark.skipif(not GPU, reason="needs a CUDA GPU")


def check(data, X, W, H, ask, bound):
    """One sweep against the oracle."""
    wanted = oracle(X, W, H, ask, data.mean)
    assert_close(answer(data, W, H, ask), wanted, ask, data.dtype, bound, "")


@triton.jit
def split_in_two(F, hi, mid, B: tl.constexpr, HARDWARE: tl.constexpr):
    at = tl.arange(0, B)
    first, second = two_pieces(tl.load(F + at), HARDWARE)
    tl.store(hi + at, first.to(tl.float32))
    tl.store(mid + at, second.to(tl.float32))


@kernels_only
def test_two_pieces_are_rounded_to_nearest():
    """Two entries share a register, and neither may see the other: both pieces are those of one number alone."""
    F = tensor(np.exp(np.random.default_rng(0).uniform(-60.0, 60.0, 1024)).astype(np.float32))
    F[:4] = torch.tensor([1.0 + 2.0**-8, 1.0 + 3 * 2.0**-8, 1.0 + 2.0**-9, 0.0])  # halfway, halfway, not halfway
    hi, mid = torch.empty_like(F), torch.empty_like(F)
    split_in_two[(1,)](F, hi, mid, B=1024, HARDWARE=not fused.INTERPRETED)
    assert torch.equal(hi, F.bfloat16().float())
    assert torch.equal(mid, (F - hi).bfloat16().float())
    assert ((F - hi - mid).abs() <= F * 2.0**-17).all()


@kernels_only
@pytest.mark.parametrize("omega", [(IS, KL), (FROBENIUS,), (Beta(0.5), KL)], ids=str)
def test_tf32_keeps_its_bound(omega):
    for m, n, r in ((600, 130, 16), (40, 70, 5)):
        X = entries((m, n), np.float32, zeros=0.0)
        W, H = factors(m, n, r, np.float32)
        for side, first, second, Y in ((0, W, H, X), (1, H.T, np.ascontiguousarray(W.T), X.T)):
            data = TorchDense.of(tensor(X), precision="tf32", fused=True)
            check(data.T if side else data, Y, first, second, Ask(omega), TF32)


@kernels_only
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("n", [67, 70])
def test_rows_that_start_at_uneven_distances_are_swept_by_classes(n, dtype, monkeypatch):
    """Tensor descriptors count in 16 bytes, and rows of 67 numbers do not: but every fourth of them does."""
    launched = []
    run = fused._run
    monkeypatch.setattr(fused, "LARGE", 0)
    monkeypatch.setattr(fused, "_run", lambda X, *rest: launched.append(X) or run(X, *rest))
    full = tensor(entries((75, n + 3), np.float32, zeros=0.0)).to(dtype)
    X = full[1:, 3:]  # begins between two multiples of 16 bytes, too
    W, H = factors(*X.shape, 5, np.float32)
    for weights in ("separate", np.array([0.3, 0.7])):
        for side in (False, True):
            data = TorchDense.of(X, fused=True)
            data, A, B = (data.T, H.T, np.ascontiguousarray(W.T)) if side else (data, W, H)
            check(data, data.X.float().cpu().numpy(), A, B, Ask((IS, KL), weights), KERNELS[FLOAT32])
    classes = 16 // math.gcd(16, (n + 3) * X.element_size())
    assert len(launched) == 4 * classes
    assert all(fused._described(x, x.stride(1) == 1, 64, 64) is not None for x in launched) or not GPU


@kernels_only
@pytest.mark.parametrize("size", [1e-3, 30.0, 1e300])
def test_the_kernels_answer_the_negative_binomial(size, monkeypatch):
    """The tiles do not; and a size far from the data, or beyond float32, keeps its digits."""
    monkeypatch.setattr("drnmf.backends.torch.dense.sweep_tiles", None)
    X, (W, H) = entries((70, 136), np.float32, zeros=0.1), factors(70, 136, 9, np.float32)
    data = TorchDense.of(tensor(X), fused=True)
    check(data, X, W, H, Ask((NegativeBinomial(size),)), KERNELS[FLOAT32])


@kernels_only
@pytest.mark.parametrize("n", [67, 72])
def test_the_kernels_answer_under_weights_and_gaps(n, monkeypatch):
    """The tiles do not; also where rows start at uneven distances, and where weights lie otherwise than X does."""
    monkeypatch.setattr("drnmf.backends.torch.dense.sweep_tiles", None)
    monkeypatch.setattr(fused, "LARGE", 0)
    rng = np.random.default_rng(0)
    X, (W, H) = entries((75, n), np.float32, zeros=0.1), factors(75, n, 5, np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    M = rng.random(X.shape).astype(np.float32) * (rng.random(X.shape) < 0.8)
    data, wanted = TorchDense.of(tensor(X), fused=True), DenseMatrix.of(X.astype(np.float64))
    for observed in (Ones(X.shape), Entries(M), Entries(np.asfortranarray(M)), HeldOut(0.2, 7).bind(X.shape)):
        ask = Ask((FROBENIUS, IS), np.array([0.3, 0.7]), observed=observed)
        exact = wanted.sweep(W.astype(np.float64), H.astype(np.float64), ask)
        placed = replace(ask, observed=observed.placed(data.beside))
        assert_close(answer(data, W, H, placed), exact, ask, data.dtype, KERNELS[FLOAT32], str(observed))


@gpu_only
@pytest.mark.parametrize("r", [100, 256])
def test_many_components(r):
    """Not in the conformance table, where every set of losses would compile the largest kernels."""
    X = entries((90, 70), np.float32, zeros=0.1)
    W, H = factors(90, 70, r, np.float32)
    data, flipped = TorchDense.of(tensor(X), fused=True), np.ascontiguousarray(W.T)
    check(data, X, W, H, Ask((IS, KL)), KERNELS[FLOAT32])
    check(data.T, X.T, H.T, flipped, Ask((IS, KL), np.array([0.3, 0.7])), KERNELS[FLOAT32])


@kernels_only
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_storage(dtype):
    """X as stored counts: the arithmetic on it is float32."""
    X = tensor(entries((70, 136), np.float32, zeros=0.0)).to(dtype)
    held = X.double().cpu().numpy()
    W, H = factors(70, 136, 9, np.float32)
    for fused_too, bound in ((True, KERNELS[FLOAT32]), (False, PLAIN[FLOAT32])):
        for omega in ((IS, KL), (NegativeBinomial(30),)):
            data = TorchDense.of(X, fused=fused_too)
            assert data.dtype == np.float32
            check(data, held, W, H, Ask(omega, curvature=np.ones(len(omega))), bound)


@kernels_only
def test_long_columns_are_cut_and_added_again():
    rng = np.random.default_rng(0)
    X = rng.gamma(1.0, 1.0, (2500, 3)) * (rng.random((2500, 3)) < [0.95, 0.01, 0.5])
    data = TorchSparse.of(sp.csc_array(X), device=DEVICE, fused=True)
    assert data.by_column.segments.starts.numel() > 3
    W, H = factors(2500, 3, 4, np.float64)
    check(data, X, W, H, Ask((KL, FROBENIUS)), PLAIN[FLOAT64])


def test_sparse_near_exact_fit_keeps_its_digits():
    """The Frobenius identity has none left here."""
    W, H = factors(30, 40, 3, np.float64)
    X = (W @ H) * (1 + 1e-7 * np.random.default_rng(0).standard_normal((30, 40)))
    wanted = 0.5 * float(((X - W @ H) ** 2).sum())
    data = TorchSparse.of(sp.csr_array(X), device=DEVICE)
    assert answer(data, W, H, Ask((FROBENIUS,))).losses[0] == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_streamed_is_the_whole(dtype):
    X = entries((83, 140), dtype, zeros=0.1)
    W, H = factors(83, 140, 5, dtype)
    streamed = TorchStreamed.of(torch.from_numpy(X), DEVICE, rows=17)
    whole = TorchDense.of(tensor(X))
    for ask in (Ask((IS, KL)), Ask((NegativeBinomial(30),), curvature=np.ones(1))):
        (pieces, one), bound = (answer(data, W, H, ask) for data in (streamed, whole)), PLAIN[np.dtype(dtype)]
        np.testing.assert_allclose(pieces.losses, one.losses, rtol=bound.losses)
        for name in ("N", "P"):
            assert by_norm(getattr(pieces, name), getattr(one, name)) < bound.parts
    assert np.allclose(streamed.starts.dot(H.T.copy()), X @ H.T, rtol=1e-5)
    assert np.allclose(streamed.starts.squared_norms(), (X.astype(np.float64) ** 2).sum(0))


@pytest.mark.parametrize("make", [TorchDense.of, lambda X: TorchSparse.of(sp.csr_array(X), device=DEVICE)])
def test_what_a_start_asks_for(make):
    X = entries((40, 30), np.float64, zeros=0.3)
    data = make(X)
    B = np.random.default_rng(0).random((30, 4))
    assert data.mean == pytest.approx(X.mean())
    assert data.zeros == X.size - np.count_nonzero(X)
    assert np.allclose(data.starts.dot(B), X @ B)
    assert np.allclose(data.starts.column(7), X[:, 7])
    assert np.allclose(data.starts.squared_norms(), (X**2).sum(0))
    assert np.allclose(data.T.starts.column(5), X[5])


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_torch_data_has_the_digest_of_the_matrix(dtype):
    X = entries((83, 140), dtype, zeros=0.1)
    changed = X.copy()
    changed[40, 70] += 1
    for make in (
        lambda X: TorchDense.of(tensor(X)),
        lambda X: TorchDense.of(tensor(np.asfortranarray(X))),
        lambda X: TorchSparse.of(sp.csr_array(X), device=DEVICE),
        lambda X: TorchStreamed.of(torch.from_numpy(X), DEVICE, rows=17),
    ):
        assert make(X).digest() == DenseMatrix.of(X).digest()
        assert make(X).T.digest() == DenseMatrix.of(X.T).digest()
        assert make(changed).digest() != make(X).digest()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("form", ["coo", "csr", "csc"])
@pytest.mark.parametrize("what", ["index", "negative", "ends"])
def test_malformed_sparse_tensors_are_refused(form, what):
    ends, indices, values = [0, 1, 2, 2], [0, {"index": 9, "negative": -1}.get(what, 1)], [1.0, 2.0]
    if what == "ends":
        ends[2] = 200
    if form == "coo":
        X = torch.sparse_coo_tensor([[0, {"index": 5, "negative": -1, "ends": 3}[what]], [0, 1]], values, (3, 3))
    else:
        make = torch.sparse_csr_tensor if form == "csr" else torch.sparse_csc_tensor
        X = make(ends, indices, values, (3, 3))
    with pytest.raises(ValueError, match="Sparse X is malformed"):
        BetaNMF(2, device=str(DEVICE)).fit(X)  # on its way to a GPU: torch itself gives up on one that is there
    BetaNMF(2, max_iter=2).fit(torch.eye(3).to_sparse(layout=getattr(torch, f"sparse_{form}")).to(DEVICE))


@kernels_only
def test_same_bits_every_time():
    m, n = (3000, 2000) if GPU else (300, 20)
    X = entries((m, n), np.float32, zeros=0.0)
    W, H = factors(m, n, 10, np.float32)
    for data in (TorchDense.of(tensor(X), fused=True), TorchSparse.of(sp.csr_array(X), device=DEVICE, fused=True)):
        first, second = (answer(data, W, H, Ask((KL, FROBENIUS))) for _ in range(2))
        for name in ("N", "P", "losses"):
            assert np.array_equal(getattr(first, name), getattr(second, name))


@pytest.mark.parametrize("fused", [False, pytest.param(True, marks=kernels_only)])
def test_losses_are_skipped_on_request(fused):
    X = entries((41, 77), np.float32, zeros=0.2)
    W, H = factors(41, 77, 4, np.float32)
    data = TorchDense.of(tensor(X), fused=fused)
    looked, silent = (answer(data, W, H, Ask((KL, FROBENIUS), losses=losses)) for losses in (True, False))
    assert np.isnan(silent.losses).all()
    assert np.array_equal(looked.N, silent.N)


@pytest.mark.parametrize("fused", [False, pytest.param(True, marks=kernels_only)])
def test_vanishing_model_stays_finite(fused):
    X = entries((20, 30), np.float32, zeros=0.2)
    W, H = factors(20, 30, 3, np.float32)
    data = TorchDense.of(tensor(X), fused=fused)
    for omega in ((IS, KL, FROBENIUS), (Beta(0.5),), (NegativeBinomial(30),)):
        sweep = answer(data, W * np.float32(0), H, Ask(omega))
        for name in ("N", "P", "losses"):
            assert np.isfinite(getattr(sweep, name)).all()


@kernels_only
@pytest.mark.parametrize("gap", [0.3, 0.1, 0.01])
def test_good_fits_keep_their_digits(gap):
    """Losses of 1e-5 an entry and more keep their six digits: the logarithm is accurate near one."""
    W, H = factors(120, 130, 3, np.float32)
    V = W.astype(np.float64) @ H.astype(np.float64)
    X = (V * np.maximum(1.0 + gap * np.random.default_rng(0).standard_normal(V.shape), 0.05)).astype(np.float32)
    data = TorchDense.of(tensor(X), fused=True)
    ask = Ask((IS, KL, Beta(1.5)))
    wanted, got = oracle(X, W, H, ask, data.mean), answer(data, W, H, ask)
    assert np.max(np.abs(got.losses / wanted.losses - 1.0)) < (1e-6 if gap > 0.05 else 2e-5)


@gpu_only
def test_more_entries_than_an_int32_counts():
    m, n, r = 40_000, 60_000, 8
    generator = torch.Generator(DEVICE).manual_seed(0)
    X = torch.rand((m, n), device=DEVICE, generator=generator, dtype=torch.float16).add_(0.01)
    assert X.numel() > 2**31
    A, B = (torch.rand((r, k), device=DEVICE, generator=generator) for k in (m, n))
    data = TorchDense.of(X, fused=True)
    ask, get = Ask((IS, KL)), data.space.get
    sweep = data.sweep(A.T, B, ask)
    last = slice(n - 64, n)
    plain = TorchDense(X[:, last], data.mean, 0).sweep(A.T, B[:, last], ask)
    assert by_norm(get(sweep.N[:, :, last]), get(plain.N)) < 1e-5
    other = data.T.sweep(B.T, A, ask)
    assert torch.allclose(sweep.losses, other.losses, rtol=1e-6)
    assert zero_floor(data.mean) > 0
