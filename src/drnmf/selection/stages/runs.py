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
import scipy.sparse as sp

from drnmf.algorithms.loop import Callback
from drnmf.algorithms.result import Result, Trace
from drnmf.backends.observed import HeldOut
from drnmf.files import left_over
from drnmf.losses.base import Omega, need_nonzeros_only
from drnmf.losses.beta import Beta
from drnmf.losses.interval import Interval
from drnmf.losses.names import from_text, text_of
from drnmf.numerics import Array, Vector
from drnmf.parameters.common import Parameters
from drnmf.parameters.solver import as_solver
from drnmf.problem.device import Placement, as_numpy, runs_at_once
from drnmf.problem.receive import Received
from drnmf.selection.entries import Facts
from drnmf.selection.folds import HELD_OUT, Fold
from drnmf.selection.likelihood.masses import noise_for
from drnmf.selection.likelihood.scores import Scores, joined
from drnmf.selection.resampling import RESAMPLINGS, UNCERTAINTY, redrawn, resampled
from drnmf.selection.stages.heavy import scaled_rows
from drnmf.solve.exchange import fit_interval
from drnmf.solve.pipeline import fit_factors, running
from drnmf.solve.runner import Runner
from drnmf.solve.settings import problem_of
from drnmf.storage.archive import read_archive, write_archive
from drnmf.storage.locking import locked

FORMAT = "drnmf-discovery-1"
_IDENTITY = "discovery.npz"
EARLY = ("max_time", "callback", "interrupted")
"""Reasons of a run that was stopped before its time."""
LARGE = 1 << 20
"""Entries above which every run sees a sample of the rows."""
SCORED = 16
"""So many entries are scored in the time that one takes in a fit, or less."""
LEAST_ROWS = 200
"""Rows that such a sample has at least."""


@dataclass(frozen=True)
class Run:
    """What is kept of a run.

    Attributes
    ----------
    H : (r, n), its components
    omega, losses, references, weights : under which losses, their values, and lambda
    trace : how it went
    reason : why it ended; "max_time" where it was stopped early
    scores : of the entries that were held out of it, None where it saw all
    """

    H: Array
    omega: Omega
    losses: Vector
    references: Vector
    weights: Vector
    trace: Trace
    reason: str
    scores: Scores | None = None

    @property
    def error(self) -> float:
        """The largest scaled loss."""
        return float((self.losses / self.references).max())

    @property
    def whole(self) -> bool:
        """Whether it came to its end."""
        return self.reason not in EARLY

    @property
    def seconds(self) -> float | None:
        """Seconds of its iterations; None under several losses, whose references are not in the trace."""
        return float(self.trace.seconds[-1]) if len(self.omega) == 1 else None


@dataclass(frozen=True)
class Fitter:
    """How every run of a discovery is fitted.

    Attributes
    ----------
    given, placement : the data, and where to fit
    parameters : what all runs share; rank, seed, time and callback are each run's own
    losses : Omega, or an Interval
    resample : what each run sees, None for X itself
    facts : what is known of the entries of X
    factors : what the rows of X are multiplied by while components are sought, None where they are kept
    known : whether the weights of entries are those of uncertainties
    """

    given: Received
    placement: Placement
    parameters: Parameters
    losses: Omega | Interval
    resample: str | None
    facts: Facts
    factors: Vector | None = None
    known: bool = False

    @property
    def batch(self) -> int:
        """How many runs to make at once, on a GPU; one elsewhere."""
        return 1 if self.placement.blocks else runs_at_once(self.given.X, self.placement.device)

    def run(
        self, rank: int, seed: int, max_time: float | None, callback: Callback | None, hold_out: bool = False
    ) -> Run:
        """Fit from the start of a seed, to what is drawn from X with the same seed.

        With `hold_out` the run sees nine tenths of the entries of X itself, and the others score it.
        """
        rows = rows_seen(self.given, seed, self.omega, hold_out)
        whole = taken(self.given, rows)
        drawn = whole
        if self.resample == UNCERTAINTY and not hold_out:
            assert not isinstance(whole.observed, HeldOut)
            drawn = replace(whole, X=redrawn(whole.X, whole.observed, seed))
        factors = None if self.factors is None else self.factors[rows]
        given = drawn if factors is None else replace(drawn, X=scaled_rows(drawn.X, factors))
        if self.resample in RESAMPLINGS and not hold_out:
            given = replace(given, X=resampled(given.X, self.resample, seed))
        p, omega = replace(self.parameters, n_components=rank, random_state=seed, max_time=max_time), self.omega
        single = isinstance(self.losses, tuple) and len(omega) == 1
        references, runs = (np.ones(1), 1) if single else (None, 1 + len(omega))
        problem = problem_of(p, self.placement.open(given), omega, given, references)
        runner = Runner.of(as_solver(p.solver).update, "auto", self.placement.gpu)
        runner = replace(runner, callback=callback, stage="run")
        fold = self._fold(whole, seed) if hold_out else None
        seen = problem if fold is None else fold.problem(problem)
        with running(problem, runner, p, runs) as runner:
            if isinstance(self.losses, Interval):
                result = fit_interval(seen, self.losses, runner)
            else:
                result = fit_factors(seen, runner)
            result = seen.back(result)
        if fold is None:
            return _kept(result, None)
        W = as_numpy(result.W) if factors is None else as_numpy(result.W) / factors[:, None]
        return _kept(result, joined([fold.score(noise_for(loss), (W, result.H)) for loss in result.omega]))

    def _fold(self, whole: Received, seed: int) -> Fold:
        """The entries that a run does not see; they count in its score as they do in a fit."""
        assert not isinstance(whole.observed, HeldOut)
        return Fold.of(whole.X, self.facts, HELD_OUT, seed, whole.observed, self.known)

    @property
    def omega(self) -> Omega:
        """The losses; of an interval, those it is first bounded by."""
        if isinstance(self.losses, Interval):
            return tuple(Beta(beta) for beta in self.losses.first_knots())
        return self.losses


