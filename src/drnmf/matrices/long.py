"""Long tables: a row for every entry of X, with the name of its row, the name of its column, and its value."""

from __future__ import annotations

from itertools import filterfalse

import numpy as np
import scipy.sparse as sp

from drnmf.matrices.cells import NotANumber, Numbers, TableError, is_blank, is_missing, labels_of, sample_of
from drnmf.matrices.matrix import Labels, Layout, Matrix
from drnmf.matrices.tables import Source, below_header, find_layout, is_text, read_rows

_ROWS = "user user_id userid reader customer row i document doc doc_id cell"
_COLUMNS = "item item_id itemid movie movie_id movieid book product column j word term gene"
_VALUES = "rating score value count counts n x weight"
LONG_HEADS = tuple(frozenset(words.split()) for words in (_ROWS, _COLUMNS, _VALUES))
"""Heads of a row's name, a column's name and a value, in lower case, by which long tables of numbers are known."""


def read_table(source: Source, layout: Layout) -> Matrix:
    """Read rows of cells: a table of X, or a long one where that was asked for or cannot be anything else."""
    if layout.long:
        return read_long(source)
    if layout.long is None and layout.labels is None and is_long(source):
        return read_long(source, guessed=True)
    return read_rows(source, layout.labels)


def is_long(source: Source) -> bool:
    """Tell whether a table has a row for every entry of X: a row's name, a column's name, a value.

    Of two columns of labels and one of numbers it does where names come again in both columns and no pair does: as a
    matrix it would have one column. Of three columns of numbers it does where the header says so.
    """
    with source.open() as rows:
        sample = sample_of(rows)
    if {len(cells) for _, cells in sample} != {3}:
        return False
    header, labels = find_layout(source, None)
    if labels != 2 and not (header and labels == 0):
        return False
    if labels == 0 and not all(
        cell.strip().lower() in heads for cell, heads in zip(sample[0][1], LONG_HEADS, strict=True)
    ):
        return False
    seen: tuple[set[str], set[str]] = (set(), set())
    pairs, total = set[tuple[str, str]](), 0
    with source.open() as rows:
        for _, cells in filterfalse(is_blank, below_header(rows, header)):
            total += 1
            pairs.add((cells[0].strip(), cells[1].strip()))
            for names, cell in zip(seen, cells[:2], strict=True):
                names.add(cell.strip())
    return len(pairs) == total and all(len(names) < total for names in seen)


def read_long(source: Source, guessed: bool = False) -> Matrix:
    """Read a table with a row for every entry of X as a sparse matrix in which what is missing is missing.

    The first three columns are the row's name, the column's name and the value. Rows and columns of X come in the order
    in which they are first named. Where nobody asked for it (`guessed`) a note says so.
    """
    with source.open() as rows:
        sample = sample_of(rows)
    if not sample or len(sample[0][1]) < 3:
        raise TableError(f"{source.name} is no long table: it needs a row's name, a column's name and a value.")
    header = source.header if source.header is not None else is_text(sample[0][1][2])
    names: tuple[dict[str, int], dict[str, int]] = ({}, {})
    places, numbers, gaps = dict[tuple[int, int], int](), Numbers(), 0
    with source.open() as rows:
        for line, cells in filterfalse(is_blank, below_header(rows, bool(header))):
            if len(cells) < 3:
                raise TableError(f"{source.name}, {source.unit} {line}: {len(cells)} cells, and three are needed.")
            if is_missing(cells[2]):
                gaps += 1
                continue
            row, column = (
                known.setdefault(cell.strip(), len(known)) for known, cell in zip(names, cells, strict=False)
            )
            if places.setdefault((row, column), line) != line:
                raise TableError(
                    f"{source.name}, {source.unit} {line}: {cells[0].strip()!r}, {cells[1].strip()!r} stands in "
                    f"{source.unit} {places[row, column]} already: keep one of them."
                )
            try:
                numbers.add(cells[2:3])
            except NotANumber as error:
                raise TableError(
                    f"{source.name}, {source.unit} {line}: {error.cell[:40]!r} is not a number.{error.hint}"
                ) from None
    if not places:
        raise TableError(f"{source.name} has a header but no rows below it.")
    at = np.array(list(places), dtype=np.int64)
    shape = len(names[0]), len(names[1])
    X = sp.csr_array((np.frombuffer(numbers.values, dtype=np.float64), (at[:, 0], at[:, 1])), shape=shape)
    how = "was read as a long table (--long; --labels 2 reads a matrix)" if guessed else "is a long table"
    note = f"{source.name} {how}: {shape[0]} rows x {shape[1]} columns, {len(places)} entries, the others missing."
    titles = [cell.strip() for cell in sample[0][1][:2]] if header else ["", ""]
    rows_, columns = (Labels((labels_of(known),), (title,)) for known, title in zip(names, titles, strict=True))
    return Matrix(X, rows_, columns, (note,), gaps=True)
