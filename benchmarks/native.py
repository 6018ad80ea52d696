"""The compiled core: against its floor, against scikit-learn, against itself.

    python benchmarks/native.py [kernel] [peers] [own] [blas]

writes results/native-*.csv. Sparse rows need DRNMF_DATA.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

import numpy as np
import scipy.sparse as sp
from harness import DATA, Timing, interleaved, machine, per_iteration, print_table, write_csv
from sklearn.decomposition import NMF
from threadpoolctl import threadpool_limits

from drnmf import DRNMF, BetaNMF, Solver
from drnmf._core import get_num_threads, set_num_threads
from drnmf.backends.base import Ask, losses_of
from drnmf.backends.open import open_data
from drnmf.losses.beta import FROBENIUS, IS, KL
from drnmf.losses.names import as_losses

Row = dict[str, object]
WALL_ROUNDS = int(os.environ.get("DRNMF_BENCH_ROUNDS", "5"))
"""Rounds by the wall clock; 0 leaves them out, for machines too busy for it to mean anything."""
SUFFIX = "" if WALL_ROUNDS else "-one-core"
"""Results without the wall clock do not overwrite those with it."""

F32, F64 = np.dtype("float32"), np.dtype("float64")
DENSE = ((512, 6200, 10), (2000, 5000, 20))
DOCUMENTS = (("reviews", 5, 8.0), ("ohscal", 10, 8.0), ("newsgroups20_bydate", 20, 12.0))


def dense_x(m: int, n: int, dtype: np.dtype[Any]) -> np.ndarray:
    return (np.random.default_rng(0).gamma(1.0, 1.0, (m, n)) + 1e-3).astype(dtype)


def documents(name: str) -> Any:
    path = DATA / "documents" / f"{name}.npz" if DATA else None
    if path is None or not path.exists():
        print(f"note: {name} is left out, DRNMF_DATA does not hold documents/{name}.npz")
        return None
    return sp.csr_array(sp.load_npz(path).astype(np.float64))


def factors(m: int, n: int, r: int, dtype: np.dtype[Any]) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.random((r, m)).astype(dtype), rng.random((r, n)).astype(dtype)


def gemm_rate(dtype: np.dtype[Any]) -> tuple[Callable[[], object], float]:
    """A square product, and its flops: what this machine can multiply."""
    a, b = np.random.default_rng(0).random((2, 1500, 1500)).astype(dtype)
    out = np.empty_like(a)
    return lambda: np.matmul(a, b, out=out), 2.0 * 1500**3


def quiet() -> None:
    """Until the threads of BLAS sleep: they spin for some 30 ms after a product (what that costs is table blas)."""
    time.sleep(0.1)


def copy_rate() -> tuple[Callable[[], object], float]:
    a = np.ones(1 << 25, np.float32)
    b = np.empty_like(a)
    return lambda: np.copyto(b, a), 2.0 * a.nbytes


def both_clocks(cases: dict[str, Callable[[], object]]) -> tuple[dict[str, Timing], dict[str, Timing]]:
    """Wall time on all threads, and CPU time on one, which a busy machine disturbs least."""
    wall = interleaved(cases)
    with threadpool_limits(1):
        return wall, interleaved(cases, now=time.thread_time)


def kernel_row(work: str, wall: Timing, cpu: Timing, flops: float, moved: float, rates: dict[str, float]) -> Row:
    """Shares are of one core's gemm and copy rates, by CPU time."""
    return {
        "work": work,
        "wall_median_ms": 1e3 * wall.median,
        "wall_min_ms": 1e3 * wall.minimum,
        "one_core_ms": 1e3 * cpu.minimum,
        "one_core_gflops": flops / cpu.minimum / 1e9,
        "share_of_gemm": flops / cpu.minimum / rates["gemm"],
        "share_of_copy": moved / cpu.minimum / rates["copy"],
    }


