"""Progress on the terminal or in a notebook, as a callback (rich)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from drnmf.algorithms.result import Progress

_VISIBLE = 12


@contextmanager
def progress_bar(verbose: int, remark: Callable[[], str]) -> Iterator[Callable[[str], Any]]:
    """Show bars while the block runs, if that is wanted; yields what hands out a callback for each stage."""
    if not verbose:
        yield lambda stage: None
        return
    with ProgressBar(remark=remark) as bar:
        yield bar.hook


class ProgressBar:
    """A bar per run: iterations, scaled losses, weights and time left. Use as a context manager.

    `hook(stage)` hands out a callback for one run; stages are named beside their bar. Bars go to standard
    error, and the oldest make room when there are many.

    remark : asked for a few words to stand after the losses, for example on a cluster's workers
    """

    def __init__(self, console: Any = None, remark: Callable[[], str] | None = None) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress
        from rich.table import Column

        if console is None:
            from rich.console import Console

            console = Console(stderr=True)
        self._bars = RichProgress(
            TextColumn("{task.description:>10}", table_column=Column(no_wrap=True, min_width=10)),
            BarColumn(bar_width=10),
            MofNCompleteColumn(table_column=Column(no_wrap=True, min_width=9)),
            TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True, min_width=5)),
            TextColumn("{task.fields[state]}", table_column=Column(no_wrap=True)),
            console=console,
        )
        self._tasks: list[Any] = []
        self._remark = remark

    def __enter__(self) -> ProgressBar:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_last()
        self._bars.stop()

    def _close_last(self) -> None:
        """A run that stopped early is done all the same."""
        if self._tasks:
            done = self._bars.tasks[self._tasks[-1]].completed
            self._bars.update(self._tasks[-1], total=max(done, 1), completed=max(done, 1))

    def hook(self, stage: str) -> Any:
        """A callback that moves the bar of `stage`."""
        self._close_last()
        task = self._bars.add_task(stage, total=None, state="")
        self._tasks.append(task)
        if len(self._tasks) > _VISIBLE:
            self._bars.update(self._tasks[-_VISIBLE - 1], visible=False)

        def advance(progress: Progress) -> None:
            state = describe(progress)
            if self._remark is not None:
                state = f"{state}  {self._remark()}".rstrip()
            self._bars.update(task, completed=progress.iteration, total=progress.max_iter, state=state)

        return advance


def describe(progress: Progress) -> str:
    """Scaled losses and weights of one iteration in a few characters.

    >>> import numpy as np
    >>> from drnmf.losses.beta import IS, KL
    >>> describe(Progress(1, np.ones(2), np.array([1.25, 1.0]), np.array([0.75, 0.25]), 0.0, 9, (IS, KL)))
    'IS 1.25 (0.75)  KL 1 (0.25)'
    """
    items = zip(progress.omega, progress.scaled_losses, progress.weights, strict=True)
    if len(progress.omega) == 1:
        return f"{progress.omega[0].name} {progress.losses[0]:.6g}"
    return "  ".join(f"{loss.name} {value:.4g} ({weight:.2f})" for loss, value, weight in items)
