"""Entries at the floor of the factors come back as exact zeros, where the losses allow it."""

from __future__ import annotations

import numpy as np
import pytest

from drnmf import DRNMF, BetaNMF

BLOCKS = np.kron(np.eye(3), np.ones((4, 5)))


@pytest.mark.parametrize("beta", [1, 1.5, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parts_that_do_not_overlap_have_exact_zeros(beta, dtype):
    model = BetaNMF(3, beta=beta, random_state=0, tol=1e-8)
    W = model.fit_transform(BLOCKS.astype(dtype))
    for factor in (W, model.components_, model.transform(BLOCKS.astype(dtype))):
        assert (factor == 0).sum() == 2 * factor.size // 3


def test_the_floor_stays_where_a_zero_would_make_a_loss_infinite():
    X = BLOCKS + 1e-13
    model = BetaNMF(3, beta=0, random_state=0)
    W = model.fit_transform(X)
    assert (W @ model.components_ > 0).all()
    assert np.isfinite(model.losses_).all()


def test_several_losses_and_constraints_keep_their_sums():
    model = DRNMF(3, betas=(1, 2), sum_to_one="W", random_state=0, max_iter=300)
    W = model.fit_transform(BLOCKS)
    assert (W == 0).any()
    assert np.allclose(W.sum(axis=1), 1)
