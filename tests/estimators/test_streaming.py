"""Rows that keep coming: a stream does not depend on how rows are stored, in which unit, or when it was interrupted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from drnmf import CP, DRNMF, BetaNMF, MultiObjectiveNMF, Solver, load
from drnmf.backends.base import losses_of
from drnmf.backends.open import open_data
from drnmf.losses.beta import KL
from drnmf.objective.objective import Objective
from drnmf.objective.penalty import Setting
from drnmf.selection.growth import leftover
from drnmf.solve.encode import Encoding
from drnmf.solve.stream import Sums, _spread

LOSSES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, "nb:30"]
MODELS = [
    BetaNMF(3, beta=1, random_state=0),
    BetaNMF(3, beta=2, random_state=0),
    DRNMF(3, betas=(1, 2), random_state=0),
]


def counts(rows: int = 600, columns: int = 15, seed: int = 0, mean: float = 4.0) -> Any:
    rng = np.random.default_rng(seed)
    W, H = rng.gamma(0.5, 1.0, (rows, 3)), rng.gamma(0.5, 1.0, (3, columns))
    return rng.poisson(mean * W @ H / (W @ H).mean()).astype(float)


def batches(X: Any, rows: int = 50) -> list[Any]:
    return [X[first : first + rows] for first in range(0, X.shape[0], rows)]


def loss_of(model: Any, X: Any) -> Any:
    return losses_of(open_data(X), model.transform(X), model.components_, model.omega_)


@pytest.mark.parametrize("beta", LOSSES)
def test_a_stream_comes_near_to_a_fit_of_all_rows(beta: Any) -> None:
    X = counts() + 0.5
    whole = BetaNMF(3, beta=beta, random_state=0, max_iter=300).fit(X)
    model = BetaNMF(3, beta=beta, random_state=0).fit_stream(batches(X), passes=3)
    start = BetaNMF(3, beta=beta, random_state=0, max_iter=1, tol=0).fit(X)
    allowed = 1.05 if beta not in (3.0, "nb:30") else 1.15
    assert loss_of(model, X)[0] <= allowed * whole.losses_[0] < start.losses_[0]


@pytest.mark.parametrize("betas", [(0, 1), (1, 2)])
def test_the_largest_loss_of_a_stream_is_near_to_that_of_a_fit(betas: tuple[int, int]) -> None:
    X = counts() + 0.5
    whole = DRNMF(3, betas=betas, random_state=0, max_iter=300).fit(X)
    model = DRNMF(3, betas=betas, random_state=0).fit_stream(batches(X), passes=3)
    assert (loss_of(model, X) / whole.references_).max() <= 1.04 * whole.reconstruction_err_
    assert model.gap_ >= 0
    assert model.gap_error_ > 0
    np.testing.assert_allclose(model.weights_.sum(), 1.0)
    np.testing.assert_allclose(model.references_ / model.rows_seen_ * len(X), whole.references_, rtol=0.05)


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_one_batch_that_comes_again_ends_where_a_fit_ends(beta: float) -> None:
    X = counts(200) + 0.5
    whole = BetaNMF(3, beta=beta, random_state=0, tol=1e-8).fit(X)
    model = BetaNMF(3, beta=beta, random_state=0).fit_stream([X], passes=300, forget=100)
    assert loss_of(model, X)[0] <= 1.001 * whole.losses_[0]


def test_rows_that_come_again_may_have_nothing_observed() -> None:
    X = counts(mean=0.3)  # mostly zeros: steps of the bound alone
    X[7] = np.nan
    seen = ~np.isnan(X).all(axis=1)
    once, thrice = (BetaNMF(3, beta=1, random_state=0).fit_stream(batches(X), passes=k) for k in (1, 3))
    assert np.isfinite(thrice.components_).all()
    assert loss_of(thrice, X[seen])[0] < loss_of(once, X[seen])[0]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_sparse_and_dense_rows_say_the_same(model: Any) -> None:
    X = counts(mean=0.6, seed=8)  # with a start whose zeros hung on rounding, components differed by 2 %
    dense = model.fit_stream(batches(X)).components_
    parts = [sp.csr_array(part) if i % 2 else part for i, part in enumerate(batches(X))]
    for rows in (batches(sp.csr_array(X)), parts):
        found = model.fit_stream(rows).components_
        np.testing.assert_allclose(found, dense, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("power", [-40, 3, 40])
def test_the_unit_of_X_changes_no_bit(model: Any, power: int) -> None:
    X, factor = counts() + 0.5, 4.0**power
    plain = model.fit_stream(batches(X)).components_
    scaled = model.fit_stream(batches(X * factor)).components_
    np.testing.assert_array_equal(scaled, plain * 2.0**power)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_stream_goes_on_from_its_file_bit_for_bit(model: Any, tmp_path: Any) -> None:
    rows, model = batches(counts() + 0.5), clone(model)
    for part in rows[:5]:
        model.partial_fit(part)
    model.save(tmp_path / "model.npz")
    other = load(tmp_path / "model.npz")
    for part in rows[5:]:
        model.partial_fit(part)
        other.partial_fit(part)
    assert other.rows_seen_ == model.rows_seen_ == 600
    assert other.gap_error_ == model.gap_error_
    for name in ("components_", "weights_", "losses_", "references_", "mean_row_"):
        np.testing.assert_array_equal(getattr(other, name), getattr(model, name))


def test_gaps_and_weights_of_zero_are_the_same() -> None:
    X, rng = counts() + 0.5, np.random.default_rng(1)
    seen = (rng.uniform(size=X.shape) > 0.2).astype(float)
    holes = np.where(seen > 0, X, np.nan)
    for beta in (1.0, 2.0):
        one = BetaNMF(3, beta=beta, random_state=0, init="random").fit_stream(batches(holes))
        given = [{"X": x, "entry_weight": w} for x, w in zip(batches(X), batches(seen), strict=True)]
        two = BetaNMF(3, beta=beta, random_state=0, init="random").fit_stream(given)
        np.testing.assert_allclose(two.components_, one.components_, rtol=1e-9, atol=1e-12)


def test_some_batches_may_have_gaps_and_others_none() -> None:
    X = counts() + 0.5
    rows = batches(X)
    rows[3][::2, 1] = np.nan
    model = BetaNMF(3, beta=2, random_state=0).fit_stream(rows)
    whole = BetaNMF(3, beta=2, random_state=0).fit(np.nan_to_num(X, nan=0.5))
    assert loss_of(model, np.nan_to_num(X, nan=0.5))[0] < 1.1 * whole.losses_[0]


def test_a_row_without_any_entry_and_a_batch_of_zeros_do_no_harm() -> None:
    rows = batches(counts())
    rows[2][4] = np.nan
    rows[3][:] = 0.0
    model = BetaNMF(3, beta=1, random_state=0).fit_stream(rows)
    assert np.isfinite(model.components_).all()
    assert model.components_.max() > 0


def test_threads_change_no_bit() -> None:
    core = pytest.importorskip("drnmf._core")
    X, before = counts(), core.get_num_threads()
    found = []
    try:
        for threads in (1, 3):
            core.set_num_threads(threads)
            found.append(DRNMF(3, betas=(1, 2), random_state=0).fit_stream(batches(X)).components_)
    finally:
        core.set_num_threads(before)
    np.testing.assert_array_equal(*found)


def test_old_rows_are_forgotten() -> None:
    old, new = counts(seed=1), counts(seed=2)
    rows = batches(old) + batches(new)
    kept, quick = (BetaNMF(3, beta=2, random_state=0).fit_stream(rows, forget=half) for half in (None, 60))
    assert loss_of(quick, new)[0] < loss_of(kept, new)[0]


def test_a_tensor_is_the_same_rows() -> None:
    torch = pytest.importorskip("torch")
    X = counts()
    model = BetaNMF(3, beta=1, random_state=0)
    plain = model.fit_stream(batches(X)).components_
    given = model.fit_stream([torch.from_numpy(part.copy()) for part in batches(X)]).components_
    np.testing.assert_array_equal(given.numpy(), plain)


def test_float32_stays_float32() -> None:
    rows = batches(counts().astype(np.float32))
    model = BetaNMF(3, beta=1, random_state=0).fit_stream([*rows[:3], rows[3].astype(float)])
    assert model.components_.dtype == np.float32


def test_a_stream_goes_on_from_a_fit_and_a_fit_ends_a_stream() -> None:
    X = counts()
    model = BetaNMF(3, beta=2, random_state=0).fit(X)
    fitted = loss_of(model, X)[0]
    for part in batches(X, 200):
        model.partial_fit(part)
    assert loss_of(model, X)[0] < 1.2 * fitted
    assert model.rows_seen_ == 600
    assert not hasattr(model.fit(X), "stream_")


def test_given_weights_stay_and_references_that_are_given_are_used() -> None:
    rows = batches(counts() + 0.5)
    model = MultiObjectiveNMF(3, betas=(1, 2), weights=(0.3, 0.7), random_state=0).fit_stream(rows)
    np.testing.assert_array_equal(model.weights_, [0.3, 0.7])
    known = DRNMF(3, betas=(1, 2), random_state=0, solver=Solver(references=(2.0, 8.0))).fit_stream(rows)
    np.testing.assert_allclose(known.references_ / known.rows_seen_, [2.0, 8.0])
    assert len(known.stream_.followers) == 1


@pytest.mark.parametrize("beta", [1.0, 2.0])
@pytest.mark.parametrize("penalties", [["l1:0.05:scaled=True"], ["l2:3:W", "l1:0.1:H:scaled=True"]])
def test_penalties_of_entries_weigh_as_in_a_fit(beta: float, penalties: list[str]) -> None:
    X = counts() + 0.5
    setting = Setting(X.shape, X.mean())

    def objective(model: Any) -> float:
        W, H = model.transform(X), model.components_
        loss, terms = losses_of(open_data(X), W, H, model.omega_)[0], model.penalties_.terms
        return float(loss) + sum(t.value(t.measure(W.T, "W"), t.measure(H, "H"), setting) for t in terms)

    plain, whole, stream = (BetaNMF(3, beta=beta, random_state=0, penalties=p) for p in (None, penalties, penalties))
    plain.fit(X).penalties_ = whole.fit(X).penalties_
    stream.fit_stream(batches(X), passes=5)
    assert objective(stream) < 1.05 * objective(whole)
    assert objective(whole) < objective(plain)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (BetaNMF(3, beta="auto"), "cannot choose its losses"),
        (BetaNMF(3, penalties=["volume:0.1"]), "need all rows"),
        (BetaNMF(3, penalties=["l2:0.1"]), "need all rows"),
        (DRNMF(3, betas=(1, 2), penalties=["l2:0.1:W"]), "one loss"),
        (BetaNMF(3, sum_to_one="W"), "need all rows"),
        (DRNMF(3, solver=Solver(policy="minimax")), "minimax"),
        (BetaNMF("auto"), "cannot choose n_components"),
        (DRNMF(3, betas={"a": 1, "b": 2}), "tables side by side"),
        (CP(3), "whole X"),
    ],
)
def test_what_needs_all_rows_is_refused(model: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.partial_fit(counts())


def test_wrong_rows_are_refused() -> None:
    model = BetaNMF(3, random_state=0).partial_fit(counts())
    with pytest.raises(ValueError, match="14 features"):
        model.partial_fit(counts()[:, :14])
    with pytest.raises(ValueError, match="only once"):
        model.fit_stream(iter([counts()]), passes=2)
    with pytest.raises(ValueError, match="no batches"):
        model.fit_stream([])
    with pytest.raises(ValueError, match="batches=None are no batches"):
        model.fit_stream(None)
    with pytest.raises(ValueError, match="batch 1 is a dict of Y: give X, and with it only W, H"):
        model.fit_stream([counts(), {"Y": counts()}])


def _with(value: float) -> Any:
    X = counts(60)
    X[3, 2] = value
    return X


@pytest.mark.parametrize("grow", [False, True])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_rows_that_are_refused_leave_a_stream_as_it_was(model: Any, grow: bool) -> None:
    X = counts(60)
    begun = clone(model).partial_fit(X, grow=grow)
    before, seen = begun.components_.copy(), begun.rows_seen_
    for bad in (_with(-1.0), _with(np.inf), sp.csr_array(_with(np.nan)), X[:0], sp.csr_array(X[:0]), X[0], X + 0j, "X"):
        with pytest.raises(ValueError, match=r".{20}"):
            begun.partial_fit(bad, grow=grow)
    np.testing.assert_array_equal(begun.components_, before)
    assert begun.rows_seen_ == seen


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_batch_may_be_of_any_kind(model: Any) -> None:
    """Also of another dtype than the first, of one row, or stored as SciPy's dict of keys, which is a Mapping."""
    X = counts(61)
    wanted = clone(model).fit_stream([X, X, X[:1]]).components_
    dtypes = [X.astype(dtype) for dtype in (np.float32, np.uint8, np.longdouble, ">f8")]
    forms = [form(X) for form in (np.asfortranarray, list, sp.csc_array, sp.coo_array, sp.dok_array)]
    for other in dtypes + forms:
        found = clone(model).fit_stream([X, other, X[:1]]).components_
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9 * wanted.max())


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_stream_that_is_interrupted_in_a_batch_stands_before_it(model: Any, monkeypatch: Any) -> None:
    X, begun = counts(120), clone(model).partial_fit(counts(60, seed=1))
    whole = clone(model).partial_fit(counts(60, seed=1)).partial_fit(X)

    def interrupted(*given: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as during:
        during.setattr("drnmf.solve.stream.solved", interrupted)
        with pytest.raises(KeyboardInterrupt):
            begun.partial_fit(X)
    np.testing.assert_array_equal(begun.partial_fit(X).components_, whole.components_)


def test_starts_of_another_shape_are_refused() -> None:
    X = counts()
    with pytest.raises(ValueError, match=r"H has shape \(4, 15\), but .* \(3, 15\)"):
        BetaNMF(3, init="custom").partial_fit(X, H=np.ones((4, X.shape[1])))
    model = BetaNMF(3, random_state=0).partial_fit(X)
    with pytest.raises(ValueError, match=r"W has shape \(2, 3\)"):
        model.partial_fit(X, W=np.ones((2, 3)))


@pytest.mark.parametrize(
    ("change", "message"),
    [({"n_components": 4}, "n_components=4, but the model has 3"), ({"beta": 2}, "are Fro, but .* begun with KL")],
)
def test_a_stream_keeps_its_losses_and_its_rank(change: Any, message: str) -> None:
    model = BetaNMF(3, beta=1, random_state=0).partial_fit(counts())
    with pytest.raises(ValueError, match=message):
        model.set_params(**change).partial_fit(counts())
    assert clone(model).partial_fit(counts()).n_components_ == model.n_components


def test_rows_beyond_the_range_of_numbers_leave_a_stream_as_it_was() -> None:
    model = DRNMF(3, betas=(1, 2), random_state=0).partial_fit(counts())
    before = model.components_.copy()
    with pytest.raises(ValueError, match="leave the range of float64 in the unit of the stream"):
        model.partial_fit(1e200 * counts())
    np.testing.assert_array_equal(model.components_, before)
    assert model.rows_seen_ == len(counts())


def test_scaled_losses_are_known_where_losses_are_too_small_for_numbers() -> None:
    ours, theirs = (DRNMF(3, betas=(1, 2), random_state=0).partial_fit(unit * counts()) for unit in (1.0, 2.0**-700))
    np.testing.assert_allclose(theirs.scaled_losses_, ours.scaled_losses_, rtol=1e-6)


def arriving(seed: int, sparse: bool = False) -> list[Any]:
    """Batches of rows of two components, and of a third one from the sixth batch on."""
    rng = np.random.default_rng(seed)
    H = np.kron(np.eye(3), np.ones(8)) + 0.05
    W = rng.gamma(0.6, 1.0, (1200, 3))
    W[:600, 2] = 0.0
    X = rng.poisson(5.0 * W @ H).astype(float)
    return batches(sp.csr_array(X) if sparse else X, 120)


@pytest.mark.slow
@pytest.mark.parametrize("sparse", [False, True])
def test_a_component_is_added_where_rows_ask_for_it(sparse: bool) -> None:
    rows = arriving(0, sparse)
    model = BetaNMF(2, beta=1, random_state=0).fit_stream(rows[:5], grow=True)
    assert model.n_components_ == 2
    assert model.growth_ == ()
    old = model.components_.copy()
    for part in rows[5:]:
        model.partial_fit(part, grow=True)
    assert model.n_components_ == 3
    assert model.components_[2, 16:].mean() > 5 * model.components_[2, :16].mean()
    cosines = (
        (old * model.components_[:2]).sum(1)
        / np.linalg.norm(old, axis=1)
        / np.linalg.norm(model.components_[:2], axis=1)
    )
    assert cosines.min() > 0.95
    assert model.growth_[0].gain > 2 * model.growth_[0].error
    assert model.transform(rows[0]).shape == (120, 3)


def test_a_growing_stream_goes_on_from_its_file(tmp_path: Any) -> None:
    rows = arriving(1)
    model = DRNMF(2, betas=(1, 2), random_state=0).fit_stream(rows[:8], grow=True)
    model.save(tmp_path / "model.npz")
    other = load(tmp_path / "model.npz")
    for one in (model, other):
        one.partial_fit(rows[8], grow=True).partial_fit(rows[9], grow=True)
    np.testing.assert_array_equal(other.components_, model.components_)
    assert other.growth_ == model.growth_
    assert model.rows_seen_ == 1200 * 7 // 8


@pytest.mark.parametrize(
    ("first", "message"), [(0.0, "only zeros"), (np.nan, "No entry of X is observed"), (1e306, "their sum is not")]
)
def test_a_first_batch_that_tells_no_unit_is_refused(first: float, message: str) -> None:
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=message):
        BetaNMF(2, random_state=0).partial_fit((counts(40) + 1.0) * first)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_rows_too_large_for_a_stream_say_so(model: Any) -> None:
    X = counts(80) + 1.0
    begun = clone(model).partial_fit(X)
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="unit of the stream"):
        begun.partial_fit(X * 1e306)
    single = clone(model).partial_fit(X.astype(np.float32))
    with pytest.raises(ValueError, match="too large for the unit of the stream"):
        single.partial_fit(X * 1e50)  # beyond float32: they would be infinite there
    growing = clone(model).partial_fit(X, grow=True)
    with pytest.raises(ValueError, match="unit of the stream"):
        growing.partial_fit(X * 1e300, grow=True)


