"""Fitted models as plain data: one .npz, never a pickle."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np

from drnmf.algorithms.result import Trace
from drnmf.fit.references import check_references
from drnmf.inputs.device import as_numpy
from drnmf.losses.base import Omega
from drnmf.losses.interval import Coverage, Interval
from drnmf.losses.names import as_written, from_text, text_of
from drnmf.objective.penalties import PENALTIES, as_penalties
from drnmf.objective.penalty import NONE, Penalties, Penalty, Setting
from drnmf.objective.simplex import check_weights
from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import parameters_of
from drnmf.parameters.solver import Solver, as_solver
from drnmf.selection.penalties.alpha import AlphaPath
from drnmf.storage import archive

_ARRAYS = ("components_", "betas_", "weights_", "references_", "losses_", "scaled_losses_", "mean_row_")
_SCALARS = (
    "n_components_", "reconstruction_err_", "n_iter_", "converged_", "reason_", "notes_", "mean_", "n_features_in_",
    "gap_", "stationarity_", "loss_names_",
)  # fmt: skip
_COVERAGE = tuple(Coverage.__dataclass_fields__)


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model, all or nothing.

    Raises
    ------
    ValueError
        Where a loss of the model has no text form.
    """
    omega = _texts(model.omega_)
    arrays = {name: as_numpy(getattr(model, name)) for name in _ARRAYS}
    arrays |= {f"trace_{name}": getattr(model.trace_, name) for name in Trace.__dataclass_fields__}
    arrays["dispersions_"] = model.dispersions_
    if model.single_losses_ is not None:
        arrays["single_losses_"] = model.single_losses_
    if model.held_out_losses_ is not None:
        arrays["held_out_losses_"] = model.held_out_losses_
    if model.coverage_ is not None:
        arrays |= {f"coverage_{name}": np.asarray(getattr(model.coverage_, name)) for name in _COVERAGE}
    if hasattr(model, "feature_names_in_"):
        arrays["feature_names_in_"] = np.array(model.feature_names_in_, dtype=str)
    meta: dict[str, Any] = {name: getattr(model, name) for name in _SCALARS}
    meta |= {"class": type(model).__name__, "params": plain_params(model), "omega": omega}
    meta["penalties"] = _described(model.penalties_) | {"value": model.penalty_}
    meta["penalty_path"] = [_listed(path) for path in model.penalty_path_]
    archive.write_archive(path, arrays, meta)


def _texts(omega: Omega) -> list[str]:
    """The losses as text, or a refusal that says what to do instead."""
    try:
        return [text_of(loss) for loss in omega]
    except ValueError as error:
        raise ValueError(
            f"save: {error} Keep the model's components_ and losses_ with numpy.savez, or resume the fit with "
            "Solver(checkpoint=...)."
        ) from None


def load_into(classes: dict[str, type], path: str | os.PathLike[str]) -> Any:
    """Read what `save` wrote into an estimator of one of the classes."""
    arrays, meta = archive.read_archive(path)
    try:
        model = _made(classes[meta["class"]], meta["params"])
        for name in _ARRAYS:
            setattr(model, name, arrays[name])
        for name in _SCALARS:
            setattr(model, name, meta[name])
        model.omega_ = tuple(from_text(text) for text in meta["omega"])
        model.notes_ = tuple(model.notes_)
        model.penalties_, model.penalty_ = _penalties_of(meta.get("penalties"))
        model.penalty_path_ = tuple(
            AlphaPath(penalty, alpha, np.array(alphas), np.array(values), limit)
            for penalty, alpha, alphas, values, limit in meta.get("penalty_path", ())
        )
        model.single_losses_ = arrays.get("single_losses_")
        model.held_out_losses_ = arrays.get("held_out_losses_")
        model.coverage_ = _coverage_of(arrays)
        # files from before traces kept the losses themselves
        arrays.setdefault("trace_losses", arrays["trace_scaled_losses"] * arrays["references_"])
        arrays.setdefault("trace_penalty", np.empty(0))  # files from before penalties
        # absent in files of before scores were likelihoods
        model.dispersions_ = arrays.get("dispersions_", np.ones(len(model.omega_)))
        model.trace_ = Trace(**{name: arrays[f"trace_{name}"] for name in Trace.__dataclass_fields__})
        if "feature_names_in_" in arrays:
            model.feature_names_in_ = arrays["feature_names_in_"].astype(object)
        _check(model)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(f"{path} is not a complete drnmf model file ({error}).") from None
    return model


