"""What an iteration on Dask costs: compute, bytes down, bytes up, hops. Constants are measured, nothing is fitted.

    T = blocks per worker x block                                      (compute, the slowest worker)
      + start + hops x hop                                             (H, iterate, share, adds, and the answer here)
      + H / send + ceil(log2 k) H / link                               (down: here to one worker, then among k;
                                                                        a small H goes into every task, without a hop)
      + depth x share x (1 / link or nothing + 1 / add) + share / fetch (up: inside a worker for free but the addition)
      + tasks x task                                                   (those not on the way: the scheduler's time)
      + driver                                                         (H's own step, here)

`python benchmarks/scale.py model` prints the table of docs/scale.md from results/scale_constants.csv.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from drnmf.backends.dask.cluster import SMALL


@dataclass(frozen=True)
class Constants:
    """Seconds, or bytes per second, of this machine.

    start : a graph of one task, from here and back
    hop : one more task behind it
    task : one more task beside it
    send : an array from here into a worker;  fetch : from a worker to here;  link : between two workers
    add : sums of two arrays, bytes of one of them per second
    step : entries of H per second that the driver puts together and moves
    """

    start: float
    hop: float
    task: float
    send: float
    fetch: float
    link: float
    add: float
    step: float


@dataclass(frozen=True)
class Work:
    """One iteration of one problem.

    block : seconds of one block's task on one core
    blocks : blocks in all
    down, up : bytes of H, and of a block's share
    entries : r n
    """

    block: float
    blocks: int
    down: float
    up: float
    entries: float


@dataclass(frozen=True)
class Cost:
    """Where the time of an iteration goes."""

    compute: float
    hops: float
    tasks: float
    down: float
    up: float
    driver: float

    @property
    def total(self) -> float:
        return self.compute + self.hops + self.tasks + self.down + self.up + self.driver


def cost(work: Work, workers: int, c: Constants) -> Cost:
    """The model. Blocks are spread evenly; pairs inside a worker are added without a transfer."""
    each = math.ceil(work.blocks / workers)
    across = math.ceil(math.log2(workers)) if workers > 1 else 0
    inside = math.ceil(math.log2(each)) if each > 1 else 0
    inside_tasks = work.blocks * work.down <= SMALL
    down = work.blocks * work.down / c.send if inside_tasks else work.down / c.send + across * work.down / c.link
    up = (each - 1) * work.up / c.add + across * work.up * (1 / c.link + 1 / c.add) + work.up / c.fetch
    # on the way: H, the block, its share, then the adds (one after another where a worker holds several blocks);
    # in all three tasks for every block (iterate, W, share) and the adds
    hops = 1 + (not inside_tasks) + inside + across
    return Cost(
        compute=each * work.block,
        hops=c.start + hops * c.hop,
        tasks=max(0, 4 * work.blocks - 1 - hops) * c.task,
        down=down,
        up=up,
        driver=work.entries / c.step,
    )


def at_link(c: Constants, link: float) -> Constants:
    """The same machine behind a network of `link` bytes per second, where that is slower than what was measured."""
    return replace(c, link=min(c.link, link), send=min(c.send, link), fetch=min(c.fetch, link))
