"""A row is transformed the same alone and among others, to the last bit; odd scales are finite or refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf import DRNMF, BetaNMF, Solver
from drnmf.losses.beta import Beta

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("betas", [(0,), (1,), (2,), (0.5,), (3,), (0, 1)], ids=str)
@pytest.mark.parametrize("form", [np.ascontiguousarray, np.asfortranarray, sp.csr_array])
@pytest.mark.filterwarnings("ignore:Only beta")
def test_one_row_is_transformed_as_among_others(form, betas, dtype):
    X = RNG.uniform(0.1, 1, (60, 300)).astype(dtype)
    model = DRNMF(5, betas=betas, max_iter=20, tol=0, random_state=0).fit(X).set_params(tol=1e-6)
    Y = form(X)
    W = model.transform(Y)
    for rows in ([0], [7], [59], list(range(3, 10)), list(range(30, 60))):
        np.testing.assert_array_equal(model.transform(Y[rows]), W[rows])


@pytest.mark.parametrize("betas", [(0,), (0.5,), (1,), (1.5,), (2,), (3,), (0, 1), (1, 2)], ids=str)
def test_an_exact_fit_is_found_again(betas):
    rng = np.random.default_rng(4)  # not of every seed: docs/development/algorithms.md
    X = rng.gamma(0.7, 1.0, (40, 4)) @ (rng.gamma(0.7, 1.0, (4, 30)) + 0.01) * rng.gamma(10.0, 0.1, (40, 30)) + 1e-3
    model = DRNMF(4, betas=betas, max_iter=300, random_state=0, solver=Solver(references=np.ones(len(betas))))
    W = model.fit_transform(X)
    assert np.abs(model.transform(model.inverse_transform(W)) - W).max() < 1e-6 * W.max()


@pytest.mark.parametrize("references", [(1e-320, 1), (1, 5e-324)])
def test_references_that_cannot_divide_are_refused(references):
    with pytest.raises(ValueError, match="cannot be divided by in float64"):
        DRNMF(2, betas=(0, 1), solver=Solver(references=references)).fit(np.ones((3, 4)))


@pytest.mark.parametrize("betas", [(0,), (1,), (0, 1)], ids=str)
@pytest.mark.parametrize(
    ("scale", "dtype"), [(1e-310, np.float64), (5e-324, np.float64), (1e-300, np.float64), (1e-40, np.float32)]
)
def test_entries_too_small_for_their_products(scale, dtype, betas):
    """X is scaled before anything is multiplied, so that entries below the normal numbers are fitted as others are."""
    counts = np.ceil(RNG.uniform(0.1, 1, (12, 9)) * 1000)
    model, plain = (DRNMF(2, betas=betas, max_iter=50, tol=0, random_state=0) for _ in range(2))
    W, root = model.fit_transform((counts * scale).astype(dtype)).astype(np.float64), np.sqrt(scale)
    fitted = (W / root) @ (model.components_.astype(np.float64) / root)  # old NumPy warns of quotients by subnormals
    wanted = plain.inverse_transform(plain.fit_transform(counts))
    np.testing.assert_allclose(fitted, wanted, rtol=0.1)


@pytest.mark.parametrize(("scale", "dtype"), [(1e-280, np.float64), (1e-29, np.float32)])
def test_small_entries_under_itakura_saito(scale, dtype):
    X = RNG.uniform(0.1, 1, (12, 9))
    fits = [BetaNMF(2, beta=0, max_iter=200, tol=0, random_state=0).fit(Y) for Y in (X, (X * scale).astype(dtype))]
    assert fits[1].losses_[0] == pytest.approx(fits[0].losses_[0], rel=0.05)


def test_rows_that_leave_the_range_are_refused():
    X = RNG.uniform(0.1, 1, (12, 9)).astype(np.float32)
    model = BetaNMF(2, beta=2, max_iter=5, tol=0, random_state=0).fit(X)
    model.components_ *= np.float32(1e-20)
    Y = np.ones((3, 9), dtype=np.float32)
    Y[1] = np.finfo(np.float32).max
    with pytest.raises(ValueError, match="W of row 1 is not finite"):
        model.transform(Y)


@pytest.mark.parametrize("beta", [0, 0.5, 1, 3])
def test_rows_that_sum_to_one_come_to_their_end_whatever_the_size_of_components(beta):
    """Slopes of a row are equal where it has something, and no smaller elsewhere: beside a huge component as well."""
    rng = np.random.default_rng(5)
    H = rng.gamma(1.0, 1.0, (3, 12)) + 0.05
    H[1] *= 1e3
    model = BetaNMF(3, beta=beta, sum_to_one="W", random_state=0, max_iter=2, tol=0).fit(np.ones((4, 12)))
    model.components_, model.tol, model.max_iter = H, 1e-10, 200
    X = (rng.dirichlet(np.full(3, 0.7), 30) * [1, 1e-6, 1] @ H) * rng.gamma(30.0, 1 / 30.0, (30, 12))
    W = model.transform(X)
    negative, positive = Beta(float(beta)).parts(X, W @ H, 1e290)
    slope, size = (positive - negative) @ H.T, positive @ H.T
    common = (W * slope).sum(axis=1, keepdims=True)
    off = (slope - common) / size
    assert (W == 0).any()
    assert np.abs(off[W > 0]).max() < 1e-6
    assert off.min() > -1e-6
