"""HDF5 files, tried in a process of their own: the HDF5 library loops for ever, or crashes, on some damaged ones.

This file is also the program of that process, so it imports nothing of the package.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

SECONDS = 60.0
"""Time for opening a file and reading the element and the names in it, but not its numbers."""


def check_hdf5(source: Path, *names: str) -> None:
    """Refuse a damaged HDF5 file: whatever its structure does to a reader is done to another process first.

    Raises
    ------
    ValueError
        Where that process failed, crashed, or was not done in time.
    """
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


def _visit(name: str, element: Any) -> None:
    """Look at attributes, the index of the chunks, and text; numbers are read when they are needed."""
    _attributes(element)
    if hasattr(element, "visititems"):
        element.visititems(_visit)
    elif element.dtype.kind == "O":
        element[...]
    elif element.chunks is not None:
        element.id.chunk_iter(lambda chunk: None)


def _attributes(element: Any) -> None:
    for name in element.attrs:
        element.attrs[name]


if __name__ == "__main__":
    try:
        _try(*sys.argv[1:])
    except Exception as error:  # h5py raises nearly anything; the reason is one line for the parent
        sys.exit(" ".join(f"{type(error).__name__}: {error}".split()))
