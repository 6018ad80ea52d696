"""X under weights of its entries, as one more Data: every question is asked under them, and starts see no gap."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np

from drnmf.backends.base import Ask, Data, Layer, Observed, Sweep
from drnmf.backends.observed import Hidden, Ones, Outer, Product, factors_of, pieces, product, stores
from drnmf.backends.tiles import Tiled, observed_tile, tiles_of
from drnmf.losses.base import Omega, is_frobenius
from drnmf.numerics import SAFE_SQUARES, Array, Vector, as_float64, identity_limit, namespace, to_host


@dataclass(frozen=True)
class Sums:
    """A dataclass of sums, which adds field by field."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Tally(Sums):
    """Sums over the observed entries."""

    # total, squares, weight: sums of the weighted entries, of their weighted squares and of the weights
    total: float
    squares: float
    weight: float
    # zeros, count: how many are zero, and how many there are
    zeros: int
    count: int

    def scaled(self, factor: float) -> Tally:
        """The sums over X times a factor."""
        return replace(self, total=self.total * factor, squares=self.squares * factor * factor)

    @property
    def mean(self) -> float:
        """The weighted mean, zero where nothing is observed."""
        return self.total / self.weight if self.weight > 0 else 0.0


def tally_tiles(data: Tiled, observed: Observed) -> Tally:
    """Count and add up the observed entries, tile by tile."""
    found = Tally(0.0, 0.0, 0.0, 0, 0)
    for J in tiles_of(data):
        X, M = (as_float64(part) for part in observed_tile(data, J, observed))
        with np.errstate(over="ignore"):  # too large in this unit: made again in that of the fit
            total, squares, weight = (float(part.sum()) for part in (M * X, M * X * X, M))
        found = found + Tally(total, squares, weight, int(((X == 0) & (M > 0)).sum()), int((M > 0).sum()))
    return found


