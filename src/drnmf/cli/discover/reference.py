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


def read_reference(path: Path, labels: Names, count: int) -> Reference:
    """Read a table with one known component per column and bring its rows into the order of the labels of X.

    Parameters
    ----------
    path : the file
    labels : of the profiles of X; None takes the rows of the reference as they come
    count : how many entries a profile has

    Raises
    ------
    ValueError
        Where labels of X are missing in the reference; they are named.
    """
    import numpy as np

    from drnmf.matrices.files import read_matrix
    from drnmf.selection.matching import positions

    table = read_matrix(path)
    X = np.asarray(table.X.toarray() if hasattr(table.X, "toarray") else table.X, dtype=np.float64)
    if labels is not None and table.row_names is not None:
        try:
            X = X[positions([spelt(name) for name in labels], [spelt(name) for name in table.row_names])]
        except ValueError as error:
            raise ValueError(f"--reference {path}: {error}") from None
    elif X.shape[0] != count:
        raise ValueError(
            f"--reference {path} has {X.shape[0]} rows, but a profile of X has {count} entries: give as many."
        )
    names = table.column_names or tuple(f"reference {j + 1}" for j in range(X.shape[1]))
    return Reference(X.T, list(names))
