"""The estimators as users meet them."""

from __future__ import annotations

import pickle
import signal
import threading
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import check_estimator
from threadpoolctl import threadpool_limits

import drnmf
from drnmf import DRNMF, BetaNMF, MultiObjectiveNMF, Solver, beta_divergence
from drnmf.algorithms.result import Progress
from drnmf.algorithms.weights import FrankWolfe
from tests.contract import OTHER_MINIMA
from tests.flat import make

ALL = [BetaNMF, MultiObjectiveNMF, DRNMF]


def quick(cls, rank=3, **arguments):
    """A short run without a convergence warning."""
    return make(cls, rank, **{"tol": 0, "max_iter": 30, "random_state": 0} | arguments)


@pytest.mark.slow
@pytest.mark.parametrize("cls", ALL)
def test_scikit_learn_contract(cls):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        checks = check_estimator(cls(), on_skip=None, expected_failed_checks=OTHER_MINIMA)
    failed = {check["check_name"] for check in checks if check["status"] == "xfail"}
    assert failed == OTHER_MINIMA.keys()
    assert {check["status"] for check in checks if check["check_name"] not in failed} <= {"passed", "skipped"}


@pytest.mark.parametrize("cls", ALL)
def test_attributes_belong_to_the_point_returned(cls, problem):
    X, _, _ = problem
    model = quick(cls)
    W = model.fit_transform(X)
    p = len(model.betas_)
    for beta, loss in zip(model.betas_, model.losses_, strict=True):
        assert loss == pytest.approx(drnmf.beta_divergence(X, W @ model.components_, beta), rel=1e-9)
    np.testing.assert_allclose(model.scaled_losses_, model.losses_ / model.references_)
    assert model.reconstruction_err_ == model.scaled_losses_.max()
    assert model.weights_.sum() == pytest.approx(1)
    assert model.n_iter_ == 30
    assert model.trace_.scaled_losses.shape == model.trace_.weights.shape == (31, p)
    for name in ("seconds", "gap", "sweeps"):
        assert getattr(model.trace_, name).shape == (31,)
    assert (np.diff(model.trace_.seconds) >= 0).all()
    assert (np.diff(model.trace_.sweeps) >= 2).all()
    assert model.get_feature_names_out().tolist() == [f"{cls.__name__.lower()}{k}" for k in range(3)]


def test_beta_nmf_has_no_reference(problem):
    model = quick(BetaNMF, beta="itakura-saito").fit(problem[0])
    assert model.betas_.tolist() == [0.0]
    assert model.references_.tolist() == [1.0]
    assert model.scaled_losses_.tolist() == model.losses_.tolist()
    scaled = quick(BetaNMF, beta="itakura-saito", solver=Solver(references=[2.0])).fit(problem[0])
    np.testing.assert_allclose(scaled.scaled_losses_, model.losses_ / 2)


@pytest.mark.parametrize("cls", ALL)
def test_canonical_form(cls, problem):
    X, W0, H0 = problem
    free, canonical = (quick(cls, 4, init="custom", solver=Solver(normalize=flag)) for flag in (False, True))
    W, V = free.fit_transform(X, W=W0, H=H0), canonical.fit_transform(X, W=W0, H=H0)
    np.testing.assert_allclose(W @ free.components_, V @ canonical.components_, rtol=1e-10)
    norms = np.linalg.norm(V, axis=0)
    np.testing.assert_allclose(norms, np.linalg.norm(canonical.components_, axis=1), rtol=1e-12)
    assert (np.diff(norms) <= 0).all()


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept(cls, dtype, problem):
    model = quick(cls)
    W = model.fit_transform(problem[0].astype(dtype))
    assert W.dtype == model.components_.dtype == model.transform(problem[0].astype(dtype)).dtype == dtype
    assert model.losses_.dtype == np.float64


@pytest.mark.parametrize("betas", [(1,), (2,), (1, 2), (0, 1), (0.5, 2)], ids=str)
def test_sparse_equals_dense(betas):
    X = sp.random(40, 25, density=0.3, random_state=3, format="csr")
    options = {"betas": betas, "zeros": "floor"}
    dense = quick(DRNMF, **options).fit(X.toarray())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for form in (X, sp.csc_matrix(X), sp.coo_array(X)):
            sparse = quick(DRNMF, **options).fit(form)
            np.testing.assert_allclose(sparse.trace_.scaled_losses, dense.trace_.scaled_losses, rtol=1e-8)
            np.testing.assert_allclose(sparse.components_, dense.components_, rtol=1e-6, atol=1e-8)


