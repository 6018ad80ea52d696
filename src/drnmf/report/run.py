"""What a run folder holds, read tolerantly: a section of the page appears where its files are."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drnmf.losses.names import as_loss
from drnmf.numerics import Array, Vector


@dataclass(frozen=True)
class Trace:
    """trace.csv as columns; `scaled` and `weights` are (rows, p)."""

    iterations: Vector
    seconds: Vector
    gap: Vector
    scaled: Vector
    weights: Vector
    betas: tuple[float, ...]


@dataclass(frozen=True)
class Run:
    """A run folder. `summary` is the only file it must have."""

    folder: Path
    summary: Mapping[str, Any]
    comparison: Mapping[str, Any] | None
    trace: Trace | None
    W: Array | None
    H: Array | None

    @property
    def command(self) -> str:
        """fit, pareto, separate, topics or demo: the command that made the run."""
        return str(self.summary.get("kind", "fit"))

    @property
    def betas(self) -> tuple[float, ...]:
        if self.trace is not None:
            return self.trace.betas
        return tuple(float(beta) for beta in self.summary.get("betas", ()))

    def table(self, name: str) -> list[dict[str, str]]:
        """A .csv of the folder as rows; empty where there is none."""
        path = self.folder / name
        if not path.is_file():
            return []
        with path.open(encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream))


def read_run(folder: Path) -> Run:
    """Read a run folder, or say what is missing or damaged in it."""
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is not a folder: name the --out of an earlier run.")
    summary = _json(folder / "summary.json")
    if summary is None:
        raise FileNotFoundError(f"{folder} holds no summary.json: it is not the result of a run.")
    return Run(
        folder,
        summary,
        _json(folder / "comparison.json"),
        _trace(folder / "trace.csv"),
        _array(folder / "W.npy"),
        _array(folder / "H.npy"),
    )


def _json(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is damaged: {error}.") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} is damaged: it holds no object.")
    return content


def _array(path: Path) -> Array | None:
    if not path.is_file():
        return None
    try:
        array = np.load(path, allow_pickle=False, mmap_mode="r")
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is damaged: {error}.") from None
    if array.ndim != 2:
        raise ValueError(f"{path} is damaged: shape {array.shape} is no matrix.")
    return array


def _trace(path: Path) -> Trace | None:
    if not path.is_file():
        return None
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    try:
        header, values = rows[0], np.array(rows[1:], dtype=np.float64).reshape(len(rows) - 1, len(rows[0]))
        named = dict(zip(header, values.T, strict=True))
        names = [name for name in header if name.startswith("scaled_loss_")]
        betas = tuple(_loss_key(name.removeprefix("scaled_loss_")) for name in names)
        scaled = np.stack([named[name] for name in names], axis=1)
        weights = np.stack([named[name.replace("scaled_loss_", "weight_")] for name in names], axis=1)
        return Trace(named["iteration"], named["seconds"], named["gap"], scaled, weights, betas)
    except (ValueError, KeyError, IndexError) as error:
        raise ValueError(f"{path} is damaged: {error}.") from None


def _loss_key(text: str) -> Any:
    """A beta as a number, any other loss by its key."""
    return text if text.startswith("nb:") else float(text)


def loss_name(beta: Any) -> str:
    """The loss in words for a reader: "IS", "KL", "Frobenius" or "beta = 0.5"."""
    name = as_loss(beta).name
    return {"Fro": "Frobenius"}.get(name, name.replace("=", " = "))
