"""Weights, gaps and held-out entries: every backend against the oracle's dense tiles, and what weights must mean."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf import BetaNMF
from drnmf.backends.base import Ask
from drnmf.backends.host.dense import DenseMatrix
from drnmf.backends.observed import Entries, HeldOut, Ones, Outer, Stored, product, weigh
from drnmf.backends.open import open_data
from drnmf.backends.weighted import held_out_losses, shares_curvature
from drnmf.losses.names import from_text
from drnmf.problem.check import first_zero
from tests.backends.problems import LAYOUTS, LOSS_SETS, answer, entries, factors
from tests.backends.table import BACKENDS, assert_close

SHAPE = (61, 147, 7)
SETS = ("1", "2", "0 1", "1 2", "0 0.5 1.5 3", "nb:2 0 1.5", "1 2 nb:30")
GPU_SETS = ("0 1", "1 2", "nb:30")


def _outer(shape):
    rng = np.random.default_rng(3)
    u, v = rng.uniform(0.5, 2.0, shape[0]), rng.uniform(0.5, 2.0, shape[1])
    u[4] = v[2] = 0.0
    return Outer(u, v)


def _values(shape):
    rng = np.random.default_rng(5)
    return Entries(rng.uniform(0.0, 2.0, shape) * (rng.random(shape) < 0.8))


def _held_out(shape):
    return HeldOut(0.2, 7).bind(shape)


WEIGHTS = {
    "ones": Ones,
    "outer": _outer,
    "entries": _values,
    "held out": _held_out,
    "left out": lambda shape: _held_out(shape).others,
    "all": lambda shape: product(_outer(shape), _values(shape), _held_out(shape)),
    "outer groups": lambda shape: product(_outer(shape), HeldOut(0.1, 1).bind(shape)),
}
"""Name -> weights for a shape."""


def gappy(X):
    """X with NaN, in a whole row and column too, and infinity where nothing is observed either."""
    X = X.copy()
    X[np.random.default_rng(9).random(X.shape) < 0.15] = np.nan
    X[5], X[:, 6], X[7, 8] = np.nan, np.nan, np.inf
    return X


def asks(omega):
    c = np.random.default_rng(1).random(len(omega))
    return {
        "separate": Ask(omega, curvature=c),
        "weighted": Ask(omega, c, curvature=c),
        "losses": Ask(omega, None),
        "silent": Ask(omega, c, losses=False),
    }


def same(data, wanted, W, H, omega, dtype, bound, where):
    """Sweeps of both agree, on both sides of X."""
    sides = ((data, wanted, W, H), (data.T, wanted.T, H.T, np.ascontiguousarray(W.T)))
    for side, (one, other, A, B) in enumerate(sides):
        for name, ask in asks(omega).items():
            if shares_curvature(one) and [loss.free_part for loss in omega] == ["gram"]:
                ask = replace(ask, curvature=None)  # which has a test of its own
            ask = replace(ask, observed=other.observed)
            expected = other.data.sweep(A.astype(np.float64), B.astype(np.float64), ask)
            assert_close(answer(one, A, B, ask), expected, ask, dtype, bound, f"{where}, {name}, side {side}")


CASES = [
    pytest.param(
        backend,
        dtype,
        losses,
        marks=pytest.mark.skipif(row.missing is not None, reason=row.missing or ""),
        id=f"{backend}-{losses}-{dtype}".replace(" ", "_"),
    )
    for backend, row in BACKENDS.items()
    for k, losses in enumerate(SETS if backend in ("numpy", "native") else GPU_SETS)
    for dtype in (list(row.bounds)[k % 2 :: 2] if backend == "numpy" else row.bounds)  # one each: it is the same code
    if losses in LOSS_SETS
]


@pytest.mark.parametrize(("backend", "dtype", "losses"), CASES)
def test_every_backend_sweeps_under_weights_like_the_oracle(backend, dtype, losses):
    row, omega = BACKENDS[backend], tuple(map(from_text, losses.split()))
    W, H = factors(*SHAPE, dtype)
    kinds = WEIGHTS if backend in ("numpy", "native") else {k: WEIGHTS[k] for k in ("ones", "all", "held out")}
    if {"C", "csr32"} <= set(row.layouts) and backend == "dask":
        kinds = {k: WEIGHTS[k] for k in ("ones", "all")}
    for layout in row.layouts[:: 1 if backend == "native" else 2]:
        sparse = layout.startswith("csr")
        X = entries(SHAPE[:2], dtype, zeros=0.85 if sparse else 0.1)
        X = X if sparse else gappy(X) if backend != "dask" else np.where(np.isfinite(gappy(X)), gappy(X), np.nan)
        opened, oracle = row.open(LAYOUTS[layout](X)), DenseMatrix.of(X.astype(np.float64))
        for name, make in kinds.items():
            if sparse and name == "ones":
                continue
            observed = make(SHAPE[:2])
            data, wanted = weigh(opened, observed), weigh(oracle, observed)
            assert (data.zeros, data.count) == (wanted.zeros, wanted.count), name
            np.testing.assert_allclose(data.mean, wanted.mean, rtol=1e-6)
            wanted = replace(wanted, data=replace(wanted.data, mean=data.mean))
            same(data, wanted, W, H, omega, dtype, row.bounds[dtype], f"{name}, {layout}")


@pytest.mark.parametrize("backend", ["numpy", "native", "torch sparse", "dask"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["stored", "weights", "and more"])
def test_stored_entries_alone(backend, dtype, kind):
    """Zeros that X stores are observed, what it does not store is not, under every loss."""
    row = BACKENDS[backend]
    if row.missing or np.dtype(dtype) not in row.bounds:
        pytest.skip(row.missing or "no such dtype")
    X = sp.csr_array(entries(SHAPE[:2], dtype, 0.85))
    X.data[::9] = 0.0
    observed = Stored.of(X)
    if kind != "stored":
        weights = observed.weights.copy()
        weights.data = np.random.default_rng(2).uniform(0.0, 2.0, weights.nnz)
        weights.data[::7] = 0.0
        observed = Stored(weights)
    if kind == "and more":
        observed = product(observed, _outer(X.shape), _held_out(X.shape))
    W, H = factors(*SHAPE, dtype)
    opened, oracle = row.open(X), DenseMatrix.of(X.toarray().astype(np.float64))
    data, wanted = weigh(opened, observed), weigh(oracle, observed)
    assert (data.zeros, data.count) == (wanted.zeros, wanted.count)
    wanted = replace(wanted, data=replace(wanted.data, mean=data.mean))
    for losses in SETS if backend == "native" else SETS[2:4]:
        omega = LOSS_SETS[losses]
        same(data, wanted, W, H, omega, np.dtype(dtype), row.bounds[np.dtype(dtype)], losses)


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("layout", ["C", "csr32"])
def test_weights_of_one_are_no_weights(backend, layout):
    X = LAYOUTS[layout](entries((20, 30), np.float64, 0.3))
    data = open_data(X, backend)
    ones = Outer(np.ones(20), np.ones(30)), Entries(np.ones((20, 30))), Ones((20, 30)), None
    assert all(weigh(data, one) is data for one in ones)


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_what_has_no_weight_is_as_if_removed(backend):
    X, (W, H) = entries((30, 40), np.float64, 0.1), factors(30, 40, 4, np.float64)
    u, v = np.ones(30), np.ones(40)
    u[[3, 9]] = v[[0, 7, 8]] = 0.0
    omega = LOSS_SETS["0 0.5 1.5 3"]
    small = open_data(np.ascontiguousarray(X[u > 0][:, v > 0]), backend)
    ask = Ask(omega, curvature=np.ones(4))
    for observed in (Outer(u, v), Entries(np.outer(u, v))):
        data = weigh(open_data(X, backend), observed)
        assert data.mean == pytest.approx(small.mean, rel=1e-14)
        got, wanted = data.sweep(W, H, ask), small.sweep(W[u > 0], np.ascontiguousarray(H[:, v > 0]), ask)
        np.testing.assert_allclose(got.losses, wanted.losses, rtol=1e-12)
        for name in ("N", "P", "Q"):
            np.testing.assert_allclose(getattr(got, name)[..., v > 0], getattr(wanted, name), rtol=1e-11)
            assert not getattr(got, name)[..., v == 0].any()


def test_a_weight_of_two_is_the_row_twice():
    X, (W, H) = entries((30, 40), np.float64, 0.1), factors(30, 40, 4, np.float64)
    u = np.ones(30)
    u[11] = 2.0
    twice = [*range(30), 11]
    ask = Ask(LOSS_SETS["0 1 2"], np.ones(3))
    data, double = weigh(open_data(X), Outer(u, np.ones(40))), open_data(X[twice])
    got, wanted = data.sweep(W, H, ask), double.sweep(W[twice], H, ask)
    assert data.mean == pytest.approx(double.mean, rel=1e-14)
    for name in ("losses", "N", "P"):
        np.testing.assert_allclose(getattr(got, name), getattr(wanted, name), rtol=1e-11)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("layout", ["C", "F", "csr32"])
@pytest.mark.parametrize("exact", [False, True])
def test_rows_times_columns_keep_the_short_cuts_of_least_squares(dtype, layout, exact):
    """One product with X: the curvature W' diag(u) W is shared once each column is divided by its weight."""
    W, H = factors(31, 40, 3, dtype)
    X = (W @ H if exact else entries((31, 40), dtype, 0.3)).astype(dtype)
    observed, wanted = _outer(X.shape), DenseMatrix.of(X.astype(np.float64))
    data = weigh(open_data(LAYOUTS[layout](X)), observed)
    assert shares_curvature(data)
    assert not shares_curvature(weigh(data, HeldOut(0.2)))
    u, v, tolerance = observed.rows, observed.columns, 1e-11 if dtype == np.float64 else 2e-5
    omega, weights = LOSS_SETS["2"], np.array([0.7])
    expected = wanted.sweep(W.astype(float), H.astype(float), Ask(omega, weights, observed=observed))
    got = data.sweep(W, H, Ask(omega, weights))
    for name in ("N", "P"):
        np.testing.assert_allclose(getattr(got, name), getattr(expected, name), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(got.losses, expected.losses, rtol=tolerance, atol=1e-9)
    bent = data.sweep(W, H, Ask(omega, weights, curvature=weights))
    assert bent.Q is None
    np.testing.assert_allclose(bent.N * v, expected.N, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(bent.gram, 0.7 * (W.T * u) @ W, rtol=tolerance)


def test_a_held_out_mask_is_the_same_everywhere():
    """For X and its transpose, in blocks of rows and tiles of columns."""
    mask = HeldOut(0.1, 4).bind((400, 300))
    whole = mask.tile(slice(0, 300))
    np.testing.assert_array_equal(mask.T.tile(slice(0, 400)).T, whole)
    np.testing.assert_array_equal(HeldOut(0.1, 4).bind((300, 400)).tile(slice(0, 400)).T, whole)
    np.testing.assert_array_equal(mask.within(slice(50, 90)).tile(slice(20, 30)), whole[50:90, 20:30])
    np.testing.assert_array_equal(mask.others.tile(slice(0, 300)), 1.0 - whole)
    rows, columns = np.nonzero(whole)
    assert mask.at(rows, columns).all()
    other = HeldOut(0.1, 5).bind((400, 300)).tile(slice(0, 300))
    assert 0.1 < np.mean(other != whole) < 0.3


@pytest.mark.parametrize("shape", [(400, 300), (23, 31), (1000, 12)])
@pytest.mark.parametrize("fraction", [0.5, 0.2, 0.1, 0.05])
def test_every_row_and_column_loses_its_part(shape, fraction):
    lost = 1.0 - HeldOut(fraction, 3).bind(shape).tile(slice(0, shape[1]))
    for axis, count in enumerate(shape):
        sums = lost.sum(axis)
        assert sums.max() - sums.min() <= 1
        assert abs(sums.mean() / count - fraction) <= 0.7 / min(shape)


def test_equal_rows_and_equal_columns_lose_the_same():
    rows, columns = np.array([0, 1, 0, 3, 1, 5]), np.array([0, 1, 1, 3])
    lost = HeldOut(0.25, 2).bind((6, 4), (rows, columns)).tile(slice(0, 4))
    np.testing.assert_array_equal(lost, lost[rows])
    np.testing.assert_array_equal(lost, lost[:, columns])
    assert 0 < lost.sum() < lost.size


@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_array, np.asfortranarray])
def test_what_is_held_out_does_not_depend_on_the_layout(form):
    X = entries((41, 53), np.float64, 0.5)
    plain, other = (weigh(open_data(given), HeldOut(0.2, 3)) for given in (X, form(X)))
    assert (plain.count, plain.zeros) == (other.count, other.zeros)
    assert plain.mean == pytest.approx(other.mean, rel=1e-14)
    model = BetaNMF(3, max_iter=20, tol=0, init="random", random_state=0)
    fits = [model.fit(given, entry_weight=HeldOut(0.2, 3)).components_ for given in (X, form(X))]
    np.testing.assert_allclose(*fits, rtol=1e-6, atol=1e-9)


