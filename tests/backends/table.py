"""The table of backends: how each is opened, which layouts and dtypes it takes, and how far from the oracle it may be.

A new backend is one entry of `BACKENDS`.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf.backends.base import Ask, Data, Sweep
from drnmf.backends.open import open_data
from drnmf.losses.base import need_nonzeros_only
from tests.backends.problems import ASKS, DENSE, LOSS_SETS, SHAPES, SPARSE

FLOAT32, FLOAT64 = np.dtype("float32"), np.dtype("float64")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
HAS_TORCH = importlib.util.find_spec("torch") is not None


def _has_gpu() -> bool:
    if not HAS_TORCH or INTERPRETED:
        return False
    import torch

    return torch.cuda.is_available()


GPU = _has_gpu()
DEVICE = "cuda" if GPU else "cpu"
FUSED = HAS_TORCH and (GPU or INTERPRETED)


def entrywise(got: np.ndarray, wanted: np.ndarray) -> float:
    """Largest |got - wanted| beside the entry plus 1e-3 of the largest entry of its slot."""
    scale = np.abs(wanted) + 1e-3 * np.abs(wanted).max(axis=(-2, -1), keepdims=True)
    return float(np.max(np.abs(got - wanted) / np.maximum(scale, np.finfo(np.float64).tiny)))


def by_norm(got: np.ndarray, wanted: np.ndarray) -> float:
    """||got - wanted|| / ||wanted||."""
    return float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted))


@dataclass(frozen=True)
class Bound:
    """Largest relative errors against the oracle; `measure` is that of N, P and Q."""

    parts: float
    losses: float
    curvature: float
    measure: Callable[[np.ndarray, np.ndarray], float] = entrywise


HOST = {FLOAT64: Bound(2e-13, 2e-12, 1e-12), FLOAT32: Bound(4e-6, 2e-6, 2e-5)}
BLAS = HOST | {FLOAT32: Bound(1e-5, 2e-6, 2e-5)}  # NumPy adds the products of a vector one after another
PLAIN = {FLOAT64: Bound(1e-13, 1e-12, 1e-12, by_norm), FLOAT32: Bound(1e-6, 1e-6, 1e-5, by_norm)}
KERNELS = {FLOAT32: Bound(1e-5, 1e-6, 1e-5, by_norm)}
TF32 = Bound(2e-3, 1e-4, 1e-5, by_norm)


@dataclass(frozen=True)
class Backend:
    """One way to hold X.

    open : X in one of the layouts -> Data
    missing : why it cannot run here, None where it can
    """

    open: Callable[[Any], Data]
    layouts: tuple[str, ...]
    bounds: dict[Any, Bound]
    shapes: tuple[tuple[int, int, int], ...] = SHAPES
    losses: tuple[str, ...] = tuple(LOSS_SETS)
    asks: tuple[str, ...] = tuple(ASKS)
    missing: str | None = None


def _host(name: str) -> Callable[[Any], Data]:
    def open_host(X: Any) -> Data:
        data: Any = open_data(X, name)
        if sp.issparse(X) and X.indices.dtype == np.int64:  # SciPy takes int32 again wherever that suffices
            for held in (data.by_column, data.by_row):
                held.indices, held.indptr = held.indices.astype(np.int64), held.indptr.astype(np.int64)
        return data

    return open_host


def _dask(X: Any) -> Data:
    import dask.array as da

    from drnmf.backends.open import open_blocks

    rows = max(1, X.shape[0] // 3)
    if not sp.issparse(X):
        return open_blocks(da.from_array(X, chunks=(rows, -1)))
    return open_blocks(da.from_array(X.toarray(), chunks=(rows, -1)).map_blocks(type(X)))


def tensor(X: np.ndarray) -> Any:
    """X on the device under test, with its strides."""
    import torch

    if not GPU:
        return torch.from_numpy(X)
    moved = torch.as_tensor(np.ascontiguousarray(X)).to(DEVICE)
    if X.flags.c_contiguous:
        return moved
    if X.flags.f_contiguous:
        return moved.T.contiguous().T
    return moved.repeat_interleave(2, 0).repeat_interleave(3, 1)[::2, ::3]


def _torch(fused: bool) -> Callable[[Any], Data]:
    def open_torch(X: Any) -> Data:
        from drnmf.backends.torch.dense import TorchDense
        from drnmf.backends.torch.sparse import TorchSparse

        return (
            TorchSparse.of(X, device=DEVICE, fused=fused) if sp.issparse(X) else TorchDense.of(tensor(X), fused=fused)
        )

    return open_torch


def _streamed(X: Any) -> Data:
    import torch

    from drnmf.backends.torch.stream import TorchStreamed

    return TorchStreamed.of(torch.from_numpy(X), DEVICE, rows=max(1, X.shape[0] // 4))


def _without(*modules: str) -> str | None:
    absent = [name for name in modules if importlib.util.find_spec(name) is None]
    return f"{', '.join(absent)} is not installed" if absent else None


NO_TORCH = None if HAS_TORCH else "PyTorch is not installed: make test-torch installs it"
NO_KERNELS = NO_TORCH or (None if FUSED else "the Triton kernels need a CUDA GPU or TRITON_INTERPRET=1")

# A GPU has time for all of it; the interpreter takes the corners.
FEW = ((1, 1, 1), (41, 140, 7), (33, 65, 100))
TORCH_SHAPES = (*FEW, (20, 1000, 10), (41, 401, 1), (300, 1271, 17)) if GPU else FEW
SPARSE_SHAPES = ((31, 23, 7), *(((401, 20, 7), (200, 300, 20)) if GPU else ()))

# Many components are the kernels that take longest to compile: `test_many_components` asks them of one set of losses.
KERNEL_SHAPES = tuple(shape for shape in TORCH_SHAPES if shape[2] <= 64 or not GPU)
KERNEL_ASKS = tuple(ASKS) if GPU else ("separate", "weighted curved")

BACKENDS = {
    "numpy": Backend(_host("numpy"), (*DENSE, *SPARSE), BLAS),
    "native": Backend(_host("native"), (*DENSE, *SPARSE), HOST, missing=_without("drnmf._core")),
    "dask": Backend(
        _dask, ("C", "F", "csr32", "csr64"), HOST, ((1, 1, 1), (41, 23, 7)), missing=_without("dask", "distributed")
    ),
    "torch": Backend(_torch(False), DENSE, PLAIN, TORCH_SHAPES, missing=NO_TORCH),
    "torch sparse": Backend(_torch(False), SPARSE, PLAIN, SPARSE_SHAPES, missing=NO_TORCH),
    "torch streamed": Backend(
        _streamed,
        ("C", "F"),
        PLAIN | (KERNELS if FUSED else {}),
        ((83, 140, 5),),
        ("0 1", "0 nb:30"),
        ("separate", "weighted curved", "losses", "separate observed"),
        NO_TORCH,
    ),
    "torch kernels": Backend(_torch(True), DENSE, KERNELS, KERNEL_SHAPES, asks=KERNEL_ASKS, missing=NO_KERNELS),
    "torch sparse kernels": Backend(
        _torch(True), SPARSE, PLAIN, SPARSE_SHAPES, ("1", "2", "1 2", "2 1", "0 1", "nb:30"), KERNEL_ASKS, NO_KERNELS
    ),
}


def cases() -> list[Any]:
    """(backend, losses, dtype) for every entry of the table, skipped with a reason where it cannot run."""
    found = []
    for name, backend in BACKENDS.items():
        marks = [pytest.mark.skipif(backend.missing is not None, reason=backend.missing or "")]
        if name.startswith("torch"):  # the interpreter computes lanes that are dropped
            marks.append(pytest.mark.filterwarnings("ignore::RuntimeWarning"))
        found += [
            pytest.param(name, losses, dtype, marks=marks, id=f"{name}-{losses}-{dtype}".replace(" ", "_"))
            for losses in backend.losses
            for dtype in backend.bounds
        ]
    return found


def assert_close(got: Sweep, wanted: Sweep, ask: Ask, dtype: Any, bound: Bound, where: str) -> None:
    """Same losses, parts and curvature, within the bound."""
    for name, limit in (("N", bound.parts), ("P", bound.parts), ("Q", bound.curvature)):
        a, b = getattr(got, name), getattr(wanted, name)
        if name == "P" and not ask.positive and not len(a):
            assert ask.observed is None, f"{where}: P is missing under weights"
            assert need_nonzeros_only(ask.omega), f"{where}: P is missing"
            continue
        if b is None:
            assert a is None, f"{where}: {name} was not asked for"
            continue
        assert a.dtype == dtype, f"{where}: {name} has dtype {a.dtype}"
        assert a.shape == b.shape, f"{where}: {name} has shape {a.shape}"
        if b.any():
            error = bound.measure(a.astype(np.float64), b)
            assert error <= limit, f"{where}: {name} is off by {error:.1e}"
        else:
            assert not a.any(), f"{where}: {name} is not zero"
    assert got.losses.dtype == np.float64
    if not ask.losses:
        assert np.isnan(got.losses).all(), f"{where}: losses were not asked for"
        return
    error = float(np.max(np.abs(got.losses - wanted.losses) / np.maximum(wanted.losses, np.finfo(np.float64).tiny)))
    assert error <= bound.losses, f"{where}: losses are off by {error:.1e}: {got.losses}, wanted {wanted.losses}"