@pytest.mark.parametrize("size", [0.0, 1e-300, np.nan])
def test_rows_that_leave_nothing_over_add_no_component(size: float) -> None:
    X = counts(80)
    model = BetaNMF(2, random_state=0).partial_fit(X, grow=True).partial_fit(X * size, grow=True)
    assert model.components_.shape == (2, 15)
    assert np.isfinite(model.components_).all()
    assert np.isfinite(model.dispersions_).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_what_many_rows_leave_over_is_found_beside_one_heavy_row(sparse: bool) -> None:
    rng = np.random.default_rng(0)
    H = np.kron(np.eye(3), np.ones(10)) + 0.05
    W = rng.gamma(0.6, 1.0, (300, 3))
    W[60:, 2] = 0.0
    X = rng.poisson(5.0 * W @ H).astype(float)
    X[-1] = rng.poisson(100.0 * rng.gamma(0.5, 1.0, 30))
    X = sp.csr_array(X) if sparse else X
    data = open_data(X)
    A = Encoding(H[:2], Objective((KL,), np.ones(1), data.mean), np.ones(1), 60, 1e-6).of(data).T
    new = leftover(data, X, A, H[:2], KL)
    assert new is not None
    assert new @ H[2] > 0.95 * np.linalg.norm(new) * np.linalg.norm(H[2])


