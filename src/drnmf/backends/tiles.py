"""The sweep in any array library, tile by tile: the oracle that every kernel is tested against, and the fallback for
whatever a compiled backend declines.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

import numpy as np

from drnmf.backends.base import Ask, Data, Layer, Observed, Sweep, zero_of
from drnmf.losses.base import Omega
from drnmf.numerics import (
    Array,
    Library,
    Vector,
    as_float64,
    model_floor,
    namespace,
    of_each_run,
    power_ceiling,
    precision_of,
    to_host,
)


class Tiled(Data, Protocol):
    """A Data that hands out dense tiles of X."""

    @property
    def tile_entries(self) -> int:
        """How many entries of V to hold at a time."""
        ...

    def tile(self, columns: slice) -> Array:
        """Return a range of columns of X, dense, in the dtype of the factors and where they live."""
        ...


def sweep_tiles(data: Tiled, W: Array, H: Array, ask: Ask) -> Sweep:
    """Sweep all tiles of X from left to right: columns of N, P and Q belong to one tile, losses add up in order."""
    xp, zero = namespace(H), zero_of(data, ask.omega)
    found = []
    with np.errstate(over="ignore", invalid="ignore"):  # of a step too far: its losses tell, and it is taken back
        for J in tiles_of(data):
            X, M = (data.tile(J), None) if ask.observed is None else observed_tile(data, J, ask.observed)
            if zero:
                X = xp.where(X == 0, zero, X)
            found.append(sweep_tile(X, M, W, H[:, J], ask))
    losses = sum(tile.losses for tile in found)
    N, P = (xp.concatenate([getattr(tile, name) for tile in found], 2) for name in "NP")
    Q = None if found[0].Q is None else xp.concatenate([tile.Q for tile in found], 1)
    return Sweep(losses, N, P[:0] if ask.shared_alone else P, Q, shared_curvature(W, ask))  # type: ignore[arg-type]


def sample_residuals(data: Any, W: Array, H: Array, most: int = 1 << 20) -> Vector:
    """Return |x - v| of the observed entries of X in float64; of a large X those of some columns, about `most`."""
    m, n = data.shape
    A, B = data.T.space.put(W.T), data.space.put(H)
    columns = np.unique(np.linspace(0, n - 1, min(n, max(1, most // m))).astype(int)).tolist()
    if not data.T.space.whole:
        found: Vector = data.of_rows(partial(_residuals, columns), A.T, B)
        return found
    return _residuals(columns, data, A, B)


def _residuals(columns: list[int], data: Any, A: Array, B: Array) -> Vector:
    """|x - v| of the observed entries of some columns, of X or of a block of its rows."""
    raw, found = data.data if isinstance(data, Layer) else data, []
    for j in columns:
        J = slice(j, j + 1)
        X, seen = raw.tile(J), None
        if data.observed is not None:
            X, M = observed_tile(raw, J, data.observed)
            seen = M > 0
        off = abs(as_float64(X) - as_float64(A.T @ B[:, J]))
        off = off[:, 0] if seen is None else off[seen]
        found.append(to_host(off))
    return np.concatenate(found)


def shared_curvature(W: Array, ask: Ask) -> Array | None:
    """Compute c_2 W'W in float64; None where it is not asked for. Weights of entries leave nothing to share."""
    if ask.shared is None:
        return None
    rows = as_float64(W)
    return of_each_run(ask.shared, rows) * (rows.swapaxes(-1, -2) @ rows)


