"""Which component is which: the best one-to-one assignment to a reference, by any measure of similarity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from drnmf.numerics import Vector, real_numbers
from drnmf.parameters.fields import check_choice
from drnmf.selection.entries import Indices

Measure = Callable[[Vector, Vector], Vector]

NONE = -1
"""The reference of a component that has no partner."""
_LISTED = 5
"""Labels that a message names."""


class Known(NamedTuple):
    """Known components (s, n), one per row, and their names."""

    components: Vector
    names: list[str]

    @classmethod
    def of(cls, reference: Any, names: Iterable[object] | None = None) -> Known:
        """Take known components out of an array, a frame, or a mapping of names to profiles.

        >>> Known.of({"sea": [1.0, 0.0], "soil": [0.5, 0.5]}).names
        ['sea', 'soil']
        """
        if isinstance(reference, Known):
            return reference
        if isinstance(reference, Mapping):
            names, reference = list(reference), [np.ravel(profile) for profile in reference.values()]
        elif names is None and _is_frame(reference):
            names = reference.index
        components = as_components(reference, "reference")
        listed = [f"reference_{j + 1}" for j in range(len(components))] if names is None else list(map(str, names))
        if len(listed) != len(components):
            raise ValueError(
                f"names has {len(listed)} entries, but the reference {len(components)} rows: give one per row."
            )
        return cls(components, listed)


@dataclass(frozen=True)
class Matching:
    """Components beside their partners in a reference.

    Attributes
    ----------
    index : (r,) int
        The row of the reference that is the partner of each component; -1 where it has none.
    similarity : (r,)
        Similarity to the partner; NaN where there is none.
    names : tuple of (str or None)
        Name of the partner of each component.
    table : (r, s)
        Every similarity of a component and a reference.
    """

    index: Indices
    similarity: Vector
    names: tuple[str | None, ...]
    table: Vector

    def __str__(self) -> str:
        lines = (
            f"component_{k + 1} = {name}, {value:.2f}" if name is not None else f"component_{k + 1}: no partner"
            for k, (name, value) in enumerate(zip(self.names, self.similarity, strict=True))
        )
        return "\n".join(lines)


def cosine(A: Vector, B: Vector) -> Vector:
    """Compute the cosine of every row of A (r, n) with every row of B (s, n); a row of zeros has none, so 0."""
    return unit(A) @ unit(B).T


def correlation(A: Vector, B: Vector) -> Vector:
    """Compute the correlation of every row of A with every row of B: the cosine after the means are taken off."""
    return cosine(A - A.mean(axis=1, keepdims=True), B - B.mean(axis=1, keepdims=True))


MEASURES: dict[str, Measure] = {"cosine": cosine, "correlation": correlation}


def unit(A: Vector) -> Vector:
    """Divide every row by its Euclidean norm; rows of zeros stay."""
    largest = _or_one(np.abs(A).max(axis=-1, keepdims=True))  # squares of tiny entries would vanish
    scaled = A / largest
    return np.asarray(scaled / _or_one(np.linalg.norm(scaled, axis=-1, keepdims=True)))


def shares(A: Vector) -> Vector:
    """Divide every row by its sum; rows of zeros stay.

    >>> shares(np.array([[1.0, 3.0], [0.0, 0.0]])).tolist()
    [[0.25, 0.75], [0.0, 0.0]]
    """
    return np.asarray(A / _or_one(A.sum(axis=-1, keepdims=True)))


def _or_one(scale: Vector) -> Vector:
    return np.where(scale > 0, scale, 1.0)


def match(
    components: ArrayLike,
    reference: ArrayLike | Mapping[str, ArrayLike],
    *,
    names: Sequence[str] | None = None,
    measure: str | Measure = "cosine",
    least: float = -1.0,
) -> Matching:
    """Pair components with the rows of a reference so that the similarities of the pairs have the largest sum.

    Every component has at most one partner and every reference at most one component (Hungarian algorithm).

    Parameters
    ----------
    components : array or DataFrame of shape (r, n)
        One component per row, as in ``components_``.
    reference : array or DataFrame of shape (s, n), or a mapping of names to profiles
        What to compare with, one per row. Where both are DataFrames, columns are paired by their labels.
    names : sequence of str, optional
        A name per row of the reference; a DataFrame brings its index, a mapping its keys.
    measure : {"cosine", "correlation"} or callable
        Similarity; a callable takes (r, n) and (s, n) and returns (r, s), larger for what is more alike.
    least : float
        Pairs with a smaller similarity are forbidden.

    Returns
    -------
    Matching
        Partners, similarities and names.

    Raises
    ------
    ValueError
        Where shapes, labels or names do not fit together; labels that are missing are named.

    Examples
    --------
    >>> found = match([[0.0, 1.0], [1.0, 0.1]], [[1.0, 0.0], [0.0, 2.0]], names=["left", "right"])
    >>> found.names, found.index.tolist()
    (('right', 'left'), [1, 0])
    """
    A, (B, known) = as_components(components, "components"), Known.of(aligned(components, reference), names)
    if A.shape[1] != B.shape[1]:
        raise ValueError(
            f"components have {A.shape[1]} entries and the reference {B.shape[1]}: both need one component per row "
            "over the same columns."
        )
    table = measure(A, B) if callable(measure) else MEASURES[check_choice("measure", measure, tuple(MEASURES))](A, B)
    index = assign(table, least)
    similarity = np.where(index >= 0, table[np.arange(len(index)), index], np.nan)
    return Matching(index, similarity, tuple(known[j] if j >= 0 else None for j in index), table)


def assign(table: Vector, least: float = -np.inf) -> Indices:
    """Find the one-to-one assignment with the largest sum among pairs that are not below `least`.

    Parameters
    ----------
    table : (r, s), similarities
    least : pairs below it are forbidden

    Returns
    -------
    index : (r,) int, the column of each row, -1 where it has none

    Examples
    --------
    >>> assign(np.array([[0.9, 0.8], [0.8, 0.1]])).tolist(), assign(np.array([[0.9, 0.8], [0.8, 0.1]]), 0.85).tolist()
    ([1, 0], [0, -1])
    """
    allowed = table >= least
    forbidden = -(1.0 + 2.0 * np.abs(table).max() * max(table.shape))  # more than all others together could gain
    gains = np.where(allowed, table, forbidden)
    rows, columns = scipy.optimize.linear_sum_assignment(gains, maximize=True)
    index = np.full(table.shape[0], NONE, dtype=np.int64)
    kept = allowed[rows, columns]
    index[rows[kept]] = columns[kept]
    return index


def as_components(values: object, what: str) -> Vector:
    """Check that values are a finite matrix with one component per row."""
    matrix = real_numbers(what, values, ": give one component per row")
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"{what} has shape {matrix.shape}: give a matrix with one component per row.")
    if not np.isfinite(matrix).all():
        raise ValueError(f"{what} must be finite: it has an infinite or missing entry.")
    return matrix


def _is_frame(values: object) -> bool:
    """Whether a value has labels as a pandas DataFrame has them."""
    return hasattr(values, "columns") and hasattr(values, "iloc")


def aligned(components: Any, reference: Any, what: str = "the reference") -> Any:
    """Bring the columns of a reference into the order of the components, where both have labels."""
    if not (_is_frame(components) and _is_frame(reference)):
        return reference
    order = positions(list(components.columns), list(reference.columns), what)
    return reference.iloc[:, order]


def positions(labels: Sequence[object], among: Sequence[object], what: str = "the reference") -> list[int]:
    """Find where each label stands among others, those of `what`; what is missing there, or twice, is named."""
    where = {label: j for j, label in enumerate(among)}
    missing = [label for label in labels if label not in where]
    if missing:
        shown = ", ".join(map(repr, missing[:_LISTED])) + (", ..." if len(missing) > _LISTED else "")
        raise ValueError(
            f"{what} lacks {len(missing)} of {len(labels)} labels: {shown}; its own are like {among[0]!r}."
        )
    if len(where) < len(among):
        twice = next(label for j, label in enumerate(among) if where[label] != j)
        raise ValueError(f"{what} has the label {twice!r} twice.")
    return [where[label] for label in labels]
