"""Files of a run: summary, comparison, tables, the model."""

from __future__ import annotations

import csv
import hashlib
import json
import platform
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drnmf.runs import schema
from drnmf.runs.schema import column, loss_key

if TYPE_CHECKING:
    from drnmf.algorithms.result import Trace
    from drnmf.estimators.comparison import Comparison
    from drnmf.matrices.files import Matrix


def versions() -> dict[str, str]:
    """What the numbers were made with."""
    import numpy
    import scipy
    import sklearn

    import drnmf

    modules = {"drnmf": drnmf, "numpy": numpy, "scipy": scipy, "scikit-learn": sklearn}
    return {"python": platform.python_version()} | {name: module.__version__ for name, module in modules.items()}


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, or of a folder: the names, sizes and contents of all files in it, in the order of names."""
    if not path.is_dir():
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    whole = hashlib.sha256()
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        name = file.relative_to(path).as_posix().encode(errors="surrogateescape")
        whole.update(b"%d %s %d %s\n" % (len(name), name, file.stat().st_size, sha256_of(file).encode()))
    return whole.hexdigest()


def describe_input(path: Path, matrix: Matrix, variable: str | None) -> dict[str, Any]:
    """Which data: enough to tell later whether a file is the one."""
    digest = None  # a store of many files, or one too large to read once more
    if path.is_file() and not hasattr(matrix.X, "chunks"):
        digest = sha256_of(path)
    stored = getattr(matrix.X, "nnz", None)
    return {
        "file": path.name,
        "sha256": digest,
        "variable": variable,
        "shape": list(matrix.X.shape),
        "dtype": str(matrix.X.dtype),
        "stored_entries": None if stored is None else int(stored),
    }


def per_loss(betas: Iterable[float], values: Iterable[float]) -> schema.PerLoss:
    """{"0": ..., "1": ...}: one value per loss."""
    return {loss_key(beta): float(value) for beta, value in zip(betas, values, strict=True)}


def summary_of(kind: schema.Kind, model: Any, seconds: float, notes: list[str]) -> schema.Summary:
    """What summary.json says of a fitted model."""
    from drnmf.storage.records import UNSTORED

    betas = model.betas_
    return {
        "kind": kind,
        "estimator": type(model).__name__,
        "parameters": {name: value for name, value in model.get_params().items() if name not in UNSTORED},
        "seed": model.random_state,
        "seconds": round(seconds, 3),
        "iterations": model.n_iter_,
        "converged": model.converged_,
        "reason": model.reason_,
        "losses": per_loss(betas, model.losses_),
        "references": per_loss(betas, model.references_),
        "scaled_losses": per_loss(betas, model.scaled_losses_),
        "weights": per_loss(betas, model.weights_),
        "gap": model.gap_,
        "stationarity": model.stationarity_,
        "bound": None if model.coverage_ is None else model.coverage_.bound,
        "notes": notes,
    }


def listed(folder: Path) -> list[str]:
    """Name the files in a folder, with `/` between the parts of a name."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def write_summary(folder: Path, content: schema.Summary) -> None:
    """summary.json: the content, with the command and the versions before it and the files of the run after it."""
    whole: schema.Summary = {
        "command": shlex.join(["drnmf", *sys.argv[1:]]),
        "versions": versions(),
        **content,
        "files": [*listed(folder), schema.SUMMARY],
    }
    write_record(folder / schema.SUMMARY, whole)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def write_record(path: Path, content: Mapping[str, Any]) -> None:
    """A .json file."""
    path.write_text(json.dumps(content, indent=2, default=_plain) + "\n", encoding="utf-8")


def write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    """Records as .csv; numbers in full."""
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_model(folder: Path, model: Any, W: Any) -> None:
    """W.npy, H.npy, trace.csv and model.npz."""
    import numpy as np

    from drnmf.backends.base import is_dask

    if is_dask(W):
        from drnmf.matrices.rowblocks import save_rows

        save_rows(folder / schema.W_FILE, W)
    else:
        np.save(folder / schema.W_FILE, W)
    np.save(folder / schema.H_FILE, model.components_)
    write_table(folder / schema.TRACE, trace_rows(model.betas_, model.trace_))
    model.save(folder / schema.MODEL)


def trace_rows(betas: Iterable[float], trace: Trace) -> list[dict[str, Any]]:
    """One record per iteration, the start included."""
    keys = [loss_key(beta) for beta in betas]
    rows = []
    for k, (scaled, weights) in enumerate(zip(trace.scaled_losses, trace.weights, strict=True)):
        row: dict[str, Any] = {"iteration": k, "seconds": round(float(trace.seconds[k]), 6)}
        row |= {"sweeps": int(trace.sweeps[k]), "gap": float(trace.gap[k]), "maximum": float(scaled.max())}
        row |= {column("scaled_loss", key): float(value) for key, value in zip(keys, scaled, strict=True)}
        row |= {column("weight", key): float(value) for key, value in zip(keys, weights, strict=True)}
        rows.append(row)
    return rows


def write_comparison(folder: Path, found: Comparison) -> None:
    """comparison.json of fits that were made to be compared."""
    methods: list[schema.Method] = [
        {
            "name": method.name,
            "losses": method.losses.tolist(),
            "scaled_losses": method.scaled.tolist(),
            "iterations": method.n_iter,
            "seconds": round(method.seconds, 3),
        }
        for method in found.methods
    ]
    _write_methods(folder, found.betas, found.references, methods)


def write_comparison_of(folder: Path, model: Any) -> None:
    """comparison.json, where the fit found its references itself: what each loss alone costs in the others."""
    from drnmf.losses.beta import label

    singles = getattr(model, "single_losses_", None)
    if singles is None:
        return
    own = {"DRNMF": "DR-NMF", "MultiObjectiveNMF": "MO-NMF"}[type(model).__name__]
    names = [*(f"{label(beta)}-NMF" for beta in model.betas_.tolist()), own]
    methods: list[schema.Method] = [
        {"name": name, "losses": row.tolist(), "scaled_losses": (row / model.references_).tolist()}
        for name, row in zip(names, [*singles, model.losses_], strict=True)
    ]
    _write_methods(folder, model.betas_.tolist(), model.references_, methods)


def _write_methods(folder: Path, betas: Iterable[float], references: Any, methods: list[schema.Method]) -> None:
    record: schema.Comparison = {"betas": list(betas), "references": references.tolist(), "methods": methods}
    write_record(folder / schema.COMPARISON, record)


def write_names(folder: Path, matrix: Matrix) -> None:
    """names.json, where the input had names for rows or columns."""
    if matrix.row_names is not None or matrix.column_names is not None:
        names = {"rows": matrix.row_names, "columns": matrix.column_names}
        text = json.dumps(names, indent=1, ensure_ascii=False) + "\n"
        (folder / schema.NAMES).write_text(text, encoding="utf-8")
