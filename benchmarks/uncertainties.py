"""Weighted least squares on air-quality data: Q beside ESAT's, and what ESAT cannot do, gaps.

    DRNMF_DATA=... ESAT_PYTHON=scratch/bin/python python benchmarks/uncertainties.py

Q = sum of ((x - v) / u)^2 over the observed entries, 6 factors, the same starts for both. ESAT (EPA's tool, `pip
install esat` in an environment of its own, whose interpreter ESAT_PYTHON names) stops by its default rule; then follows
how long ours takes to the same Q, and where it ends. Both on one thread, turn by turn.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from harness import DATA, write_csv
from threadpoolctl import threadpool_limits

from drnmf import BetaNMF
from drnmf.matrices.files import read_matrix

FACTORS, SEEDS = 6, (0, 1)

PEER = """
import json, logging, sys, time
import types
sys.modules.setdefault("idlelib.textview", types.SimpleNamespace(ViewWindow=None))  # a window that nobody opens
import numpy as np
from esat.model.sa import SA
logging.disable(logging.CRITICAL)
stored = np.load(sys.argv[1])
X, U, W, H = (np.asfortranarray(stored[name], dtype=np.float32) for name in "XUWH")  # others it takes for transposed
model = SA(V=X, U=U, factors=len(H), method="ls-nmf", parallel=False)
model.initialize(H=H, W=W)
began = time.perf_counter()
model.train()
seconds = time.perf_counter() - began
V = np.asarray(model.WH, float)
Q = float((((stored["X"] - V) / stored["U"]) ** 2).sum())
print(json.dumps({"seconds": seconds, "Q": Q, "iterations": int(model.converge_steps)}))
"""


def tables(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Concentrations and uncertainties; lines without any content are not rows."""
    assert DATA is not None
    suffix = ".txt" if name == "Baltimore" else ".csv"
    X, U = (read_matrix(DATA / "air" / f"{name}_{kind}{suffix}").X for kind in ("con", "unc"))
    return X, U


def start(X: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positive factors with the sizes of rows and columns, as ESAT draws them but for the sign."""
    rng = np.random.default_rng(seed)
    W = np.sqrt(X.mean(axis=1) / FACTORS)[:, None] * np.abs(rng.standard_normal((X.shape[0], FACTORS))) + 1e-12
    H = np.sqrt(X.mean(axis=0) / FACTORS) * np.abs(rng.standard_normal((FACTORS, X.shape[1]))) + 1e-12
    return W, H


def esat(X: np.ndarray, U: np.ndarray, W: np.ndarray, H: np.ndarray) -> dict[str, float] | None:
    """One run of ESAT in its own interpreter; None where there is none."""
    python = os.environ.get("ESAT_PYTHON")
    if python is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        np.savez(path, X=X, U=U, W=W, H=H)
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
        done = subprocess.run(
            [python, "-c", PEER, str(path)],
            capture_output=True,
            text=True,
            env=os.environ | one_thread,
            check=False,
        )
    if done.returncode:
        print(done.stderr.strip().splitlines()[-1], file=sys.stderr)
        return None
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def ours(X: np.ndarray, U: np.ndarray, W: np.ndarray, H: np.ndarray) -> tuple[BetaNMF, float]:
    """One fit, and its seconds."""
    model = BetaNMF(FACTORS, beta=2, init="custom", max_iter=2000)
    began = time.perf_counter()
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        model.fit(X, W=W, H=H, uncertainty=U)
    return model, time.perf_counter() - began


def seconds_to(model: BetaNMF, Q: float) -> float:
    """When the trace first stood at Q or below; NaN where it never did."""
    reached = np.flatnonzero(2.0 * model.trace_.scaled_losses[:, 0] <= Q)
    return float(model.trace_.seconds[reached[0]]) if reached.size else float("nan")


def beside_esat(name: str) -> list[dict[str, object]]:
    """The same starts for ESAT's LS-NMF and for ours."""
    X, U = tables(name)
    rows: list[dict[str, object]] = []
    for seed in SEEDS:
        W, H = start(X, seed)
        peer = esat(X, U, W, H) or dict.fromkeys(("Q", "seconds", "iterations"), float("nan"))
        model, seconds = ours(X, U, W, H)
        rows.append(
            {
                "data": name, "seed": seed, "esat_Q_per_entry": peer["Q"] / X.size, "esat_seconds": peer["seconds"],
                "esat_iterations": peer["iterations"], "Q_per_entry": 2.0 * float(model.losses_[0]) / X.size,
                "seconds": seconds, "iterations": model.n_iter_, "seconds_to_esat_Q": seconds_to(model, peer["Q"]),
            }
        )  # fmt: skip
        print(rows[-1])
    return rows


def with_gaps(name: str) -> list[dict[str, object]]:
    """Entries hidden at random: Q of what is left, and the error of what was hidden, against plain beta = 2."""
    X, U = tables(name)
    hidden = np.random.default_rng(0).random(X.shape) < 0.041
    gaps = np.where(hidden, np.nan, X)
    rows: list[dict[str, object]] = []
    for weighted in (True, False):
        model = BetaNMF(FACTORS, beta=2, random_state=0, max_iter=2000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            W = model.fit_transform(gaps, uncertainty=U if weighted else None)
        squares = ((X - model.inverse_transform(W)) / U) ** 2
        rows.append(
            {
                "data": name, "fit": "uncertainties" if weighted else "beta = 2 alone", "hidden": float(hidden.mean()),
                "Q_observed": float(squares[~hidden].mean()), "Q_hidden": float(squares[hidden].mean()),
                "median_hidden": float(np.median(squares[hidden])),
            }
        )  # fmt: skip
        print(rows[-1])
    return rows


if __name__ == "__main__":
    if DATA is None:
        sys.exit("DRNMF_DATA is not set: it names the folder that holds air/.")
    write_csv("uncertainties-peers", beside_esat("Baltimore"))
    write_csv("uncertainties-gaps", [row for name in ("Baltimore", "BatonRouge") for row in with_gaps(name)])
