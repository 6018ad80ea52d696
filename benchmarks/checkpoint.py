"""What a checkpoint costs: bytes, milliseconds, and the distance to writing the same bytes and nothing else.

    python benchmarks/checkpoint.py [FOLDER]

writes results/checkpoint.csv. Checkpoints go to FOLDER (default: a temporary one), whose disk is what is measured.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from harness import machine, print_table, write_csv

from drnmf.algorithms.loop import Control, solve
from drnmf.algorithms.updates import RULES
from drnmf.algorithms.weights import POLICIES
from drnmf.backends.open import open_data
from drnmf.losses.beta import IS, KL
from drnmf.objective.objective import Objective
from drnmf.storage.checkpoint import Checkpoint

ROUNDS = 15
EVERY = 30.0  # seconds, the default
CASES = ((512, 6200, 10, "float64"), (2000, 5000, 20, "float64"), (20_000, 5000, 20, "float32"))


class Timed(Checkpoint):
    """A checkpoint that notes how long its snapshots take, and beside each how long the bytes alone do."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.writes: list[float] = []
        self.floors: list[float] = []
        self.bytes = 0

    def _write_state(self) -> None:
        began = time.perf_counter()
        super()._write_state()
        self.writes.append(time.perf_counter() - began)
        content = self._states[-1].read_bytes()
        self.bytes = len(content)
        began = time.perf_counter()
        with open(self.folder / "floor", "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        self.floors.append(time.perf_counter() - began)
        (self.folder / "floor").unlink()


def measure(m: int, n: int, r: int, dtype: str, folder: Path) -> dict[str, object]:
    rng = np.random.default_rng(0)
    X = (rng.standard_gamma(1.0, (m, n), dtype=np.float32) + 1e-3).astype(dtype)
    data = open_data(X)
    W, H = (rng.random(shape).astype(dtype) + 0.1 for shape in ((m, r), (r, n)))
    objective = Objective((IS, KL), np.ones(2), data.mean)
    with Timed(folder / f"{m}x{n}", 0.0, data, {}) as keeper:
        keeper.starts(lambda: [(W, H)])
        control = Control(max_iter=RULES["auto"].delay + ROUNDS, tol=0, keeper=keeper)
        solve(data, W, H, objective, RULES["auto"], POLICIES["auto"], control)
    write, floor = (float(np.median(times[-ROUNDS + 1 :])) for times in (keeper.writes, keeper.floors))
    return {
        "X": f"{m} x {n} {dtype}", "r": r, "MB": round(keeper.bytes / 1e6, 2), "write_ms": round(1e3 * write, 1),
        "write_and_flush_alone_ms": round(1e3 * floor, 1), "times_that": round(write / floor, 2),
        "percent_of_30_s": round(100 * write / EVERY, 3),
    }  # fmt: skip


def idle() -> float:
    """Microseconds that an iteration pays where no checkpoint is due."""
    rng = np.random.default_rng(0)
    data = open_data(rng.random((20, 10)) + 0.1)
    with tempfile.TemporaryDirectory() as name, Checkpoint(name, 1e9, data, {}) as keeper:
        starts = keeper.starts(lambda: [(rng.random((20, 2)) + 0.1, rng.random((2, 10)) + 0.1)])
        offers: list[float] = []
        offer = keeper.offer

        def timed(snapshot: Any) -> None:
            began = time.perf_counter()
            offer(snapshot)
            offers.append(time.perf_counter() - began)

        keeper.offer = timed  # type: ignore[method-assign]
        objective = Objective((IS, KL), np.ones(2), data.mean)
        solve(data, *starts[0], objective, RULES["auto"], POLICIES["auto"], Control(1000, 0.0, keeper=keeper))
    return 1e6 * float(np.median(offers))


def main() -> None:
    print(machine())
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        rows = [measure(*case, Path(folder)) for case in CASES]
    print_table(rows)
    write_csv("checkpoint", rows)
    print(f"An iteration without a checkpoint pays {idle():.1f} microseconds.")


if __name__ == "__main__":
    main()
