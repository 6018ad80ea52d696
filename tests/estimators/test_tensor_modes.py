"""CP with penalties, fixed components and sums of one, each for one mode by its number or its dimension."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

import drnmf
from drnmf import CP, L1, L2, BetaNMF, Smooth, Solver, Sparsity, Volume
from drnmf.estimators.tensor import Cube, mode_penalties

SHAPE = (12, 9, 8)
RNG = np.random.default_rng(0)
TRUTH = [RNG.gamma(0.7, 2.0, (size, 3)) for size in SHAPE]
X = RNG.poisson(np.einsum("ir,jr,kr->ijk", *TRUTH)) + 0.5
HOW = {"betas": 1, "random_state": 0, "max_iter": 40, "tol": 0}


def falls(model):
    objective = model.trace_.losses[:, 0] + model.trace_.penalty
    return bool(np.all(np.diff(objective) <= 1e-10 * objective[0]))


def by_hand(term, factors, mode):
    """The penalty of the matrix whose columns are the mode, H its factor, W the products of all others."""
    H = factors[mode].T
    others = [factors[k] for k in range(3) if k != mode]
    W = np.einsum("ir,jr->ijr", *others).reshape(-1, H.shape[0])
    mean, r, n = X.mean(), *H.shape
    level = float((X * np.log(X / mean) - X + mean).sum())
    D = H.sum(axis=1)
    return (
        term.alpha
        * {
            "l1": lambda: H.sum(),
            "l2": lambda: 0.5 * (H**2).sum(),
            "sparsity": lambda: level / (mean * np.sqrt(len(W)) * n) * (np.linalg.norm(W, axis=0) @ D),
            "volume": lambda: level / r * np.linalg.slogdet(np.eye(r) + n * (H @ H.T) / np.outer(D, D) / 0.1)[1],
            "smooth": lambda: level / r * n * (((H[:, 1:] - H[:, :-1]) ** 2).sum(axis=1) / D**2).sum(),
        }[term.word]()
    )


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize(
    "term", [L1(3.0), L2(2.0), Sparsity(0.02), Volume(0.01), Smooth(0.05)], ids=lambda term: term.word
)
def test_a_penalty_of_a_mode_is_that_of_its_matrix_and_never_raises_the_objective(term, mode):
    model = CP(3, penalties=[term.of_mode(mode)], **HOW).fit(X)
    assert falls(model)
    assert model.penalty_ == pytest.approx(by_hand(term, model.factors_, mode), rel=1e-9)
    if not isinstance(term, L1 | L2):  # whose value depends on the scale that another mode has
        free = CP(3, **HOW).fit(X)
        assert model.losses_[0] + model.penalty_ < free.losses_[0] + by_hand(term, free.factors_, mode)


def test_L1_without_a_mode_is_that_of_every_mode():
    one = CP(2, penalties="l2:1.5", **HOW).fit(X)
    each = CP(2, penalties=[f"l2:1.5:mode={mode}" for mode in range(3)], **HOW).fit(X)
    np.testing.assert_array_equal(one.trace_.penalty, each.trace_.penalty)
    assert one.penalty_ == pytest.approx(sum(by_hand(L2(1.5), one.factors_, mode) for mode in range(3)), rel=1e-9)


@pytest.mark.parametrize(("mode", "on"), [(0, "W"), (1, "H")])
@pytest.mark.parametrize("term", [L1(3.0), Sparsity(0.02), Smooth(0.05)], ids=lambda term: term.word)
def test_two_modes_are_the_sides_of_a_matrix_to_the_last_bit(term, mode, on):
    flat = X.reshape(12, -1)[:, :20]
    sided = Smooth(0.05, axis=mode) if isinstance(term, Smooth) else type(term)(term.alpha, on)
    matrix = BetaNMF(3, beta=1, penalties=[sided], random_state=0, max_iter=30, tol=0).fit(flat)
    tensor = CP(3, penalties=[term.of_mode(mode)], **HOW | {"max_iter": 30}).fit(flat)
    np.testing.assert_array_equal(tensor.trace_.losses, matrix.trace_.losses)
    np.testing.assert_array_equal(tensor.trace_.penalty, matrix.trace_.penalty)


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("betas", [1, 2, (0, 2)], ids=str)
def test_every_row_of_the_factor_of_a_mode_sums_to_one(mode, betas):
    model = CP(3, sum_to_one=mode, **HOW | {"betas": betas}).fit(X)
    np.testing.assert_allclose(model.factors_[mode].sum(axis=1), 1.0, rtol=1e-12)
    again = CP(3, sum_to_one=mode, **HOW | {"betas": betas}).fit(X * 4.0**20)
    np.testing.assert_array_equal(again.factors_[mode], model.factors_[mode])
    if betas == 1:
        assert falls(model)


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_fixed_components_stay_and_all_others_fit_beside_them(mode):
    given = TRUTH[mode][:, :2] / TRUTH[mode][:, :2].mean()
    model = CP(3, fixed={mode: given}, **HOW).fit(X)
    np.testing.assert_allclose(model.factors_[mode][:, :2], given, rtol=1e-14)
    assert falls(model)
    whole = CP(3, fixed={k: TRUTH[k] / TRUTH[k].mean() for k in range(3) if k != mode}, **HOW).fit(X)
    A, B = whole.factors_[mode], TRUTH[mode]
    assert np.corrcoef(A.ravel(), B.ravel())[0, 1] > 0.98  # Kullback-Leibler of one mode alone: convex


def test_new_slices_obey_what_the_first_mode_obeys():
    sums = CP(3, sum_to_one=0, **HOW).fit(X)
    np.testing.assert_allclose(sums.transform(X[:5]).sum(axis=1), 1.0, rtol=1e-9)
    plain, sparse = CP(3, **HOW).fit(X), CP(3, penalties=[Sparsity(0.3, mode=0)], **HOW).fit(X)
    assert sparse.transform(X[:5]).sum() < 0.98 * plain.transform(X[:5]).sum()
    with pytest.raises(ValueError, match="other slices have none"):
        CP(3, fixed={0: TRUTH[0][:, :1]}, **HOW).fit(X).transform(X[:2])


def test_runs_that_continue_under_other_references_keep_the_constraint():
    model = CP(3, betas=(0, 1), sum_to_one=1, random_state=0, max_iter=60).fit(X)
    np.testing.assert_allclose(model.factors_[1].sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("bound", [{"sum_to_one": 2}, {"fixed": {0: TRUTH[0][:, :1]}}], ids=["sums", "fixed"])
def test_a_stopped_fit_with_a_constraint_goes_on(tmp_path, bound):
    def stop(progress):
        if progress.iteration == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        CP(2, **bound, solver=Solver(checkpoint=tmp_path, checkpoint_every=0, callback=stop), **HOW).fit(X)
    whole = CP(2, **bound, **HOW).fit(X)
    resumed = CP(2, **bound, solver=Solver(checkpoint=tmp_path), **HOW).fit(X)
    for ours, theirs in zip(resumed.factors_, whole.factors_, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_file_keeps_what_modes_obey(tmp_path):
    terms = [Smooth(0.1, mode=2), Sparsity(0.1, mode=0)]
    model = CP(2, fixed={1: TRUTH[1][:, :1]}, penalties=terms, **HOW).fit(X)
    model.save(tmp_path / "model.npz")
    again = drnmf.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert again.penalties == terms
    for ours, theirs in zip(again.fit(X).factors_, model.factors_, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_modes_are_named_by_dimensions():
    cube = Cube.of(SimpleNamespace(dims=("day", "site", "kind"), values=X, coords={}))
    assert [cube.mode(name, "fixed") for name in ("day", "kind", 1)] == [0, 2, 1]
    assert [term.mode for term in mode_penalties("smooth:0.1:mode=kind", cube)] == [2]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"sum_to_one": 3}, "its modes are 0 to 2"),
        ({"fixed": {"day": np.ones((12, 1))}}, "fixed names the mode 'day'"),
        ({"fixed": {1: np.ones((4, 1))}}, "mode 1 of X has 9"),
        ({"fixed": {1: -np.ones((9, 1))}}, "negative"),
        ({"fixed": [1]}, r"fixed=\[1\] must be a dict of modes"),
        ({"init": "custom"}, r"init='custom' needs factors: give .* one start for every mode"),
        ({"penalties": "sparsity:0.1"}, "sparsity:0.1:mode=1"),
        ({"penalties": "l1:0.1:W"}, "mode=0, 1"),
        ({"solver": Solver(fixed_W=np.ones((12, 1)))}, "is for matrices"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_no_mode_can_satisfy_is_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        CP(2, **parameters).fit(X)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (72, r"shape=72 must list the sizes of all modes"),
        ("abc", "shape='abc' must list"),
        ((12, 9.5, 8), r"shape\[1\]=9.5 must be an integer"),
        ((12, 9, 7), r"asks for 63 columns.* but X has 72"),
    ],
)
def test_a_shape_that_is_not_that_of_the_unfolding_is_refused(shape, message, sparse):
    flat = X.reshape(12, -1)
    with pytest.raises(ValueError, match=message):
        CP(2, shape=shape).fit(sp.csr_array(flat) if sparse else flat)


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ([np.ones((12, 2))], "factors: got 1 for the 3 modes of X"),
        (3, "factors: got int for the 3 modes"),
        ([np.ones((12, 2)), np.ones((9, 3)), np.ones((8, 2))], r"factors\[1\] has shape \(9, 3\).* ask for \(9, 2\)"),
    ],
)
def test_factors_that_are_no_start_are_refused(factors, message):
    with pytest.raises(ValueError, match=message):
        CP(2, init="custom").fit(X, factors=factors)
    with pytest.raises(ValueError, match="init='auto' does not use factors"):
        CP(2).fit(X, factors=factors)


def test_new_slices_need_a_fit():
    with pytest.raises(NotFittedError):
        CP(2).transform(X)


def test_weights_of_another_shape_and_unfolded_lists():
    with pytest.raises(ValueError, match=r"entry_weight has shape \(12, 9\), which does not broadcast"):
        CP(2).fit(X, entry_weight=np.ones((12, 9)))
    ours, theirs = (CP(2, random_state=0, max_iter=3, shape=X.shape).fit(A) for A in (X, X.reshape(12, -1).tolist()))
    np.testing.assert_array_equal(ours.components_, theirs.components_)
