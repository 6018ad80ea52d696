"""Where the iterations start: random, SPA, NNDSVD, or given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drnmf.backends.base import Data
from drnmf.backends.products import column_products
from drnmf.numerics import BOUND_DIGITS, EPS, LARGEST_SVD, LIFT, Vector, factor_floor, positive_scale, real_numbers

RandomState = np.random.RandomState


Start = tuple[Any, ...]
"""W (m, r) and H (r, n); of a tensor its blocks, where they are more than two."""
"""(W, H) to start from: arrays, or factors where they live."""

Triplets = tuple[Vector, Vector, Vector]
"""Leading singular vectors and values of X: U, S, V'."""


def random_start(data: Data, rank: int, rng: RandomState) -> Start:
    """Draw uniform entries, scaled so that mean(WH) = mean(X), where the factors live."""

    def scale(mean: float) -> float:
        return float(np.sqrt(positive_scale(data.mean) / mean))

    return data.starts.draw(rank, rng, scale, factor_floor(data.mean, rank))


def tensor_start(data: Data, columns: tuple[int, ...], rank: int, rng: RandomState) -> Start:
    """Draw uniform entries for every mode of a tensor, scaled so that mean(WH) = mean(X): W and H of the unfolding."""
    A, *factors = (rng.uniform(size=(rank, size)) for size in (data.shape[0], *columns))
    mean = float(np.prod([F.mean(axis=1) for F in (A, *factors)], axis=0).sum())
    W, H = A.T * (positive_scale(data.mean) / mean), column_products(factors)
    return np.asfortranarray(W, data.dtype), H.astype(data.dtype, copy=False)


def successive_projection(data: Data, rank: int) -> list[int]:
    """SPA: r times, the column with the largest residual, then project it out of all columns.

    The residual norms follow from one product with X per pick, so a sparse X stays sparse. Stops early
    when nothing is left to pick.
    """
    norms = data.starts.squared_norms()
    first, picked, basis = float(norms.max(initial=0.0)), list[int](), list[Vector]()
    for _ in range(min(rank, data.shape[1])):
        j = int(np.argmax(norms))
        if norms[j] <= EPS * max(first, 0.0):
            break
        direction = data.starts.column(j)
        for _ in range(2):  # twice: one pass of Gram-Schmidt loses digits
            for previous in basis:
                direction = direction - previous * (previous @ direction)
        length = float(np.linalg.norm(direction))
        if length == 0:
            break
        direction = direction / length
        basis.append(direction)
        picked.append(j)
        norms = np.maximum(
            norms - data.T.starts.dot(direction[:, None].astype(data.dtype))[:, 0].astype(np.float64) ** 2, 0.0
        )
        norms[picked] = 0.0
    return picked


def nonnegative_least_squares(gram: Vector, target: Vector, sweeps: int = 500, tol: float = 1e-8) -> Vector:
    """argmin over H >= 0 of ||X - WH||_F from W'W and W'X, by cyclic coordinate descent over the rows of H."""
    diagonal = np.maximum(np.diag(gram), np.finfo(np.float64).tiny)
    H = np.maximum(target / diagonal[:, None], 0.0)
    # Start from the best multiple of that guess: the columns of W overlap.
    H *= max(float(np.sum(H * target)) / max(float(np.sum(H * (gram @ H))), np.finfo(np.float64).tiny), 0.0)
    first = None
    for _ in range(sweeps):
        moved = 0.0
        for k in range(gram.shape[0]):
            step = np.maximum(H[k] + (target[k] - gram[k] @ H) / diagonal[k], 0.0) - H[k]
            H[k] += step
            moved += float(diagonal[k] * (step @ step))
        first = moved if first is None else first
        # what moved is a sum of squares, so the tolerance is squared too
        if moved <= tol**2 * first:
            break
    return H


