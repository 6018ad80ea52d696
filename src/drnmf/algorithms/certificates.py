r"""How far a point is from optimal, in numbers that do not change with the scale of X."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from drnmf.backends.base import Ask, Sweep
from drnmf.backends.modes import Factors, Modes
from drnmf.numerics import ACTIVE_TOLERANCE, Array, Vector, beside, namespace
from drnmf.objective import simplex
from drnmf.objective.constraints import UNCONSTRAINED, Constraints
from drnmf.objective.objective import Objective
from drnmf.objective.penalty import BlockPenalties

_TRIALS, _MOST_SEARCHED = 12, 4
"""Of a search for multipliers, and in how many variables: in more, it gains 1 to 3 % over the lambda of a run."""
_LEAST_GAIN, _SHORTEST = 1e-3, 0.05
"""Of the residual in a trial, and of a step of least squares: with less the search is over."""
_NEARLY_FLAT = 1e-5
"""Of both parts of a slope: smaller ones count as that, since their weight is the inverse."""
Looked = tuple[float, Vector, Vector]
"""Violation / scale at some multipliers, the matrix of its least squares, and what each loss has in the scale."""
_BLOCK = 1 << 16  # entries of a factor that are looked at together


@dataclass(frozen=True)
class Certificate:
    """What is known about a point.

    gap : max Dbar - lambda'Dbar, zero when lambda answers the factors best
    stationarity : the residual of the optimality conditions of sum lambda_b Dbar_b, smallest over lambda on the
        losses that are (nearly) largest, or at the lambda of the run where these are many; zero at a stationary point
        of the maximum, of order one far from it
    multipliers : the lambda that attains it
    """

    gap: float
    stationarity: float
    multipliers: Vector


@dataclass(frozen=True)
class Residual:
    r"""(violation, scale) of the optimality conditions of one block, F >= 0, P - N >= 0, F (P - N) = 0.

    .. math:: \| P \circ (F - [F - s \circ (P - N)]_+) \|_1, \quad \langle F, P + N \rangle, \quad
              s = \max(F, mean F) / P

    The projected gradient in the metric of the multiplicative step: an entry at zero that wants to grow counts with
    the size of a mean entry. Both are sums over entries, so pieces of F add up.

    Fixed rows do not count. Where columns sum to one, P - N has the multiplier that suits each column best added.

    coefficients : of lambda, for the parts of every beta
    mean : of all entries of the block
    fixed : how many rows, the first ones, do not move
    sums : whether every column sums to one
    penalties : the penalties as a function of the block
    searched, units : the losses whose multipliers are looked for, and what of the coefficients no lambda changes. The
        violation is nearly a sum of absolute values of sums of their slopes: beside both numbers stand then the matrix
        of its reweighted least squares in the multipliers, (p, p), and what each loss has in the scale, (p,)
    """

    coefficients: Vector
    mean: float
    fixed: int = 0
    sums: bool = False
    penalties: BlockPenalties | None = None
    searched: tuple[int, ...] = ()
    units: Vector | None = None

    def __call__(self, F: Array, N: Array, P: Array) -> Vector:
        c, penalties, every = self.coefficients, self.penalties, (N, P)
        if penalties is not None:
            down, up = penalties.bound(F).parts(F)
            N, P, c = (_weighed(c, N) + down)[None], (_weighed(c, P) + up)[None], np.ones(1)
        F, N, P = F[self.fixed :], N[:, self.fixed :], P[:, self.fixed :]
        p = len(self.searched)
        found = np.zeros(2 + p * p + p)
        for at in _column_blocks(F):  # what is made on the way is as large as F each time
            sums, slope, weight = self._violation(F[:, at], _weighed(c, N[..., at]), _weighed(c, P[..., at]))
            found[:2] += sums
            if p:
                N_of, P_of = (part[list(self.searched), self.fixed :, at] for part in every)
                found[2:] += self._least_squares(F[:, at], N_of, P_of, slope, weight)
        return found

    def _least_squares(self, F: Array, N: Array, P: Array, slope: Array, weight: Array) -> Vector:
        """The matrix and the scales over some columns, from the parts of single losses; `slope` is that of all."""
        assert self.units is not None
        p, slopes, scales = len(N), P - N, (F * (P + N)).reshape(len(N), -1).sum(-1)
        if self.sums:
            slopes = slopes - (F * slopes).sum(1)[:, None] / F.sum(0)
        own = beside(self.units, F)[:, None, None] * slopes
        if self.penalties is not None:  # which count in full whatever lambda is
            own = own + (slope - _weighed(self.coefficients[list(self.searched)], slopes))
        matrix = (own * weight).reshape(p, -1) @ own.reshape(p, -1).T
        return np.concatenate([np.array(matrix.tolist()).ravel(), self.units * np.array(scales.tolist())])

    def _violation(self, F: Array, N: Array, P: Array) -> tuple[Vector, Array, Array]:
        """Both sums over some columns, the slopes, and the weights of their squares: those of entries that may move."""
        xp = namespace(F)
        known = P > 0  # where powers of V underflow the parts say nothing, and the entry counts as it stands
        size = xp.clip(F, self.mean, None)
        step = xp.where(known, size / xp.where(known, P, 1.0), 0.0)
        slope = P - N
        if self.sums and F.shape[0]:
            slope = slope - (F * slope).sum(0) / F.sum(0)
        moved = xp.clip(F - step * slope, 0.0, None)
        violation, scale = (P * abs(F - moved)).sum(dtype=xp.float64), (F * (P + N)).sum(dtype=xp.float64)
        # each entry by itself, so that nothing depends on how columns are split
        least = xp.where(known, xp.maximum(abs(slope), _NEARLY_FLAT * (P + N)), 1.0)
        return np.array([float(violation), float(scale)]), slope, xp.where(known & (moved > 0), size / least, 0.0)


def _column_blocks(F: Array) -> Iterator[slice]:
    """Factors of columns of at most _BLOCK entries; on a GPU one block, since each is waited for."""
    width = max(1, _BLOCK // max(F.shape[0], 1)) if isinstance(F, np.ndarray) else F.shape[1]
    return (slice(at, at + width) for at in range(0, F.shape[1], width))


def entry_sum(F: Array) -> Vector:
    """Sum all entries in float64."""
    return np.asarray(float(F.sum(dtype=namespace(F).float64)))


def _weighed(c: Vector, parts: Array) -> Array:
    """sum_b c_b parts_b where the parts are."""
    if isinstance(parts, np.ndarray):
        return np.tensordot(c, parts, 1)
    return sum(float(w) * part for w, part in zip(c, parts, strict=True))


def certify(
    data: Modes,
    blocks: Factors,
    objective: Objective,
    weights: Vector,
    losses: Vector,
    constraints: Constraints = UNCONSTRAINED,
) -> Certificate:
    """Gap and stationarity at a point; one sweep for each block."""
    p, scaled = len(objective.omega), objective.scaled(losses)
    ask, penalties, spaces = Ask(objective.omega, losses=False), objective.penalties, data.spaces
    blocks = tuple(space.put(F) for space, F in zip(spaces, blocks, strict=True))
    measures = tuple(penalties.measure(spaces[k], F, k, len(blocks)) for k, F in enumerate(blocks))
    largest = float(scaled.max())  # below zero where a regret is that of a part that is better off than alone
    active = np.flatnonzero(scaled >= largest * (1.0 - np.copysign(ACTIVE_TOLERANCE, largest)))
    if active.size > 1 or spaces[0].deferred:  # looked at many times, or better waited for together
        swept: tuple[Sweep | None, ...] = spaces[0].read(*(data.sweep(k, blocks, ask) for k in range(len(blocks))))
    else:
        swept = (None,) * len(blocks)
    # the sweep for the smaller block then works in the larger parts
    order = sorted(range(len(blocks)), key=lambda k: -data.sizes[k])

    searched = tuple(active.tolist()) if 1 < active.size <= _MOST_SEARCHED else ()
    q = len(searched)

    def residual(multipliers: Vector) -> Looked:
        c = np.zeros(p)
        c[active] = simplex.project(multipliers)
        factor, c = objective.factor(c), objective.coefficients(c)
        found, used, units = np.zeros(2 + q * q + q), None, factor / objective.references[active]
        for k in order:
            F, space = blocks[k], spaces[k]
            used = swept[k] or data.sweep(k, blocks, replace(ask, used=used))
            mean = float(space.sum(entry_sum, F)) / (F.shape[0] * F.shape[1])
            of_block = *constraints.of(data.names[k]), penalties.of(k, measures, factor)
            own = Residual(c, mean, *of_block, searched, units)
            found += space.sum(own, F, used.N, used.P)
        violation, scale = found[:2]
        return float(violation / scale) if scale > 0 else 0.0, found[2 : 2 + q * q].reshape(q, q), found[2 + q * q :]

    inner = weights[active] if weights[active].sum() > 0 else simplex.uniform(active.size)
    found, value = _smallest(residual, inner / inner.sum())
    multipliers = np.zeros(p)
    multipliers[active] = found
    return Certificate(float(scaled.max() - weights @ scaled), value, multipliers)


def _smallest(residual: Callable[[Vector], Looked], start: Vector) -> tuple[Vector, float]:
    """The best multipliers on the simplex, by least squares that are reweighted; the start, where none are searched.

    A ratio falls where violation less the present ratio times scale does. Steps are as long as they pay: twice as long
    after one that led down, a quarter after one that did not.
    """
    best, (value, matrix, scales), stride = start, residual(start), 1.0
    for _ in range(_TRIALS if matrix.size else 0):
        lowest = simplex.saddle(value * scales, matrix)
        tried = simplex.project(best + stride * (lowest - best))
        reached, *around = residual(tried)
        gain = value - reached
        if gain > 0:
            best, value, (matrix, scales) = tried, reached, around
        stride *= 2.0 if gain > 0 else 0.25
        if 0 < gain < _LEAST_GAIN * value or stride < _SHORTEST:
            break
    return best, value
