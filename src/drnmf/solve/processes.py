"""Runs in processes of their own: each thread of `solve.run_all` hands its runs to one, and waits.

An iteration on a small X takes as long in Python as in the compiled sweep, and only one thread at a time can be in
Python. The process is a fork, begun before the threads are: it has everything imported, costs a few milliseconds, and
needs no guard in the program of the user. A run goes there as a `loop.Call` and comes back
as its result, so that budgets, schedules, stores and what watches a run stay here. Results are the same bits: a run
does not know where it is made.

A run stays in its thread where nothing would be won or it cannot go: a large X, X on a GPU or a cluster, a callback
that decides after each iteration, a checkpoint, and whatever cannot be pickled. So do all runs where the system has no
safe fork (macOS, Windows).
"""

from __future__ import annotations

import gc
import io
import mmap
import multiprocessing
import os
import pickle
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np

from drnmf.algorithms.loop import Call, minimise
from drnmf.algorithms.result import Progress, Result, no_components
from drnmf.backends.modes import Matrix
from drnmf.numerics import LARGEST_SENT
from drnmf.solve.runner import Watching

_TURN = 0.05
"""Seconds after which a thread that waits looks whether its run is to end, and after which a run is shown again."""


@dataclass(frozen=True)
class Worker:
    """A process, the pipe to it, and its place in the memory that all processes see."""

    process: BaseProcess
    pipe: Connection
    flags: mmap.mmap
    place: int

    def solve(self, call: Call) -> Result:
        """Make a run there, or here where it cannot go there."""
        message = _message(call)
        if message is None:
            return minimise(call)
        self.flags[self.place] = 0
        self.pipe.send_bytes(message)
        watching = call.control.callback
        while True:
            answer = self._answer(watching)
            if isinstance(answer, Progress) and watching is not None:
                watching(answer)
            elif isinstance(answer, Result):
                return replace(answer, omega=call.objective.omega)
            else:
                raise answer

    def _answer(self, watching: Any) -> Any:
        try:
            while not self.pipe.poll(_TURN):
                if watching is not None and watching.stopped:
                    self.flags[self.place] = 1
            return pickle.loads(self.pipe.recv_bytes())
        except (EOFError, ConnectionError):
            self.process.join()
            raise RuntimeError(
                f"The process of a run was killed (exit code {self.process.exitcode}), for lack of memory perhaps: "
                "let fewer run at a time (n_jobs), or one (n_jobs=1)."
            ) from None


@contextmanager
def workers(count: int) -> Iterator[list[Worker]]:
    """Begin processes, and end them after the block; none where the system has no safe fork."""
    if sys.platform != "linux" or multiprocessing.current_process().daemon:
        yield []
        return
    made: list[Worker] = []
    context, flags = multiprocessing.get_context("fork"), mmap.mmap(-1, max(count, 1))
    try:
        for place in range(count):
            ours, theirs = context.Pipe()
            others = [ours, *(worker.pipe for worker in made)]
            process = context.Process(target=_serve, args=(theirs, others, flags, place, os.getpid()), daemon=True)
            with warnings.catch_warnings():  # of threads that a fork does not have: the child asks nothing of them
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            theirs.close()
            made.append(Worker(process, ours, flags, place))
        yield made
    finally:
        for worker in made:
            worker.pipe.close()  # at which it ends
        for worker in made:
            worker.process.join()


class _Pickler(pickle.Pickler):
    """Refuses arrays that would come back in another layout, which may be summed in another order."""

    def reducer_override(self, value: object) -> Any:
        if isinstance(value, np.ndarray) and not (value.flags.c_contiguous or value.flags.f_contiguous):
            raise pickle.PicklingError("not contiguous")
        return NotImplemented


def _message(call: Call) -> bytes | None:
    """Write a run down, with whether it is to be shown; None where it cannot be made elsewhere."""
    control, watching = call.control, call.control.callback
    if not isinstance(call.data, Matrix) or control.keeper is not None:
        return None
    X = call.data.data
    if not X.space.forks or X.count > LARGEST_SENT:
        return None
    if watching is not None and not (isinstance(watching, Watching) and watching.glances):
        return None
    shown = watching is not None and bool(watching.listeners)
    written = io.BytesIO()
    try:
        sent = replace(call, control=replace(control, callback=None))
        _Pickler(written, protocol=pickle.HIGHEST_PROTOCOL).dump((sent, shown))
    except (pickle.PicklingError, AttributeError, TypeError, RecursionError):
        return None
    return written.getvalue()


def _serve(pipe: Connection, others: list[Connection], flags: mmap.mmap, place: int, parent: int) -> None:
    """Make runs until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's: it ends the runs
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.freeze()  # what came with the fork is shared as long as nobody looks at it
    for other in others:
        other.close()
    while True:
        try:
            message = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        _send(pipe, _made(message, _Reporter(pipe, flags, place, parent)))


def _made(message: bytes, reporter: _Reporter) -> Result | BaseException:
    try:
        call, reporter.shown = pickle.loads(message)
        result = minimise(replace(call, control=replace(call.control, callback=reporter)))
        reporter.last()
        return result
    except BaseException as error:
        return error


def _send(pipe: Connection, answer: Result | Progress | BaseException) -> None:
    try:
        written = pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception:  # an error of a loss of the user, say, that holds what cannot be written
        written = pickle.dumps(RuntimeError(f"{type(answer).__name__}: {answer}"))
    pipe.send_bytes(written)


class _Reporter:
    """The callback of a run in its process: looks whether it is to end, and shows it now and then and at its end."""

    def __init__(self, pipe: Connection, flags: mmap.mmap, place: int, parent: int) -> None:
        self._pipe, self._flags, self._place, self._parent = pipe, flags, place, parent
        self.shown = False
        self._said = 0.0
        self._newest: Progress | None = None

    def __call__(self, progress: Progress) -> bool:
        if os.getppid() != self._parent:
            os._exit(1)  # nobody waits for the result
        if self.shown:
            self._newest = replace(progress, components=no_components)
            if time.perf_counter() - self._said >= _TURN:
                self.last()
        return self._flags[self._place] != 0

    def last(self) -> None:
        """Show the newest iteration that has not been shown."""
        if self._newest is not None:
            _send(self._pipe, self._newest)
            self._said, self._newest = time.perf_counter(), None