def kernel() -> None:
    """One sweep with separate parts and both losses (H), or their weighted sums (W), beside gemm and copy."""
    rows = []
    copy, copied = copy_rate()
    gemm, gemm_flops = gemm_rate(F32)
    for m, n, r in ((512, 6200, 10), (2000, 10000, 50)):
        data, (A, B) = open_data(dense_x(m, n, F32)), factors(m, n, r, F32)
        cases = {
            "H": lambda d=data, A=A, B=B: d.sweep(A.T, B, Ask((IS, KL))),
            "W": lambda d=data, A=A, B=B: d.T.sweep(B.T, A, Ask((IS, KL), np.ones(2))),
            "gemm": gemm,
            "quiet": quiet,
            "copy": copy,
        }
        wall, cpu = both_clocks(cases)
        rates = {"gemm": gemm_flops / cpu["gemm"].minimum, "copy": copied / cpu["copy"].minimum}
        for side, products in (("H", 4), ("W", 3)):
            work = f"{m} x {n}, r = {r}, float32, IS + KL, {side}-sweep"
            flops = products * 2.0 * m * n * r
            rows.append(kernel_row(work, wall[side], cpu[side], flops, 4.0 * m * n, rates))
    X = documents("newsgroups20_bydate")
    if X is not None:
        data, (A, B) = open_data(X), factors(*X.shape, 20, F64)

        def iteration() -> None:
            data.sweep(A.T, B, Ask((KL, FROBENIUS)))
            data.T.sweep(B.T, A, Ask((KL, FROBENIUS), np.ones(2)))

        gemm, gemm_flops = gemm_rate(F64)
        wall, cpu = both_clocks({"sparse": iteration, "gemm": gemm, "quiet": quiet, "copy": copy})
        rates = {"gemm": gemm_flops / cpu["gemm"].minimum, "copy": copied / cpu["copy"].minimum}
        work = f"sparse, {X.nnz} non-zeros, r = 20, float64, KL + Fro, both sweeps"
        flops = (3 + 2) * 2.0 * X.nnz * 20
        rows.append(kernel_row(work, wall["sparse"], cpu["sparse"], flops, 2 * 12.0 * X.nnz, rates))
    print_table(rows)
    write_csv("native-kernel", rows)


def ours(X: Any, r: int, beta: float) -> Callable[[int], object]:
    return lambda k: BetaNMF(
        r, beta=beta, tol=0, max_iter=k, random_state=0, solver=Solver(update="mu", normalize=False)
    ).fit(X)


def robust(X: Any, r: int, betas: tuple[float, ...]) -> Callable[[int], object]:
    """Iterations of DRNMF alone: references are given."""
    start = BetaNMF(r, beta=1.0, tol=0, max_iter=5, random_state=0, zeros="floor").fit(X)
    W = start.transform(X)
    losses = losses_of(open_data(X), np.asarray(W, order="F"), start.components_, as_losses(betas))
    return lambda k: DRNMF(
        r,
        betas=betas,
        tol=0,
        max_iter=k,
        random_state=0,
        solver=Solver(references=losses, update="mu", policy="frank-wolfe", normalize=False),
    ).fit(X)


def theirs(X: Any, r: int, beta: float) -> Callable[[int], object]:
    def fit(k: int) -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return NMF(r, solver="mu", beta_loss=beta, init="random", tol=0, max_iter=k, random_state=0).fit(X)

    return fit


def compare(work: str, fits: dict[str, Callable[[int], object]], goal: str, few: int, many: int) -> Row:
    """Wall time on all threads, and CPU time on one: the second is what a busy machine leaves standing."""
    wall = per_iteration(fits, few, many, rounds=WALL_ROUNDS) if WALL_ROUNDS else None
    with threadpool_limits(1):
        cpu = per_iteration(fits, few, many, rounds=2, now=time.process_time)
    ours_name, peer = fits
    row: Row = {
        "work": work,
        "peer": peer,
        "goal": goal,
        "wall_ours_ms": 1e3 * wall[ours_name].median if wall else "",
        "wall_peer_ms": 1e3 * wall[peer].median if wall else "",
        "wall_ratio": wall[peer].median / wall[ours_name].median if wall else "",
        "wall_spread": max(wall[ours_name].spread, wall[peer].spread) if wall else "",
        "one_core_ours_ms": 1e3 * cpu[ours_name].minimum,
        "one_core_peer_ms": 1e3 * cpu[peer].minimum,
        "one_core_ratio": cpu[peer].minimum / cpu[ours_name].minimum,
    }
    print_table([row])
    return row


def dense_peer(dtype: np.dtype[Any], beta: float, shape: tuple[int, int, int], least: float) -> Row:
    m, n, r = shape
    X = dense_x(m, n, dtype)
    work = f"beta={beta:g} {dtype.name} {m} x {n} r={r}"
    fits = {"drnmf": ours(X, r, beta), "scikit-learn": theirs(X, r, beta)}
    # The few are not too few: BLAS threads of the peer's fit spin for some 20 ms after it.
    return compare(work, fits, f">= {least:g}", 10, 40)


def sparse_peer(name: str, r: int, least: float) -> Row | None:
    X = documents(name)
    if X is None:
        return None
    work = f"beta=1 float64 {name} (sparse, {X.nnz} non-zeros) r={r}"
    return compare(work, {"drnmf": ours(X, r, 1.0), "scikit-learn": theirs(X, r, 1.0)}, f">= {least:g}", 5, 15)


