"""The compiled core against the released torchnmf and nn-fac on the CPU, per iteration of multiplicative updates.

    python benchmarks/other_peers.py

writes results/native-other-peers.csv. Neither is a dependency: `pip install torch torchnmf nn-fac`, and rows of a
package that does not import or does not run are left out with a note.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import machine, print_table, write_csv
from native import DENSE, F32, F64, Row, compare, dense_x, ours


def torchnmf(X: np.ndarray, r: int, beta: float) -> Callable[[int], object]:
    """torchnmf.nmf.NMF on all threads; it looks at the loss every ten iterations."""
    torch, models = importlib.import_module("torch"), importlib.import_module("torchnmf.nmf")
    V = torch.from_numpy(X)

    def fit(k: int) -> object:
        torch.manual_seed(0)
        model = models.NMF(X.shape, rank=r).to(V.dtype)
        return model.fit(V, beta=beta, tol=float("-inf"), max_iter=k)

    return fit


def nn_fac(X: np.ndarray, r: int, beta: float) -> Callable[[int], object]:
    """nn_fac.nmf with update_rule="mu"; it computes the loss after every iteration."""
    factorize: Any = importlib.import_module("nn_fac.nmf").nmf

    def fit(k: int) -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return factorize(X, r, update_rule="mu", beta=beta, n_iter_max=k, tol=0.0, deterministic=True)

    return fit


PEERS = {"torchnmf": torchnmf, "nn-fac": nn_fac}


def main() -> None:
    rows: list[Row] = []
    m, n, r = DENSE[0]
    for peer, make in PEERS.items():
        for dtype in (F32, F64):
            X = dense_x(m, n, dtype)
            for beta in (0.0, 1.0, 2.0):
                work = f"beta={beta:g} {dtype.name} {m} x {n} r={r}"
                try:
                    theirs = make(X, r, beta)
                    theirs(1)
                except Exception as error:  # whatever a peer raises, the other rows are still wanted
                    print(f"note: {peer}, {work} is left out: {type(error).__name__}: {error}")
                    continue
                rows.append(compare(work, {"drnmf": ours(X, r, beta), peer: theirs}, "", 10, 20))
    if rows:
        print_table(rows)
        write_csv("native-other-peers", rows)


if __name__ == "__main__":
    print_table([machine()])
    main()
