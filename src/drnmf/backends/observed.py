r"""Which entries of X count, and how much: weights of rows and columns, of every entry, of stored ones, held-out masks.

.. math:: D = \sum_{ij} M_{ij} \, d(X_{ij} | V_{ij}), \qquad M \ge 0, \text{ zero where an entry is not observed}

NaN in dense X is not observed either and needs no weight of its own. `weigh` puts weights beside X; backends take them
apart with `pieces` and fall back on dense tiles of M.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from drnmf.backends.base import EVERY, Data, Observed, Some
from drnmf.numerics import Array, Grid, Indices, Maybe

_WORD = 0xFFFFFFFF


@dataclass(frozen=True, eq=False)
class Ones:
    """Every entry counts once, unless it is NaN: the weights of X with gaps."""

    shape: tuple[int, int]

    @property
    def T(self) -> Ones:
        return Ones(self.shape[::-1])

    def tile(self, columns: slice) -> Array:
        return np.ones((self.shape[0], columns.stop - columns.start), np.float32)

    def within(self, rows: Some, columns: Some = EVERY) -> Ones:
        m, n = zip(self.shape, (rows, columns), strict=True)
        return Ones((_size(*m), _size(*n)))

    def placed(self, put: Callable[[Array], Array]) -> Ones:
        return self

    def digest(self) -> str:
        return _digest("ones")


@dataclass(frozen=True, eq=False)
class _OfSides:
    """Weights that follow from a number for every row and one for every column."""

    rows: Any
    columns: Any

    @cached_property
    def T(self) -> Self:
        return replace(self, rows=self.columns, columns=self.rows)

    def within(self, rows: Some, columns: Some = EVERY) -> Self:
        return replace(self, rows=self.rows[rows], columns=self.columns[columns])

    def placed(self, put: Callable[[Array], Array]) -> Self:
        return replace(self, rows=put(self.rows), columns=put(self.columns))


@dataclass(frozen=True, eq=False)
class Outer(_OfSides):
    """Weights of rows times weights of columns, u v'.

    Parameters
    ----------
    rows : (m,)
    columns : (n,)

    Examples
    --------
    >>> Outer(np.array([1.0, 2.0]), np.array([0.0, 3.0])).tile(slice(0, 2))
    array([[0., 3.],
           [0., 6.]])
    """

    def tile(self, columns: slice) -> Array:
        tile: Array = self.rows[:, None] * self.columns[None, columns]
        return tile

    def digest(self) -> str:
        return _digest("outer", self.rows, self.columns)


@dataclass(frozen=True, eq=False)
class Entries:
    """A weight for every entry.

    Parameters
    ----------
    weights : (m, n) array, or what has its slices (a Dask array)
    """

    weights: Array

    @property
    def T(self) -> Entries:
        return Entries(self.weights.T)

    def tile(self, columns: slice) -> Array:
        tile: Array = self.weights[:, columns]
        return tile

    def within(self, rows: Some, columns: Some = EVERY) -> Entries:
        return Entries(self.weights[rows][:, columns])

    def placed(self, put: Callable[[Array], Array]) -> Entries:
        return Entries(put(self.weights))

    def digest(self) -> str:
        return _digest("entries", self.weights)


@dataclass(frozen=True, eq=False)
class Stored:
    """Weights of the entries that a sparse matrix stores; every other entry is not observed.

    Parameters
    ----------
    weights : SciPy sparse (m, n); a stored zero of X is observed where it stores a positive weight
    put : takes dense tiles of them to where they are needed; None leaves them on the host
    """

    weights: sp.sparray
    put: Callable[[Array], Array] | None = None

    @classmethod
    def of(cls, X: Grid) -> Stored:
        """Observe what a sparse X stores, zeros included, each entry once."""
        rows = sp.csr_array(X, copy=True)
        rows.sum_duplicates()
        rows.data = np.ones_like(rows.data)
        return cls(rows)

    @property
    def T(self) -> Stored:
        return replace(self, weights=self.weights.T)

    @cached_property
    def by_column(self) -> sp.csc_array:
        """The positive weights, CSC in canonical form."""
        weights = sp.csc_array(self.weights, copy=True)
        weights.sum_duplicates()
        weights.eliminate_zeros()
        return weights

    def tile(self, columns: slice) -> Array:
        tile: Array = self.by_column[:, columns].toarray()
        return tile if self.put is None else self.put(tile)

    def within(self, rows: Some, columns: Some = EVERY) -> Stored:
        some = sp.csr_array(self.weights)[rows]
        return replace(self, weights=some if columns is EVERY else sp.csc_array(some)[:, columns])

    def placed(self, put: Callable[[Array], Array]) -> Stored:
        return replace(self, put=put)

    def digest(self) -> str:
        weights = sp.csr_array(self.by_column)
        return _digest("stored", weights.indptr.astype(np.int64), weights.indices.astype(np.int64), weights.data)


@dataclass(frozen=True)
class HeldOut:
    """Leave a fraction of the entries out of a fit, chosen by hashes that are never stored.

    Rows and columns fall into 1 / fraction classes of about the same size, and the entries whose classes add up to zero
    are left out. So every row and every column loses about the fraction, whatever the layout of X, and of a sparse X
    whose zeros are data the cost stays that of the non-zeros.

    Parameters
    ----------
    fraction : of the entries, in (0, 1/2]; the nearest 1 / K is taken
    seed : int >= 0; the same seed leaves out the same entries, of X and of its transpose, on every backend

    Examples
    --------
    >>> kept = HeldOut(0.25, 0).bind((100, 80))
    >>> float(kept.tile(slice(0, 80)).mean())
    0.75
    """

    fraction: float
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 < self.fraction <= 0.5:
            raise ValueError(f"HeldOut(fraction={self.fraction!r}): use a fraction above 0 and up to 0.5.")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int | np.integer) or self.seed < 0:
            raise ValueError(f"HeldOut(seed={self.seed!r}): use an integer >= 0.")

    def bind(self, shape: tuple[int, int], twins: tuple[Indices | None, Indices | None] = (None, None)) -> Hidden:
        """Return the weights, zero where held out, for a matrix of this shape.

        twins : of the rows and of the columns, an index of the first that each is equal to: those fall into one class.
            None where all may fall apart
        """
        classes = round(1.0 / self.fraction)
        rows, columns = (_classes(self.seed, size, alike, classes) for size, alike in zip(shape, twins, strict=True))
        return Hidden(rows, columns, self, classes)


@dataclass(frozen=True, eq=False)
class Hidden(_OfSides):
    """`HeldOut` for the rows and columns of one matrix, or of a block of it.

    Attributes
    ----------
    rows, columns : (m,) and (n,) int64, classes
    held_out : what was asked for
    classes : how many
    inverted : weight one where an entry is held out, and zero elsewhere
    """

    held_out: HeldOut
    classes: int
    inverted: bool = False

    @cached_property
    def row_order(self) -> tuple[Indices, list[int]]:
        """The rows, class by class, and where each class ends in that order."""
        ends = np.concatenate([[0], np.cumsum(np.bincount(self.rows, minlength=self.classes))])
        return np.argsort(self.rows, kind="stable"), ends.tolist()

    @property
    def others(self) -> Hidden:
        """The weights that observe exactly what these leave out."""
        return replace(self, inverted=not self.inverted)

    def tile(self, columns: slice) -> Array:
        left_out = (self.rows[:, None] + self.columns[None, columns]) % self.classes == 0
        seen = left_out if self.inverted else ~left_out
        return seen.astype(np.float32) if isinstance(seen, np.ndarray) else seen.float()

    def at(self, rows: Indices, columns: Indices) -> NDArray[np.bool_]:
        """Tell for single entries, given as two vectors of indices, whether they are observed."""
        left_out = (self.rows[rows] + self.columns[columns]) % self.classes == 0
        return left_out if self.inverted else ~left_out

    def digest(self) -> str:
        return _digest(f"held out {self.held_out} {self.inverted}")


@dataclass(frozen=True, eq=False)
class Product:
    """Weights that are products of others, entry by entry."""

    factors: tuple[Observed, ...]

    @property
    def T(self) -> Product:
        return Product(tuple(factor.T for factor in self.factors))

    def tile(self, columns: slice) -> Array:
        return reduce(lambda a, b: a * b, [factor.tile(columns) for factor in self.factors])

    def within(self, rows: Some, columns: Some = EVERY) -> Product:
        return Product(tuple(factor.within(rows, columns) for factor in self.factors))

    def placed(self, put: Callable[[Array], Array]) -> Product:
        return Product(tuple(factor.placed(put) for factor in self.factors))

    def digest(self) -> str:
        return _digest("product", *(factor.digest() for factor in self.factors))


@dataclass(frozen=True, eq=False)
class Pieces:
    """Weights taken apart, M = values * rows columns' * mask; None stands for ones."""

    values: Any = None  # (m, n)
    # rows, columns: (m,), (n,)
    rows: Any = None
    columns: Any = None
    mask: Hidden | None = None

    @property
    def T(self) -> Pieces:
        values = None if self.values is None else self.values.T
        return Pieces(values, self.columns, self.rows, self.mask and self.mask.T)

    def within(self, rows: slice, columns: slice) -> Pieces:
        """Return the weights of some rows and columns."""
        values = None if self.values is None else self.values[rows, columns]
        u, v = None if self.rows is None else self.rows[rows], None if self.columns is None else self.columns[columns]
        return Pieces(values, u, v, self.mask and self.mask.within(rows, columns))

    def sums(self, shape: tuple[int, int]) -> tuple[float, int]:
        """Compute the sum of all weights and the number of positive ones, without values, masks by classes."""
        u, v = (np.ones(k) if w is None else w for k, w in zip(shape, (self.rows, self.columns), strict=True))
        found = float(u.sum() * v.sum()), int((u > 0).sum()) * int((v > 0).sum())
        if self.mask is None:
            return found
        a, b, k = self.mask.rows, self.mask.columns, self.mask.classes
        rest = (-np.arange(k)) % k
        held = [
            float(np.bincount(a, x, k) @ np.bincount(b, y, k)[rest])
            for x, y in ((u, v), ((u > 0).astype(float), (v > 0).astype(float)))
        ]
        weight, count = held if self.mask.inverted else (found[0] - held[0], found[1] - held[1])
        return weight, round(count)