def peers() -> None:
    """BetaNMF against scikit-learn's multiplicative updates, per iteration, each row in a process of its own.

    The peer's temporary arrays are as large as X. Whether the allocator has them at hand or gets fresh pages every time
    depends on what the process did before, and changes the peer's time up to twofold.
    """
    goals = {
        (F64, 1.0): (5.0, 3.5),
        (F64, 0.0): (5.0, 3.5),
        (F32, 1.0): (2.0, 2.5),
        (F32, 0.0): (3.0, 3.0),
        (F64, 2.0): (1.0, 1.0),
        (F32, 2.0): (1.0, 1.0),
    }
    dense = [(*kind, shape, least) for kind, goal in goals.items() for shape, least in zip(DENSE, goal, strict=True)]
    with get_context("spawn").Pool(1, maxtasksperchild=1) as fresh:
        found = [fresh.apply(dense_peer, case) for case in dense]
        found += [fresh.apply(sparse_peer, case) for case in DOCUMENTS]
    rows = [row for row in found if row is not None]
    print_table(rows)
    write_csv(f"native-peers{SUFFIX}", rows)


def own() -> None:
    """DRNMF against BetaNMF; two threads against one."""
    rows: list[Row] = []
    scaling: list[Row] = []
    for dtype in (F32, F64):
        for m, n, r in DENSE:
            X = dense_x(m, n, dtype)
            fits = {"DRNMF {0,1}": robust(X, r, (0.0, 1.0)), "BetaNMF beta=0": ours(X, r, 0.0)}
            rows.append(compare(f"DRNMF {{0,1}} {dtype.name} {m} x {n} r={r}", fits, ">= 1/1.6", 2, 17))
    for name, r, _ in DOCUMENTS:
        X = documents(name)
        if X is not None:
            fits = {"DRNMF {1,2}": robust(X, r, (1.0, 2.0)), "BetaNMF beta=1": ours(X, r, 1.0)}
            rows.append(compare(f"DRNMF {{1,2}} sparse float64 {name} r={r}", fits, ">= 1/1.3", 2, 17))
    available = get_num_threads()
    if available >= 2:
        for dtype in (F32, F64):
            X = dense_x(2000, 5000, dtype)

            def on(threads: int, fit: Callable[[int], object]) -> Callable[[int], object]:
                def run(k: int) -> None:
                    set_num_threads(threads)
                    fit(k)

                return run

            fits = {"2 threads": on(2, ours(X, 20, 1.0)), "1 thread": on(1, ours(X, 20, 1.0))}
            timing = per_iteration(fits, 2, 12)
            speed_up = timing["1 thread"].median / timing["2 threads"].median
            scaling.append({"work": f"beta=1 {dtype.name} 2000 x 5000 r=20", "goal": ">= 1.8", "speed_up": speed_up})
        set_num_threads(available)
    print_table(rows)
    write_csv(f"native-own{SUFFIX}", rows)
    if scaling:
        print_table(scaling)
        write_csv("native-threads", scaling)


def blas() -> None:
    """A sweep on its own and right after a product by a multi-threaded BLAS, whose threads still spin."""
    a, rows = np.ones((600, 600), np.float32), []
    for (m, n, r), rounds in (((512, 6200, 10), 100), ((2000, 10000, 50), 15)):
        data, (A, B) = open_data(dense_x(m, n, F32)), factors(m, n, r, F32)

        def sweep(data: Any = data, A: np.ndarray = A, B: np.ndarray = B) -> object:
            return data.sweep(A.T, B, Ask((IS, KL)))

        quiet()
        alone = interleaved({"alone": sweep}, rounds)["alone"]
        after = interleaved({"product": lambda: a @ a, "sweep": sweep}, rounds)["sweep"]
        for setting, time_of in (("alone", alone), ("after BLAS", after)):
            rows.append(
                {
                    "work": f"{m} x {n}, r = {r}, float32, IS + KL, H-sweep",
                    "setting": setting,
                    "median_ms": 1e3 * time_of.median,
                    "min_ms": 1e3 * time_of.minimum,
                    "spread": time_of.spread,
                }
            )
    print_table(rows)
    write_csv("native-after-blas", rows)


TABLES = {"kernel": kernel, "blas": blas, "own": own, "peers": peers}

if __name__ == "__main__":
    print_table([machine()])
    write_csv("machine", [machine()])
    for table in sys.argv[1:] or TABLES:
        print(f"# {table}: {TABLES[table].__doc__}")
        TABLES[table]()
