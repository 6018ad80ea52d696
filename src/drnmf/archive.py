"""Fitted models on disk: arrays and JSON in one .npz, never a pickle, written all or nothing."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

_META = "__meta__"
FORMAT = "drnmf-model-1"


def write_archive(path: str | os.PathLike[str], arrays: Mapping[str, Any], meta: Mapping[str, Any]) -> None:
    """Write to a temporary name beside `path`, flush to disk, then rename over it."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    text = json.dumps({"format": FORMAT, **meta}, sort_keys=True)
    stored: dict[str, Any] = {_META: np.frombuffer(text.encode(), dtype=np.uint8), **arrays}
    try:
        with open(temporary, "wb") as stream:
            np.savez(stream, **stored)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def read_archive(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(arrays, meta) of a model file; a clear error where it is none."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        meta = json.loads(arrays.pop(_META).tobytes().decode())
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not a readable drnmf model file ({error}): it may be cut short.") from None
    if meta.get("format") != FORMAT:
        raise ValueError(f"{path} has format {meta.get('format')!r}; this version reads {FORMAT!r}.")
    return arrays, meta
