"""A Dask array gives what the array itself gives, here on Dask's threads."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
import dask.array as da  # noqa: E402

from drnmf import DRNMF, BetaNMF, MultiObjectiveNMF, Solver  # noqa: E402
from drnmf.backends.base import Ask, losses_of  # noqa: E402
from drnmf.backends.observed import Entries, HeldOut, Outer, weigh  # noqa: E402
from drnmf.backends.open import open_blocks, open_data  # noqa: E402
from drnmf.backends.weighted import held_out_losses  # noqa: E402
from drnmf.losses.beta import FROBENIUS, IS, KL, Beta  # noqa: E402
from drnmf.problem.check import first_zero  # noqa: E402
from tests.backends.problems import answer  # noqa: E402
from tests.flat import make  # noqa: E402

M, N, R = 230, 36, 4
RUN = {"tol": 0, "max_iter": 40, "random_state": 0}


def matrix(sparse=False, dtype=np.float64):
    X = np.random.default_rng(3).gamma(0.5, 1.0, (M, N)).astype(dtype)
    return sp.csr_array(np.where(X > 0.6, X, 0).astype(dtype)) if sparse else X + dtype(1e-3)


def blocks(X, rows=60, kind=None):
    if sp.issparse(X):
        return da.from_array(X.toarray(), chunks=(rows, -1)).map_blocks(kind or sp.csr_array)
    return da.from_array(X, chunks=(rows, -1))


def everything(model, W):
    return [np.asarray(W), model.components_, model.losses_, model.weights_, model.trace_.scaled_losses]


def fitted(X, cls=DRNMF, **settings):
    model = make(cls, R, **(RUN | settings))
    return model, model.fit_transform(X)


CASES = [
    (DRNMF, {"betas": (0, 1)}, False),
    (DRNMF, {"betas": (1, 2), "solver": "mu"}, True),
    (DRNMF, {"betas": (0.5, 2), "solver": Solver(update="extrapolated", policy="mirror")}, False),
    (MultiObjectiveNMF, {"betas": (0, 1, 2), "solver": "monotone"}, False),
    (MultiObjectiveNMF, {"betas": (1, 2), "init": "spa"}, True),
    (BetaNMF, {"beta": 2, "init": "nndsvdar"}, False),
    (BetaNMF, {"beta": 1}, True),
    (DRNMF, {"betas": (0, 1), "penalties": ["sparsity:0.05", "volume:0.01:W", "smooth:0.01"]}, False),
    (BetaNMF, {"beta": 2, "penalties": ["l1:0.1", "l2:0.2:W", "volume:0.01"]}, True),
]


@pytest.mark.parametrize(("cls", "settings", "sparse"), CASES)
def test_the_fit_on_threads_is_the_local_fit(cls, settings, sparse):
    X = matrix(sparse)
    (local, W), (model, V) = fitted(X, cls, **settings), fitted(blocks(X), cls, **settings)
    assert isinstance(V, da.Array)
    assert V.chunks == ((60, 60, 60, 50), (R,))
    np.testing.assert_allclose(model.trace_.scaled_losses, local.trace_.scaled_losses, rtol=1e-10)
    assert (model.trace_.sweeps >= local.trace_.sweeps).all()  # a rejected H costs the sweep begun behind it
    for one, other in zip(everything(model, V), everything(local, W), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-14)
    np.testing.assert_allclose(model.stationarity_, local.stationarity_, rtol=1e-6)


def test_a_penalty_of_neighbouring_rows_is_refused():
    with pytest.raises(ValueError, match=r"smooth:0\.1:0 compares neighbouring rows"):
        fitted(blocks(matrix()), BetaNMF, penalties=["smooth:0.1:0"])


def test_an_iteration_is_one_round_trip(monkeypatch):
    from drnmf.backends.dask import cluster as place

    graphs = []
    run = place.run
    monkeypatch.setattr(place, "run", lambda stays, answer: (graphs.append(len(stays)), run(stays, answer))[1])
    model, _ = fitted(blocks(matrix()), BetaNMF, beta=1, update="mu", init="random", max_iter=20)
    assert model.trace_.sweeps[-1] == 41
    assert graphs[:2] == [4, 0]  # a look at X, which stays; the sweep at the start
    assert graphs[2:22] == 20 * [4]  # W stays
    assert len(graphs) - 22 <= 8  # the certificate, the norms, the rescaling, the mean row of W


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True])
def test_blocks_answer_like_the_matrix(sparse, dtype):
    X = matrix(sparse, dtype)
    one, many = open_data(X), open_blocks(blocks(X))
    rng = np.random.default_rng(0)
    A, B = (rng.uniform(0.1, 1, (R, size)).astype(dtype) for size in X.shape)
    assert (many.shape, many.dtype, many.zeros) == (one.shape, one.dtype, one.zeros)
    assert many.mean == pytest.approx(one.mean, rel=1e-12)
    tol = 1e-10 if dtype is np.float64 else 1e-4
    omega = (KL, FROBENIUS, Beta(0.5))
    for ask in (Ask(omega), Ask(omega, np.array([0.2, 0.3, 0.5])), Ask(omega, None)):
        expected, sweep = one.sweep(A.T, B, ask), answer(many, A.T, B, ask)
        for name in ("losses", "N", "P"):
            np.testing.assert_allclose(getattr(sweep, name), getattr(expected, name), rtol=tol)
    np.testing.assert_allclose(many.starts.column(3), one.starts.column(3))
    np.testing.assert_allclose(many.T.starts.column(70), one.T.starts.column(70))
    np.testing.assert_allclose(many.starts.dot(B.T), one.starts.dot(B.T), rtol=tol)
    np.testing.assert_allclose(many.T.starts.dot(A.T), one.T.starts.dot(A.T), rtol=tol)
    np.testing.assert_allclose(many.starts.squared_norms(), one.starts.squared_norms(), rtol=tol)
    np.testing.assert_array_equal(many.T.space.get(many.T.space.put(A)), A)


def test_more_components_than_columns():
    X = matrix()[:, :3]
    (local, W), (model, V) = fitted(X, BetaNMF), fitted(blocks(X), BetaNMF)
    np.testing.assert_allclose(np.asarray(V), W, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(model.losses_, local.losses_, rtol=1e-8)


@pytest.mark.parametrize(("value", "words"), [(-2.0, "Negative values"), (np.inf, "NaN or infinity"), (0.0, "zero")])
def test_bad_entries_are_named_by_their_place_in_the_whole(value, words):
    X = matrix()
    X[150, 7] = value
    with pytest.raises(ValueError, match=rf"{words}.*X\[150, 7\]"):
        DRNMF(R, betas=(0, 1)).fit(blocks(X))


@pytest.mark.slow
@pytest.mark.parametrize("sparse", [False, True])
def test_the_first_zero_is_named_by_its_place_in_the_whole(sparse):
    X = matrix()
    X[100, 20] = X[100, 7] = X[150, 2] = 0.0
    data = open_blocks(blocks(sp.csr_array(X) if sparse else X))
    assert (first_zero(data), first_zero(data.T)) == ((100, 7), (2, 150))
    some = weigh(data, Outer((np.arange(M) != 100).astype(float), np.ones(N)))
    assert first_zero(some) == (150, 2)


def test_chunks_of_columns_are_merged_with_a_warning():
    X = matrix()
    with pytest.warns(UserWarning, match="3 chunks of columns.*merged.*GB move"):
        model, _ = fitted(da.from_array(X, chunks=(60, 12)), betas=(0, 1))
    expected, _ = fitted(blocks(X), betas=(0, 1))
    np.testing.assert_array_equal(model.trace_.scaled_losses, expected.trace_.scaled_losses)


def test_what_cannot_be_done_is_said():
    D = blocks(matrix())
    with pytest.raises(ValueError, match=r"Minimax chooses .* use another policy"):
        DRNMF(R, betas=(0, 1), solver=Solver(policy="minimax", references=(1, 1))).fit(D)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        DRNMF(R).fit(D[D[:, 0] > 0.5])
    with pytest.raises(ValueError, match="Block 0 of X has shape"):
        DRNMF(R).fit(D.map_blocks(lambda x: x[:-1], dtype=D.dtype, chunks=D.chunks))


def test_blocks_that_share_work_with_others():
    X = matrix()
    D = blocks(X)
    model, _ = fitted(D / D.sum(axis=0), betas=(0, 1))
    local, _ = fitted(X / X.sum(axis=0), betas=(0, 1))
    np.testing.assert_allclose(model.trace_.scaled_losses, local.trace_.scaled_losses, rtol=1e-10)


@pytest.mark.parametrize("fraction", [0.4, 0.0])
def test_weights_in_other_chunks_follow_the_blocks_of_x(fraction):
    """In memory, or read from their source with the rows that they weigh; gaps and held-out entries beside them."""
    X, weights = matrix(), np.random.default_rng(1).random((M, N))
    X[np.quantile(X, 0.9) < X] = np.nan
    rng = np.random.default_rng(2)
    W, H = rng.random((M, R)), rng.random((R, N))
    local = weigh(weigh(open_data(X), Entries(weights)), HeldOut(0.1, 2))
    with dask.config.set({"drnmf.memory-fraction": fraction}):
        data = weigh(open_blocks(blocks(X)), Entries(da.from_array(weights, chunks=(70, 9))))
        data = weigh(data, HeldOut(0.1, 2))
        assert (data.count, data.zeros, data.in_memory) == (local.count, local.zeros, fraction > 0)
        assert data.mean == pytest.approx(local.mean, rel=1e-13)
        omega = (IS, KL)
        np.testing.assert_allclose(losses_of(data, W, H, omega), losses_of(local, W, H, omega), rtol=1e-12)
        np.testing.assert_allclose(held_out_losses(data, W, H, omega), held_out_losses(local, W, H, omega), rtol=1e-12)
        assert data.digest() != open_blocks(blocks(X)).digest()
