"""Small factorization problems with odd shapes, and the oracle's answer to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.backends.base import Sweep
from drnmf.backends.host.reference import ReferenceDense, ReferenceSparse

BETA_SETS = (
    (0.0,),
    (1.0,),
    (2.0,),
    (0.5,),
    (0.0, 1.0),
    (1.0, 2.0),
    (0.0, 2.0),
    (0.0, 1.0, 2.0),
    (0.0, 0.5, 1.5, 3.0),
)
# (m, n, r): one entry, tall, wide, odd, and ranks around the widths of vectors and register blocks
SHAPES = ((1, 1, 1), (401, 20, 7), (20, 1000, 10), (41, 401, 1), (41, 401, 7), (70, 130, 64), (33, 65, 100))
MIXES = ("identity", "row", "none", "general")
ORDERS = ("C", "F", "slice")


def mix_named(name: str, p: int) -> np.ndarray:
    rng = np.random.default_rng(p)
    return {
        "identity": np.eye(p),
        "row": rng.random((1, p)),
        "none": np.empty((0, p)),
        "general": rng.random((2, p)),
    }[name]


def entries(shape: tuple[int, int], dtype: Any, zeros: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.gamma(1.0, 1.0, shape).astype(dtype)
    X[rng.random(shape) < zeros] = 0
    if min(shape) > 3:  # an empty row and an empty column
        X[2] = 0
        X[:, 3] = 0
    return X


def ordered(X: np.ndarray, order: str) -> np.ndarray:
    if order == "C":
        return np.ascontiguousarray(X)
    if order == "F":
        return np.asfortranarray(X)
    return np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]


def factors(m: int, n: int, r: int, dtype: Any, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """W and H as the loop holds them: component-first, in the working dtype."""
    rng = np.random.default_rng(seed)
    A, B = rng.random((r, m)) + 0.01, (rng.random((r, n)) + 0.01) * (2.0 / r)
    return A.astype(dtype).T, B.astype(dtype)


@dataclass(frozen=True)
class Tolerance:
    """Largest relative errors against the float64 oracle; parts relative to entry + 1e-3 of the largest entry."""

    parts: float
    losses: float


TOLERANCES = {np.dtype("float64"): Tolerance(2e-13, 2e-12), np.dtype("float32"): Tolerance(4e-6, 2e-6)}


def oracle(X: Any, W: np.ndarray, H: np.ndarray, betas: tuple[float, ...], mix: np.ndarray, mean: float) -> Sweep:
    reference: Any
    if sp.issparse(X):
        reference = ReferenceSparse.of(X.astype(np.float64), mean)
    else:
        reference = ReferenceDense.of(X.astype(np.float64), mean)
    return reference.sweep(W.astype(np.float64), H.astype(np.float64), betas, mix)


def assert_close(got: Sweep, wanted: Sweep, dtype: Any) -> None:
    tolerance = TOLERANCES[np.dtype(dtype)]
    for name in ("N", "P"):
        a, b = getattr(got, name), getattr(wanted, name)
        assert a.dtype == dtype
        assert a.shape == b.shape
        if b.size:
            scale = np.abs(b) + 1e-3 * np.abs(b).max(axis=(1, 2), keepdims=True)
            error = float(np.max(np.abs(a - b) / np.maximum(scale, np.finfo(np.float64).tiny)))
            assert error < tolerance.parts, f"{name} is off by {error:.1e}"
    assert got.losses.dtype == np.float64
    error = float(np.max(np.abs(got.losses - wanted.losses) / wanted.losses))
    assert error < tolerance.losses, f"losses are off by {error:.1e}: {got.losses}, wanted {wanted.losses}"
