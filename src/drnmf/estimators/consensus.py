"""ConsensusNMF: components that come again in every run."""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from drnmf.algorithms.result import Progress
from drnmf.backends.core import single_blas
from drnmf.backends.products import column_products, split_columns
from drnmf.estimators.models import BetaNMF
from drnmf.estimators.tables import Factorising, shares_of
from drnmf.numerics import Array, Indices, MatrixLike, Vector
from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import check_choice, check_integer, check_number
from drnmf.problem.check import check_matrix
from drnmf.problem.device import runs_at_once
from drnmf.problem.receive import received
from drnmf.problem.unobserved import row_weights
from drnmf.problem.weights import Reading
from drnmf.selection.consensus import consensus
from drnmf.selection.resampling import RESAMPLINGS, resampled
from drnmf.solve.runner import Stopping
from drnmf.solve.settings import jobs_of
from drnmf.solve.solve import run_all

UNSTABLE = ("keep", "drop")
_GIVE = "give an estimator of nonnegative components, for example BetaNMF(5), DRNMF(5) or scikit-learn's NMF(5)."


class ConsensusNMF(Factorising, BaseEstimator):  # type: ignore[misc]
    """Fit the same model many times and keep what comes again: medians of clusters of components.

    Every cluster holds exactly one component of each run. Its median is the component, its mean silhouette under the
    cosine the component's stability: 1 where every run finds the same, near 0 where runs disagree. W is then found
    under the losses of the estimator with these components fixed.

    Parameters
    ----------
    estimator : estimator with ``random_state``, ``components_`` and ``reconstruction_err_``: `BetaNMF`, `DRNMF`, `NMF`
        or `CP`. What every run fits, from a start of its own, random where it would choose one; None is ``BetaNMF()``.
    n_runs : int, at least 2
        How many runs.
    resample : {None, "poisson", "bootstrap"}
        What each run sees: X itself; counts drawn with X as their mean; rows of X drawn with replacement.
    threshold : float between -1 and 1
        Components with a smaller stability are not `stable_`.
    unstable : {"keep", "drop"}
        Leave the others in ``components_``, or out of it; `fit` refuses where none would be left, as a transformer
        without output can be no step of a pipeline.
    random_state : int, RandomState or None
        Seed of the starts and of what is resampled.
    n_jobs : int or None
        Runs side by side, each on one core; -1 is one for every core. Results do not depend on it.

    Attributes
    ----------
    components_ : (r, n)
        The components, largest contribution first; every row sums to one, so that W has the unit of X.
    stability_ : (r,)
        Mean silhouette of each component.
    stable_ : (r,) bool
        Whether it reaches the threshold.
    spread_ : (r, n)
        Standard deviation of every entry over the runs: how far these differ, and no error bar; see `intervals`.
    found_in_ : (r,) int
        Runs that have the component, with a cosine of at least 0.9.
    runs_ : (n_runs, r, n)
        The components of the runs, in the order of ``components_``.
    factors_ : list of arrays (size, r), where the estimator is `CP`
        W, and for every other mode what the components have of it; ``components_`` are their products.
    models_ : list of the fitted estimators
    estimator_ : the estimator that `transform` uses: the run with the smallest error, with ``components_``
    n_components_, n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.kron(np.eye(2), np.ones((1, 3))).repeat(10, axis=0) * rng.uniform(1, 2, (20, 1))
    >>> model = ConsensusNMF(BetaNMF(2, beta=2), n_runs=4, random_state=0).fit(X)
    >>> model.stability_.round(2).tolist()
    [1.0, 1.0]
    """

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        n_runs: int = 20,
        resample: str | None = None,
        threshold: float = 0.6,
        unstable: str = "keep",
        random_state: object = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_runs = n_runs
        self.resample = resample
        self.threshold = threshold
        self.unstable = unstable
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: MatrixLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the runs and find what they agree on.

        Parameters
        ----------
        X : array or SciPy sparse matrix of shape (m, n), nonnegative; a tensor as `CP` takes it, where that is fitted
        y : ignored, here for pipelines
        sample_weight : (m,), how much every row counts in each run, for an estimator that takes it

        Returns
        -------
        self : the fitted estimator. After Ctrl-C it holds the consensus of the runs that had ended, if two had.

        Raises
        ------
        TypeError
            For an estimator without nonnegative components.
        ValueError
            For bad X or parameters, and where ``unstable="drop"`` leaves no component.
        """
        self.fit_transform(X, sample_weight=sample_weight)
        return self

    def fit_transform(self, X: MatrixLike, y: object = None, sample_weight: ArrayLike | None = None) -> Array:
        """Fit, and return W of shape (m, r), found with the consensus components fixed.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`

        Returns
        -------
        W : array of shape (m, r)
        """
        n_runs, jobs = check_integer("n_runs", self.n_runs, 2), jobs_of(self)
        check_choice("unstable", self.unstable, UNSTABLE)
        check_number("threshold", self.threshold, -1.0)
        base, X = self._unfolded(X)
        X = self._received(X, reset=True)
        if self.resample is not None:
            check_choice("resample", self.resample, RESAMPLINGS)
            resampled(X, self.resample, 0)  # refuse before the first run what cannot be resampled
        rows = self._row_weights(X, sample_weight)
        seeds = check_random_state(self.random_state).randint(np.iinfo(np.int32).max, size=n_runs).tolist()
        ended: dict[int, BaseEstimator] = {}
        try:
            self._run(base, X, rows, seeds, jobs, ended)
        except KeyboardInterrupt:
            if len(ended) >= 2:
                with suppress(ValueError):  # nothing is left by unstable="drop"
                    self._adopt(X, [ended[i] for i in sorted(ended)])
            raise
        return self._adopt(X, [ended[i] for i in range(n_runs)])

    def _unfolded(self, X: MatrixLike) -> tuple[Any, Any]:
        """Return what every run fits, and X as a matrix, a row for every index of a tensor's first mode."""
        base = BetaNMF() if self.estimator is None else self.estimator
        return base.unfolded(X, rows=0)[:2] if isinstance(base, Parameters) else (base, X)

    def _received(self, X: MatrixLike, reset: bool) -> Any:
        """Check X as the estimators do; NaN counts as missing."""
        return received(check_matrix(self, X, reset=reset), Reading(), type(self).__name__).X

    def _row_weights(self, X: Any, sample_weight: ArrayLike | None) -> dict[str, Any]:
        """Return what the fit of a run is given for the weights of the rows."""
        if sample_weight is None:
            return {}
        if self.resample == "bootstrap":
            raise ValueError(
                "resample='bootstrap' draws rows, and sample_weight weighs them: use resample='poisson' or None."
            )
        return {"sample_weight": row_weights(X, sample_weight)}

    def _run(
        self,
        base: BaseEstimator,
        X: MatrixLike,
        rows: dict[str, Array],
        seeds: list[int],
        jobs: int,
        ended: dict[int, BaseEstimator],
    ) -> None:
        """Fit one clone per seed, `jobs` at a time, into `ended`."""
        if not hasattr(base, "get_params") or "random_state" not in base.get_params(deep=False):
            raise TypeError(f"estimator={base!r} takes no random_state: {_GIVE}")
        stop = threading.Event()
        # BLAS is limited around all runs: a run that ends must not lift the limit of those that have not
        batch = runs_at_once(X, base.get_params(deep=False).get("device"))
        tasks = [partial(self._fit, base, X, rows, seed, stop, ended, i) for i, seed in enumerate(seeds)]
        with single_blas(), warnings.catch_warnings():
            run_all(tasks, batch if batch > 1 else jobs, stop, batched=batch > 1)

    def _fit(
        self,
        base: BaseEstimator,
        X: MatrixLike,
        rows: dict[str, Array],
        seed: int,
        stop: threading.Event,
        ended: dict[int, BaseEstimator],
        place: int,
    ) -> None:
        """Fit a clone from a seed; where it takes a callback it ends once another run has failed or at Ctrl-C."""
        model = clone(base).set_params(random_state=seed)
        if model.get_params(deep=False).get("init") == "auto":  # much the same start for every seed
            model.set_params(init="random")
        own = model.get_params().get("solver__callback", _no_callback)
        if own is not _no_callback:
            model.set_params(solver__callback=Stopping(stop) if own is None else _stoppable(own, stop))
        model.fit(X if self.resample is None else resampled(X, self.resample, seed), **rows)
        if own is not _no_callback:
            model.set_params(solver__callback=own)
        if not all(hasattr(model, name) for name in ("components_", "reconstruction_err_", "inverse_transform")):
            raise TypeError(f"{type(model).__name__} has no components_ with a reconstruction_err_: {_GIVE}")
        if not stop.is_set():
            ended[place] = model

    def _adopt(self, X: MatrixLike, models: list[BaseEstimator]) -> Array:
        """Set the fitted attributes from the runs; returns W."""
        found = consensus([np.asarray(model.components_) for model in models])
        best = min(models, key=lambda model: float(model.reconstruction_err_))
        order = np.argsort(-self._template(best, found.components).transform(X).sum(axis=0), kind="stable")
        found = found.reordered(self._kept(found.stability[order], order))
        self.models_, self.estimator_ = models, self._template(best, found.components)
        self.components_ = self.estimator_.components_
        self.n_components_ = self.components_.shape[0]
        self.stability_, self.stable_ = found.stability, found.stability >= self.threshold
        self.spread_, self.found_in_, self.runs_ = found.spread, found.found_in, found.runs
        W = np.asarray(self.estimator_.transform(X))
        if _columns_of(best):
            self.factors_ = [W, *(F.T for F in split_columns(self.components_, _columns_of(best)))]
            self.estimator_.factors_ = self.factors_
        self.shares_ = shares_of(W, self.components_)
        return W

    def _kept(self, stability: Vector, order: Indices) -> Any:
        """Leave unstable components out of an order, where that is asked for."""
        stable = stability >= self.threshold
        if self.unstable == "keep":
            return order
        if not stable.any():
            raise ValueError(
                f"No component reaches threshold={self.threshold:g} (the largest stability is {stability.max():.2f}), "
                "and unstable='drop' leaves nothing: fit fewer components, lower the threshold, or look at all of them "
                "with unstable='keep'."
            )
        return order[stable]

    @staticmethod
    def _template(model: BaseEstimator, components: Vector) -> BaseEstimator:
        """A fitted model with other components: the losses and weights of the run, the consensus as H."""
        template = copy.copy(model)
        if _columns_of(model):  # the median of products is nearly one
            components = column_products(split_columns(components, _columns_of(model))).astype(np.float64)
        template.components_ = components.astype(np.asarray(model.components_).dtype)
        template.n_components_ = components.shape[0]
        return template

    def transform(self, X: MatrixLike) -> Array:
        """Compute W for new rows under the losses of the estimator, with the components fixed.

        Parameters
        ----------
        X : as in `fit`, with the same number of columns

        Returns
        -------
        W : array of shape (rows of X, r)
        """
        check_is_fitted(self)
        return np.asarray(self.estimator_.transform(self._received(self._unfolded(X)[1], reset=False)))

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Compute WH for rows of W, what `transform` returned: (rows, n_features_in_)."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.inverse_transform(X))


def _columns_of(model: BaseEstimator) -> tuple[int, ...]:
    """Sizes of the modes that the columns of a model are made of; none of a matrix."""
    return model.column_modes if isinstance(model, Parameters) else ()


def _no_callback(progress: Progress) -> None:
    """Stand for an estimator that takes no callback."""


def _stoppable(own: Callable[[Progress], object], stop: threading.Event) -> Callable[[Progress], bool]:
    def call(progress: Progress) -> bool:
        return stop.is_set() or bool(own(progress))

    return call
