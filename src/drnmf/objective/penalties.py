r"""The penalties of the package.

`L1` and `L2` are scikit-learn's, in the units of the factors. `Sparsity` does not change when a component is scaled up
in one factor and down in the other, nor when X is measured in other units; so `Volume` and `Smooth`, which look at the
components divided by their sums.

Each may name a `mode` of a tensor: it is then that of the matrix whose columns are this mode, H being its factor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from drnmf.numerics import Array, Vector, as_float64, namespace
from drnmf.objective.penalty import Bound, Penalty, Setting, per_component

SIDES = ("W", "H")


def _host(values: Array) -> Vector:
    """A row of numbers on the host, from any array library."""
    return np.array(values.tolist(), dtype=np.float64, ndmin=1)


def _other(side: str) -> str:
    return "H" if side == "W" else "W"


@dataclass(frozen=True, repr=False)
class _Named:
    """What all penalties share: a checked alpha, a name and a text."""

    alpha: float | str
    mode: int | str | None = field(default=None, kw_only=True)
    word: ClassVar[str] = ""
    places: ClassVar[tuple[object, ...]] = SIDES
    automatic: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", _checked_alpha(self))
        place = getattr(self, _place(type(self)))
        if place not in self.places or isinstance(place, bool):
            known = " or ".join(repr(known) for known in self.places)
            raise ValueError(f"{type(self).__name__}({_place(type(self))}={place!r}): use {known}.")
        if isinstance(self.mode, str) and self.mode.isdigit():  # as texts have it
            object.__setattr__(self, "mode", int(self.mode))
        if self.mode is not None and (isinstance(self.mode, bool) or not isinstance(self.mode, int | str)):
            raise ValueError(f"{type(self).__name__}(mode={self.mode!r}): name a mode by its number or its dimension.")

    def of_mode(self, mode: int) -> Self:
        """Return the penalty of one mode of a tensor, whose factor is H of the matrix that the mode is columns of."""
        return replace(self, mode=mode)

    @property
    def key(self) -> str:
        given = [f for f in self._shown()[1:] if getattr(self, f.name) != f.default]
        first = _place(type(self))
        options = [
            _written(getattr(self, f.name)) if f.name == first else f"{f.name}={_written(getattr(self, f.name))}"
            for f in given
        ]
        return ":".join([self.word, _written(self.alpha), *options])

    def _shown(self) -> list[Field[object]]:
        """The fields that are said, the mode last and only where there is one."""
        every = sorted(fields(self), key=lambda f: f.name == "mode")
        return [f for f in every if f.repr and (f.name != "mode" or self.mode is not None)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in self._shown())})"

    @property
    def certain(self) -> bool:
        return True

    def pieces(self, side: str) -> bool:
        return True

    def in_units(self, left: float, right: float, whole: float) -> Self:
        return self


def _place(kind: type) -> str:
    """The field that says what is penalised: the first one behind those that all penalties have."""
    return fields(kind)[len(fields(_Named))].name


def _part(penalty: _Named, side: str) -> str:
    """What a penalty is of, for its name."""
    return side if penalty.mode is None else f"mode {penalty.mode}"


def _written(value: object) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def _checked_alpha(penalty: _Named) -> float | str:
    """A number >= 0, or "auto" where the data can choose."""
    given, kind = penalty.alpha, type(penalty).__name__
    if isinstance(given, str) and given == "auto":
        if penalty.automatic:
            return given
        raise ValueError(f"{kind}(alpha='auto'): no rule chooses it; give a number, or use Sparsity or Volume.")
    try:
        alpha = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError):
        alpha = math.nan
    if not (math.isfinite(alpha) and alpha >= 0):
        raise ValueError(f"{kind}(alpha={given!r}): alpha must be a finite number >= 0.")
    return alpha


@dataclass(frozen=True, repr=False)
class _OfEntries(_Named):
    """A penalty of every entry of one factor or of both, of a degree in them; `unit` is that of W and of H."""

    on: str = "both"
    scaled: bool = False
    unit: tuple[float, float] = field(default=(1.0, 1.0), repr=False)

    places: ClassVar[tuple[str, ...]] = ("W", "H", "both")
    degree: ClassVar[int] = 1

    @property
    def name(self) -> str:
        return f"{self.word.upper()} of {_part(self, 'W and H' if self.on == 'both' else self.on)}"

    def of_mode(self, mode: int) -> Self:
        return replace(self, mode=mode, on="H" if self.on == "both" else self.on)

    def couples(self, side: str) -> bool:
        return False

    def weight(self, side: str, setting: Setting) -> float:
        """Alpha of a factor; zero where it is not penalised."""
        if self.on not in (side, "both"):
            return 0.0
        alpha = float(self.alpha) / self.unit[SIDES.index(side)] ** self.degree
        return alpha * (setting.size(_other(side)) if self.scaled else 1)

    def in_units(self, left: float, right: float, whole: float) -> Self:
        unit = (self.unit[0] * left, self.unit[1] * right)
        return replace(self, alpha=float(self.alpha) * whole, unit=unit)

    def value(self, W: Vector, H: Vector, setting: Setting) -> float:
        return self.weight("W", setting) * float(W[0]) + self.weight("H", setting) * float(H[0])


@dataclass(frozen=True, repr=False)
class L1(_OfEntries):
    r"""Penalise the sum of the entries: alpha sum W, alpha sum H, or both, as scikit-learn does with l1_ratio=1.

    Parameters
    ----------
    alpha : number >= 0; where X is multiplied by s the same answer needs alpha s^(beta - 1/2)
    on : "W", "H" or "both"; on one factor alone it can be undone by scaling the other, which `Sparsity` cannot
    scaled : multiply alpha by the number of columns of X for W and of rows for H, as scikit-learn does
    mode : of a tensor (`CP`), by its number or its dimension, whose factor is penalised; None is that of every mode

    Examples
    --------
    >>> L1(0.1, on="H").key
    'l1:0.1:H'
    """

    word: ClassVar[str] = "l1"

    def measure(self, F: Array, side: str) -> Vector:
        return _host(as_float64(F).sum())

    def bound(self, F: Array, side: str, own: Vector, other: Vector, setting: Setting) -> Bound:
        weight = self.weight(side, setting)
        return Bound(linear=per_component([weight], F)) if weight else Bound()


@dataclass(frozen=True, repr=False)
class L2(_OfEntries):
    r"""Penalise half the sum of squares: alpha ||W||^2 / 2, alpha ||H||^2 / 2, or both, as with l1_ratio=0.

    Parameters
    ----------
    alpha : number >= 0; where X is multiplied by s the same answer needs alpha s^(beta - 1)
    on : "W", "H" or "both"
    scaled, mode : as in `L1`

    Examples
    --------
    >>> L2(1, scaled=True).key
    'l2:1.0:scaled=True'
    """

    word: ClassVar[str] = "l2"
    degree: ClassVar[int] = 2

    def measure(self, F: Array, side: str) -> Vector:
        F = as_float64(F)
        return _host(0.5 * (F * F).sum())

    def bound(self, F: Array, side: str, own: Vector, other: Vector, setting: Setting) -> Bound:
        weight = self.weight(side, setting)
        return Bound(curvature=weight * np.eye(F.shape[0])) if weight else Bound()


@dataclass(frozen=True, repr=False)
class Sparsity(_Named):
    r"""Penalise entries of H in a way that no rescaling undoes: alpha sum_k ||w_k||_2 ||h_k||_1.

    The sum is divided by its value at the constant model WH = mean(X) and counts in units of that model's loss, so that
    the answer does not depend on the units of X: alpha = 0.01 makes the penalty of a constant model weigh a hundredth
    of its loss.

    Parameters
    ----------
    alpha : number >= 0, or "auto": chosen by how well held-out entries are predicted
    on : "H", the factor that becomes sparse, or "W", with the roles of the two exchanged
    mode : of a tensor (`CP`), by its number or its dimension: its factor is H, and W the product of all others

    Examples
    --------
    >>> Sparsity(0.1).key, Sparsity("auto", on="W").key
    ('sparsity:0.1', 'sparsity:auto:W')
    """

    on: str = "H"
    word: ClassVar[str] = "sparsity"
    automatic: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return f"sparsity of {_part(self, self.on)}"

    def couples(self, side: str) -> bool:
        return side != self.on

    def measure(self, F: Array, side: str) -> Vector:
        """||f_k||_1 of the sparse factor, ||f_k||_2^2 of the other."""
        F = as_float64(F)
        return _host(F.sum(1) if side == self.on else (F * F).sum(1))

    def _weight(self, setting: Setting) -> float:
        n, m = setting.size(self.on), setting.size(_other(self.on))
        return float(self.alpha) * setting.level / (setting.unit * math.sqrt(m) * n)

    def value(self, W: Vector, H: Vector, setting: Setting) -> float:
        sums, squares = (H, W) if self.on == "H" else (W, H)
        return self._weight(setting) * float(np.sqrt(squares) @ sums)

    def bound(self, F: Array, side: str, own: Vector, other: Vector, setting: Setting) -> Bound:
        weight = self._weight(setting)
        if side == self.on:
            return Bound(linear=per_component(weight * np.sqrt(other), F))
        norms = np.sqrt(own)  # ||f|| <= ||f||^2 / (2 ||f~||) + ||f~|| / 2
        return Bound(curvature=np.diag(weight * other / np.where(norms > 0, norms, 1.0)))


@dataclass(frozen=True, repr=False)
class _OfShapes(_Named):
    """A penalty of the components of one factor, each divided by its sum: only their shapes count."""

    @property
    def _side(self) -> str:
        raise NotImplementedError

    @property
    def _normalized(self) -> bool:
        return getattr(self, "normalized", None) is not False

    def couples(self, side: str) -> bool:
        return side == self._side

    def beside(self, sum_to_one: str | None) -> Self:
        """Return the penalty where a factor sums to one: the other's scale is settled then, and means something."""
        if sum_to_one in (None, self._side) or getattr(self, "normalized", None) is not None:
            return self
        return replace(self, normalized=False)  # type: ignore[call-arg]

    def _weight(self, rank: int, setting: Setting) -> float:
        return float(self.alpha) * setting.level / rank

    def _sums(self, measured: Vector, rank: int, setting: Setting) -> Vector:
        """What every component is divided by: its sum, or that of a constant one where scale is settled elsewhere."""
        if not self._normalized:
            return np.full(rank, setting.size(self._side) * setting.unit)
        return np.where(measured[:rank] > 0, measured[:rank], 1.0)


