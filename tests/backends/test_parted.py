"""Losses of parts and of rows on every backend: the sweeps of the host, and fits that end where its fits end."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf import DRNMF, BetaNMF, Huber, MultiObjectiveNMF, Rowwise, beta_divergence
from drnmf.backends.base import Ask, in_unit, losses_of
from drnmf.backends.observed import Entries, Ones, Outer, weigh
from drnmf.backends.open import open_blocks, open_data, open_tensor
from drnmf.backends.parted import Parted, Piece, row_losses
from drnmf.backends.tiles import sample_residuals
from drnmf.losses.beta import FROBENIUS, KL, Beta
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.losses.part import Part
from drnmf.problem.parts import groups_of, objective_of_part, open_part, parted, parts_alone, stacked
from drnmf.problem.problem import Problem
from drnmf.problem.receive import Received

TORCH = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
BACKENDS = ["dask", pytest.param("torch", marks=TORCH)]
M, N, R = 31, 12, 3
RNG = np.random.default_rng(0)
X = RNG.gamma(1.0, size=(M, R)) @ RNG.gamma(1.0, size=(R, N)) + 0.1 * RNG.uniform(size=(M, N))
W, H = RNG.uniform(0.5, 1.0, (M, R)), RNG.uniform(0.5, 1.0, (R, N))
GAPS = np.where(RNG.uniform(size=X.shape) < 0.1, np.nan, X)
FORMS = {
    "dense": (X, None),
    "sparse": (sp.csr_array(np.where(X < 1.0, 0.0, X)), None),
    "gaps": (GAPS, Ones((M, N))),
    "row weights": (X, Outer(RNG.uniform(0.5, 2.0, M), np.ones(N))),
    "entry weights": (X, Entries(RNG.uniform(0.5, 2.0, (M, N)))),
}
ROWS = (np.arange(14), np.arange(14, 31, 2), np.arange(15, 31, 2))  # the first block has two of them alone
COLUMNS = (np.arange(5), np.arange(5, 12))
SETS = {
    "roots": tuple(Part(FROBENIUS, k, "part", 0.5, 40.0, root=True) for k in range(2)),
    "KL and roots": (Part(KL, 1, "b", 1.0, 30.0), Part(FROBENIUS, 0, "a", 0.5, 40.0, root=True), KL),
    "rows": (FROBENIUS, Rowwise(2, "sqrt", 1.0), Rowwise(2, "log", 1.0)),
    "rows of parts": (Part(Rowwise(1, "log", 1.0), 0, "a", 0.1, 9.0), Huber(0.3)),
}


def opened(backend, form):
    entries, observed = FORMS[form]
    if backend == "dask":
        import dask.array as da

        given = da.from_array(entries, chunks=((10, 4, 17), (N,)), asarray=False)
        data = open_blocks(given)
    elif backend == "torch":
        given, data = entries, open_tensor(entries, "cpu", "float32", False)
    else:
        given, data = entries, open_data(entries)
    return in_unit(weigh(data, observed)), Received(given, observed)


def taken_apart(backend, form, places, across):
    data, given = opened(backend, form)
    return Parted(data, tuple(Piece(at, open_part(data, given, at, across)[0], across) for at in places))


def here(data, part):
    """N, P, Q or gram of a sweep as NumPy's."""
    return None if part is None else np.asarray(part if isinstance(part, np.ndarray) else part.cpu())


def swept(data, W, H, ask):
    A, B = data.T.space.put(np.ascontiguousarray(W.T)), data.space.put(np.ascontiguousarray(H))
    sweep = data.space.read(data.sweep(A.T, B, ask))[0]
    if not data.space.whole:  # the side of W, whose parts stay with its rows
        names = ("N", "P", "gram")
        got = [data.space.get(data.space.map(_flat, B, getattr(sweep, name))) for name in names]
        return replace(sweep, N=got[0], P=got[1], Q=None, gram=got[2])
    return replace(
        sweep, N=here(data, sweep.N), P=here(data, sweep.P), Q=here(data, sweep.Q), gram=here(data, sweep.gram)
    )


def _flat(B, part):
    """A part with its rows of W last; what all rows share is repeated for each."""
    if part is None:
        return np.zeros((0, B.shape[1]))
    part = np.asarray(part)
    return (
        part.reshape(-1, B.shape[1])
        if part.shape[-1] == B.shape[1] and part.ndim == 3
        else np.repeat(part.reshape(-1, 1), B.shape[1], 1)
    )