def _check(model: Any) -> None:
    """Refuse numbers that no fit gives, whoever wrote them; whatever `transform` uses is looked at."""
    H, omega = model.components_, model.omega_
    if H.shape != (model.n_components_, model.n_features_in_) or H.dtype not in (np.float32, np.float64):
        raise ValueError(f"components_ of shape {H.shape} and type {H.dtype}")
    if not (np.isfinite(H).all() and (H >= 0).all() and H.any()):
        raise ValueError("components_ that are not all finite and nonnegative, or all zero")
    for name in ("betas_", "weights_", "references_", "losses_", "scaled_losses_"):
        if getattr(model, name).shape != (len(omega),) or getattr(model, name).dtype != np.float64:
            raise ValueError(f"{name} does not belong to {len(omega)} losses")
    check_weights(model.weights_, len(omega))
    check_references(model.references_, len(omega))
    if model.mean_row_.shape != (H.shape[0],) or not (np.isfinite(model.mean_row_) & (model.mean_row_ >= 0)).all():
        raise ValueError(f"mean_row_ that is no row of W for {H.shape[0]} components")
    if not (isinstance(model.mean_, float) and 0 <= model.mean_ < np.inf):
        raise ValueError(f"mean_ is {model.mean_!r}")
    names = getattr(model, "feature_names_in_", None)
    if names is not None and names.shape != (H.shape[1],):
        raise ValueError(f"{names.size} names for {H.shape[1]} columns")


def _coverage_of(arrays: dict[str, Any]) -> Coverage | None:
    """The interval's coverage as `save` stored it."""
    if "coverage_betas" not in arrays:
        return None
    betas, losses, references = (arrays[f"coverage_{name}"] for name in _COVERAGE[:3])
    added = tuple((int(k), float(beta)) for k, beta in arrays["coverage_added"].reshape(-1, 2))
    bound, factor = float(arrays["coverage_bound"]), float(arrays["coverage_factor"])
    return Coverage(betas, losses, references, bound, factor, added)


def plain_params(model: Any) -> dict[str, Any]:
    """Collect constructor arguments that JSON can hold; other objects (a policy of one's own) are left at default."""
    return _plain_fields(model) | {"solver": _plain_fields(as_solver(model.solver))}


def _plain_fields(owner: Parameters | Solver) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for name, known in parameters_of(owner).items():
        value = _plain(getattr(owner, name))
        if not known.saved or isinstance(value, Solver):
            continue
        if value is None or isinstance(value, bool | int | float | str | list):
            plain[name] = value
        else:
            warnings.warn(f"save: {name} is an object and is not stored; load will use the default.", stacklevel=5)
    return plain


def _made(cls: type, params: dict[str, Any]) -> Any:
    """Make an estimator of stored parameters; what belongs to one fit alone is not taken from a file."""
    solver = Solver(**_saved(Solver, params["solver"]))
    return cls(**_saved(cls, params) | {"solver": solver})


def _saved(cls: type, params: dict[str, Any]) -> dict[str, Any]:
    known = parameters_of(cls)
    return {name: value for name, value in params.items() if name not in known or known[name].saved}


def _described(penalties: Penalties) -> dict[str, Any]:
    setting = penalties.setting
    for term in penalties.terms:
        if term.key.partition(":")[0] not in PENALTIES:
            raise ValueError(
                f"save: the penalty {term.name!r} has no text form: only the penalties of the package have one. Keep "
                "the model's components_ with numpy.savez, or resume the fit with "
                "Solver(checkpoint=...)."
            )
    return {
        "terms": [term.key for term in penalties.terms],
        "setting": [*setting.shape, setting.mean, setting.level],
    }


def _listed(path: AlphaPath) -> list[Any]:
    return [path.penalty, path.alpha, path.alphas.tolist(), path.values.tolist(), path.limit]


def _penalties_of(stored: dict[str, Any] | None) -> tuple[Penalties, float]:
    """The penalties as `save` stored them; none in files from before there were any."""
    if stored is None:
        return NONE, 0.0
    m, n, mean, level = stored["setting"]
    return Penalties(as_penalties(stored["terms"]), Setting((int(m), int(n)), mean, level)), float(stored["value"])


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Interval):
        return str(value)
    if isinstance(value, Penalty) and value.key.partition(":")[0] in PENALTIES:
        return value.key
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return as_written(value)