def test_the_classes_never_change():
    """Fits that were held out before must be held out alike by later versions."""
    mask = HeldOut(0.25, 12).bind((4, 8))
    assert ["".join(str(int(x)) for x in row) for row in mask.tile(slice(0, 8))] == MASK


MASK = ["11011101", "01110111", "10111011", "11101110"]


@pytest.mark.parametrize("backend", ["numpy", "native", "torch", "torch sparse", "torch streamed", "dask"])
@pytest.mark.parametrize("layout", ["C", "csr32"])
def test_losses_of_what_is_held_out(backend, layout):
    row = BACKENDS[backend]
    if row.missing or layout not in row.layouts:
        pytest.skip(row.missing or "no such layout")
    X, (W, H) = entries((41, 53), np.float64, 0.5), factors(41, 53, 4, np.float64)
    omega = LOSS_SETS["0 1 2"]
    data = weigh(row.open(LAYOUTS[layout](X)), HeldOut(0.2, 3))
    mask = HeldOut(0.2, 3).bind(X.shape).tile(slice(0, 53)) == 0
    assert data.count == X.size - mask.sum()
    floor = 2.2e-16 * data.mean
    terms = np.stack([loss.terms(np.where(X == 0, floor, X) if loss.beta == 0 else X, W @ H) for loss in omega])
    np.testing.assert_allclose(held_out_losses(data, W, H, omega), (terms * mask).sum((1, 2)), rtol=1e-9)
    with pytest.raises(ValueError, match="No entries of X are held out"):
        held_out_losses(weigh(row.open(LAYOUTS[layout](X)), _outer(X.shape)), W, H, omega)