@dataclass(frozen=True, repr=False)
class Volume(_OfShapes):
    r"""Penalise the volume that the components span: alpha / r logdet(I + M / delta), M = n D^-1 H H' D^-1.

    D holds the sums of the rows of H, so that M is 1 for flat components; natural logarithm, in units of the constant
    model's loss. It makes overlapping components identifiable and leaves superfluous ones empty.

    Parameters
    ----------
    alpha : number >= 0, or "auto": the largest under which the loss is at most 5 % above that without
    on : "H", its rows, or "W", its columns
    delta : number > 0; directions in which components differ by less cost nearly nothing
    normalized : divide every component by its sum; None does so unless the other factor sums to one, which settles the
        scale
    mode : as in `Sparsity`

    Examples
    --------
    >>> Volume("auto").key, Volume(0.1, "W", delta=0.5).key
    ('volume:auto', 'volume:0.1:W:delta=0.5')
    """

    on: str = "H"
    delta: float = 0.1
    normalized: bool | None = None

    word: ClassVar[str] = "volume"
    automatic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.delta, bool) or not (isinstance(self.delta, int | float) and 0 < self.delta < math.inf):
            raise ValueError(f"Volume(delta={self.delta!r}): delta must be a finite number > 0.")
        object.__setattr__(self, "delta", float(self.delta))

    @property
    def name(self) -> str:
        return f"volume of {_part(self, self.on)}"

    @property
    def _side(self) -> str:
        return self.on

    def measure(self, F: Array, side: str) -> Vector:
        """The sum of every component, then F F' row by row."""
        if side != self.on:
            return np.empty(0)
        F = as_float64(F)
        return np.concatenate([_host(F.sum(1)), _host((F @ F.T).reshape(-1))])

    def _spread(self, measured: Vector, setting: Setting) -> tuple[int, Vector, Vector]:
        """r, what components are divided by, and I + M / delta."""
        rank = math.isqrt(measured.size)
        sums = self._sums(measured, rank, setting)
        M = setting.size(self.on) * measured[rank:].reshape(rank, rank) / (sums[:, None] * sums)
        return rank, sums, np.eye(rank) + M / self.delta

    def value(self, W: Vector, H: Vector, setting: Setting) -> float:
        rank, _, spread = self._spread(H if self.on == "H" else W, setting)
        return self._weight(rank, setting) * max(float(np.linalg.slogdet(spread)[1]), 0.0)

    def bound(self, F: Array, side: str, own: Vector, other: Vector, setting: Setting) -> Bound:
        """Logdet is concave in H H' and in D^2, -2 log of a sum convex: tangents of both, Jensen's inequality for D."""
        if side != self.on:
            return Bound()
        rank, sums, spread = self._spread(own, setting)
        weight, inverse = 2.0 * self._weight(rank, setting), np.linalg.inv(spread)
        bend = weight * setting.size(side) / self.delta * inverse / (sums[:, None] * sums)
        if not self._normalized:
            return Bound(curvature=bend)
        rising, falling = weight * np.diagonal(inverse) / sums, weight / sums
        return Bound(None, bend, per_component(rising, F), per_component(falling, F))


