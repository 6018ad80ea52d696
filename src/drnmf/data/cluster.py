"""Where Dask runs things: a client that is active, or the threads of this process. Nothing here knows of NMF."""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Callable, Sequence
from operator import add, itemgetter
from typing import Any

import dask
from dask.base import get_scheduler
from dask.delayed import Delayed, delayed
from distributed import Client, futures_of
from distributed.system import MEMORY_LIMIT

MEMORY_SHARE = 0.4
"""X stays in memory where it takes at most this share of it (Dask itself begins to spill at 0.6)."""

CUT_EVERY = 10
"""Iterations between two cuts of the lineage: what a lost worker costs at most."""


def client() -> Client | None:
    """The client that Dask would use now; None where it would use this process."""
    owner = getattr(get_scheduler(), "__self__", None)
    return owner if isinstance(owner, Client) else None


def memory_for_data() -> float:
    """Bytes that X may take: ``drnmf.memory-share`` (default 0.4) of the workers' limits, or of this machine."""
    share = float(dask.config.get("drnmf.memory-share", MEMORY_SHARE))
    active = client()
    if active is None:
        return share * float(MEMORY_LIMIT)
    limits = [worker["memory_limit"] for worker in active.scheduler_info(n_workers=-1)["workers"].values()]
    return share * float(sum(limit or MEMORY_LIMIT for limit in limits))


def seen_by_all(path: str | os.PathLike[str]) -> bool:
    """Do all workers see this path of ours?"""
    active = client()
    return active is None or all(active.run(os.path.exists, os.fspath(path)).values())


def name(kind: str) -> str:
    """A fresh name for tasks; the dashboard shows the part before the number."""
    return f"{kind}-{uuid.uuid4().hex}"


def task(kind: str, function: Callable[..., Any], *arguments: Any) -> Delayed:
    """A task that the dashboard shows as `kind`."""
    return delayed(function, pure=False)(*arguments, dask_key_name=name(kind))


def item(kind: str, pair: Delayed, index: int) -> Delayed:
    """One element of a task's answer, so that the other need not travel with it."""
    return task(kind, itemgetter(index), pair)


def constant(kind: str, value: Any) -> Delayed:
    """A value inside the graph: unlike scattered data it survives the worker that holds it."""
    return task(kind, _same, value)


def _same(value: Any) -> Any:
    return value


def add_pairs(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    """Element by element."""
    return tuple(map(add, left, right))


def tree_sum(terms: Sequence[Delayed]) -> Delayed:
    """The sum of tuples as a binary tree over the order given: the same bits wherever the terms are.

    Neighbours are added first. Dask places neighbouring blocks on the same worker, so that most sums stay inside.
    """
    level = list(terms)
    while len(level) > 1:
        pairs = [task("add", add_pairs, *level[i : i + 2]) for i in range(0, len(level) - 1, 2)]
        level = pairs + level[2 * len(pairs) :]
    return level[0]


def run(stays: Sequence[Delayed], answer: Delayed) -> tuple[tuple[Delayed, ...], Any]:
    """One graph: leave `stays` where they are computed and bring the answer here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        *kept, last = dask.persist(*stays, answer, optimize_graph=False)
    active = client()
    value = last.compute(scheduler="synchronous") if active is None else active.gather(futures_of(last)[0])
    return tuple(kept), value


def status() -> str:
    """The cluster in a few words for a progress bar."""
    active = client()
    if active is None:
        return "threads"
    workers = active.scheduler_info(n_workers=-1)["workers"].values()
    moved = sum(worker["metrics"].get("transfer", {}).get("incoming_bytes_total", 0) for worker in workers)
    return f"{len(workers)} workers  {moved / 1e6:.0f} MB between them"
