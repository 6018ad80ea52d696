"""Matrix Market files, counted before they are read: SciPy's reader trusts every line to be whole."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

_BLOCK = 1 << 22
_VALUES = {"real": 1, "double": 1, "integer": 1, "unsigned-integer": 1, "complex": 2, "pattern": 0}
_SYMMETRIES = ("general", "symmetric", "hermitian", "skew-symmetric")
_BLANKS, _NUMBERS = b" \t\r\n", b"0123456789+-.eEinfatyINFATY"
_BLANK, _ALLOWED = (
    np.isin(np.arange(256), np.frombuffer(codes, dtype=np.uint8)) for codes in (_BLANKS, _BLANKS + _NUMBERS)
)


def check_matrix_market(source: Path) -> None:
    """Refuse a .mtx or .mtx.gz whose lines are not those that its header promises.

    Raises
    ------
    ValueError
        With what was expected and what is there. The reader of SciPy reads past the end of such files.
    """
    with gzip.open(source, "rb") if source.suffix.lower() == ".gz" else open(source, "rb") as stream:
        fields, entries = _promised(stream)
        found = 0
        for block in _whole_lines(stream):
            _refuse_strange_bytes(block)
            words = _words_per_line(block)
            wrong = np.flatnonzero(words != fields)
            if wrong.size:
                entry = found + int(wrong[0])
                raise ValueError(f"entry {entry + 1} has {words[wrong[0]]} numbers where {fields} are needed")
            found += words.size
    if found != entries:
        raise ValueError(f"its header promises {entries} entries, and {found} are there")


def _promised(stream: Any) -> tuple[int, int]:
    """(numbers on every line, lines) that follow, from the header and the line of sizes."""
    words = stream.readline(_BLOCK).decode("ascii", "replace").lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise ValueError("its first line is not '%%MatrixMarket matrix FORMAT FIELD SYMMETRY'")
    form, field, symmetry = words[2:]
    if form not in ("coordinate", "array") or field not in _VALUES or symmetry not in _SYMMETRIES:
        raise ValueError(f"its header says {form} {field} {symmetry}, which is not known")
    sizes = _sizes(stream, 3 if form == "coordinate" else 2)
    if form == "coordinate":
        return 2 + _VALUES[field], sizes[2]
    rows, columns = sizes
    triangle = {"general": rows * columns, "skew-symmetric": rows * (rows - 1) // 2}
    return _VALUES[field], triangle.get(symmetry, rows * (rows + 1) // 2)


def _sizes(stream: Any, count: int) -> list[int]:
    while line := stream.readline(_BLOCK):
        if line.strip() and not line.startswith(b"%"):
            words = line.split()
            if len(words) != count or not all(word.isdigit() for word in words):
                raise ValueError(f"its line of sizes is not {count} whole numbers")
            return [int(word) for word in words]
    raise ValueError("it ends before its line of sizes")


def _whole_lines(stream: Any) -> Iterator[bytes]:
    """The rest of the file in blocks that end where a line ends."""
    rest = b""
    while block := stream.read(_BLOCK):
        whole, end, rest = (rest + block).rpartition(b"\n")
        if len(rest) > _BLOCK:
            raise ValueError(f"it has a line of more than {_BLOCK} bytes")
        yield whole + end
    for word in rest.split():  # the reader looks for the end of a last line that it does not understand
        float(word)
    yield rest


def _refuse_strange_bytes(block: bytes) -> None:
    """Only what numbers are made of: the reader takes a zero byte for the end of the file."""
    strange = np.flatnonzero(~_ALLOWED[np.frombuffer(block, dtype=np.uint8)])
    if strange.size:
        raise ValueError(f"it has the byte {block[strange[0] : strange[0] + 1]!r} among its numbers")


def _words_per_line(block: bytes) -> np.ndarray[tuple[int], np.dtype[Any]]:
    """How many words each line that is not blank has.

    >>> _words_per_line(b"1 2 0.5\\n\\n 3\\t4").tolist()
    [3, 2]
    """
    codes = np.frombuffer(block, dtype=np.uint8)
    if codes.size == 0:
        return np.empty(0, dtype=np.int64)
    begins = ~_BLANK[codes]
    begins[1:] &= ~begins[:-1]
    lines = np.concatenate([[0], np.flatnonzero(codes[:-1] == 10) + 1])
    words = np.add.reduceat(begins, lines, dtype=np.int64)
    return words[words > 0]