def factors_of(observed: Observed) -> tuple[Observed, ...]:
    """List the kinds that weights are a product of."""
    if isinstance(observed, Product):
        return tuple(kind for factor in observed.factors for kind in factors_of(factor))
    return (observed,)


def stores(observed: Observed) -> bool:
    """Tell whether weights observe stored entries alone."""
    return any(isinstance(kind, Stored) for kind in factors_of(observed))


def pieces(observed: Observed) -> Pieces | None:
    """Take weights apart; None where they hold a kind, or two masks, that has no place there.

    >>> taken = pieces(Product((Outer(np.ones(2), np.ones(3)), HeldOut(0.1).bind((2, 3)))))
    >>> taken.values is None, taken.mask.classes
    (True, 10)
    """
    found = Pieces()
    for kind in factors_of(observed):
        if isinstance(kind, Outer):
            rows, columns = _times(found.rows, kind.rows), _times(found.columns, kind.columns)
            found = replace(found, rows=rows, columns=columns)
        elif isinstance(kind, Entries):
            found = replace(found, values=_times(found.values, kind.weights))
        elif isinstance(kind, Hidden) and found.mask is None:
            found = replace(found, mask=kind)
        elif not isinstance(kind, Ones):
            return None
    return found


def product(*weights: Observed | None) -> Observed | None:
    """Multiply weights; None stands for ones.

    >>> product(None, None) is None
    True
    """
    given = [kind for one in weights if one is not None for kind in factors_of(one)]
    more = [kind for kind in given if not isinstance(kind, Ones)] or given[:1]
    if len(more) < 2:
        return more[0] if more else None
    return Product(tuple(more))


