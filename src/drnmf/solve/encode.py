"""W for rows of X under a fitted H, every row on its own: what `transform` does to a matrix and to its blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from drnmf.algorithms.updates.base import Parts
from drnmf.algorithms.updates.monotone import Monotone
from drnmf.algorithms.updates.newton import Newton
from drnmf.algorithms.updates.simplex_steps import ahead_on_simplex
from drnmf.algorithms.updates.steps import packed, packed_product, quadratic_step, shared_step
from drnmf.backends.base import Ask, Data, Observed, in_unit
from drnmf.backends.core import single_blas
from drnmf.backends.entries import check_structure
from drnmf.backends.observed import stores, weigh
from drnmf.backends.open import open_data
from drnmf.losses.base import Omega, is_frobenius, need_nonzeros_only
from drnmf.numerics import (
    AT_FLOOR,
    ENCODE_ITERATIONS,
    ENCODE_TOLERANCE,
    EPS,
    HALS_PASSES,
    NEWTON_RANK,
    Array,
    Entries,
    Indices,
    Numbers,
    Vector,
    as_float64,
    beside,
    namespace,
)
from drnmf.objective.constraints import normalised
from drnmf.objective.objective import Objective
from drnmf.objective.penalty import BlockPenalties, Bound, Penalties
from drnmf.problem.check import check_entries, check_zeros
from drnmf.problem.device import as_numpy
from drnmf.problem.units import Units, divided
from drnmf.problem.unobserved import Side, column_weights, row_totals

HELD_RANK = 128
"""Components up to which rows that keep most of theirs at zero ask for their curvature."""

HELD = 1e3
"""Slope of an entry of W that has to stay zero, in the largest of its row."""


@dataclass(frozen=True)
class Encoder:
    """A fitted model as a function of rows."""

    components: Array  # (r, n), H
    # objective, weights: the losses and their lambda, in the units of the caller, as the components are
    objective: Objective
    weights: Vector
    # max_iter, tol: of the steps of a row
    max_iter: int
    tol: float
    zeros: str  # what to do with zeros of X under a loss that is infinite there
    consumer: str  # the name that errors give
    mean_row: Vector  # (r,), what a row without any observed entry gets
    observed: Observed | None = None  # weights of the entries of all rows, for blocks of them
    sums: bool = False  # whether every row of W sums to one

    def __call__(self, X: Entries, first_row: int = 0) -> Array:
        """Compute W of shape (rows, r) for a matrix, or for a block of one that begins at `first_row`."""
        check_structure(X)
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float64)
        X = X if sp.issparse(X) else np.asarray(X)
        here = None if self.observed is None else self.observed.within(slice(first_row, first_row + X.shape[0]))
        check_entries(X, self.consumer, first_row, here)
        data = in_unit(weigh(open_data(X, mean=self.objective.mean), here, self.objective.mean))
        return np.ascontiguousarray(self.rows(data, first_row))

    def of_columns(self, columns: Indices) -> Encoder:
        """Return the same for rows of which only some columns are known."""
        return replace(self, components=self.components[:, columns])

    def rows(self, data: Data, first_row: int = 0, first: Array | None = None) -> Array:
        """Compute W for rows that a backend holds already, the first of them numbered for messages.

        first : (rows, r), where to begin, with X on a host; its zeros stay zero
        """
        check_zeros(data, self.objective.omega, self.zeros, first_row)
        units = Units(data.scale, self.objective.references, "W" if self.sums else None)
        H = (self.components * units.right).astype(data.dtype, copy=False)
        omega, references = units.omega(self.objective.omega), units.references(self.objective.omega)
        assert references is not None
        with single_blas(), np.errstate(over="ignore", invalid="ignore"):
            penalties = units.penalties(self.objective.penalties, self.objective.omega)
            objective = Objective(omega, references, data.mean, penalties)
            begin = None if first is None else (first.T * units.left).astype(data.dtype)
            held = begin is not None
            steps = Encoding(H, objective, self.weights, self.max_iter, self.tol, self.sums, begin, held=held)
            A = steps.of(data).T
            W = data.T.space.map(partial(divided, by=units.left), A).T
        unknown = Side.of(data.T)
        if unknown is not None:
            W = unknown.fill(W.T, self.mean_row).T
        if not data.T.space.whole:  # W is in blocks, elsewhere: losses tell what is not finite
            return W
        finite = namespace(W).isfinite(W).all(axis=1)
        if not bool(finite.all()):
            row = first_row + int(np.flatnonzero(~as_numpy(finite))[0])
            raise ValueError(
                f"W of row {row} is not finite: the row and the components leave the range of {data.dtype}. Divide X "
                "and the data of the fit by their mean."
            )
        return W


@dataclass(frozen=True)
class Encoding:
    """Minimise sum_b lambda_b Dbar_b(X, WH) over W >= 0, (m, r), by majorise-minimise steps or coordinate descent.

    No line search and no stopping rule looks at more than one row: a row starts at the multiple of (1, ..., 1)
    with the right sum, and stays once it moves by less than tol. So the same row gives the same answer whatever the
    other rows are. As a function it takes the rows of one Data to W' (r, rows).
    """

    H: Array
    objective: Objective
    weights: Vector
    max_iter: int
    tol: float
    sums: bool = False  # every row sums to one; it starts with all its entries alike
    first: Array | None = None  # W' (r, m) to start from, of X in one piece; None starts as above
    # whether steps of second order are taken, however X is stored; None takes them where the last bit of a row does not
    # depend on the others
    curved: bool | None = None
    held: bool = False  # zeros of `first` stay zero, with X on a host

    def of(self, data: Data) -> Array:
        """Compute W of shape (m, r), wherever X lives."""
        return data.T.space.map_rows(self, data, self.H.shape[0]).T

    def __call__(self, data: Data) -> Array:
        r, first = self.H.shape[0], self.first
        G: Array = data.space.put(self.H).T
        if first is None:
            level = np.full(data.shape[0], 1.0 / r) if self.sums else level_of(data, G, self.objective.mean)
            first = np.repeat(level.astype(data.dtype)[None, :], r, axis=0)
        A: Array = data.T.space.put(first)
        xp, step = namespace(A), self._step(data.T, G, A)
        active, tol = xp.amax(A, axis=0) > 0, self.tol or ENCODE_TOLERANCE
        for _ in range(-(-min(self.max_iter, ENCODE_ITERATIONS) // step.sweeps)):
            stepped, left = step(A)
            A = data.T.space.put(xp.where(active, stepped, A))
            active &= left > tol * xp.amax(stepped, axis=0)
            if not active.any():
                break
        return step.with_zeros(A)

    def _step(self, side: Data, G: Array, first: Array) -> _Alone | _Cycle:
        """The steps of all rows, each on its own; one product with X is enough under beta = 2 alone."""
        objective, sums, curved = self.objective, self.sums, self.curved
        omega, coefficients = objective.omega, objective.coefficients(self.weights)
        support = first > 0 if self.held else None
        penalties = _penalties_of_rows(side, G, objective, self.weights)
        if not is_frobenius(omega):
            floor = EPS / G.shape[1] if sums else EPS * namespace(first).amax(first, axis=0)[None]
            floor = floor if support is None else np.where(support, floor, 0.0).astype(side.dtype)
            if curved is None:
                curved = G.shape[1] <= (NEWTON_RANK if support is None else HELD_RANK) and not _compressed(side, omega)
            return _Cycle(side, G, objective, coefficients, floor, penalties, 1.0 if sums else None, curved, support)
        c = np.ones(1) if penalties is None else coefficients
        once = side.sweep(G, first, Ask(omega, c, False, c, sized=penalties is not None))
        if sums:
            parts = Parts(once.N, once.P, c, omega, 0.0, Q=once.Q, gram=once.gram, penalties=penalties, total=1.0)
            return _Alone(lambda A: normalised(ahead_on_simplex(A, parts, A, 0.0)[0], 1.0, 0.0))
        added = Bound() if penalties is None else penalties.bound(first)
        N, bend = once.N[0] - added.slope(), added.curvature
        N = N if support is None else np.where(support, N, -HELD * abs(N).max(axis=0))
        if (Q := once.Q) is not None:  # the entries have weights: every row has a curvature of its own
            Q = Q if bend is None else Q + packed(bend, Q)
            return _Alone(lambda A: quadratic_step(A, N, packed_product(Q, A), Q, 0.0, HALS_PASSES))
        gram = once.gram if bend is None else once.gram + beside(bend, once.gram)
        return _Alone(lambda A: shared_step(A, N, gram, 0.0, HALS_PASSES))


def level_of(data: Data, G: Array, mean: float) -> Vector:
    """Compute the multiple of (1, ..., 1) that gives every row the sum it has, over its observed entries; (m,)."""
    n, sums = data.shape[1], row_totals(data, mean)
    if data.observed is None:
        return np.where(sums > 0, sums, EPS * n * mean) / float(as_float64(G).sum())
    weight, total = (_on_host(column_weights(data.T, B)).sum(axis=0) for B in (None, G))
    sums = np.where(sums > 0, sums, EPS * weight * mean)  # a row of zeros begins small, any other at its own size
    return np.divide(sums, total, out=np.zeros_like(total), where=(weight > 0) & (total > 0))


def _on_host(parts: Array) -> Vector:
    """Parts (1, r, m) as (r, m) of NumPy in float64."""
    return np.asarray(as_numpy(parts), dtype=np.float64)[0]


@dataclass(frozen=True)
class _Alone:
    """Steps of coordinate descent under beta = 2 alone, whose model is the loss: one is all but the end."""

    descend: Callable[[Array], Array]
    sweeps: int = 1

    def __call__(self, A: Array) -> tuple[Array, Array]:
        """Step, and tell how far every row moved, (m,)."""
        stepped = self.descend(A)
        return stepped, namespace(A).amax(abs(stepped - A), axis=0)

    def with_zeros(self, A: Array) -> Array:
        """Return W', which has its zeros already."""
        return A


