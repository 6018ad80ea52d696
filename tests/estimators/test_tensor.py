"""CP: tensors by the loop, losses, gaps and policies of matrices."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import drnmf
from drnmf import CP, DRNMF, BetaNMF, Solver
from drnmf.algorithms.updates import RULES
from drnmf.backends import tensor

SHAPE = (12, 9, 8)


def planted(seed=0, rank=3, shape=SHAPE, scale=3.0):
    rng = np.random.default_rng(seed)
    factors = [rng.gamma(0.5, scale, (size, rank)) for size in shape]
    return factors, np.einsum("ir,jr,kr->ijk", *factors), rng


def as_coordinates(X):
    where = np.nonzero(X)
    return SimpleNamespace(coords=where, data=X[where], shape=X.shape)


def cosines(found, truth):
    a, b = (F / np.linalg.norm(F, axis=0) for F in (found, truth))
    rows, columns = linear_sum_assignment(-(a.T @ b))
    return (a.T @ b)[rows, columns]


def transcription(X, factors, betas, coefficients, iterations):
    """Multiplicative steps under a weighted sum of losses, mode by mode, written out; the losses of every iteration."""
    letters, F, rows = "abc", [G.copy() for G in factors], []

    def losses():
        V = np.einsum("ar,br,cr->abc", *F)
        return [
            float(
                {
                    0: lambda: X / V - np.log(X / V) - 1,
                    1: lambda: X * np.log(X / V) - X + V,
                    2: lambda: (X - V) ** 2 / 2,
                }[beta]().sum()
            )
            for beta in betas
        ]

    rows.append(losses())
    for _ in range(iterations):
        for mode in (1, 2, 0):
            V = np.einsum("ar,br,cr->abc", *F)
            others = [k for k in range(3) if k != mode]
            names = ",".join(f"{letters[k]}r" for k in others)
            N = P = 0.0
            for beta, c in zip(betas, coefficients, strict=True):
                for sign, Z in (("N", X * V ** (beta - 2.0)), ("P", V ** (beta - 1.0))):
                    part = np.einsum(f"abc,{names}->{letters[mode]}r", Z, *(F[k] for k in others)) * c
                    N, P = (N + part, P) if sign == "N" else (N, P + part)
            F[mode] = F[mode] * (N / P)
        rows.append(losses())
    return np.array(rows)


@pytest.mark.parametrize("betas", [(0,), (1,), (2,), (0, 1, 2)], ids=str)
def test_the_trace_of_multiplicative_steps_is_that_of_a_transcription(betas):
    _, V, rng = planted(1)
    X = V * rng.gamma(4.0, 0.25, V.shape) + 0.1
    start = [rng.uniform(0.5, 1.5, (size, 3)) for size in SHAPE]
    weights, references = np.array([0.5, 0.3, 0.2])[: len(betas)], np.array([2.0, 3.0, 7.0])[: len(betas)]
    solver = Solver(update="mu", references=references if len(betas) > 1 else None)
    how = {"init": "custom", "max_iter": 25, "tol": 0, "weights": weights / weights.sum()}
    model = CP(3, betas=betas, solver=solver, **how).fit(X, factors=start)
    expected = transcription(X, start, betas, weights / references, 25)
    np.testing.assert_allclose(model.trace_.losses, expected, rtol=1e-12)


@pytest.mark.parametrize(("betas", "noise"), [(1, "poisson"), (0, "gamma"), (2, "gaussian"), ((1, 2), "poisson")])
def test_planted_factors_are_found_with_gaps(betas, noise):
    factors, V, rng = planted(2, shape=(20, 15, 12))
    X = {
        "poisson": lambda: rng.poisson(V).astype(float),
        "gamma": lambda: V * rng.gamma(25.0, 0.04, V.shape),
        "gaussian": lambda: np.maximum(V + 0.1 * V.mean() * rng.normal(size=V.shape), 0.0),
    }[noise]()
    X[rng.random(X.shape) < 0.3] = np.nan
    model = CP(3, betas=betas, random_state=0, n_init=3).fit(X)
    for found, truth in zip(model.factors_, factors, strict=True):
        assert cosines(found, truth).min() > 0.95
    model_values = model.inverse_transform(model.factors_[0])
    np.testing.assert_allclose(model_values, np.einsum("ir,jr,kr->ijk", *model.factors_), rtol=1e-12)
    for factor in model.factors_[1:]:
        np.testing.assert_allclose(factor.sum(axis=0), 1.0, rtol=1e-12)
    assert np.all(np.diff(model.factors_[0].sum(axis=0)) <= 0)


@pytest.mark.parametrize("update", sorted(RULES))
@pytest.mark.parametrize("betas", [(0,), (1.5,), (2,), (0, 2)], ids=str)
def test_no_step_of_any_rule_raises_the_objective(betas, update):
    if update == "hals" and betas != (2,):
        pytest.skip("hals is for beta = 2 alone")
    X = np.random.default_rng(12).poisson(planted(12)[1]) + 0.5
    weights, references = np.full(len(betas), 1.0 / len(betas)), None if len(betas) == 1 else [30.0, 900.0]
    how = {"max_iter": 40, "tol": 0, "random_state": 0, "weights": weights}
    for Y in (X, np.where(np.random.default_rng(0).random(SHAPE) < 0.3, np.nan, X)):
        model = CP(3, betas=betas, solver=Solver(update=update, references=references), **how).fit(Y)
        objective = model.trace_.scaled_losses @ weights
        assert np.all(np.diff(objective) <= 1e-9 * objective[0])


@pytest.mark.parametrize("betas", [1, 2])
def test_coordinates_are_the_same_tensor(betas):
    X = np.random.default_rng(3).poisson(planted(3, scale=1.5)[1]).astype(float)
    dense, sparse = (CP(2, betas=betas, random_state=0, max_iter=10, tol=0).fit(Y) for Y in (X, as_coordinates(X)))
    np.testing.assert_allclose(sparse.losses_, dense.losses_, rtol=1e-6)
    missing = np.where(X > 0, X, np.nan)
    gaps = CP(2, betas=betas, random_state=0, max_iter=10, tol=0).fit(missing)
    stored = CP(2, betas=betas, unstored="missing", random_state=0, max_iter=10, tol=0).fit(as_coordinates(X))
    np.testing.assert_allclose(stored.losses_, gaps.losses_, rtol=1e-6)


def test_a_slice_that_was_not_observed_is_as_if_removed():
    X = planted(4)[1] + 0.1
    start = [np.random.default_rng(0).uniform(0.5, 1.5, (size, 2)) for size in SHAPE]
    hidden = X.copy()
    hidden[:, 4] = np.nan
    how = {"betas": 1, "init": "custom", "max_iter": 30, "tol": 0}
    whole = CP(2, **how).fit(hidden, factors=start)
    kept = np.delete(np.arange(9), 4)
    part = CP(2, **how).fit(X[:, kept], factors=[start[0], start[1][kept], start[2]])
    np.testing.assert_allclose(whole.losses_, part.losses_, rtol=1e-9)
    np.testing.assert_allclose(cosines(whole.factors_[2], part.factors_[2]), 1.0, rtol=1e-7)
    assert np.isfinite(whole.factors_[1]).all()


def test_two_modes_are_a_matrix_to_the_last_bit():
    X = np.random.default_rng(5).gamma(2.0, size=(15, 11))
    cube, matrix = CP(3, betas=1, random_state=0).fit(X), BetaNMF(3, beta=1, random_state=0).fit(X)
    np.testing.assert_array_equal(cube.trace_.losses, matrix.trace_.losses)
    both, robust = CP(3, betas=(0, 1), random_state=0).fit(X), DRNMF(3, betas=(0, 1), random_state=0).fit(X)
    np.testing.assert_array_equal(both.trace_.scaled_losses, robust.trace_.scaled_losses)


def test_results_do_not_depend_on_the_unit_nor_on_the_order_of_modes():
    X = planted(6)[1] + 0.05
    one, other = (CP(2, betas=1, random_state=0, max_iter=50, tol=0).fit(Y) for Y in (X, X * 4.0**20))
    for a, b in zip(one.factors_[1:], other.factors_[1:], strict=True):
        np.testing.assert_array_equal(a, b)
    start = [np.random.default_rng(1).uniform(0.5, 1.5, (size, 2)) for size in SHAPE]
    how = {"betas": 2, "init": "custom"}
    straight = CP(2, **how).fit(X, factors=start)
    turned = CP(2, **how).fit(X.transpose(2, 1, 0), factors=start[::-1])
    np.testing.assert_allclose(straight.losses_, turned.losses_, rtol=1e-3)


def test_new_slices_of_the_first_mode():
    X = planted(7)[1]
    model = CP(3, betas=1, random_state=0).fit(X)
    found = model.transform(X[:4])
    assert found.shape == (4, 3)
    np.testing.assert_allclose(found, model.factors_[0][:4], atol=2e-3 * model.factors_[0].max())
    with pytest.raises(ValueError, match="all modes after the first"):
        model.transform(X[:, :3])


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_slices_count_by_their_weights(sparse):
    X = np.random.default_rng(13).poisson(planted(13, scale=1.5)[1]).astype(float)
    X[-1] = 7.0
    start = [np.random.default_rng(0).uniform(0.5, 1.5, (size, 2)) for size in SHAPE]
    how = {"betas": 1, "init": "custom", "max_iter": 30, "tol": 0}
    twice, weights = np.concatenate([X[:1], X[:-1]]), np.r_[2.0, np.ones(10), 0.0]
    given = as_coordinates if sparse else np.asarray
    weighted = CP(2, **how).fit(given(X), factors=start, sample_weight=weights)
    whole = CP(2, **how).fit(given(twice), factors=[np.concatenate([start[0][:1], start[0][:-1]]), *start[1:]])
    np.testing.assert_allclose(weighted.losses_, whole.losses_, rtol=1e-9)
    np.testing.assert_allclose(weighted.factors_[1], whole.factors_[1], rtol=1e-6)
    np.testing.assert_allclose(weighted.shares_.sum(axis=1), 1.0, rtol=1e-12)
    assert weighted.factors_[0][-1].sum() == pytest.approx(7.0 * 9 * 8, rel=1e-6)  # found under the factors of others


def test_weighted_sums_and_the_maximum():
    X = np.random.default_rng(8).poisson(planted(8)[1]) + 0.5
    weighted = CP(3, betas=(0, 2), weights=(0.9, 0.1), random_state=0).fit(X)
    robust = CP(3, betas=(0, 2), random_state=0).fit(X)
    assert robust.scaled_losses_.max() <= weighted.scaled_losses_.max() + 1e-9
    assert np.ptp(robust.scaled_losses_) < 0.05


def test_labels_of_xarray_come_back():
    xarray = pytest.importorskip("xarray")
    X = xarray.DataArray(planted(9)[1], dims=("day", "site", "kind"), coords={"day": np.arange(12) + 100})
    A = CP(2, betas=2, random_state=0).fit_transform(X)
    assert A.dims == ("day", "component")
    assert A.coords["day"].values.tolist() == list(range(100, 112))


def test_saved_and_loaded(tmp_path):
    X = planted(10)[1]
    model = CP(2, betas=1, random_state=0, max_iter=20, tol=0).fit(X)
    model.save(tmp_path / "model.npz")
    again = drnmf.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


@pytest.mark.parametrize("betas", [1, 2])
def test_memory_beside_X_is_that_of_the_factors_of_the_unfolding(betas, monkeypatch):
    """A few times the product of the other modes, whatever is asked for; no curvature of all columns."""
    monkeypatch.setattr(tensor, "PIECE_NUMBERS", 1 << 15)
    X, rank = np.random.default_rng(11).gamma(2.0, size=(100, 80, 50)), 20
    CP(3, betas=betas, max_iter=2, tol=0, random_state=0).fit(X[:10, :5, :5])  # imports
    tracemalloc.start()
    CP(rank, betas=betas, max_iter=8, tol=0, random_state=0, solver=Solver(update="newton")).fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    product = X.itemsize * rank * 80 * 50
    assert peak < 4 * product < 0.4 * product * (rank + 1) / 2


@pytest.mark.parametrize("X", [np.ones(3), np.ones((0, 2, 2))], ids=["one mode", "empty"])
def test_what_is_no_tensor_is_refused(X):
    with pytest.raises(ValueError, match="modes"):
        CP(2).fit(X)


@pytest.mark.parametrize("shape", [(4, 3, 5), (5, 4, 3), (3, 5, 4, 2)])
def test_a_refused_entry_is_named_by_its_indices_in_the_tensor(shape):
    """Whichever mode makes the rows of the unfolding that is checked, and whatever is given next to X."""
    place = tuple(size - 1 for size in shape)
    good, bad = np.ones(shape), np.ones(shape)
    bad[place] = -1.0
    named = rf"\[{', '.join(map(str, place))}\] = -1"
    sparse = as_coordinates(bad)
    for given in ({"X": bad}, {"X": sparse}, {"X": good, "entry_weight": bad}, {"X": good, "uncertainty": bad}):
        name = "X" if len(given) == 1 else [*given][1]
        with pytest.raises(ValueError, match=name + named):
            CP(2, random_state=0).fit(**given)
    model = CP(2, random_state=0, max_iter=3, tol=0).fit(good)
    with pytest.raises(ValueError, match="X" + named):
        model.transform(bad)
    with pytest.raises(ValueError, match=rf"first is X\[{', '.join(map(str, place))}\]"):
        CP(2, betas=0).fit(np.maximum(bad, 0.0))


def test_a_stopped_fit_goes_on_as_if_it_had_not(tmp_path):
    rng = np.random.default_rng(0)
    X, options = rng.gamma(1.0, size=(8, 7, 6)) + 0.1, {"betas": (1,), "max_iter": 40, "tol": 0, "random_state": 0}

    def stop(progress):
        if progress.iteration == 20:
            raise KeyboardInterrupt

    kept = Solver(checkpoint=tmp_path, checkpoint_every=0, callback=stop)
    with pytest.raises(KeyboardInterrupt):
        CP(2, solver=kept, **options).fit(X)
    whole, resumed = CP(2, **options).fit(X), CP(2, solver=Solver(checkpoint=tmp_path), **options).fit(X)
    for ours, theirs in zip(resumed.factors_, whole.factors_, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_mask_hides_entries_and_every_method_takes_slices():
    _, X, rng = planted(scale=1.0)
    X, hidden = X + 0.1, rng.random(SHAPE) < 0.2
    model, other = (CP(3, betas=[1], max_iter=20, tol=0, random_state=0) for _ in range(2))
    model.fit(np.ma.array(np.where(hidden, 1e6, X), mask=hidden))
    other.fit(np.where(hidden, np.nan, X))
    assert np.array_equal(model.components_, other.components_)
    flat = X.reshape(len(X), -1)
    assert np.isclose(model.score(X), model.set_params(shape=SHAPE).score(flat))
    assert np.array_equal(model.assign(X), model.assign(flat))
    with pytest.raises(ValueError, match="all modes after the first must be"):
        model.score(X[:, 1:])
