"""Arrays and JSON in one .npz on disk, never a pickle, written all or nothing: fitted models and checkpoints."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from drnmf.files import replacing

_META = "__meta__"
_SUM = "sha256"
FORMAT = "drnmf-model-1"


def write_archive(
    path: str | os.PathLike[str], arrays: Mapping[str, Any], meta: Mapping[str, Any], form: str = FORMAT
) -> str:
    """Write all or nothing (see `replacing`). Returns the checksum."""
    plain = {name: np.asarray(array) for name, array in arrays.items()}
    content = {"format": form, **meta}
    checksum = _checksum(plain, content)
    text = json.dumps(content | {_SUM: checksum})  # the order of keys is that of the leaves of a tree
    stored: dict[str, Any] = {_META: np.frombuffer(text.encode(), dtype=np.uint8), **plain}
    with replacing(path) as stream:
        np.savez(stream, **stored)
    return checksum


def read_archive(path: str | os.PathLike[str], form: str = FORMAT) -> tuple[dict[str, Any], dict[str, Any]]:
    """(arrays, meta) of a file; a clear error where it is none, or not as it was written."""
    kind = form.rsplit("-", 1)[0].replace("-", " ")
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        meta = json.loads(arrays.pop(_META).tobytes().decode())
        found, stated = meta.get("format"), meta.pop(_SUM, None)
        computed = _checksum(arrays, meta)
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except Exception as error:  # what reads damaged files raises nearly anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path} is not a readable {kind} file ({reason}): it may be cut short.") from None
    if found != form:
        raise ValueError(f"{path} has format {found!r}; this version reads {form!r}.")
    if stated is None:
        raise ValueError(f"{path} has no checksum, so it cannot be trusted: fit the model again and save it.")
    if stated != computed:
        raise ValueError(f"{path} is not as it was written: its checksum does not fit its content.")
    return arrays, meta | {_SUM: stated}


def _checksum(arrays: Mapping[str, Any], meta: Mapping[str, Any]) -> str:
    """SHA-256 over the JSON and over name, type, shape and bytes of every array."""
    digest = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        digest.update(f"{name} {array.dtype.str} {array.shape} {order}".encode())
        digest.update(array.ravel(order=order).view(np.uint8))
    return digest.hexdigest()
