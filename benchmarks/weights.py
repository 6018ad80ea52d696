"""What weights, gaps and held-out entries cost: CPU time of one thread, beside the same sweep without them.

    python benchmarks/weights.py

writes results/weights.csv. float32, r = 20; dense: 2000 x 5000; sparse: 20000 x 10000 with half a percent stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from harness import interleaved, print_table, write_csv
from threadpoolctl import threadpool_limits

from drnmf.backends.base import Ask, Data
from drnmf.backends.observed import Entries, HeldOut, Outer, Stored, weigh
from drnmf.backends.open import open_data
from drnmf.losses.base import Omega
from drnmf.losses.beta import FROBENIUS, IS, KL

R = 20
Row = dict[str, object]


def factors(m: int, n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    return rng.random((R, m)).astype(np.float32).T, rng.random((R, n)).astype(np.float32)


def dense() -> dict[str, Data]:
    """X with a tenth of its entries missing in several ways."""
    rng = np.random.default_rng(0)
    X = (rng.gamma(1.0, 1.0, (2000, 5000)) + 1e-3).astype(np.float32)
    gaps, weights = np.where(rng.random(X.shape) < 0.1, np.float32(np.nan), X), rng.random(X.shape).astype(np.float32)
    data = open_data(X)
    return {
        "none": data,
        "NaN": weigh(open_data(gaps), None),
        "every entry": weigh(data, Entries(weights)),
        "rows x columns": weigh(data, Outer(weights[:, 0], weights[0])),
        "held out": weigh(data, HeldOut(0.1)),
    }


def sparse() -> dict[str, Data]:
    """The same for sparse X."""
    rng = np.random.default_rng(0)
    X = sp.random_array((20000, 10000), density=0.005, rng=rng, format="csr", dtype=np.float32)
    data = open_data(X)
    return {
        "none": data,
        "stored entries": weigh(data, Stored.of(X)),
        "rows x columns": weigh(data, Outer(rng.random(20000), rng.random(10000))),
        "held out": weigh(data, HeldOut(0.1)),
    }


def timed(layout: str, datas: dict[str, Data], omega: Omega, named: str) -> list[Row]:
    """One row for every kind of weights; the ratio is to the sweep without."""
    W, H = factors(*datas["none"].shape)
    ask = Ask(omega, np.full(len(omega), 1.0 / len(omega)))
    cases: dict[str, Callable[[], object]] = {name: partial(data.sweep, W, H, ask) for name, data in datas.items()}
    found = interleaved(cases, rounds=9, now=time.thread_time)
    return [
        {
            "X": layout,
            "losses": named,
            "weights": name,
            "milliseconds": round(1e3 * timing.median, 2),
            "ratio": round(timing.median / found["none"].median, 2),
        }
        for name, timing in found.items()
    ]


def main() -> None:
    with threadpool_limits(1):
        rows = timed("dense", filled := dense(), (IS, KL), "IS KL") + timed("dense", filled, (FROBENIUS,), "Fro")
        rows += timed("sparse", few := sparse(), (KL,), "KL") + timed("sparse", few, (FROBENIUS,), "Fro")
        stored = {"none": few["none"], "stored entries": few["stored entries"]}
        W, H = factors(*few["none"].shape)
        cases: dict[str, Callable[[], object]] = {
            "KL": partial(stored["none"].sweep, W, H, Ask((KL,))),
            "IS": partial(stored["stored entries"].sweep, W, H, Ask((IS,))),
        }
        found = interleaved(cases, rounds=9, now=time.thread_time)
    ratio = found["IS"].median / found["KL"].median
    rows.append(
        {
            "X": "sparse",
            "losses": "IS (beside KL)",
            "weights": "stored entries",
            "milliseconds": round(1e3 * found["IS"].median, 2),
            "ratio": round(ratio, 2),
        }
    )
    print_table(rows)
    write_csv("weights", rows)


if __name__ == "__main__":
    main()
