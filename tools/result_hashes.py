"""Print a hash of the result of every fit in a table: what a change that must not move a digit is checked with.

Run it before and after, on one machine, and compare the two outputs with diff:

    python tools/result_hashes.py > before.txt
    ... move, rename, reshape ...
    python tools/result_hashes.py > after.txt && diff before.txt after.txt

A hash covers factors, losses, references, weights, trace (without times) and certificates, to the last bit.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

Case = tuple[str, Callable[[], tuple[Any, ...]]]


def digest(*values: Any) -> str:
    """Hash arrays and numbers by their bytes, shapes and types."""
    found = hashlib.sha256()
    for value in values:
        array = np.ascontiguousarray(value)
        found.update(f"{array.dtype.str}{array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()[:16]


def problem(dtype: str = "float64", zeros: bool = False, shape: tuple[int, int] = (43, 57)) -> Any:
    """Make a positive matrix near rank four, with a tenth of its entries zero where asked."""
    rng = np.random.default_rng(7)
    X = rng.gamma(0.5, size=(shape[0], 4)) @ rng.gamma(0.5, size=(4, shape[1])) + 0.05
    X *= rng.uniform(0.5, 1.5, shape)
    if zeros:
        X[rng.uniform(size=shape) < 0.1] = 0.0
    return X.astype(dtype)


def counts() -> Any:
    """Make sparse word counts."""
    rng = np.random.default_rng(3)
    return sp.csr_array(rng.poisson(rng.gamma(0.3, size=(60, 5)) @ rng.gamma(0.3, size=(5, 80))).astype(float))


def outcome(model: Any, W: Any) -> tuple[Any, ...]:
    """Collect what a fitted estimator knows, without times."""
    trace = model.trace_
    return (
        np.asarray(W), np.asarray(model.components_), model.losses_, model.references_, model.weights_,
        trace.scaled_losses, trace.weights, trace.gap, trace.sweeps, model.gap_, model.stationarity_,
    )  # fmt: skip


def fitted(model: Any, X: Any, **given: Any) -> tuple[Any, ...]:
    return outcome(model, model.fit_transform(X, **given))


def estimator_cases() -> Iterator[Case]:
    from drnmf import DRNMF, BetaNMF, Interval, MultiObjectiveNMF, Solver

    common = {"random_state": 0, "max_iter": 60}
    for dtype in ("float64", "float32"):
        X = problem(dtype)
        for layout, M in {"C": X, "F": np.asfortranarray(X), "strided": np.repeat(X, 2, axis=1)[:, ::2]}.items():
            yield f"DR 0,1 {layout} {dtype}", lambda M=M: fitted(DRNMF(4, betas=(0, 1), **common), M)
        for beta in (0, 0.5, 1, 1.5, 2, 3):
            for update in ("auto", "mu", "extrapolated", "monotone", "newton"):
                made = BetaNMF(4, beta=beta, solver=update, **common)
                yield f"beta={beta} {update} {dtype}", lambda made=made, X=X: fitted(made, X)
        for policy in ("auto", "frank-wolfe", "frank-wolfe-2", "subgradient", "mirror", "reactive", "fixed", "minimax"):
            for betas in ((0, 1), (0, 1, 2), (0.5, 1.5)):
                made = DRNMF(4, betas=betas, solver=Solver(policy=policy), **common)
                yield f"DR {betas} {policy} {dtype}", lambda made=made, X=X: fitted(made, X)
        for update in ("mu", "extrapolated", "monotone", "newton"):
            made = DRNMF(4, betas=(1, 2), solver=update, **common)
            yield f"DR 1,2 {update} {dtype}", lambda made=made, X=X: fitted(made, X)
        made = MultiObjectiveNMF(4, betas=(0, 1, 2), weights=(0.2, 0.3, 0.5), **common)
        yield f"MO 0,1,2 {dtype}", lambda made=made, X=X: fitted(made, X)
    X, Z, S = problem(), problem(zeros=True), counts()
    for init in ("spa", "nndsvdar"):
        yield f"DR {init}", lambda init=init: fitted(DRNMF(4, init=init, **common), X)
    yield "DR floor", lambda: fitted(DRNMF(4, betas=(0, 1), zeros="floor", **common), Z)
    yield "DR n_init", lambda: fitted(DRNMF(4, betas=(0, 1), n_init=3, **common), X)
    yield "DR tol", lambda: fitted(DRNMF(4, betas=(0, 1), random_state=1, tol=1e-5, max_iter=2000), X)
    yield "DR inner", lambda: fitted(DRNMF(4, solver=Solver(policy="subgradient", inner_iter=4), **common), X)
    yield "DR r=30", lambda: fitted(DRNMF(30, betas=(0, 1), **common), X)
    yield "DR r>n", lambda: fitted(DRNMF(70, betas=(1, 2), **common), X)
    yield "interval", lambda: fitted(DRNMF(4, betas=Interval(0, 2), random_state=0, max_iter=120), X)
    for name, M in {"csr": S, "csc": sp.csc_array(S), "f32": S.astype(np.float32)}.items():
        for betas in ((1,), (2,), (1, 2), (0.5, 1)):
            yield f"DR {betas} {name}", lambda M=M, betas=betas: fitted(DRNMF(5, betas=betas, **common), M)

    def transformed() -> tuple[Any, ...]:
        model = DRNMF(4, betas=(0, 1), **common).fit(X[:30])
        return model.transform(X[30:]), model.score(X[30:]), model.inverse_transform(model.transform(X[30:]))

    yield "transform", transformed


def front_cases() -> Iterator[Case]:
    from drnmf import DRNMF, pareto_front

    for method in ("weighted", "tchebycheff"):
        for warm in (False, True):

            def front(method: str = method, warm: bool = warm) -> tuple[Any, ...]:
                model = DRNMF(4, betas=(0, 1), warm_start=warm, random_state=0, max_iter=60)
                found = pareto_front(model, problem(), weights=5, method=method, return_factors=True)
                factors = [F for point in (*found.points, found.dr) for F in (point.W, point.H)]
                return found.losses, found.references, found.dr.losses, *factors

            yield f"front {method} warm={warm}", front


def dask_cases() -> Iterator[Case]:
    import dask.array as da

    from drnmf import DRNMF, BetaNMF

    X = problem(shape=(90, 57))
    blocks = da.from_array(X, chunks=(25, 57))
    common = {"random_state": 0, "max_iter": 45}
    for update in ("auto", "mu", "extrapolated", "monotone"):
        yield f"dask {update}", lambda update=update: fitted(DRNMF(4, betas=(0, 1), solver=update, **common), blocks)
    yield "dask beta=2", lambda: fitted(BetaNMF(4, beta=2, **common), blocks)
    yield "dask 1,2", lambda: fitted(DRNMF(4, betas=(1, 2), **common), blocks)
    yield "dask transform", lambda: (np.asarray(BetaNMF(4, **common).fit(X).transform(blocks)),)


def torch_cases() -> Iterator[Case]:
    import torch

    from drnmf import DRNMF, BetaNMF

    X = torch.from_numpy(problem("float32")).to(torch.bfloat16)
    S = torch.from_numpy(counts().toarray()).to_sparse()
    common = {"random_state": 0, "max_iter": 45}
    yield "torch half", lambda: fitted(DRNMF(4, betas=(0, 1), **common), X)
    yield "torch sparse", lambda: fitted(BetaNMF(4, beta=1, **common), S)
    yield "torch sparse 1,2", lambda: fitted(DRNMF(4, betas=(1, 2), **common), S)


def available(cases: Callable[[], Iterator[Case]]) -> Iterator[Case]:
    """Yield the cases whose optional packages are installed."""
    try:
        yield from cases()
    except ImportError as error:
        yield f"# {cases.__name__} left out: {error.name} is not installed", tuple


def main() -> None:
    """Print one line per case, for the compiled extension and for NumPy."""
    warnings.simplefilter("ignore")
    backend = os.environ.get("DRNMF_BACKEND")
    if backend is None:
        for name in ("native", "numpy"):
            subprocess.run([sys.executable, *sys.argv], env=os.environ | {"DRNMF_BACKEND": name}, check=True)
        return
    for cases in (estimator_cases, front_cases, dask_cases, torch_cases):
        for name, make in available(cases):
            print(name if name.startswith("#") else f"{digest(*make())}  {backend} {name}", flush=True)


if __name__ == "__main__":
    main()
