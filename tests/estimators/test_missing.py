"""Missing entries, weights and uncertainties as users of the estimators see them."""

from __future__ import annotations

import logging
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import drnmf
from drnmf import DRNMF, BetaNMF, HeldOut, Interval, Solver
from drnmf.problem.weights import as_outer
from tests import flat

SHAPE, RANK = (12, 9), 3

CASES = {
    "IS": lambda **how: BetaNMF(RANK, beta=0, **how),
    "KL": lambda **how: BetaNMF(RANK, beta=1, **how),
    "Frobenius": lambda **how: BetaNMF(RANK, beta=2, **how),
    "mu": lambda **how: BetaNMF(RANK, beta=1.5, solver="mu", **how),
    "robust": lambda **how: DRNMF(RANK, betas=(1, 2), **how),
    "minimax": lambda **how: DRNMF(RANK, betas=(0, 1), solver=Solver(policy="minimax"), **how),
    "robust, references given": lambda **how: DRNMF(RANK, betas=(0, 1), solver=Solver(references=(20.0, 20.0)), **how),
    "interval": lambda **how: DRNMF(RANK, betas=Interval(0, 2), **how),
}


def matrix(seed: int, shape: tuple[int, int] = SHAPE) -> np.ndarray:
    rng = np.random.default_rng(seed)
    V = rng.gamma(1.0, 1.0, (shape[0], RANK)) @ rng.gamma(1.0, 1.0, (RANK, shape[1])) + 0.1
    return V * rng.gamma(5.0, 0.2, shape)


def start(seed: int, shape: tuple[int, int] = SHAPE) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed + 1000)
    return rng.uniform(0.1, 1.1, (shape[0], RANK)), rng.uniform(0.1, 1.1, (RANK, shape[1]))


def gappy(seed: int, fraction: float = 0.2) -> np.ndarray:
    X = matrix(seed)
    X[np.random.default_rng(seed + 2000).random(SHAPE) < fraction] = np.nan
    return X


@pytest.mark.parametrize("form", ["weights", "NaN", "rows and columns"])
@pytest.mark.parametrize("case", list(CASES))
@settings(max_examples=3, deadline=None, phases=[Phase.generate])
@given(st.integers(0, 99), st.sets(st.integers(0, 11), max_size=3), st.sets(st.integers(0, 8), min_size=1, max_size=2))
def test_masked_is_removed(case: str, form: str, seed: int, rows: set[int], columns: set[int]) -> None:
    X, (W, H) = matrix(seed), start(seed)
    kept = np.ix_([i for i in range(12) if i not in rows], [j for j in range(9) if j not in columns])
    M = np.zeros(SHAPE)
    M[kept] = 1.0
    how = {"init": "custom", "max_iter": 30, "tol": 0.0}
    whole, small = CASES[case](**how), CASES[case](**how)
    if form == "NaN":
        found = whole.fit_transform(np.where(M > 0, X, np.nan), W=W, H=H)
    elif form == "weights":
        found = whole.fit_transform(X, W=W, H=H, entry_weight=M)
    else:
        found = whole.fit_transform(X, W=W, H=H, entry_weight=M.max(axis=1, keepdims=True) * M.max(axis=0))
    expected = small.fit_transform(X[kept], W=W[kept[0][:, 0]], H=H[:, kept[1][0]])
    # exchange and improved references continue from rounded factors several times, where what is rounded grows
    rtol = 1e-7 if case in ("interval", "robust") else 1e-10
    np.testing.assert_allclose(whole.trace_.scaled_losses, small.trace_.scaled_losses, rtol=rtol)
    np.testing.assert_allclose(found[kept[0][:, 0]], expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(whole.components_[:, kept[1][0]], small.components_, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[sorted(rows)], np.tile(expected.mean(axis=0), (len(rows), 1)), rtol=1e-4)
    mean = small.components_.mean(axis=1)
    np.testing.assert_allclose(whole.components_[:, sorted(columns)], np.tile(mean[:, None], len(columns)), rtol=1e-4)
    assert f"{len(columns)} columns of X have no observed entry" in " ".join(whole.notes_)


@pytest.mark.parametrize("case", ["IS", "KL", "Frobenius", "mu"])
@settings(max_examples=3, deadline=None, phases=[Phase.generate])
@given(st.integers(0, 99), st.integers(0, 11))
def test_weight_two_is_the_row_twice(case: str, seed: int, row: int) -> None:
    X, (W, H) = matrix(seed), start(seed)
    weight, twice = np.ones((12, 1)), [*range(12), row]
    weight[row] = 2.0
    how = {"init": "custom", "max_iter": 30, "tol": 0.0}
    weighted = CASES[case](**how).fit(X, W=W, H=H, entry_weight=weight)
    doubled = CASES[case](**how).fit(X[twice], W=W[twice], H=H)
    np.testing.assert_allclose(weighted.trace_.scaled_losses, doubled.trace_.scaled_losses, rtol=1e-9)


@pytest.mark.parametrize("ones", [np.ones((12, 1)), np.ones(SHAPE, bool)])
def test_ones_are_no_weights_bit_for_bit(ones: np.ndarray) -> None:
    X = matrix(0)
    plain = DRNMF(RANK, max_iter=40, tol=0, random_state=0).fit(X)
    weighted = DRNMF(RANK, max_iter=40, tol=0, random_state=0).fit(X, entry_weight=ones)
    assert np.array_equal(plain.components_, weighted.components_)
    assert np.array_equal(plain.transform(X), weighted.transform(X, entry_weight=ones))
    assert plain.score(X) == weighted.score(X, entry_weight=ones)
    assert plain.notes_ == weighted.notes_


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 999))
def test_products_of_rows_and_columns_are_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = rng.gamma(1.0, 1.0, 6) * (rng.random(6) < 0.8), rng.gamma(1.0, 1.0, 5) * (rng.random(5) < 0.8)
    M = rows[:, None] * columns
    found = as_outer(M)
    assert found is not None
    np.testing.assert_allclose(found[0][:, None] * found[1], M, rtol=1e-14)
    if M.max() > 0:
        i, j = np.unravel_index(int(M.argmax()), M.shape)
        other = M.copy()
        other[i - 1, j - 1] += 0.1 * M.max()
        assert as_outer(other) is None or np.count_nonzero(rows) == 1 or np.count_nonzero(columns) == 1


