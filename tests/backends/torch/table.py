"""What the torch Data are held to: where they run, and how far from the float64 oracle they may be."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import torch

CARD = torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1"
DEVICE = "cuda" if CARD else "cpu"
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
FUSED = CARD or INTERPRETED


@dataclass(frozen=True)
class Bound:
    """Relative errors: of N and P in the Frobenius norm, and of the losses."""

    parts: float
    losses: float


PLAIN = {np.dtype("float64"): Bound(1e-13, 1e-12), np.dtype("float32"): Bound(1e-6, 1e-6)}
FLOAT32 = Bound(1e-5, 1e-6)
TF32 = Bound(2e-3, 1e-4)

# A card has time for all of it; the interpreter takes the corners.
SHAPES = ((1, 1, 1), (41, 140, 7), (70, 130, 64), (33, 65, 100))
if CARD:
    SHAPES += ((20, 1000, 10), (41, 401, 1), (300, 1271, 17), (90, 70, 256))


def tensor(X: np.ndarray) -> torch.Tensor:
    """X on the device under test, with its strides."""
    if not CARD:
        return torch.from_numpy(X)
    moved = torch.as_tensor(np.ascontiguousarray(X)).to(DEVICE)
    if X.flags.c_contiguous:
        return moved
    if X.flags.f_contiguous:
        return moved.T.contiguous().T
    return moved.repeat_interleave(2, 0).repeat_interleave(3, 1)[::2, ::3]


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """||a - b|| / ||b||, 0 where both are empty."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    assert a.shape == b.shape
    return float(np.linalg.norm(a - b) / np.linalg.norm(b)) if b.size else 0.0


def assert_within(data, sweep, wanted, bound: Bound) -> None:
    (got,) = data.read(sweep)
    for name in ("N", "P"):
        part = data.get(getattr(got, name))
        assert part.dtype == data.dtype
        error = distance(part, getattr(wanted, name))
        assert error <= bound.parts, f"{name} is off by {error:.1e}"
    assert got.losses.dtype == np.float64
    error = float(np.max(np.abs(got.losses - wanted.losses) / wanted.losses))
    assert error <= bound.losses, f"losses are off by {error:.1e}: {got.losses}, wanted {wanted.losses}"
