"""Steps that are taken whole: what removes or restores files is not to be stopped half way."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

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