@pytest.mark.parametrize("missing", [0.05, 0.3])
def test_planted_factors_impute_what_is_missing(missing: float) -> None:
    rng = np.random.default_rng(5)
    truth = rng.gamma(0.7, 1.0, (200, 5)) @ rng.gamma(0.7, 4.0, (5, 80))
    counts = rng.poisson(truth).astype(float)
    hidden = rng.random(counts.shape) < missing
    how = {"beta": 1, "random_state": 0, "n_init": 2, "max_iter": 300}

    def error(X: np.ndarray) -> float:
        model = BetaNMF(5, **how)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            V = model.inverse_transform(model.fit_transform(X))
        return float(np.linalg.norm((V - counts)[hidden]) / np.linalg.norm(counts[hidden]))

    assert error(np.where(hidden, np.nan, counts)) <= 1.15 * error(counts)


def test_how_many_are_missing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    X = gappy(1)
    with caplog.at_level(logging.INFO, "drnmf"):
        model = BetaNMF(RANK, max_iter=20, tol=0, random_state=0).fit(X)
    line = f"{int(np.isnan(X).sum())} of 108 entries of X"
    assert model.notes_[0].startswith(line)
    assert sum(record.getMessage().startswith(line) for record in caplog.records) == 1


@pytest.mark.parametrize(("init", "dtype"), [("random", np.float64), ("spa", np.float32), ("nndsvdar", np.float64)])
def test_every_start_and_method_takes_gaps(init: str, dtype: type) -> None:
    X = gappy(2).astype(dtype)
    X[4], X[:, 2] = np.nan, np.nan
    model = DRNMF(RANK, init=init, max_iter=30, tol=0, random_state=0)
    W = model.fit_transform(X)
    again = model.transform(X)
    for found in (W, again, model.components_, model.inverse_transform(W), model.losses_, model.trace_.scaled_losses):
        assert np.isfinite(found).all()
    np.testing.assert_allclose(again[4], model.mean_row_, rtol=1e-6)
    assert np.isfinite(model.score(X))
    assert np.isfinite(model.stationarity_)