@dataclass(frozen=True)
class _Cycle:
    """A step that cannot raise the objective of a row, one of second order, and another of the first kind.

    Steps of the first kind shrink by nearly the same fraction each time, by little where components overlap: a row that
    stops once one is small stops far from its end, also where the fit is exact. The step of second order is as long as
    what is left, and a row takes it if it is nearer to its end afterwards. Where the components are many, so that the
    curvature of a row costs too much, or X is compressed (`_compressed`), an extrapolation takes its place.
    """

    side: Data
    G: Array
    objective: Objective
    coefficients: Vector
    floor: Numbers
    penalties: BlockPenalties | None
    total: float | None
    curved: bool
    support: NDArray[np.bool_] | None = None
    sweeps: int = 3

    def __call__(self, A: Array) -> tuple[Array, Array]:
        """Return where a row goes, (r, m), and how far it may still have to go, (m,)."""
        xp = namespace(A)
        first = self._majorised(A, self._parts(A))
        parts = self._parts(first, self.curved)
        short = self._majorised(first, parts)
        far = self._minimum(first, parts) if self.curved else _further(A, first, short)
        far = xp.clip(far, self.floor, None) if self.total is None else normalised(far, self.total, self.floor)
        there = self._parts(far)
        residual, after = self._residual(first, parts), self._residual(far, there)
        taken = after <= residual
        most = xp.amax(first, axis=0)
        return (
            xp.where(taken, self._majorised(far, there), short),
            xp.where(taken, xp.amax(abs(far - first), axis=0), residual * most),
        )

    def _minimum(self, A: Array, parts: Parts) -> Array:
        """Minimise the model of second order, with real zeros."""
        if self.total is not None:  # moves end by the largest slope of what can still give, and the floor cannot
            A = namespace(A).where(AT_FLOOR * self.floor < A, A, A * 0.0)
        return Newton().minimum(A, replace(parts, floor=0.0))

    def with_zeros(self, A: Array) -> Array:
        """Return W' with exact zeros for what is at the floor; a row that is all at its floor stays."""
        most = AT_FLOOR * self.floor
        low = ~(most < A)
        return namespace(A).where(low & ~low.all(0), A * 0.0, A)

    def _residual(self, A: Array, parts: Parts) -> Array:
        """How far every row is from its end: the smaller of an entry and of its slope, both relative, at most; (m,).

        The size of an entry is what it adds to the model: a small one of a large component may be much of it.
        """
        xp, (N, P) = namespace(A), parts.with_penalties(A)
        slope = P - N - (0.0 if self.total is None else (A * (P - N)).sum(0))
        with np.errstate(divide="ignore", invalid="ignore"):
            size, slope = A * P / xp.amax(A * P, axis=0), xp.where(P > 0, slope / P, 0.0)
        return xp.amax(abs(xp.where(size < slope, size, slope)), axis=0)

    def _majorised(self, A: Array, parts: Parts) -> Array:
        return Monotone().step(A, parts, None)[0]

    def _parts(self, A: Array, curved: bool = False) -> Parts:
        omega, c = self.objective.omega, self.coefficients
        ask = Ask(omega, losses=False, curvature=c if curved else None, sized=True)  # P is looked at
        sweep = self.side.sweep(self.G, A, ask)
        N, P = (sweep.N, sweep.P) if self.support is None else _held(sweep.N, sweep.P, self.support)
        return Parts(N, P, c, omega, self.floor, Q=sweep.Q, gram=sweep.gram, penalties=self.penalties, total=self.total)


