"""scikit-learn's callbacks, where this version has them: a fit as a tree of tasks, alone and inside of others."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from drnmf import DRNMF, BetaNMF, Solver

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")

X = np.random.default_rng(0).gamma(2.0, size=(20, 12)) + 0.1
FAST = {"max_iter": 5, "tol": 0, "random_state": 0}


class Recorder:
    """Notes every task with the path to it, and ends runs after some iterations if asked to."""

    max_propagation_depth = None

    def __init__(self, stop_after: int | None = None):
        self.stop_after = stop_after
        self.begun: list[tuple[str, ...]] = []
        self.ended: list[tuple[str, ...]] = []
        self.models: list[object] = []
        self.torn_down = 0

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        self.torn_down += 1

    @staticmethod
    def path(context) -> tuple[str, ...]:
        names = []
        while context is not None:
            names.append(context.task_name)
            context = context.parent
        return tuple(reversed(names))

    def on_fit_task_begin(self, estimator, context):
        self.begun.append(self.path(context))

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.ended.append(self.path(context))
        if context.task_name == "iteration" and fitted_estimator is not None:
            self.models.append(fitted_estimator)
        return context.task_name == "iteration" and self.stop_after == context.task_id + 1


def test_a_fit_is_a_tree_of_runs_and_iterations() -> None:
    seen = Recorder()
    DRNMF(3, betas=(0, 1), **FAST).set_callbacks(seen).fit(X)
    assert seen.begun[0] == ("fit",)
    runs = [path[1] for path in seen.begun if len(path) == 2]
    assert runs == ["IS alone", "KL alone", "DRNMF"]
    iterations = [path for path in seen.begun if len(path) == 3]
    assert iterations == [("fit", run, "iteration") for run in runs for _ in range(5)]
    assert sorted(seen.ended) == sorted(seen.begun)
    assert seen.ended[-1] == ("fit",)
    assert seen.torn_down == 1


def test_results_are_the_same_with_and_without_and_the_last_model_is_the_result() -> None:
    seen = Recorder()
    plain = DRNMF(3, betas=(0, 1), solver=Solver(update="mu", normalize=False), **FAST).fit(X)
    told = DRNMF(3, betas=(0, 1), solver=Solver(update="mu", normalize=False), **FAST).set_callbacks(seen).fit(X)
    np.testing.assert_array_equal(plain.components_, told.components_)
    assert len(seen.models) == 5
    last = seen.models[-1]
    np.testing.assert_array_equal(last.components_, plain.components_)
    np.testing.assert_allclose(last.references_, plain.references_, rtol=1e-12)
    np.testing.assert_allclose(last.transform(X), plain.transform(X), rtol=1e-9)


def test_a_callback_ends_the_run_and_ours_stays() -> None:
    heard: list[int] = []
    model = BetaNMF(3, beta=1, solver=Solver(callback=lambda progress: heard.append(progress.iteration)), **FAST)
    model.set_callbacks(Recorder(stop_after=2)).fit(X)
    assert (model.n_iter_, model.reason_) == (2, "callback")
    assert heard == [1, 2]


def test_callbacks_are_torn_down_when_a_fit_fails() -> None:
    seen = Recorder()

    def fail(progress):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        BetaNMF(3, beta=1, solver=Solver(callback=fail), **FAST).set_callbacks(seen).fit(X)
    assert seen.torn_down == 1


def test_runs_side_by_side_are_told_too() -> None:
    seen = Recorder()
    BetaNMF(3, beta=1, n_init=3, n_jobs=2, **FAST).set_callbacks(seen).fit(X)
    assert sum(len(path) == 3 for path in seen.begun) == 15
    assert sorted(seen.ended) == sorted(seen.begun)


@pytest.mark.slow
def test_the_scoring_monitor_scores_every_iteration() -> None:
    monitor = callback.ScoringMonitor(scoring={"score": lambda model, X, y: model.score(X)})
    model = BetaNMF(3, beta=1, solver=Solver(normalize=False, update="mu"), **FAST).set_callbacks(monitor).fit(X)
    rows = [row for row in monitor.get_logs().data if row["task_name"] == "iteration"]
    scores = [row["score"] for row in rows]
    assert len(scores) == 5
    assert len(set(scores)) == 5
    assert scores[-1] == pytest.approx(model.score(X))


def test_callbacks_pass_through_a_pipeline_and_a_grid_search() -> None:
    seen, bar = Recorder(), callback.ProgressBar()
    pipeline = make_pipeline(MinMaxScaler((0.1, 1.0)), BetaNMF(beta=1, **FAST))
    search = GridSearchCV(pipeline, {"betanmf__n_components": [1, 2]}, cv=2, scoring=lambda model, X, y=None: 0.0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The estimator MinMaxScaler does not support callbacks")
        warnings.filterwarnings("error", message="The estimator BetaNMF does not support callbacks")
        search.set_callbacks(seen, bar).fit(X)
    iterations = [path for path in seen.begun if path[-1] == "iteration"]
    assert len(iterations) == (2 * 2 + 1) * 5
    assert all(path[-2] == "BetaNMF" for path in iterations)