def test_rows_without_entries_get_the_mean_row_of_the_fit(tmp_path) -> None:
    model = BetaNMF(RANK, max_iter=50, tol=0, random_state=0)
    W = model.fit_transform(matrix(3))
    new = matrix(4)
    new[[0, 5]] = np.nan
    expected = np.tile(W.mean(axis=0), (2, 1))
    np.testing.assert_allclose(model.transform(new)[[0, 5]], expected, rtol=1e-12)
    model.save(tmp_path / "model.npz")
    assert np.array_equal(drnmf.load(tmp_path / "model.npz").transform(new), model.transform(new))


def test_a_masked_array_hides_its_entries() -> None:
    X = gappy(5)
    masked = np.ma.masked_invalid(np.where(np.isnan(X), 7.0, X))
    masked.mask = np.isnan(X)
    how = {"max_iter": 30, "tol": 0, "random_state": 0}
    assert np.array_equal(BetaNMF(RANK, **how).fit(masked).components_, BetaNMF(RANK, **how).fit(X).components_)
    counts = np.ma.MaskedArray(np.round(10 * np.nan_to_num(X)).astype(int), mask=np.isnan(X))
    assert f"{int(np.isnan(X).sum())} of 108" in BetaNMF(RANK, **how).fit(counts).notes_[0]


def test_uncertainties_are_weights() -> None:
    X, how = gappy(6), {"beta": 2, "max_iter": 30, "tol": 0, "random_state": 0}
    U = np.random.default_rng(0).uniform(0.5, 2.0, SHAPE)
    U[np.isnan(X)] = np.nan  # a gap where X has one
    by_uncertainty = BetaNMF(RANK, **how).fit(X, uncertainty=U)
    by_weight = BetaNMF(RANK, **how).fit(X, entry_weight=U**-2.0)
    assert np.array_equal(by_uncertainty.components_, by_weight.components_)
    W = by_uncertainty.transform(X, uncertainty=U)
    assert np.array_equal(W, by_uncertainty.transform(X, entry_weight=U**-2.0))
    # a weight repeats its entry, an uncertainty is its standard deviation: if all are huge, densities are flat
    flat = -np.log(1e6 * U[np.isfinite(X + U)]) - 0.5 * np.log(2.0 * np.pi)
    assert by_uncertainty.score(X, uncertainty=1e6 * U) == pytest.approx(flat.mean(), rel=1e-6)


@pytest.mark.parametrize("beta", [1, 2])
def test_the_score_sees_what_is_observed(beta: float) -> None:
    X, hidden = matrix(15), np.random.default_rng(0).random(SHAPE) < 0.2
    gaps, weights = np.where(hidden, np.nan, X), 1.0 - hidden
    model = BetaNMF(RANK, beta=beta, max_iter=50, tol=0, random_state=0).fit(gaps)
    expected = model.score(gaps)
    assert model.score(X, entry_weight=weights) == pytest.approx(expected, rel=1e-6)
    assert model.score(np.where(hidden, np.inf, X), entry_weight=weights) == pytest.approx(expected, rel=1e-6)
    stored = sp.csr_matrix(np.where(hidden, 0.0, X))
    assert model.set_params(unstored="missing").score(stored) == pytest.approx(expected, rel=1e-6)
    assert model.score(X) != expected


@pytest.mark.parametrize("model", [BetaNMF(RANK, beta="auto"), DRNMF(RANK, betas="auto")])
def test_losses_chosen_by_the_data_take_gaps_and_weights(model) -> None:
    model.set_params(max_iter=30, tol=0, random_state=0)
    gaps = gappy(16)
    found = clone(model).fit(gaps)
    assert np.isfinite(found.components_).all()
    observed = np.isfinite(gaps)
    weighted = clone(model).fit(np.where(observed, gaps, 1.0), entry_weight=observed.astype(float))
    assert weighted.loss_names_ == found.loss_names_
    np.testing.assert_allclose(weighted.losses_, found.losses_, rtol=1e-6)
    assert np.isfinite(clone(model).fit(matrix(0), uncertainty=np.ones(SHAPE)).components_).all()


