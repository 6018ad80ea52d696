"""Runs side by side: one thread for each, each on one core.

A sweep over a small X is too short to be divided among cores; runs that do not depend on one another are not. Results
of sweeps do not depend on the number of threads, so a fit has the same bits for every `n_jobs`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

from drnmf.algorithms.result import Interrupted, Result
from drnmf.backends.host.core import native_core

Task = Callable[[], Result]


def run_all(tasks: Sequence[Task], jobs: int, stop: threading.Event) -> list[Result]:
    """Run every task, `jobs` at a time, and return their results in order.

    Parameters
    ----------
    tasks : runs that do not depend on one another
    jobs : at most this many threads
    stop : set when a run failed or the user interrupts; the runs look at it after every iteration

    Raises
    ------
    Interrupted
        After Ctrl-C, with the first result that there is.
    """
    if min(jobs, len(tasks)) <= 1:
        return [task() for task in tasks]
    with _one_thread_each(), ThreadPoolExecutor(min(jobs, len(tasks))) as pool:
        futures = [pool.submit(task) for task in tasks]
        try:
            _wait(futures)
        except KeyboardInterrupt:
            _stop(futures, stop)
            raise Interrupted(_first(futures)) from None
        failed = [future for future in futures if future.done() and future.exception() is not None]
        if failed:
            _stop(futures, stop)
            failed[0].result()
        return [future.result() for future in futures]


def _wait(futures: list[Future[Result]]) -> None:
    """Wait until all have ended or one has failed; in short turns, because a lock may not wake up for Ctrl-C."""
    left: set[Future[Result]] = set(futures)
    while left and not any(future.done() and future.exception() for future in futures):
        left = wait(left, timeout=0.1, return_when=FIRST_EXCEPTION).not_done


def _stop(futures: list[Future[Result]], stop: threading.Event) -> None:
    """Tell the runs to end and wait for their last iteration."""
    stop.set()
    for future in futures:
        future.cancel()
    wait([future for future in futures if not future.cancelled()])


def _first(futures: list[Future[Result]]) -> Result:
    """The first result of runs that were stopped."""
    ended = (future for future in futures if not future.cancelled() and future.exception() is None)
    return next(ended).result()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Keep the compiled extension to the thread that calls it."""
    core = native_core()
    before = 1 if core is None else core.get_num_threads()
    if core is not None:
        core.set_num_threads(1)
    try:
        yield
    finally:
        if core is not None:
            core.set_num_threads(before)
