"""MATLAB files, walked before they are read: SciPy's reader follows a wrong tag out of its tables, and crashes."""

from __future__ import annotations

import mmap
import struct
import zlib
from pathlib import Path
from typing import Any

_HEADER = 128
_MATRIX, _COMPRESSED = 14, 15
_LEAVES = {1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 16, 17, 18}
"""Codes of numbers and text."""
_CLASSES = range(1, 18)
_DEEPEST = 50


def check_matlab(source: Path) -> None:
    """Refuse a .mat file of version 5 to 7 whose elements do not lie inside one another or are of no known type.

    Raises
    ------
    ValueError
        With what is wrong. Files of other versions are left to their readers.
    """
    with open(source, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        mark = bytes(content[124:_HEADER])
        if mark in (b"\x00\x01IM", b"\x01\x00MI") and 0 not in content[:4]:  # version 4 begins with a small number
            _walk(content, _HEADER, len(content), "<" if mark.endswith(b"IM") else ">", 0)


def _walk(content: Any, place: int, end: int, order: str, depth: int) -> None:
    """Visit the elements from one place to another."""
    if depth > _DEEPEST:
        raise ValueError(f"its elements are nested more than {_DEEPEST} deep")
    first = True
    while place + 8 <= end:
        code, start, stop, following = _tag(content, place, order)
        if stop > end:
            raise ValueError(f"the element at byte {place} is longer than what holds it")
        if code == _COMPRESSED and depth == 0:
            _walk_compressed(content[start:stop], order)
        elif code == _MATRIX:
            _walk(content, start, stop, order, depth + 1)
        elif code not in _LEAVES or depth == 0:
            raise ValueError(f"the element at byte {place} is of no known type ({code})")
        elif first and (stop - start != 8 or content[start + (0 if order == "<" else 3)] not in _CLASSES):
            raise ValueError(f"the array at byte {place} is of no known class")
        first, place = False, following
    if place < end:
        raise ValueError(f"{end - place} bytes are left over at byte {place}")


def _tag(content: Any, place: int, order: str) -> tuple[int, int, int, int]:
    """Read an element's type, where its data begin and end, and where the next one is."""
    word, size = struct.unpack_from(order + "II", content, place)
    code, small = word & 0xFFFF, word >> 16
    if small > 4:
        raise ValueError(f"the element at byte {place} has {small} bytes in the place of four")
    if small:  # the data stand in the tag itself
        return code, place + 4, place + 4 + small, place + 8
    padded = size if code == _COMPRESSED else -(-size // 8) * 8
    return code, place + 8, place + 8 + size, place + 8 + padded


def _walk_compressed(packed: bytes, order: str) -> None:
    unpacked = zlib.decompress(packed)
    if len(unpacked) < 8 or _tag(unpacked, 0, order)[0] != _MATRIX:
        raise ValueError("a compressed element holds no array")
    _walk(unpacked, 0, len(unpacked), order, 0)
