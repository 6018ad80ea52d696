"""A run folder, read tolerantly: whoever reads it uses what is there."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np

from drnmf.losses.base import Omega
from drnmf.losses.part import Part
from drnmf.matrices.cells import unguarded
from drnmf.numerics import Array
from drnmf.problem.tabular import component_names
from drnmf.runs import schema
from drnmf.runs.schema import column, loss_keys

if TYPE_CHECKING:
    from drnmf.algorithms.result import Trace


@dataclass(frozen=True)
class Run:
    """A run folder. `summary` is the only file it must have."""

    folder: Path
    summary: schema.Summary
    comparison: schema.Comparison | None
    trace: Trace | None
    omega: Omega  # the losses of the trace; none where there is no trace
    W: Array | None
    H: Array | None
    names: schema.Names | None = None

    @property
    def row_names(self) -> list[str] | None:
        """A name per row of W, where the input had them."""
        return self._names("rows", None if self.W is None else self.W.shape[0])

    @property
    def column_names(self) -> list[str] | None:
        """A name per column of H, where the input had them."""
        return self._names("columns", None if self.H is None else self.H.shape[1])

    @property
    def component_names(self) -> list[str]:
        """A name per component: its own, or one that counts from 1."""
        return [] if self.H is None else component_names_of(self.folder, self.H.shape[0])

    def _names(self, side: Literal["rows", "columns"], count: int | None) -> list[str] | None:
        names = None if self.names is None else self.names.get(side)
        if names is not None and (not isinstance(names, list) or count not in (None, len(names))):
            raise ValueError(f"{self.folder / schema.NAMES} is damaged: it has not one name for each of the {side}.")
        return names

    @property
    def data(self) -> schema.Input:
        """What was read, or made up, as the summary describes it."""
        return self.summary.get("input") or self.summary.get("data") or {}

    @property
    def kind(self) -> str:
        """fit, pareto, separate, topics, demo or discover: the command that made the run."""
        return str(self.summary.get("kind", "fit"))

    @property
    def regrets(self) -> bool:
        """Whether scaled losses say how far parts are from their best alone, on the way to their simplest model."""
        parts = any(isinstance(loss, Part) for loss in self.omega)
        return parts and self.summary.get("parameters", {}).get("part_scale") == "regret"

    def table(self, name: str) -> list[dict[str, str]]:
        """A .csv of the folder as rows; empty where there is none."""
        return read_table(self.folder / name) if (self.folder / name).is_file() else []


def read_table(path: Path) -> list[dict[str, str]]:
    """A .csv file as rows, every cell as text under the name of its column."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = csv.DictReader(stream)
            rows.fieldnames = [unguarded(name) for name in rows.fieldnames or ()]
            # what a damaged row lacks, or has too much, is no text
            return [{k: unguarded(cell) if isinstance(cell, str) else cell for k, cell in row.items()} for row in rows]
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{path} is damaged: {error}.") from None


def read_run(folder: Path) -> Run:
    """Read a run folder, or say what is missing or damaged in it."""
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is not a folder: name the --out of an earlier run.")
    summary = _json(folder / schema.SUMMARY, schema.Summary)
    if summary is None:
        raise FileNotFoundError(f"{folder} holds no {schema.SUMMARY}: it is not the result of a run.")
    return Run(
        folder,
        summary,
        _json(folder / schema.COMPARISON, schema.Comparison),
        *_trace(folder / schema.TRACE),
        _array(folder / schema.W_FILE),
        _array(folder / schema.H_FILE),
        _json(folder / schema.NAMES, schema.Names),
    )


def _json(path: Path, kind: object) -> Any:
    """Read the object in a file, which must be as the schema says; None where there is no file."""
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}.") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} is damaged: it holds no object.")
    wrong = misfit(content, kind)
    if wrong is not None:
        raise ValueError(f"{path} is not as drnmf writes it: {wrong}. Run the command again, or undo the edit.")
    return content


def _array(path: Path) -> Array | None:
    if not path.is_file():
        return None
    try:
        array = np.load(path, allow_pickle=False, mmap_mode="r")
    except PermissionError:
        raise
    except Exception as error:  # what reads damaged files raises nearly anything
        raise ValueError(f"{path} is damaged: {error}.") from None
    if array.ndim != 2:
        raise ValueError(f"{path} is damaged: shape {array.shape} is no matrix.")
    if array.dtype.kind not in "buif":
        raise ValueError(f"{path} is damaged: it holds {array.dtype}, not numbers.")
    return array