def _held(N: Array, P: Array, support: NDArray[np.bool_]) -> tuple[Array, Array]:
    """The parts that keep zeros outside the support: a slope that no step gets over."""
    steep = HELD * (N.max(axis=1, keepdims=True) + P.max(axis=1, keepdims=True))
    return np.where(support, N, 0.0), np.where(support, P, steep).astype(P.dtype, copy=False)


def _compressed(side: Data, omega: Omega) -> bool:
    """Whether sweeps go along stored entries, where the last bit of a row's curvature depends on the rows before."""
    stored = side.observed is not None and stores(side.observed)
    return stored or (side.compressed and need_nonzeros_only(omega))


def _further(A: Array, first: Array, second: Array) -> Array:
    """Go on from two steps to where they lead: squared extrapolation (Varadhan and Roland 2008)."""
    xp, one, bend = namespace(A), first - A, second - 2.0 * first + A
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        length = ((one * one).sum(0) / (bend * bend).sum(0)) ** 0.5
        length = xp.where(length > 1.0, length, 1.0)
        further = A + 2.0 * length * one + length * length * bend
    return xp.where(further > 0.1 * second, further, 0.1 * second)  # a zero could not be left again


def _penalties_of_rows(side: Data, G: Array, objective: Objective, weights: Vector) -> BlockPenalties | None:
    """The penalties that stand by themselves in every row of W, whose bounds are the same at every point."""
    given = objective.penalties
    alone = Penalties(tuple(term for term in given.terms if not term.couples("W")), given.setting)
    of_H = alone.measure(side.T.space, G.T, 0)
    return alone.of(1, (of_H, tuple(np.empty(0) for _ in alone.terms)), objective.factor(weights))