@pytest.mark.parametrize("betas", [(1, 2), (0, 1)])
def test_what_a_sparse_matrix_does_not_store_can_be_missing(betas: tuple[int, int]) -> None:
    X = sp.random(30, 20, 0.4, random_state=np.random.RandomState(0), format="csr")
    dense = np.where(X.toarray() > 0, X.toarray(), np.nan)
    how = {
        "betas": betas,
        "init": "random",  # others start from zeros where nothing is stored
        "max_iter": 40,
        "tol": 0,
        "random_state": 0,
    }
    stored = DRNMF(RANK, unstored="missing", **how).fit(X)
    gaps = DRNMF(RANK, **how).fit(dense)
    np.testing.assert_allclose(stored.trace_.scaled_losses, gaps.trace_.scaled_losses, rtol=1e-8)
    assert stored.score(X) == pytest.approx(gaps.score(dense), rel=1e-4)
    weights = X.copy()
    weights.data = np.random.default_rng(1).uniform(0.5, 2.0, X.nnz)
    stored = DRNMF(RANK, unstored="missing", **how).fit(X, entry_weight=weights)
    gaps = DRNMF(RANK, **how).fit(dense, entry_weight=weights)
    np.testing.assert_allclose(stored.trace_.scaled_losses, gaps.trace_.scaled_losses, rtol=1e-8)


def test_held_out_entries_are_left_out() -> None:
    X, how = matrix(7), {"max_iter": 30, "tol": 0, "random_state": 0}
    held = HeldOut(0.2, 3)
    M = held.bind(SHAPE).tile(slice(0, 9))
    by_hash = BetaNMF(RANK, **how).fit(X, entry_weight=held)
    by_mask = BetaNMF(RANK, **how).fit(X, entry_weight=M)
    np.testing.assert_allclose(by_hash.trace_.scaled_losses, by_mask.trace_.scaled_losses, rtol=1e-9)
    W = by_hash.transform(X, entry_weight=held)
    V = by_hash.fit_transform(X, entry_weight=held) @ by_hash.components_
    left_out = drnmf.beta_divergence(X[M == 0], V[M == 0], 1)
    assert by_hash.held_out_losses_ == pytest.approx([left_out], rel=1e-9)
    np.testing.assert_allclose(W, by_hash.transform(X, entry_weight=M), rtol=1e-6, atol=1e-9)
    assert by_mask.held_out_losses_ is None


NEGATIVE = [("clip", "were set to 0"), ("missing", "count as missing")]


@pytest.mark.parametrize(("choice", "said"), NEGATIVE)
def test_negative_readings(choice: str, said: str) -> None:
    X = matrix(8)
    X[3, 4] = X[0, 0] = -0.5
    meant = np.where(X < 0, 0.0 if choice == "clip" else np.nan, X)
    how = {"init": "random", "max_iter": 30, "tol": 0, "random_state": 0}
    model = BetaNMF(RANK, negatives=choice, **how).fit(X)
    assert np.array_equal(model.components_, BetaNMF(RANK, **how).fit(meant).components_)
    assert model.notes_[0] == f"2 negative entries of X {said} (negatives={choice!r})."
    assert np.array_equal(model.transform(X), model.transform(meant))
    assert X[3, 4] == -0.5
    clipped = BetaNMF(RANK, negatives="clip", **how).fit(sp.csr_matrix(X))
    np.testing.assert_allclose(clipped.losses_, BetaNMF(RANK, **how).fit(np.maximum(X, 0)).losses_, rtol=1e-8)
    if choice == "missing":
        stored = sp.csr_matrix(X)
        found = BetaNMF(RANK, negatives="missing", unstored="missing", **how).fit(stored)
        np.testing.assert_allclose(found.losses_, model.losses_, rtol=1e-8)
        with pytest.raises(ValueError, match=r"needs unstored='missing'.*negatives='clip'"):
            BetaNMF(RANK, negatives="missing").fit(stored)