@dataclass(frozen=True, repr=False)
class Smooth(_OfShapes):
    r"""Penalise differences between neighbours: alpha / r sum_k n sum_t (h_kt - h_k,t-1)^2 / (sum_t h_kt)^2.

    It is about 2 / r a component for entries that have nothing to do with their neighbours, in units of the constant
    model's loss.

    Parameters
    ----------
    alpha : number >= 0
    axis : 1, along the columns of X, which penalises H; 0, along its rows, which penalises W
    normalized, mode : as in `Volume`

    Examples
    --------
    >>> Smooth(0.1).key, Smooth(0.1, axis=0).key
    ('smooth:0.1', 'smooth:0.1:0')
    """

    axis: int = 1
    normalized: bool | None = None

    word: ClassVar[str] = "smooth"
    places: ClassVar[tuple[int, ...]] = (0, 1)

    @property
    def name(self) -> str:
        return f"roughness of {_part(self, self._side)}"

    @property
    def _side(self) -> str:
        return SIDES[self.axis]

    @property
    def certain(self) -> bool:
        return not self._normalized  # a rougher component that shrinks may be above the bound

    def pieces(self, side: str) -> bool:
        return side != self._side

    def measure(self, F: Array, side: str) -> Vector:
        """The sum of every component, then its sum of squared differences."""
        if side != self._side:
            return np.empty(0)
        F = as_float64(F)
        steps = F[:, 1:] - F[:, :-1]
        return np.concatenate([_host(F.sum(1)), _host((steps * steps).sum(1))])

    def value(self, W: Vector, H: Vector, setting: Setting) -> float:
        measured = H if self._side == "H" else W
        rank = measured.size // 2
        ratio = measured[rank:] / self._sums(measured, rank, setting) ** 2
        return self._weight(rank, setting) * setting.size(self._side) * float(ratio.sum())

    def bound(self, F: Array, side: str, own: Vector, other: Vector, setting: Setting) -> Bound:
        """(a - b)^2 <= 2 (a - c)^2 + 2 (b - c)^2 with c half-way between; an end has itself as its other neighbour."""
        if side != self._side:
            return Bound()
        rank = F.shape[0]
        sums = self._sums(own, rank, setting)
        weight = self._weight(rank, setting) * setting.size(side) / sums**2
        join = namespace(F).concatenate
        before, after = join((F[:, :1], F[:, :-1]), axis=1), join((F[:, 1:], F[:, -1:]), axis=1)
        linear = per_component(-2.0 * weight, F) * (2.0 * F + before + after)
        falling = per_component(2.0 * weight * own[rank:] / sums, F) if self._normalized else None
        return Bound(linear, np.diag(8.0 * weight), None, falling)