def _trace(path: Path) -> tuple[Trace | None, Omega]:
    """Read a trace, and the losses that it is of."""
    from drnmf.algorithms.result import Trace  # with SciPy, which commands without a run do without
    from drnmf.losses.names import from_text

    if not path.is_file():
        return None, ()
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.reader(stream))
        header, values = rows[0], np.array(rows[1:], dtype=np.float64).reshape(len(rows) - 1, len(rows[0]))
        named = dict(zip(header, values.T, strict=True))
        keys = loss_keys(header)
        losses, scaled, weights = (
            np.stack([named[column(kind, key)] for key in keys], axis=1) for kind in ("loss", "scaled_loss", "weight")
        )
        sweeps, penalty = np.array([int(count) for count in named["sweeps"]]), named.get("penalty", np.empty(0))
        trace = Trace(losses, scaled, weights, named["seconds"], named["gap"], sweeps, penalty=penalty)
        return trace, tuple(from_text(key) for key in keys)
    except (ValueError, LookupError, OverflowError, csv.Error) as error:
        raise ValueError(f"{path} is damaged: {error}.") from None


def compared(comparison: schema.Comparison) -> Omega:
    """List the losses of a comparison."""
    from drnmf.losses.names import from_text

    return tuple(map(from_text, comparison["losses"]))


def summary_of(run: Path) -> schema.Summary:
    """Read what a run says of itself; nothing where only the file of a model is known of it."""
    summary: schema.Summary | None = _json(run / schema.SUMMARY, schema.Summary) if run.is_dir() else None
    return summary or {}


def _own_summary(folder: Path) -> schema.Summary | None:
    """Read the summary of a folder that a run of ours wrote, whatever else is wrong with it; None where none did."""
    try:
        summary: schema.Summary = json.loads((folder / schema.SUMMARY).read_text(encoding="utf-8"))
        ours = summary["kind"] in schema.KINDS and "drnmf" in summary["versions"] and isinstance(summary["files"], list)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return summary if ours else None


def files_of_run(folder: Path) -> frozenset[str] | None:
    """Find the files that a run wrote into a folder; None where no run did."""
    own = _own_summary(folder)
    # The page may have been made later, by `drnmf report`.
    return None if own is None else frozenset(map(str, own["files"])) | {schema.SUMMARY, schema.REPORT}


def input_of_run(folder: Path) -> str | None:
    """Name the file whose results a folder holds; None where it holds no run, or none of a file."""
    record = (_own_summary(folder) or {}).get("input")
    return str(record["file"]) if isinstance(record, dict) and "file" in record else None


def model_file(run: Path) -> Path:
    """Find the model of a run; the file itself may be named too."""
    file = run / schema.MODEL if run.is_dir() else run
    if not file.exists():
        raise FileNotFoundError(
            f"{file} does not exist: RUN_DIR must be a folder that `drnmf fit`, `discover`, `topics` or `separate` "
            "wrote."
        )
    return file


def component_names_of(run: Path, rank: int) -> list[str]:
    """Name the components of a run: as its names.json does, or by counting from 1."""
    names = _json(run / schema.NAMES, schema.Names) if run.is_dir() else None
    own = None if names is None else names.get("components")
    return own if own is not None and len(own) == rank else component_names(rank)


def misfit(value: object, kind: Any, where: str = "") -> str | None:
    """Find the first place where a value of JSON is not of a type; None where it is.

    `kind` is a TypedDict, list[...], dict[str, ...], a union, a Literal or a class; `where` names the value.

    >>> misfit({"a": [1, 2.5]}, dict[str, list[float]])
    >>> misfit({"a": [1, "x"]}, dict[str, list[float]])
    "a[1] is 'x', not float"
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return None
    if origin is NotRequired:
        return misfit(value, inner[0], where)
    if is_typeddict(kind):
        return _misfit_record(value, kind, where)
    if origin in (UnionType, Union):
        wrong = [misfit(value, one, where) for one in inner]
        return None if None in wrong else wrong[0]
    if origin is Literal:
        return None if value in inner else _said(value, where, f"one of {', '.join(map(str, inner))}")
    if origin is list and isinstance(value, list):
        return _first(misfit(item, inner[0], f"{where}[{i}]") for i, item in enumerate(value))
    if origin is dict and isinstance(value, dict):
        return _first(misfit(item, inner[1], _inside(where, name)) for name, item in value.items())
    accepted = (int, float) if kind is float else NoneType if kind is None else origin or kind
    sound = isinstance(value, accepted) and (kind is bool or not isinstance(value, bool))
    return None if sound else _said(value, where, getattr(origin or kind, "__name__", str(kind)))


def _misfit_record(value: object, kind: Any, where: str) -> str | None:
    if not isinstance(value, dict):
        return _said(value, where, "an object")
    hints = get_type_hints(kind, include_extras=True)  # annotations are text: only here is NotRequired seen
    required = {name for name in kind.__required_keys__ if get_origin(hints[name]) is not NotRequired}
    missing = sorted(required - value.keys())
    if missing:
        return f"{_inside(where, missing[0])} is missing"
    known = (name for name in value if name in hints)
    return _first(misfit(value[name], hints[name], _inside(where, name)) for name in known)


def _inside(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _first(complaints: Iterable[str | None]) -> str | None:
    return next((wrong for wrong in complaints if wrong is not None), None)


def _said(value: object, where: str, wanted: str) -> str:
    text = repr(value)
    return f"{where or 'it'} is {text if len(text) <= 40 else text[:37] + '...'}, not {wanted}"