def test_bad_entries_under_weight_zero_are_not_observed() -> None:
    X, M = matrix(9), np.random.default_rng(0).uniform(0.5, 1.5, SHAPE)
    M[2, 3] = M[5, 6] = 0.0
    how = {"max_iter": 30, "tol": 0, "random_state": 0}
    expected = BetaNMF(RANK, **how).fit(X, entry_weight=M)
    X[2, 3], X[5, 6] = np.inf, -4.0
    found = BetaNMF(RANK, **how).fit(X, entry_weight=M)
    np.testing.assert_allclose(found.trace_.scaled_losses, expected.trace_.scaled_losses, rtol=1e-9)
    X[1, 1] = np.inf
    with pytest.raises(ValueError, match=r"X\[1, 1\] = inf"):
        BetaNMF(RANK).fit(X, entry_weight=M)


def test_zeros_that_are_not_observed_do_not_count() -> None:
    X = gappy(10)
    assert np.isfinite(BetaNMF(RANK, beta=0, max_iter=20, tol=0).fit(X).losses_).all()
    X[2, 2] = 0.0
    with pytest.raises(ValueError, match=r"1 zero entries \(the first is X\[2, 2\]\)"):
        BetaNMF(RANK, beta=0).fit(X)
    X[2, 2] = np.nan
    assert np.isfinite(BetaNMF(RANK, beta=0, max_iter=20, tol=0).fit(X).losses_).all()


def at(value: float, shape: tuple[int, int] = SHAPE) -> np.ndarray:
    weights = np.ones(shape)
    weights[3, min(4, shape[1] - 1)] = value
    return weights


BAD = [
    ({"entry_weight": at(-1.0)}, r"entry_weight\[3, 4\] = -1 is negative: weights are finite and >= 0"),
    ({"entry_weight": at(np.inf)}, r"entry_weight\[3, 4\] = inf is infinite"),
    ({"entry_weight": at(np.nan, (12, 1))}, r"entry_weight\[3, 0\] = nan is no number"),
    ({"entry_weight": np.zeros((12, 1))}, "No entry of X is observed"),
    (
        {"entry_weight": np.ones((9, 12))},
        r"shape \(9, 12\), and X has 12 rows and 9 columns: .* 12 x 9, 12 x 1 or 1 x 9",
    ),
    ({"entry_weight": np.ones(12)}, r"One number for every row is entry_weight.reshape\(-1, 1\)"),
    ({"entry_weight": np.ones(9)}, r"One number for every column is entry_weight.reshape\(1, -1\)"),
    ({"entry_weight": "half"}, "cannot be read as numbers"),
    ({"entry_weight": sp.csr_matrix((9, 12))}, r"shape \(9, 12\)"),
    ({"entry_weight": sp.csr_matrix(at(-2.0))}, r"entry_weight\[3, 4\] = -2 is negative"),
    ({"uncertainty": at(0.0)}, r"uncertainty\[3, 4\] = 0 is not > 0: give the uncertainty"),
    ({"uncertainty": at(-999.0)}, r"uncertainty\[3, 4\] = -999 is not > 0"),
    ({"uncertainty": at(np.nan)}, r"uncertainty\[3, 4\] = nan is no number.*leave the entry of X itself missing"),
    ({"uncertainty": at(1e-200)}, "weights leave the range of float64: give X and uncertainty in another unit"),
    ({"uncertainty": np.ones(SHAPE), "entry_weight": np.ones(SHAPE)}, "both given.*give one of the two"),
]


@pytest.mark.parametrize(("weights", "message"), BAD, ids=lambda value: str(value)[:30])
def test_bad_weights(weights: dict, message: str) -> None:
    X = matrix(11)
    with pytest.raises(ValueError, match=message):
        BetaNMF(RANK).fit(X, **weights)
    if "No entry" not in message:
        with pytest.raises(ValueError, match=message):
            BetaNMF(RANK, max_iter=5, tol=0).fit(X).transform(X, **weights)


def test_all_missing_is_refused() -> None:
    with pytest.raises(ValueError, match="No entry of X is observed"):
        BetaNMF(RANK).fit(np.full(SHAPE, np.nan))
    model = BetaNMF(RANK, max_iter=5, tol=0).fit(matrix(0))
    with pytest.raises(ValueError, match="nothing to score"):
        model.score(np.full(SHAPE, np.nan))


@pytest.mark.parametrize("parameter", ["negatives", "unstored"])
def test_choices_are_checked(parameter: str) -> None:
    with pytest.raises(ValueError, match=f"{parameter}='drop' is not known"):
        BetaNMF(RANK, **{parameter: "drop"}).fit(matrix(0))


