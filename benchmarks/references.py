"""Are the references good, do default fits end where they stand still, and which start is best?

For every table and loss: the loss of a default fit beside that of a run 20 times longer from the same start; the
reference that a default DR-NMF fit uses beside the best of many long runs; and where long runs from each kind of start
end. Losses are compared, never seconds, so a busy machine does no harm unless --seconds cuts runs off; a "longer" run
that was is left out of the summary. Rows are kept in references.csv, table by
table, so that a long measurement may be made in pieces:

    DRNMF_DATA=... python benchmarks/references.py --only wine digits
    python benchmarks/references.py --summary
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from harness import read_csv, write_csv
from sklearn.exceptions import ConvergenceWarning
from tables import tables

from drnmf import DRNMF, BetaNMF

TABLE = "references"
LONGER = 20
RANKS = {"SBS_set1.Realistic": 23, "wine": 5, "breast cancer": 5, "rank5 Poisson": 5, "tr11": 9, "tr23": 6}
LARGE = ("classic", "newsgroups3_politics", "hitech", "la1", "reviews", "PCAWG.96", "Samson", "faces-like")
"""Too large for this many long runs: measured where they are named."""

Row = dict[str, Any]


def rank_of(name: str, X: Any) -> int:
    """Choose a rank as a user might: ten, less where X has few columns."""
    return min(RANKS.get(name, 10), min(X.shape) - 1)


def losses_for(X: Any) -> tuple[int, ...]:
    """Leave out Itakura-Saito where X has zeros."""
    return (0, 1, 2) if not hasattr(X, "nnz") and np.nanmin(X) > 0 else (1, 2)


def fitted(X: Any, rank: int, beta: float, init: str, seed: int, seconds: float | None, **given: Any) -> BetaNMF:
    """Fit one loss alone, from one start."""
    return BetaNMF(rank, beta=beta, init=init, random_state=seed, max_time=seconds, **given).fit(X)


def ratio(value: float, best: float) -> float:
    """Divide two losses; both are zero where a table has the rank exactly."""
    return value / best if best > 0 else 1.0


def measure(name: str, X: Any, starts: int, seconds: float | None) -> list[Row]:
    """Measure one table: a row per loss."""
    rank, betas, rows = rank_of(name, X), losses_for(X), list[Row]()
    references = DRNMF(rank, betas=betas, random_state=0).fit(X).references_
    long = {"max_iter": 20_000, "tol": 1e-7}
    for beta, reference in zip(betas, references, strict=True):
        default = BetaNMF(rank, beta=beta, random_state=0).fit(X)
        longer = fitted(
            X,
            rank,
            beta,
            "auto",
            0,
            None if seconds is None else 10 * seconds,
            tol=0,
            max_iter=LONGER * default.n_iter_,
        )
        ends = {init: fitted(X, rank, beta, init, 0, seconds, **long).losses_[0] for init in ("nndsvdar", "spa")}
        random = [fitted(X, rank, beta, "random", seed, seconds, **long).losses_[0] for seed in range(starts)]
        best = min(*random, *ends.values(), longer.losses_[0], default.losses_[0])
        rows.append(
            {
                "table": name, "rows": X.shape[0], "columns": X.shape[1], "rank": rank, "beta": beta, "starts": starts,
                "iterations": default.n_iter_, "longer_iterations": longer.n_iter_,
                "default_over_longer": ratio(default.losses_[0], longer.losses_[0]),
                "reference_over_best": ratio(reference, best), "default_over_best": ratio(default.losses_[0], best),
                "random_median_over_best": ratio(float(np.median(random)), best),
                "random_worst_over_best": ratio(max(random), best),
            } | {f"{init}_over_best": ratio(value, best) for init, value in ends.items()}
        )  # fmt: skip
    return rows


def summarise(rows: list[Row]) -> None:
    """Print the median and the worst of every ratio."""
    print(f"{len(rows)} pairs of table and loss")
    for name in (name for name in rows[0] if name.endswith(("_over_best", "_over_longer"))):
        whole = [row for row in rows if int(row["longer_iterations"]) >= LONGER * int(row["iterations"])]
        values = np.array([float(row[name]) for row in (whole if name.endswith("_over_longer") else rows)])
        median, high = np.quantile(values, (0.5, 0.9))
        print(f"{name:28s} {len(values):3d} median {median:.4f}  90 % {high:.4f}  worst {values.max():.4f}")


def main() -> None:
    """Measure the tables asked for, and print the summary of all measured so far."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", help="names of tables")
    parser.add_argument("--list", action="store_true", help="print the names of the tables, and measure nothing")
    parser.add_argument("--starts", type=int, default=20, help="long runs from random starts")
    parser.add_argument("--seconds", type=float, help="most seconds of a long run; ten times that of a longer one")
    parser.add_argument("--summary", action="store_true", help="measure nothing")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    if asked.list:
        print("\n".join(name for name, _ in tables(more=True)))
        return
    for name, X in [] if asked.summary else tables(asked.only, more=True):
        if name in LARGE and not asked.only:
            continue
        measured = measure(name, X, asked.starts, asked.seconds)
        write_csv(TABLE, [row for row in read_csv(TABLE) if row["table"] != name] + measured)
        print(
            name, [f"{row['default_over_longer']:.4f} {row['reference_over_best']:.4f}" for row in measured], flush=True
        )
    summarise(read_csv(TABLE))


if __name__ == "__main__":
    main()
