"""A kept fit: what it resumes, what it refuses, and what it counts."""

from __future__ import annotations

import logging
import shutil
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import drnmf
from drnmf import DRNMF, BetaNMF, Interval, MultiObjectiveNMF, Solver
from drnmf.algorithms.loop import Control
from drnmf.algorithms.updates import RULES
from drnmf.algorithms.weights import POLICIES, Policy
from drnmf.backends.open import open_data
from drnmf.solve.runner import Budget
from drnmf.storage.checkpoint import Checkpoint, CheckpointError
from tests.flat import make, pareto_front
from tests.keeping import After, Stopped, dr, files, fitted, same, stop
from tests.kept_fits import ROUNDS, matrix, outcome

pytestmark = pytest.mark.usefixtures("synced")

METHODS = [(update, "auto") for update in sorted(RULES) if update != "hals"] + [
    ("auto", policy) for policy in sorted(POLICIES)
]
# "auto" reacts after 100 Frank-Wolfe steps: the shorter delay of "reactive" is what brings its state into play


@pytest.mark.parametrize(("update", "policy"), METHODS)
def test_every_rule_and_policy_goes_on(update, policy, tmp_path):
    X = matrix()
    whole = fitted(dr(update=update, policy=policy), X)
    model = dr(update=update, policy=policy)
    stop(model, X, tmp_path, 21)
    assert files(tmp_path, "state*") == ["state-0002-00000019.npz", "state-0002-00000020.npz"]
    same(fitted(model, X, tmp_path), whole)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_hals_goes_on(sparse, tmp_path):
    """The rule that is for beta = 2 alone."""
    X, arguments = matrix(sparse), {"beta": 2, "update": "hals", "max_iter": 30, "tol": 0, "random_state": 3}
    whole = fitted(make(BetaNMF, 3, **arguments), X)
    model = make(BetaNMF, 3, **arguments)
    stop(model, X, tmp_path, 17)
    same(fitted(model, X, tmp_path), whole)


