"""drnmf demo: every loss alone against all at once, on the paper's synthetic data."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from drnmf.cli import results
from drnmf.cli.common import (
    Out,
    Overwrite,
    Quiet,
    Seed,
    Threads,
    check_out,
    console,
    limit_threads,
    output_folder,
    reports_errors,
)  # fmt: skip

if TYPE_CHECKING:
    from drnmf.pareto import ParetoFront

BETAS = (0.0, 1.0, 2.0)
SHAPE, RANK, NOISE, ITERATIONS = (200, 200), 10, 0.2, 500


@reports_errors
def demo(
    out: Out = Path("drnmf-demo"),
    overwrite: Overwrite = False,
    seed: Seed = 0,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """NMF under one loss against all three at once, on data with three noises mixed (section 5.1 of the paper).

    Prints how far each is above the best of every loss and leaves a folder with the table and a figure.
    """
    check_out(out, overwrite)
    limit_threads(threads)
    import numpy as np

    from drnmf import figures
    from drnmf.pareto import pareto_front
    from drnmf.synthetic import synthetic

    started = time.perf_counter()
    data = synthetic(BETAS, SHAPE, RANK, NOISE, random_state=seed)
    settings: dict[str, Any] = {"betas": BETAS, "max_iter": ITERATIONS, "tol": 0, "zeros": "floor"}
    front = pareto_front(
        data.X, RANK, weights=np.eye(len(BETAS)), init="custom", W=data.W, H=data.H, return_factors=True,
        verbose=int(not quiet), **settings,
    )  # fmt: skip
    seconds = time.perf_counter() - started
    rows = table_rows(front)
    with output_folder(out, overwrite) as folder:
        np.save(folder / "X.npy", data.X)
        np.save(folder / "W.npy", front.dr.W)  # type: ignore[arg-type]
        np.save(folder / "H.npy", front.dr.H)  # type: ignore[arg-type]
        results.write_table(folder / "table.csv", rows)
        drawn = figures.try_to_draw(figures.draw_excess, rows, folder, "figure")
        results.write_summary(
            folder,
            {
                "data": {"recipe": "section 5.1", "shape": SHAPE, "rank": RANK, "noise": NOISE, "noises": BETAS},
                "parameters": {"n_components": RANK, "init": "the true factors", **settings},
                "seed": seed,
                "threads": threads,
                "seconds": round(seconds, 3),
                "references": results.per_beta(BETAS, front.references),
                "weights": results.per_beta(BETAS, front.dr.weights),
                "scaled_losses": results.per_beta(BETAS, front.dr.scaled_losses),
                "percent_above_best": rows,
                "notes": front.notes,
            },
        )
    console.print(_table(rows))
    if not drawn:
        console.print(figures.HOW_TO_GET, markup=False, highlight=False, soft_wrap=True)
    console.print(f"{seconds:.1f} s; results in {out}", highlight=False, soft_wrap=True)


def table_rows(front: ParetoFront) -> list[dict[str, Any]]:
    """Percent above the best of each loss, 100 (Dbar_beta - 1), for every single-objective fit and for DR-NMF."""
    from drnmf.divergence import label

    names = [*(f"{label(beta)}-NMF" for beta in front.betas), "DR-NMF"]
    rows = []
    for name, point in zip(names, (*front.points, front.dr), strict=True):
        excess = [100 * (float(value) - 1) for value in point.scaled_losses]
        row: dict[str, Any] = {"method": name}
        row |= {label(beta): value for beta, value in zip(front.betas, excess, strict=True)}
        rows.append(row | {"worst": max(excess)})
    return rows


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="Percent above the best of each loss")
    for name in rows[0]:
        table.add_column(name, justify="left" if name == "method" else "right")
    for row in rows:
        cells = [value if isinstance(value, str) else f"{round(value, 2) + 0.0:.2f}" for value in row.values()]
        table.add_row(*cells, style="bold green" if row["method"] == "DR-NMF" else None)
    return table
