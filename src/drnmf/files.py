"""Files that appear whole or not at all: written beside their place, flushed to disk, renamed; locks on folders; and
steps that are taken whole, for what removes or restores files is not to be stopped half way.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO


@contextmanager
def replacing(path: str | os.PathLike[str], durable: bool = True) -> Iterator[BinaryIO]:
    """Open a file under a temporary name beside `path`; when the block ends well it is flushed to disk and renamed.

    What is there stays until the new one is complete, and for good if the block fails. `durable` flushes to disk, so
    that a power failure leaves the old file or the new one: not needed for files of this process. The temporary name is
    random: processes of several machines may write the same file.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as stream:
            yield stream
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    if durable:
        _sync_folder(target.parent)


@contextmanager
def temporary_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Make a folder for the time of the block, which is removed with all that is in it, however the block ends.

    If the block has renamed it, nothing is removed. Behind the prefix its name is random.
    """
    path = parent / f"{prefix}{secrets.token_hex(4)}"
    try:  # the name is known before the folder exists: there is no moment at which it would be left behind
        path.mkdir(mode=0o700)
        yield path
    finally:
        with uninterrupted():
            shutil.rmtree(path, ignore_errors=True)


def left_over(folder: Path, name: str) -> list[Path]:
    """List the temporary files of a process that was killed while it wrote NAME, which may be a pattern."""
    return list(folder.glob(f".{name}.*.tmp"))


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any], durable: bool = True) -> None:
    """Write a .npz whole or not at all.

    A stop waits until the arrays are written: a ZipFile that is cut short fails when it is closed, and hides the stop.
    """
    import numpy as np  # not above: help and refusals need none

    with replacing(path, durable) as stream, uninterrupted():
        np.savez(stream, **arrays)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file whole or not at all, in UTF-8; what UTF-8 cannot hold becomes a question mark."""
    with replacing(path) as stream:
        stream.write(text.encode("utf-8", errors="replace"))


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder durable too: after a power failure a rename without this may be undone."""
    with suppress(OSError):  # not every system lets a folder be opened and synced; the file itself is safe
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def held(folder: Path, refusal: Exception) -> Iterator[None]:
    """Hold a folder of checkpoints while the block runs, without what a killed process left half written in it.

    `refusal` is raised where another process, or thread, holds it. Its lock file stays: removing it would let two
    processes hold two files of one name.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise NotADirectoryError(f"checkpoint={str(folder)!r} is a file: name a folder.") from None
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not _lock(handle):
            raise refusal
        for left in left_over(folder, "*.npz"):
            left.unlink()
        yield
    finally:
        os.close(handle)


if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Ctrl-C, and the polite request of a system or a scheduler of jobs to end."""


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Run the block to its end before Ctrl-C or a request to end is obeyed.

    Only handlers of Python are put off: a signal that ends the process at once, or is ignored, stays as it is.
    """
    if threading.current_thread() is not threading.main_thread():  # no other thread is ever interrupted
        yield
        return
    came: list[int] = []
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in handlers:
        signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
