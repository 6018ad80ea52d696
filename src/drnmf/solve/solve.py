"""The one verb: problems are solved, side by side where they may be, and their results come back in order.

Side by side is one thread and one process for each run, each on one core. A sweep over a small X is too short to be
divided among cores; runs that do not depend on one another are not. Results of sweeps do not depend on the number of
threads, so a fit has the same bits for every `n_jobs`.

On a GPU a sweep over a small X is too short even to be begun for each run. There the threads only prepare their runs
and wait: once every thread waits, runs that are alike are made at once (`algorithms.batch`).
"""

from __future__ import annotations

import operator
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

from drnmf.algorithms.batch import kind_of, solve_batch
from drnmf.algorithms.loop import Call, Callback, minimise
from drnmf.algorithms.result import Interrupted, Result
from drnmf.backends.core import native_core
from drnmf.problem.problem import Problem
from drnmf.solve.processes import Worker, workers
from drnmf.solve.runner import Runner, both


def solve(
    problems: Sequence[Problem],
    runner: Runner,
    *,
    margin: float | None = None,
    max_iter: int | None = None,
    overwrite: bool = False,
    until: Callback | None = None,
) -> list[Result]:
    """Run every problem from its start, as many at a time as the budget says; results are in the unit of the data.

    A run stops once a reference is beaten by `margin`, after `max_iter` iterations (None: those of the budget), or once
    `until`, asked after every one in the unit of the data, says True. `overwrite` lets it write over its start.
    """
    budget = runner.budget
    most = budget.control.max_iter if max_iter is None else max_iter

    def readied(problem: Problem) -> Call:
        assert problem.objective is not None
        control = runner.control(problem)
        control = replace(
            control,
            max_iter=most - problem.spent,
            margin=margin,
            overwrite=overwrite,
            callback=both(control.callback, until),
        )
        how = runner.rule, runner.policy, control, problem.constraints
        return Call(problem.modes, problem.blocks(problem.begins), problem.objective, *how)

    if min(len(problems), budget.jobs) == 1:
        return list(map(maker(), map(readied, problems)))

    def one(problem: Problem) -> Result:
        return maker()(readied(problem))  # in its thread, when its turn has come: the time left is shared then

    return run_all([partial(one, problem) for problem in problems], budget.jobs, budget.stop, budget.batched)


def smallest(done: Sequence[Result]) -> Result:
    """Choose the run with the smallest maximum, penalties included."""
    return min(done, key=lambda result: result.objective)


T = TypeVar("T")
Waiting = tuple[Call, "Future[Result]"]


class Batcher:
    """Where the runs of several threads wait for one another, to be made at once.

    Parameters
    ----------
    threads : how many take part
    tasks : how many tasks they have together
    """

    def __init__(self, threads: int, tasks: int) -> None:
        self._threads, self._tasks = threads, tasks
        self._waiting: list[Waiting] = []
        self._lock = threading.Lock()

    def solve(self, call: Call) -> Result:
        """Make a run together with those of the other threads; this thread makes all of them if it comes last."""
        future: Future[Result] = Future()
        self._arrive((call, future))
        return future.result()

    def leave(self) -> None:
        """Say that a task has ended: its thread takes another one or none."""
        with self._lock:
            self._tasks -= 1
            self._threads = min(self._threads, self._tasks)
        self._arrive()

    def close(self) -> None:
        """Wait for nobody any more: tasks that have not begun never will."""
        with self._lock:
            self._threads = self._tasks = 0
        self._arrive()

    def _arrive(self, *calls: Waiting) -> None:
        with self._lock:
            # the list alone is behind the lock: who completes it takes it away, and makes the runs outside
            self._waiting += calls
            ready = self._waiting if len(self._waiting) >= self._threads else []
            self._waiting = [] if ready else self._waiting
        kinds: dict[Hashable, list[Waiting]] = {}
        for call, future in ready:
            kinds.setdefault(kind_of(call), []).append((call, future))
        for kind, alike in kinds.items():
            _answer(alike, kind is not None and len(alike) > 1)


def _answer(waiting: list[Waiting], at_once: bool) -> None:
    """Make runs, and hand out what became of each."""
    calls = [call for call, _ in waiting]
    try:
        found = solve_batch(calls) if at_once else [_made(call) for call in calls]
    except BaseException as error:  # no thread may wait for ever
        found = [error] * len(calls)
    for (_, future), result in zip(waiting, found, strict=True):
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)


def _made(call: Call) -> Result | BaseException:
    """Make one run by itself; what it waited for others counts."""
    control, waited = call.control, time.perf_counter() - call.asked
    if control.max_time is not None:
        control = replace(control, max_time=max(control.max_time - waited, 0.0))
    try:
        return minimise(replace(call, control=control))
    except Exception as error:
        return error


_local = threading.local()  # the Batcher or the Worker of a thread, for the runs that its task comes to


def maker() -> Callable[[Call], Result]:
    """Say who makes the runs of this thread: itself, its process or all threads together, as `run_all` said."""
    other: Batcher | Worker | None = getattr(_local, "maker", None)
    return minimise if other is None else other.solve


def run_all(tasks: Sequence[Callable[[], T]], jobs: int, stop: threading.Event, batched: bool = False) -> list[T]:
    """Run every task, `jobs` threads at a time, and return their results in order.

    `stop` is set when a run failed or the user interrupts; the runs look at it after every iteration. `batched` threads
    wait for one another, and runs that are alike are made at once. After Ctrl-C `Interrupted` carries the first result
    that there is; a KeyboardInterrupt comes where there is none.
    """
    jobs, outer = min(jobs, len(tasks)), getattr(_local, "maker", None)
    if jobs <= 1 or isinstance(outer, Batcher):
        return list(map(operator.call, tasks))  # in a batch already: others wait for the runs of this thread
    ended: list[T] = []
    batcher = Batcher(jobs, len(tasks)) if batched else None
    ready = threading.Event()  # nothing runs before every run is known: Ctrl-C in between would lose some

    def run(task: Callable[[], T]) -> T:
        ready.wait()
        maker = _local.maker = idle.pop() if batcher is None and idle else batcher
        try:
            result = task()
        finally:
            _local.maker = None
            if isinstance(maker, Batcher):
                maker.leave()
            elif maker is not None:
                idle.append(maker)
        ended.append(result)
        return result

    apart = 0 if batched or outer is not None else jobs
    with _one_thread_each(), workers(apart) as idle, ThreadPoolExecutor(jobs) as pool:
        futures: list[Future[T]] = []
        try:
            futures.extend(pool.submit(run, task) for task in tasks)
            ready.set()
            _wait(futures)
        except BaseException as error:  # Ctrl-C, or what a command makes of a signal
            stop.set()
            ready.set()
            _give_up(pool, batcher)  # waits for the last iteration of every run
            first = ended[0] if ended else None
            if isinstance(error, KeyboardInterrupt) and isinstance(first, Result):
                raise Interrupted(first) from None
            raise
        failed = [future for future in futures if future.done() and future.exception() is not None]
        if failed:
            stop.set()
            _give_up(pool, batcher)
            failed[0].result()
        return [future.result() for future in futures]


def _give_up(pool: ThreadPoolExecutor, batcher: Batcher | None) -> None:
    """Begin no further task, and wait for those that have begun."""
    pool.shutdown(wait=False, cancel_futures=True)
    if batcher is not None:
        batcher.close()
    pool.shutdown()


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
