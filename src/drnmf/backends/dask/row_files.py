"""Rows of W on disk, so that a lost worker never costs more than a few iterations.

Dask computes what a lost worker held again from what it came from. Unchecked, that is the whole fit: every block of W
comes from the one an iteration before. So now and then each block writes its rows and the state of the rule to a file
(under a temporary name, then renamed), and the iterations after it start from tasks that read those files. What lies
before is forgotten. The files are arrays and a few numbers, never a pickle.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from drnmf.backends.dask.nodes import Kept
from drnmf.files import replacing
from drnmf.trees import pack, unpack


class Scratch:
    """A folder that every worker sees. A temporary one goes when the process ends or nobody refers to it."""

    def __init__(self, folder: str | os.PathLike[str] | None = None):
        base = None if folder is None else Path(folder)
        self._made = base if base is not None and not base.exists() else None
        if base is not None:
            base.mkdir(parents=True, exist_ok=True)
        self.path = Path(tempfile.mkdtemp(prefix="drnmf-", dir=base))
        self._count = 0
        self._clear = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def remove(self) -> None:
        """Remove everything, and the folder that was named too if it was not there before."""
        self._clear()
        if self._made is not None:
            self._made.rmdir()

    def files(self) -> RowFiles:
        """Make the next set of files, one per block."""
        self._count += 1
        return RowFiles(self, self.path / f"rows-{self._count:06d}")


class RowFiles:
    """One file per block; they go when no node descends from them."""

    def __init__(self, scratch: Scratch, folder: Path):
        self.scratch = scratch  # the folder above must not go first
        self.folder = folder
        folder.mkdir()
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def save(self, block: int) -> SaveRows:
        return SaveRows(str(self.folder / f"{block:06d}.npz"))


class SaveRows:
    """Writes what stays of one block, whole or not at all."""

    def __init__(self, path: str):
        self.path = path

    def __call__(self, values: tuple[object, ...]) -> None:
        content, arrays = pack(values)
        with replacing(self.path, durable=False) as stream:  # after a power failure there is no fit left to read it
            np.savez(stream, content=np.array(json.dumps(content)), **arrays)


def load_rows(path: str, types: Mapping[str, type], beside: Any = None) -> Kept:
    """Read what `SaveRows` wrote; `types` are dataclasses of a state that cannot be imported by name.

    beside : not used: as an argument it draws the task to where the block is
    """
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files if name != "content"}
        return Kept(unpack(json.loads(str(stored["content"])), arrays, types))