@pytest.mark.parametrize("backend", ["numpy", "native", "torch", "torch streamed", "dask"])
def test_starts_see_no_gap(backend):
    row = BACKENDS[backend]
    if row.missing:
        pytest.skip(row.missing)
    X = entries((20, 12), np.float64, 0.0) + 0.5
    gaps = X.copy()
    gaps[3], gaps[:, 5], gaps[7, 7] = np.nan, np.nan, np.nan
    data = weigh(row.open(gaps), None)
    filled = np.stack([data.starts.column(j) for j in range(12)], axis=1)
    seen = np.isfinite(gaps)
    np.testing.assert_allclose(filled[seen], X[seen])
    assert filled[~seen].min() > 0.3
    np.testing.assert_allclose(data.starts.squared_norms(), np.square(filled).sum(0))
    B = np.random.default_rng(0).random((12, 2))
    np.testing.assert_allclose(data.starts.dot(B), filled @ B)
    np.testing.assert_allclose(data.T.starts.dot(X[:, :2]), filled.T @ X[:, :2])
    assert (data.count, data.zeros) == (seen.sum(), 0)


@pytest.mark.parametrize("kind", ["stored", "held out", "both"])
def test_starts_see_no_gap_in_sparse_x(kind):
    """Missing entries that are not stored hold row mean times column mean over mean; held-out zeros are zeros."""
    X = sp.csr_array(entries((20, 12), np.float64, 0.5))
    observed = {"stored": Stored.of(X), "held out": HeldOut(0.25, 1).bind(X.shape)}
    observed["both"] = product(observed["stored"], HeldOut(0.25, 1).bind(X.shape))
    data, dense = weigh(open_data(X), observed[kind]), weigh(DenseMatrix.of(X.toarray()), observed[kind])
    wanted = dense.tile(slice(0, 12))
    if kind == "held out":
        wanted = np.where(observed[kind].tile(slice(0, 12)) > 0, X.toarray(), 0.0)
    filled = np.stack([data.starts.column(j) for j in range(12)], axis=1)
    np.testing.assert_allclose(filled, wanted, atol=1e-12)
    np.testing.assert_allclose(data.starts.squared_norms(), np.square(filled).sum(0))
    B = np.random.default_rng(0).random((12, 2))
    np.testing.assert_allclose(data.starts.dot(B), filled @ B)
    np.testing.assert_allclose(data.T.starts.dot(filled[:, :3]), filled.T @ filled[:, :3])