PENALTIES: dict[str, type[Any]] = {kind.word: kind for kind in (L1, L2, Sparsity, Volume, Smooth)}
"""By the word that stands first in their texts."""


def from_text(text: str) -> Penalty:
    """Read a penalty: NAME:ALPHA, then the factor or the axis, then further options as NAME=VALUE.

    >>> from_text("sparsity:0.1"), from_text("l1:0.5:H:scaled=True")
    (Sparsity(alpha=0.1, on='H'), L1(alpha=0.5, on='H', scaled=True))
    """
    word, *rest = text.strip().split(":")
    if word.lower() not in PENALTIES or not rest:
        raise ValueError(
            f"penalty {text!r} is not one: write NAME:ALPHA, for example sparsity:0.1 or l1:0.1:H, NAME one of "
            f"{', '.join(PENALTIES)}."
        )
    kind = PENALTIES[word.lower()]
    known = {f.name: f for f in fields(kind) if f.repr}
    options: dict[str, int | float | str] = {}
    for at, option in enumerate(rest[1:]):
        name, equals, value = option.partition("=")
        if not equals and at == 0:
            name, value = _place(kind), option
        if name not in known or name == "alpha" or not value:
            allowed = ", ".join(f"{f}=..." for f in known if f != "alpha")
            raise ValueError(f"penalty {text!r}: {option!r} is none of its options, which are {allowed}.")
        options[name] = _read(value, known[name].default)
    alpha = rest[0] if rest[0] == "auto" else _number(rest[0])
    penalty: Penalty = kind(alpha, **options)
    return penalty


