"""`drnmf.sklearn.NMF` beside `sklearn.decomposition.NMF`: the same settings, the same start.

    DRNMF_DATA=... OMP_NUM_THREADS=1 python benchmarks/sklearn_drop_in.py [--most 80000] [--only NAME ...]

With --batches it is MiniBatchNMF on newsgroups20_bydate, r = 20, three seeds, looked at after some batches.
Tables of tables.py with r = 5, 20 and 40 components, scikit-learn's defaults and ``solver="mu"`` with Kullback-Leibler
and Itakura-Saito (which X without zeros alone has). Both begin at scikit-learn's start, made before the clock starts.
Processor time of one thread until scikit-learn's last loss is reached, infinite where it is not, beside that of
scikit-learn's whole fit, and the last loss over scikit-learn's. The trace of a fit says how many iterations that takes,
and the clock is that of a fit which ends after so many: of the engine alone ("to its loss"), and of
`non_negative_factorization` on both sides ("whole call"). Medians of three rounds in turn where scikit-learn takes less
than a tenth of a second. Written to results/sklearn-drop-in.csv.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp
from harness import DATA, print_table, write_csv
from sklearn import decomposition
from stream import loss_of, with_components
from tables import tables
from threadpoolctl import threadpool_limits

from drnmf.backends.base import losses_of
from drnmf.backends.open import open_data
from drnmf.losses.beta import Beta
from drnmf.sklearn import NMF, MiniBatchNMF, engine, non_negative_factorization
from drnmf.sklearn.engine import Settings, factorise
from drnmf.solve.solve import solve

RANKS = (5, 20, 40)
CASES = {"defaults": ("cd", 2.0), "mu, KL": ("mu", 1.0), "mu, IS": ("mu", 0.0)}
NEAR = 1.01
ROUNDS, SHORT = 3, 0.1


def loss(X: Any, W: Any, H: Any, beta: float) -> float:
    """Compute D_beta of given factors, the same for both."""
    return float(losses_of(open_data(X), W, H, (Beta(beta),))[0])


def compared(X: Any, rank: int, solver: str, beta: float) -> dict[str, float]:
    """Fit both from the same start, a few times in turn where a fit is short."""
    model = NMF(rank, solver=solver, beta_loss=beta, random_state=0)
    model._checked(X)
    W, H = model._check_w_h(X, None, None, True)
    settings: dict[str, Any] = {"n_components": rank, "init": "custom", "solver": solver, "beta_loss": beta}
    found: list[dict[str, float]] = []
    while len(found) < ROUNDS and (not found or found[0]["scikit-learn, s"] < SHORT):
        found.append(one_round(X, W, H, settings))
    last = found[-1] | {key: float(np.median([row[key] for row in found])) for key in found[0] if key.endswith(", s")}
    return last | {
        "times faster": last["scikit-learn, s"] / last["to its loss, s"],
        "times faster, whole call": last["scikit-learn, s"] / last["call that ends there, s"],
    }


def one_round(X: Any, W: Any, H: Any, settings: dict[str, Any]) -> dict[str, float]:
    solver, beta = settings["solver"], settings["beta_loss"]
    begun = time.process_time()
    theirs = decomposition.non_negative_factorization(X, W.copy(), H.copy(), **settings)
    spent = time.process_time() - begun
    aim = loss(X, theirs[0], theirs[1], beta)
    begun = time.process_time()
    found = factorise(X, W, H, Settings(beta, solver=solver))
    whole = time.process_time() - begun
    reached = first_below(aim, X, W, H, Settings(beta, solver=solver))
    to_it = call = math.inf
    if reached is not None:
        begun = time.process_time()
        factorise(X, W, H, Settings(beta, solver=solver, max_iter=reached))
        to_it = time.process_time() - begun
        begun = time.process_time()
        non_negative_factorization(X, W.copy(), H.copy(), max_iter=reached, **settings)
        call = time.process_time() - begun
    return {
        "scikit-learn, s": spent, "to its loss, s": to_it, "call that ends there, s": call,
        "whole fit, s": whole, "loss over its": loss(X, found.W, found.H, beta) / aim,
        "iterations": found.n_iter, "its iterations": theirs[2],
    }  # fmt: skip


def first_below(aim: float, X: Any, W: Any, H: Any, settings: Settings) -> int | None:
    """Count the iterations after which a fit is as low as `aim`; None where it never is."""
    traces: list[Any] = []

    def solved(problems: Any, *args: Any, **how: Any) -> Any:
        runs = solve(problems, *args, **how)
        traces.append(problems[0].back(runs[0]).trace)
        return runs

    with patch.object(engine, "solve", solved):
        factorise(X, W, H, settings)
    return next((k for k, value in enumerate(traces[0].losses[:, 0]) if k and value <= aim), None)


def rows(only: list[str] | None, most: int, cases: list[str]) -> Iterator[dict[str, Any]]:
    for name, X in tables(only):
        X = X if sp.issparse(X) else np.ascontiguousarray(X, dtype=np.float64)
        dense = X.shape[0] * X.shape[1]
        if (X.nnz if sp.issparse(X) else X.size) > most or (not sp.issparse(X) and np.isnan(X).any()):
            continue
        for rank in (rank for rank in RANKS if rank <= min(X.shape)):
            for case, (solver, beta) in CASES.items():
                if case not in cases or (beta <= 0 and (sp.issparse(X) or X.min() == 0 or dense > most)):
                    continue
                row = {"X": name, "r": rank, "case": case, **compared(X, rank, solver, beta)}
                print(row, flush=True)  # a list of hours says how far it is
                yield row


def course_of(kind: type, X: Any, settings: dict[str, Any]) -> list[tuple[float, Any]]:
    """Fit a MiniBatchNMF; seconds and components after every batch, from the first, when its start is made, on."""
    course, begun = list[tuple[float, Any]](), list[float]()

    class Noted(kind):  # type: ignore[misc, valid-type]
        def _minibatch_step(self, X: Any, W: Any, H: Any, update_H: bool) -> Any:
            begun.append(time.process_time())
            cost = super()._minibatch_step(X, W, H, update_H)
            spent = course[-1][0] if course else 0.0
            course.append((spent + time.process_time() - begun[-1], H.copy()))
            return cost

    Noted(**settings).fit(X)
    return course


def batches(seed: int = 0, rank: int = 20) -> Iterator[dict[str, Any]]:
    """MiniBatchNMF at scikit-learn's defaults: seconds to the loss of its last components, W of all rows found anew.

    The start is scikit-learn's own on both sides, and outside of the clock: under Frobenius it is most of its call.
    """
    assert DATA is not None, "set DRNMF_DATA"
    X = sp.csr_matrix(sp.load_npz(DATA / "documents" / "newsgroups20_bydate.npz")).astype(float)
    X = X[np.random.RandomState(seed).permutation(X.shape[0])]
    for name, beta in (("Frobenius", 2.0), ("KL", 1.0)):
        settings: dict[str, Any] = {"n_components": rank, "beta_loss": beta, "random_state": seed}
        theirs = course_of(decomposition.MiniBatchNMF, X, settings)
        ours = course_of(MiniBatchNMF, X, settings | {"max_iter": 3})
        aim = float(loss_of(with_components(theirs[-1][1], beta, X), X)[0])
        looks = (k for k in (1, 2, 3, 4, 5, 7, 9, 12, 15, 17, 19, 24, 31, 38, 57) if k <= len(ours))
        reached = next((k for k in looks if loss_of(with_components(ours[k - 1][1], beta, X), X)[0] <= aim), None)
        seconds = math.inf if reached is None else ours[reached - 1][0]
        yield {"X": "newsgroups20_bydate", "seed": seed, "loss": name, "scikit-learn, s": theirs[-1][0],
               "its batches": len(theirs), "batches": reached, "to its loss, s": seconds,
               "times faster": theirs[-1][0] / seconds}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", help="names of tables")
    parser.add_argument("--most", type=int, default=10**7, help="entries of X that are counted, at most")
    parser.add_argument("--case", nargs="*", choices=CASES, default=list(CASES), help="settings that are compared")
    parser.add_argument("--batches", action="store_true", help="MiniBatchNMF on newsgroups20_bydate instead")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.batches:
        with threadpool_limits(1):
            print_table([row for seed in range(3) for row in batches(seed)])
        return
    with threadpool_limits(1):
        found = list(rows(asked.only, asked.most, asked.case))
    write_csv("sklearn-drop-in", found)
    summary = []
    for case in CASES:
        some = [row for row in found if row["case"] == case]
        if some:
            faster, call, over = (
                [row[key] for row in some] for key in ("times faster", "times faster, whole call", "loss over its")
            )
            summary.append(
                {"case": case, "rows": len(some), "times faster, median": float(np.median(faster)),
                 "whole call": float(np.median(call)),
                 "reached": sum(value > 0 for value in faster) / len(some),
                 "within 1 %": sum(value <= NEAR for value in over) / len(some), "worst": max(over)}
            )  # fmt: skip
    print_table(found)
    print_table(summary)


if __name__ == "__main__":
    main()
