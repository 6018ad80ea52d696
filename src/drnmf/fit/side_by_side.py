"""Runs side by side: one thread for each, each on one core.

A sweep over a small X is too short to be divided among cores; runs that do not depend on one another are not. Results
of sweeps do not depend on the number of threads, so a fit has the same bits for every `n_jobs`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

from drnmf.algorithms.result import Interrupted, Result
from drnmf.backends.host.core import native_core

Task = Callable[[], Result]
T = TypeVar("T")


def run_all(tasks: Sequence[Callable[[], T]], jobs: int, stop: threading.Event) -> list[T]:
    """Run every task, `jobs` at a time, and return their results in order.

    Parameters
    ----------
    tasks : runs that do not depend on one another
    jobs : at most this many threads
    stop : set when a run failed or the user interrupts; the runs look at it after every iteration

    Raises
    ------
    Interrupted
        After Ctrl-C, with the first result that there is; a KeyboardInterrupt where there is none.
    """
    if min(jobs, len(tasks)) <= 1:
        return [task() for task in tasks]
    ended: list[T] = []
    ready = threading.Event()  # nothing runs before every run is known: Ctrl-C in between would lose some

    def run(task: Callable[[], T]) -> T:
        ready.wait()
        result = task()
        ended.append(result)
        return result

    with _one_thread_each(), ThreadPoolExecutor(min(jobs, len(tasks))) as pool:
        futures: list[Future[T]] = []
        try:
            futures.extend(pool.submit(run, task) for task in tasks)
            ready.set()
            _wait(futures)
        except BaseException as error:  # Ctrl-C, or what a command makes of a signal
            stop.set()
            ready.set()
            pool.shutdown(cancel_futures=True)  # waits for the last iteration of every run
            first = ended[0] if ended else None
            if isinstance(error, KeyboardInterrupt) and isinstance(first, Result):
                raise Interrupted(first) from None
            raise
        failed = [future for future in futures if future.done() and future.exception() is not None]
        if failed:
            stop.set()
            pool.shutdown(cancel_futures=True)
            failed[0].result()
        return [future.result() for future in futures]


def _wait(futures: list[Future[T]]) -> None:
    """Wait until all have ended or one has failed; in short turns, because a lock may not wake up for Ctrl-C."""
    left: set[Future[T]] = set(futures)
    while left and not any(future.done() and future.exception() for future in futures):
        left = wait(left, timeout=0.1, return_when=FIRST_EXCEPTION).not_done


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