def weigh(data: Data, observed: Observed | HeldOut | None, mean: float | None = None) -> Data:
    """Put weights of the entries beside X: every sweep of the Data that comes back is made under them.

    A `HeldOut` is bound to X first; None, or ones, leave X without gaps as it is. `mean` is the scale that floors refer
    to, where it is not the weighted mean of the observed entries.
    """
    if isinstance(observed, HeldOut):
        observed = observed.bind(data.shape)
    if observed is not None and not all(_is_one(kind) for kind in factors_of(observed)):
        return data.weigh(observed, mean)
    return data if data.observed is None else data.weigh(Ones(data.shape), mean)


def mixed(words: Indices) -> Indices:
    """Mix the 32 bits of every integer (the finalizer of MurmurHash3), in int64 of NumPy or torch.

    >>> hex(int(mixed(np.array([1]))[0]))
    '0x514e28b7'
    """
    words = words ^ (words >> 16)
    words = (words * 0x85EBCA6B) & _WORD
    words = words ^ (words >> 13)
    words = (words * 0xC2B2AE35) & _WORD
    return words ^ (words >> 16)


def splitmix64(words: Indices) -> Indices:
    """Mix the 64 bits of every unsigned integer (one step of SplitMix64).

    >>> hex(int(splitmix64(np.zeros(1, np.uint64))[0]))
    '0xe220a8397b1dcdaf'
    """
    with np.errstate(over="ignore"):
        words = words + np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return words ^ (words >> np.uint64(31))


def _classes(seed: int, count: int, twins: Indices | None, classes: int) -> Indices:
    """Deal rows, or columns, into classes in the order of their hashes; those with the same twin fall into one.

    Rows and columns are dealt alike, so that X and its transpose lose the same entries.
    """
    first, place = np.unique(np.arange(count) if twins is None else np.asarray(twins), return_inverse=True)
    key = splitmix64(np.array([2 * int(seed)], dtype=np.uint64))
    dealt = np.empty(first.size, np.int64)
    dealt[np.argsort(splitmix64(splitmix64(key + first.astype(np.uint64))), kind="stable")] = np.arange(first.size)
    return dealt[place] % classes


def _size(of: int, some: Some) -> int:
    """How many of so many rows, or columns, are named."""
    return len(range(*some.indices(of))) if isinstance(some, slice) else len(some)


def _times(a: Maybe, b: Array) -> Array:
    return b if a is None else a * b


def _is_one(kind: Observed) -> bool:
    """Whether weights are ones everywhere, so that there is nothing to weigh."""
    if isinstance(kind, Outer):
        return bool((kind.rows == 1).all() and (kind.columns == 1).all())
    if isinstance(kind, Entries):
        return bool((kind.weights == 1).all())
    return isinstance(kind, Ones)


def _digest(kind: str, *contents: object) -> str:
    """SHA-256 over a name, and texts or arrays."""
    whole = hashlib.sha256(kind.encode())
    for content in contents:
        if isinstance(content, str):
            whole.update(content.encode())
            continue
        array = np.ascontiguousarray(content.cpu() if hasattr(content, "cpu") else content)
        whole.update(f"{array.shape} {array.dtype}".encode())
        whole.update(memoryview(array.reshape(-1).view(np.uint8).data))
    return whole.hexdigest()
