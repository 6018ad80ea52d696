"""The fused sweep on a CUDA card against its floor and its peers, and whole fits.

    python benchmarks/gpu.py [sweep peers errors fits values compile small batch sparse streamed] [--out FOLDER]

The floor of a sweep is one read of X at the rate of a large device-to-device copy, measured here first. Every section
writes one CSV, with the date and the versions in each row.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import triton

from drnmf import DRNMF, BetaNMF, Solver
from drnmf.backends.base import Ask
from drnmf.backends.open import open_data
from drnmf.backends.torch.dense import TorchDense
from drnmf.backends.torch.sparse import TorchSparse
from drnmf.backends.torch.stream import TorchStreamed
from drnmf.losses.beta import FROBENIUS, IS, KL

SHAPE = (16384, 65536)
RANKS = (16, 32, 64)
BETAS = (0.0, 1.0)
OMEGA = (IS, KL)
CARD = "cuda"
Tensor = torch.Tensor


def milliseconds(case: Callable[[], object], rounds: int = 15) -> float:
    """Median time on the card."""
    for _ in range(3):
        case()
    marks = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(rounds)]
    for begin, end in marks:
        begin.record()
        case()
        end.record()
    torch.cuda.synchronize()
    return float(np.median([begin.elapsed_time(end) for begin, end in marks]))


def problem(m: int, n: int, r: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """X = WH times exponential noise, and factors (r, m), (r, n) at some distance from W and H."""
    generator = torch.Generator(CARD).manual_seed(seed)
    A, B = (torch.rand((r, k), device=CARD, generator=generator) for k in (m, n))
    B *= 2.0 / r
    X = torch.empty((m, n), device=CARD)
    for rows in torch.arange(m, device=CARD).split(1024):
        noise = torch.empty((len(rows), n), device=CARD).exponential_(generator=generator).clamp_(1e-4)
        X[rows] = (A[:, rows].T @ B) * noise
    wobble = [0.5 + torch.rand(F.shape, device=CARD, generator=generator) for F in (A, B)]
    return X, A * wobble[0], B * wobble[1]


def copy_rate() -> float:
    """TB/s of a large copy, bytes read and written."""
    a, b = (torch.empty(1 << 30, device=CARD, dtype=torch.float32).normal_() for _ in range(2))
    return 2 * a.numel() * 4 / milliseconds(lambda: b.copy_(a)) / 1e9


def sides(data: Any, A: Tensor, B: Tensor) -> dict[str, tuple[Any, Tensor, Tensor]]:
    return {"H": (data, A, B), "W": (data.T, B, A)}


def sweep_rows(rate: float) -> list[dict[str, Any]]:
    """One sweep, IS and KL, both losses: every part on its own, and the weighted sums."""
    rows = []
    mixes: dict[str, Any] = {"separate": "separate", "weighted": np.array([0.3, 0.7])}
    for r in RANKS:
        X, A, B = problem(*SHAPE, r)
        floor = X.numel() * 4 / rate / 1e9
        for precision in ("float32", "tf32"):
            data = TorchDense.of(X, 1.0, precision)
            for side, (view, other, own) in sides(data, A, B).items():
                for name, mix in mixes.items():
                    ms = milliseconds(lambda: view.sweep(other.T, own, Ask(OMEGA, mix)))  # noqa: B023
                    rows.append(_row(r, precision, side, name, "float32", ms, floor))
    for dtype in (torch.float16, torch.bfloat16):
        data = TorchDense.of(X.to(dtype), 1.0, "tf32")
        ms = milliseconds(lambda: data.sweep(A.T, B, Ask(OMEGA)))  # noqa: B023
        rows.append(_row(64, "tf32", "H", "separate", str(dtype).removeprefix("torch."), ms, floor / 2))
    X, A, B = problem(SHAPE[0], SHAPE[1] - 1, 16)
    for side, (view, other, own) in sides(TorchDense.of(X, 1.0), A, B).items():
        ms = milliseconds(lambda: view.sweep(other.T, own, Ask(OMEGA)))  # noqa: B023
        rows.append(_row(16, "float32", side, "separate, odd n", "float32", ms, floor))
    return rows


def _row(r: int, precision: str, side: str, mix: str, storage: str, ms: float, floor: float) -> dict[str, Any]:
    return {
        "r": r, "precision": precision, "side": side, "mix": mix, "X": storage, "ms": round(ms, 3),
        "floor_ms": round(floor, 3), "share_of_floor": round(floor / ms, 3),
    }  # fmt: skip


def eager_sweep(X: Tensor, A: Tensor, B: Tensor) -> tuple[Tensor, ...]:
    """What one writes in torch: V in memory, products by cuBLAS."""
    V = A.T @ B
    inverse = 1.0 / V
    ratio = X * inverse
    log = torch.log(ratio)
    first, second = (ratio - log - 1.0).sum(), (X * log - X + V).sum()
    return A @ (ratio * inverse), A @ inverse, A @ ratio, A.sum(1), first, second


def peer_rows(rate: float) -> list[dict[str, Any]]:
    """Torch eager and torch.compile, the same sweep."""
    rows = []
    for r in RANKS:
        X, A, B = problem(*SHAPE, r)
        floor = X.numel() * 4 / rate / 1e9
        fused = TorchDense.of(X, 1.0)
        compiled = torch.compile(eager_sweep)
        cases = {
            "drnmf float32": lambda: fused.sweep(A.T, B, Ask(OMEGA)),  # noqa: B023
            "torch eager": lambda: eager_sweep(X, A, B),  # noqa: B023
            "torch.compile": lambda: compiled(X, A, B),  # noqa: B023
        }
        for name, case in cases.items():
            ms = milliseconds(case, 7)
            rows.append({"r": r, "peer": name, "ms": round(ms, 2), "times_floor": round(ms / floor, 1)})
    return rows


def error_rows(rate: float) -> list[dict[str, Any]]:
    """Distance of a sweep from float64, by the length of the sums and the level of noise."""
    rows = []
    for m, n, r in ((1024, 4096, 16), (16384, 4096, 16), (16384, 4096, 64), (129, 586, 10)):
        X, A, B = problem(m, n, r)
        for precision in ("float32", "tf32"):
            data = TorchDense.of(X, 1.0, precision)
            for side, (view, other, own) in sides(data, A, B).items():
                exact = TorchDense(view.X.double(), 1.0, 0)
                wanted = exact.sweep(other.double().T, own.double(), Ask(OMEGA))
                got = view.sweep(other.T, own, Ask(OMEGA))
                distance = [
                    float((a.double() - b).norm() / b.norm()) for a, b in ((got.N, wanted.N), (got.P, wanted.P))
                ]
                losses = (got.losses / wanted.losses - 1.0).abs().tolist()
                rows.append(
                    {"m": m, "n": n, "r": r, "precision": precision, "side": side}
                    | dict(zip(("N", "P", "IS", "KL"), (f"{e:.1e}" for e in (*distance, *losses)), strict=True))
                )
    return rows


def eager_fit(X: Tensor, A: Tensor, B: Tensor, references: Tensor, iterations: int) -> None:
    """Algorithm 3 with multiplicative updates and Frank-Wolfe weights as a torch user writes it: all on the card."""
    weights = torch.full((2,), 0.5, device=CARD)
    for k in range(1, iterations + 1):
        c = weights / references
        for side in range(2):
            Y, other, own = (X, A, B) if side == 0 else (X.T, B, A)
            V = other.T @ own
            inverse = 1.0 / V
            ratio = Y * inverse
            N = c[0] * (other @ (ratio * inverse)) + c[1] * (other @ ratio)
            P = c[0] * (other @ inverse) + c[1] * other.sum(1)[:, None]
            own.mul_(N / P)
        V = A.T @ B
        ratio = X / V
        log = torch.log(ratio)
        scaled = torch.stack([(ratio - log - 1.0).sum(), (X * log - X + V).sum()]) / references
        oracle = torch.nn.functional.one_hot(scaled.argmax(), 2)
        weights = weights + (oracle - weights) / (k + 1)


def fit_rows(rate: float) -> list[dict[str, Any]]:
    """DRNMF {0, 1}, 200 iterations under given references: seconds, and as a ratio to ours."""
    rows = []
    for r in RANKS:
        X, A, B = problem(*SHAPE, r)
        start = {"W": A.T.contiguous(), "H": B}
        solver = Solver(references=(1e8, 1e8), normalize=False)
        common: dict[str, Any] = {"betas": BETAS, "init": "custom", "tol": 0, "max_iter": 200}
        few = {**common, "max_iter": 3}
        cases: dict[str, Callable[[], object]] = {}
        for update in ("mu", "extrapolated"):
            for precision in ("float32", "tf32"):
                how = replace(solver, update=update, precision=precision)
                model = DRNMF(r, solver=how, **common)
                DRNMF(r, solver=how, **few).fit(X, **start)
                cases[f"drnmf {update} {precision}"] = lambda model=model, X=X, start=start: model.fit(X, **start)
        scales = torch.full((2,), 1e8, device=CARD)
        cases["torch eager"] = lambda X=X, A=A, B=B: eager_fit(X, A.clone(), B.clone(), scales, 20)  # noqa: B023
        spent = {}
        for name, case in cases.items():
            torch.cuda.synchronize()
            began = time.perf_counter()
            case()
            torch.cuda.synchronize()
            spent[name] = (time.perf_counter() - began) * (10 if name == "torch eager" else 1)
        for name, seconds in spent.items():
            rows.append(
                {"r": r, "fit": name, "seconds": round(seconds, 3)}
                | {"eager_over_this": round(spent["torch eager"] / seconds, 1)}
            )
        if r == RANKS[0]:
            rows += core_fit_rows(X, A, B, common | {"solver": solver}, spent)
    return rows


def value_rows(rate: float) -> list[dict[str, Any]]:
    """DRNMF under common references: seconds to the value of 200 extrapolated iterations, from random starts.

    Newton steps with a curvature of every column are measured where X is small enough, with 60 iterations.
    """
    rows = []
    both, odd = ("extrapolated", "auto"), (2999, 20011)
    for shape, betas, r, updates in (
        (SHAPE, BETAS, 16, both), (SHAPE, BETAS, 24, both), (odd, (0.0, 1.0, 2.0), 13, (*both, "newton")),
    ):  # fmt: skip
        X, _, _ = problem(*shape, r)
        solver, common = Solver(normalize=False), {"betas": betas, "init": "random", "tol": 0, "random_state": 1}
        solver.references = DRNMF(r, **common, max_iter=60, solver=solver).fit(X).references_
        found = [_to_value(X, r, replace(solver, update=update), common) for update in updates]
        value = found[0][1][-1]
        for update, (seconds, lowest) in zip(updates, found, strict=True):
            reached = lowest <= value
            first = int(reached.argmax()) if reached.any() else -1
            rows.append(
                {"m": shape[0], "n": shape[1], "betas": " ".join(f"{b:g}" for b in betas), "r": r, "update": update,
                 "value": round(float(lowest[-1]), 6), "iterations": first, "seconds": round(float(seconds[first]), 3)}
            )  # fmt: skip
        for row in rows[-len(updates) :]:
            row["faster"] = round(rows[-len(updates)]["seconds"] / row["seconds"], 2) if row["iterations"] >= 0 else ""
    return rows


def _to_value(X: Tensor, r: int, solver: Solver, common: dict[str, Any]) -> tuple[Any, Any]:
    """Seconds and the lowest maximum so far at every iteration, the second time that the kernels are used."""
    few, many = (5, 60) if solver.update == "newton" else (40, 200)
    DRNMF(r, max_iter=few, solver=solver, **common).fit(X)  # compiled, and warm
    fitted = DRNMF(r, max_iter=many, solver=solver, **common).fit(X)
    return fitted.trace_.seconds, np.minimum.accumulate(fitted.trace_.maximum)


COMPILED = """
import sys, time, torch
import drnmf
X = torch.rand(4096, 8192, device="cuda") + 0.01
model = drnmf.DRNMF(int(sys.argv[1]), betas=(0, 1), max_iter=60, tol=0, random_state=0)
for _ in range(2):
    torch.cuda.synchronize()
    began = time.perf_counter()
    model.fit(X)
    torch.cuda.synchronize()
    print(time.perf_counter() - began)