@dataclass(frozen=True, eq=False)
class Weighted(Layer):
    """A Data and the weights of its entries. For starts alone gaps hold their row's mean times their column's over X's.

    Attributes
    ----------
    data : X, its `mean` that of the weighted X
    observed : the weights
    tally : sums over the observed entries
    """

    observed: Observed
    tally: Tally

    @classmethod
    def of(cls, data: Any, observed: Observed, tally: Tally, mean: float | None) -> Weighted:
        return cls(replace(data, mean=tally.mean if mean is None else mean), observed, tally)

    def scaled(self, factor: float) -> Weighted:
        data = self.data.scaled(factor)
        safe = 1.0 / SAFE_SQUARES < self.tally.squares < SAFE_SQUARES
        return Weighted(data, self.observed, self.tally.scaled(factor) if safe else data.tally(self.observed))

    @property
    def compressed(self) -> bool:
        return bool(self.data.compressed) and not stores(self.observed)

    zeros = property(attrgetter("tally.zeros"))
    count = property(attrgetter("tally.count"))

    @cached_property
    def T(self) -> Weighted:
        flipped = Weighted(self.data.T, self.observed.T, self.tally)
        flipped.__dict__["T"] = self
        return flipped

    def weigh(self, observed: Observed, mean: float | None) -> Data:
        both = product(self.observed, observed)
        assert both is not None
        return self.data.weigh(both, mean)

    def sweep(self, W: Array, H: Array, ask: Ask) -> Sweep:
        scaled = ask.sized and ask.curvature is not None
        alone = ask.observed is None  # not one of several blocks, which have to answer alike
        if alone and self.separable and not scaled and is_frobenius(ask.omega):
            return self._least_squares(W, H, ask)
        return self.under_weights(W, H, ask)

    def under_weights(self, W: Array, H: Array, ask: Ask) -> Sweep:
        observed = others_of(self.observed) if ask.held_out else self.observed
        return self.data.sweep(W, H, replace(ask, observed=observed))

    @cached_property
    def separable(self) -> bool:
        """Whether M = u v' and nothing else, on the host, so that beta = 2 alone keeps its short cuts."""
        outer = all(isinstance(kind, Outer) for kind in factors_of(self.observed))
        return outer and self.data.observed is None and isinstance(_beside(np.zeros(1), self.data), np.ndarray)

    def _least_squares(self, W: Array, H: Array, ask: Ask) -> Sweep:
        r"""Sweep under beta = 2 alone by one product with X.

        .. math:: N = W^T \mathrm{diag}(u) X \mathrm{diag}(v), \quad P = G H \mathrm{diag}(v), \quad
                  G = W^T \mathrm{diag}(u) W

        Where the curvature is asked for, that of column j is v_j G: divided by v_j the problem of a column is the same,
        and G is shared. N comes divided by v_j then.
        """
        weights = pieces(self.observed)
        assert weights is not None
        u, v = (np.asarray(part, np.float64) for part in (weights.rows, weights.columns))
        rows = u[:, None] * W
        plain = Ask(ask.omega, "separate", False, np.ones(1))
        N = self.data.sweep(rows.astype(self.dtype), H, plain).N
        G, weight = rows.T @ as_float64(W), 1.0 if ask.weights is None else float(ask.weights[0])
        losses = self._identity(W, H, N[0], G, v, ask) if ask.losses else np.full(1, np.nan)
        N = (weight * N).astype(self.dtype)[: ask.slots]
        if ask.curvature is not None:
            return Sweep(losses, N, N[:0], None, float(ask.curvature[0]) * G)
        P = (weight * (G @ H) * v).astype(self.dtype)[None]
        return Sweep(losses, (N * v).astype(self.dtype), P[: ask.slots])

    def _identity(self, W: Array, H: Array, N: Array, G: Vector, v: Vector, ask: Ask) -> Vector:
        """1/2 (sum m x^2 - 2 <H, N> + <G, H diag(v) H'>), or entry by entry where that has lost its digits."""
        B = as_float64(H) * v
        loss = 0.5 * (self.tally.squares - 2.0 * float(np.vdot(B, N)) + float(np.vdot(B, G @ H)))
        if loss > identity_limit(self.dtype) * self.tally.squares:
            return np.array([loss])
        return self.under_weights(W, H, Ask(ask.omega, None)).losses

    def tile(self, columns: slice) -> Array:
        """Return a range of columns with the gaps filled."""
        X, M = observed_tile(self.data, columns, self.observed)
        rows, level = self._means
        filled: Array = namespace(X).where(M > 0, X, rows[:, None] * level[None, columns])
        return filled

    @cached_property
    def _means(self) -> tuple[Array, ...]:
        """Means of the rows, and of the columns over that of X; those of X where a row or column is not observed."""
        sums = [np.zeros(size) for size in (self.shape[0], self.shape[0], self.shape[1], self.shape[1])]
        for J in tiles_of(self.data):
            X, M = observed_tile(self.data, J, self.observed)
            seen = as_float64(M > 0)
            X = as_float64(X) * seen
            for total, part in zip(sums, (X.sum(1), seen.sum(1)), strict=False):
                total += to_host(part)
            sums[2][J], sums[3][J] = to_host(X.sum(0)), to_host(seen.sum(0))
        mean = sums[0].sum() / max(sums[1].sum(), 1.0)
        rows, columns = (np.where(n > 0, x / np.maximum(n, 1.0), mean) for x, n in (sums[:2], sums[2:]))
        return tuple(_beside(part, self.data) for part in (rows, columns / (mean if mean > 0 else 1.0)))

    @property
    def starts(self) -> Self:
        return self

    @cached_property
    def _filled(self) -> Any:
        return self.data.filled(self.observed)

    def column(self, j: int) -> Vector:
        if self._filled is not None:
            return self._filled.column(j)
        return np.asarray(to_host(self.tile(slice(j, j + 1))[:, 0]), dtype=np.float64)

    def dot(self, B: Array) -> Array:
        if self._filled is not None:
            return self._filled.dot(B)
        total: Any = 0
        for J in tiles_of(self.data):
            total = total + self.tile(J) @ self.space.put(B[J])
        return self.space.get(total)

    def squared_norms(self) -> Vector:
        if self._filled is not None:
            return self._filled.squared_norms()
        return np.concatenate([to_host((as_float64(self.tile(J)) ** 2).sum(0)) for J in tiles_of(self.data)])

    def digest(self) -> str:
        return hashlib.sha256((self.data.digest() + self.observed.digest()).encode()).hexdigest()

    def draw(self, rank: int, rng: np.random.RandomState, scale: Callable[[float], float], floor: float) -> Any:
        return self.data.starts.draw(rank, rng, scale, floor)


