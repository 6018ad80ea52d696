"""X in blocks on Dask: against the local core, under a memory limit, from one worker to two, and what a cut costs.

    python benchmarks/scale.py ratio      2 workers of 1 thread against the local core with 2 threads
    python benchmarks/scale.py memory     6 GiB in zarr through workers of 1 GiB, 20 iterations  [--store X.zarr]
    python benchmarks/scale.py weak       weak scaling on 1 and 2 workers, and the cost model's prediction
    python benchmarks/scale.py cuts       writing W down every 10 iterations, against never
    python benchmarks/scale.py model      the cost model for 100 million x 50,000 at 0.1 %, from the constants measured

Each writes results/scale_*.csv. The sparse row of `ratio` needs DRNMF_DATA, the folder of data sets.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from cost_model import Constants, Work, at_link, cost
from distributed import Client, LocalCluster
from harness import DATA, print_table, read_csv, write_csv

from drnmf import DRNMF, Solver
from drnmf._core import set_num_threads
from drnmf.algorithms.updates import RULES
from drnmf.algorithms.updates.base import Parts
from drnmf.algorithms.updates.newton import Newton
from drnmf.backends.base import Ask
from drnmf.backends.dask import cluster
from drnmf.backends.dask.nodes import SweepRows
from drnmf.backends.dask.partial_sums import PartialSums, SweepColumns
from drnmf.backends.open import open_data
from drnmf.losses.beta import FROBENIUS, KL
from drnmf.losses.names import as_losses
from drnmf.matrices.rowblocks import open_matrix
from drnmf.numerics import factor_floor

RANK = 20
RULE = "extrapolated"  # no curvature: what goes up is what the losses alone ask for
NEWTON = Newton(delay=0)  # r (r + 1) n / 2 numbers more: the default after 30 iterations, up to its largest rank


@contextmanager
def workers(count: int, memory: str | float = "auto") -> Iterator[Client]:
    """So many processes of one thread each."""
    with (
        LocalCluster(n_workers=count, threads_per_worker=1, memory_limit=memory, dashboard_address=":0") as processes,
        Client(processes) as client,
    ):
        yield client


def in_blocks(X: Any, count: int) -> da.Array:
    """X cut into blocks of rows, in the memory of the workers."""
    step = -(-X.shape[0] // count)
    meta = sp.csr_array((0, 0), dtype=X.dtype) if sp.issparse(X) else np.empty((0, 0), X.dtype)
    pieces = [X[i : i + step] for i in range(0, X.shape[0], step)]
    parts = [da.from_delayed(dask.delayed(piece), piece.shape, X.dtype, meta=meta) for piece in pieces]
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "100GB"}):
        return da.concatenate(parts).persist()


def per_iteration(X: Any, betas: tuple[float, ...], rule: Any = RULE, rank: int = RANK, iterations: int = 8) -> float:
    """Median seconds of an iteration, the first two left out."""
    settings = {"max_iter": iterations + 2, "tol": 0, "random_state": 0}
    model = DRNMF(rank, betas=betas, solver=Solver(update=rule, references=np.ones(len(betas))), **settings).fit(X)
    return float(np.median(np.diff(model.trace_.seconds)[2:]))


def dense(rows: int, columns: int) -> np.ndarray:
    return np.random.default_rng(0).random((rows, columns), dtype=np.float32) + np.float32(0.01)


def stacked_news() -> Any:
    assert DATA is not None
    X = sp.load_npz(DATA / "documents" / "newsgroups20_bydate.npz").astype(np.float32)
    return sp.csr_array(sp.vstack([X] * 10))


def ratio(rounds: int = 5) -> None:
    """The issue's first number: local core with 2 threads and 2 workers with 1, in turns."""
    cases: list[tuple[str, Callable[[], Any], tuple[float, ...], float]] = [
        ("40,000 x 5,000 float32, {0,1}", lambda: dense(40_000, 5_000), (0.0, 1.0), 1.4)
    ]
    if DATA is not None:
        cases.append(("newsgroups20_bydate x 10, {1,2}", stacked_news, (1.0, 2.0), 1.6))
    rows = []
    for name, make, betas, goal in cases:
        X = make()
        with workers(2, "8GiB"):
            D = in_blocks(X, 2)
            for update, rule in ((RULE, RULE), ("newton", NEWTON)):
                seconds: dict[str, list[float]] = {"local": [], "dask": []}
                for _ in range(rounds):
                    seconds["local"].append(per_iteration(X, betas, rule))
                    seconds["dask"].append(per_iteration(D, betas, rule))
                local, remote = (float(np.median(seconds[key])) for key in ("local", "dask"))
                spread = [b / a for a, b in zip(*seconds.values(), strict=True)]
                rows.append(
                    {"case": name, "update": update, "local": local, "dask": remote, "ratio": remote / local,
                     "smallest": min(spread), "largest": max(spread), "goal": goal}
                )  # fmt: skip
                print_table(rows[-1:])
    print_table(rows)
    write_csv("scale_ratio", rows)


