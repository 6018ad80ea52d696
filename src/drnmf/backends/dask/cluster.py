"""Where Dask runs things: a client that is active, or the threads of this process. Nothing here knows of NMF."""

from __future__ import annotations

import os
import time
import uuid
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from functools import reduce
from operator import add, itemgetter
from typing import Any

import dask
from dask.base import get_scheduler
from dask.delayed import Delayed, delayed
from distributed import Client, futures_of
from distributed.system import MEMORY_LIMIT

from drnmf.numerics import Array

MEMORY_FRACTION = 0.4
"""X stays in memory where it takes at most this fraction of it (Dask itself begins to spill at 0.6)."""

SMALL = 4 << 20
"""Bytes that travel in the time of one more hop between tasks, or less."""

SAVE_EVERY = 10
"""Iterations between two sets of files with the rows of W: what a lost worker costs at most."""


def client() -> Client | None:
    """The client that Dask would use now; None where it would use this process."""
    owner = getattr(get_scheduler(), "__self__", None)
    return owner if isinstance(owner, Client) else None


def memory_for_data() -> float:
    """Bytes that X may take: ``drnmf.memory-fraction`` (default 0.4) of the workers' limits, or of this machine."""
    fraction = float(dask.config.get("drnmf.memory-fraction", MEMORY_FRACTION))
    limits = [worker["memory_limit"] for worker in _workers().values()] or [MEMORY_LIMIT]
    return fraction * float(sum(limit or MEMORY_LIMIT for limit in limits))


def seen_by_all(path: str | os.PathLike[str]) -> bool:
    """Do all workers see this path of ours?"""
    active = client()
    return active is None or all(active.run(os.path.exists, os.fspath(path)).values())


def name(kind: str) -> str:
    """A fresh name for tasks; the dashboard shows the part before the number."""
    return f"{kind}-{uuid.uuid4().hex}"


def task(kind: str, function: Callable[..., object], *arguments: object) -> Delayed:
    """A task that the dashboard shows as `kind`."""
    return delayed(function, pure=False)(*arguments, dask_key_name=name(kind))


def item(kind: str, pair: Delayed, index: int) -> Delayed:
    """One element of a task's answer, so that the other need not travel with it."""
    return task(kind, itemgetter(index), pair)


def constant(kind: str, value: object) -> Delayed:
    """A value inside the graph: unlike scattered data it survives the worker that holds it."""
    return task(kind, same, value)


def same(value: object) -> Any:
    return value


def for_all(kind: str, array: Array, readers: int) -> Any:
    """An array that every block's task reads: inside each of them where it is small, else a task of its own.

    A task of its own travels once to each worker, but costs a hop on the way.
    """
    return array if array.nbytes * readers <= SMALL else constant(kind, array)


def add_tuples(*terms: tuple[Array, ...]) -> tuple[Array, ...]:
    """Element by element, from left to right."""
    return reduce(lambda left, right: tuple(map(add, left, right)), terms)


def tree_sum(terms: Sequence[Delayed], nbytes: int) -> Delayed:
    """The sum of tuples as a tree over the order given: the same bits wherever the terms are.

    Large terms are added in pairs, neighbours first: Dask places neighbouring blocks on the same worker, so that most
    sums stay inside. Small ones (`nbytes` each) are added many at a time, because a hop costs more than their bytes.
    """
    level, width = list(terms), min(32, max(2, SMALL // max(1, nbytes)))
    while len(level) > 1:
        groups = [level[i : i + width] for i in range(0, len(level), width)]
        level = [group[0] if len(group) == 1 else task("add", add_tuples, *group) for group in groups]
    return level[0]


def run(stays: Sequence[Delayed], answer: Delayed) -> tuple[tuple[Delayed, ...], Any]:
    """One graph: leave `stays` where they are computed and bring the answer here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        *kept, last = dask.persist(*stays, answer, optimize_graph=False)
    active = client()
    value = last.compute(scheduler="synchronous") if active is None else active.gather(futures_of(last)[0])
    return tuple(kept), value


class Assignment:
    """The worker of each block: where it is already, else neighbours together and as many on each.

    Without it Dask moves blocks of X about to fill idle moments. It is a wish: where a worker is gone Dask
    takes another, and `refresh` finds a new one. Only for tasks that need others: one that needs none and is wanted
    while no worker is there would wait for its own for ever.
    """

    def __init__(self, keys: Sequence[object], futures: Sequence[object]):
        self._workers, count = sorted(_workers()), len(keys)
        if not self._workers:
            self._worker = []
            return
        holders = active.who_has(futures) if futures and (active := client()) is not None else {}
        spread = [self._workers[i * len(self._workers) // count] for i in range(count)]
        self._worker = [next(iter(holders.get(key, ())), there) for key, there in zip(keys, spread, strict=True)]

    def at(self, block: int) -> AbstractContextManager[object]:
        """Tasks made inside are for the worker of this block."""
        if not self._worker:
            return nullcontext()
        return dask.annotate(workers=[self._worker[block]], allow_other_workers=True)

    def within(self, blocks: Sequence[int]) -> Assignment:
        """Return the workers of some blocks, which stay with them."""
        part = copy(self)
        part._worker = [self._worker[block] for block in blocks] if self._worker else []
        return part

    def refresh(self) -> None:
        """Blocks without a worker, and those above an even division, go to the workers with the fewest."""
        now = sorted(_workers())
        if now == self._workers or not now:
            return
        self._workers, most = now, -(-len(self._worker) // len(now))
        load = dict.fromkeys(now, 0)
        for pass_over in (True, False):
            for block, worker in enumerate(self._worker):
                if pass_over and worker in load and load[worker] < most:
                    load[worker] += 1
                elif pass_over:
                    self._worker[block] = ""
                elif not worker:
                    self._worker[block] = min(now, key=load.__getitem__)
                    load[self._worker[block]] += 1


def _workers() -> dict[str, Any]:
    """The workers of the cluster by address; none where everything runs here."""
    active = client()
    return {} if active is None else dict(active.scheduler_info(n_workers=-1)["workers"])


class Traffic:
    """Bytes that moved since it was made: H down to every worker, sums up from every worker but one, and the answer.

    Counted from what was sent, not measured on the wire: Dask's own counters stop with the worker that has them.
    """

    def __init__(self) -> None:
        self.moved = 0
        self._asked, self._count = 0.0, len(_workers())

    def add(self, down: int, up: int) -> None:
        """One graph: `down` bytes to each worker, `up` bytes from each to the next and at last here."""
        self.moved += max(1, self._count) * (down + up)

    def describe(self) -> str:
        """For a progress bar; the workers are counted once a second at most."""
        if time.monotonic() - self._asked > 1.0:
            self._asked, self._count = time.monotonic(), len(_workers())
        return f"{self._count} workers  {self.moved / 1e6:.1f} MB moved" if self._count else "threads"
