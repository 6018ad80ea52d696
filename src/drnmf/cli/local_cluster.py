"""Dask workers on this machine, in a session of their own: Ctrl-C reaches the command, which ends them.

This file is also the program of the process that holds the scheduler and starts the workers, so it imports nothing of
the package. That process lives as long as its standard input is open, so it ends with the command however that ends.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SECONDS = 3.0
"""Time for the processes to end before they are killed."""

PATIENCE = 60.0
"""Seconds without any worker after which the cluster ends: Dask starts a worker again that dies, for ever, and gives up
one that cannot start, without a word to those who wait for it."""

GAVE_UP = 3
"""Exit code of the process that held the scheduler where its patience has ended."""


@contextmanager
def local_cluster(workers: int, threads: int, folder: Path, patience: float = PATIENCE) -> Iterator[str]:
    """Start a cluster of processes for the time of the block, and give the address of its scheduler.

    `folder` is for all that they write, and is removed with them. Once there was no worker for as long as `patience`
    the cluster ends, what waits for it fails, and the error says so.
    """
    from drnmf.files import uninterrupted

    silence = "ignore:resource_tracker:UserWarning"  # semaphores of killed workers are removed without a word
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "PYTHONWARNINGS": silence}
    command, pipe = [sys.executable, "-P", __file__, str(workers), str(folder), str(patience)], subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, text=True, start_new_session=True, env=environment
    ) as process:
        try:
            yield _address(process)
        except Exception as error:
            with suppress(subprocess.TimeoutExpired):  # its connections close a moment before it has ended
                if process.wait(0.5) == GAVE_UP:
                    reason = (
                        f"all workers have ended, and for {patience:g} seconds none could be started in their place"
                    )
                    raise OSError(f"{reason} (what they said is above; is there memory enough?).") from error
            raise
        finally:
            with uninterrupted():
                _end(process, folder)


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    word, _, rest = process.stdout.readline().strip().partition(" ")
    if word != "address":
        raise OSError(f"the workers could not be started ({rest or 'their process ended at once'}).")
    return rest


def _end(process: subprocess.Popen[str], folder: Path) -> None:
    """Close the process's standard input, which ends it; kill whatever is left after a while, and remove its files.

    On a busy machine that is the process itself, or a worker that was started in place of one that was ended.
    """
    assert process.stdin is not None
    process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(SECONDS)
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
    process.wait()
    for _ in range(20):  # the killed may still be in the middle of a call
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            break
        time.sleep(0.05)


def _serve(workers: int, folder: str, patience: float) -> None:
    """Start the cluster, print its address, and wait for the end of standard input, or of its patience."""
    answers, ended = os.fdopen(os.dup(1), "w"), threading.Event()
    reader, writer = os.pipe()
    threading.Thread(target=_forward, args=(reader, os.dup(2), ended), daemon=True).start()
    os.dup2(writer, 1)  # whatever the workers print is no answer
    os.dup2(writer, 2)
    threading.Thread(target=_wait, args=(folder, ended), daemon=True).start()
    import dask

    settings: dict[str, object] = {"temporary-directory": folder}
    settings["distributed.scheduler.work-stealing"] = False  # each block stays on its worker: X is not to move
    dask.config.set(settings)
    from distributed import LocalCluster

    try:
        cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0")
    except Exception as error:
        print("error", " ".join(f"{type(error).__name__}: {error}".split()), file=answers, flush=True)
    else:
        print("address", cluster.scheduler_address, file=answers, flush=True)
        seen = time.monotonic()
        while time.monotonic() - seen < patience:
            time.sleep(min(1.0, patience / 10))
            if cluster.scheduler.workers:
                seen = time.monotonic()
        _leave(folder, GAVE_UP)
    threading.Event().wait()


def _forward(reader: int, errors: int, ended: threading.Event) -> None:
    """Pass on what this process and its workers print, until they are being ended.

    A worker that is killed is replaced at once, and its successor, ended while it starts, would print a traceback.
    """
    while words := os.read(reader, 65536):
        if not ended.is_set():
            os.write(errors, words)


def _wait(folder: str, ended: threading.Event) -> None:
    """End this process and its workers when nobody needs them any more."""
    sys.stdin.read()
    ended.set()
    _leave(folder)


def _leave(folder: str, code: int = 0) -> None:
    """End this process and its workers, without any of the steps of an orderly end."""
    import logging
    import multiprocessing

    logging.disable()
    for process in multiprocessing.active_children():
        process.kill()
        process.join()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(code)


if __name__ == "__main__":
    _serve(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