def _read(value: str, like: object) -> int | float | str:
    """An option in the kind of its default."""
    if like is None or isinstance(like, bool):
        return {"true": True, "false": False}.get(value.lower(), value)
    return _number(value) if isinstance(like, int | float) else value


def _number(text: str) -> int | float | str:
    """A number where the text is one; the penalty says what is wrong with anything else."""
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        return text


def as_penalty(value: object) -> Penalty:
    """Turn a text or a penalty into a penalty."""
    if isinstance(value, str):
        return from_text(value)
    if isinstance(value, Penalty) and not isinstance(value, type):
        return value
    if isinstance(value, type):
        raise ValueError(f"penalties: {value.__name__} is a class; write {value.__name__}(alpha).")
    raise ValueError(f"penalties: {value!r} is no penalty; give for example drnmf.Sparsity(0.1) or 'sparsity:0.1'.")


def settled(terms: tuple[Penalty, ...], sum_to_one: str | None) -> tuple[Penalty, ...]:
    """Return penalties as they are meant where every row of W, or column of H, sums to one.

    >>> settled((Volume(0.1), Sparsity(0.1)), "W")[0].key
    'volume:0.1:normalized=False'
    """
    return tuple(term.beside(sum_to_one) if isinstance(term, _OfShapes) else term for term in terms)


def as_penalties(values: Any) -> tuple[Penalty, ...]:
    """Turn what a user wrote for `penalties` into penalties: None, one of them, or a list.

    >>> as_penalties("sparsity:0.1"), as_penalties(None)
    ((Sparsity(alpha=0.1, on='H'),), ())
    """
    if values is None:
        return ()
    single = isinstance(values, str | Penalty) or not isinstance(values, Iterable)
    return tuple(as_penalty(value) for value in ((values,) if single else values))


__all__ = ["L1", "L2", "Smooth", "Sparsity", "Volume", "as_penalties", "as_penalty", "from_text", "settled"]