def test_a_growing_stream_takes_several_passes() -> None:
    X = counts(123)
    model = BetaNMF(1, beta=2, random_state=0).fit_stream(batches(X, 41), passes=3, grow=True)
    assert model.rows_offered_ == 123
    with pytest.raises(ValueError, match="predicts columns from others"):
        BetaNMF(1, random_state=0).partial_fit(X[:, :1], grow=True)


def test_every_pass_holds_out_the_same_rows() -> None:
    X = counts(123)  # no multiple of eight
    once, thrice = (BetaNMF(3, random_state=0).fit_stream(batches(X, 41), passes, grow=True) for passes in (1, 3))
    np.testing.assert_array_equal(thrice.held_rows_.toarray(), X[7::8])
    np.testing.assert_array_equal(once.held_rows_.toarray(), X[7::8])


def test_a_growing_stream_takes_a_last_batch_of_one_row() -> None:
    X = counts(40)  # the last row is an eighth one
    once, twice = (BetaNMF(3, random_state=0).fit_stream(batches(X, 39), passes, grow=True) for passes in (1, 2))
    assert once.rows_seen_ == 36
    np.testing.assert_array_equal(once.held_rows_.toarray(), X[7:39:8])
    np.testing.assert_array_equal(twice.held_rows_.toarray(), X[7:39:8])