@pytest.mark.parametrize("backend", ["native", "numpy"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("cls", [BetaNMF, MultiObjectiveNMF, DRNMF])
def test_every_layout_and_estimator_goes_on(backend, sparse, dtype, cls, tmp_path, monkeypatch):
    monkeypatch.setenv("DRNMF_BACKEND", backend)
    X = matrix(sparse, dtype)
    X = X.tocsc() if sparse else np.asfortranarray(X)
    arguments = {"max_iter": 12, "tol": 0, "n_init": 2, "random_state": 3}
    whole = fitted(cls(3, **arguments), X)
    model = cls(3, **arguments)
    stop(model, X, tmp_path, 17)
    same(fitted(model, X, tmp_path), whole)


def test_stopped_again_and_again(tmp_path):
    X, model = matrix(), dr(betas=ROUNDS, max_iter=40, update="mu", init="random")
    whole = fitted(dr(betas=ROUNDS, max_iter=40, update="mu", init="random"), X)
    assert len(whole["betas_"]) == 4
    for k in (7, 11, 4, 9, 6):
        stop(model, X, tmp_path, k)
    assert files(tmp_path, "run*")[-1] == "run-0005.npz"
    same(fitted(model, X, tmp_path), whole)


def test_a_finished_fit_returns_at_once(tmp_path, caplog):
    X, watch = matrix(), After(0)
    first = fitted(dr(), X, tmp_path)
    assert files(tmp_path) == ["begin.npz", "lock", "run-0000.npz", "run-0001.npz", "run-0002.npz"]
    with caplog.at_level(logging.INFO, "drnmf"):
        same(fitted(dr(callback=watch), X, tmp_path), first)
    assert watch.calls == 0
    assert [r.getMessage() for r in caplog.records] == [f"Resuming the fit in {tmp_path}: 3 of its runs have ended."]


def test_a_start_that_no_seed_knows_is_kept(tmp_path):
    X, model = matrix(), dr(random_state=None)
    stop(model, X, tmp_path / "a", 12)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    same(fitted(model, X, tmp_path / "a"), fitted(model, X, tmp_path / "b"))


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_ctrl_c_and_errors_leave_the_last_iteration_behind(error, tmp_path, caplog):
    X, model = matrix(), dr()
    stop(model, X, tmp_path, 18, every=1e9, error=error)
    assert files(tmp_path, "state*") == ["state-0002-00000017.npz"]
    with caplog.at_level(logging.INFO, "drnmf"):
        same(fitted(model, X, tmp_path), fitted(dr(), X))
    assert "Run 2 is resumed after iteration 17." in caplog.text


def test_snapshots_wait_for_their_time(tmp_path):
    stop(dr(), matrix(), tmp_path, 10, every=1e9, error=SystemExit)
    assert files(tmp_path, "state*") == ["state-0002-00000009.npz"]  # the one that the end left


def changed(X, i, j, by):
    X = X.copy()
    X[i, j] += by
    return X


@pytest.mark.parametrize(
    ("X", "what"),
    [
        (matrix()[:-1], r"shape: \[30, 20\] there, \[29, 20\] here"),
        (matrix().astype(np.float32), "dtype: 'float64' there, 'float32' here"),
        (changed(matrix(), 7, 7, 1e-15), "SHA-256 of the entries: "),
        (changed(matrix(), 7, 7, -matrix()[7, 7]), "number of zeros: 0 there, 1 here"),
        (matrix()[:, ::-1], "SHA-256 of the entries: "),
    ],
    ids=["shape", "dtype", "one entry", "zeros", "order"],
)
def test_another_X_is_refused(X, what, tmp_path):
    stop(dr(zeros="floor"), matrix(), tmp_path, 5)
    with pytest.raises(CheckpointError, match=f"another X .*{what}"):
        dr(zeros="floor", checkpoint=tmp_path).fit(X)


@pytest.mark.parametrize("sparse", [False, True])
def test_entries_that_leave_shape_zeros_and_mean_alone_are_seen(sparse, tmp_path):
    X = matrix(sparse=sparse)
    row = X.data[X.indptr[5] : X.indptr[6]] if sparse else X[5]
    assert row[0] != row[1]
    stop(dr(betas=(1, 2)), X, tmp_path, 5)
    row[[0, 1]] = row[[1, 0]]
    with pytest.raises(CheckpointError, match=r"another X \(SHA-256 of the entries: "):
        dr(betas=(1, 2), checkpoint=tmp_path).fit(X)


def test_the_same_X_in_another_layout_is_the_same_X(tmp_path):
    X, model = matrix(sparse=True), MultiObjectiveNMF(3, max_iter=20, tol=0, random_state=0)
    stop(model, X, tmp_path, 5)
    found = fitted(model, np.asfortranarray(X.toarray()), tmp_path)
    np.testing.assert_allclose(found["losses_"], fitted(model, X)["losses_"], rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"max_iter": 31}, "max_iter: 30 there, 31 here"),
        ({"betas": (0, 2)}, r"betas: \[0, 1\] there, \[0, 2\] here"),
        ({"betas": Interval(0, 2)}, r"betas: \[0, 1\] there, 'Interval\(low=0"),
        ({"random_state": 1, "policy": "mirror"}, "policy: 'auto' there, 'mirror' here; random_state: 0 there, 1 here"),
        ({"references": np.array([1.0, 2.0])}, r"references: None there, \[1.0, 2.0\] here"),
        ({"policy": POLICIES["frank-wolfe"]}, r"policy: 'auto' there, 'FrankWolfe\(a=1.0\)' here"),
    ],
)
def test_other_parameters_are_refused(options, what, tmp_path):
    stop(dr(), matrix(), tmp_path, 5)
    with pytest.raises(CheckpointError, match=f"other parameters .*{what}"):
        dr(checkpoint=tmp_path, **options).fit(matrix())


def test_another_estimator_or_start_is_refused(tmp_path):
    X, rng = matrix(), np.random.default_rng(0)
    W, H = rng.random((30, 3)), rng.random((3, 20))
    stop(dr(init="custom"), X, tmp_path, 5, W=W, H=H)
    with pytest.raises(CheckpointError, match=r"H: .* there, .* here"):
        dr(init="custom", checkpoint=tmp_path).fit(X, W=W, H=H + 1e-9)
    with pytest.raises(CheckpointError, match="estimator: 'DRNMF' there, 'BetaNMF' here"):
        BetaNMF(3, solver=Solver(checkpoint=tmp_path)).fit(X)
    model = dr(init="custom", checkpoint=tmp_path)
    np.testing.assert_array_equal(model.fit_transform(X, W=W, H=H), dr(init="custom").fit_transform(X, W=W, H=H))


def test_what_does_not_change_the_answer_may_change(tmp_path):
    X = matrix()
    stop(dr(), X, tmp_path, 5)
    model = dr(checkpoint=str(tmp_path), checkpoint_every=7.0, callback=After(0), betas=[0.0, 1.0])
    same(outcome(model, model.fit_transform(X)), fitted(dr(), X))