def slope(sweep, H):
    """The gradient, whichever way its positive part came."""
    N = sweep.N.reshape(-1, *H.shape)
    if sweep.P.size:
        return sweep.P.reshape(N.shape) - N
    gram = sweep.gram if sweep.gram.shape[-1] == H.shape[0] else sweep.gram[:, 0].reshape(-1, H.shape[0], H.shape[0])
    return gram.reshape(-1, H.shape[0], H.shape[0]) @ H - N


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("across", [False, True], ids=["groups", "tables"])
@pytest.mark.parametrize("name", SETS)
def test_sweeps_are_those_of_the_host(backend, form, across, name):
    omega, places = SETS[name], COLUMNS if across else ROWS
    data, local = (taken_apart(where, form, places, across) for where in (backend, "host"))
    c = np.arange(1.0, len(omega) + 1)
    for side, own, left, right in ((data, local, W, H), (data.T, local.T, H.T, W.T)):
        shared = Ask(omega, c, True, c)  # one curvature for all columns, where the backend has it
        for ask in (Ask(omega), Ask(omega, c), Ask(omega, c, True, c, sized=True), shared):
            found, expected = (swept(one, left, right, ask) for one in (side, own))
            assert np.allclose(found.losses, expected.losses, rtol=1e-10)
            if ask is shared and (found.P.size > 0) != (expected.P.size > 0):
                assert form in ("gaps", "row weights", "entry weights") or name == "rows"
                continue
            assert np.allclose(slope(found, right), slope(expected, right), rtol=1e-9, atol=1e-9)
            if found.Q is not None:
                assert np.allclose(found.Q, expected.Q, rtol=1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("form", ["dense", "row weights"])
def test_what_is_said_of_rows_is_what_the_host_says(backend, form):
    data, local = (taken_apart(where, form, ROWS, False) for where in (backend, "host"))
    assert np.allclose(row_losses(data, W, H, KL), row_losses(local, W, H, KL), rtol=1e-10)
    omega, c = SETS["KL and roots"] + SETS["rows"], np.arange(1.0, 7.0)
    found, expected = (one.row_slopes(W, H, omega, c) for one in (data, local))
    assert list(found) == list(expected)
    assert all(np.allclose(found[base], expected[base], rtol=1e-9) for base in expected)
    assert np.allclose(losses_of(data, W, H, omega), losses_of(local, W, H, omega), rtol=1e-10)
    residuals = [np.sort(sample_residuals(opened(where, form)[0], W, H)) for where in (backend, "host")]
    assert np.allclose(*residuals, rtol=1e-9)


def as_given(backend, entries):
    """A matrix of a kind that is fitted on the backend itself: a strided tensor of float64 on the host would not be."""
    if backend == "dask":
        import dask.array as da

        return da.from_array(entries, chunks=((10, 4, 17), (entries.shape[1],)))
    import torch

    return torch.from_numpy(entries).to_sparse_csr()


FITS = {
    "groups": ({"betas": (1, 2)}, {"groups": np.repeat(["a", "b"], [14, 17])}),
    "rows": ({"betas": (Rowwise(2, "sqrt"), Rowwise(1, "log"))}, {}),
    "tables": ({"betas": {"counts": 1, "levels": 2}}, {}),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:.*beta")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", FITS)
def test_fits_end_where_those_of_the_host_end(backend, name):
    settings, given = FITS[name]
    model = MultiObjectiveNMF(2, init="random", solver="mu", tol=0, max_iter=6, random_state=0, **settings)
    tables = {"counts": 10.0 * X[:, :8], "levels": X[:, 8:] / 1000}
    there = {key: as_given(backend, table) for key, table in tables.items()}
    expected = model.fit(tables if name == "tables" else X, **given).losses_.copy()
    W = model.fit_transform(there if name == "tables" else as_given(backend, X), **given)
    assert not isinstance(W, np.ndarray)
    assert np.allclose(model.losses_, expected, rtol=1e-8)
    if name == "tables":
        some = {key: {"levels": every["levels"]} for key, every in {"there": there, "here": tables}.items()}
        assert np.allclose(np.asarray(model.transform(some["there"])), model.transform(some["here"]), rtol=1e-6)
    elif name == "rows":
        assert model.row_weights_.shape == (M,)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_groups_of_a_torch_tensor_on_the_host_are_those_of_an_array(backend, monkeypatch):
    torch = pytest.importorskip("torch")
    if backend == "native":
        pytest.importorskip("drnmf._core")
    monkeypatch.setenv("DRNMF_BACKEND", backend)
    X, labels = np.random.default_rng(0).gamma(1.0, size=(24, 9)), np.repeat([0, 1, 2], 8)
    one, other = (DRNMF(2, betas=(1,), max_iter=20, random_state=0).fit(Y, groups=labels) for Y in (X, torch.tensor(X)))
    np.testing.assert_allclose(np.asarray(other.components_), one.components_, rtol=1e-12)


@pytest.mark.parametrize("betas", [(1,), (2,)], ids=str)
def test_the_largest_regret_on_dask_is_never_above_the_plain_fits(betas):
    groups, D = np.repeat(["a", "b"], [14, 17]), as_given("dask", X)
    fair = DRNMF(2, betas=betas, init="custom", max_iter=10).fit(D, W=W[:, :2], H=H[:2], groups=groups)
    plain = BetaNMF(2, beta=betas[0], init="custom", max_iter=10)
    V = np.asarray(plain.fit_transform(D, W=W[:, :2], H=H[:2])) @ plain.components_
    losses = [beta_divergence(X[g == groups], V[g == groups], betas[0]) for g in "ab"]
    regrets = [part.value(loss) for part, loss in zip(fair.omega_, losses, strict=True)]
    assert fair.scaled_losses_.max() <= max(regrets) * (1 + 1e-9)


def of_groups(dtype, order, backend, loss, labels):
    """X in groups as a fit has it, and a copy on NumPy in float64, whose groups are swept one after another."""
    entries = np.asarray(X, dtype, order=order)
    problem = Problem.opened(in_unit(open_data(entries, backend)), Received(entries)).asked(R, (loss,))
    division = groups_of(entries, labels)[1]
    division = stacked(problem, division)
    alone = parts_alone(problem, division)
    raw = parted(problem, division, alone)
    omega = tuple(objective_of_part(part, 0.1, 40.0 + k, "regret") for k, part in enumerate(raw.omega))
    return raw.under(omega, np.ones(len(omega)))


@pytest.mark.parametrize("labels", [np.repeat([0, 1, 2], [1, 20, 10]), RNG.integers(0, 4, M)], ids=["sorted", "mixed"])
@pytest.mark.parametrize("loss", [FROBENIUS, KL, Beta(0.0), Beta(1.5), NegativeBinomial(2.0)], ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_one_pass_over_all_groups_is_a_pass_over_each(labels, loss, dtype, order):
    """The compiled pass over parts against the oracle, with one row in a group, and rows in any order."""
    pytest.importorskip("drnmf._core")
    native, oracle = (
        of_groups(kind, order, backend, loss, labels) for kind, backend in ((dtype, "native"), ("float64", "numpy"))
    )
    assert native.data.stack is not None
    assert oracle.data.stack is None
    omega, c = native.omega, np.linspace(1.0, 2.0, len(native.omega))
    rtol = 1e-11 if dtype == "float64" else 2e-5
    for turned in (False, True):
        own, other = (one.data.T if turned else one.data for one in (native, oracle))
        left, right = (H.T, W.T) if turned else (W, H)
        some = np.ascontiguousarray(right, dtype)
        asks = [Ask(omega, None), Ask(omega), Ask(omega, c), Ask(omega, c, True, c), Ask(omega, "separate", True, c)]
        for ask in asks:
            assert own._one_pass(ask, own._alike(ask))
            found = own.sweep(np.ascontiguousarray(left.T, dtype).T, some, ask)
            expected = other.sweep(left, np.ascontiguousarray(right), replace(ask, omega=oracle.omega))
            for name in ("losses", "N", "P", "Q", "gram"):
                got, wanted = getattr(found, name), getattr(expected, name)
                assert (got is None) == (wanted is None)
                if wanted is not None:
                    assert got.shape == wanted.shape
                    assert np.allclose(got, wanted, rtol=rtol, atol=rtol * float(np.max(np.abs(wanted), initial=0.0)))


def test_threads_do_not_change_a_pass_over_groups():
    from threadpoolctl import threadpool_limits

    pytest.importorskip("drnmf._core")
    rng = np.random.default_rng(1)
    entries, labels = rng.gamma(1.0, size=(2000, 30)), rng.integers(0, 3, 2000)
    models = []
    for threads in (1, 3):
        with threadpool_limits(threads):
            models.append(DRNMF(3, betas=(1,), random_state=0, max_iter=20).fit(entries, groups=labels))
    assert np.array_equal(models[0].components_, models[1].components_)
    assert np.array_equal(models[0].losses_, models[1].losses_)
