"""Fitted models as plain data: one .npz, never a pickle."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.algorithms.result import Trace
from drnmf.losses.base import Omega
from drnmf.losses.interval import Coverage, Interval
from drnmf.losses.names import from_text, text_of
from drnmf.losses.part import Part, Rowwise
from drnmf.numerics import Array, Vector
from drnmf.objective.penalties import PENALTIES, as_penalties
from drnmf.objective.penalty import Penalties, Setting
from drnmf.objective.simplex import check_weights
from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import parameters_of
from drnmf.parameters.solver import Solver
from drnmf.problem.device import as_numpy
from drnmf.problem.scikit import BaseEstimator
from drnmf.selection.alpha import AlphaPath
from drnmf.selection.growth import Growth
from drnmf.selection.noise import NoiseProfile
from drnmf.solve.heavy import Heavy
from drnmf.solve.references import check_references
from drnmf.solve.stream import Follower, StreamState, Sums
from drnmf.solve.tables import Table
from drnmf.storage import archive
from drnmf.storage.records import TYPES
from drnmf.trees import name_of, pack, types_in, unpack

_ARRAYS = ("components_", "betas_", "weights_", "references_", "losses_", "scaled_losses_", "mean_row_")
_SCALARS = (
    "n_components_",
    "reconstruction_err_",
    "n_iter_",
    "converged_",
    "reason_",
    "notes_",
    "mean_",
    "n_features_in_",
    "gap_",
    "stationarity_",
    "loss_names_",
)
_ROWS = ("row_weights_", "row_references_")
_SOLVER = "solver."
"""What the parameters of a solver, and their arrays, are stored by."""
_COVERAGE = tuple(Coverage.__dataclass_fields__)
_TYPES = TYPES | {
    name_of(kind): kind for kind in (Interval, NoiseProfile, StreamState, Follower, Sums, Heavy, Growth, Table)
}


def save(model: BaseEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted model, all or nothing.

    Raises
    ------
    ValueError
        Where a loss of the model has no text form.
    """
    arrays = {name: as_numpy(getattr(model, name)) for name in _ARRAYS}
    parted = [loss for loss in model.omega_ if isinstance(loss, Part | Rowwise)]
    omega = _store("omega_", model.omega_, arrays) if parted else _texts(model.omega_)
    arrays |= {name: getattr(model, name) for name in _ROWS if getattr(model, name, None) is not None}
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
    arrays |= {f"factor_{mode}": factor for mode, factor in enumerate(getattr(model, "factors_", ()))}
    meta: dict[str, object] = {name: getattr(model, name) for name in _SCALARS}
    meta |= {"class": type(model).__name__, "params": _stored_params(model, arrays), "omega": omega}
    if hasattr(model, "noise_profile_"):
        meta["noise_profile_"] = _store("noise_profile_", model.noise_profile_, arrays)
    if hasattr(model, "stream_"):
        meta["stream_"] = _store("stream_", model.stream_, arrays)
        meta |= {"rows_seen_": model.rows_seen_, "gap_error_": model.gap_error_}
        if hasattr(model, "growth_"):
            held = model.held_rows_
            parts = (held.data, held.indices, held.indptr, held.shape)
            meta["growth_"] = _store("growth_", (model.growth_, model.rows_offered_, parts), arrays)
    meta["groups_"] = getattr(model, "groups_", None)
    if getattr(model, "tables_", None) is not None:
        meta["tables_"] = _store("tables_", (model.tables_, model.row_names_), arrays)
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
        model = _made(classes[meta["class"]], meta["params"], arrays)
        if "noise_profile_" in meta:
            model.noise_profile_ = _stored("noise_profile_", meta["noise_profile_"], arrays)
        if "stream_" in meta:
            model.stream_ = _stored("stream_", meta["stream_"], arrays)
            model.rows_seen_, model.gap_error_ = meta["rows_seen_"], meta["gap_error_"]
        if "growth_" in meta:
            model.growth_, model.rows_offered_, held = _stored("growth_", meta["growth_"], arrays)
            model.held_rows_ = sp.csr_array(held[:3], shape=held[3])
        model.groups_, model.tables_ = meta.get("groups_"), None
        if "tables_" in meta:
            model.tables_, model.row_names_ = _stored("tables_", meta["tables_"], arrays)
        for name in _ARRAYS:
            setattr(model, name, arrays[name])
        for name in _SCALARS:
            setattr(model, name, meta[name])
        texts = isinstance(meta["omega"], list)
        model.omega_ = tuple(map(from_text, meta["omega"]) if texts else _stored("omega_", meta["omega"], arrays))
        for name in _ROWS:
            setattr(model, name, arrays.get(name))
        model.notes_ = tuple(model.notes_)
        model.penalties_, model.penalty_ = _penalties_of(meta["penalties"])
        model.penalty_path_ = tuple(
            AlphaPath(penalty, alpha, np.array(alphas), np.array(values), limit)
            for penalty, alpha, alphas, values, limit in meta["penalty_path"]
        )
        model.single_losses_ = arrays.get("single_losses_")
        model.held_out_losses_ = arrays.get("held_out_losses_")
        model.coverage_ = _coverage_of(arrays)
        model.dispersions_ = arrays["dispersions_"]
        model.trace_ = Trace(**{name: arrays[f"trace_{name}"] for name in Trace.__dataclass_fields__})
        if "feature_names_in_" in arrays:
            model.feature_names_in_ = arrays["feature_names_in_"].astype(object)
        factors = [arrays[f"factor_{mode}"] for mode in range(len(arrays)) if f"factor_{mode}" in arrays]
        if factors:  # of a tensor
            model.factors_, model.shape_ = factors, tuple(len(factor) for factor in factors)
        _check(model)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(f"{path} is not a complete drnmf model file ({error}).") from None
    return model


