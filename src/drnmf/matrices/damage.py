"""Files that their readers would crash on, looked through before they are read.

SciPy trusts every line of a Matrix Market file to be whole, and follows a wrong tag of a MATLAB file out of its
tables. The HDF5 library loops for ever, or crashes, on some damaged files: those are tried in a process of their own,
whose program this file is too, so it imports nothing of the package.
"""

from __future__ import annotations

import gzip
import mmap
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import h5py

_BLOCK = 1 << 22
_VALUES = {"real": 1, "double": 1, "integer": 1, "unsigned-integer": 1, "complex": 2, "pattern": 0}
_SYMMETRIES = ("general", "symmetric", "hermitian", "skew-symmetric")
_BLANKS, _NUMBERS = b" \t\r\n", b"0123456789+-.eEinfatyINFATY"
_BLANK, _ALLOWED = (
    np.isin(np.arange(256), np.frombuffer(codes, dtype=np.uint8)) for codes in (_BLANKS, _BLANKS + _NUMBERS)
)


def check_matrix_market(source: Path) -> None:
    """Refuse a .mtx or .mtx.gz whose lines are not those that its header promises: SciPy reads past its end."""
    with cast("IO[bytes]", (gzip.open if source.suffix.lower() == ".gz" else open)(source, "rb")) as stream:
        fields, entries = _promised(stream)
        count = 0
        for block in _whole_lines(stream):
            _refuse_strange_bytes(block)
            words = _words_per_line(block)
            wrong = np.flatnonzero(words != fields)
            if wrong.size:
                entry = count + int(wrong[0])
                raise ValueError(f"entry {entry + 1} has {words[wrong[0]]} numbers where {fields} are needed")
            count += words.size
    if count != entries:
        raise ValueError(f"its header promises {entries} entries, and {count} are there")


def _promised(stream: IO[bytes]) -> tuple[int, int]:
    """Read how many numbers stand on every line and how many lines follow, from the header and the line of sizes."""
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


def _sizes(stream: IO[bytes], count: int) -> list[int]:
    while line := stream.readline(_BLOCK):
        if line.strip() and not line.startswith(b"%"):
            words = line.split()
            if len(words) != count or not all(word.isdigit() for word in words):
                raise ValueError(f"its line of sizes is not {count} whole numbers")
            return [int(word) for word in words]
    raise ValueError("it ends before its line of sizes")


def _whole_lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the rest of the file in blocks that end where a line ends."""
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
    """Refuse bytes that no number is made of: the reader takes a zero byte for the end of the file."""
    strange = np.flatnonzero(~_ALLOWED[np.frombuffer(block, dtype=np.uint8)])
    if strange.size:
        raise ValueError(f"it has the byte {block[strange[0] : strange[0] + 1]!r} among its numbers")


def _words_per_line(block: bytes) -> NDArray[np.int64]:
    """Count the words of each line that is not blank.

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


_HEADER = 128
_MATRIX, _COMPRESSED = 14, 15
_LEAVES = {1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 16, 17, 18}
"""Codes of numbers and text."""
_CLASSES = range(1, 18)
_DEEPEST = 50


def check_matlab(source: Path) -> None:
    """Refuse a .mat file of version 5 to 7 whose elements do not lie inside one another or are of no known type.

    Files of other versions are left to their readers.
    """
    with open(source, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        mark = bytes(content[124:_HEADER])
        if mark in (b"\x00\x01IM", b"\x01\x00MI") and 0 not in content[:4]:  # version 4 begins with a small number
            _check_elements(content, _HEADER, len(content), "<" if mark.endswith(b"IM") else ">", 0)


def _check_elements(content: mmap.mmap | bytes, place: int, end: int, order: str, depth: int) -> None:
    """Visit the elements from one place to another."""
    if depth > _DEEPEST:
        raise ValueError(f"its elements are nested more than {_DEEPEST} deep")
    first = True
    while place + 8 <= end:
        code, start, stop, following = _tag(content, place, order)
        if stop > end:
            raise ValueError(f"the element at byte {place} is longer than what holds it")
        if code == _COMPRESSED and depth == 0:
            _check_compressed(content[start:stop], order)
        elif code == _MATRIX:
            _check_elements(content, start, stop, order, depth + 1)
        elif code not in _LEAVES or depth == 0:
            raise ValueError(f"the element at byte {place} is of no known type ({code})")
        elif first and (stop - start != 8 or content[start + (0 if order == "<" else 3)] not in _CLASSES):
            raise ValueError(f"the array at byte {place} is of no known class")
        first, place = False, following
    if place < end:
        raise ValueError(f"{end - place} bytes are left over at byte {place}")


def _tag(content: mmap.mmap | bytes, place: int, order: str) -> tuple[int, int, int, int]:
    """Read an element's type, where its data begin and end, and where the next one is."""
    word, size = struct.unpack_from(order + "II", content, place)
    code, small = word & 0xFFFF, word >> 16
    if small > 4:
        raise ValueError(f"the element at byte {place} has {small} bytes in the place of four")
    if small:  # the data stand in the tag itself
        return code, place + 4, place + 4 + small, place + 8
    padded = size if code == _COMPRESSED else -(-size // 8) * 8
    return code, place + 8, place + 8 + size, place + 8 + padded


def _check_compressed(packed: bytes, order: str) -> None:
    unpacked = zlib.decompress(packed)
    if len(unpacked) < 8 or _tag(unpacked, 0, order)[0] != _MATRIX:
        raise ValueError("a compressed element holds no array")
    _check_elements(unpacked, 0, len(unpacked), order, 0)


SECONDS = 60.0
"""Time for opening a file and reading the element and the names in it, but not its numbers."""


def check_hdf5(source: Path, *names: str) -> None:
    """Refuse a damaged HDF5 file: whatever its structure does to a reader is done to another process first."""
    command = [sys.executable, "-P", __file__, str(source.resolve()), *names]
    try:
        tried = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        reason = f"reading its structure takes more than {SECONDS:g} s"
    else:
        if tried.returncode == 0:
            return
        last = tried.stderr.strip().splitlines()[-1:] if tried.returncode == 1 else []
        reason = last[0] if last else "the HDF5 library crashes on it"
    raise ValueError(f"{source} cannot be read: it may be damaged or cut short ({reason}).")


def _try(path: str, *names: str) -> None:
    """Visit what may be read of an AnnData file: the elements, and the names of rows and columns."""
    import h5py

    with h5py.File(path, "r") as stored:
        _attributes(stored)
        for name in (name for name in names if name in stored):
            _visit(name, stored[name])
        for frame in (stored[side] for side in ("obs", "var") if side in stored):
            _attributes(frame)
            index = frame.attrs.get("_index")
            if index is not None and index in frame:
                _visit(index, frame[index])


def _visit(name: str, element: h5py.Dataset | h5py.Group) -> None:
    """Look at attributes, the index of the chunks, and text; numbers are read when they are needed."""
    _attributes(element)
    if hasattr(element, "visititems"):
        element.visititems(_visit)
    elif element.dtype.kind == "O":
        element[...]
    elif element.chunks is not None:
        element.id.chunk_iter(lambda chunk: None)


def _attributes(element: h5py.Dataset | h5py.Group) -> None:
    for name in element.attrs:
        element.attrs[name]


if __name__ == "__main__":
    try:
        _try(*sys.argv[1:])
    except Exception as error:  # h5py raises nearly anything; the reason is one line for the parent
        sys.exit(" ".join(f"{type(error).__name__}: {error}".split()))
