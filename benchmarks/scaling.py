"""How the time of a sweep grows with m, n, r and the number of non-zeros: straight lines on a log plot.

    python benchmarks/scaling.py [--render]

writes results/scaling.csv and results/scaling.png; --render draws the figure from the CSV alone.
Times are CPU seconds of one thread (minimum over rounds), so that a busy machine does not bend the lines.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from harness import RESULTS, write_csv

from drnmf.backends.base import Ask
from drnmf.backends.host.threads import set_num_threads
from drnmf.backends.open import open_data
from drnmf.losses.names import as_losses

ROUNDS = 5
AXES: dict[str, tuple[int, ...]] = {
    "m": (125, 250, 500, 1000, 2000, 4000),
    "n": (250, 500, 1000, 2000, 4000, 8000),
    "r": (5, 10, 20, 40, 80, 160),
    "nnz": (25_000, 50_000, 100_000, 200_000, 400_000, 800_000),
}
BETAS = {"IS+KL float32": ((0.0, 1.0), "float32"), "KL float64": ((1.0,), "float64")}


def cpu_seconds(case: Callable[[], object]) -> float:
    case()
    best = np.inf
    for _ in range(ROUNDS):
        start = time.thread_time()
        case()
        best = min(best, time.thread_time() - start)
    return float(best)


def sweep_of(X: object, r: int, betas: tuple[float, ...]) -> Callable[[], object]:
    data, rng = open_data(X), np.random.default_rng(1)
    m, n = data.shape
    A, B = rng.random((r, m)).astype(data.dtype), rng.random((r, n)).astype(data.dtype)
    return lambda: data.sweep(A.T, B, Ask(as_losses(betas)))


def measure() -> list[dict[str, object]]:
    rng, rows = np.random.default_rng(0), []
    set_num_threads(1)
    for axis, values in AXES.items():
        for value in values:
            if axis == "nnz":
                X = sp.random_array((5000, 10_000), density=value / 5e7, rng=rng, dtype=np.float64)
                for name, betas in (("KL float64, sparse", (1.0,)), ("KL+Fro float64, sparse", (1.0, 2.0))):
                    seconds = cpu_seconds(sweep_of(X, 20, betas))
                    rows.append({"axis": axis, "value": value, "work": name, "seconds": seconds})
                continue
            size = {"m": 500, "n": 2000, "r": 10} | {axis: value}
            for name, (betas, dtype) in BETAS.items():
                X = (rng.gamma(1.0, 1.0, (size["m"], size["n"])) + 1e-3).astype(dtype)
                seconds = cpu_seconds(sweep_of(X, size["r"], betas))
                rows.append({"axis": axis, "value": value, "work": name, "seconds": seconds})
    return rows


def render() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    with (RESULTS / "scaling.csv").open() as file:
        rows = list(csv.DictReader(file))
    figure, panels = plt.subplots(1, len(AXES), figsize=(11, 2.9), sharey=True, layout="constrained")
    fixed = {"m": "n = 2000, r = 10", "n": "m = 500, r = 10", "r": "500 x 2000", "nnz": "5000 x 10000, r = 20"}
    for panel, axis in zip(panels, AXES, strict=True):
        for work in dict.fromkeys(row["work"] for row in rows if row["axis"] == axis):
            line = [row for row in rows if row["axis"] == axis and row["work"] == work]
            x, y = [float(row["value"]) for row in line], [1e3 * float(row["seconds"]) for row in line]
            slope = np.polyfit(np.log(x[2:]), np.log(y[2:]), 1)[0]
            panel.loglog(x, y, "o-", markersize=3, label=f"{work} (slope {slope:.2f})")
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.set_xlabel(axis)
        panel.set_title(fixed[axis], fontsize=8)
        panel.legend(fontsize=6)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("ms per sweep, one thread")
    figure.savefig(RESULTS / "scaling.png", dpi=110)


if __name__ == "__main__":
    if "--render" not in sys.argv:
        print(write_csv("scaling", measure()))
    render()