def _check(model: BaseEstimator) -> None:
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


def _coverage_of(arrays: dict[str, Vector]) -> Coverage | None:
    """The interval's coverage as `save` stored it."""
    if "coverage_betas" not in arrays:
        return None
    betas, losses, references = (arrays[f"coverage_{name}"] for name in _COVERAGE[:3])
    added = tuple((int(k), float(beta)) for k, beta in arrays["coverage_added"].reshape(-1, 2))
    bound, factor = float(arrays["coverage_bound"]), float(arrays["coverage_factor"])
    return Coverage(betas, losses, references, bound, factor, added)


def _stored_params(model: BaseEstimator, arrays: dict[str, Array]) -> dict[str, object]:
    """Describe constructor arguments, and those of the solver where it is one and not the name of a rule."""
    params = _stored_fields(model, arrays)
    if isinstance(model.solver, Solver):
        params[_SOLVER] = _stored_fields(model.solver, arrays, _SOLVER)
    return params


def _stored_fields(owner: Parameters | Solver, arrays: dict[str, Array], prefix: str = "") -> dict[str, object]:
    """Describe parameters; objects that are not of the package (a policy of one's own) are left out."""
    params: dict[str, object] = {}
    for name, known in parameters_of(owner).items():
        value = getattr(owner, name)
        if isinstance(value, dict):  # of modes, by number or by dimension
            value = {str(key): np.asarray(entry) for key, entry in value.items()}
        if not known.saved or isinstance(value, Solver):
            continue
        try:
            params[name] = _store(prefix + name, value, arrays)
        except TypeError:
            warnings.warn(f"save: {name} is an object and is not stored; load will use the default.", stacklevel=5)
    return params


def _store(name: str, value: object, arrays: dict[str, Array]) -> object:
    """Describe a value as JSON, and put its arrays to the others; TypeError where it could not be read back."""
    if not types_in(value).keys() <= _TYPES.keys():
        raise TypeError(f"{name} holds objects that are not of the package")
    content, found = pack(value)
    arrays |= {f"{name}.{key}": array for key, array in found.items()}
    return content


def _stored(name: str, content: object, arrays: dict[str, Array]) -> Any:
    """Invert `_store`."""
    prefix = f"{name}."
    own = {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
    return unpack(content, own, _TYPES, strict=True)


def _made(cls: type, params: dict[str, Any], arrays: dict[str, Array]) -> Any:
    """Make an estimator of stored parameters; what belongs to one fit alone is not taken from a file."""
    made = _saved(cls, {name: value for name, value in params.items() if name != _SOLVER}, arrays)
    if _SOLVER in params:
        made["solver"] = Solver(**_saved(Solver, params[_SOLVER], arrays, _SOLVER))
    return cls(**made)


def _saved(cls: type, params: dict[str, object], arrays: dict[str, Array], prefix: str = "") -> dict[str, Any]:
    known = parameters_of(cls)
    kept = {name: value for name, value in params.items() if name not in known or known[name].saved}
    return {name: _stored(prefix + name, value, arrays) for name, value in kept.items()}


def _described(penalties: Penalties) -> dict[str, object]:
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


def _listed(path: AlphaPath) -> list[object]:
    return [path.penalty, path.alpha, path.alphas.tolist(), path.values.tolist(), path.limit]


def _penalties_of(stored: dict[str, Any]) -> tuple[Penalties, float]:
    """The penalties as `save` stored them."""
    *shape, mean, level = stored["setting"]
    setting = Setting(tuple(map(int, shape)), float(mean), float(level))
    return Penalties(as_penalties(stored["terms"]), setting), float(stored["value"])
