"""A picture of one iteration as Dask's dashboard draws it: docs/images/dask-iteration.png.

    python benchmarks/task_graph.py [CHROMIUM]

Four blocks on two workers. The graph is the dashboard's own page; what a run would release at once is held for it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from playwright.sync_api import sync_playwright

from drnmf import DRNMF, Solver
from drnmf.backends.dask import cluster

TARGET = Path(__file__).parents[1] / "docs" / "images" / "dask-iteration.png"


def main(chromium: str | None) -> None:
    held: list[Any] = []
    run = cluster.run

    def run_and_hold(stays: Any, answer: Any) -> Any:
        (kept,) = dask.persist(answer)  # shares and sums, which nobody needs once they are here
        held[:] = [kept]
        return run(stays, kept)

    def picture(progress: Any) -> bool:
        time.sleep(3)  # the page follows the scheduler
        with sync_playwright() as browser:
            page = browser.chromium.launch(executable_path=chromium).new_page(viewport={"width": 1200, "height": 700})
            page.goto(f"http://127.0.0.1:{port}/individual-graph")
            page.wait_for_timeout(5000)
            page.screenshot(path=str(TARGET))
        return True

    cluster.SMALL = 0  # as in a large problem: H is a task of its own, and sums go in pairs
    X = da.from_array(np.random.default_rng(0).random((400, 50)) + 0.1, chunks=(100, -1))
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as processes,
        Client(processes) as client,
    ):
        port = client.scheduler_info()["services"]["dashboard"]
        cluster.run = run_and_hold
        DRNMF(
            3, betas=(0, 1), max_iter=1, tol=0, random_state=0, solver=Solver(references=(1.0, 1.0), callback=picture)
        ).fit(X)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
