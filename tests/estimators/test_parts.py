"""The maximum over groups of rows, over rows, and with losses that forgive outliers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import drnmf
from drnmf import DRNMF, L1, BetaNMF, Huber, MultiObjectiveNMF, Rowwise, Solver
from drnmf.algorithms.loop import Control
from drnmf.backends.base import Ask, in_unit, losses_of
from drnmf.backends.observed import Outer, weigh
from drnmf.backends.open import open_data
from drnmf.backends.parted import Parted
from drnmf.losses.names import as_losses
from drnmf.losses.part import Part
from drnmf.problem.parts import groups_of, parted, parts_alone
from drnmf.problem.problem import Problem
from drnmf.problem.receive import Received
from drnmf.solve.runner import Budget, Runner
from drnmf.solve.solve import solve

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RNG = np.random.default_rng(0)
SHARED = RNG.gamma(1.0, size=(30, 2)) @ RNG.gamma(1.0, size=(2, 14))
X = SHARED + 0.1 * RNG.uniform(size=(30, 14))
X[20:] += RNG.gamma(1.0, size=(10, 1)) @ RNG.gamma(1.0, size=(1, 14))
GROUPS = np.array(["a"] * 20 + ["b"] * 10)
W, H = RNG.uniform(0.1, 1.0, (30, 2)), RNG.uniform(0.1, 1.0, (2, 14))
GAPS = np.where(RNG.uniform(size=X.shape) < 0.1, np.nan, X)
FORMS = {"dense": X, "sparse": sp.csr_array(np.where(X < 1.0, 0.0, X)), "gaps": GAPS, "float32": X.astype(np.float32)}


def problem_under(omega, entries=X):
    data = in_unit(open_data(entries))
    return Problem.opened(data, Received(entries)).asked(2, as_losses(omega))


def objectives(problem, division, **scale):
    alone = parts_alone(problem, division)
    parts = tuple(
        Part(loss, g, label, **scale) for g, label in enumerate(division.labels) for loss in problem.omega
    )  # fmt: skip
    return parted(problem, division, alone).under(parts, np.ones(len(parts)))


def run(problem, weights=None, update="monotone", iterations=40):
    runner = Runner.of(update, "fixed")
    runner = replace(runner, budget=Budget(Control(max_iter=iterations, tol=0.0), runs=1))
    runner = runner if weights is None else runner.weighted(weights, "fit")
    return solve([problem.begun((W.copy(), H.copy()))], runner)[0]


@pytest.mark.parametrize("omega", [(1,), (2,), (0.5,)], ids=str)
def test_every_row_a_group_of_scale_one_is_the_plain_fit(omega):
    problem = problem_under(omega)
    _, division = groups_of(X, np.arange(30))
    plain = run(problem.alone(problem.omega[0]))
    rows = run(objectives(problem, division, divisor=1.0))
    assert np.allclose(rows.W @ rows.H, plain.W @ plain.H, rtol=1e-12)
    assert np.isclose(rows.losses.sum(), plain.losses[0], rtol=1e-12)


@pytest.mark.parametrize("update", ["mu", "monotone", "auto"])
@pytest.mark.parametrize("root", [False, True])
def test_the_weighted_sum_of_objectives_never_rises(update, root):
    problem = problem_under((2,))
    _, division = groups_of(X, GROUPS)
    parts = objectives(problem, division, offset=1.0, divisor=50.0, root=root)
    trace = run(parts, weights=(0.2, 0.8), update=update, iterations=60).trace
    sums = trace.scaled_losses @ np.array([0.2, 0.8])
    assert (np.diff(np.minimum.accumulate(sums)) <= 0).all()
    assert sums[-1] < 0.9 * sums[0]
    if update != "auto":
        assert (np.diff(sums) <= 1e-12 * sums[:-1]).all()


@pytest.mark.parametrize("loss", [Rowwise(2, "sqrt"), Rowwise(1, "log"), Huber(0.3)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("update", ["mu", "auto"])
def test_losses_of_rows_and_huber_never_rise(loss, update):
    trace = BetaNMF(2, beta=loss, solver=update, tol=0, max_iter=60, random_state=0).fit(X).trace_.losses[:, 0]
    assert (np.diff(trace) <= 1e-12 * trace[:-1]).all()


@pytest.mark.parametrize(
    "loss", [Rowwise(2, "sqrt", 1.0), Rowwise(1, "log", 1.0), Part(as_losses(2)[0], 1, "b", 1.0, 9.0, True)]
)
@pytest.mark.parametrize("form", list(FORMS))
def test_parts_of_a_sweep_are_the_gradient(loss, form):
    entries = FORMS[form]
    problem = problem_under((2,) if isinstance(loss, Part) else (loss.base,), entries)
    _, division = groups_of(entries, GROUPS)
    data = objectives(problem, division).data
    A, B, omega = W.astype(data.dtype), H.astype(data.dtype), (loss,)
    for side, left, right in ((data, A, B), (data.T, B.T, A.T)):
        left, right = np.asfortranarray(left), np.ascontiguousarray(right)
        swept = side.sweep(left, right, Ask(omega))
        step = 1e-2 if data.dtype == np.float32 else 1e-6
        up, down = right.copy(), right.copy()
        up[1, 3], down[1, 3] = right[1, 3] + step, right[1, 3] - step
        above, below = (side.sweep(left, moved, Ask(omega, None)).losses[0] for moved in (up, down))
        slope, rtol = (above - below) / (2 * step), 2e-2 if data.dtype == np.float32 else 1e-5
        assert np.isclose((swept.P - swept.N)[0, 1, 3], slope, rtol=rtol, atol=1e-6)
        weighed = side.sweep(left, right, Ask(omega, np.array([2.0]), True, np.array([2.0]), sized=True))
        assert np.allclose(weighed.N, 2 * swept.N, rtol=1e-4 if data.dtype == np.float32 else 1e-10)
        assert weighed.Q.shape == (3, right.shape[1])
        shared = side.sweep(left, right, Ask(omega, np.array([2.0]), True, np.array([2.0])))
        assert (shared.gram is None) == (form == "gaps" or loss.base.beta != 2)
        if shared.gram is not None:  # one curvature for all columns: what is minimised in each is in proportion
            slope, own = shared.gram @ right - shared.N[0], (swept.P - swept.N)[0]
            sizes = [np.linalg.norm(part, axis=0) for part in (own, slope)]
            assert np.allclose(slope * sizes[0], own * sizes[1], atol=1e-3 if data.dtype == np.float32 else 1e-9)


@pytest.mark.parametrize("betas", [(2,), (2, Rowwise(2, "sqrt"), Rowwise(2, "log"))], ids=["groups", "rows"])
@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "weights"])
def test_one_curvature_for_all_columns_lowers_the_weighted_sum(betas, scaled):
    omega = as_losses([replace(beta, level=1.0) if isinstance(beta, Rowwise) else beta for beta in betas])
    weights = RNG.uniform(0.5, 2.0, 30) if scaled else None
    data = in_unit(open_data(X))
    data = data if weights is None else weigh(data, Outer(weights, np.ones(14)), None)
    problem = Problem.opened(data, Received(X)).asked(2, omega)
    if len(betas) == 1:
        problem = objectives(problem, groups_of(X, GROUPS)[1], offset=1.0, divisor=50.0, root=True)
    else:
        problem = replace(problem, data=Parted(data)).over(np.ones(3))
    runner = replace(Runner.of("hals", "auto"), budget=Budget(Control(max_iter=30, tol=0.0), runs=1))
    trace = solve([problem.begun((W.copy(), H.copy()))], runner)[0].trace
    moved = (trace.scaled_losses[1:] * trace.weights[:-1]).sum(1)  # the step is taken under the weights before it
    before = (trace.scaled_losses[:-1] * trace.weights[:-1]).sum(1)
    assert (moved <= before + 1e-12 * abs(before)).all()
    assert np.ptp(trace.weights[:, 0]) > 0.01


def test_penalties_beside_weights_of_rows_reach_a_stationary_point():
    model = BetaNMF(2, beta=2, penalties=[L1(0.2, on="W"), L1(0.2, on="H")], init="custom", tol=0, max_iter=2500)
    weights = np.where(np.arange(30) < 15, 4.0, 0.5)
    A = model.fit_transform(X, W=W, H=H, sample_weight=weights)
    B, off = model.components_, A @ model.components_ - X
    for slope, F in ((weights[:, None] * (off @ B.T), A), (A.T @ (weights[:, None] * off), B)):
        assert abs(np.minimum(slope + 0.2, F)).max() < 0.02


def test_one_group_is_no_group():
    plain = DRNMF(2, random_state=0, max_iter=50).fit(X)
    one = DRNMF(2, random_state=0, max_iter=50).fit(X, groups=["all"] * 30)
    assert np.array_equal(plain.components_, one.components_)
    assert one.groups_ is None


def fitted(entries, groups, betas=(2,), **settings):
    return DRNMF(2, betas=betas, max_iter=60, random_state=0, **settings).fit(entries, groups=groups)


@pytest.mark.parametrize("betas", [(1,), (2,), (1, 2)], ids=str)
def test_the_largest_scaled_loss_is_never_above_the_plain_fits(betas):
    model = DRNMF(2, betas=betas, init="custom", max_iter=60)
    grouped = model.fit(X, W=W, H=H, groups=GROUPS)
    rows = BetaNMF(2, beta=betas[0]) if len(betas) == 1 else DRNMF(2, betas=betas)
    rows.set_params(init="custom", max_iter=60)
    V = rows.fit_transform(X, W=W, H=H) @ rows.components_
    losses = [drnmf.beta_divergence(X[g == GROUPS], V[g == GROUPS], beta) for g in "ab" for beta in betas]
    plain = np.array([part.value(loss) for part, loss in zip(grouped.omega_, losses, strict=True)])
    assert grouped.scaled_losses_.max() <= plain.max() * (1 + 1e-9)
    assert grouped.loss_names_[0].endswith(", a")
    assert (grouped.losses_ >= grouped.references_ * (1 - 1e-2)).all()


def test_the_order_of_rows_and_the_names_of_groups_do_not_matter():
    order = np.random.default_rng(1).permutation(30)
    model = DRNMF(2, betas=(2,), init="custom", max_iter=60)
    first = model.fit(X, W=W, H=H, groups=GROUPS).scaled_losses_.copy()
    renamed = np.where(GROUPS == "a", "z", "b")
    second = model.fit(X[order], W=W[order], H=H, groups=renamed[order]).scaled_losses_
    assert np.allclose(first, second[::-1], rtol=1e-4)


@pytest.mark.parametrize("betas", [(2,), (Rowwise(2, "sqrt"), 2)], ids=["groups", "rows"])
def test_a_weight_of_two_is_a_row_that_is_there_twice(betas):
    weights = np.arange(30) % 3
    twice, groups = np.repeat(np.arange(30), weights), None if len(betas) > 1 else GROUPS
    model = DRNMF(2, betas=betas, init="custom", max_iter=200)
    weighted = model.fit(X, W=W, H=H, sample_weight=weights, groups=groups).losses_.copy()
    repeated = model.fit(X[twice], W=W[twice], H=H, groups=None if groups is None else groups[twice]).losses_
    assert np.allclose(weighted, repeated, rtol=2e-3)


@pytest.mark.parametrize("form", list(FORMS))
def test_groups_in_every_form(form):
    model = DRNMF(2, max_iter=15, n_jobs=2, n_init=2, random_state=0).fit(FORMS[form], groups=GROUPS)
    assert model.loss_names_ == ["KL, a", "Fro, a", "KL, b", "Fro, b"]
    assert np.isfinite(model.scaled_losses_).all()
    assert np.isfinite(model.transform(FORMS[form])).all()
    assert model.row_weights_.shape == (30,)


def test_ratios_are_losses_over_what_groups_reach_alone():
    model = fitted(X, GROUPS, solver=Solver(part_scale="ratio"))
    assert np.allclose(model.scaled_losses_, model.losses_ / model.references_)


def test_references_of_groups_may_be_given():
    own = fitted(X, GROUPS)
    again = fitted(X, GROUPS, solver=Solver(references=own.references_))
    assert np.allclose(own.scaled_losses_, again.scaled_losses_)


def test_a_sum_over_groups_has_weights_of_losses_or_of_all():
    model = MultiObjectiveNMF(2, betas=(1, 2), weights=(0.2, 0.8), max_iter=40, random_state=0).fit(X, groups=GROUPS)
    assert np.allclose(model.weights_, [0.1, 0.4, 0.1, 0.4])
    every = MultiObjectiveNMF(2, betas=(1, 2), weights=(0.1, 0.4, 0.1, 0.4), max_iter=40, random_state=0)
    assert np.allclose(every.fit(X, groups=GROUPS).losses_, model.losses_)


def test_groups_are_a_column_of_a_frame_and_are_routed():
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(14)]).assign(hospital=GROUPS)
    named = fitted(frame, "hospital")
    assert list(named.feature_names_in_) == [f"c{j}" for j in range(14)]
    assert np.allclose(named.components_, fitted(X, GROUPS).components_)
    with config_context(enable_metadata_routing=True):
        model = DRNMF(2, betas=(2,), max_iter=60, random_state=0).set_fit_request(groups=True)
        pipe = make_pipeline(MaxAbsScaler(), model).fit(X, groups=GROUPS)
    assert pipe[-1].groups_ == ["a", "b"]


@pytest.mark.parametrize("search", [False, True], ids=["cross_val_score", "GridSearchCV"])
def test_groups_are_split_with_the_rows(search):
    """A label for every row of the fold, and not of X: one that is too many would be refused."""
    with config_context(enable_metadata_routing=True):
        model = DRNMF(2, betas=(2,), max_iter=10, random_state=0).set_fit_request(groups=True)
        folds = KFold(3, shuffle=True, random_state=0)
        if search:
            found = GridSearchCV(model, {"n_components": [1, 2]}, cv=folds).fit(X, groups=GROUPS)
            assert found.best_estimator_.groups_ == ["a", "b"]
        else:
            assert np.isfinite(cross_val_score(model, X, cv=folds, params={"groups": GROUPS})).all()


def test_models_with_groups_and_rows_are_saved(tmp_path):
    for model in (fitted(X, GROUPS, (1, 2)), BetaNMF(2, beta=Rowwise(2, "log"), max_iter=40, random_state=0).fit(X)):
        model.save(tmp_path / "model.npz")
        again = drnmf.load(tmp_path / "model.npz")
        assert again.omega_ == model.omega_
        assert np.array_equal(again.transform(X), model.transform(X))


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (["a"] * 3, "has shape"),
        (["a"] * 29 + [float("nan")], r"groups\[29\] is missing"),
        (["a"] * 29 + [None], r"groups\[29\] is missing"),
        (pd.array(["a"] * 29 + [pd.NA], dtype="string"), r"groups\[29\] is missing"),
        (np.array(["1"] * 15 + [1] * 15, dtype=object), "read alike"),
        (["1"] * 15 + [1] * 15, "read alike"),
        ("hospital", "names no column"),
    ],
)
def test_groups_that_do_not_fit_are_refused(groups, message):
    with pytest.raises(ValueError, match=message):
        fitted(X, groups)


def test_lists_of_numpys_scalars_are_labels():
    labels = np.repeat([0, 1], 15)
    for kind in (int, float, bool, str, np.longdouble):
        assert len(fitted(X, list(labels.astype(kind))).groups_) == 2


def test_days_are_called_days():
    days = np.repeat(pd.to_datetime(["2020-01-01", "2021-01-01"]), 15)
    assert [label[:10] for label in fitted(X, days).groups_] == ["2020-01-01", "2021-01-01"]


@pytest.mark.parametrize("value", [0.0, 3.0])
@pytest.mark.parametrize("beta", [1, 2])
def test_a_group_of_one_value_does_not_outweigh_the_others(beta, value):
    """Its simplest model costs nothing, and a regret in units of nothing would be all that counts."""
    Y = X.copy()
    tens, Y[:10] = np.repeat([1, 2, 3], 10), value
    model, plain = (DRNMF(3, betas=(beta,), max_iter=60, random_state=0).fit(Y, groups=g) for g in (tens, None))
    assert np.isfinite(model.scaled_losses_).all()
    assert model.losses_.sum() <= 1.6 * plain.losses_[0]


def test_groups_of_a_tiny_x_are_fitted():
    """In its unit the scales of beta = 2 are zero."""
    assert np.array_equal(fitted(X * 2.0**-600, GROUPS).weights_, fitted(X, GROUPS).weights_)


def test_one_loss_without_a_maximum_takes_no_groups():
    with pytest.raises(ValueError, match="use DRNMF"):
        BetaNMF(2).fit(X, groups=GROUPS)
    with pytest.raises(ValueError, match="Interval"):
        DRNMF(2, betas=drnmf.Interval(0.5, 2)).fit(X, groups=GROUPS)


def test_spoiled_rows_count_less():
    rng = np.random.default_rng(2)
    spoiled = SHARED + 0.1 * rng.uniform(size=X.shape)
    spoiled[:3] += rng.uniform(0.0, 3.0, size=(3, 14))
    model = DRNMF(2, betas=(Rowwise(2, "log"), Rowwise(2, "sqrt")), max_iter=100, random_state=0).fit(spoiled)
    assert model.row_weights_[:3].max() < 0.7
    assert np.median(model.row_weights_) == pytest.approx(1.0)


def test_huber_forgives_single_entries():
    rng = np.random.default_rng(3)
    truth = rng.gamma(1.0, size=(40, 3)) @ rng.gamma(1.0, size=(3, 30))
    noisy = truth + 0.01 * rng.uniform(size=truth.shape)
    noisy = np.where(rng.uniform(size=truth.shape) < 0.03, 10 * noisy, noisy)
    errors = []
    for loss in (2, Huber("auto")):
        model = BetaNMF(3, beta=loss, max_iter=300, random_state=0)
        errors.append(np.linalg.norm(model.fit_transform(noisy) @ model.components_ - truth))
    assert errors[1] < 0.2 * errors[0]
    assert model.loss_names_[0].startswith("Huber(")
    far = BetaNMF(3, beta=Huber(1e9), tol=0, max_iter=20, solver="mu", random_state=0).fit(X)
    near = BetaNMF(3, beta=2, tol=0, max_iter=20, solver="mu", random_state=0).fit(X)
    assert np.allclose(far.components_, near.components_, rtol=1e-9)


def test_the_delta_of_a_loss_of_rows_is_found_too():
    model = DRNMF(2, betas=[Rowwise(Huber("auto"), "sqrt")], max_iter=10, tol=0, random_state=0).fit(X)
    alone = BetaNMF(2, beta=Huber("auto"), max_iter=10, tol=0, random_state=0).fit(X)
    assert model.loss_names_ == [f"sqrt {alone.loss_names_[0]} of rows"]


def test_losses_of_parts_are_those_of_their_rows():
    problem = problem_under((1, 2))
    _, division = groups_of(X, GROUPS)
    data = objectives(problem, division).data
    found = losses_of(data, W, H, objectives(problem, division).omega)
    scale, V = data.scale, W @ H
    expected = [drnmf.beta_divergence(scale * X[g == GROUPS], V[g == GROUPS], beta) for g in "ab" for beta in (1, 2)]
    assert np.allclose(found, expected)


def test_weights_of_groups_are_those_of_the_step_of_H():
    """A row of W is of one group: its step weighs nothing against anything, and said that all groups count alike."""
    rng = np.random.default_rng(0)
    X = rng.random((60, 3)) @ rng.random((3, 20)) + 0.05 * rng.random((60, 20))
    X[40:] = rng.random((20, 4)) @ rng.random((4, 20))
    model = DRNMF(3, betas=[1], random_state=0, max_iter=60).fit(X, groups=np.repeat(["a", "b", "c"], 20))
    assert int(np.argmax(model.weights_)) == 2
    assert model.weights_.max() > 0.45
