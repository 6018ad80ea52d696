"""The sweep of a tensor beside sums over all entries, written out, for every layout."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf.backends import tensor
from drnmf.backends.base import Ask
from drnmf.backends.observed import Entries, Stored, weigh
from drnmf.backends.open import open_data
from drnmf.backends.products import column_products, split_columns
from drnmf.backends.tensor import SparseTensor, modes_of
from drnmf.losses.beta import Beta

SHAPE, RANK = (7, 6, 5, 4), 3
RNG = np.random.default_rng(0)
X = RNG.poisson(0.4, SHAPE).astype(float)
WEIGHTS = RNG.random(SHAPE)
FACTORS = [RNG.uniform(0.5, 1.5, (RANK, size)) for size in SHAPE]
FLAT = X.reshape(SHAPE[0], -1)
ONES = np.ones(SHAPE)

LAYOUTS = {
    "dense": (lambda: open_data(FLAT), ONES),
    "numpy": (lambda: open_data(FLAT, backend="numpy"), ONES),
    "sparse": (lambda: open_data(sp.csr_array(FLAT)), ONES),
    "sparse numpy": (lambda: open_data(sp.csr_array(FLAT), backend="numpy"), ONES),
    "weights": (lambda: weigh(open_data(FLAT), Entries(WEIGHTS.reshape(SHAPE[0], -1))), WEIGHTS),
    "gaps": (lambda: open_data(np.where(WEIGHTS < 0.3, np.nan, X).reshape(SHAPE[0], -1)), (WEIGHTS >= 0.3) * 1.0),
    "stored": (lambda: weigh(open_data(sp.csr_array(FLAT)), Stored.of(sp.csr_array(FLAT))), (X > 0) * 1.0),
}


def written_out(weights, betas, coefficients, mode):
    """N, P and loss of every beta, and the curvature, packed."""
    letters, V = "abcd", np.einsum("ra,rb,rc,rd->abcd", *FACTORS)
    others = [k for k in range(4) if k != mode]
    arrays = [FACTORS[k] for k in others]
    one = ",".join(f"r{letters[k]}" for k in others)
    two = f"{one},{one.replace('r', 's')}"
    found, curvature = [], 0.0
    for beta, c in zip(betas, coefficients, strict=True):
        loss = Beta(beta)
        N, P = (
            np.einsum(f"abcd,{one}->r{letters[mode]}", weights * Z, *arrays)
            for Z in (X * V ** (beta - 2), V ** (beta - 1))
        )
        found.append((N, P, float((weights * loss.terms(X, V)).sum())))
        bend = weights * c * loss.curvature(X, V)
        curvature = curvature + np.einsum(f"abcd,{two}->rs{letters[mode]}", bend, *arrays, *arrays)
    return found, curvature[np.tril_indices(RANK)]


@pytest.mark.parametrize("betas", [(1,), (2,), (0.5,), (1, 2), (1.5,)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_mode_of_every_layout(layout, betas, monkeypatch):
    monkeypatch.setattr(tensor, "PIECE_NUMBERS", 200)  # several pieces
    make, weights = LAYOUTS[layout]
    modes, omega, c = modes_of(make(), SHAPE[1:]), tuple(map(Beta, betas)), np.linspace(1, 2, len(betas))
    assert isinstance(modes, SparseTensor) == (layout in ("sparse", "sparse numpy", "stored"))
    blocks = (*FACTORS[1:], FACTORS[0])
    for block in range(4):
        expected, curvature = written_out(weights, betas, c, (block + 1) % 4)
        plain = modes.sweep(block, blocks, Ask(omega))
        for slot, (N, P, loss) in enumerate(expected):
            np.testing.assert_allclose(plain.N[slot], N, rtol=1e-10)
            np.testing.assert_allclose(plain.P[slot], P, rtol=1e-10)
            assert plain.losses[slot] == pytest.approx(loss, rel=1e-10)
        curved = modes.sweep(block, blocks, Ask(omega, curvature=c))
        Q = np.zeros_like(curvature) if curved.Q is None else curved.Q
        if curved.gram is not None:
            Q = Q + curved.gram[np.tril_indices(RANK)][:, None]
        np.testing.assert_allclose(Q, curvature, rtol=1e-10)
        np.testing.assert_allclose(curved.losses, [loss for *_, loss in expected], rtol=1e-10)


def test_products_of_columns_come_apart():
    H = column_products(FACTORS[1:])
    parts = split_columns(H, SHAPE[1:])
    np.testing.assert_allclose(column_products(parts), H, rtol=1e-14)
    for F in parts[1:]:
        np.testing.assert_allclose(F.sum(axis=1), 1.0, rtol=1e-14)


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_what_is_added_up_over_the_others(layout):
    modes, blocks = modes_of(LAYOUTS[layout][0](), SHAPE[1:]), (*FACTORS[1:], FACTORS[0])
    for block in range(4):
        others = column_products([F for k, F in enumerate(blocks) if k != block])
        found = modes.sum_others(block, lambda G: (G @ G.T).ravel(), blocks)
        np.testing.assert_allclose(found, (others @ others.T).ravel(), rtol=1e-12)
