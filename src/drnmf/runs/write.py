"""Files of a run: summary, comparison, tables, the model."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import platform
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from drnmf import __version__
from drnmf.files import replacing
from drnmf.matrices.cells import guarded
from drnmf.problem.tabular import component_names
from drnmf.runs import schema
from drnmf.runs.schema import column

if TYPE_CHECKING:
    from anndata import AnnData

    from drnmf.algorithms.result import Trace
    from drnmf.estimators.base import NMF
    from drnmf.estimators.comparison import Comparison
    from drnmf.losses.base import Omega
    from drnmf.matrices.matrix import Labels, Matrix
    from drnmf.numerics import Array, Entries
    from drnmf.objective.penalty import Penalty
    from drnmf.selection.alpha import AlphaPath

Record = dict[str, object]
"""A row of a table, or parameters: values by their names."""


def versions() -> dict[str, str]:
    """Tell what the numbers were made with."""
    own = {"python": platform.python_version(), "drnmf": __version__}
    return own | {name: metadata.version(name) for name in ("numpy", "scipy", "scikit-learn")}


def sha256_of(path: Path) -> str:
    """Hash a file with SHA-256, or a folder: names, sizes and contents of all its files, in the order of names."""
    if not path.is_dir():
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    whole = hashlib.sha256()
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        name = file.relative_to(path).as_posix().encode(errors="surrogateescape")
        whole.update(b"%d %s %d %s\n" % (len(name), name, file.stat().st_size, sha256_of(file).encode()))
    return whole.hexdigest()


def describe_input(
    path: Path, matrix: Matrix, variable: str | None, uncertainty: Path | None = None, entry_weights: Path | None = None
) -> schema.Input:
    """Describe the data, and the table beside it: enough to tell later whether a file is the one."""
    digest = None  # a store of many files, or one too large to read once more
    if path.is_file() and not hasattr(matrix.X, "chunks"):
        digest = sha256_of(path)
    stored = getattr(matrix.X, "nnz", None)
    described: schema.Input = {
        "file": path.name,
        "sha256": digest,
        "variable": variable,
        "shape": list(matrix.X.shape),
        "dtype": str(matrix.X.dtype),
        "stored_entries": None if stored is None else int(stored),
        "image": None if matrix.image is None else list(matrix.image),
    }
    if uncertainty is not None:
        described["uncertainty"] = _table(uncertainty)
    if entry_weights is not None:
        described["entry_weights"] = _table(entry_weights)
    return described


def _table(path: Path) -> schema.Table:
    return {"file": path.name, "sha256": sha256_of(path)}


def computed_by(X: Entries, device: str | None = None, precision: str = "float32") -> schema.Summary:
    """Tell what computed a fit of X: the backend, its instruction set where it is compiled, and its threads."""
    from drnmf.backends.core import chosen_backend, native_core
    from drnmf.backends.open import is_dask
    from drnmf.problem.device import place

    core, backend = native_core(), chosen_backend()
    compiled = core is not None
    if is_dask(X):
        backend = f"dask ({backend})"
    elif place(X, device, precision).gpu:
        backend, compiled = "torch", False
    return {
        "backend": backend,
        "instruction_set": core.instruction_set() if compiled else None,
        "threads": 1 if core is None else core.get_num_threads(),
    }


def per_loss(omega: Omega, values: Iterable[float]) -> schema.PerLoss:
    """Name one value per loss: {"0": ..., "1": ...}."""
    return {loss.key: float(value) for loss, value in zip(omega, values, strict=True)}


def parameters_of(model: NMF) -> Record:
    """Collect the parameters of a model that change what it finds, those of its solver among them."""
    from drnmf.solve.settings import settings_of
    from drnmf.storage.records import UNSTORED

    return {name: value for name, value in settings_of(model).items() if name not in UNSTORED}


def summary_of(kind: schema.Kind, model: NMF, seconds: float, notes: list[str]) -> schema.Summary:
    """Collect what summary.json says of a fitted model."""
    omega = model.omega_
    return {
        "kind": kind,
        "estimator": type(model).__name__,
        "parameters": parameters_of(model),
        "seed": model.random_state if isinstance(model.random_state, int) else None,
        "seconds": round(seconds, 3),
        "iterations": model.n_iter_,
        "converged": model.converged_,
        "reason": model.reason_,
        "losses": per_loss(omega, model.losses_),
        "references": per_loss(omega, model.references_),
        "scaled_losses": per_loss(omega, model.scaled_losses_),
        "weights": per_loss(omega, model.weights_),
        "penalty": model.penalty_ if model.penalties_ else None,
        "penalties": penalised(model.penalties_.terms, model.penalty_path_),
        "gap": model.gap_,
        "stationarity": model.stationarity_,
        "bound": None if model.coverage_ is None else model.coverage_.bound,
        "notes": notes,
    }


def penalised(terms: Iterable[Penalty], paths: Iterable[AlphaPath]) -> list[schema.Penalised]:
    """List the penalties of a run with their alphas, and what was tried where the data chose one."""
    chosen = {path.penalty: path for path in paths}
    fixed = {term.key: float(term.alpha) for term in terms if term.key not in chosen}
    rows: list[schema.Penalised] = [
        {"penalty": key, "alpha": alpha, "alphas": None, "values": None, "limit": None} for key, alpha in fixed.items()
    ]
    for key, path in chosen.items():
        tried, values = path.alphas.tolist(), path.values.tolist()
        rows.append({"penalty": key, "alpha": path.alpha, "alphas": tried, "values": values, "limit": path.limit})
    return rows


def listed(folder: Path) -> list[str]:
    """Name the files in a folder, with `/` between the parts of a name."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def write_summary(folder: Path, content: schema.Summary) -> None:
    """Write summary.json: the content, with the command and the versions before it and the files of the run after."""
    whole: schema.Summary = {
        "command": shlex.join(["drnmf", *sys.argv[1:]]),
        "versions": versions(),
        **content,
        "files": [*listed(folder), schema.SUMMARY],
    }
    write_record(folder / schema.SUMMARY, whole)