def test_a_front_under_weights() -> None:
    X, W, H = gappy(12), *start(12)
    X[3] = np.nan
    U = np.full((1, 9), 0.5)
    how = {"betas": (1, 2), "weights": 3, "max_iter": 30, "tol": 0, "init": "custom", "return_factors": True}
    front = flat.pareto_front(X, RANK, W=W, H=H, uncertainty=U, **how)
    kept = [i for i in range(12) if i != 3]
    small = flat.pareto_front(X[kept], RANK, W=W[kept], H=H, entry_weight=U**-2.0, **how)
    np.testing.assert_allclose(front.scaled_losses, small.scaled_losses, rtol=1e-7)
    assert np.isfinite(front.dr.W).all()
    assert front.notes[0].startswith(f"{int(np.isnan(X).sum())} of 108")


def test_rows_of_weights_follow_the_rows_of_folds() -> None:
    X = gappy(13)
    M = np.random.default_rng(0).uniform(0.5, 2.0, SHAPE)
    with sklearn.config_context(enable_metadata_routing=True):
        model = BetaNMF(RANK, max_iter=20, tol=0, random_state=0)
        model.set_fit_request(entry_weight=True).set_score_request(entry_weight=True)
        search = GridSearchCV(model, {"beta": [1, 2]}, cv=3).fit(X, entry_weight=M)
        wide = GridSearchCV(model, {"beta": [1, 2]}, cv=3).fit(X, entry_weight=M[:1])
    by_hand = BetaNMF(RANK, beta=1, max_iter=20, tol=0, random_state=0).fit(X[4:], entry_weight=M[4:])
    expected = by_hand.score(X[:4], entry_weight=M[:4])
    assert search.cv_results_["split0_test_score"][0] == pytest.approx(expected, rel=1e-9)
    assert np.isfinite(wide.cv_results_["mean_test_score"]).all()


def test_weights_pass_through_a_pipeline() -> None:
    X, M = gappy(14), np.random.default_rng(1).uniform(0.5, 2.0, SHAPE)
    how = {"max_iter": 20, "tol": 0, "random_state": 0}
    expected = BetaNMF(RANK, **how).fit_transform(MaxAbsScaler().fit_transform(X), entry_weight=M)
    pipe = make_pipeline(MaxAbsScaler(), BetaNMF(RANK, **how))
    assert np.array_equal(pipe.fit_transform(X, betanmf__entry_weight=M), expected)
    with sklearn.config_context(enable_metadata_routing=True):
        model = BetaNMF(RANK, **how).set_fit_request(entry_weight=True).set_transform_request(entry_weight=True)
        found = make_pipeline(MaxAbsScaler(), model).fit_transform(X, entry_weight=M)
    assert np.array_equal(found, expected)


def test_a_fit_with_weights_resumes_where_it_was_stopped(tmp_path) -> None:
    X, U = gappy(17), np.random.default_rng(0).uniform(0.5, 2.0, SHAPE)
    how = {"beta": 2, "max_iter": 40, "tol": 0, "random_state": 0}

    def stop(progress) -> None:
        if progress.iteration == 15:
            raise RuntimeError("stopped")

    kept = {"solver": Solver(checkpoint=tmp_path / "kept", checkpoint_every=0.0)}
    stopped = {"solver": replace(kept["solver"], callback=stop)}
    with pytest.raises(RuntimeError, match="stopped"):
        BetaNMF(RANK, **how, **stopped).fit(X, uncertainty=U)
    assert list((tmp_path / "kept").glob("state-*.npz"))
    for other in ({"uncertainty": 2.0 * U}, {"entry_weight": U}, {}):
        with pytest.raises(ValueError, match="another X"):
            BetaNMF(RANK, **how, **kept).fit(X, **other)
    resumed = BetaNMF(RANK, **how, **kept).fit(X, uncertainty=U)
    whole = BetaNMF(RANK, **how).fit(X, uncertainty=U)
    assert np.array_equal(resumed.components_, whole.components_)
    assert np.array_equal(resumed.trace_.scaled_losses, whole.trace_.scaled_losses)
