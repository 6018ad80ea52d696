"""Known components from a file, under the labels of X, however mutation types are spelt there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from drnmf.numerics import Vector

if TYPE_CHECKING:
    from drnmf.matrices.matrix import Names

_APART = re.compile(r"^([CT])>([ACGT])[\s:_,-]*([ACGT])\1([ACGT])$")


class Reference(NamedTuple):
    """Known components (s, n), one per row, and their names."""

    components: Vector
    names: list[str]


def spelt(label: str) -> str:
    """Write a mutation type as COSMIC does, whichever way it is written; any other label stays as it is.

    >>> spelt("C>A ACG"), spelt("A[C>A]G"), spelt("height")
    ('A[C>A]G', 'A[C>A]G', 'height')
    """
    found = _APART.match(label.strip())
    return f"{found[3]}[{found[1]}>{found[2]}]{found[4]}" if found else label.strip()


def read_reference(path: Path, labels: Names, count: int, option: str = "--reference") -> Reference:
    """Read a table with one known component per column and bring its rows into the order of the labels of X.

    Parameters
    ----------
    path : the file
    labels : of the profiles of X; None takes the rows of the reference as they come
    count : how many entries a profile has
    option : that names the file

    Raises
    ------
    ValueError
        Where labels of X are missing in the reference; they are named.
    """
    import numpy as np

    from drnmf.matrices.files import read_matrix

    table = read_matrix(path)
    X = np.asarray(table.X.toarray() if hasattr(table.X, "toarray") else table.X, dtype=np.float64)
    names = table.column_names or tuple(f"reference {j + 1}" for j in range(X.shape[1]))
    return Reference(ordered(X, table.row_names, labels, count, f"{option} {path}").T, list(names))


def ordered(X: Vector, own: Names, labels: Names, count: int, source: str) -> Vector:
    """Bring the rows of known components, one per column, into the order of the labels of X.

    Parameters
    ----------
    X : (n, s)
    own : a label per row, None where there are none
    labels, count : of the profiles of X
    source : how messages call it
    """
    from drnmf.selection.matching import positions

    if labels is not None and own is not None:
        try:
            return X[positions([spelt(name) for name in labels], [spelt(name) for name in own], "it")]
        except ValueError as error:
            raise ValueError(f"{source}: {error}") from None
    if X.shape[0] != count:
        raise ValueError(f"{source} has {X.shape[0]} rows, but a profile of X has {count} entries: give as many.")
    return X