def _beside(part: Vector, data: Data) -> Array:
    """Take a vector to where the tiles are, in the dtype of the factors."""
    return data.space.put(part.astype(data.dtype)[None])[0]


class Unweighted:
    """What every X does whose entries have no weights yet, whatever its layout and device."""

    compressed: ClassVar[bool] = False

    @property
    def starts(self) -> Self:
        return self

    def draw(
        self: Any, rank: int, rng: np.random.RandomState, scale: Callable[[float], float], floor: float
    ) -> tuple[Array, Array]:
        (m, n), dtype = self.shape, self.dtype
        W, H = rng.uniform(size=(m, rank)), rng.uniform(size=(rank, n))
        root = scale(float(W.sum(axis=0) @ H.sum(axis=1)) / (m * n))
        for F in (W, H):
            F *= root
            np.maximum(F, floor, out=F)
        return np.asfortranarray(W, dtype), H.astype(dtype, copy=False)  # component-first, as `put` wants W' and H

    def tally(self: Any, observed: Observed) -> Tally:
        """Count and add up the entries that are observed."""
        return tally_tiles(self, observed)

    def filled(self, observed: Observed) -> Any:
        """Return X with its gaps filled (`backends.host.stored.FilledSparse`), for starts; None where tiles serve."""
        return None

    def weigh(self: Any, observed: Observed, mean: float | None) -> Data:
        placed = observed.placed(self.beside)
        return Weighted.of(self, placed, self.tally(placed), mean)


class UnweightedDense(Unweighted):
    """A dense X, multiplied by its scale as it is read; entries that are not finite are not observed."""

    @property
    def count(self: Any) -> int:
        return int(self.shape[0] * self.shape[1] - self.missing)

    @property
    def observed(self: Any) -> Observed | None:
        return Ones(self.shape) if self.missing else None

    def scaled(self: Any, factor: float) -> Any:
        return replace(self, mean=self.mean * factor, scale=self.scale * factor)


class UnweightedSparse(Unweighted):
    """A sparse X. What is not stored is a zero, unless the stored entries alone (`only`) are observed."""

    @property
    def compressed(self: Any) -> bool:  # type: ignore[override]
        return self.only is None

    @property
    def count(self: Any) -> int:
        return int(self.shape[0] * self.shape[1] if self.only is None else self.stored)

    @property
    def observed(self: Any) -> Observed | None:
        return None if self.only is None else Ones(self.shape)


def others_of(observed: Observed) -> Observed:
    """Return the weights of the entries that a `HeldOut` leaves out; weights without one are refused."""
    kinds = factors_of(observed)
    if not any(isinstance(kind, Hidden) for kind in kinds):
        raise ValueError("No entries of X are held out: give entry_weight=HeldOut(fraction, seed).")
    return Product(tuple(kind.others if isinstance(kind, Hidden) else kind for kind in kinds))


def shares_curvature(data: Data) -> bool:
    """Tell whether all columns share the curvature of beta = 2: no weights, or those of rows times those of columns."""
    if data.observed is None:
        return True
    while isinstance(data, Layer) and not isinstance(data, Weighted):
        data = data.data
    return isinstance(data, Weighted) and data.separable


def taken_apart(data: Data) -> tuple[Data, Vector | float, Vector | float] | None:
    """Return X without weights, and those of its rows and columns on the host; None where they are no u v'."""
    if data.observed is None:
        return data, 1.0, 1.0
    if not isinstance(data, Weighted) or not all(isinstance(kind, Outer) for kind in factors_of(data.observed)):
        return None
    weights = pieces(data.observed)
    if weights is None or data.data.observed is not None:
        return None
    u, v = (np.asarray(to_host(part), np.float64) for part in (weights.rows, weights.columns))
    return data.data, u, v


def held_out_losses(data: Data, W: Array, H: Array, omega: Omega) -> Vector:
    """Compute the losses (p,) on the entries that a `HeldOut` weight leaves out, under the other weights."""
    A, B = data.T.space.put(W.T), data.space.put(H)
    return data.space.read(data.sweep(A.T, B, Ask(omega, parts=None, held_out=True)))[0].losses
