"""Estimators whose losses or rank the data choose: ``beta="auto"``, ``"nb:auto"``, ``n_components="auto"``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from sklearn.base import BaseEstimator, clone

from drnmf.losses.huber import Huber, lacks_delta
from drnmf.losses.names import as_loss, lacks_size
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.numerics import Array, MatrixLike
from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import checked
from drnmf.problem.weights import Reading
from drnmf.selection.noise import NoiseProfile, compare_losses
from drnmf.selection.rank import RankProfile, rank_profile
from drnmf.solve.settings import asked_losses

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


def profile_for(model: Parameters, X: MatrixLike, reading: Reading, held_out: float, betas: Any = None) -> NoiseProfile:
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
    auto = is_auto(losses) or lacks_size(losses) or lacks_delta(losses)
    one = not (auto or (isinstance(losses, Iterable) and not isinstance(losses, str)))
    judge: Parameters = model if one else model.without_losses()
    found = rank_profile(judge, X, ranks=None, entry_weight=reading.entry_weight, uncertainty=reading.uncertainty)
    return replace(model, n_components=found.best), found


def fit_ranked(model: BaseEstimator, X: MatrixLike, reading: Reading, fit: Any) -> Array:
    """Fit with the number of components that X asks for, and take over what the fit leaves."""
    ranked, profile = with_rank(clone(model), X, reading)
    assert profile is not None
    W: Array = fit(ranked)
    vars(model).update(fitted_attributes(ranked))
    model.rank_profile_ = profile
    model.notes_ = profile.notes + model.notes_
    return W


def fit_decided(
    model: BaseEstimator, profile: NoiseProfile | None, name: str, value: Any, starts: int, fit: Any
) -> Array:
    """Fit with the losses that the data named, and take over what the fit leaves.

    Parameters
    ----------
    model : the estimator, whose parameters stay as they are
    profile : what the losses were compared by, None where they were not
    name, value : the parameter that names the losses, and what it is for this fit
    starts : how many starts at least, where `init` is "auto"
    fit : calls `fit_transform` of the estimator that it is given
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


def with_size(value: Any, profile: NoiseProfile) -> Any:
    """Put the size that a profile found into "nb:auto", alone or among other losses."""
    if isinstance(value, list | tuple | set | frozenset):
        return [with_size(loss, profile) for loss in value]
    return likely_negative_binomial(profile) if lacks_size(value) else value


def with_delta(value: Any, delta: float) -> Any:
    """Put the distance that the residuals named into Huber's loss, alone or among other losses."""
    if isinstance(value, list | tuple | set | frozenset):
        return [with_delta(loss, delta) for loss in value]
    return Huber(delta) if lacks_delta(value) else value


def likely_negative_binomial(profile: NoiseProfile) -> NegativeBinomial:
    """Return the negative binomial of a profile.

    Raises
    ------
    ValueError
        Where X does not hold counts.
    """
    names = [str(row["name"]) for row in profile.table]
    found = [as_loss(name) for name in names if name.startswith("NB")]
    if not found:
        raise ValueError(
            "'nb:auto' finds the size of a negative binomial, but X does not hold counts (multiples of one unit, each "
            "of weight one): name the size, nb:30, or use another loss."
        )
    assert isinstance(found[0], NegativeBinomial)
    return found[0]


def size_profile_for(model: BaseEstimator, X: MatrixLike, reading: Reading) -> NoiseProfile:
    """Find the size of the negative binomial in turn with the factors, from the Kullback-Leibler fit."""
    return profile_for(model, X, reading, held_out=0.0, betas="nb:auto")