def spa_factors(data: Data, rank: int, rng: RandomState) -> tuple[Vector, Vector]:
    """W = X(:, K) with K from SPA, H by nonnegative least squares: with the exact zeros that both leave.

    Where X has fewer independent columns than r, random columns of the right size fill the rest.
    """
    picked = successive_projection(data, rank)
    W = np.empty((data.shape[0], rank))
    for k, j in enumerate(picked):
        W[:, k] = data.starts.column(j)
    missing = rank - len(picked)
    W[:, rank - missing :] = rng.uniform(size=(data.shape[0], missing)) * 2.0 * positive_scale(data.mean)
    gram = W.T @ W
    target = np.asarray(data.T.starts.dot(W.astype(data.dtype)), dtype=np.float64).T
    return W, nonnegative_least_squares(gram, target)


def lifted(W: Vector, H: Vector, lift: float = LIFT) -> tuple[Vector, Vector]:
    """Both factors raised by a fraction of their mean, so that multiplicative steps can leave their zeros."""
    return W + lift * W.mean(), H + lift * max(H.mean(), np.finfo(np.float64).tiny)


def spa_start(data: Data, rank: int, rng: RandomState) -> tuple[Vector, Vector]:
    """SPA's factors, lifted off zero by LIFT of their mean."""
    return lifted(*spa_factors(data, rank, rng))


def nndsvdar_start(data: Data, rank: int, rng: RandomState) -> tuple[Vector, Vector]:
    """NNDSVD (Boutsidis and Gallopoulos 2008); zeros become random values up to 1/100 of a typical entry."""
    return _nonnegative(data, rank, _svd(data, rank, rng), rng)


def _nonnegative(data: Data, rank: int, triplets: Triplets, rng: RandomState) -> tuple[Vector, Vector]:
    """The larger nonnegative part of every singular pair, its zeros filled.

    An entry that is zero but for rounding counts as one: how X is stored, and which BLAS multiplies, would else decide
    which entry gets which random number, from there on for all of them.
    """
    (m, n), (U, S, Vt) = data.shape, triplets
    W, H = np.zeros((m, rank)), np.zeros((rank, n))
    for k in range(len(S)):
        u, v = U[:, k], Vt[k]
        sides = [(np.maximum(s * u, 0.0), np.maximum(s * v, 0.0)) for s in (1.0, -1.0)]
        norms = [(float(np.linalg.norm(left)), float(np.linalg.norm(right))) for left, right in sides]
        sizes = [of_left * of_right for of_left, of_right in norms]
        larger = int(sizes[1] > sizes[0])
        if sizes[larger] > 0:
            (left, right), (of_left, of_right), root = sides[larger], norms[larger], np.sqrt(S[k] * sizes[larger])
            W[:, k], H[k] = root * left / of_left, root * right / of_right
    small = np.sqrt(positive_scale(data.mean) / rank) / 100.0
    for factor, axis in ((W, 0), (H, 1)):
        empty = factor <= ROUNDED * factor.max(axis=axis, keepdims=True)
        factor[empty] = small * rng.uniform(size=int(empty.sum()))
    return W, H


ROUNDED = 2.0**10 * EPS
"""Part of the largest entry of a singular vector up to which one is zero: they come from float64, whatever X is."""

_SPARE = 10  # columns of the range finder beyond those that are wanted


def _svd(data: Data, rank: int, rng: RandomState) -> Triplets:
    """Leading singular triplets by a randomised range finder, from products with X alone."""
    m, n = data.shape
    rank, width = min(rank, m, n), min(rank + _SPARE, m, n)

    def forward(B: Vector) -> Vector:
        return np.asarray(data.starts.dot(B.astype(data.dtype)), dtype=np.float64)

    def backward(B: Vector) -> Vector:
        return np.asarray(data.T.starts.dot(B.astype(data.dtype)), dtype=np.float64)

    # orthogonal after every product: without it small directions drown in the rounding of the largest one
    Q = np.linalg.qr(forward(rng.normal(size=(n, width))))[0]
    for _ in range(4):
        Q = np.linalg.qr(backward(Q))[0]
        Q = np.linalg.qr(forward(Q))[0]
    small_U, S, Vt = np.linalg.svd(backward(Q).T, full_matrices=False)
    return Q @ small_U[:, :rank], S[:rank], Vt[:rank]


