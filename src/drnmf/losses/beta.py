"""Beta-divergences, elementwise, and the names people know them by."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from drnmf.backends.entries import check_structure
from drnmf.numerics import Array

NAMES = {"itakura-saito": 0.0, "kullback-leibler": 1.0, "frobenius": 2.0}
"""Names that stand for a beta, as scikit-learn spells them."""

_SERIES_RADIUS = 1e-2
_BLOCK = 1 << 20


def as_beta(beta: float | str) -> float:
    """The number behind a beta or its name.

    >>> as_beta("kullback-leibler")
    1.0
    """
    if isinstance(beta, str):
        if beta not in NAMES:
            raise ValueError(f"beta={beta!r} is not a known loss: use a number >= 0 or one of {sorted(NAMES)}.")
        return NAMES[beta]
    try:
        value = float(beta)
    except (TypeError, ValueError):
        raise ValueError(f"beta={beta!r} is not a number: use a number >= 0 or one of {sorted(NAMES)}.") from None
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"beta={beta!r} is not a finite number >= 0: the beta-divergences used here need beta >= 0.")
    return value


def as_betas(betas: float | str | Iterable[float | str]) -> tuple[float, ...]:
    """Omega as a tuple of distinct numbers >= 0, in the order given.

    >>> as_betas(("itakura-saito", 1))
    (0.0, 1.0)
    """
    items = (betas,) if isinstance(betas, str) or not isinstance(betas, Iterable) else tuple(betas)
    values = tuple(as_beta(beta) for beta in items)
    if not values:
        raise ValueError("betas is empty: name at least one loss, for example betas=(0, 1).")
    repeated = sorted({value for value in values if values.count(value) > 1})
    if repeated:
        raise ValueError(f"betas={values} holds {repeated[0]:g} twice: every loss must be named once.")
    return values


def label(beta: float) -> str:
    """Short name of a loss for tables and figures.

    >>> label(1.0), label(0.5)
    ('KL', 'beta=0.5')
    """
    return {0.0: "IS", 1.0: "KL", 2.0: "Fro"}.get(beta, f"beta={beta:g}")


def _expm1_over(scale: float, l: Array) -> Array:
    """expm1(scale l) / scale, and its limit l where scale is 0."""
    return np.expm1(scale * l) / scale if scale != 0 else l


def _near_terms(x: Array, l: Array, beta: float) -> Array:
    """x^b [expm1(b l)/b - expm1((b-1) l)/(b-1)]: accurate where y is not far above x.

    Both terms equal l to first order, so near l = 0 the difference is summed as its Taylor series
    sum_k l^k / k! (b^(k-1) - (b-1)^(k-1)), which starts at l^2 / 2.
    """
    a, c = beta, beta - 1.0
    series = np.zeros_like(l)
    for k in range(8, 1, -1):
        series = (series + (a ** (k - 1) - c ** (k - 1)) / math.factorial(k)) * l
    small = np.abs(l) * max(1.0, abs(a), abs(c)) < _SERIES_RADIUS
    return x**beta * np.where(small, series * l, _expm1_over(a, l) - _expm1_over(c, l))


def _far_terms(y: Array, l: Array, beta: float) -> Array:
    """The same with y^b factored out, y^b [-expm1(-b l)/b + e^-l expm1((1-b) l)/(b-1)]: no overflow for y >> x."""
    b, c = beta, beta - 1.0
    second = np.exp(-l) * _expm1_over(-c, l) if abs(c) < 0.5 else (np.exp(-b * l) - np.exp(-l)) / -c
    return y**b * (_expm1_over(-b, l) - second)


def beta_divergence_terms(X: Array, Y: Array, beta: float) -> Array:
    r"""Elementwise d_beta(x|y) in float64 (section 1 of the paper).

    .. math:: d_0 = x/y - \log(x/y) - 1, \quad d_1 = x \log(x/y) - x + y, \quad
              d_\beta = \frac{x^\beta + (\beta-1) y^\beta - \beta x y^{\beta-1}}{\beta(\beta-1)}

    evaluated as x^b [expm1(b l)/b - expm1((b-1) l)/(b-1)], l = log(y/x), which is continuous in beta and
    never negative. A zero of X costs y^b / b (infinite for b = 0), a zero of Y only costs a finite
    x^b / (b (b-1)) when b > 1, and d(0|0) = 0.

    >>> beta_divergence_terms(np.array([1.0]), np.array([3.0]), 2.0)
    array([2.])
    """
    x = np.asarray(X, dtype=np.float64)
    y = np.asarray(Y, dtype=np.float64)
    if beta == 2.0:
        return 0.5 * (x - y) ** 2
    regular = (x > 0) & (y > 0)
    x1 = np.where(regular, x, 1.0)
    y1 = np.where(regular, y, 1.0)
    relative = (y1 - x1) / x1  # y - x is exact when the two are close
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        close = np.abs(relative) < 0.5
        log_ratio = np.where(close, np.log1p(np.where(close, relative, 0.0)), np.log(y1) - np.log(x1))
        far = log_ratio > 1.0
        near_terms = _near_terms(x1, np.where(far, 0.0, log_ratio), beta)
        far_terms = _far_terms(y1, np.where(far, log_ratio, 1.0), beta)
        terms = np.maximum(np.where(far, far_terms, near_terms), 0.0)
    if not regular.all():
        with np.errstate(divide="ignore"):
            no_data = y**beta / beta if beta > 0 else np.full_like(y, np.inf)
            no_model = x**beta / (beta * (beta - 1.0)) if beta > 1 else np.full_like(x, np.inf)
        edge = np.where(x > 0, no_model, np.where(y > 0, no_data, 0.0))
        terms = np.where(regular, terms, edge)
    return terms


def beta_divergence(X: ArrayLike, Y: ArrayLike, beta: float | str) -> float:
    """D_beta(X, Y), the sum of d_beta(x|y) over all entries; X dense or sparse, Y dense.

    Parameters
    ----------
    X : array or SciPy sparse matrix of shape (m, n), nonnegative
    Y : array of the same shape, nonnegative
    beta : number >= 0 or "itakura-saito", "kullback-leibler", "frobenius"

    Examples
    --------
    >>> beta_divergence([[1.0, 2.0]], [[1.0, 4.0]], 2)
    2.0
    """
    value = as_beta(beta)
    model = np.asarray(Y)
    if not np.issubdtype(model.dtype, np.floating):
        model = model.astype(np.float64)
    if sp.issparse(X):
        check_structure(X)
        rows = sp.csr_array(X)
        shape: tuple[int, ...] = rows.shape
    else:
        rows = np.asarray(X)
        shape = rows.shape
    if shape != model.shape:
        raise ValueError(f"X has shape {shape} and Y has shape {model.shape}: they must be the same.")
    if not sp.issparse(X) and model.ndim != 2:
        rows, model = np.atleast_2d(rows), np.atleast_2d(model)
        rows, model = rows.reshape(rows.shape[0], -1), model.reshape(model.shape[0], -1)
    _require_nonnegative(rows.data if sp.issparse(X) else rows, "X")
    _require_nonnegative(model, "Y")
    step = max(1, _BLOCK // max(1, model.shape[1]))
    total = 0.0
    for start in range(0, model.shape[0], step):
        block = rows[start : start + step]
        dense = block.toarray() if sp.issparse(X) else block
        total += float(beta_divergence_terms(dense, model[start : start + step], value).sum())
    return total


def _require_nonnegative(values: Array, name: str) -> None:
    if values.size and not values.min() >= 0:
        raise ValueError(f"{name} has negative or NaN entries: beta-divergences are defined for values >= 0.")


def divergence_curvature(x: Array, y: Array, beta: float) -> Array:
    r"""A second derivative of d_beta(x | y) in y that is never negative, elementwise.

    .. math:: (\beta - 1) y^{\beta-2} + (2 - \beta) x y^{\beta-3} \ (1 \le \beta \le 2), \quad
              y^{\beta-2} \text{ elsewhere}

    The second derivative itself where d_beta is convex in y; elsewhere what it is on average when x scatters around y.

    >>> x, y = np.array([4.0]), np.array([2.0])
    >>> divergence_curvature(x, y, 1.0), divergence_curvature(x, y, 0.0)
    (array([1.]), array([0.25]))
    """
    if beta == 1.0:
        return x / y / y
    if beta == 2.0:
        return np.ones_like(y)
    power = y ** y.dtype.type(beta - 2.0)
    if 1.0 < beta < 2.0:
        return y.dtype.type(beta - 1.0) * power + y.dtype.type(2.0 - beta) * (x / y) * power
    return power