def test_the_digest_tells_weights_apart():
    X = entries((20, 12), np.float64, 0.2)
    u = np.arange(1.0, 21.0)
    data = open_data(X)
    digests = [
        weigh(data, observed).digest()
        for observed in (None, Outer(u, np.ones(12)), Entries(X + 1), HeldOut(0.1, 0), HeldOut(0.1, 1), HeldOut(0.2, 0))
    ]
    assert len(set(digests)) == len(digests)
    gaps, flipped = (np.where(X > 1, gap, X) for gap in (np.nan, np.copysign(np.nan, -1)))
    assert weigh(open_data(gaps), None).digest() == weigh(open_data(flipped), None).digest() != digests[0]


def test_the_first_zero_is_an_observed_one():
    X = entries((20, 12), np.float64, 0.0) + 0.5
    X[2, 3] = X[4, 1] = X[4, 5] = 0.0
    M = np.ones(X.shape)
    M[2, 3] = M[4, 1] = 0.0
    data = weigh(open_data(X), Entries(M))
    assert (first_zero(data), data.zeros, first_zero(data.T)) == ((4, 5), 1, (5, 4))


@pytest.mark.parametrize("layout", ["C", "csr32", "stored"])
def test_threads_change_no_bit_under_weights(layout):
    threads = pytest.importorskip("drnmf._core", reason="the compiled extension was not built")
    X, (W, H) = entries((700, 900), np.float32, 0.8), factors(700, 900, 5, np.float32)
    given = sp.csr_array(X) if layout != "C" else np.where(X > 2.0, np.nan, X)
    observed = product(_outer(X.shape), HeldOut(0.1).bind(X.shape))
    if layout == "stored":
        observed = product(observed, Stored.of(given))
    data, ask = weigh(open_data(given, "native"), observed), Ask(LOSS_SETS["1 2"], curvature=np.ones(2))
    before, found = threads.get_num_threads(), []
    try:
        for count in (1, 2):
            threads.set_num_threads(count)
            found.append(data.sweep(W, H, ask))
    finally:
        threads.set_num_threads(before)
    for name in ("losses", "N", "P", "Q"):
        np.testing.assert_array_equal(getattr(found[0], name), getattr(found[1], name))
