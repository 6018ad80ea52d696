"""One run of a discovery, and where finished runs are kept so that none is made twice."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from drnmf.algorithms.loop import Callback
from drnmf.algorithms.result import Result, Trace
from drnmf.files import left_over
from drnmf.fit.exchange import fit_interval
from drnmf.fit.method import Method
from drnmf.fit.parameters import Parameters
from drnmf.fit.road import fit_factors, opened
from drnmf.inputs.device import Placement
from drnmf.inputs.receive import Received
from drnmf.losses.base import Omega
from drnmf.losses.beta import Beta
from drnmf.losses.interval import Interval
from drnmf.losses.names import from_text, text_of
from drnmf.numerics import Array, Vector
from drnmf.selection.resampling import resampled
from drnmf.storage.archive import read_archive, write_archive
from drnmf.storage.locking import locked

FORMAT = "drnmf-discovery-1"
_IDENTITY = "discovery.npz"
EARLY = ("max_time", "callback", "interrupted")
"""Reasons of a run that was stopped before its time."""


@dataclass(frozen=True)
class Run:
    """What is kept of a run.

    Attributes
    ----------
    H : (r, n), its components
    omega, losses, references, weights : under which losses, their values, and lambda
    trace : how it went
    reason : why it ended; "max_time" where it was stopped early
    """

    H: Array
    omega: Omega
    losses: Vector
    references: Vector
    weights: Vector
    trace: Trace
    reason: str

    @property
    def error(self) -> float:
        """The largest scaled loss."""
        return float((self.losses / self.references).max())


@dataclass(frozen=True)
class Fitter:
    """How every run of a discovery is fitted.

    Attributes
    ----------
    given, placement : the data, and where to fit
    parameters : what all runs share; rank, seed, time and callback are each run's own
    losses : Omega, or an Interval
    resample : what each run sees, None for X itself
    """

    given: Received
    placement: Placement
    parameters: Parameters
    losses: Omega | Interval
    resample: str | None

    def run(self, rank: int, seed: int, max_time: float | None, callback: Callback | None) -> Run:
        """Fit from the start of a seed, to X or to what is drawn from it with the same seed."""
        given = self.given
        if self.resample is not None:
            given = replace(given, X=resampled(given.X, self.resample, seed))
        parameters = replace(self.parameters, n_components=rank, random_state=seed, max_time=max_time)
        omega = self.omega
        single = isinstance(self.losses, tuple) and len(omega) == 1
        method = Method.of(parameters.update, "auto", self.placement.gpu, parameters.terms(), parameters.constraints())
        with opened(given, self.placement, parameters, omega, 1 if single else 1 + len(omega), {}) as fit:
            shared = (method, fit.budget, callback, "run")
            if isinstance(self.losses, Interval):
                result = fit_interval(fit.data, fit.starts, self.losses, *shared)
            else:
                result = fit_factors(fit.data, fit.starts, omega, np.ones(1) if single else None, *shared)
        return _kept(result)

    @property
    def omega(self) -> Omega:
        """The losses; of an interval, those it is first bounded by."""
        if isinstance(self.losses, Interval):
            return tuple(Beta(beta) for beta in self.losses.first_knots())
        return self.losses


def _kept(result: Result) -> Run:
    H = np.asarray(result.H)
    return Run(H, result.omega, result.losses, result.references, result.weights, result.trace, result.reason)


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
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise NotADirectoryError(f"checkpoint={str(self._folder)!r} is a file: name a folder.") from None
        refusal = ValueError(f"{self._folder} is in use by another discovery: wait for it, or name another folder.")
        self._open.enter_context(locked(self._folder / "lock", refusal))
        for left in left_over(self._folder, "*.npz"):
            left.unlink()
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

    def run(self, name: str, make: Callable[[], Run]) -> Run:
        """Look a run up, or make and keep it; one that was stopped early is not kept."""
        if name in self._memory:
            return self._memory[name]
        path = None if self._folder is None else self._folder / f"{name}.npz"
        if path is not None and path.exists():
            found = _read_run(path)
        else:
            found = make()
            if found.reason not in EARLY and path is not None:
                _write_run(path, found)
        if found.reason not in EARLY:
            self._memory[name] = found
        return found


_TRACE = tuple(part.name for part in fields(Trace))


def _write_run(path: Path, run: Run) -> None:
    arrays = {"H": run.H, "losses": run.losses, "references": run.references, "weights": run.weights}
    arrays |= {f"trace_{name}": getattr(run.trace, name) for name in _TRACE}
    write_archive(path, arrays, {"omega": [text_of(loss) for loss in run.omega], "reason": run.reason}, FORMAT)


def _read_run(path: Path) -> Run:
    arrays, meta = read_archive(path, FORMAT)
    trace = Trace(**{name: arrays[f"trace_{name}"] for name in _TRACE if f"trace_{name}" in arrays})
    omega = tuple(from_text(text) for text in meta["omega"])
    return Run(arrays["H"], omega, arrays["losses"], arrays["references"], arrays["weights"], trace, meta["reason"])
