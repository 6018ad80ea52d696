"""Estimators whose losses or rank the data choose: ``beta="auto"``, ``"nb:auto"``, ``n_components="auto"``; their score
compares ranks and losses, every column of new rows predicted from the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from drnmf.backends.base import Data
from drnmf.backends.observed import HeldOut
from drnmf.backends.tiles import sample_residuals
from drnmf.losses.base import Loss, Omega, is_unsized
from drnmf.losses.beta import FROBENIUS
from drnmf.losses.huber import Huber
from drnmf.losses.names import as_loss
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.losses.part import Rowwise
from drnmf.numerics import Array, Entries, Indices, MatrixLike
from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import checked
from drnmf.parameters.solver import as_solver
from drnmf.problem.device import as_numpy, place
from drnmf.problem.problem import Problem
from drnmf.problem.receive import Received
from drnmf.problem.scikit import BaseEstimator, clone
from drnmf.problem.weights import Reading
from drnmf.selection.entries import counted, facts_of
from drnmf.selection.folds import HELD_OUT, Fold
from drnmf.selection.likelihood.masses import noise_for
from drnmf.selection.likelihood.scores import Scores
from drnmf.selection.noise import Betas, NoiseProfile, compare_losses
from drnmf.selection.rank import RankProfile, rank_profile
from drnmf.solve.encode import Encoder
from drnmf.solve.pipeline import running
from drnmf.solve.runner import Runner
from drnmf.solve.settings import asked_losses, only_compared, problem_of
from drnmf.solve.solve import solve

P = TypeVar("P", bound=Parameters)
AUTO = "auto"

STARTS = 4
"""Starts of a fit under the one beta that was found, where the start is left to the library too: one costs no more than
the comparison did, and a single start often ends in a worse minimum than the noise deserves."""

ROBUST_STARTS = 2
"""The same for a set of losses, each start of which needs its references."""


def is_auto(value: object) -> bool:
    """Tell whether the losses are left to the data."""
    return isinstance(value, str) and value.strip().lower() == AUTO


def left_to_data(losses: object) -> bool:
    """Tell whether the losses, or a number of one of them, are left to the data."""
    return is_auto(losses) or is_unsized(losses, NegativeBinomial) or is_unsized(losses, Huber)


def profile_for(
    model: Parameters, X: MatrixLike, reading: Reading, held_out: float, betas: Betas = None
) -> NoiseProfile:
    """Compare losses on X, whose negative entries are dealt with, with the settings of an estimator, from one start."""
    alone = replace(model, n_init=1, max_time=None, verbose=0)
    return compare_losses(alone, X, replace(reading, negatives="raise"), betas, held_out)


def with_rank(model: P, X: MatrixLike, reading: Reading) -> tuple[P, RankProfile | None]:
    """Return the model with the number of components that X asks for, where that is left to the data, and why.

    Ranks are compared under the loss of the model; where that is left to the data too, or there are several, under the
    likeliest noise.
    """
    if checked(model, "n_components") != AUTO:
        return model, None
    losses = asked_losses(model)
    one = not (left_to_data(losses) or (isinstance(losses, Iterable) and not isinstance(losses, str)))
    judge: Parameters = model if one else model.without_losses()
    found = rank_profile(judge, X, ranks=None, entry_weight=reading.entry_weight, uncertainty=reading.uncertainty)
    return replace(model, n_components=found.best), found


def fit_ranked(model: BaseEstimator, X: MatrixLike, reading: Reading, fit: Callable[[BaseEstimator], Array]) -> Array:
    """Fit with the number of components that X asks for, and take over what the fit leaves."""
    ranked, profile = with_rank(clone(model), X, reading)
    assert profile is not None
    W: Array = fit(ranked)
    vars(model).update(fitted_attributes(ranked))
    model.rank_profile_ = profile
    model.notes_ = profile.notes + model.notes_
    return W


def fit_under_found(
    model: BaseEstimator, name: str, X: MatrixLike, reading: Reading, fit: Callable[[object], Array]
) -> Array:
    """Find what the losses, the parameter called `name`, leave to X, and `fit` an estimator under them.

    The size of a negative binomial is found in turn with the factors, from the Kullback-Leibler fit.
    """
    losses = getattr(model, name)
    if is_unsized(losses, Huber):
        found = _filled(losses, Huber, Huber(huber_delta(model, X, reading)))
        return fit_decided(model, None, name, found, HUBER_STARTS, fit)
    if is_unsized(losses, NegativeBinomial):
        profile = profile_for(model, X, reading, held_out=0.0, betas="nb:auto")
        found = _filled(losses, NegativeBinomial, likely_negative_binomial(profile))
        return fit_decided(model, profile, name, found, 1, fit)
    profile = profile_for(model, X, reading, held_out=HELD_OUT)
    found, starts = (profile.beta, STARTS) if name == "beta" else (profile.losses, ROBUST_STARTS)
    return fit_decided(model, profile, name, found, starts, fit)


def fit_decided(
    model: BaseEstimator,
    profile: NoiseProfile | None,
    name: str,
    value: object,
    starts: int,
    fit: Callable[[BaseEstimator], Array],
) -> Array:
    """Fit with the losses that the data named, and take over what the fit leaves; the parameters of the model stay.

    `profile` is what the losses were compared by, None where they were not; `value` is what the parameter called `name`
    is for this fit, of so many starts at least where `init` is "auto".
    """
    n_init = max(model.n_init, starts) if model.init == AUTO else model.n_init
    decided = clone(model).set_params(**{name: value, "n_init": n_init, "zeros": zeros_under(model)})
    if model.warm_start:
        vars(decided).update(fitted_attributes(model))
    W: Array = fit(decided)
    vars(model).update(fitted_attributes(decided))
    if profile is not None:
        model.noise_profile_ = profile
        model.notes_ = profile.notes + model.notes_
    return W


def zeros_under(model: BaseEstimator) -> str:
    """Choose what becomes of zeros of X under beta = 0: where X chose that beta, nobody could ask for floored zeros."""
    return "floor" if is_auto(asked_losses(model)) else str(checked(model, "zeros"))


def fitted_attributes(model: BaseEstimator) -> dict[str, object]:
    """Collect what a fit left."""
    return {key: kept for key, kept in vars(model).items() if key.endswith("_") and key[0] != "_"}


def _filled(value: object, family: type, loss: Loss) -> object:
    """Put a loss in the place of one that lacked a number, alone or among others."""
    if isinstance(value, list | tuple | set | frozenset):
        return [_filled(one, family, loss) for one in value]
    if isinstance(value, Rowwise):
        return replace(value, base=_filled(value.base, family, loss))
    return loss if is_unsized(value, family) else value


def likely_negative_binomial(profile: NoiseProfile) -> NegativeBinomial:
    """Return the negative binomial of a profile; X that does not hold counts is refused."""
    names = [str(row["name"]) for row in profile.table]
    found = [as_loss(name) for name in names if name.startswith("NB")]
    if not found:
        raise ValueError(
            "'nb:auto' finds the size of a negative binomial, but X does not hold counts (multiples of one unit, each "
            "of weight one): name the size, nb:30, or use another loss."
        )
    assert isinstance(found[0], NegativeBinomial)
    return found[0]


DEVIATIONS = 1.345
"""Standard deviations up to which the loss is quadratic: 95 % as efficient as beta = 2 where the noise is normal."""
MEDIAN = 1.4826
"""Standard deviations of normal noise in its median absolute value."""
HUBER_STARTS = 5
"""Starts of a fit under Huber's loss, where the start is left to the library too."""
ROUNDS, SETTLED = 10, 0.05
"""Most fits, and the change of delta that is none."""
SMALLEST = 1e-6
"""Of the mean of X: residuals below it are those of an exact fit."""


