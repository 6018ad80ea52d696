r"""What a penalty is: a term of the objective that needs no pass over X.

A run minimises :math:`\max_\beta D_\beta / e_\beta + \sum pen(W, H)`: penalties stand beside the maximum, once. When a
block F moves while the other stands, a penalty is replaced by a bound that touches it at the current :math:`\tilde F`,

.. math:: pen(F) \le const + \langle g, F \rangle + \tfrac12 \langle F, S F \rangle
          + \sum \tilde F \circ [u\, t^2 / 2 - l \log t], \qquad t = F / \tilde F,

with S, (r, r), the same in every column. Every update rule takes what it needs of it: second-order steps add S to their
curvature and g + u - l to their slope, the others add terms P t^a - N t^-b to those of the losses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from drnmf.backends.base import Space
from drnmf.numerics import Array, Numbers, Vector, beside, namespace, positive_scale

Powers = dict[float, Array]  # exponent -> what stands before that power of t


@dataclass(frozen=True)
class Setting:
    """What a penalty may know of the problem, so that its alpha means the same for every X."""

    shape: tuple[int, ...]  # of X; (m, n), unless it is a tensor
    mean: float = 1.0  # of X
    level: float = 1.0  # the largest D_beta / e_beta of the constant model, WH = mean(X): what alpha is relative to

    def size(self, side: str) -> int:
        """Return the number of columns of a factor: m for "W", handed over as its transpose, n for "H"."""
        return self.shape["WH".index(side)]

    def seen_from(self, mode: int | None) -> Setting:
        """Return the setting of the matrix whose columns are one mode of X, and its rows all others together.

        >>> Setting((2, 3, 4)).seen_from(1).shape
        (8, 3)
        """
        if mode is None:
            return self
        own = self.shape[mode]
        return replace(self, shape=(math.prod(self.shape) // own, own))

    @property
    def unit(self) -> float:
        """The scale of X."""
        return positive_scale(self.mean)


@dataclass(frozen=True)
class Bound:
    """The bound of a penalty in the block that moves, at the current point (see the head of this file)."""

    linear: Array | None = None  # g, (r, 1) or (r, n); None is zero, as for the others
    curvature: Vector | None = None  # S, (r, r) float64 on the host, symmetric
    # rising, falling: u and l, (r, 1) or (r, n), nonnegative
    rising: Array | None = None
    falling: Array | None = None

    def times(self, factor: float) -> Bound:
        """Multiply the penalty by a number > 0."""
        return Bound(*(None if part is None else factor * part for part in self._all()))

    def plus(self, other: Bound) -> Bound:
        """Add another penalty."""
        return Bound(*(_sum(a, b) for a, b in zip(self._all(), other._all(), strict=True)))

    def _all(self) -> tuple[Any, ...]:
        return self.linear, self.curvature, self.rising, self.falling

    def slope(self) -> Any:
        """Compute g + u - l, the gradient without that of the quadratic part; 0.0 where there is none."""
        fall = None if self.falling is None else -self.falling
        return reduce(_sum, (self.linear, self.rising, fall, 0.0))

    def bend(self, F: Array) -> tuple[Array | None, Array | None]:
        """Split S F = S+ F - S- F at a nonnegative F; None for a part that is zero."""
        if self.curvature is None:
            return None, None
        halves = (np.maximum(sign * self.curvature, 0.0) for sign in (1.0, -1.0))
        up, down = (in_kind(half, F) @ F if half.any() else None for half in halves)
        return up, down

    def slots(self, F: Array) -> tuple[Powers, Powers]:
        """Write the derivative in t of a separable bound as sum P_a t^a - sum N_b t^-b.

        F'SF is bounded by S+ F t^2 / 2 where S is positive and by S- F log t where it is negative.

        Parameters
        ----------
        F : (r, n) the current point

        Returns
        -------
        rising, falling : exponent a -> P_a, exponent b -> N_b
        """
        xp, (up, down) = namespace(F), self.bend(F)
        rising, falling = {1.0: _sum(up, self.rising)}, {1.0: _sum(down, self.falling)}
        if self.linear is not None:
            rising[0.0] = xp.clip(self.linear, 0.0, None)
            falling[0.0] = xp.clip(-self.linear, 0.0, None)
        return _present(rising), _present(falling)

    def parts(self, F: Array) -> tuple[Numbers, Numbers]:
        """Split the gradient at F as P - N, both nonnegative; 0.0 where there is none."""
        rising, falling = self.slots(F)
        return sum(falling.values()), sum(rising.values())


def _sum(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


def _present(powers: Mapping[float, Array | None]) -> Powers:
    """The powers that have a coefficient other than zero."""
    return {exponent: part for exponent, part in powers.items() if part is not None and bool((part != 0).any())}


def in_kind(values: Vector, F: Array) -> Array:
    """Return numbers of the host in the array library and dtype of F."""
    return namespace(F).asarray(beside(values, F), dtype=F.dtype)


def per_component(values: ArrayLike, F: Array) -> Array:
    """Return one number for every component as a column (r, 1) in the kind of F."""
    return in_kind(np.asarray(values, dtype=np.float64)[:, None], F)


@runtime_checkable
class Penalty(Protocol):
    """A penalty of W and H. F below is a factor with components as rows: H (r, n), or W transposed (r, m).

    Sums over a whole factor are made once for every step (`measure`), because factors may live in pieces; everything
    else is computed from them.

    Attributes
    ----------
    alpha : how much it counts, >= 0; zero is no penalty
    name : for tables and messages ("sparsity of H")
    key : text that names it on the command line and in files ("sparsity:0.1:H")
    certain : whether its separable bound lies above it everywhere, so that steps need no check; False is safe
    """

    @property
    def alpha(self) -> float | str: ...

    @property
    def name(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def certain(self) -> bool: ...

    def in_units(self, left: float, right: float, whole: float) -> Penalty:
        """Return the penalty that is the same in other units.

        Parameters
        ----------
        left, right : what W and H are multiplied by there
        whole : what the objective is multiplied by

        Returns
        -------
        penalty : Penalty whose value at the larger factors is `whole` times that of this one; itself where the level of
            the setting sees to that
        """
        ...

    def couples(self, side: str) -> bool:
        """Tell whether columns of the factor depend on one another through the penalty.

        Parameters
        ----------
        side : "W" or "H"

        Returns
        -------
        couples : bool; False also where the factor is not penalised
        """
        ...

    def pieces(self, side: str) -> bool:
        """Tell whether `measure` and `bound` may be called piece by piece: columns do not look at their neighbours.

        Parameters
        ----------
        side : "W" or "H"

        Returns
        -------
        pieces : bool
        """
        ...

    def measure(self, F: Array, side: str) -> Vector:
        """Compute the sums over columns that the penalty needs of a factor.

        Parameters
        ----------
        F : (r, columns), all of the factor or a piece of it
        side : "W" or "H"

        Returns
        -------
        sums : (k,) float64 on the host, k whatever the number of columns; they are added up over the pieces
        """
        ...

    def value(self, W: Vector, H: Vector, setting: Setting) -> float:
        """Compute the penalty, alpha included.

        Parameters
        ----------
        W, H : what `measure` gave for each factor
        setting : of the problem

        Returns
        -------
        value : float >= 0
        """
        ...

    def bound(self, F: Array, side: str, own: Vector, other: Vector, setting: Setting) -> Bound:
        """Bound the penalty, alpha included, as a function of the factor that moves.

        Parameters
        ----------
        F : (r, columns), all of the factor or a piece of it
        side : which one it is
        own, other : what `measure` gave for it and for the factor that stands
        setting : of the problem

        Returns
        -------
        bound : Bound
        """
        ...


Measures = tuple[Vector, ...]
"""What every penalty measured of one factor."""


@dataclass(frozen=True)
class Penalties:
    """All penalties of a run, in the setting of its problem. None of them: a run without."""

    terms: tuple[Penalty, ...] = ()
    setting: Setting = Setting((1, 1))

    def __bool__(self) -> bool:
        return bool(self.terms)

    @property
    def certain(self) -> bool:
        """Whether the bounds of all of them lie above them."""
        return all(term.certain for term in self.terms)

    def measure(self, space: Space, F: Array, block: int, blocks: int = 2) -> Measures:
        """Measure one of so many blocks where it lives, once for all penalties."""
        if not self.terms:
            return ()
        sums, one = _Measure(self.terms, self._sides(block, blocks)), np.ones((F.shape[0], 1))
        ends = np.cumsum([term.measure(one, side).size for term, side in zip(sums.terms, sums.sides, strict=True)])
        total = space.sum(sums, F) if ends[-1] else np.empty(0)
        return tuple(np.split(total, ends[:-1]))

    def value(self, measures: tuple[Measures, ...]) -> float:
        """Add up the penalties, from what was measured of every block."""
        total = 0.0
        for at, term in enumerate(self.terms):
            home, setting = own_block(term, len(measures)), self._setting(term)
            rows = _product([own[at] for block, own in enumerate(measures) if block != home])
            total += term.value(rows, measures[home][at], setting)
        return float(total)

    def of(self, block: int, measures: tuple[Measures, ...], factor: float) -> BlockPenalties | None:
        """What a step of one block sees of them; None where there are none."""
        return BlockPenalties(self, block, measures, factor) if self.terms else None

    def bound(self, F: Array, block: int, measures: tuple[Measures, ...]) -> Bound:
        """Add up the bounds of all penalties at a block that moves, or at a piece of it."""
        bounds, sides = Bound(), self._sides(block, len(measures))
        for at, (term, side) in enumerate(zip(self.terms, sides, strict=True)):
            home = own_block(term, len(measures))
            others = [own[at] for k, own in enumerate(measures) if k not in (block, home) and own[at].size]
            other = _product(others) if block == home else measures[home][at]
            if block != home and others:  # what stands of the rows multiplies their norms, whose squares were measured
                other = other * np.sqrt(_product(others))
            bounds = bounds.plus(term.bound(F, side, measures[block][at], other, self._setting(term)))
        return bounds

    def _sides(self, block: int, blocks: int) -> tuple[str, ...]:
        return tuple("H" if own_block(term, blocks) == block else "W" for term in self.terms)

    def _setting(self, term: Penalty) -> Setting:
        return self.setting.seen_from(mode_of(term))


def mode_of(term: Penalty) -> int | None:
    """Return the mode of a tensor that a penalty belongs to; None where it is one of a matrix."""
    mode: int | None = getattr(term, "mode", None)
    return mode


def own_block(term: Penalty, blocks: int) -> int:
    """Find the block that a penalty calls H; those of a tensor move in the order of its modes, the first one last."""
    mode = mode_of(term)
    return 0 if mode is None else (mode - 1) % blocks


def _product(measures: Sequence[Vector]) -> Vector:
    """Multiply what was measured of several blocks: squared norms of products of their columns are such products."""
    return reduce(np.multiply, measures) if measures else np.empty(0)


NONE = Penalties()
"""A run without penalties."""


@dataclass(frozen=True)
class _Measure:
    """The sums of all penalties over a piece of a factor, one after another."""

    terms: tuple[Penalty, ...]
    sides: tuple[str, ...]

    def __call__(self, F: Array) -> Vector:
        return np.concatenate([term.measure(F, side) for term, side in zip(self.terms, self.sides, strict=True)])


@dataclass(frozen=True)
class BlockPenalties:
    """The penalties as a function of the block that moves."""

    penalties: Penalties
    block: int  # which one that is
    measures: tuple[Measures, ...]  # of every block
    factor: float  # the power of two that the coefficients of the losses were multiplied by

    def bound(self, F: Array) -> Bound:
        """Add up the bounds of all penalties at the current block, or at a piece of it."""
        return self.penalties.bound(F, self.block, self.measures).times(self.factor)


def without_zeros(penalties: Iterable[Penalty]) -> tuple[Penalty, ...]:
    """Leave out the penalties that do not count: alpha = 0 is no penalty, bit for bit."""
    return tuple(penalty for penalty in penalties if penalty.alpha != 0)