def _peak() -> int:
    status = Path("/proc/self/status").read_text()  # ru_maxrss is inherited from the process that started this one
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def _spilled(dask_worker: Any) -> int:
    slow = getattr(dask_worker.data, "slow", None)
    return 0 if slow is None else len(slow)


def write_store(path: Path, gib: float) -> None:
    """Random numbers, in chunks of 64 MiB."""
    columns, chunk = 4096, 4096
    count = round(gib * (1 << 30) / (4 * columns * chunk))
    X = da.random.default_rng(0).random((count * chunk, columns), chunks=(chunk, columns), dtype=np.float32)
    (X + np.float32(0.01)).to_zarr(str(path), compute=True)


def memory(store: str | None, gib: float = 6.0, iterations: int = 20, rank: int = 4) -> None:
    """The second number: X larger than all workers together."""
    limit, place = 1 << 30, Path(tempfile.mkdtemp(prefix="drnmf-scale-"))
    path = place / "X.zarr" if store is None else Path(store)
    try:
        if store is None:
            write_store(path, gib)
        X = open_matrix(path).X
        with workers(2, limit) as client:
            started = time.perf_counter()

            def show(progress: Any) -> None:
                peak = max(client.run(_peak).values()) >> 20
                print(f"iteration {progress.iteration}, {progress.seconds:.0f} s, peak {peak} MiB", flush=True)

            settings = {"references": (1.0, 1.0), "max_iter": iterations, "tol": 0, "random_state": 0}
            model = DRNMF(rank, betas=(1, 2), solver=Solver(update=RULE, callback=show), **settings).fit(X)
            seconds = time.perf_counter() - started
            peaks, spills = client.run(_peak), client.run(_spilled)
    finally:
        shutil.rmtree(place)
    rows = [
        {"GiB": X.nbytes / (1 << 30), "blocks": X.numblocks[0], "r": rank, "iterations": model.n_iter_,
         "seconds": seconds, "per iteration": float(np.median(np.diff(model.trace_.seconds))),
         "limit MiB": limit >> 20, "peak MiB": max(peaks.values()) >> 20, "spilled": sum(spills.values())}
    ]  # fmt: skip
    print_table(rows)
    write_csv("scale_memory", rows)


def clock(case: Callable[[], object], rounds: int = 15, now: Callable[[], float] = time.perf_counter) -> float:
    times = []
    for _ in range(rounds + 2):
        start = now()
        case()
        times.append(now() - start)
    return float(np.median(times[2:]))


