"""A matrix as a file holds it: X, the labels of its rows and columns (mutation types too), and how a file is read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from drnmf.backends.entries import is_sound
from drnmf.matrices.cells import Refused
from drnmf.numerics import Entries

Names = tuple[str, ...] | None


@contextmanager
def readable(source: str | os.PathLike[str], where: str = "") -> Iterator[None]:
    """Turn whatever a reader raises on a damaged file into one error that names the file."""
    try:
        yield
    except (Refused, ImportError, MemoryError, PermissionError):
        raise
    except Exception as error:  # what reads damaged files raises nearly anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise Refused(f"{source}{where} cannot be read: it may be damaged or cut short ({reason}).") from None


def check_form(source: Path, shape: tuple[int, ...], dtype: np.dtype[np.generic], cube: bool = False) -> None:
    """Refuse what is no matrix of real numbers with at least one entry, nor a cube of them where one may be."""
    if dtype.kind == "c":
        raise Refused(f"{source} holds complex numbers: take absolute values (np.abs) first.")
    if dtype.kind not in "buif":
        raise Refused(f"{source} holds entries of type {dtype}, not numbers: convert it to a numeric array.")
    if len(shape) != 2 and not (cube and len(shape) == 3):
        more = ", or a cube of rows x columns x bands" if cube else ""
        raise Refused(f"{source} holds an array of shape {shape}: a matrix with two dimensions is needed{more}.")
    if 0 in shape:
        raise Refused(f"{source} holds an empty matrix of shape {shape}: at least one row and column are needed.")


@dataclass(frozen=True)
class Layout:
    """How a table lies in its file; None finds out."""

    labels: int | None = None  # how many of the first columns hold labels of the rows
    delimiter: str | None = None  # what separates the cells of a text file
    sheet: str | None = None  # which sheet of a workbook; None is the first
    transpose: bool = False  # X is the table with rows and columns exchanged
    layer: str | None = None  # which layer of an AnnData file; None is "counts" where there is one, else X
    long: bool | None = None  # whether it has a row for every entry of X: its row, its column, its value
    image: tuple[int, int] | None = None  # rows and columns of the picture whose pixels the rows of X are


AS_FOUND = Layout()


@dataclass(frozen=True)
class Labels:
    """Labels along one side of a matrix: one or several columns of them, and the titles of these columns.

    >>> Labels((("C>A", "C>A"), ("ACA", "ACC")), ("type", "context")).names
    ('C>A ACA', 'C>A ACC')
    """

    columns: tuple[tuple[str, ...], ...]
    titles: tuple[str, ...]
    image: tuple[int, int] | None = None  # rows and columns of the picture, where these are its pixels, row by row

    @classmethod
    def of(cls, names: Sequence[str] | None) -> Labels | None:
        """One column of names without a title; None where there are none."""
        return None if names is None else cls((tuple(names),), ("",))

    @classmethod
    def of_pixels(cls, image: tuple[int, int]) -> Labels:
        """Number the pixels of a picture by row and column.

        >>> Labels.of_pixels((1, 2)).names
        ('1 1', '1 2')
        """
        places = [(str(i + 1), str(j + 1)) for i in range(image[0]) for j in range(image[1])]
        rows, columns = zip(*places, strict=True)
        return cls((rows, columns), ("row", "column"), image)

    @property
    def names(self) -> tuple[str, ...]:
        """One name per row or column: its labels with a space between them."""
        return self.columns[0] if len(self.columns) == 1 else tuple(map(" ".join, zip(*self.columns, strict=True)))


@dataclass(frozen=True)
class Matrix:
    """X (m, n), dense or CSR, and the labels of its rows and columns where the file has them."""

    X: Entries
    rows: Labels | None = None
    columns: Labels | None = None
    notes: tuple[str, ...] = ()
    gaps: bool = False  # what a sparse X does not store is missing, as in a long table, and not zero

    @property
    def image(self) -> tuple[int, int] | None:
        """Rows and columns of the picture whose pixels the rows of X are."""
        return None if self.rows is None else self.rows.image

    @property
    def row_names(self) -> Names:
        """One name per row, where the file has them."""
        return None if self.rows is None else self.rows.names

    @property
    def column_names(self) -> Names:
        """One name per column, where the file has them."""
        return None if self.columns is None else self.columns.names

    @property
    def named(self) -> bool:
        """Whether rows or columns have names."""
        return self.rows is not None or self.columns is not None

    def transposed(self) -> Matrix:
        """Exchange rows and columns, labels included."""
        X = sp.csr_array(self.X.T) if sp.issparse(self.X) else np.ascontiguousarray(self.X.T)
        return replace(self, X=X, rows=self.columns, columns=self.rows)

    def arranged(self, layout: Layout, source: Path) -> Matrix:
        """Exchange rows and columns, and know the rows for pixels, where that was asked for."""
        matrix = self.transposed() if layout.transpose else self
        if layout.image is None:
            return matrix
        high, wide = layout.image
        if high * wide != matrix.X.shape[0]:
            raise Refused(
                f"{source} has {matrix.X.shape[0]} rows, and a picture of {high} x {wide} has {high * wide} pixels: "
                "give its size as ROWSxCOLUMNS, or --transpose where the pixels are columns."
            )
        rows = Labels.of_pixels(layout.image) if matrix.rows is None else replace(matrix.rows, image=layout.image)
        return replace(matrix, rows=rows)

    def under(self, names: Sequence[str]) -> Matrix:
        """Bring the columns of a long table, which come as they are first named, under the names of a model."""
        where = {name: j for j, name in enumerate(names)}
        own = self.column_names or ()
        strange = next((name for name in own if name not in where), None)
        if strange is not None:
            raise Refused(f"column {strange!r} is not known to the model: leave its entries out.")
        entries = sp.coo_array(self.X)
        places = np.array([where[name] for name in own])[entries.col]
        X = sp.csr_array((entries.data, (entries.row, places)), shape=(self.X.shape[0], len(names)))
        return replace(self, X=X, columns=Labels.of(tuple(names)))

    def scaled_rows(self) -> Matrix:
        """Divide every row by its sum over what was observed; rows of zeros stay."""
        sparse = sp.issparse(self.X)
        sums = np.asarray(self.X.sum(axis=1) if sparse else np.nansum(self.X, axis=1), dtype=np.float64).ravel()
        by = 1.0 / np.where(sums > 0, sums, 1.0)
        return replace(self, X=sp.csr_array(sp.diags_array(by) @ self.X) if sparse else self.X * by[:, None])

    def with_gaps(self) -> Matrix:
        """Turn sparse X whose other entries are missing into an array with NaN there; any other X stays."""
        if not self.gaps or not sp.issparse(self.X):
            return self
        entries = sp.coo_array(self.X)
        X = np.full(self.X.shape, np.nan, dtype=np.result_type(self.X.dtype, np.float32))
        X[entries.row, entries.col] = entries.data
        return replace(self, X=X, gaps=False)

    def cell(self, i: int, j: int, first: int = 0) -> str:
        """Name a cell by its row and column, or number them where they have no names; rows begin at the first."""
        row = f"row {first + i + 1}" if self.row_names is None else f"row {self.row_names[i]!r}"
        column = f"column {j + 1}" if self.column_names is None else f"column {self.column_names[j]!r}"
        return f"the cell in {row}, {column}"


TAKE_NEGATIVES = (
    "pass --negatives clip to set such cells to 0, --negatives missing to leave them out, or --negatives keep with "
    "--betas 2 to take them as they are"
)


def check_cells(
    matrix: Matrix, source: Path, negatives: str = "raise", cure: str = TAKE_NEGATIVES, first: int = 0
) -> None:
    """Refuse an entry that NMF cannot take, by the names of its row and column, or their numbers where it has none.

    Negative cells are refused where `negatives` is "raise", with this cure, and left to the estimator elsewhere;
    `first` rows of the file stand before these, where they are a batch of it.
    """
    if hasattr(matrix.X, "chunks") or sp.issparse(matrix.X) or is_sound(matrix.X):
        return
    with np.errstate(invalid="ignore"):
        bad = np.isinf(matrix.X) | ((matrix.X < 0) & (negatives == "raise"))
    if not bad.any():
        return
    i, j = (int(at) for at in np.unravel_index(int(np.argmax(bad)), bad.shape))
    what = "is infinite: correct it, or leave the cell empty if nothing was observed"
    if np.isfinite(value := matrix.X[i, j]):
        what = f"is {value:g}, and NMF needs values >= 0: {cure}"
    raise Refused(f"{source}: {matrix.cell(i, j, first)} {what}.")


_APART = re.compile(r"^([CT])>([ACGT])[\s:_,-]*([ACGT])\1([ACGT])$")
_WHOLE = re.compile(r"^[ACGT]\[([CT]>[ACGT])\][ACGT]$")

SUBSTITUTIONS = ("C>A", "C>G", "C>T", "T>A", "T>C", "T>G")
"""The six substitutions in the order of the field."""


def spelt(label: str) -> str:
    """Write a mutation type as COSMIC does, whichever way it is written; any other label stays as it is.

    >>> spelt("C>A ACG"), spelt("A[C>A]G"), spelt("height")
    ('A[C>A]G', 'A[C>A]G', 'height')
    """
    parts = _APART.match(label.strip())
    return f"{parts[3]}[{parts[1]}>{parts[2]}]{parts[4]}" if parts else label.strip()


def substitution(label: str) -> str | None:
    """Return the substitution of a mutation type; None for any other label.

    >>> substitution("C>A ACG"), substitution("height")
    ('C>A', None)
    """
    parts = _WHOLE.match(spelt(label))
    return parts[1] if parts else None


def are_mutations(labels: Iterable[str] | None) -> bool:
    """Tell whether labels are mutation types, every one of them.

    >>> are_mutations(["C>A ACG", "A[C>A]A"]), are_mutations(["C>A ACG", "height"]), are_mutations(None)
    (True, False, False)
    """
    listed = list(labels or ())
    return len(listed) > 1 and all(substitution(label) is not None for label in listed)