def test_a_stream_that_begins_to_grow_waits_for_rows_that_are_held_out() -> None:
    X = counts(60)
    model = BetaNMF(3, random_state=0).partial_fit(X[:50]).partial_fit(X[50:53], grow=True)
    assert (model.n_components_, model.held_rows_.shape[0], model.rows_seen_) == (3, 0, 53)


@pytest.mark.parametrize("shape", [(60, 1), (1, 15), (60, 15)], ids=str)
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_weights_that_are_all_alike_change_nothing(model: Any, shape: tuple[int, int]) -> None:
    X = counts(180) + 0.0
    plain = clone(model).fit_stream(batches(X, 60), passes=2)
    weighted = [{"X": part, "entry_weight": np.full(shape, 2.5)} for part in batches(X, 60)]
    found = clone(model).fit_stream(weighted, passes=2)
    np.testing.assert_allclose(found.components_, plain.components_, rtol=1e-6, atol=1e-9 * plain.components_.max())
    np.testing.assert_allclose(found.losses_, 2.5 * plain.losses_, rtol=1e-9)


def test_every_pass_goes_through_the_same_batches() -> None:
    X, turns = counts(100), iter([(60, 40), (40, 60)])
    with pytest.raises(ValueError, match="A batch has 40 rows, and 60 when it came before"):
        BetaNMF(2, random_state=0).fit_stream(lambda: np.split(X, [next(turns)[0]]), passes=2)
    with pytest.raises(ValueError, match="no batches of rows"):
        BetaNMF(2).fit_stream({"X": X})


