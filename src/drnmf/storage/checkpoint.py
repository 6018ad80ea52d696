"""A fit that survives its process: a folder with its start, its finished runs, and where the present run stands.

    begin.npz                    parameters, fingerprint of X, the starts; written once
    run-0000.npz ...             the result of every run that has ended (reference fits, then a run from each start)
    state-0002-00000057.npz      where run 2 stood after iteration 57; the last two are kept until the fit ends
    lock                         locked while a process works here

Runs follow one another in an order that X, the parameters and the starts determine, so a fit is resumed by walking the
same way again: what has ended is read, what had begun is resumed, bit for bit. Every file is written to another name,
flushed to disk and renamed, and carries a checksum. Each names the checksum of the run before it (the first: that of
begin.npz), so that files of another fit are never taken for this one's.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from drnmf import __version__
from drnmf.algorithms.initialize import Start
from drnmf.algorithms.loop import Snapshot
from drnmf.algorithms.result import Result
from drnmf.backends.base import Data
from drnmf.backends.modes import Matrix, Modes
from drnmf.files import held
from drnmf.losses.base import Omega
from drnmf.storage.archive import read_archive, write_archive
from drnmf.storage.records import (
    TYPES,
    Record,
    describe,
    differences,
    digest_of,
    fingerprint,
    on_host,
    refuse_unstorable,
    result_of,
    result_record,
    snapshot_of,
    snapshot_record,
)
from drnmf.trees import pack, types_beside, unpack

logger = logging.getLogger("drnmf")

FORMAT = "drnmf-checkpoint-3"
KEPT = 2
Content = TypeVar("Content")


class CheckpointError(ValueError):
    """A folder that this fit cannot use: another X, other parameters, damaged, or in use."""


class Checkpoint:
    """The `Keeper` of one fit in one folder. A context manager: it holds the folder while it is open.

    every : seconds between two snapshots; 0 takes one after every iteration
    parameters : what must be the same for a fit to be resumed, as JSON
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        every: float,
        data: Data,
        parameters: Mapping[str, object],
    ) -> None:
        self.folder, self.every, self.data = Path(folder), every, data
        self._modes: Modes = Matrix(data)  # of the run, which may be of a part of X
        self.parameters = {"drnmf": __version__, **parameters}
        self.seconds = 0.0
        self._run = -1
        self._after = ""
        self._latest: tuple[Snapshot, int] | None = None
        self._states: list[Path] = []
        self._written = time.perf_counter()
        self._open = ExitStack()
        self._types: dict[str, type] = TYPES

    def __enter__(self) -> Self:
        self._open.enter_context(held(self.folder, CheckpointError(_IN_USE.format(self.folder))))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """A fit that was stopped leaves its last iteration behind, one that has ended only its runs."""
        with self._open:
            if kind is not None and self._latest is not None:
                self._write_state()
            elif kind is None:
                self._states = []
                self._remove_other_states()

    def starts(self, make: Callable[[], tuple[list[Start], float]]) -> tuple[list[Start], float]:
        """The starts of the fit in the folder, which must be this one, and the bound of its loss that came with them.

        Where there is none it begins with what `make` gives.
        """
        path = self.folder / "begin.npz"
        here = {"parameters": self.parameters, "X": fingerprint(self.data), "backend": type(self.data).__name__}
        if not path.exists():
            made, least = make()
            kept = [self._start_on_host(start) for start in made]
            self._after = self._write(path, here | {"starts": kept, "least": least})
            self._written = time.perf_counter()
            return made, least
        try:
            begin, self._after = self._read(path)
            starts, there = [tuple(start) for start in begin["starts"]], {name: begin[name] for name in here}
            least = float(begin["least"])
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"The fit in {self.folder} cannot be resumed, because its beginning is damaged: {error} "
                "Name another folder, or delete this one to start again."
            ) from None
        self._refuse_another(there, here)
        ended = len(list(self.folder.glob("run-*.npz")))
        logger.info("Resuming the fit in %s: %d of its runs have ended.", self.folder, ended)
        return starts, least

    def _start_on_host(self, start: Start) -> Start:
        if len(start) > 2:  # blocks of a tensor are on the host
            return start
        W, H = start
        return on_host(W.T, self.data.T.space).T, on_host(H, self.data.space)

    def _refuse_another(self, there: Record, here: Record) -> None:
        for what in ("X", "parameters"):
            unlike = differences(there[what], here[what])
            if unlike:
                raise CheckpointError(
                    f"{self.folder} holds a fit with {'another X' if what == 'X' else 'other parameters'} "
                    f"({'; '.join(unlike)}). Resume it with what it was begun with, or name another folder."
                )
        if there["backend"] != here["backend"]:
            begun = f"{self.folder} was begun with {there['backend']} and is resumed with {here['backend']}"
            logger.warning("%s: the result is the same only up to rounding.", begun)

    def recall(self, data: Modes, omega: Omega, *owners: object) -> Result | Snapshot | None:
        self._run += 1
        self._modes = data
        self._types = TYPES | types_beside(*omega, *owners)
        try:
            pack(omega)
        except TypeError as error:
            raise CheckpointError(f"checkpoint: a loss cannot be stored: {error}") from None
        path = self._run_path()
        if path.exists():
            known = self._recalled(path, result_of)
            if known is not None:
                result, self._after = known
                self.seconds += float(result.trace.seconds[-1])
                return result
        for path in sorted(self.folder.glob(f"state-{self._run:04d}-*.npz"), reverse=True):
            state = self._recalled(path, snapshot_of)
            if state is not None:
                self._states = [path]
                self.seconds += state[0].log.seconds[-1]
                logger.info("Run %d is resumed after iteration %d.", self._run, len(state[0].log.seconds) - 1)
                return state[0]
        return None

    def _recalled(self, path: Path, of: Callable[[Record, Modes], Content]) -> tuple[Content, str] | None:
        """What a file holds and its checksum; None, and a line in the log, where it is not whole or not of this fit."""
        try:
            record, checksum = self._read(path)
            if record["after"] != self._after:
                raise ValueError("it does not follow the run before it.")
            return of(record, self._modes), checksum
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            reason = str(error) if str(path) in str(error) else f"{path}: {error}"
            logger.warning("Checkpoint ignored: %s", reason)
            return None

    def offer(self, snapshot: Callable[[], Snapshot]) -> None:
        taken = snapshot()  # references only: kept, so that whatever stops the fit finds a whole iteration
        if self._latest is None:
            self._refuse_strange_state(taken)
        self._latest = taken, len(taken.log.seconds)
        if time.perf_counter() - self._written >= self.every:
            self._write_state()

    def _refuse_strange_state(self, taken: Snapshot) -> None:
        """A rule or policy of the user's own may keep what cannot be stored: say so in the first iteration."""
        try:
            refuse_unstorable(taken)
        except TypeError as error:
            raise CheckpointError(f"checkpoint: the state of the rule or policy cannot be stored: {error}") from None

    def done(self, result: Result) -> None:
        self._latest = None
        self._after = self._try_write(self._run_path(), result_record(result, self._modes))

    def _run_path(self) -> Path:
        return self.folder / f"run-{self._run:04d}.npz"

    def _write_state(self) -> None:
        assert self._latest is not None
        snapshot, rows = self._latest
        path = self.folder / f"state-{self._run:04d}-{rows - 1:08d}.npz"
        if path in self._states:
            return
        if self._try_write(path, snapshot_record(snapshot, rows, self._modes)):
            self._states = [*self._states[1 - KEPT :], path]
            self._remove_other_states()

    def _remove_other_states(self) -> None:
        for path in self.folder.glob("state-*.npz"):
            if path not in self._states:
                path.unlink()

    def _try_write(self, path: Path, record: Record) -> str:
        """Write; a full disk must not end a fit that may have run for days."""
        checksum = ""
        try:
            checksum = self._write(path, record | {"after": self._after})
        except OSError as error:
            logger.warning("%s could not be written (%s): the fit continues without it.", path, error)
        self._written = time.perf_counter()
        return checksum

    def _write(self, path: Path, record: Record) -> str:
        tree, arrays = pack(record)
        return write_archive(path, arrays, {"content": tree}, FORMAT)

    def _read(self, path: Path) -> tuple[Record, str]:
        arrays, meta = read_archive(path, FORMAT)
        record = unpack(meta["content"], arrays, self._types, strict=True)
        if not isinstance(record, dict):
            raise ValueError(f"{path} holds no record.")
        return record, meta["sha256"]


def keeper_of(
    folder: str | os.PathLike[str] | None,
    every: float,
    data: Data,
    parameters: Mapping[str, object],
    start: Start,
) -> AbstractContextManager[Checkpoint | None]:
    """What keeps a fit with these parameters and this given start, if a folder is named; else nothing."""
    if folder is None:
        return nullcontext()
    W, H = start
    return Checkpoint(folder, every, data, describe(parameters) | {"W": digest_of(W), "H": digest_of(H)})


_IN_USE = "{} is in use by another process: wait until it has ended, or name another folder."