def least_loss(data: Data, S: Vector) -> float:
    """Bound D_2(X, WH) from below by the singular values that no matrix of the rank can do without (Eckart and Young).

    Returns 0.0, which bounds nothing, where there is no S, where entries of X are missing or weighted, and where
    rounding leaves less than three digits.
    """
    if not len(S) or data.observed is not None:
        return 0.0
    whole = float(data.starts.squared_norms().sum())
    rest = whole - float(S @ S)
    return 0.5 * rest if rest > BOUND_DIGITS * np.finfo(data.dtype).eps * whole else 0.0


def auto_name(data: Data, rank: int) -> str:
    """NNDSVD where it can say something of every component and its factors fit on this machine, else random."""
    m, n = data.shape
    small = (m + n) * (rank + _SPARE) <= LARGEST_SVD
    return "nndsvdar" if rank <= min(m, n) and small else "random"


def auto_start(data: Data, rank: int, rng: RandomState) -> Start:
    """Start as `auto_name` says."""
    return STARTS[auto_name(data, rank)](data, rank, rng)


STARTS: dict[str, Callable[[Data, int, RandomState], Start]] = {
    "auto": auto_start,
    "random": random_start,
    "spa": spa_start,
    "nndsvdar": nndsvdar_start,
}
"""Names that estimators and the command line take; "custom" stands for a given start."""


def check_factor(name: str, value: ArrayLike, shape: tuple[int, int]) -> Vector:
    """A given factor: any real dtype, right shape, finite, nonnegative."""
    factor = real_numbers(name, value)
    if factor.shape != shape:
        raise ValueError(f"{name} has shape {factor.shape}, but the data and n_components ask for {shape}.")
    if not np.isfinite(factor).all():
        raise ValueError(f"{name} holds NaN or infinite entries: give finite values >= 0.")
    if factor.size and factor.min() < 0:
        i, j = np.unravel_index(int(np.argmin(factor)), shape)
        raise ValueError(f"{name}[{i}, {j}] = {factor[i, j]:g} is negative: factors must be >= 0.")
    return factor


def begun(
    data: Data,
    rank: int,
    init: str,
    rng: RandomState,
    W: ArrayLike | None = None,
    H: ArrayLike | None = None,
    units: tuple[float, float] = (1.0, 1.0),
) -> tuple[Start, Vector]:
    """Make (W, H) to start from, with the leading singular values of X where it took them, (0,) elsewhere.

    They are floored, in the dtype of the data; given ones are multiplied by their units.
    """
    (m, n), S = data.shape, np.empty(0)
    if init != "custom" and init not in STARTS:
        raise ValueError(f"init={init!r} is not known: use one of {[*sorted(STARTS), 'custom']}.")
    if init != "custom" and (W is not None or H is not None):
        raise ValueError(f"W and H are only used with init='custom', but init={init!r}.")
    name = auto_name(data, rank) if init == "auto" else init
    if name == "nndsvdar":
        triplets = _svd(data, rank, rng)
        (W0, H0), S = _nonnegative(data, rank, triplets, rng), triplets[1]
    elif name != "custom":
        W0, H0 = STARTS[name](data, rank, rng)
        if name == "random":  # drawn where the factors live, with their floor
            return (W0, H0), S
    elif W is None or H is None:
        raise ValueError("init='custom' needs both W and H: pass them to fit or fit_transform.")
    else:
        W0, H0 = check_factor("W", W, (m, rank)) * units[0], check_factor("H", H, (rank, n)) * units[1]
    floor = factor_floor(data.mean, rank)
    W0, H0 = np.maximum(W0, floor), np.maximum(H0, floor)
    return (np.asfortranarray(W0, data.dtype), H0.astype(data.dtype, copy=False)), S  # component-first, as in a `Space`
