"""Rows of W on disk, so that a lost worker never costs more than a few iterations.

Dask computes what a lost worker held again from what it came from. Unchecked, that is the whole fit: every block of W
comes from the one an iteration before. So now and then each block writes its rows and the state of the rule to a file
(under a temporary name, then renamed), and the iterations after it begin from tasks that read those files. What lies
before is forgotten. The files are arrays and a few numbers, never a pickle.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from drnmf.backends.dask.nodes import Rows

logger = logging.getLogger("drnmf")


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
        """Nothing of it stays: not the folder that was named either, if it was not there before."""
        self._clear()
        if self._made is not None:
            self._made.rmdir()

    def cut(self) -> Cut:
        """The next set of files, one per block."""
        self._count += 1
        return Cut(self, self.path / f"cut-{self._count:06d}")


class Cut:
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

    def __call__(self, stays: tuple[Rows, ...]) -> None:
        arrays: list[Any] = []
        layout = [_describe(rows, arrays) for rows in stays]
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(self.path), suffix=".part")
        with os.fdopen(handle, "wb") as stream:
            np.savez(stream, layout=np.array(json.dumps(layout)), **{f"a{i}": a for i, a in enumerate(arrays)})
        os.replace(temporary, self.path)


def load_rows(path: str, like: Sequence[Rows], beside: Any = None) -> tuple[Rows, ...]:
    """What `SaveRows` wrote; `like` are rows of the same kind, whose values do not matter.

    `beside` is not used: as an argument it draws the task to where the block is.
    """
    with np.load(path, allow_pickle=False) as stored:
        layout = json.loads(str(stored["layout"]))
        arrays = [stored[f"a{i}"] for i in range(len(stored.files) - 1)]
    return tuple(_rebuild(item, model, arrays) for item, model in zip(layout, like, strict=True))


def _describe(value: Any, arrays: list[Any]) -> Any:
    """JSON for a value; arrays become their number in the list, the same number where they are the same array."""
    if isinstance(value, np.ndarray):
        known = [i for i, array in enumerate(arrays) if array is value]
        if not known:
            arrays.append(value)
        return {"array": known[0] if known else len(arrays) - 1}
    if is_dataclass(value):
        return {name: _describe(getattr(value, name), arrays) for name in value.__dataclass_fields__}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(
        f"The state of an update rule holds a {type(value).__name__}, which cannot be written to the scratch folder: "
        "use arrays, numbers and dataclasses of them."
    )


def _rebuild(item: Any, like: Any, arrays: Sequence[Any]) -> Any:
    if isinstance(item, dict) and set(item) == {"array"}:
        return arrays[item["array"]]
    if isinstance(item, dict):
        return replace(like, **{name: _rebuild(part, getattr(like, name), arrays) for name, part in item.items()})
    return item