def write_record(path: Path, content: Mapping[str, object]) -> None:
    """Write a .json file."""
    from drnmf.storage.records import described

    path.write_text(json.dumps(content, indent=2, default=described) + "\n", encoding="utf-8")


def write_table(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write records as .csv; numbers in full."""
    names = list(rows[0])
    write_rows(path, [names, *([row[name] for name in names] for row in rows)])


def write_model(folder: Path, model: NMF, W: Entries | None) -> None:
    """Write W.npy, where there is a W, H.npy, trace.csv and model.npz."""
    from drnmf.backends.open import is_dask

    if is_dask(W):
        from drnmf.matrices.rowblocks import save_rows

        save_rows(folder / schema.W_FILE, W)
    elif W is not None:
        np.save(folder / schema.W_FILE, W)
    np.save(folder / schema.H_FILE, model.components_)
    write_table(folder / schema.TRACE, trace_rows(model.omega_, model.trace_))
    model.save(folder / schema.MODEL)


def trace_rows(omega: Omega, trace: Trace) -> list[Record]:
    """Make one record per iteration, the start included."""
    keys = [loss.key for loss in omega]
    rows = []
    for k, scaled in enumerate(trace.scaled_losses):
        row: Record = {"iteration": k, "seconds": round(float(trace.seconds[k]), 6)}
        row |= {"sweeps": int(trace.sweeps[k]), "gap": float(trace.gap[k]), "maximum": float(scaled.max())}
        row |= {column("scaled_loss", key): float(value) for key, value in zip(keys, scaled, strict=True)}
        row |= {column("weight", key): float(value) for key, value in zip(keys, trace.weights[k], strict=True)}
        row |= {column("loss", key): float(value) for key, value in zip(keys, trace.losses[k], strict=True)}
        if trace.penalty.any():
            row["penalty"] = float(trace.penalty[k])
        rows.append(row)
    return rows


def write_coverage(folder: Path, model: NMF) -> None:
    """Write coverage.csv, where every beta of an interval was fitted: the losses along it, and which are knots."""
    seen = model.coverage_
    if seen is None:
        return
    knots = [loss.beta for loss in model.omega_]
    seen_at = [(float(b), *losses) for b, *losses in zip(seen.betas, seen.losses, seen.references, strict=True)]
    rows = [
        {"beta": b, "loss": float(d), "reference": float(e), "scaled_loss": float(d / e), "knot": b in knots}
        for b, d, e in sorted(
            [
                *zip(knots, model.losses_, model.references_, strict=True),
                *(row for row in seen_at if row[0] not in knots),
            ]
        )
    ]
    write_table(folder / schema.COVERAGE, rows)


def write_comparison(folder: Path, model: NMF, methods: Sequence[schema.Method]) -> None:
    """Write comparison.json: fits under each loss alone and, last, the model's."""
    record: schema.Comparison = {
        "losses": [loss.key for loss in model.omega_],
        "references": model.references_.tolist(),
        "methods": list(methods),
    }
    write_record(folder / schema.COMPARISON, record)


def write_comparison_of(folder: Path, model: NMF) -> None:
    """Write comparison.json, where the fit found its references itself: what each loss alone costs in the others."""
    singles = getattr(model, "single_losses_", None)
    if singles is None:
        return
    own = {"DRNMF": "DR-NMF", "MultiObjectiveNMF": "MO-NMF"}[type(model).__name__]
    names = [*(f"{loss.name}-NMF" for loss in model.omega_), own]
    methods: list[schema.Method] = [
        {"name": name, "losses": row.tolist(), "scaled_losses": (row / model.references_).tolist()}
        for name, row in zip(names, [*singles, model.losses_], strict=True)
    ]
    write_comparison(folder, model, methods)


def write_compared(
    folder: Path, kind: schema.Kind, comparison: Comparison, seconds: float, notes: Iterable[str]
) -> schema.Summary:
    """Write the robust model of a comparison and comparison.json; return what summary.json says of them."""
    write_model(folder, comparison.model, comparison.robust.W)
    methods: list[schema.Method] = [
        {
            "name": method.name,
            "losses": method.losses.tolist(),
            "scaled_losses": method.scaled.tolist(),
            "iterations": method.n_iter,
            "seconds": round(method.seconds, 3),
        }
        for method in comparison.methods
    ]
    write_comparison(folder, comparison.model, methods)
    return summary_of(kind, comparison.model, seconds, list(notes))


def write_names(folder: Path, matrix: Matrix, W: Entries, H: Array, components: Sequence[str] | None = None) -> None:
    """Write names.json, W.csv and H.csv, where the input had names for rows or columns, or the components have them."""
    if not matrix.named and components is None:
        return
    names = list(components or component_names(H.shape[0]))
    write_component_names(folder, matrix, names)
    write_rows(folder / schema.W_TABLE, labelled(matrix.row_names, W, names))
    write_rows(folder / schema.H_TABLE, labelled(matrix.column_names, H.T, names))


def write_component_names(folder: Path, matrix: Matrix, components: Sequence[str]) -> None:
    """Write names.json."""
    names: schema.Names = {
        "rows": None if matrix.row_names is None else list(matrix.row_names),
        "columns": None if matrix.column_names is None else list(matrix.column_names),
        "components": list(components),
    }
    if matrix.rows is not None and any(matrix.rows.titles):
        names["row_labels"] = _label_columns(matrix.rows)
    if matrix.columns is not None and any(matrix.columns.titles):
        names["column_labels"] = _label_columns(matrix.columns)
    text = json.dumps(names, indent=1, ensure_ascii=False) + "\n"
    (folder / schema.NAMES).write_text(text, encoding="utf-8", errors="replace")


def _label_columns(labels: Labels) -> list[schema.LabelColumn]:
    pairs = zip(labels.titles, labels.columns, strict=True)
    return [{"title": title, "values": list(values)} for title, values in pairs]


def labelled(labels: Sequence[str] | None, values: Entries, columns: Sequence[str]) -> Iterator[list[object]]:
    """Yield the rows of a table: a label each, counted from 1 where there is none, then a number for every column.

    A Dask array is read block by block.
    """
    blocks = (
        (values.blocks[i].compute() for i in range(values.numblocks[0])) if hasattr(values, "numblocks") else (values,)
    )
    names = iter(counted(values.shape[0]) if labels is None else labels)
    yield ["label", *columns]
    for block in blocks:
        yield from ([next(names), *row] for row in block.tolist())


def counted(count: int) -> list[str]:
    """Label what has no names by counting from 1.

    >>> counted(2)
    ['1', '2']
    """
    return [str(i + 1) for i in range(count)]


def write_rows(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Write rows as .csv, whole or not at all; bytes of names that are no text become question marks.

    A spreadsheet runs none of the names (`formulas.guarded`).
    """
    safe = ([guarded(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    with replacing(path) as stream:
        text = io.TextIOWrapper(stream, "utf-8", "replace", newline="")
        csv.writer(text, lineterminator="\n").writerows(safe)
        text.detach()  # flushed, and the stream stays open


CELLS, GENES, FACTS = "X_drnmf", "drnmf", "drnmf"
"""Keys of the contributions in obsm, of the components in varm, and of what else is known in uns."""

Facts = Mapping[str, object]


def annotate(adata: AnnData, W: ArrayLike, H: ArrayLike, names: Sequence[str], facts: Facts) -> None:
    """Put contributions (cells, r), components (r, genes) and facts into the AnnData object whose X was factorised."""
    adata.obsm[CELLS] = np.asarray(W)
    adata.varm[GENES] = np.ascontiguousarray(np.asarray(H).T)
    adata.uns[FACTS] = {"names": np.array(names, dtype=object), **facts}


def write_annotated(source: Path, target: Path, W: ArrayLike, H: ArrayLike, names: Sequence[str], facts: Facts) -> bool:
    """Write a copy of an .h5ad file with a result in it; its X is copied, never read. False without anndata."""
    try:
        h5py, write_elem = import_module("h5py"), _writer()
    except ImportError:
        return False
    shutil.copyfile(source, target)
    try:
        with h5py.File(target, "r+") as stored:
            for name in ("obsm", "varm", "uns"):
                if name not in stored:
                    write_elem(stored, name, {})
            write_elem(stored, f"obsm/{CELLS}", np.asarray(W))
            write_elem(stored, f"varm/{GENES}", np.ascontiguousarray(np.asarray(H).T))
            write_elem(stored, f"uns/{FACTS}", {"names": np.array(names, dtype=object), **facts})
    except (RuntimeError, OSError, KeyError, TypeError, ValueError) as error:  # whatever HDF5 says of a damaged file
        raise ValueError(f"{source} cannot take the results in, part of it is damaged: {error}") from None
    return True


def _writer() -> Callable[..., None]:
    """Find the function of anndata that writes an element, which has moved between its versions."""
    try:
        return import_module("anndata.io").write_elem
    except ImportError:
        return import_module("anndata.experimental").write_elem