@dataclass(frozen=True)
class Odd(Policy):
    """A policy whose state is an object of its own."""

    kind: Any

    def init(self, p):
        return np.full(p, 1 / p), self.kind()

    def step(self, weights, scaled_losses, state):
        return weights, state


def test_a_state_that_cannot_be_stored_is_refused_in_the_first_iteration(tmp_path):
    watch = After(0)
    with pytest.raises(CheckpointError, match=r"state of the rule or policy .*type set"):
        dr(policy=Odd(set), checkpoint=tmp_path, checkpoint_every=1e9, callback=watch).fit(matrix())
    assert watch.calls == 1
    dr(policy=Odd(dict), checkpoint=tmp_path / "dict").fit(matrix())


def test_one_process_at_a_time(tmp_path):
    X = matrix()
    with Checkpoint(tmp_path, 0, open_data(X), {}), pytest.raises(CheckpointError, match="in use by another process"):
        dr(checkpoint=tmp_path).fit(X)
    dr(checkpoint=tmp_path).fit(X)


def test_the_folder_must_be_a_folder_and_the_interval_a_number(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="is a file: name a folder"):
        dr(checkpoint=tmp_path / "file").fit(matrix())
    with pytest.raises(ValueError, match="checkpoint_every=-1 must be >= 0"):
        dr(checkpoint=tmp_path, checkpoint_every=-1).fit(matrix())
    dr(checkpoint=tmp_path / "a" / "b").fit(matrix())
    assert "begin.npz" in files(tmp_path / "a" / "b")


def test_time_already_spent_counts(tmp_path):
    def slow(progress):
        progress_calls.append(progress.iteration)
        time.sleep(0.08)
        if len(progress_calls) == 8:
            raise Stopped

    progress_calls: list[int] = []
    X, model = matrix(), BetaNMF(3, tol=0, max_iter=10**6, max_time=1.5, random_state=0, solver=Solver(callback=slow))
    model.set_params(solver__checkpoint=tmp_path, solver__checkpoint_every=0)
    with pytest.raises(Stopped):
        model.fit(X)
    model.fit(X)
    assert model.reason_ == "max_time"
    assert model.trace_.seconds[-1] >= 1.5
    assert (np.diff(model.trace_.seconds) > 0).all()
    assert model.n_iter_ <= 23  # of 0.08 s each, 7 of them in the first life; else there would be 26


def test_recalled_runs_count_toward_max_time():
    class Keeper:
        seconds = 7.0

    budget = Budget(Control(max_time=10.0, keeper=Keeper()), 2)
    assert budget.take("fit").max_time == pytest.approx(1.5, abs=0.1)


def test_fronts_are_kept_too(tmp_path):
    X = matrix()
    options = {"betas": (0, 1), "weights": 4, "max_iter": 15, "tol": 0, "random_state": 0, "return_factors": True}
    every = After(0)
    whole = pareto_front(X, 3, **options, callback=every)
    with pytest.raises(Stopped):
        pareto_front(X, 3, **options, checkpoint=tmp_path, checkpoint_every=0, callback=After(22))
    watch = After(0)
    again = pareto_front(X, 3, **options, checkpoint=tmp_path, callback=watch)
    assert watch.calls == every.calls - 21
    for one, other in zip((*again.points, again.dr), (*whole.points, whole.dr), strict=True):
        for name in ("W", "H", "losses", "weights"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    with pytest.raises(CheckpointError, match="weights: 4 there, 5 here"):
        pareto_front(X, 3, **options | {"weights": 5}, checkpoint=tmp_path)


def test_a_model_does_not_remember_the_folder(tmp_path):
    model = dr(checkpoint=tmp_path / "kept").fit(matrix())
    model.save(tmp_path / "model.npz")
    assert drnmf.load(tmp_path / "model.npz").solver.checkpoint is None


def test_sparse_and_stored_zeros_make_one_fingerprint(tmp_path):
    X = matrix(sparse=True)
    padded = sp.csr_array((np.append(X.data, 0.0), np.append(X.indices, 3), [*X.indptr[:-1], X.nnz + 1]), X.shape)
    model = MultiObjectiveNMF(3, max_iter=20, tol=0, random_state=0)
    stop(model, X, tmp_path, 5)
    same(fitted(model, padded, tmp_path), fitted(model, X))
