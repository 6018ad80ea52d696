"""Matrices in batches of rows, one after another, however many rows there are: files, folders and standard input."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import chain, islice
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from drnmf.loading import needs
from drnmf.matrices.cells import Refused, Row, as_delimiter, find_delimiter, rows_in, rows_of, text_of
from drnmf.matrices.files import read_matrix
from drnmf.matrices.matrix import Labels, Layout, Matrix
from drnmf.matrices.tables import Source, find_layout, read_part, without_ends
from drnmf.numerics import Entries

INPUT = "-"
"""What stands for standard input."""
_TEXT = (".csv", ".tsv", ".txt")
_LINES = (".jsonl", ".ndjson")


def row_batches(source: Path, size: int, variable: str | None = None, layout: Layout | None = None) -> Iterator[Matrix]:
    """Read a matrix in batches of rows, of which one at a time is in memory, or one block of what stores blocks.

    The source is .npy, .zarr, .h5ad or a folder of row blocks; a table of text; JSON lines (.jsonl), each an array of
    numbers or an object of them by the names of the first; "-" is standard input, JSON lines or a table. Any other file
    is read as a whole.
    """
    layout, name = layout or Layout(), source.name.lower().removesuffix(".gz")
    if layout.transpose:
        raise Refused(f"{source} is read row by row: write it with rows and columns exchanged, without --transpose.")
    if str(source) == INPUT:
        yield from _standard_input(size, layout)
    elif not source.exists():
        raise FileNotFoundError(f"{source} does not exist: check the path.")
    elif name.endswith(_LINES):
        with text_of(source) as stream:
            yield from _json_lines(str(source), stream, size)
    elif name.endswith(_TEXT):
        mark = find_delimiter(source) if layout.delimiter is None else as_delimiter(layout.delimiter)
        with rows_of(source, mark) as rows:
            yield from _table(str(source), rows, size, layout.labels)
    elif source.is_dir() or name.endswith((".npy", ".zarr", ".h5ad")):
        yield from _blocks(source, size, variable)
    else:
        whole = read_matrix(source, variable, layout)
        for first in range(0, whole.X.shape[0], size):
            yield Matrix(whole.X[first : first + size], None, whole.columns)


def _standard_input(size: int, layout: Layout) -> Iterator[Matrix]:
    head = next((line for line in sys.stdin if line.strip()), "")
    stream = chain([head], sys.stdin)
    if head.lstrip()[:1] in ("[", "{"):
        yield from _json_lines("standard input", stream, size)
        return
    rows = rows_in(stream, "," if layout.delimiter is None else as_delimiter(layout.delimiter))
    yield from _table("standard input", rows, size, layout.labels)


def _table(name: str, rows: Iterator[Row], size: int, labels: int | None) -> Iterator[Matrix]:
    """Read a table batch by batch, each below the header, which the first rows tell."""
    rows = without_ends(rows, [])  # only here: the gaps with which a batch begins or ends are rows
    chunk = list(islice(rows, size + 1))
    header, count = find_layout(Source(name, partial(_opened_again, chunk)), labels)
    head, below = (chunk[:1], chunk[1:]) if header else ([], chunk)
    rest = chain(below, rows)
    while part := list(islice(rest, size)):
        yield read_part(Source(name, partial(_opened_again, [*head, *part])), header, count)


def _opened_again(rows: list[Row]) -> AbstractContextManager[Iterator[Row]]:
    return nullcontext(iter(rows))


def _json_lines(name: str, stream: Iterable[str], size: int) -> Iterator[Matrix]:
    """Read lines of JSON: arrays, or objects by the names of the first; null, or a name left out, is missing."""
    names: list[str] | None = None
    width, rows = 0, list[list[float]]()
    for number, line in enumerate(stream, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line, object_pairs_hook=_once)
            names = list(record) if not width and isinstance(record, dict) else names
            unknown = set(record) - set(names or ()) if isinstance(record, dict) else ()
            values = [record.get(one) for one in names or ()] if isinstance(record, dict) else list(record)
            row = [math.nan if value is None else float(value) for value in values]
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise Refused(f"{name}, line {number} is no array or object of numbers in JSON ({error}).") from None
        if unknown:
            raise Refused(f"{name}, line {number} names {sorted(unknown)[0]!r}, which the first line does not.")
        if not row:
            raise Refused(f"{name}, line {number} holds no number.")
        width = width or len(row)
        if len(row) != width:
            raise Refused(f"{name}, line {number}: {len(row)} numbers where the lines above have {width}.")
        rows.append(row)
        if len(rows) == size:
            yield Matrix(np.array(rows), None, Labels.of(names))
            rows = []
    if rows:
        yield Matrix(np.array(rows), None, Labels.of(names))


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Read an object, in which no name may stand twice: of two values one would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _blocks(source: Path, size: int, variable: str | None) -> Iterator[Matrix]:
    """Read what is stored in blocks of rows, block by block, and cut it into batches."""
    needs("dask.array", "dask", f"to read {source} in blocks")
    from drnmf.matrices.rowblocks import open_matrix

    opened = open_matrix(source, variable)
    rest: list[Entries] = []
    for i in range(opened.X.numblocks[0]):
        block = opened.X.blocks[i].compute(scheduler="synchronous")
        have = sum(part.shape[0] for part in rest)
        if have + block.shape[0] < size:
            rest.append(block)
            continue
        first = size - have
        yield Matrix(_stacked([*rest, block[:first]]), None, opened.columns)
        ends = range(first, block.shape[0] - size + 1, size)
        for at in ends:
            yield Matrix(block[at : at + size], None, opened.columns)
        last = block[first + len(ends) * size :]
        rest = [last] if last.shape[0] else []
    if rest:
        yield Matrix(_stacked(rest), None, opened.columns)


def _stacked(parts: list[Entries]) -> Entries:
    if len(parts) == 1:
        return parts[0]
    return sp.vstack(parts, format="csr") if any(map(sp.issparse, parts)) else np.concatenate(parts)