"""


def compile_rows(rate: float) -> list[dict[str, Any]]:
    """The first fit of a fresh process: with nothing compiled on this machine, and with the kernels on disk."""
    rows = []
    for r in (16, 20):
        with tempfile.TemporaryDirectory() as cache:
            for state in ("nothing compiled", "kernels on disk"):
                environment = {**os.environ, "TRITON_CACHE_DIR": cache, "PYTHONWARNINGS": "ignore"}
                command = [sys.executable, "-c", COMPILED, str(r)]
                told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
                first, second = (float(line) for line in told.split())
                rows.append(
                    {"r": r, "state": state, "first_fit_s": round(first, 2), "second_fit_s": round(second, 2),
                     "compiling_s": round(first - second, 2)}
                )  # fmt: skip
    return rows


def core_fit_rows(X: Tensor, A: Tensor, B: Tensor, common: dict[str, Any], spent: dict[str, float]) -> list[Any]:
    """The compiled core on all cores of this machine, 3 iterations scaled to 200."""
    try:
        from drnmf import _core
    except ImportError as error:
        print(f"no compiled core here: {error}")
        return []
    host = X.cpu().numpy()
    solver = replace(common["solver"], update="mu")
    model = DRNMF(A.shape[0], **common | {"max_iter": 3, "solver": solver})
    seconds = [0.0, 0.0]
    for i, count in enumerate((1, 3)):
        model.set_params(max_iter=count)
        began = time.perf_counter()
        model.fit(host, W=A.T.cpu().numpy(), H=B.cpu().numpy())
        seconds[i] = time.perf_counter() - began
    whole = (seconds[1] - seconds[0]) / 2 * 200
    ours = spent["drnmf mu float32"]
    threads = _core.get_num_threads()
    return [
        {"r": A.shape[0], "fit": f"compiled core, {threads} threads, mu float32", "seconds": round(whole, 1),
         "eager_over_this": round(spent["torch eager"] / whole, 2)},
        {"r": A.shape[0], "fit": "core over drnmf mu float32", "seconds": round(whole / ours, 1)},
    ]  # fmt: skip


def small_rows(rate: float) -> list[dict[str, Any]]:
    """Iterations a second where the launches cost more than the work: 129 x 586, r = 10."""
    rows = []
    X, A, B = problem(129, 586, 10)
    cases: dict[str, dict[str, Any]] = {
        "DRNMF, mu": {"update": "mu"},
        "DRNMF, extrapolated, frank-wolfe": {"update": "extrapolated", "policy": "frank-wolfe"},
        "DRNMF, default": {},
    }
    for estimator, options in cases.items():
        solver = Solver(references=(3e4, 3e4), normalize=False, **options)
        common = {"betas": BETAS, "init": "custom", "tol": 0, "solver": solver}
        seconds = []
        for count in (200, 200, 2200):
            began = time.perf_counter()
            model = DRNMF(10, max_iter=count, **common).fit(X, W=A.T.contiguous(), H=B)
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - began)
        rate_here = 2000 / (seconds[2] - seconds[1])
        rows.append(
            {"fit": estimator, "iterations_a_second": round(rate_here), "sweeps_an_iteration":
             round(float(model.trace_.sweeps[-1]) / 2200, 2)}
        )  # fmt: skip
    return rows


def batch_rows(rate: float) -> list[dict[str, Any]]:
    """Starts of a small X, 96 x 540, r = 23, beta = 0.5: one after another, and all of them at once."""
    rows, rng = [], np.random.default_rng(0)
    level = 20 * rng.gamma(0.5, 1.0, (96, 23)) @ rng.gamma(0.5, 1.0, (23, 540))
    counts = rng.poisson(level) + 1e-2
    for dtype in (torch.float32, torch.float64):
        X = torch.as_tensor(counts, device=CARD).to(dtype)
        for tol, most in ((0.0, 200), (1e-6, 1000)):
            common: dict[str, Any] = {"beta": 0.5, "init": "random", "max_iter": most, "tol": tol, "random_state": 0}
            for starts in (1, 20, 100):
                done: list[int] = []

                def count(progress: Any, done: list[int] = done) -> None:
                    done.append(progress.iteration)

                model = BetaNMF(23, n_init=starts, solver=Solver(callback=count), **common)
                BetaNMF(23, n_init=starts, **{**common, "max_iter": 40}).fit(X)  # compiled, and warm
                torch.cuda.synchronize()
                began = time.perf_counter()
                model.fit(X)
                torch.cuda.synchronize()
                seconds = time.perf_counter() - began
                rows.append(
                    {"X": str(dtype).removeprefix("torch."), "tol": tol, "starts": starts, "seconds": round(seconds, 3),
                     "iterations": len(done), "iterations_a_second": round(len(done) / seconds)}
                )  # fmt: skip
            for row in rows[-3:]:
                row["over_one_by_one"] = round(row["iterations_a_second"] / rows[-3]["iterations_a_second"], 1)
    return rows


def sparse_rows(rate: float) -> list[dict[str, Any]]:
    """newsgroups20_bydate stacked 20 times, r = 20, KL and Frobenius with both losses."""
    folder = os.environ.get("DRNMF_DATA")
    if not folder:
        print("sparse: set DRNMF_DATA to the folder of data sets")
        return []
    small = sp.csr_array(sp.load_npz(Path(folder) / "documents" / "newsgroups20_bydate.npz")).astype(np.float32)
    X = sp.vstack([small] * 20, format="csr")
    r, (m, n) = 20, X.shape
    rng = np.random.default_rng(0)
    A, B = (rng.random((r, k)).astype(np.float32) + 0.01 for k in (m, n))
    data = TorchSparse.of(X, device=CARD)
    there = {"H": (data, data.space.put(A), data.space.put(B)), "W": (data.T, data.space.put(B), data.space.put(A))}
    rows = []
    for side, (view, other, own) in there.items():
        ms = milliseconds(lambda: view.sweep(other.T, own, Ask((KL, FROBENIUS))))  # noqa: B023
        least = X.nnz * 8 + (other.numel() + own.numel() * 5) * 4
        gathered = X.nnz * 32 * 4
        rows.append(
            {"side": side, "where": "card", "ms": round(ms, 2), "least_bytes_share": round(least / ms / 1e9 / rate, 3),
             "gathered_TB_s": round(gathered / ms / 1e9, 2), "core_over_card": ""}
        )  # fmt: skip
    try:
        from drnmf import _core
    except ImportError as error:
        print(f"no compiled core here: {error}")
        return rows
    for threads in (2, os.cpu_count() or 1):
        _core.set_num_threads(threads)
        core = open_data(X, "native")
        for i, (view, other, own) in enumerate(((core, A, B), (core.T, B, A))):
            seconds = []
            for _ in range(2):
                began = time.perf_counter()
                view.sweep(other.T, own, Ask((KL, FROBENIUS)))
                seconds.append(time.perf_counter() - began)
            rows.append(
                {"side": "HW"[i], "where": f"core, {threads} threads", "ms": round(min(seconds) * 1e3, 1),
                 "core_over_card": round(min(seconds) * 1e3 / rows[i]["ms"], 1)}
            )  # fmt: skip
    return rows


def streamed_rows(rate: float) -> list[dict[str, Any]]:
    """X kept in host memory: bound by the way to the card, which a pinned copy measures."""
    X, A, B = problem(4096, 65536, 16)
    host = X.cpu()
    pinned = torch.empty(1 << 26, pin_memory=True)
    there = torch.empty_like(pinned, device=CARD)
    link = pinned.numel() * 4 / milliseconds(lambda: there.copy_(pinned, non_blocking=True)) / 1e6
    data = TorchStreamed.of(host, CARD, 1.0)
    rows = []
    for side, (view, other, own) in sides(data, A, B).items():
        ms = milliseconds(lambda: view.sweep(other.T, own, Ask(OMEGA)), 5)  # noqa: B023
        reached = host.numel() * 4 / ms / 1e6
        rows.append(
            {"side": side, "ms": round(ms, 1), "GB_s": round(reached, 1), "pinned_copy_GB_s": round(link, 1),
             "share_of_link": round(reached / link, 2)}
        )  # fmt: skip
    return rows


SECTIONS: dict[str, Callable[[float], list[dict[str, Any]]]] = {
    "sweep": sweep_rows,
    "peers": peer_rows,
    "errors": error_rows,
    "fits": fit_rows,
    "values": value_rows,
    "compile": compile_rows,
    "small": small_rows,
    "batch": batch_rows,
    "sparse": sparse_rows,
    "streamed": streamed_rows,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", default=list(SECTIONS), metavar="section")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("This benchmark needs a CUDA card.")
    rate = copy_rate()
    stamp = {
        "date": datetime.date.today().isoformat(), "card": torch.cuda.get_device_name(), "copy_TB_s": round(rate, 2),
        "torch": torch.__version__, "triton": triton.__version__, "python": platform.python_version(),
    }  # fmt: skip
    print(stamp, flush=True)
    for name in options.sections:
        began = time.perf_counter()
        rows = SECTIONS[name](rate)
        torch.cuda.empty_cache()
        print(f"\n{name} ({time.perf_counter() - began:.0f} s)")
        for row in rows:
            print("  ".join(f"{key}={value}" for key, value in row.items() if value != ""), flush=True)
        if rows:
            with (options.out / f"gpu-{name}.csv").open("w", newline="") as file:
                writer = csv.DictWriter(file, fieldnames=[*rows[0], *stamp], restval="", lineterminator="\n")
                writer.writeheader()
                writer.writerows({**row, **stamp} for row in rows)


if __name__ == "__main__":
    main()