def _kept(result: Result, scores: Scores | None) -> Run:
    H = np.asarray(result.H)
    return Run(H, result.omega, result.losses, result.references, result.weights, result.trace, result.reason, scores)


def rows_seen(given: Received, seed: int, omega: Omega | None = None, scored: bool = False) -> Any:
    """Draw the rows that a run sees: all, or of a large X as many as have LARGE entries.

    Components are over the columns, and rows are many. Of a sparse X only stored entries count under losses that need
    no others, unless entries are held out to be `scored`, each of them once. Weights belong to their rows, and all of
    those are taken.
    """
    X = given.X
    stored_alone = sp.issparse(X) and omega is not None and need_nonzeros_only(omega)
    m, size = X.shape[0], X.shape[0] * X.shape[1]
    entries = max(X.nnz, size // SCORED if scored else 0) if stored_alone else size
    if entries <= LARGE or given.observed is not None:
        return slice(None)
    count = max(LEAST_ROWS, m * LARGE // entries)
    return np.sort(np.random.default_rng(seed).choice(m, min(count, m), replace=False))


def taken(given: Received, rows: Any) -> Received:
    """Take rows of X, which has no weights unless all are taken."""
    if isinstance(rows, slice):
        return given
    return replace(given, X=(given.X.tocsr() if sp.issparse(given.X) else given.X)[rows])


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
            if found.whole and path is not None:
                _write_run(path, found)
        if found.whole:
            self._memory[name] = found
        return found


_TRACE = tuple(part.name for part in fields(Trace))
_SCORES = tuple(part.name for part in fields(Scores))


def _write_run(path: Path, run: Run) -> None:
    arrays = {"H": run.H, "losses": run.losses, "references": run.references, "weights": run.weights}
    arrays |= {f"trace_{name}": getattr(run.trace, name) for name in _TRACE}
    if run.scores is not None:
        parts = {name: getattr(run.scores, name) for name in _SCORES}
        arrays |= {f"scores_{name}": np.asarray(part) for name, part in parts.items() if part is not None}
    write_archive(path, arrays, {"omega": [text_of(loss) for loss in run.omega], "reason": run.reason}, FORMAT)


def _read_run(path: Path) -> Run:
    arrays, meta = read_archive(path, FORMAT)
    trace = Trace(**{name: arrays[f"trace_{name}"] for name in _TRACE if f"trace_{name}" in arrays})
    omega = tuple(from_text(text) for text in meta["omega"])
    return Run(
        arrays["H"], omega, arrays["losses"], arrays["references"], arrays["weights"], trace, meta["reason"],
        _read_scores(arrays),
    )  # fmt: skip


def _read_scores(arrays: Mapping[str, Any]) -> Scores | None:
    if "scores_rows" not in arrays:
        return None
    kept = {name: arrays[f"scores_{name}"] for name in _SCORES if f"scores_{name}" in arrays}
    read: dict[str, Any] = {name: value if value.ndim else float(value) for name, value in kept.items()}
    return Scores(**read)
