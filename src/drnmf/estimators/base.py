"""What the estimators share: scikit-learn's contract on top of problems and what solves them."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from drnmf.algorithms.initialize import Start
from drnmf.algorithms.result import Interrupted, Result, Trace
from drnmf.algorithms.weights import Policy
from drnmf.backends.base import losses_of
from drnmf.backends.observed import HeldOut, Stored
from drnmf.backends.open import is_dask
from drnmf.backends.weighted import held_out_losses
from drnmf.estimators import saving
from drnmf.estimators.callbacks import Support, Tasks, managed
from drnmf.estimators.deciding import AUTO, fit_ranked, predicted_score, zeros_under
from drnmf.estimators.streaming import Streaming, end_stream
from drnmf.estimators.tables import Factorising, shares_of
from drnmf.losses.base import Omega, betas_of
from drnmf.losses.interval import Interval
from drnmf.numerics import ENCODE_ITERATIONS, Array, MatrixLike, Vector, XLike, real_numbers
from drnmf.objective.objective import Objective
from drnmf.objective.penalty import Penalties, Penalty
from drnmf.objective.simplex import vertex
from drnmf.parameters.fields import checked
from drnmf.parameters.solver import Solver, as_solver
from drnmf.problem.check import warn_dense_tiles
from drnmf.problem.device import Placement, as_numpy, is_foreign, is_sparse, is_tensor, place, replaced, times
from drnmf.problem.parts import Division, groups_of
from drnmf.problem.problem import Problem, dispersions
from drnmf.problem.receive import Received, refuse_signed
from drnmf.problem.scikit import BaseEstimator, check_is_fitted, check_random_state
from drnmf.problem.units import mean_of
from drnmf.problem.unobserved import mean_row, row_weights, with_rows_weighted
from drnmf.problem.weights import Reading, WeightsLike, reading_of
from drnmf.selection.alpha import AlphaPath, choose_alphas, decided, undecided
from drnmf.selection.entries import counted
from drnmf.selection.warm_starts import grown
from drnmf.solve.encode import Encoder
from drnmf.solve.exchange import fit_interval
from drnmf.solve.parts import adopt_parts, fit_parts, losses_of_rows, with_levels
from drnmf.solve.pipeline import fit_factors, running, settle, warn_unconverged
from drnmf.solve.references import check_references
from drnmf.solve.runner import Runner
from drnmf.solve.settings import asked_losses, control_of, problem_of, settings_of, terms_of
from drnmf.solve.tables import (
    Joined,
    adopt_tables,
    encoded_tables,
    is_tables,
    join,
    joined_weights,
    losses_of_tables,
    refuse_matrix,
    refuse_names_of_tables,
    table_components,
)


@dataclass(kw_only=True, eq=False, repr=False)
class NMF(Streaming, Factorising, BaseEstimator, Support):  # type: ignore[misc]
    """What the three estimators share. Subclasses say which losses, which weights, and whether to scale."""

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return the parameters by name; with `deep` those of the solver too, as ``solver__update`` and so on.

        Parameters
        ----------
        deep : whether to list the parameters of the solver

        Returns
        -------
        params : dict
        """
        found: dict[str, object] = super().get_params(deep)
        if deep and isinstance(self.solver, str):
            found |= {f"solver__{name}": value for name, value in as_solver(self.solver).get_params().items()}
        return found

    def set_params(self, **params: object) -> Self:
        """Change parameters; ``solver__update="mu"`` changes one of the solver.

        Parameters
        ----------
        params : names and values

        Returns
        -------
        self : the estimator
        """
        if isinstance(self.solver, str) and any(name.startswith("solver__") for name in params):
            self.solver = as_solver(self.solver)
        super().set_params(**params)
        return self

    def _omega(self) -> Omega:
        raise NotImplementedError

    def _interval(self) -> Interval | None:
        return None

    def _policy(self, p: int) -> str | Policy:
        raise NotImplementedError

    def _references(self, p: int) -> Vector | None:
        given = self._solver.references
        return None if given is None else check_references(given, p)

    def _objectives(self, omega: Omega, division: Division | None) -> int:
        """Count what the largest, or the sum, is taken over."""
        if division is not None and self._interval() is not None:
            raise ValueError(
                "groups do not go with an Interval of losses, which betas='auto' is too: name the losses, for example "
                "betas=(0, 1)."
            )
        if division is not None and division.losses is not None:
            return sum(len(losses) for losses in division.losses)
        return len(omega) * (1 if division is None else len(division))

    @property
    def table_components_(self) -> dict[str, Array]:
        """The components of every table by its name, (r, columns), in the unit of the table."""
        check_is_fitted(self)
        if getattr(self, "tables_", None) is None:
            raise AttributeError("table_components_: the model was fitted to one table, see components_.")
        return table_components(self)

    def _refuse_policy(self) -> None:
        """Refuse a policy where no weights move."""
        policy = self._solver.policy
        if policy != "auto":
            raise ValueError(
                f"policy={policy!r} moves the weights of several losses, as DRNMF has them: those of "
                f"{type(self).__name__} are fixed. Leave it out."
            )

    @property
    def _solver(self) -> Solver:
        return as_solver(self.solver)

    def _undecided(self) -> bool:
        """Whether the data choose the losses."""
        return False

    def _decide(self, X: MatrixLike, reading: Reading, fit: Callable[[object], Array]) -> Array:
        """Choose the losses by X, and fit."""
        raise NotImplementedError

    def fit(
        self,
        X: XLike,
        y: object = None,
        W: ArrayLike | None = None,
        H: ArrayLike | None = None,
        entry_weight: WeightsLike = None,
        uncertainty: WeightsLike = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Factorise X (m x n) as W H with W (m x r) and H (r x n) nonnegative.

        Parameters
        ----------
        X : array, SciPy sparse matrix, Dask array or torch.Tensor of shape (m, n), nonnegative; NaN in a dense X is an
            entry that was not observed
        y : ignored, here for pipelines
        W, H : the start, with ``init="custom"``
        entry_weight : how much every entry counts in the losses, >= 0, 0 where it is not observed: an array of shape
            (m, n), (m, 1) or (1, n); for sparse X also a sparse matrix, 0 where nothing is stored; or
            ``drnmf.HeldOut(fraction, seed)``
        uncertainty : the standard deviation of every entry, > 0, in the same shapes: weights 1 / uncertainty^2
        sample_weight : (m,), how much every row counts, >= 0; a row of weight 0 has no say in the components
        groups : (m,), the group of every row, or the name of a column of a table X: the components are to serve every
            group, each measured by what it reaches alone (`DRNMF`, `MultiObjectiveNMF`)

        Returns
        -------
        self : the fitted estimator
        """
        self.fit_transform(X, y, W, H, entry_weight, uncertainty, sample_weight, groups)
        return self

    @managed
    def fit_transform(
        self,
        X: Any,
        y: object = None,
        W: ArrayLike | None = None,
        H: ArrayLike | None = None,
        entry_weight: WeightsLike = None,
        uncertainty: WeightsLike = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Array:
        """Fit, and return W. More accurate and cheaper than ``fit(X).transform(X)``.

        Parameters
        ----------
        X, y, W, H, entry_weight, uncertainty, sample_weight, groups : as in `fit`

        Returns
        -------
        W : array of shape (m, r), in the kind that X came in
        """
        strict = self.negatives == "raise" and entry_weight is None  # a weight of 0 hides what could not be used
        joined: Joined | None = join(X, strict=strict) if is_tables(X) else None
        division: Division | None
        given = X
        if joined is not None:
            if groups is not None:
                raise ValueError("groups do not go with tables: give a table of all columns, or leave groups out.")
            entry_weight = joined_weights(entry_weight, joined, inverse=False)
            uncertainty = joined_weights(uncertainty, joined, inverse=True)
            losses = losses_of_tables(asked_losses(self), joined.division)
            X, division = joined.X, replace(joined.division, losses=losses)
        else:
            refuse_names_of_tables(getattr(self, "betas", None))
            X, division = groups_of(X, groups)
        rows = row_weights(X, sample_weight)
        entry_weight = with_rows_weighted(rows, entry_weight, uncertainty)
        factors = self._fit_entries(X, y, W, H, reading_of(self, entry_weight, uncertainty), division)
        adopt_tables(self, joined)
        if rows is not None and not rows.all():  # a row of weight zero is observed, but nobody fitted it
            unseen = np.flatnonzero(rows == 0)
            transform: Any = inspect.unwrap(type(self).transform)  # without what `set_output` puts around it
            factors = replaced(factors, unseen, transform(self, X if joined is None else given))
        self.shares_ = shares_of(factors, self.components_)
        return factors

    def _fit_entries(
        self,
        X: MatrixLike,
        y: object,
        W: ArrayLike | None,
        H: ArrayLike | None,
        reading: Reading,
        division: Division | None,
    ) -> Array:
        """Fit to the entries of X under their weights, and return W."""
        solver = self._solver
        if checked(self, "n_components") == AUTO or self._undecided():
            return self._decided(X, y, W, H, reading, division)
        omega, interval, name = self._omega(), self._interval(), type(self).__name__
        terms, control, p = terms_of(self), control_of(self, omega), self._objectives(omega, division)
        errors = self._references(p)
        references = None if division is not None else errors
        placement = place(X, self.device, solver.precision)
        runner = Runner.of(solver.update, self._policy(p), placement.gpu)
        runner = replace(runner, callback=solver.callback, stage=name)
        given = placement.receive(self, X, True, reading)
        continues = self._continues(given, W, H)
        problem = problem_of(self, placement.open(given), omega, given, references)
        runs = checked(self, "n_init") * (1 if references is not None else 1 + len(omega))
        identity = {"estimator": name, **settings_of(self)}
        if division is not None:
            identity["SHA-256 of the parts"] = division.digest()
        with running(problem, runner, self, runs, identity=identity, W=W, H=H) as runner:
            if continues:
                runner.starts[0] = self._warm(problem)
                runner = replace(runner, second=None)
                runner = runner.near() if self.n_init == 1 else runner
            tasks = Tasks.begin(self, given.X, y, problem.data)
            runner = replace(runner, budget=tasks.budget(runner.budget))
            self.penalty_path_: tuple[AlphaPath, ...] = ()
            try:
                if undecided(terms):
                    chosen = choose_alphas(problem, runner, self.random_state)
                    problem, runner, self.penalty_path_ = chosen.problem, chosen.runner, chosen.paths
                    terms = decided(terms, problem.penalties)
                problem = with_levels(problem, runner)
                if division is not None:
                    problem, result = fit_parts(problem, division, runner, checked(solver, "part_scale"), errors)
                elif interval is not None:
                    result = fit_interval(problem, interval, runner)
                else:
                    result = fit_factors(problem, runner)
            except Interrupted as stop:
                partly = problem.canonical(_complete(stop.result, problem), solver.normalize)
                self._adopt(partly, problem, placement, decided(terms, ()), isinstance(reading.entry_weight, HeldOut))
                raise
            result = problem.with_zeros(result, overwrite=True)
            result = problem.canonical(result, solver.normalize)
            result = result if division is not None else settle(problem, result, control)
        factors = self._adopt(result, problem, placement, terms, isinstance(reading.entry_weight, HeldOut))
        self.groups_ = None if division is None else list(division.labels)
        tasks.end()
        warn_unconverged([result], control, name)
        return factors

    def _continues(self, given: Received, W: ArrayLike | None, H: ArrayLike | None) -> bool:
        """Whether this fit starts from the components of the last one."""
        if not (self.warm_start and hasattr(self, "components_")) or W is not None or H is not None:
            return False
        if self._solver.checkpoint is not None:
            raise ValueError("warm_start=True does not go with checkpoint: a resumed fit has its own start.")
        known, n = int(self.components_.shape[1]), int(given.X.shape[1])
        if known != n:
            raise ValueError(
                f"warm_start=True starts from the components of the last fit, which have {known} columns, but X has "
                f"{n}: set warm_start=False for another kind of X."
            )
        return True

    def _warm(self, problem: Problem) -> Start:
        """Start from the components of the last fit, and the W that X has under them."""
        rank, units = problem.rank, problem.units
        encoder, H = self._encoder(problem.given), as_numpy(self.components_)[:rank]
        # to its end, however short the fit is to be, and under the components that stay
        encoder = replace(encoder, components=H, mean_row=encoder.mean_row[:rank], max_iter=ENCODE_ITERATIONS)
        W = encoder.rows(problem.data)
        last = grown(problem.data, (W * units.left, H * units.right), rank, check_random_state(self.random_state))
        return problem.unobserved.clear(problem.data, *last)

    def _decided(
        self,
        X: MatrixLike,
        y: object,
        W: ArrayLike | None,
        H: ArrayLike | None,
        reading: Reading,
        division: Division | None,
    ) -> Array:
        """Let the observed entries of X choose the rank or the losses, and fit."""
        if division is not None and division.across:
            raise ValueError("'auto' is found for one table: name n_components and the loss of every table.")
        placement = place(X, self.device, self._solver.precision)
        given = placement.receive(self, X, True, reading)

        def fit(decided: BaseEstimator) -> Array:
            groups = None if division is None else division.of_rows()
            found: Array = decided.fit_transform(
                X, y, W=W, H=H, entry_weight=reading.entry_weight, uncertainty=reading.uncertainty, groups=groups
            )
            return found

        if self.n_components == AUTO:
            return fit_ranked(self, X, reading, fit)
        return self._decide(given.X, reading, fit)

    def _adopt(
        self, result: Result, problem: Problem, placement: Placement, terms: tuple[Penalty, ...], held_out: bool
    ) -> Array:
        """Set the fitted attributes from a result; returns W in the same form as `components_`."""
        end_stream(self)
        data, units = problem.data, problem.units
        inside = problem.completed(result)
        result = problem.back(inside)
        self.components_ = placement.hand_back(result.H)
        self.n_components_ = result.H.shape[0]
        self.omega_ = result.omega
        self.betas_ = np.array(betas_of(result.omega))
        self.loss_names_ = [loss.name for loss in result.omega]
        self.weights_ = result.weights
        self.references_ = result.references
        self.losses_ = result.losses
        self.scaled_losses_ = result.scaled_losses
        if adopt_parts(self, problem, inside):
            self.dispersions_ = np.full(len(result.omega), np.nan)  # a part has no count of its own here
        else:
            self.dispersions_ = dispersions(data, result.losses, result.omega, result.H.shape[0])
        setting = problem.objective_of(inside.omega, inside.references, terms).penalties.setting
        self.penalties_ = units.penalties_out(terms, setting, result.omega)
        self.penalty_ = result.penalty
        self.reconstruction_err_ = float(result.scaled_losses.max())
        self.n_iter_ = result.n_iter
        self.converged_ = result.converged
        self.reason_ = result.reason
        self.trace_ = result.trace
        self.notes_ = problem.notes + result.notes
        self.single_losses_ = result.single_losses
        self.gap_ = float("nan") if result.certificate is None else result.certificate.gap
        self.stationarity_ = float("nan") if result.certificate is None else result.certificate.stationarity
        self.coverage_ = result.coverage
        self.mean_ = mean_of(data)
        self.mean_row_ = mean_row(data, result.W)
        self.held_out_losses_ = None
        if held_out:
            found = held_out_losses(data, inside.W, inside.H, inside.omega)
            self.held_out_losses_ = units.losses(found, inside.omega)
        return placement.hand_back(data.T.space.deliver(data.T.space.put(result.W.T)))

    def transform(self, X: Any, entry_weight: WeightsLike = None, uncertainty: WeightsLike = None) -> Array:
        """Compute W for new rows, with components and weights fixed; every row on its own.

        Parameters
        ----------
        X : as in `fit`, with the same number of columns
        entry_weight, uncertainty : as in `fit`, of the new rows

        Returns
        -------
        W : array of shape (rows of X, r); a row without any observed entry gets the mean row of the fit's W. A Dask
            array gives a Dask array: nothing is computed, and nothing is checked, before somebody asks for it.

        Raises
        ------
        ValueError
            After a fit with `fixed_W`, whose contributions are those of the rows of that fit.
        """
        if is_tables(X) and getattr(self, "tables_", None):
            if entry_weight is not None or uncertainty is not None:
                raise ValueError("transform of tables takes no weights: leave what is not observed out (NaN).")
            found: Array = encoded_tables(self, X, self._encoder(Received(None)))
            return found
        placement, given, encoder = self._received(X, entry_weight, uncertainty)
        _say_what_couples_rows(self.penalties_)
        if is_dask(given.X):
            from drnmf.backends.dask.arrays import map_rows

            return map_rows(encoder, given.X, self.components_.shape[0])
        return placement.hand_back(encoder.rows(placement.open(given, self.mean_)))

    def _received(
        self, X: MatrixLike, entry_weight: WeightsLike, uncertainty: WeightsLike
    ) -> tuple[Placement, Received, Encoder]:
        """Check new rows; say where they are computed and what finds their W."""
        check_is_fitted(self)
        _refuse_fixed_contributions(self._solver.fixed_W)
        refuse_matrix(X, getattr(self, "tables_", None))
        placement = place(X, self.device, self._solver.precision)
        given = placement.receive(self, X, False, reading_of(self, entry_weight, uncertainty))
        refuse_signed(given, self.omega_)
        sparse = is_sparse(given.X) and not isinstance(given.observed, Stored)
        warn_dense_tiles(sparse, given.X.shape, losses_of_rows(self)[0])
        return placement, given, self._encoder(given)

    def _encoder(self, given: Received) -> Encoder:
        control, (omega, references, weights) = control_of(self), losses_of_rows(self)
        objective = Objective(omega, references, self.mean_, self.penalties_)
        observed = given.observed
        if isinstance(observed, HeldOut):
            observed = observed.bind(given.X.shape)
        return Encoder(
            as_numpy(self.components_),
            objective,
            weights,
            control.max_iter,
            control.tol,
            zeros_under(self),
            type(self).__name__,
            self.mean_row_,
            observed,
            self.sum_to_one == "W",
        )

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Compute WH for rows of W: X as the model has it, in which missing entries of X are imputed.

        Parameters
        ----------
        X : array or sparse matrix of shape (rows, r), what `transform` returned

        Returns
        -------
        WH : array of shape (rows, n_features_in_)
        """
        check_is_fitted(self)
        W: Any = X
        W = W.toarray() if sp.issparse(W) else W
        floats = type(W) is np.ndarray and W.dtype.kind == "f"
        W = W if floats or is_tensor(W) or is_foreign(W) else real_numbers("W", W)
        if W.ndim != 2 or W.shape[1] != self.components_.shape[0]:
            raise ValueError(
                f"W has shape {tuple(W.shape)}, but this model has {self.components_.shape[0]} components: "
                "give what transform returned."
            )
        return times(W, self.components_)

    def score(
        self, X: MatrixLike, y: object = None, entry_weight: WeightsLike = None, uncertainty: WeightsLike = None
    ) -> float:
        """Compute the mean log-likelihood of the observed entries of X, every column predicted from the others.

        W of each row is found from four fifths of its columns, and the rest is scored as in `rank_profile`, under the
        noise of the loss with its dispersion from other entries: it does not rise with a rank that only fits the noise,
        so `GridSearchCV` over `n_components` and over losses tells the truth. Larger is better. Of several losses the
        one that suits X best counts. X of one column is compared as a whole.

        Parameters
        ----------
        X, y, entry_weight, uncertainty : as in `fit`

        Returns
        -------
        score : float
        """
        placement, given, encoder = self._received(X, entry_weight, uncertainty)
        given = replace(given, observed=encoder.observed)
        entries = counted(given)
        if isinstance(entries, np.ndarray) and not np.isfinite(entries).any():
            raise ValueError("No entry of X is observed, so that there is nothing to score.")
        return predicted_score(
            given,
            lambda some: placement.open(given.columns(some), self.mean_),
            encoder,
            encoder.objective.omega,
            uncertainty is not None,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model as plain data (one .npz, no pickle); read it back with `drnmf.load`.

        Parameters
        ----------
        path : where to write
        """
        check_is_fitted(self)
        saving.save(self, path)


def _refuse_fixed_contributions(fixed_W: object) -> None:
    """Columns of W that were given for the rows of the fit say nothing of other rows, nor may they be guessed."""
    if fixed_W is not None:
        raise ValueError(
            "fixed_W gave contributions for the rows of the fit, and other rows have none. fit_transform returns W of "
            "the fit; for new rows fit a model with fixed=model.components_ and "
            "Solver(fixed_W= their own contributions)."
        )


def _say_what_couples_rows(penalties: Penalties) -> None:
    """Warn of penalties that `transform`, which sees each row on its own, cannot apply."""
    left_out = [term.key for term in penalties.terms if term.couples("W")]
    if left_out:
        warnings.warn(
            f"transform finds W of every row on its own, and the penalty {' and '.join(left_out)} ties rows together: "
            "it was left out. fit_transform applies it.",
            stacklevel=3,
        )


def _complete(result: Result, problem: Problem) -> Result:
    """Complete an interrupted run; one in a reference fit speaks for all losses at its point."""
    data, omega = problem.data, problem.omega
    if len(result.omega) > 1 or result.omega == omega:
        return result
    losses = losses_of(data, result.W, result.H, omega)
    weights, ones = vertex(len(omega), omega.index(result.omega[0])), np.ones(len(omega))
    trace = Trace(losses[None], ones[None], weights[None], np.zeros(1), np.zeros(1), result.trace.sweeps[-1:])
    note = f"Interrupted in the reference fit of {result.omega[0].name}: the factors are that fit's."
    return Result(
        result.blocks,
        omega,
        np.maximum(losses, np.finfo(np.float64).tiny),
        losses,
        ones,
        weights,
        trace,
        0,
        False,
        "interrupted",
        (note,),
    )
