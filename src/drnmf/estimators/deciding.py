"""Estimators whose losses the data choose: ``beta="auto"`` and ``betas="auto"``."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from drnmf.numerics import Array
from drnmf.selection.noise import NoiseProfile, noise_profile

AUTO = "auto"


def is_auto(value: Any) -> bool:
    """Tell whether the losses are left to the data."""
    return isinstance(value, str) and value.strip().lower() == AUTO


def profile_for(model: Any, X: Any, held_out: float) -> NoiseProfile:
    """Compare losses on X with the settings of an estimator, from one start."""
    return noise_profile(
        X, model.n_components, held_out=held_out, update=model.update, max_iter=model.max_iter,
        tol=max(model.tol, 1e-5) if model.tol else 0.0, init="random" if model.init == "custom" else model.init,
        random_state=model.random_state, n_jobs=model.n_jobs, device=model.device, precision=model.precision,
    )  # fmt: skip


def fit_decided(model: Any, profile: NoiseProfile, name: str, value: Any, fit: Any) -> Array:
    """Fit with the losses that a profile names, and take over what the fit leaves.

    Parameters
    ----------
    model : the estimator, whose parameters stay as they are
    name, value : the parameter that names the losses, and what it is for this fit
    fit : calls `fit_transform` of the estimator that it is given
    """
    decided = clone(model).set_params(**{name: value})
    W: Array = fit(decided)
    vars(model).update({key: kept for key, kept in vars(decided).items() if key.endswith("_") and key[0] != "_"})
    model.noise_profile_ = profile
    model.notes_ = profile.notes + model.notes_
    return W