def test_messy_sparse_matrices():
    """Unsorted indices, duplicates, stored zeros and 64-bit indices mean the same matrix, which is not changed."""
    X = sp.random(30, 20, density=0.3, random_state=3, format="coo")
    half = X.data / 2
    rows, columns = np.r_[X.row, X.row, [0]][::-1], np.r_[X.col, X.col, [0]][::-1]
    values = np.r_[half, half, [0.0]][::-1]
    order = np.argsort(rows, kind="stable")
    ends = np.r_[0, np.cumsum(np.bincount(rows, minlength=30))]
    messy = sp.csr_matrix((values[order], columns[order], ends), shape=(30, 20))
    wide = messy.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    before = messy.data.copy()
    expected = quick(DRNMF).fit(X.tocsr())
    for matrix in (messy, wide):
        model = quick(DRNMF).fit(matrix)
        np.testing.assert_allclose(model.components_, expected.components_, rtol=1e-9)
    assert (messy.data == before).all()
    assert messy.nnz == before.size


def test_other_betas_on_sparse_data_warn():
    X = sp.random(10, 8, density=0.9, random_state=0, format="csr")
    with pytest.warns(UserWarning, match=r"others \(0.5\) take dense tiles"):
        quick(DRNMF, betas=(0.5, 1)).fit(X)


@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_layouts_agree_and_are_left_alone(order, problem):
    X = problem[0]
    given = {"C": X, "F": np.asfortranarray(X), "strided": np.repeat(np.repeat(X, 2, 0), 3, 1)[::2, ::3]}[order]
    kept = given.copy()
    model = quick(DRNMF, betas=(0, 1)).fit(given)
    np.testing.assert_allclose(model.components_, quick(DRNMF, betas=(0, 1)).fit(X).components_, rtol=1e-9)
    assert (given == kept).all()


@pytest.mark.parametrize("betas", [(1, 2), (0, 1, 2)], ids=str)
def test_same_seed_same_bits_whatever_the_threads(betas):
    X = np.random.default_rng(0).gamma(1.0, 1.0, (300, 400)) + 1e-3
    runs = []
    for threads in (1, 2, 4):
        with threadpool_limits(threads):
            runs.append(quick(DRNMF, 20, betas=betas, max_iter=10).fit(X))
    for run in runs[1:]:
        assert (run.components_ == runs[0].components_).all()
        assert (run.trace_.scaled_losses == runs[0].trace_.scaled_losses).all()
    assert not (
        quick(DRNMF, 20, betas=betas, max_iter=10, random_state=1).fit(X).components_ == runs[0].components_
    ).all()