def test_a_start_of_zeros_is_raised_to_the_floor() -> None:
    model = BetaNMF(2, init="custom", random_state=0).partial_fit(counts(50), H=np.zeros((2, 15)))
    assert np.isfinite(model.mean_row_).all()


def of_all_sizes(seed: int, rows: int = 800, columns: int = 120) -> Any:
    """Counts of rows of which the heaviest few are most of the squares."""
    rng = np.random.default_rng(seed)
    W, H = rng.gamma(0.2, 1.0, (rows, 6)), rng.gamma(0.2, 1.0, (6, columns))
    return rng.poisson(2.0 * rng.lognormal(0.0, 1.5, (rows, 1)) * (W @ H)).astype(float)


def test_the_heaviest_rows_do_not_fade() -> None:
    over = []
    for seed in range(4):
        X = of_all_sizes(seed)
        whole = BetaNMF(6, beta=2, random_state=0, max_iter=300).fit(X)
        model = BetaNMF(6, beta=2, random_state=0).fit_stream(batches(X, 40))
        over.append(loss_of(model, X)[0] / whole.losses_[0])
    assert np.median(over) < 1.1


@pytest.mark.parametrize("given", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_heavy_row_that_comes_again_is_known_and_stays_what_it_is(given: Any, tmp_path: Any) -> None:
    X = of_all_sizes(0)
    model = BetaNMF(6, beta=2, random_state=0).fit_stream([given(part) for part in batches(X, 40)], passes=2)
    heavy = model.stream_.followers[0].heavy
    found = heavy.matrix(X.shape[1]).toarray() / model.stream_.scale
    assert len(np.unique(found, axis=0)) == len(found)
    assert 6 < len(found) <= 24
    assert all((row == X).all(axis=1).any() for row in found)
    np.testing.assert_allclose(heavy.shares, 1.0 / len(X))
    model.save(tmp_path / "model.npz")
    other = load(tmp_path / "model.npz")
    for one in (model, other):
        one.partial_fit(given(X[:40])).partial_fit(given(X[40:80]))
    np.testing.assert_array_equal(other.components_, model.components_)


def test_only_entries_that_rows_ask_for_more_of_are_spread_where_they_come_again():
    """Else steps that multiply take hundreds of batches from 1e-12, and the zeros of an exact fit would go."""
    H = np.array([[1e-12, 4.0, 0.0], [4.0, 2.0, 1.0]])
    falling = np.array([[2e-12, 3.0, 0.0], [4.0, 1.0, 1.0]])  # A of Kullback-Leibler, N h
    sums = Sums(falling, np.ones((2, 1)))
    again = _spread(sums, 0.01, KL, H).falling
    assert again[0, 0] > 1e-3
    kept = np.array([[False, True, True], [True, True, True]])
    np.testing.assert_array_equal(again[kept], falling[kept])
    assert (_spread(sums, 0.01, KL).falling > 0).all()