def huber_delta(model: Parameters, X: Entries, reading: Reading) -> float:
    """Find delta of Huber's loss, in the unit of X: 1.345 standard deviations of the residuals of its own fit.

    The first delta is that of a fit under beta = 2. Runs under it begin at several starts, because one often gives a
    component to outliers, and while delta is too large that may even be the smallest loss: the run with the smallest
    median residual is continued.
    """
    asked = replace(only_compared(model, 300, 1e-5), n_init=HUBER_STARTS, verbose=0)
    placement = place(X, asked.device, as_solver(asked.solver).precision)
    received = placement.receive(asked, X, True, replace(reading, negatives="raise"))
    problem = problem_of(asked, placement.open(received), (FROBENIUS,), received, np.ones(1))
    with running(problem, Runner.of("auto", "auto"), asked, ROUNDS) as runner:
        starts = list(runner.starts)
        result, delta = solve([problem.begun(starts[0])], runner)[0], 0.0
        for _ in range(ROUNDS):
            last, delta = delta, _delta(problem, result.W, result.H)
            if abs(delta - last) <= SETTLED * delta:
                break
            huber = problem.under((Huber(delta),), np.ones(1))
            runs = solve([huber.begun(start) for start in starts], runner.near() if last else runner)
            result = min(runs, key=lambda run: _delta(problem, run.W, run.H))
            starts = [(result.W, result.H)]
    return delta / problem.data.scale


def _delta(problem: Problem, W: Array, H: Array) -> float:
    """1.345 standard deviations of the residuals, in the unit of the data."""
    middle = float(np.median(sample_residuals(problem.data, W, H)))
    return max(DEVIATIONS * MEDIAN * middle, SMALLEST * problem.data.mean)


FOLDS = 5
"""Groups of columns, every FOLDS-th in one, each predicted from W of the others."""


def predicted_score(
    given: Received, open_columns: Callable[[Indices], Data], encoder: Encoder, omega: Omega, known: bool
) -> float:
    """Compute the mean log-mass of the entries of X, each column predicted from W that the others give.

    `open_columns` puts some columns of X behind a backend; of several losses the one whose noise suits X best counts;
    `known` says that weights are those of uncertainties.
    """
    grid, n = facts_of(counted(given)).grid, given.X.shape[1]
    scores = list[list[Scores]]([[] for _ in omega])
    # one column alone cannot be held out
    for fold in [np.arange(first, n, FOLDS) for first in range(min(FOLDS, n))] if n > 1 else [np.arange(n)]:
        others = np.setdiff1d(np.arange(n), fold) if n > 1 else fold
        asked, rest = encoder.of_columns(fold), open_columns(others)
        found = encoder.of_columns(others).rows(rest)
        # brought here, because W of a Dask array lives in the blocks of the columns that it was found from
        W = as_numpy(found if rest.T.space.whole else rest.T.space.get(found.T).T)
        part = given.columns(fold)
        assert not isinstance(part.observed, HeldOut)
        cell = Fold(part.X, grid, None, part.observed, known)
        for kept, loss in zip(scores, omega, strict=True):
            kept.append(cell.score(noise_for(loss), (W, asked.components)))
    sums = [(sum(one.rows.sum() for one in kept), sum(one.row_weights.sum() for one in kept)) for kept in scores]
    return float(max(total / max(weight, np.finfo(np.float64).tiny) for total, weight in sums))
