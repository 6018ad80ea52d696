"""What commands write: summaries, tables, traces."""

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

from drnmf.cli.runs import SUMMARY, listed

if TYPE_CHECKING:
    from drnmf.algorithms.result import Trace
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


def command_line() -> str:
    """The command as it was typed."""
    return shlex.join(["drnmf", *sys.argv[1:]])


def per_beta(betas: Iterable[float], values: Iterable[float]) -> dict[str, float]:
    """{"0": ..., "1": ...}: one value per loss."""
    return {f"{beta:g}": float(value) for beta, value in zip(betas, values, strict=True)}


def write_summary(folder: Path, content: Mapping[str, Any]) -> None:
    """summary.json: the content, with the command and the versions before it and the files of the run after it."""
    files = [*listed(folder), SUMMARY]
    whole = {"command": command_line(), "versions": versions(), **content, "files": files}
    write_record(folder / SUMMARY, whole)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def write_record(path: Path, content: Mapping[str, Any]) -> None:
    """A .json file."""
    path.write_text(json.dumps(content, indent=2, default=_plain) + "\n", encoding="utf-8")


def write_comparison(folder: Path, model: Any) -> None:
    """comparison.json, where the fit found its references itself: what each loss alone costs in the others."""
    from drnmf.estimators.comparison import record_of

    singles = getattr(model, "single_losses_", None)
    if singles is not None:
        name = {"DRNMF": "DR-NMF", "MultiObjectiveNMF": "MO-NMF"}[type(model).__name__]
        betas = tuple(model.betas_.tolist())
        record = record_of(betas, model.references_, singles, model.losses_, name)
        write_record(folder / "comparison.json", record)


def write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    """Records as .csv; numbers in full."""
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def trace_rows(betas: Iterable[float], trace: Trace) -> list[dict[str, Any]]:
    """One record per iteration, the start included."""
    names = [f"{beta:g}" for beta in betas]
    rows = []
    for k, (scaled, weights) in enumerate(zip(trace.scaled_losses, trace.weights, strict=True)):
        row: dict[str, Any] = {"iteration": k, "seconds": round(float(trace.seconds[k]), 6)}
        row |= {"sweeps": int(trace.sweeps[k]), "gap": float(trace.gap[k]), "maximum": float(scaled.max())}
        row |= {f"scaled_loss_{name}": float(value) for name, value in zip(names, scaled, strict=True)}
        row |= {f"weight_{name}": float(value) for name, value in zip(names, weights, strict=True)}
        rows.append(row)
    return rows


def write_names(folder: Path, matrix: Matrix) -> None:
    """names.json, where the input had names for rows or columns."""
    if matrix.row_names is not None or matrix.column_names is not None:
        names = {"rows": matrix.row_names, "columns": matrix.column_names}
        (folder / "names.json").write_text(json.dumps(names, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
