"""Documents from a folder of .txt and .md, or from a column of .jsonl, .csv, .tsv or .parquet."""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from drnmf.loading import needs

_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_UNLIMITED = 1 << 30


@dataclass(frozen=True)
class Documents:
    """Texts with their names, a class for each where one was asked for, and remarks on how they were read."""

    names: tuple[str, ...]
    texts: tuple[str, ...]
    labels: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()


def read_documents(
    source: str | os.PathLike[str],
    column: str | None = None,
    encoding: str = "utf-8",
    labels: str | None = None,
) -> Documents:
    """Read documents from a folder of .txt and .md files or from a column of a table.

    Bytes that do not fit `encoding` become U+FFFD, and a note counts the documents this happened to. A byte order mark
    is believed whatever `encoding` says.

    Parameters
    ----------
    source : a folder, or a .jsonl, .csv, .tsv or .parquet file
    column : the column that holds the text, in formats that have columns
    encoding : of the texts
    labels : the column that holds the class of a document; None reads none

    Returns
    -------
    documents : Documents

    Raises
    ------
    ValueError
        Where the format is not known, a column is missing, a line is broken, or there is no document.
    """
    path = Path(source)
    try:
        b" ".decode(encoding, errors="replace")  # some codecs turn bytes into other bytes: hex, base64, zip
    except (LookupError, ValueError):
        raise ValueError(
            f"encoding={encoding!r} is not known as an encoding of text: use utf-8, latin-1, cp1252, ..."
        ) from None
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if path.is_dir():
        if column is not None or labels is not None:
            raise ValueError(f"{path} is a folder of texts, which has no columns: leave the column names out.")
        return _read_folder(path, encoding)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(
            f"{path} has a suffix that is not known: give a folder of .txt or .md, or one of {sorted(READERS)}."
        )
    if column is None:
        raise ValueError(f"{path} has columns: name the one that holds the text with --column.")
    columns = [column] if labels is None else [column, labels]
    rows = [["" if cell is None else str(cell) for cell in cells] for cells in reader(path, columns, encoding)]
    if not rows:
        raise ValueError(f"{path} holds no documents.")
    names = tuple(str(number) for number in range(1, len(rows) + 1))
    classes = None if labels is None else tuple(row[1] for row in rows)
    return _documents(names, [row[0] for row in rows], encoding, classes)


def _documents(
    names: tuple[str, ...], texts: list[str], encoding: str, labels: tuple[str, ...] | None = None
) -> Documents:
    """Collect texts, and count those of which some bytes were replaced."""
    damaged = sum("\ufffd" in text for text in texts)
    note = (
        f"{damaged} documents hold bytes that are not {encoding}: they were replaced by U+FFFD. "
        "Pass the right encoding (for example latin-1) to read them."
    )
    return Documents(names, tuple(texts), labels, (note,) if damaged else ())


def _refuse_missing(path: Path, columns: list[str], there: Iterable[str], place: str = "") -> None:
    known = list(there)
    for name in columns:
        if name not in known:
            listing = ", ".join(map(repr, known[:20])) or "none"
            raise ValueError(f"{place}{path} has no column {name!r}: it has {listing}.")


def _decode(content: bytes, encoding: str) -> str:
    """Decode bytes; what does not fit becomes U+FFFD."""
    for mark, name in _BOMS:
        if content.startswith(mark):
            encoding = name
    return content.decode(encoding, errors="replace")


def text_files(folder: Path) -> list[Path]:
    """List the texts in a folder and below, in the order of their names."""
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".txt", ".md") and path.is_file())


def _read_folder(folder: Path, encoding: str) -> Documents:
    files = text_files(folder)
    if not files:
        raise ValueError(f"{folder} holds no .txt or .md files.")
    names = tuple(path.relative_to(folder).as_posix().encode(errors="replace").decode() for path in files)
    return _documents(names, [_decode(path.read_bytes(), encoding) for path in files], encoding)


Rows = Iterator[Sequence[object]]
"""The cells of some columns, row by row."""


def _read_jsonl(path: Path, columns: list[str], encoding: str) -> Rows:
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        text = _decode(line, encoding)
        if not text.strip():
            continue
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}, line {number}: not JSON ({error}).") from None
        if not isinstance(record, dict):
            raise ValueError(f"{path}, line {number}: {type(record).__name__} instead of an object with columns.")
        _refuse_missing(path, columns, record, f"line {number} of ")
        yield [record[name] for name in columns]


def _read_delimited(path: Path, columns: list[str], encoding: str) -> Rows:
    csv.field_size_limit(_UNLIMITED)
    text = io.StringIO(_decode(path.read_bytes(), encoding), newline="")
    reader = csv.reader(text, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
    try:
        header = [name.strip() for name in next(reader, [])]
        _refuse_missing(path, columns, header)
        places = [header.index(name) for name in columns]
        for cells in filter(None, reader):
            if max(places) >= len(cells):
                raise ValueError(f"{path}, line {reader.line_num}: {len(cells)} cells, the header has {len(header)}.")
            yield [cells[place] for place in places]
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}.") from None


def _read_parquet(path: Path, columns: list[str], encoding: str) -> Rows:
    parquet, pyarrow = (needs(module, "text", "to read .parquet") for module in ("pyarrow.parquet", "pyarrow"))
    try:
        _refuse_missing(path, columns, parquet.read_schema(path).names)
        table = parquet.read_table(path, columns=columns)
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read as parquet: {error}") from None
    yield from zip(*(table[name].to_pylist() for name in columns), strict=True)


READERS: dict[str, Callable[[Path, list[str], str], Rows]] = {
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".csv": _read_delimited,
    ".tsv": _read_delimited,
    ".parquet": _read_parquet,
}
"""Suffix -> how its columns are read."""
