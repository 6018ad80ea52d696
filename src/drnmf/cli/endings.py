"""How a command ends other than well: stopped by a signal, refused with one clear line, or failed unexpectedly.

Exit codes: 0 done, 1 failed, 2 bad usage (typer's own), 130 interrupted (Ctrl-C), 143 terminated (SIGTERM).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from drnmf.files import SIGNALS

PATIENCE = 4.0
"""Seconds that a stopped command has to clean up before it is asked again."""
_WORDS: dict[int, str] = {signal.SIGINT: "Interrupted", signal.SIGTERM: "Terminated"}
_REFUSALS = (ValueError, OSError, ImportError, MemoryError)
"""Errors whose message was written for the user."""
# the third: every error of usage; the last: a reader of the output, such as head, that has seen enough
_TYPERS_OWN: tuple[type[BaseException], ...] = (typer.Exit, typer.Abort, typer.BadParameter.__mro__[2], BrokenPipeError)


class Stopped(BaseException):
    """Ctrl-C or SIGTERM during a command, with what is left of it.

    Not a KeyboardInterrupt: at one of those the library takes a last look at X, to hand out the factors so far, which
    nobody would see here.
    """

    def __init__(self, number: int, remark: str = "nothing was written.") -> None:
        super().__init__(number, remark)
        self.number, self.remark = number, remark


@contextmanager
def stopped_with(remark: str) -> Iterator[None]:
    """Say this, if the block is stopped, instead of "nothing was written"."""
    try:
        yield
    except BaseException as error:
        if (stop := _stop_behind(error)) is None:
            raise
        raise Stopped(stop.number, remark) from None


def _stop_behind(error: BaseException) -> Stopped | None:
    """Find the stop that an error is, or that it hides: what is cut short may fail in its own way when it is closed."""
    link: BaseException | None = error
    while link is not None and not isinstance(link, Stopped | KeyboardInterrupt):
        link = link.__context__
    return Stopped(signal.SIGINT) if isinstance(link, KeyboardInterrupt) else link


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise `Stopped` in the block at Ctrl-C and SIGTERM; where a shell has them ignored they stay so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    over = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        threading.Thread(target=_insist, args=(number, over), daemon=True).start()
        raise Stopped(number)

    def unraisable(lost: sys.UnraisableHookArgs) -> None:
        if not issubclass(lost.exc_type, Stopped):  # the stop comes again, and its traceback says nothing to users
            hook(lost)

    hook, sys.unraisablehook = sys.unraisablehook, unraisable
    before = {number: signal.getsignal(number) for number in SIGNALS}
    before = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        over.set()
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def _insist(number: int, over: threading.Event) -> None:
    """Send a signal again if the block has not ended: what is raised in a finalizer, or where some library catches
    everything, is lost.
    """
    if not over.wait(PATIENCE):
        os.kill(os.getpid(), number)


@contextmanager
def errors_in_a_line(debug: bool) -> Iterator[None]:
    """Make a line on standard error and an exit code of whatever the block raises."""
    try:
        with stoppable():
            yield
    except _TYPERS_OWN:
        raise
    except (Exception, Stopped, KeyboardInterrupt) as error:
        if (stop := _stop_behind(error)) is not None:
            # with what is loaded already: a stop within an import leaves modules by halves
            print(f"{_WORDS[stop.number]}; {stop.remark}", file=sys.stderr)
            raise typer.Exit(128 + stop.number) from None
        _complain(error, debug)
        raise typer.Exit(1) from None


def _complain(error: BaseException, debug: bool) -> None:
    """Print one line on an error, and where it arose if that is wanted."""
    from drnmf.cli.common import errors, in_options, say  # with all the options of all commands

    if debug:
        import traceback

        traceback.print_exc(file=sys.stderr)
    errors.print("[bold red]Error:[/] ", end="")
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, _REFUSALS):
        say(in_options(text), errors)
    else:
        hint = "" if debug else " Run drnmf --debug with the same command to see where."
        say(f"this was not expected ({type(error).__name__}: {text}).{hint}", errors)