def tiles_of(data: Tiled) -> list[slice]:
    """Split the columns of X into runs that keep V small."""
    m, n = data.shape
    width = max(1, data.tile_entries // m)
    return [slice(first, min(first + width, n)) for first in range(0, n, width)]


def observed_tile(data: Tiled, J: slice, observed: Observed) -> tuple[Array, Array]:
    """Return a tile of X and its weights, in the dtype of the factors and where they live.

    What is not observed, by a weight of zero or because X is not finite there, is zero in both.
    """
    X, M = data.tile(J), data.space.put(observed.tile(J))
    M = M.astype(data.dtype, copy=False) if isinstance(M, np.ndarray) else M.to(X.device)
    xp = namespace(X)
    seen = (M > 0) & xp.isfinite(X)
    return xp.where(seen, X, 0.0), xp.where(seen, M, 0.0)


def entry_losses(data: Data, X: Array, M: Array, V: Array, omega: Omega) -> list[Array]:
    """Compute the weighted losses of every entry of a tile, those of `observed_tile`."""
    xp, zero = namespace(V), zero_of(data, omega)
    X = xp.where(M > 0, xp.where(X == 0, zero, X) if zero else X, V)
    return [M * loss.terms(X, V) for loss in omega]


def sweep_tile(X: Array, M: Array | None, W: Array, H: Array, ask: Ask) -> Sweep:
    """Apply the formulas of section 3 to one dense tile X = X(:, J), H = H(:, J), with weights M of the entries.

    In a batch W and H have an axis of runs in front: so have losses, and N and P between the slots and (r, n).
    """
    xp, precision = namespace(H), precision_of(H)
    V = xp.clip(W @ H, model_floor(precision), None)
    if M is not None:
        X = xp.where(M > 0, X, V)  # finite terms, whatever their weight of zero is multiplied by
    losses = _sums(X, M, V, ask.omega) if ask.losses else _unknown(xp, H, len(ask.omega))
    N, P = _parts(X, M, W, V, ask)
    Q = None if ask.curvature is None or ask.shared_alone else _curvature(X, M, W, V, ask)
    return Sweep(losses, N, P, Q)


def _unknown(xp: Library, H: Array, count: int) -> Vector:
    """NaN for every loss, of every run in a batch."""
    values: object = [float("nan")] * count if H.ndim == 2 else [[float("nan")] * count] * H.shape[0]
    return np.array(values) if xp is np else xp.tensor(values, dtype=xp.float64, device=H.device)


def _zeros(xp: Library, shape: tuple[int, ...], like: Any) -> Array:
    return np.zeros(shape, like.dtype) if xp is np else like.new_zeros(shape)


def _sums(X: Array, M: Array | None, V: Array, omega: Omega) -> Vector:
    terms = (loss.terms(X, V) for loss in omega)
    weighted = [term if M is None else M * term for term in terms]
    return namespace(V).stack([term.sum() if V.ndim == 2 else term.sum((-2, -1)) for term in weighted], -1)


def _parts(X: Array, M: Array | None, W: Array, V: Array, ask: Ask) -> tuple[Array, Array]:
    """N and P, every loss in a slot of its own or all of them weighted in one."""
    xp, ceiling = namespace(V), power_ceiling(precision_of(V))
    shape = (ask.slots, *V.shape[:-2], W.shape[-1], V.shape[-1])
    N, P = (_zeros(xp, shape, V) for _ in range(2))
    if ask.parts is None:
        return N, P
    for b, loss in enumerate(ask.omega):
        negative, positive = loss.parts(X, V, ceiling)
        if M is not None:
            negative, positive = M * negative, M * positive
        weight = 1.0 if ask.weights is None else of_each_run(ask.weights[b], V)
        slot = b if ask.weights is None else 0
        N[slot] += weight * (W.swapaxes(-1, -2) @ negative)
        P[slot] += weight * (W.swapaxes(-1, -2) @ positive)
    return N, P


def _curvature(X: Array, M: Array | None, W: Array, V: Array, ask: Ask) -> Array:
    """Packed sum_i W_ik W_il sum_b c_b d''_b(X_ij, V_ij)."""
    assert ask.curvature is not None
    xp, ceiling = namespace(V), power_ceiling(precision_of(V))
    total = xp.zeros_like(V)
    for loss, c in zip(ask.omega, ask.curvature, strict=True):
        if loss.free_part == "gram" and M is None:
            continue  # the same in every column: see `shared_curvature`
        total += float(c) * xp.clip(loss.curvature(X, V), None, ceiling)
    if M is not None:
        total = M * total
    k, l = np.tril_indices(W.shape[1])
    return (W[:, k] * W[:, l]).T @ total
