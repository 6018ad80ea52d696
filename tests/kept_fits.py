"""Fits that processes of their own run, and are killed in (tests/test_kills.py). Imported by those processes: light."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf import DRNMF, BetaNMF, Interval, MultiObjectiveNMF, Solver
from drnmf.backends.open import open_data
from drnmf.storage.checkpoint import Checkpoint

FITTED = ("components_", "losses_", "scaled_losses_", "weights_", "references_", "betas_", "n_iter_", "gap_")
TRACE = ("scaled_losses", "weights", "gap", "sweeps", "added")  # seconds are the only thing that may differ


def matrix(sparse: bool = False, dtype: type = np.float64) -> Any:
    rng = np.random.default_rng(7)
    if sparse:
        return sp.csr_array(np.where(rng.random((40, 25)) < 0.3, rng.random((40, 25)), 0.0).astype(dtype))
    return np.exp(1.5 * rng.normal(size=(30, 20))).astype(dtype)


ROUNDS = Interval(0.5, 4, knots=2, tol=1e-4, max_knots=4)
"""On `matrix()` from the start of seed 0 the exchange, with plain steps, adds two knots, one round after another."""

CASES: dict[str, tuple[str, bool, Any]] = {
    "references and starts": ("native", False, DRNMF(3, betas=(0, 1), n_init=2, max_iter=12, tol=0, random_state=0)),
    "interval": (
        "native",
        False,
        DRNMF(3, betas=ROUNDS, init="random", max_iter=40, tol=0, random_state=0, solver="mu"),
    ),
    "sparse": (
        "native",
        True,
        DRNMF(3, betas=(1, 2), max_iter=25, tol=0, random_state=1, solver=Solver(policy="reactive")),
    ),
    "numpy": ("numpy", False, MultiObjectiveNMF(3, betas=(0.5, 2), max_iter=25, tol=0, random_state=2)),
    "numpy sparse": (
        "numpy",
        True,
        DRNMF(2, betas=(1, 2), max_iter=20, tol=0, random_state=3, solver=Solver(policy="minimax")),
    ),
    "newton": ("native", True, DRNMF(3, betas=(1, 2), max_iter=45, tol=0, random_state=1, solver="newton")),
    "one loss": ("native", False, BetaNMF(3, beta=0, n_init=3, max_iter=20, tol=0, solver="extrapolated")),
}
"""Name -> backend, sparse, estimator."""


def outcome(model: Any, W: Any) -> dict[str, Any]:
    """Everything that must not depend on where a fit was stopped."""
    found = {name: np.asarray(getattr(model, name)) for name in FITTED}
    return found | {"W": W} | {f"trace_{name}": getattr(model.trace_, name) for name in TRACE}


def fit(case: str, folder: str | None, seed: int | None = None) -> dict[str, Any]:
    backend, sparse, model = CASES[case]
    os.environ["DRNMF_BACKEND"] = backend
    model.set_params(solver__checkpoint=folder, solver__checkpoint_every=0)
    if seed is not None:
        model.set_params(random_state=seed)
    return outcome(model, model.fit_transform(matrix(sparse)))


class Doom:
    """Counts every step on the way to the disk, and kills its process at one of them, before or after it is taken."""

    def __init__(self, step: int | None) -> None:
        self.step, self.count = step, 0
        os.fsync = lambda handle: None  # the system outlives the process: what was written needs no flush here
        for name in ("open", "fsync", "replace", "unlink"):
            setattr(os, name, self.counted(getattr(os, name)))

    def tick(self) -> None:
        self.count += 1
        if self.count == self.step:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(self, call: Any) -> Any:
        def doomed(*arguments: Any, **options: Any) -> Any:
            self.tick()
            answer = call(*arguments, **options)
            self.tick()
            return answer

        return doomed


def work(case: str, folder: str, out: str, step: int | None, seed: int) -> None:
    """The process: fit, and leave the outcome and the number of steps taken in `out`."""
    doom = Doom(step)
    found = fit(case, folder, seed)
    Path(out).parent.mkdir(exist_ok=True)
    np.savez(out, steps=doom.count, **found)


def hold(folder: str, ready: Any) -> None:
    """The process: keep the folder until it is killed."""
    with Checkpoint(folder, 0, open_data(matrix()), {}):
        ready.set()
        time.sleep(600)
