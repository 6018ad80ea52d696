"""Which components a row needs: those are dropped whose loss costs less likelihood than they are worth.

A row begins with all components. They are dropped one by one, the one that costs least first, while the log-likelihood
falls by less than a price, half log(observed entries of the row) + log(number of components); then others are tried in
addition, at the same price. Whatever is compared is fitted to its end first. All rows go side by side, and every trial
is a row of one call of `Encoder.rows`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from drnmf.backends.observed import HeldOut
from drnmf.numerics import ENCODE_TOLERANCE, NEWTON_RANK, Array, Vector, power_ceiling
from drnmf.problem.problem import Problem
from drnmf.problem.receive import Received
from drnmf.selection.likelihood.grid import Grid
from drnmf.selection.likelihood.masses import KnownNoise, Noise, PoissonNoise
from drnmf.solve.encode import Encoder

Flags = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
Places = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

LITTLE, NOTHING = 1e-4, 1e-7
"""Share of a row's largest contribution below which one is left out from the start, to be added again where it is
needed, and below which it counts as zero."""

LIFTED = 1e-3
"""Share of the largest contribution that every component of a support has where a trial begins: none is stuck."""

TRIED = 3
"""Components of a row that are tried at once: those that seem to cost least, or to gain most."""

ROUNDS = 4
"""How often a row is looked at again after a component was added to it."""

STEPS, DOUBLINGS, SETTLED = 12, 7, 1e-3
"""So many steps are taken before rows are looked at, twice as many the next time, so often at most; a row whose
log-likelihood rose by less is at its end."""

TOGETHER = 40
"""Components that the rows of a block have together, where components are many."""

RIDGE = 1e-9
"""Part of the curvature that is added to it: components may be alike."""

NOTHING = 1e-100
"""Model of an entry at least, in the unit of the fit: of one that no component of a row has, curvatures stay finite."""

BLOCK = 1 << 21
"""Entries of X that are tried at once."""


@dataclass(frozen=True)
class Supports:
    """Rows of X, their components, and how likely contributions make them."""

    problem: Problem  # X on a host, whose rows they are
    given: Received  # the rows
    encoder: Encoder  # what fits contributions, in the units of the caller
    # noise, parameter, grid: what makes entries likely; the parameter is that of the noise
    noise: Noise
    parameter: float
    grid: Grid

    def assigned(self, dense: Array) -> tuple[Array, Vector]:
        """Find contributions with real zeros, and the log-likelihood of every row.

        `dense` are those of all components, fitted to their end. Rows of which nothing is observed stay as they are.
        """
        W = np.where(dense > LITTLE * dense.max(axis=1, keepdims=True), dense, 0.0).astype(np.float64)
        W[self._empty] = 0.0
        rows: Places = np.flatnonzero((W > 0).any(axis=1) & (self.price < np.inf))
        state = _State(W, np.full(W.shape[0], -np.inf))
        state.take(rows, *self._fitted(rows, W[rows]))
        for _ in range(ROUNDS):
            self._drop(state, rows)
            rows = self._add(state, rows)
            if not rows.size:
                break
        return state.W.astype(dense.dtype), state.likelihood

    def within(self, W: Array) -> Array:
        """Fit contributions to their end where they are not zero."""
        rows: Places = np.flatnonzero((W > 0).any(axis=1) & (self.price < np.inf))
        found = W.copy()
        found[rows] = self._fitted(rows, np.asarray(W[rows], dtype=np.float64))[0]
        return found

    @cached_property
    def price(self) -> Vector:
        """What a component must gain in every row, (m,); infinite where nothing is observed."""
        entries = self._counts[0]
        free = np.log(self.encoder.components.shape[0])
        return np.where(entries > 0, 0.5 * np.log(np.maximum(entries, 1)) + free, np.inf)

    @property
    def _empty(self) -> Flags:
        """Rows that hold nothing but zeros."""
        entries, full = self._counts
        return np.asarray((entries > 0) & (full == 0))

    @cached_property
    def _counts(self) -> tuple[Vector, Vector]:
        """How many entries of every row are observed, and how many of those are not zero."""
        every = [(weight > 0, x != 0) for x, weight in self._tiles(np.arange(self.given.X.shape[0]))]
        entries, full = (np.concatenate([part[k].sum(axis=1) for part in every]) for k in (0, 1))
        return entries, full

    def _drop(self, state: _State, rows: Places) -> None:
        """Drop components one by one, the cheapest first, while each costs less than the price.

        Those are tried that seem to cost least. What was too dear stays so, most of the time: it is tried again when
        nothing else is left to drop.
        """
        dear, fresh = np.zeros(state.W.shape, dtype=bool), np.ones(state.W.shape[0], dtype=bool)
        while rows.size:
            support = state.W[rows] > 0
            left = support & ~dear[rows] & (support.sum(axis=1) > 1)[:, None]
            tried = _first(np.where(left, self._costs(rows, state.W[rows]), np.inf), TRIED)
            at, k = np.nonzero(tried)
            i = rows[at]
            start = state.W[i]
            start[np.arange(i.size), k] = 0.0
            W, likelihood = self._fitted(i, start)
            fall = np.full(tried.shape, np.inf)
            fall[at, k] = state.likelihood[i] - likelihood
            dear[rows] |= tried & (fall > self.price[rows, None])
            best = np.argmin(fall, axis=1)
            cheap = fall[np.arange(rows.size), best] <= self.price[rows]
            trial = np.zeros(tried.shape, dtype=np.int64)
            trial[at, k] = np.arange(i.size)
            taken = trial[cheap, best[cheap]]
            state.take(rows[cheap], W[taken], likelihood[taken])
            fresh[rows[cheap]] = False
            more = cheap | (left & ~tried).any(axis=1)
            again = ~more & ~fresh[rows]
            fresh[rows[again]] = True
            dear[rows[again]] = False
            rows = rows[more | again]

    def _add(self, state: _State, rows: Places) -> Places:
        """Add the component that gains most, where that is more than the price; returns the rows that changed."""
        promise = self._promise(rows, state.W[rows])
        at, k = np.nonzero(_first(np.where(promise > 0, -promise, np.inf), TRIED))
        i = rows[at]
        start = state.W[i]
        start[np.arange(i.size), k] = LIFTED * start.max(axis=1)
        W, likelihood = self._fitted(i, start)
        gain = np.full(rows.size, -np.inf)
        np.maximum.at(gain, at, likelihood - state.likelihood[i])
        best = (likelihood - state.likelihood[i] == gain[at]) & (gain[at] > self.price[i])
        state.take(i[best], W[best], likelihood[best])
        return np.unique(i[best])

    def _fitted(self, rows: Places, start: Vector) -> tuple[Vector, Vector]:
        """Fit rows within the supports of their starts, to the end, and tell how likely they are then."""
        least = LIFTED * start.max(axis=1, keepdims=True)
        W, likelihood = np.where(start > 0, np.maximum(start, least), 0.0), np.full(rows.size, -np.inf)
        moving = np.arange(rows.size)
        for steps in (STEPS << k for k in range(DOUBLINGS)):
            W[moving], after = self._stepped(rows[moving], W[moving], steps)
            risen, likelihood[moving] = after - likelihood[moving], after
            moving = moving[risen > SETTLED]
            if not moving.size:
                break
        return W, likelihood

    def _stepped(self, rows: Places, W: Vector, steps: int) -> tuple[Vector, Vector]:
        """Take some steps from contributions whose zeros stay, and tell how likely the rows are then."""
        encoder = replace(self.encoder, max_iter=steps, tol=ENCODE_TOLERANCE)
        found, likelihoods = np.empty(W.shape), np.empty(W.shape[0])
        for at in self._alike(W):
            data = self.problem.entries(self.given.rows(rows[at]), self.encoder.objective.mean)
            used, stepped = np.flatnonzero(W[at].any(axis=0)), np.zeros((at.size, W.shape[1]))
            fewer = replace(encoder, components=encoder.components[used], mean_row=encoder.mean_row[used])
            stepped[:, used] = fewer.rows(data, first=W[at][:, used])
            stepped = np.where(stepped > NOTHING * stepped.max(axis=1, keepdims=True), stepped, 0.0)
            found[at], likelihoods[at] = stepped, self._likelihoods(rows[at], stepped)
        return found, likelihoods

    def _alike(self, W: Vector) -> Iterator[Places]:
        """Yield blocks of rows, of many components those with similar ones: a step works with what its rows have."""
        count, step = W.shape[0], max(1, BLOCK // int(self.given.X.shape[1]))
        if W.shape[1] <= NEWTON_RANK:
            yield from (np.arange(first, min(first + step, count)) for first in range(0, count, step))
            return
        order = np.lexsort(np.argsort(-W, axis=1, kind="stable")[:, 2::-1].T)
        used, first = np.zeros(W.shape[1], dtype=bool), 0
        for at, i in enumerate(order):
            more = used | (W[i] > 0)
            if at > first and (at - first == step or more.sum() > max(TOGETHER, (W[i] > 0).sum())):
                yield order[first:at]
                first, more = at, W[i] > 0
            used = more
        yield order[first:]

    def _likelihoods(self, rows: Places, W: Vector) -> Vector:
        """Compute the log-likelihood of rows under contributions."""
        if sp.issparse(self.given.X) and self.given.observed is None and isinstance(self.noise, PoissonNoise):
            return stored_likelihoods(self.given.rows(rows).X, W, self._components, self.grid)
        ((x, weight),) = self._tiles(rows)
        seen = weight > 0
        mu = np.maximum(W @ self._components, np.finfo(np.float64).tiny)
        known = self.given.known
        noise = KnownNoise(weight[seen] ** -0.5) if known else self.noise
        masses = np.zeros(x.shape)
        masses[seen] = noise.log_mass(x[seen], mu[seen], self.grid)(self.parameter)
        return np.asarray((masses if known else masses * weight).sum(axis=1))

    def _costs(self, rows: Places, W: Vector) -> Vector:
        """Estimate what it costs to drop each component of rows, by the curvature where they stand, (rows, r)."""
        objective, H, first = self.encoder.objective, self._components, 0
        c, most = objective.coefficients(self.encoder.weights), max(1, int((W > 0).sum(axis=1).max(initial=1)))
        costs = np.full(W.shape, np.inf)
        for x, weight in self._tiles(rows, most):
            at = slice(first, first + x.shape[0])
            v, first = np.maximum(W[at] @ H, NOTHING), at.stop
            bend = sum(part * loss.curvature(x, v) for loss, part in zip(objective.omega, c, strict=True)) * weight
            own = np.argsort(-W[at], axis=1, kind="stable")[:, :most]
            size = np.take_along_axis(W[at], own, axis=1)
            G = np.where((size > 0)[:, :, None], H[own], 0.0)
            Q = (G * bend[:, None, :]) @ G.transpose(0, 2, 1)
            level = np.einsum("bkk->bk", Q).max(axis=1)[:, None]
            ridge = np.where(size > 0, RIDGE * level, np.maximum(level, 1.0))
            inverse = np.linalg.inv(Q + ridge[:, :, None] * np.eye(most))
            spread = np.maximum(np.einsum("bkk->bk", inverse), np.finfo(np.float64).tiny)
            np.put_along_axis(costs[at], own, np.where(size > 0, size**2 / spread, np.inf), axis=1)
        return costs

    def _promise(self, rows: Places, W: Vector) -> Vector:
        """Estimate how far the loss falls with each component in addition; none where it rises, or is there already."""
        objective, H, first = self.encoder.objective, self._components, 0
        c, promise = objective.coefficients(self.encoder.weights), np.zeros((rows.size, self._components.shape[0]))
        for x, weight in self._tiles(rows):
            at = slice(first, first + x.shape[0])
            v, first = np.maximum(W[at] @ H, NOTHING), at.stop
            slope, bend = np.zeros(promise[at].shape), np.zeros(promise[at].shape)
            for loss, part in zip(objective.omega, c, strict=True):
                negative, positive = loss.parts(x, v, power_ceiling(x.dtype))
                slope += part * ((weight * (positive - negative)) @ H.T)
                bend += part * ((weight * loss.curvature(x, v)) @ (H * H).T)
            # 1e-300, because both values of `where` are computed
            promise[at] = np.where((slope < 0) & (W[at] == 0) & (bend > 0), slope**2 / np.maximum(bend, 1e-300), 0.0)
        return promise

    @cached_property
    def _components(self) -> Vector:
        return np.asarray(self.encoder.components, dtype=np.float64)

    def _tiles(self, rows: Places, times: int = 1) -> Iterator[tuple[Vector, Vector]]:
        """Yield entries of rows and their weights, dense float64; what is not observed is zero and weighs nothing.

        times : how many numbers an entry will need
        """
        step = max(1, BLOCK // (int(self.given.X.shape[1]) * times))
        for first in range(0, rows.size, step):
            part = self.given.rows(rows[first : first + step])
            x = np.asarray(part.X.toarray() if sp.issparse(part.X) else part.X, dtype=np.float64)
            observed = part.observed
            assert not isinstance(observed, HeldOut)
            tile = np.ones(1) if observed is None else observed.tile(slice(0, x.shape[1]))
            weight = np.where(np.isnan(x), 0.0, np.asarray(tile, dtype=np.float64))
            yield np.where(weight > 0, x, 0.0), weight


def stored_likelihoods(X: object, W: Vector, H: Vector, grid: Grid) -> Vector:
    """Compute the log-likelihood of the rows of sparse counts: zeros cost their means, which are summed at once."""
    entries = sp.coo_array(X)
    mu = np.einsum("kr,rk->k", W[entries.row], H[:, entries.col])
    mu = np.maximum(mu, np.finfo(np.float64).tiny)
    masses = PoissonNoise().log_mass(entries.data.astype(np.float64), mu, grid)(math.nan) + mu / (grid.unit or 1.0)
    sums = np.bincount(entries.row, masses, minlength=W.shape[0])
    return np.asarray(sums - W @ H.sum(axis=1) / (grid.unit or 1.0))


def _first(values: Vector, count: int) -> Flags:
    """Mark the smallest finite values of every row, so many at most."""
    order = np.argsort(values, axis=1, kind="stable")[:, :count]
    marked = np.zeros(values.shape, dtype=bool)
    np.put_along_axis(marked, order, True, axis=1)
    return marked & np.isfinite(values)


@dataclass
class _State:
    """Contributions, and how likely they make every row."""

    W: Vector
    likelihood: Vector

    def take(self, rows: Places, W: Vector, likelihood: Vector) -> None:
        self.W[rows], self.likelihood[rows] = W, likelihood
