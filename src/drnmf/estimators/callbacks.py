"""scikit-learn's callbacks (`sklearn.callback`, from 1.9 on): a fit as a tree of tasks, fit -> run -> iteration.

A run is a reference fit ("IS alone") or a fit from one start. Callbacks see the components after every iteration of the
fit itself, so that a `ScoringMonitor` can score them; those of a reference fit belong to another model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import numpy as np

from drnmf.algorithms.loop import Callback
from drnmf.algorithms.result import Progress
from drnmf.backends.base import Data
from drnmf.numerics import Grid
from drnmf.objective.penalty import Penalties
from drnmf.problem.problem import dispersions
from drnmf.problem.scikit import BaseEstimator
from drnmf.problem.units import mean_of
from drnmf.solve.runner import Budget

try:
    import sklearn.callback as _callbacks
except ImportError:  # before 1.9 there are none
    _callbacks = None

Support: Any = object if _callbacks is None else _callbacks.CallbackSupportMixin
"""What gives estimators `set_callbacks`; nothing where this scikit-learn has no callbacks."""

Method = TypeVar("Method", bound=Callable[..., Any])


def managed(method: Method) -> Method:
    """Let callbacks be torn down when the method of an estimator ends, however it ends."""
    return method if _callbacks is None else cast(Method, _callbacks.with_callbacks(method))


@dataclass
class Tasks:
    """The tasks of one fit."""

    estimator: BaseEstimator  # whose fit it is
    context: Any  # of the fit as a whole; None where nobody asked for callbacks
    stage: str  # the name of the runs that are the fit itself
    # X, y: what it is fitted to
    X: Grid
    y: object
    data: Data  # X in its backend
    running: list[Any] = field(default_factory=list)

    @classmethod
    def begin(cls, estimator: BaseEstimator, X: Grid, y: object, data: Data) -> Tasks:
        """Begin the task of a fit, where the estimator or a pipeline around it has callbacks."""
        context = None
        if getattr(estimator, "_skl_callbacks", None):
            # The number of runs is not known in advance: intervals of losses and references may take more.
            context = estimator._init_callback_context(max_subtasks=None)
        tasks = cls(estimator, context, type(estimator).__name__, X, y, data)
        if context is not None:
            context.call_on_fit_task_begin(estimator=estimator, X=X, y=tasks._target)
        return tasks

    def _target(self) -> object:
        """Return y, or zeros where there is none: a ScoringMonitor scores only where there is a y."""
        return np.zeros(self.X.shape[0]) if self.y is None else self.y

    def budget(self, budget: Budget) -> Budget:
        """Let the runs of a budget tell of their iterations."""
        if self.context is None:
            return budget
        before = budget.watch
        return replace(budget, watch=lambda stage: self._watch(stage, before(stage), budget))

    def _watch(self, stage: str, beside: Callback | None, budget: Budget) -> Callback:
        """Begin the task of a run, and return what tells of its iterations."""
        if budget.jobs == 1:
            self._end_runs()
        run = self.context.subcontext(task_name=stage, max_subtasks=budget.control.max_iter)
        self.running.append(run)
        run.call_on_fit_task_begin(estimator=self.estimator, X=self.X, y=self._target)

        def tell(progress: Progress) -> bool:
            if beside is not None:
                beside(progress)
            task = run.subcontext(task_name="iteration")
            task.call_on_fit_task_begin(estimator=self.estimator, X=self.X, y=self._target)
            known = (lambda: self._fitted(progress)) if stage == self.stage else None
            return bool(
                task.call_on_fit_task_end(
                    estimator=self.estimator, X=self.X, y=self._target, reconstruction_attributes=known
                )
            )

        return tell

    def _fitted(self, progress: Progress) -> dict[str, object] | None:
        """Collect what an estimator that had stopped here would need; None where columns had to be left out."""
        scaled = progress.scaled_losses
        references = np.divide(progress.losses, scaled, out=np.ones_like(scaled), where=scaled > 0)
        H = progress.components()
        if H.shape[1] != self.X.shape[1]:
            return None
        return {
            "components_": H,
            "omega_": progress.omega,
            "weights_": progress.weights,
            "references_": references,
            "mean_": mean_of(self.data),
            "penalties_": Penalties(),  # scores are of the losses
            "mean_row_": np.zeros(H.shape[0]),  # of rows without entries: W is not looked at here
            "dispersions_": dispersions(self.data, progress.losses, progress.omega, H.shape[0]),
        }

    def _end_runs(self) -> None:
        while self.running:
            self.running.pop(0).call_on_fit_task_end(estimator=self.estimator, X=self.X, y=self._target)

    def end(self) -> None:
        """End the tasks of the runs and of the fit, whose estimator is fitted now."""
        if self.context is not None:
            self._end_runs()
            self.context.call_on_fit_task_end(
                estimator=self.estimator, X=self.X, y=self._target, reconstruction_attributes=dict
            )
