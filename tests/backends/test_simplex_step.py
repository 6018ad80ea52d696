"""The compiled step on the simplex against its reference, in both dtypes, at shapes that fill no vector."""

from __future__ import annotations

import numpy as np
import pytest

from drnmf.algorithms.updates.simplex_steps import simplex_step

pytest.importorskip("drnmf._core", reason="the compiled extension was not built")

KINDS = {"shared": ("gram",), "own": ("Q",), "both": ("gram", "Q"), "sized": ("gram", "Q", "sizes")}


def model(shape: tuple[int, int], dtype: type) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """A point on the simplex, slopes, and every kind of curvature."""
    rng, (r, n) = np.random.default_rng(3), shape
    F = rng.dirichlet(np.full(r, 0.7), n).T.astype(dtype)
    A, B = rng.normal(size=(2 * r, r)), rng.normal(size=(n, 2 * r, r))
    own = np.einsum("jik,jil->klj", B, B)[np.tril_indices(r)]
    curvature = {"gram": A.T @ A, "Q": own.astype(dtype), "sizes": rng.uniform(0.5, 2.0, shape).astype(dtype)}
    return F, rng.normal(0.0, 3.0, shape).astype(dtype), curvature


def change(D: np.ndarray, slope: np.ndarray, gram: object = 0.0, Q: object = 0.0, sizes: object = 1.0) -> np.ndarray:
    """What the model of every column says of a move by D."""
    r, n = D.shape
    M = np.zeros((r, r, n))
    rows, columns = np.tril_indices(r)
    M[rows, columns] = M[columns, rows] = Q
    M += np.broadcast_to(np.asarray(gram)[..., None], (r, r, n))
    sized = D * sizes
    return (slope * D).sum(axis=0) + 0.5 * np.einsum("kj,klj,lj->j", sized, M, sized)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(1, 1), (2, 5), (3, 7), (10, 401), (23, 64)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("floor", [0.0, 1e-3])
def test_the_compiled_step_is_the_reference(kind, shape, dtype, floor, monkeypatch):
    """Entry by entry after few moves, although each leaves two slopes equal; after many in what was gained."""
    F, slope, curvature = model(shape, dtype)
    F = np.maximum(F, dtype(floor))
    given = {name: curvature[name] for name in KINDS[kind]}
    compiled = [simplex_step(F, slope, floor, moves, **given) for moves in (1, 4, 300)]
    monkeypatch.setenv("DRNMF_BACKEND", "numpy")
    reference = [simplex_step(F, slope, floor, moves, **given) for moves in (1, 4, 300)]
    digits = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(compiled[:2], reference[:2], atol=digits)
    np.testing.assert_allclose([H.sum(axis=0) for H in compiled], [F.sum(axis=0)] * 3, rtol=10 * digits)
    assert min(H.min() for H in compiled) >= dtype(floor)
    gains = [change((H - F).astype(float), slope, **given) for H in (compiled[0], compiled[2], reference[2])]
    assert (gains[1] <= gains[0] + digits).all()
    np.testing.assert_allclose(gains[1].sum(), gains[2].sum(), rtol=1e-4)
    assert (gains[1].sum() < gains[0].sum()) == (shape[0] > 2)