@pytest.mark.parametrize("cls", ALL)
def test_transform_of_the_training_data_is_close_to_W(cls, rng):
    X = rng.uniform(0.1, 1, (30, 3)) @ rng.uniform(0.1, 1, (3, 20)) * rng.uniform(0.9, 1.1, (30, 20))
    model = cls(3, random_state=0, max_iter=3000, tol=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        W = model.fit_transform(X)
    np.testing.assert_allclose(model.transform(X), W, rtol=0.02, atol=0.01 * W.max())


@pytest.mark.parametrize("betas", [(0,), (0, 1), (1, 2), (0, 0.5, 3)], ids=str)
def test_transform_treats_every_row_on_its_own(betas, problem):
    X = problem[0]
    model = quick(DRNMF, betas=betas).fit(X)
    together = model.transform(X)
    for i in (0, 7, 22):
        np.testing.assert_allclose(model.transform(X[i : i + 1])[0], together[i], rtol=1e-9)
    np.testing.assert_allclose(model.transform(np.vstack([X[5:8], 1e6 * X[:1]]))[:3], together[5:8], rtol=1e-9)
    if len(betas) == 1:  # several losses weigh against each other differently at another scale
        np.testing.assert_allclose(model.transform(1e-20 * X), 1e-20 * together, rtol=1e-6)


def test_score_predicts_every_column_from_the_others(problem):
    X = problem[0]
    model = quick(BetaNMF, beta=2, solver=Solver(normalize=False)).fit(X)
    n, masses = X.shape[1], 0.0
    for fold in (np.arange(first, n, 5) for first in range(5)):
        others = np.setdiff1d(np.arange(n), fold)
        twin = drnmf.BetaNMF(3, beta=2, max_iter=model.max_iter, tol=model.tol).fit(X[:, others])
        twin.components_, twin.mean_ = model.components_[:, others], model.mean_
        predicted = twin.transform(X[:, others]) @ model.components_[:, fold]
        masses += stats.norm.logpdf(X[:, fold], predicted, np.std(X[:, fold] - predicted)).sum()
    # each half under the width of the other, and a hundredth of it bounded
    assert model.score(X) == pytest.approx(masses / X.size, abs=0.05)


@pytest.mark.slow
def test_score_does_not_rise_with_a_rank_that_fits_noise(rng):
    V = rng.gamma(1.0, size=(60, 3)) @ rng.gamma(1.0, size=(3, 30))
    X = V * rng.gamma(25.0, 1 / 25.0, size=V.shape)
    model = quick(BetaNMF, beta=0, max_iter=200)
    search = GridSearchCV(model, {"n_components": [1, 2, 3, 8]}, cv=3).fit(X)
    assert search.best_params_ == {"n_components": 3}
    losses = GridSearchCV(quick(BetaNMF, max_iter=200), {"beta": [0, 1, 2]}, cv=3).fit(X)
    assert losses.best_params_ == {"beta": 0}


def test_model_selection_and_pipelines(rng):
    X = rng.uniform(0.1, 1, (40, 2)) @ rng.uniform(0.1, 1, (2, 12)) * rng.uniform(0.95, 1.05, (40, 12))
    search = GridSearchCV(quick(BetaNMF, max_iter=200), {"n_components": [1, 2]}, cv=3).fit(X)
    assert search.best_params_ == {"n_components": 2}
    pipeline = make_pipeline(MaxAbsScaler(), quick(DRNMF))
    assert pipeline.fit_transform(X).shape == (40, 3)


def test_set_output(problem):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    model = quick(DRNMF).set_output(transform="pandas").fit(problem[0])
    assert isinstance(model.transform(problem[0]), pandas.DataFrame)


@pytest.mark.parametrize("cls", ALL)
def test_pickle_clone_save_load(cls, problem, tmp_path):
    X = problem[0]
    model = quick(cls).fit(X)
    path = tmp_path / "model.npz"
    model.save(path)
    for twin in (pickle.loads(pickle.dumps(model)), drnmf.load(path)):
        assert type(twin) is cls
        np.testing.assert_array_equal(twin.transform(X), model.transform(X))
        np.testing.assert_array_equal(twin.trace_.weights, model.trace_.weights)
        assert twin.score(X) == model.score(X)
        for name, value in model.get_params().items():
            assert name in ("betas", "solver") or twin.get_params()[name] == value
    assert not hasattr(clone(model), "components_")
    assert [file.name for file in tmp_path.iterdir()] == ["model.npz"]


def test_load_refuses_what_is_no_model(tmp_path, problem):
    path = tmp_path / "model.npz"
    quick(DRNMF).fit(problem[0]).save(path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match="cut short"):
        drnmf.load(path)
    np.savez(path, data=np.ones(3))
    with pytest.raises(ValueError, match="not a readable"):
        drnmf.load(path)
    with open(path, "wb") as stream:  # a pickle must not be opened
        pickle.dump({"a": 1}, stream)
    with pytest.raises(ValueError, match="not a readable"):
        drnmf.load(path)
    with pytest.raises(FileNotFoundError):
        drnmf.load(tmp_path / "none.npz")


def test_policies_and_objects(problem):
    named = quick(DRNMF, solver=Solver(policy="frank-wolfe-2")).fit(problem[0])
    given = quick(DRNMF, solver=Solver(policy=FrankWolfe(2.0))).fit(problem[0])
    np.testing.assert_array_equal(named.trace_.weights, given.trace_.weights)
    assert (quick(DRNMF, solver=Solver(policy="fixed")).fit(problem[0]).weights_ == 0.5).all()


def test_n_init_keeps_the_best_start_under_common_references(problem):
    X = problem[0]
    best = quick(DRNMF, betas=(0, 1), init="random", n_init=4, max_iter=15, solver="mu").fit(X)
    common = {"init": "random", "tol": 0, "max_iter": 15}
    rng = np.random.RandomState(0)
    singles = [
        DRNMF(3, betas=(0, 1), random_state=rng, solver=Solver(update="mu", references=best.references_), **common).fit(
            X
        )
        for _ in range(4)
    ]
    assert best.reconstruction_err_ == pytest.approx(min(model.reconstruction_err_ for model in singles))
    assert len({model.reconstruction_err_ for model in singles}) == 4
    for beta, reference in zip((0, 1), best.references_, strict=True):
        rng = np.random.RandomState(0)
        errors = [BetaNMF(3, beta=beta, random_state=rng, **common).fit(X).reconstruction_err_ for _ in range(4)]
        assert reference == pytest.approx(min(errors))


def test_callback_sees_and_stops(problem):
    seen: list[Progress] = []

    def callback(progress):
        seen.append(progress)
        return progress.iteration == 7

    model = quick(DRNMF, solver=Solver(update="mu", callback=callback)).fit(problem[0])
    assert [progress.iteration for progress in seen] == list(range(1, 8))
    assert model.n_iter_ == 7
    assert model.reason_ == "callback"
    np.testing.assert_array_equal(seen[-1].scaled_losses, model.scaled_losses_)
    np.testing.assert_array_equal(seen[-1].weights, model.weights_)
    assert seen[-1].losses.shape == (2,)
    assert seen[-1].seconds > 0


def test_max_time_covers_the_whole_fit(rng):
    X = rng.uniform(0.1, 1, (200, 300))
    started = time.perf_counter()
    model = DRNMF(20, betas=(0, 1, 2), tol=0, max_iter=10**6, max_time=0.5).fit(X)
    assert time.perf_counter() - started < 3
    assert model.reason_ == "max_time"


def test_tolerance_and_the_convergence_warning(problem):
    X = problem[0]
    with pytest.warns(ConvergenceWarning, match="max_iter=5") as caught:
        DRNMF(3, max_iter=5, random_state=0).fit(X)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        short = DRNMF(3, max_iter=5, tol=0, random_state=0).fit(X)
        loose = DRNMF(3, max_iter=5000, tol=1e-3, random_state=0).fit(X)
        tight = DRNMF(3, max_iter=5000, tol=1e-5, random_state=0).fit(X)
    assert short.n_iter_ == 5
    assert loose.converged_
    assert loose.reason_ == "tol"
    assert loose.n_iter_ < tight.n_iter_ < 5000


@pytest.mark.parametrize("stage", ["fit", "references"])
def test_interrupt_leaves_factors_and_raises(stage, rng):
    """Ctrl-C in the middle: KeyboardInterrupt comes out, and the estimator can be used."""
    X = rng.uniform(0.1, 1, (100, 120))
    references = None if stage == "references" else (1.0, 1.0)
    model = DRNMF(
        8, betas=(0, 1), tol=0, max_iter=10**7, max_time=60, random_state=0, solver=Solver(references=references)
    )
    threading.Timer(0.4, lambda: signal.raise_signal(signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert model.reason_ == "interrupted"
    assert np.isfinite(model.transform(X[:3])).all()
    assert model.losses_.shape == (2,)


def test_verbose_shows_a_bar(problem, capsys):
    quick(DRNMF, verbose=1).fit(problem[0])
    assert "DRNMF" in capsys.readouterr().err


BAD_PARAMETERS = [
    ({"n_components": 0}, "n_components=0 must be an integer >= 1"),
    ({"n_components": 2.5}, "n_components=2.5 must be an integer"),
    ({"n_components": True}, "n_components=True"),
    ({"betas": ()}, "betas is empty"),
    ({"betas": (1, 1.0)}, "twice"),
    ({"betas": (1, -0.5)}, ">= 0"),
    ({"betas": (1, np.nan)}, ">= 0"),
    ({"betas": ("poisson",)}, "not a known loss"),
    ({"references": (1.0, 0.0)}, "> 0"),
    ({"references": (1.0,)}, "one per beta"),
    ({"references": "all"}, "not numbers"),
    ({"policy": "fastest"}, "not known"),
    ({"update": "bfgs"}, "not known"),
    ({"init": "svd"}, "not known"),
    ({"init": "custom"}, "needs both W and H"),
    ({"max_iter": 0}, "max_iter=0"),
    ({"tol": -1}, "tol=-1"),
    ({"tol": np.nan}, "tol=nan"),
    ({"zeros": "ignore"}, "zeros='ignore'"),
    ({"n_init": 0}, "n_init=0"),
    ({"max_time": 0}, "max_time=0"),
    ({"inner_iter": 0}, "inner_iter=0"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_PARAMETERS, ids=lambda value: str(value)[:40])
def test_bad_parameters(arguments, message, problem):
    model = make(DRNMF, **{"n_components": 2} | arguments)
    with pytest.raises(ValueError, match=message):
        model.fit(problem[0])
    assert not hasattr(model, "components_")


@pytest.mark.parametrize("weights", [(0.5, 0.6), (1.2, -0.2), (1.0,), "half"])
def test_weights_off_the_simplex(weights, problem):
    with pytest.raises(ValueError, match="weights"):
        MultiObjectiveNMF(2, weights=weights).fit(problem[0])


BAD_ENTRIES = [
    (-1.0, r"Negative values.*X\[3, 4\] = -1"),
    (np.nan, r"NaN.*X\[3, 4\]"),
    (np.inf, r"infinity.*X\[3, 4\]"),
]


@pytest.mark.parametrize(("value", "message"), BAD_ENTRIES, ids=["negative", "nan", "infinite"])
@pytest.mark.parametrize("form", ["dense", "csr", "csc"])
def test_bad_entries_are_named_by_position(value, message, form, problem):
    if form == "dense" and np.isnan(value):
        pytest.skip("NaN in dense X is a missing entry: tests/estimators/test_missing.py")
    X = problem[0].copy()
    X[3, 4] = X[9, 1] = value
    matrix = {"dense": X, "csr": sp.csr_matrix(X), "csc": sp.csc_matrix(X)}[form]
    with pytest.raises(ValueError, match=message):
        DRNMF(2).fit(matrix)
    model = quick(DRNMF).fit(problem[0])
    with pytest.raises(ValueError, match=message):
        model.transform(matrix)


@pytest.mark.parametrize("X", [np.empty((0, 3)), np.empty((3, 0)), np.ones(4), np.ones((2, 2, 2, 2)), [["a", "b"]]])
def test_bad_shapes_and_types(X):
    with pytest.raises(ValueError, match=r"minimum of 1|Expected 2D|dim|could not convert"):
        DRNMF(2).fit(X)


def test_zeros_with_itakura_saito(problem):
    X = problem[0].copy()
    X[2, 5] = 0
    for matrix in (X, sp.csr_matrix(X)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            with pytest.raises(ValueError, match=r"1 zero entries \(the first is X\[2, 5\]\).*zeros='floor'"):
                DRNMF(2, betas=(0, 1)).fit(matrix)
    model = quick(DRNMF, betas=(0, 1), zeros="floor").fit(X)
    assert np.isfinite(model.losses_).all()
    assert "1 zero entries" in model.notes_[0]
    assert not any("zero entries" in note for note in quick(DRNMF, betas=(1, 2)).fit(X).notes_)


@pytest.mark.parametrize(
    ("W", "H", "message"),
    [
        (np.ones((23, 5)), np.ones((4, 31)), r"W has shape \(23, 5\)"),
        (np.ones((23, 4)), np.ones((4, 30)), r"H has shape \(4, 30\)"),
        (-np.ones((23, 4)), np.ones((4, 31)), r"W\[0, 0\] = -1 is negative"),
        (np.ones((23, 4)), np.full((4, 31), np.nan), "H holds NaN"),
        (None, np.ones((4, 31)), "needs both"),
        (np.full((23, 4), "x"), np.ones((4, 31)), "cannot be read"),
    ],
)
def test_bad_starts(W, H, message, problem):
    with pytest.raises(ValueError, match=message):
        DRNMF(4, init="custom").fit(problem[0], W=W, H=H)


def test_given_start_of_another_dtype_is_cast(problem):
    X, W, H = problem
    model = quick(DRNMF, 4, init="custom")
    for dtype in (np.float32, np.int64, object):
        model.fit(X, W=(10 * W).astype(dtype), H=(10 * H).astype(dtype))
        assert model.components_.dtype == np.float64


def test_start_without_custom_is_refused(problem):
    X, W, H = problem
    with pytest.raises(ValueError, match="only used with init='custom'"):
        DRNMF(4).fit(X, W=W, H=H)


def test_transform_with_other_features(problem):
    model = quick(DRNMF).fit(problem[0])
    with pytest.raises(ValueError, match="features"):
        model.transform(problem[0][:, :5])
    with pytest.raises(ValueError, match="components"):
        model.inverse_transform(np.ones((2, 7)))
    W = model.transform(problem[0])
    assert np.array_equal(model.inverse_transform(sp.csr_array(W)), model.inverse_transform(W))
    with pytest.raises(NotFittedError):
        DRNMF().transform(problem[0])


@pytest.mark.parametrize("betas", [(1,), (2,), (1, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True])
def test_empty_rows_and_columns(betas, dtype, sparse, rng):
    X = rng.gamma(1.0, 1.0, (20, 15)).astype(dtype)
    X[[3, 8]], X[:, [0, 7]] = 0, 0
    given = sp.csr_matrix(X) if sparse else X
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        model = quick(DRNMF, betas=betas, zeros="floor", max_iter=200, solver=Solver(normalize=False))
        W = model.fit_transform(given)
        H = model.components_
        coded = model.transform(given)
    for values in (W, H, model.losses_, model.scaled_losses_, coded):
        assert np.isfinite(values).all()
    if 0 not in betas:
        assert (W @ H)[[3, 8]].max() < 1e-6 * X.mean()
        assert (W @ H)[:, [0, 7]].max() < 1e-6 * X.mean()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exact_rank_data_has_a_floored_reference(dtype, rng):
    X = (rng.uniform(0.5, 1, (12, 2)) @ rng.uniform(0.5, 1, (2, 9))).astype(dtype)
    model = DRNMF(2, betas=(0, 1, 2), tol=0, max_iter=1000, random_state=0).fit(X)
    assert np.isfinite(model.scaled_losses_).all()
    assert (model.references_ > 0).all()
    one = DRNMF(1, betas=(1, 2), tol=0, max_iter=50, random_state=0).fit(np.outer([1.0, 2.0], [1.0, 3.0, 5.0]))
    assert "numerically zero" in " ".join(one.notes_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (6, 1), (5, 4)])
def test_rank_above_the_size_of_the_data(dtype, shape, rng):
    X = rng.uniform(0.1, 1, shape).astype(dtype)
    for betas in ((1, 2), (0, 1)):
        model = quick(DRNMF, 9, betas=betas, max_iter=200)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            W = model.fit_transform(X)
        (warning,) = warned
        assert f"n_components=9 is more than X of {shape[0]} x {shape[1]} can tell apart" in str(warning.message)
        assert np.isfinite(W @ model.components_).all()
        np.testing.assert_allclose(W @ model.components_, X, rtol=0.2)


def test_no_warning_where_the_rank_fits(rng):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick(DRNMF, 4).fit(rng.uniform(0.1, 1, (4, 6)))


def test_more_components_than_columns_cost_no_digits():
    """Where r > n the W of `transform` is taken only if it fits as well as the run's own."""
    X = load_wine().data
    model = BetaNMF(20, beta=2, tol=0, max_iter=300, random_state=0)
    W = model.fit_transform(X)
    loss = beta_divergence(X, W @ model.components_, 2)
    assert loss <= 1.02 * model.trace_.scaled_losses.min()
    assert loss == pytest.approx(model.losses_[0], rel=1e-6)


@pytest.mark.parametrize("betas", [(1,), (2,), (1, 2)])
def test_all_zero_data(betas):
    model = quick(DRNMF, betas=betas)
    W = model.fit_transform(np.zeros((4, 5)))
    assert np.isfinite(model.scaled_losses_).all()
    assert (W @ model.components_).max() < 1e-10


@pytest.mark.parametrize("model", [BetaNMF(2, max_iter=20), DRNMF(2, max_iter=20)], ids=["BetaNMF", "DRNMF"])
def test_pandas_in_gives_pandas_out(model, rng, tmp_path):
    pd = pytest.importorskip("pandas")
    index = pd.MultiIndex.from_product([["a", "b"], range(6)])
    frame = pd.DataFrame(rng.gamma(2.0, 1.0, (12, 5)), index=index, columns=list("uvwxy"))
    model = model.set_params(random_state=0, tol=0).set_output(transform="pandas")
    W = model.fit_transform(frame)
    names = [f"{type(model).__name__.lower()}{k}" for k in range(2)]
    assert W.columns.tolist() == model.get_feature_names_out().tolist() == names
    assert W.index.equals(frame.index)
    assert model.feature_names_in_.tolist() == list("uvwxy")
    again = model.transform(frame.iloc[3:])
    assert again.index.equals(frame.index[3:])
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[list("yxwvu")])
    plain = model.set_output(transform="default").fit_transform(frame)
    np.testing.assert_array_equal(plain, W)
    model.save(tmp_path / "model.npz")
    loaded = drnmf.load(tmp_path / "model.npz").set_output(transform="pandas")
    assert loaded.transform(frame).index.equals(frame.index)
    assert loaded.feature_names_in_.tolist() == list("uvwxy")
