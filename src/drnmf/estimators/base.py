"""What the estimators share: scikit-learn's contract on top of the one road of `fit`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from drnmf.algorithms.result import Interrupted, Result, Trace
from drnmf.algorithms.weights import Policy
from drnmf.backends.base import Data, losses_of
from drnmf.backends.open import is_dask
from drnmf.estimators import saving
from drnmf.estimators.scoring import dispersions, held_out_losses, mean_log_likelihood
from drnmf.fit.encode import Encoder
from drnmf.fit.exchange import fit_interval
from drnmf.fit.method import Method
from drnmf.fit.parameters import Parameters
from drnmf.fit.references import check_references
from drnmf.fit.road import balanced, fit_factors, opened, settle, warn_unconverged
from drnmf.inputs.check import warn_dense_tiles
from drnmf.inputs.device import Placement, as_numpy, is_sparse, is_tensor, place, times
from drnmf.losses.base import Omega, betas_of
from drnmf.losses.interval import Interval
from drnmf.numerics import Array, Vector
from drnmf.objective.objective import Objective
from drnmf.objective.simplex import vertex


@dataclass(kw_only=True, eq=False, repr=False)
class NMF(Parameters, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What the three estimators share. Subclasses say which losses, which weights, and whether to scale."""

    normalize: bool = True

    def _omega(self) -> Omega:
        raise NotImplementedError

    def _interval(self) -> Interval | None:
        return None

    def _policy(self, p: int) -> str | Policy:
        raise NotImplementedError

    def _references(self, p: int) -> Vector | None:
        return None if self.references is None else check_references(self.references, p)

    def _inner_iter(self) -> int:
        return 1

    def _undecided(self) -> bool:
        """Whether the data choose the losses."""
        return False

    def _decide(self, X: Any, fit: Callable[[Any], Array]) -> Array:
        """Choose the losses by X, and fit."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def fit(self, X: Any, y: Any = None, W: ArrayLike | None = None, H: ArrayLike | None = None) -> Self:
        """Factorise X (m x n) as W H with W (m x r) and H (r x n) nonnegative.

        Parameters
        ----------
        X : array, SciPy sparse matrix, Dask array or torch.Tensor of shape (m, n), nonnegative
        y : ignored, here for pipelines
        W, H : the start, with ``init="custom"``

        Returns
        -------
        self : the fitted estimator
        """
        self.fit_transform(X, W=W, H=H)
        return self

    def fit_transform(self, X: Any, y: Any = None, W: ArrayLike | None = None, H: ArrayLike | None = None) -> Array:
        """Fit, and return W. More accurate and cheaper than ``fit(X).transform(X)``.

        Parameters
        ----------
        X, y, W, H : as in `fit`

        Returns
        -------
        W : array of shape (m, r), in the kind that X came in
        """
        self.rank()
        if self._undecided():
            return self._decide(X, lambda decided: decided.fit_transform(X, W=W, H=H))
        omega, interval = self._omega(), self._interval()
        policy, references = self._policy(len(omega)), self._references(len(omega))
        control = self.control(self._inner_iter())
        placement = place(X, self.device, self.precision)
        method = Method.of(self.update, policy, placement.gpu)
        X = placement.receive(self, X, reset=True)
        runs = self.starts() * (1 if references is not None else 1 + len(omega))
        name = type(self).__name__
        identity = {"estimator": name, **self.get_params(deep=False)}
        with opened(X, placement, self, omega, runs, identity, W, H, control.inner_iter) as fit:
            data, budget = fit.data, fit.budget
            try:
                if interval is not None:
                    result = fit_interval(data, fit.starts, interval, method, budget, self.callback, name)
                else:
                    result = fit_factors(data, fit.starts, omega, references, method, budget, self.callback, name)
            except Interrupted as stop:
                partly = _complete(stop.result, data, omega)
                self._adopt(balanced(data, partly, self.normalize), data, placement, fit.notes)
                raise
            result = settle(data, balanced(data, result, self.normalize), control)
        factors = self._adopt(result, data, placement, fit.notes)
        warn_unconverged([result], control, name)
        return factors

    def _adopt(self, result: Result, data: Data, placement: Placement, notes: tuple[str, ...]) -> Array:
        """Set the fitted attributes from a result; returns W in the same form as `components_`."""
        self.components_ = placement.hand_back(result.H)
        self.n_components_ = result.H.shape[0]
        self.omega_ = result.omega
        self.betas_ = np.array(betas_of(result.omega))
        self.loss_names_ = [loss.name for loss in result.omega]
        self.weights_ = result.weights
        self.references_ = result.references
        self.losses_ = result.losses
        self.dispersions_ = dispersions(data, result.losses, result.omega, result.H.shape[0])
        self.scaled_losses_ = result.scaled_losses
        self.reconstruction_err_ = float(result.scaled_losses.max())
        self.n_iter_ = result.n_iter
        self.converged_ = result.converged
        self.reason_ = result.reason
        self.trace_ = result.trace
        self.notes_ = notes + result.notes
        self.single_losses_ = result.single_losses
        self.gap_ = float("nan") if result.certificate is None else result.certificate.gap
        self.stationarity_ = float("nan") if result.certificate is None else result.certificate.stationarity
        self.coverage_ = result.coverage
        self.mean_ = data.mean
        return placement.hand_back(data.T.space.deliver(data.T.space.put(result.W.T)))

    def transform(self, X: Any) -> Array:
        """Compute W for new rows, with components and weights fixed; every row on its own.

        Parameters
        ----------
        X : as in `fit`, with the same number of columns

        Returns
        -------
        W : array of shape (rows of X, r). A Dask array gives a Dask array: nothing is computed, and nothing is checked,
            before somebody asks for it.
        """
        placement, X, encoder = self._received(X)
        if is_dask(X):
            from drnmf.backends.dask.arrays import map_rows

            return map_rows(encoder, X, self.components_.shape[0])
        return placement.hand_back(encoder.rows(placement.open(X, self.mean_)))

    def _received(self, X: Any) -> tuple[Placement, Any, Encoder]:
        """Check new rows; say where they are computed and what finds their W."""
        check_is_fitted(self)
        placement = place(X, self.device, self.precision)
        X, encoder = placement.receive(self, X, reset=False), self._encoder()
        warn_dense_tiles(is_sparse(X), X.shape, encoder.objective.omega)
        return placement, X, encoder

    def _encoder(self) -> Encoder:
        control, objective = self.control(), Objective(self.omega_, self.references_, self.mean_)
        return Encoder(
            as_numpy(self.components_), objective, self.weights_, control.max_iter, control.tol, self.zeros_choice(),
            type(self).__name__,
        )  # fmt: skip

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Compute WH for rows of W.

        Parameters
        ----------
        X : array of shape (rows, r), what `transform` returned

        Returns
        -------
        WH : array of shape (rows, n_features_in_)
        """
        check_is_fitted(self)
        W: Any = X if is_tensor(X) else np.asarray(X)
        if W.ndim != 2 or W.shape[1] != self.components_.shape[0]:
            raise ValueError(
                f"W has shape {tuple(W.shape)}, but this model has {self.components_.shape[0]} components: "
                "give what transform returned."
            )
        return times(W, self.components_)

    def score(self, X: Any, y: Any = None) -> float:
        """Compute the mean log-likelihood of the entries of X, every column predicted from the others.

        W of each row is found from four fifths of its columns, and the rest is compared with WH under the variance
        that the fit left: it does not rise with a rank that only fits the noise, so `GridSearchCV` over `n_components`
        and over losses tells the truth. Larger is better; a constant is left out, and values depend on the unit of X.
        Of several losses the one that suits X best counts. X of one column is compared as a whole.

        Parameters
        ----------
        X, y : as in `fit`

        Returns
        -------
        score : float
        """
        placement, X, encoder = self._received(X)
        losses = held_out_losses(X, lambda some: placement.open(X[:, some], self.mean_), encoder.of_columns)
        return mean_log_likelihood(X, self.omega_, losses, self.dispersions_)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model as plain data (one .npz, no pickle); read it back with `drnmf.load`.

        Parameters
        ----------
        path : where to write
        """
        check_is_fitted(self)
        saving.save(self, path)


def _complete(result: Result, data: Data, omega: Omega) -> Result:
    """Complete an interrupted run; one in a reference fit speaks for all losses at its point."""
    if len(result.omega) > 1 or result.omega == omega:
        return result
    losses = losses_of(data, result.W, result.H, omega)
    weights, ones = vertex(len(omega), omega.index(result.omega[0])), np.ones(len(omega))
    trace = Trace(losses[None], ones[None], weights[None], np.zeros(1), np.zeros(1), result.trace.sweeps[-1:])
    note = f"Interrupted in the reference fit of {result.omega[0].name}: the factors are that fit's."
    return Result(
        result.W, result.H, omega, np.maximum(losses, np.finfo(np.float64).tiny), losses, ones, weights, trace, 0,
        False, "interrupted", (note,),
    )  # fmt: skip
