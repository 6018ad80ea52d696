"""Arrays and JSON in one .npz on disk, never a pickle, written all or nothing: fitted models and checkpoints."""

from __future__ import annotations

import hashlib
import json
import math
import os
import zipfile
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from drnmf.files import write_arrays

if TYPE_CHECKING:
    from hashlib import _Hash as Digest

_META = "__meta__"
_SUM = "sha256"
_PIECE = 1 << 20
Stored = NDArray[Any]
Header = tuple[tuple[int, ...], bool, np.dtype[np.generic]]
FORMAT = "drnmf-model-1"


def write_archive(
    path: str | os.PathLike[str], arrays: Mapping[str, Stored], meta: Mapping[str, object], form: str = FORMAT
) -> str:
    """Write all or nothing (see `write_arrays`). Returns the checksum."""
    plain = {name: np.asarray(array) for name, array in arrays.items()}
    content = {"format": form, **meta}
    checksum = _checksum(plain, content)
    text = json.dumps(content | {_SUM: checksum})  # the order of keys is that of the leaves of a tree
    stored: dict[str, Stored] = {_META: np.frombuffer(text.encode(), dtype=np.uint8), **plain}
    write_arrays(path, stored)
    return checksum


def read_archive(path: str | os.PathLike[str], form: str = FORMAT) -> tuple[dict[str, Stored], dict[str, Any]]:
    """(arrays, meta) of a file; a clear error where it is none, or not as it was written.

    No more is read than the file is long, whatever its headers say.
    """
    kind = form.rsplit("-", 1)[0].replace("-", " ")
    try:
        with zipfile.ZipFile(path) as archive:
            parts = _parts(archive, os.path.getsize(path))
            meta = json.loads(_read_array(archive, parts.pop(_META)).tobytes())
            written, stated = meta.get("format"), meta.pop(_SUM, None)
            arrays: dict[str, Stored] = {}
            digest = _begin(meta)
            if written == form and stated is not None:
                arrays = {name: _read_array(archive, parts[name], digest, name) for name in sorted(parts)}
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except Exception as error:  # what reads damaged files raises nearly anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path} is not a readable {kind} file ({reason}): it may be cut short.") from None
    if written != form:
        raise ValueError(f"{path} has format {written!r}; this version reads {form!r}.")
    if stated is None:
        raise ValueError(f"{path} has no checksum, so it cannot be trusted: fit the model again and save it.")
    if stated != digest.hexdigest():
        raise ValueError(f"{path} is not as it was written: its checksum does not fit its content.")
    return arrays, meta | {_SUM: stated}


def _parts(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """List the arrays of an archive; `write_archive` does not compress, so they are no larger than the file."""
    parts = {part.filename.removesuffix(".npy"): part for part in archive.infolist()}
    if any(part.compress_type != zipfile.ZIP_STORED for part in parts.values()):
        raise ValueError("its arrays are compressed, as drnmf never writes them")
    if min(part.header_offset for part in parts.values()) > 0:
        raise ValueError("something else stands before its arrays")
    if sum(part.file_size for part in archive.infolist()) > size:
        raise ValueError("its arrays are larger than the file")
    return parts


def _read_array(
    archive: zipfile.ZipFile, part: zipfile.ZipInfo, digest: Digest | None = None, name: str = ""
) -> Stored:
    """Read an array whose header fits to its size, a piece at a time, and add it to a checksum."""
    with archive.open(part) as stream:
        shape, fortran, dtype = read_header(stream)
        length = math.prod(shape) * dtype.itemsize
        if dtype.hasobject or min(shape, default=0) < 0 or stream.tell() + length != part.file_size:
            raise ValueError(f"{part.filename} says {dtype} of shape {shape}, and has {part.file_size} bytes")
        content = bytearray(length)
        view = memoryview(content)
        if digest is not None:
            digest.update(_described(name, dtype, shape, "F" if fortran else "C"))
        for first in range(0, length, _PIECE):
            piece = stream.read(min(_PIECE, length - first))
            view[first : first + len(piece)] = piece
            if digest is not None:
                digest.update(piece)
    return np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if fortran else "C")


def read_header(stream: IO[bytes]) -> Header:
    """Read the head of a .npy: shape, whether columns lie together, and type; the stream is then at the entries."""
    version = np.lib.format.read_magic(stream)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    header: Header = read(stream)
    return header


def _checksum(arrays: Mapping[str, Stored], meta: Mapping[str, object]) -> str:
    """SHA-256 over the JSON and over name, type, shape and bytes of every array."""
    digest = _begin(meta)
    for name in sorted(arrays):
        array = arrays[name]
        order: Literal["F", "C"] = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        digest.update(_described(name, array.dtype, array.shape, order))
        digest.update(array.ravel(order=order).view(np.uint8).data)
    return digest.hexdigest()


def _begin(meta: Mapping[str, object]) -> Digest:
    return hashlib.sha256(json.dumps(meta, sort_keys=True).encode())


def _described(name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...], order: str) -> bytes:
    return f"{name} {dtype.str} {shape} {order}".encode()