def _made(nbytes: int) -> np.ndarray:
    return np.ones(nbytes // 8)


def _size(array: np.ndarray) -> int:
    return array.nbytes


def constants(client: Client, large: int = 64 << 20) -> Constants:
    """Hops behind a task that works, bandwidths from a large array on the same ways that H and the shares take."""

    def chain(hops: int) -> float:
        """Seconds beside those of its first task, which works as a block does and leaves the caches cold."""

        def run() -> float:
            end = cluster.task("work", _work)
            for _ in range(hops):
                end = cluster.task("hop", _same, end)
            started = time.perf_counter()
            worked = cluster.run([], end)[1]
            return time.perf_counter() - started - worked

        return float(np.median([run() for _ in range(17)][2:]))

    names = list(client.scheduler_info(n_workers=-1)["workers"])

    def beside(count: int) -> None:
        """So many tasks that need not wait for each other."""
        tasks = []
        for i in range(count):
            with dask.annotate(workers=[names[i % len(names)]]):
                tasks.append(cluster.task("one", _made, 8))
        cluster.run([], cluster.task("all", _count, tasks))

    empty, array, many = np.empty(0), np.ones(large // 8), 64
    one, five = chain(0), chain(4)
    task = (clock(lambda: beside(many)) - clock(lambda: beside(1))) / (many - 1)
    send = clock(lambda: cluster.run([], cluster.task("size", _size, cluster.constant("H", array))), 5)
    small = clock(lambda: cluster.run([], cluster.task("size", _size, cluster.constant("H", empty))), 5)
    tiny = clock(lambda: cluster.run([], cluster.task("made", _made, 8)), 5)
    fetch = clock(lambda: cluster.run([], cluster.task("made", _made, large)), 5) - tiny
    fetch -= clock(lambda: _made(large), 5)
    link = float("inf")
    if len(names) > 1:

        def across() -> None:
            with dask.annotate(workers=[names[0]]):
                made = cluster.task("made", _made, large)
            with dask.annotate(workers=[names[1]]):
                end = cluster.task("size", _size, made)
            cluster.run([], end)

        def same() -> None:
            with dask.annotate(workers=[names[0]]):
                cluster.run([], cluster.task("size", _size, cluster.task("made", _made, large)))

        link = large / max(clock(across, 5) - clock(same, 5), 1e-9)
    add = clock(lambda: array + array, 5, time.thread_time)
    H, omega, rule = np.ones((RANK, 50_000), np.float32), (KL, FROBENIUS), RULES[RULE]
    sums, gram = np.ones(RANK), np.ones((RANK, RANK))
    N = np.stack([H, H])
    sweep, found = SweepColumns(Ask(omega)), PartialSums(sums, N, N[:0], sums, gram, H[:0])

    def move() -> Any:
        whole = sweep.restore(found, H)
        return rule.step(H, Parts(whole.N, whole.P, np.ones(2), omega, 0.0), rule.init(H))

    step = clock(move, 5, time.thread_time)
    return Constants(
        start=one,
        hop=(five - one) / 4,
        task=task,
        send=large / max(send - small, 1e-9),
        fetch=large / max(fetch, 1e-9),
        link=link,
        add=large / add,
        step=H.size / step,
    )


def _same(value: Any) -> Any:
    return value


def _work(passes: int = 6) -> float:
    """Some passes over more than the caches hold; how long they took."""
    started = time.perf_counter()
    array = np.ones(4 << 20)
    for _ in range(passes):
        array += 1.0
    return time.perf_counter() - started


def _count(values: list[Any]) -> int:
    return len(values)


def block_seconds(X: Any, betas: tuple[float, ...], rank: int) -> tuple[float, int]:
    """(seconds, bytes that it sends up) of one block's work on one thread, without tasks: sweep, step, sweep."""
    set_num_threads(1)
    data, rng = open_data(X), np.random.default_rng(0)
    A, H = (rng.uniform(0.1, 1, (rank, size)).astype(data.dtype) for size in data.shape)
    omega, rule = as_losses(betas), RULES[RULE]
    c = np.full(len(omega), 1.0 / len(omega))
    first, last, state = SweepRows(Ask(omega, c)), SweepColumns(Ask(omega)), rule.init(A)
    floor = factor_floor(data.mean, rank)

    def run() -> Any:
        sweep = first(data, A, H, slice(0, X.shape[0]))
        stepped, _ = rule.step(A, Parts(sweep.N, sweep.P, c, omega, floor), state)
        return last(data, stepped, H, slice(0, X.shape[0]))

    return clock(run, 7), run().nbytes


def blocks_at_once(client: Client, D: da.Array, betas: tuple[float, ...]) -> tuple[float, int]:
    """The same on all workers at the same time, one block each: they share the memory of one machine."""
    tasks = [dask.delayed(block_seconds)(block, betas, RANK) for block in D.to_delayed().ravel()]
    found = client.gather(client.compute(tasks))
    return max(seconds for seconds, _ in found), found[0][1]


def weak(rounds: int = 5) -> None:
    """The third number: the same rows per worker on 1 and 2 workers, measured and predicted."""
    rows, known = [], []
    cases: list[tuple[str, Callable[[int], Any], tuple[float, ...]]] = [
        ("10,000 x 5,000 float32 each, {0,1}", lambda k: dense(10_000 * k, 5_000), (0.0, 1.0))
    ]
    if DATA is not None:
        news = stacked_news()
        cases.append(("4 newsgroups20_bydate each, {1,2}", lambda k: news[: 4 * 18_846 * k], (1.0, 2.0)))
    for name, make, betas in cases:
        for count in (1, 2):
            X = make(count)
            entries = RANK * X.shape[1]
            with workers(count, "8GiB") as client:
                measured = constants(client)
                D = in_blocks(X, count)
                turns = [(blocks_at_once(client, D, betas), per_iteration(D, betas)) for _ in range(rounds)]
            block, seconds = (float(np.median(found)) for found in zip(*((b[0], s) for b, s in turns), strict=True))
            up = turns[0][0][1]
            said = cost(Work(block, count, 4.0 * entries, up, entries), count, measured)
            rows.append(
                {"case": name, "workers": count, "measured": seconds, "predicted": said.total,
                 "error": said.total / seconds - 1, "compute": said.compute, "hops": said.hops, "tasks": said.tasks,
                 "down": said.down, "up": said.up, "driver": said.driver}
            )  # fmt: skip
            known.append({"case": name, "workers": count, **measured.__dict__})
    print_table(rows)
    print_table(known)
    write_csv("scale_weak", rows)
    write_csv("scale_constants", known)


def cuts(rounds: int = 3) -> None:
    """What it costs to write W down every 10 iterations, in a fit where W is large beside X."""
    X = dense(200_000, 200)
    rows = []
    with workers(2, "8GiB"):
        D = in_blocks(X, 4)
        seconds: dict[int, list[float]] = {10: [], 10**9: []}
        for _ in range(rounds):
            for every, found in seconds.items():
                with dask.config.set({"drnmf.save-every": every}):
                    settings = {"references": (1.0, 1.0), "max_iter": 40, "tol": 0, "random_state": 0}
                    model = DRNMF(RANK, betas=(0, 1), solver=Solver(update=RULE), **settings).fit(D)
                found.append(float(model.trace_.seconds[-1]) / 40)
    with_cuts, without = (float(np.median(found)) for found in seconds.values())
    rows = [
        {"W MB": 4 * RANK * X.shape[0] / 1e6, "X MB": X.nbytes / 1e6, "every 10": with_cuts, "never": without,
         "ratio": with_cuts / without}
    ]  # fmt: skip
    print_table(rows)
    write_csv("scale_cuts", rows)


def model() -> None:
    """100 million x 50,000 at 0.1 %, r = 100, {1,2}, float32: by the number of workers, on 10 and 100 Gbit/s."""
    m, n, r, density = 100_000_000, 50_000, 100, 1e-3
    known = [row for row in read_csv("scale_constants") if row["workers"] == "2"][-1]
    measured = Constants(**{name: float(known[name]) for name in Constants.__dataclass_fields__})
    size = 100_000
    sample = sp.random_array((size, n), density=density, rng=np.random.default_rng(0), dtype=np.float32, format="csr")
    seconds, up = block_seconds(sp.csr_array(sample), (1.0, 2.0), r)
    cores, rows = 16, []
    for gigabits in (10, 100):
        for count in (8, 16, 32, 64, 128, 256, 512, 1024):
            block = seconds * (m / count) / size / cores
            said = cost(Work(block, count, 4.0 * r * n, up, r * n), count, at_link(measured, gigabits * 1e9 / 8))
            moved = said.total - said.compute
            rows.append(
                {"Gbit/s": gigabits, "workers": count, "compute": said.compute, "hops": said.hops, "tasks": said.tasks,
                 "down": said.down, "up": said.up, "driver": said.driver, "iteration": said.total,
                 "busy": said.compute / said.total, "GB each": (16 * density * m * n + 4 * 4 * r * m) / count / 1e9,
                 "other": moved}
            )  # fmt: skip
    print(f"one core: {seconds / (density * size * n) * 1e9:.1f} ns per stored entry; {up / 1e6:.0f} MB up")
    print_table(rows)
    write_csv("scale_model", rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["ratio", "memory", "weak", "cuts", "model"])
    parser.add_argument("--store", help="an X.zarr for `memory` (default: 6 GiB are written to the temporary folder)")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    if asked.what == "memory":
        memory(asked.store)
    else:
        {"ratio": ratio, "weak": weak, "cuts": cuts, "model": model}[asked.what]()


if __name__ == "__main__":
    main()
