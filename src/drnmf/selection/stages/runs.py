"""What is kept of a run of a discovery, and where, so that none is made twice."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from drnmf.algorithms.result import Result, Trace
from drnmf.files import held
from drnmf.losses.base import Omega
from drnmf.losses.names import from_text, text_of
from drnmf.numerics import Array, Vector
from drnmf.problem.device import as_numpy
from drnmf.selection.likelihood.scores import Scores
from drnmf.storage.archive import read_archive, write_archive
from drnmf.trees import name_of, pack, unpack

FORMAT = "drnmf-discovery-1"
_IDENTITY = "discovery.npz"
EARLY = ("max_time", "callback", "interrupted")
"""Reasons of a run that was stopped before its time."""


@dataclass(frozen=True)
class Run:
    """What is kept of a run."""

    H: Array  # (r, n), its components
    # omega, losses, references, weights: under which losses, their values, and lambda
    omega: Omega
    losses: Vector
    references: Vector
    weights: Vector
    trace: Trace  # how it went
    reason: str  # why it ended; "max_time" where it was stopped early
    scores: Scores | None = None  # of the entries that were held out of it, None where it saw all
    # (m, r) of a run that judges a rank and saw every row, or that was made on the transpose; else None
    W: Array | None = None

    @classmethod
    def of(cls, result: Result, scores: Scores | None = None, keep_W: bool = False) -> Run:
        """Keep what is needed of a result."""
        return cls(
            as_numpy(result.H),
            result.omega,
            result.losses,
            result.references,
            result.weights,
            result.trace,
            result.reason,
            scores,
            as_numpy(result.W) if keep_W else None,
        )

    @property
    def error(self) -> float:
        """The largest scaled loss."""
        return float((self.losses / self.references).max())

    @property
    def short_side(self) -> Array:
        """The factor of the columns of X upright: (r, n), or (r, m) where the run was made on the transpose."""
        return self.H if self.W is None else self.W.T

    @property
    def whole(self) -> bool:
        """Whether it came to its end."""
        return self.reason not in EARLY

    @property
    def settled(self) -> bool:
        """Whether it came to its end by its tolerance, and not by its last iteration."""
        return self.reason not in (*EARLY, "max_iter")

    @property
    def seconds(self) -> float | None:
        """Seconds of its iterations; None under several losses, whose references are not in the trace."""
        return float(self.trace.seconds[-1]) if len(self.omega) == 1 else None


class Store:
    """Finished work by name: in memory, and in a folder where there is one, each piece in a file of its own.

    Parameters
    ----------
    folder : where to keep it; None is memory alone
    identity : what must be the same for the work of an earlier call to be used
    """

    def __init__(self, folder: str | os.PathLike[str] | None, identity: Mapping[str, Any]) -> None:
        self._folder = None if folder is None else Path(folder)
        self._identity = dict(identity)
        self._memory: dict[str, Run] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        if self._folder is None:
            return self
        refusal = ValueError(f"{self._folder} is in use by another discovery: wait for it, or name another folder.")
        self._open.enter_context(held(self._folder, refusal))
        self._check_identity(self._folder / _IDENTITY)
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.close()

    def _check_identity(self, path: Path) -> None:
        if not path.exists():
            write_archive(path, {}, {"identity": self._identity}, FORMAT)
            return
        there = read_archive(path, FORMAT)[1]["identity"]
        for name, value in json.loads(json.dumps(self._identity)).items():
            if there.get(name) != value:
                what = "another X" if name == "X" else f"{name}={there.get(name)!r}, not {value!r}"
                raise ValueError(f"{self._folder} keeps a discovery of {what}: name another folder to start over.")

    def has(self, name: str) -> bool:
        """Whether a run is there already."""
        return name in self._memory or (self._folder is not None and (self._folder / f"{name}.npz").exists())

    def get(self, name: str) -> Run | None:
        """Look a run up; None where it is not there yet."""
        path = None if self._folder is None else self._folder / f"{name}.npz"
        if name not in self._memory and path is not None and path.exists():
            self._memory[name] = _read_run(path)
        return self._memory.get(name)

    def keep(self, name: str, run: Run) -> None:
        """Keep a run, unless it was stopped early."""
        if run.whole:
            self._memory[name] = run
            if self._folder is not None:
                _write_run(self._folder / f"{name}.npz", run)


_TYPES = {name_of(kind): kind for kind in (Run, Scores, Trace)}


def _write_run(path: Path, run: Run) -> None:
    tree, arrays = pack([replace(run, omega=()), [text_of(loss) for loss in run.omega]])
    write_archive(path, arrays, {"run": tree}, FORMAT)


def _read_run(path: Path) -> Run:
    arrays, meta = read_archive(path, FORMAT)
    run, omega = unpack(meta["run"], arrays, _TYPES, strict=True)
    return replace(run, omega=tuple(map(from_text, omega)))
