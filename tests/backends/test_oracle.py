"""The oracle itself, against formulas written by hand: V stored, textbook expressions, no code of the package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp

from drnmf.backends.base import Ask
from drnmf.backends.host.dense import DenseMatrix
from drnmf.backends.host.sparse import SparseMatrix
from drnmf.backends.observed import Entries as Weights
from drnmf.losses.base import Loss
from drnmf.losses.beta import Beta
from drnmf.losses.negative_binomial import NegativeBinomial
from tests.backends.problems import completed, factors

Entries = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Textbook:
    """A loss as a textbook has it: d(x|v), its derivative in v, and the curvature (math.md, sections 3, 10 and 16)."""

    loss: Loss
    d: Entries
    negative: Entries
    positive: Entries
    curvature: Entries


def _beta(b: float) -> Textbook:
    return Textbook(
        Beta(b),
        lambda x, v: (x**b + (b - 1) * v**b - b * x * v ** (b - 1)) / (b * (b - 1)),
        lambda x, v: x * v ** (b - 2),
        lambda x, v: v ** (b - 1),
        lambda x, v: (b - 1) * v ** (b - 2) + (2 - b) * x * v ** (b - 3) if 1 <= b <= 2 else v ** (b - 2),
    )


def _negative_binomial(a: float) -> Textbook:
    return Textbook(
        NegativeBinomial(a),
        lambda x, v: x * np.log(x / v) - (x + a) * np.log((x + a) / (v + a)),
        lambda x, v: x / v,
        lambda x, v: (x + a) / (v + a),
        lambda x, v: a / (v * (v + a)),
    )


TEXTBOOK = {
    "IS": Textbook(
        Beta(0.0),
        lambda x, v: x / v - np.log(x / v) - 1,
        lambda x, v: x / v**2,
        lambda x, v: 1 / v,
        lambda x, v: 1 / v**2,
    ),
    "KL": Textbook(
        Beta(1.0),
        lambda x, v: x * np.log(x / v) - x + v,
        lambda x, v: x / v,
        lambda x, v: np.ones_like(v),
        lambda x, v: x / v**2,
    ),
    "Fro": Textbook(
        Beta(2.0), lambda x, v: (x - v) ** 2 / 2, lambda x, v: x, lambda x, v: v, lambda x, v: np.ones_like(v)
    ),
    "0.5": _beta(0.5),
    "1.5": _beta(1.5),
    "3": _beta(3.0),
    "nb:30": _negative_binomial(30.0),
    "nb:0.7": _negative_binomial(0.7),
}
M, N, R = 23, 31, 4


def problem(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X = np.random.default_rng(seed).gamma(1.0, 1.0, (M, N)) + 0.05
    return X, *factors(M, N, R, np.float64)


def packed(W: np.ndarray, bend: np.ndarray) -> np.ndarray:
    return np.einsum("ik,ij,il->klj", W, bend, W)[np.tril_indices(W.shape[1])]


@pytest.mark.parametrize("name", TEXTBOOK)
@pytest.mark.parametrize("weighted", [False, True])
def test_one_loss(name, weighted):
    book, (X, W, H) = TEXTBOOK[name], problem()
    V, A = W @ H, np.random.default_rng(1).uniform(0, 2, X.shape) if weighted else np.ones(X.shape)
    ask = Ask((book.loss,), curvature=np.array([0.7]), observed=Weights(A) if weighted else None)
    for data in (DenseMatrix.of(X), SparseMatrix.of(sp.csr_array(X))):
        sweep = completed(data.sweep(W, H, ask), H, ask)
        np.testing.assert_allclose(sweep.losses, [(A * book.d(X, V)).sum()], rtol=1e-11)
        np.testing.assert_allclose(sweep.N[0], W.T @ (A * book.negative(X, V)), rtol=1e-12)
        np.testing.assert_allclose(sweep.P[0], W.T @ (A * book.positive(X, V)), rtol=1e-12)
        np.testing.assert_allclose(sweep.Q, packed(W, 0.7 * A * book.curvature(X, V)), rtol=1e-12)


@pytest.mark.parametrize("name", TEXTBOOK)
def test_parts_are_the_derivative_of_the_loss(name):
    """P - N by central differences of the losses of the oracle itself."""
    omega, (X, W, H), step = (TEXTBOOK[name].loss,), problem(), 1e-6
    data, at = DenseMatrix.of(X), DenseMatrix.of(X).sweep(W, H, Ask(omega))
    for k, j in ((0, 0), (R - 1, N - 1), (2, 17)):
        ends = []
        for sign in (1, -1):
            moved = H.copy()
            moved[k, j] += sign * step
            ends.append(data.sweep(W, moved, Ask(omega, None)).losses[0])
        assert (at.P - at.N)[0, k, j] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4, abs=1e-6)


def test_weighted_parts_are_the_weighted_sum():
    X, W, H = problem()
    omega, c = tuple(book.loss for book in TEXTBOOK.values()), np.random.default_rng(2).random(len(TEXTBOOK))
    apart, together = (DenseMatrix.of(X).sweep(W, H, Ask(omega, parts)) for parts in ("separate", c))
    for name in ("N", "P"):
        np.testing.assert_allclose(getattr(together, name)[0], np.tensordot(c, getattr(apart, name), 1), rtol=1e-12)
    np.testing.assert_array_equal(apart.losses, together.losses)


def test_tiles_make_no_difference(monkeypatch):
    """Columns belong to one tile each: narrow tiles give the same parts, and losses but for the order of the sum."""
    X, W, H = problem()
    ask = Ask((Beta(0.0), NegativeBinomial(30)), curvature=np.ones(2), observed=Weights(X > 0.3))
    whole = DenseMatrix.of(X).sweep(W, H, ask)
    monkeypatch.setattr(DenseMatrix, "tile_entries", 3 * M)
    cut = DenseMatrix.of(X).sweep(W, H, ask)
    np.testing.assert_allclose(cut.losses, whole.losses, rtol=1e-13)
    for name in "NPQ":
        np.testing.assert_allclose(getattr(cut, name), getattr(whole, name), rtol=1e-12)


def kinds(X: np.ndarray) -> tuple[DenseMatrix, SparseMatrix]:
    """Both layouts, with floors that refer to a mean of one, whatever part of X they hold."""
    return DenseMatrix.of(X, 1.0), SparseMatrix.of(sp.csr_array(X), 1.0)


OMEGA = (Beta(0.0), Beta(1.0), Beta(2.0), NegativeBinomial(30))


def ask_of(M: np.ndarray | None) -> Ask:
    return Ask(OMEGA, curvature=np.array([0.1, 0.2, 0.3, 0.4]), observed=None if M is None else Weights(M))


def test_unobserved_rows_and_columns_are_as_if_removed():
    X, W, H = problem()
    X[X < 0.2] = 0.0
    rows, columns = np.arange(M) % 3 != 0, np.arange(N) % 4 != 1
    M_ = np.outer(rows, columns).astype(float)
    for whole, part in zip(kinds(X), kinds(X[np.ix_(rows, columns)]), strict=True):
        masked = whole.sweep(W, H, ask_of(M_))
        removed = completed(part.sweep(W[rows], H[:, columns], ask_of(None)), H[:, columns], ask_of(None))
        np.testing.assert_allclose(masked.losses, removed.losses, rtol=1e-12)
        for name in "NPQ":
            got, wanted = getattr(masked, name), getattr(removed, name)
            np.testing.assert_allclose(got[..., columns], wanted, rtol=1e-11)
            assert not got[..., ~columns].any()


def test_an_unobserved_entry_has_no_say():
    X, W, H = problem()
    changed, M_ = X.copy(), np.ones(X.shape)
    changed[3, 5], M_[3, 5] = 1e6, 0.0
    for one, other in zip(kinds(X), kinds(changed), strict=True):
        a, b = one.sweep(W, H, ask_of(M_)), other.sweep(W, H, ask_of(M_))
        np.testing.assert_array_equal(a.losses, b.losses)
        for name in "NPQ":
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def test_weight_two_is_the_row_twice():
    X, W, H = problem()
    M_ = np.ones(X.shape)
    M_[7] = 2.0
    twice = np.append(np.arange(M), 7)
    for whole, longer in zip(kinds(X), kinds(X[twice]), strict=True):
        weighted = whole.sweep(W, H, ask_of(M_))
        repeated = completed(longer.sweep(W[twice], H, ask_of(None)), H, ask_of(None))
        np.testing.assert_allclose(weighted.losses, repeated.losses, rtol=1e-12)
        for name in "NPQ":
            np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-11)
