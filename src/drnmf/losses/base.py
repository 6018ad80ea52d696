"""What a loss is: everything the rest of the package knows of one."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import ClassVar, Protocol, Self, runtime_checkable

from drnmf.numerics import Array


@runtime_checkable
class Loss(Protocol):
    """A separable loss D(X, V) = sum of d(x | v) with a gradient that splits as P - N, both nonnegative.

    The functions work entry by entry on NumPy arrays and on torch tensors, in the dtype they are given, for v > 0.

    Attributes
    ----------
    name : short name for tables and figures ("KL")
    key : text that names it on the command line, in columns of tables and in files ("1", "nb:30")
    beta : the beta of a beta-divergence, NaN for another family
    degree : D(aX, aV) = a^degree D(X, V) (parameters in the units of X being scaled too)
    exponents : (a, b) with the derivative of the separable majoriser in t = h / h~ equal to P t^a - N t^-b
    infinite_at_zero : whether a zero of X makes the loss infinite
    free_part : "sums" where P = W'1, "gram" where P = (W'W) H, None where P needs a pass over X. Losses with a free
        part need only the non-zeros of X
    homogeneous : whether Q f = P for the expected curvature Q, as for beta-divergences
    """

    @property
    def name(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def beta(self) -> float: ...

    @property
    def degree(self) -> float: ...

    @property
    def exponents(self) -> tuple[float, float]: ...

    @property
    def infinite_at_zero(self) -> bool: ...

    @property
    def free_part(self) -> str | None: ...

    @property
    def homogeneous(self) -> bool: ...

    def scaled(self, factor: float) -> Loss:
        """Return the loss in another unit of X: parameters in the units of X are multiplied by the factor.

        Parameters
        ----------
        factor : what X is multiplied by, a power of four

        Returns
        -------
        loss : the loss itself where it has no such parameter; it keeps its name in any case
        """
        ...

    def terms(self, x: Array, v: Array) -> Array:
        """Compute d(x | v) for every entry, in float64.

        Parameters
        ----------
        x, v : arrays of one shape, entries of X and of V = WH, v > 0

        Returns
        -------
        d : array of the same shape, float64
        """
        ...

    def parts(self, x: Array, v: Array, ceiling: float) -> tuple[Array, Array]:
        """Compute what N = W'(.) and P = W'(.) are made of, entry by entry, kept below the ceiling.

        Parameters
        ----------
        x, v : arrays of one shape, entries of X and of V = WH, v > 0
        ceiling : largest value that may be returned (`numerics.power_ceiling`)

        Returns
        -------
        negative, positive : arrays of the same shape and dtype, with derivative of d in v = positive - negative
        """
        ...

    def curvature(self, x: Array, v: Array) -> Array:
        """Compute a second derivative of d(x | v) in v that is never negative, for every entry.

        Parameters
        ----------
        x, v : arrays of one shape, entries of X and of V = WH, v > 0

        Returns
        -------
        curvature : array of the same shape and dtype
        """
        ...


class OfEntries:
    """What an objective of rows or parts takes from the loss of an entry that it is made of.

    Attributes
    ----------
    base : that loss, whose parts and curvature backends multiply by slopes
    """

    base: Loss

    exponents = property(attrgetter("base.exponents"))
    infinite_at_zero = property(attrgetter("base.infinite_at_zero"))

    @property
    def free_part(self) -> str | None:
        return None

    homogeneous = property(attrgetter("base.homogeneous"))

    def terms(self, x: Array, v: Array) -> Array:
        return self.base.terms(x, v)

    def parts(self, x: Array, v: Array, ceiling: float) -> tuple[Array, Array]:
        return self.base.parts(x, v, ceiling)

    def curvature(self, x: Array, v: Array) -> Array:
        return self.base.curvature(x, v)


@dataclass(frozen=True, repr=False)
class Sized:
    """A family of losses with one number in the unit of X, its only field of its own, which is NaN until X names it.

    Parameters
    ----------
    scale : what X is multiplied by where the loss is computed, and so the number (`scaled`)
    """

    scale: float = field(default=1.0, kw_only=True)

    title: ClassVar[str]  # stands before the number in names ("NB(30)"), in small letters in texts ("nb:30")
    beta: ClassVar[float] = math.nan
    infinite_at_zero: ClassVar[bool] = False
    free_part: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        own, given = self._own(), self.number
        number = math.nan
        if not (isinstance(given, str) and given.strip().lower() == "auto"):
            with contextlib.suppress(TypeError, ValueError):
                number = float(given)
            if not (math.isfinite(number) and number > 0):
                kind = type(self).__name__
                raise ValueError(f'{kind}({own}={given!r}): the {own} must be a finite number > 0, or "auto".')
        object.__setattr__(self, own, number)

    def __repr__(self) -> str:
        number = "auto" if self.unsized else self.number
        return f"{type(self).__name__}({self._own()}={number!r})"

    def _own(self) -> str:
        return next(known.name for known in fields(self) if known.name != "scale")

    @property
    def number(self) -> float:
        """The number, in the unit of X."""
        number: float = getattr(self, self._own())
        return number

    @property
    def unsized(self) -> bool:
        """Whether the number is yet to be found."""
        return math.isnan(self.number)

    @property
    def name(self) -> str:
        return f"{self.title}({self._written('g')})"

    @property
    def key(self) -> str:
        return f"{self.title.lower()}:{self._written('g')}"

    @property
    def text(self) -> str:
        """What reads back exactly."""
        return f"{self.title.lower()}:{self._written('')}"

    def _written(self, form: str) -> str:
        return "auto" if self.unsized else format(self.number, form)

    def scaled(self, factor: float) -> Self:
        return self if self.unsized else replace(self, scale=self.scale * factor)


Omega = tuple[Loss, ...]
"""A set of losses, in the order given."""


def base_of(loss: Loss) -> Loss:
    """Return the loss of an entry that an objective of rows or parts is made of; any other loss itself."""
    while isinstance(loss, OfEntries):
        loss = loss.base
    return loss


def is_quadratic(omega: Omega) -> bool:
    """Tell whether all are beta = 2, of all of X or of rows and parts of it: coordinate descent then minimises it."""
    return all(base_of(loss).free_part == "gram" for loss in omega)


def is_frobenius(omega: Omega) -> bool:
    """Tell whether all of X has one loss, beta = 2, for which one curvature serves all columns."""
    return len(omega) == 1 and omega[0].free_part == "gram"


def is_unsized(value: object, family: type) -> bool:
    """Tell whether a loss, or one of several, is of a family with `unsized` whose parameter X has to name.

    >>> from drnmf.losses.huber import Huber
    >>> is_unsized(Huber("auto"), Huber), is_unsized((1, "huber:auto"), Huber), is_unsized((1, Huber(2)), Huber)
    (True, True, False)
    """
    if isinstance(value, str):
        return value.strip().lower() == family("auto").key
    if isinstance(value, family):
        return bool(getattr(value, "unsized", False))
    if isinstance(value, OfEntries):
        return is_unsized(value.base, family)
    if not isinstance(value, list | tuple | set | frozenset):
        return False
    return any(is_unsized(loss, family) for loss in value)


def betas_of(omega: Omega) -> list[float]:
    """List the betas of a set of losses; NaN stands for a loss of another family."""
    return [loss.beta for loss in omega]


def need_nonzeros_only(omega: Omega) -> bool:
    """Tell whether every loss of the set can be computed from the non-zeros of X."""
    return all(loss.free_part is not None for loss in omega)


def is_monotone(omega: Omega) -> bool:
    """Tell whether N / P is the exact step of the majoriser, so that multiplicative steps never raise the loss."""
    return len(omega) == 1 and math.fsum(omega[0].exponents) == 1.0
