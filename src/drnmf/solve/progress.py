"""Progress as a callback: bars on a terminal or in a notebook (rich), lines where there is none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from drnmf.algorithms.loop import Callback
from drnmf.algorithms.result import Progress
from drnmf.solve.runner import Shown

EVERY = 10.0
"""Seconds between two lines where there is no terminal."""
_VISIBLE = 12
_BESIDE = 46
"""Characters of a bar beside its losses."""


@contextmanager
def progress_bar(
    verbose: int, remark: Callable[[], str], runs: int = 1, max_time: float | None = None, jobs: int = 1
) -> Iterator[Callable[[str], Callback | None]]:
    """Show progress while the block runs, if that is wanted; yields what hands out a callback for each stage.

    remark : asked for a few words to stand after the losses, for example on a cluster's workers
    runs, max_time, jobs : how many runs there will be, as far as is known, their seconds, and how many go at a time
    """
    if not verbose:
        yield lambda stage: None
        return
    from rich.console import Console

    console = Console(stderr=True)
    drawn = console.is_terminal or console.is_jupyter
    with ProgressBar(console, remark) if drawn else ProgressLines(console, remark, runs, max_time, jobs) as shown:
        yield shown.hook


@dataclass
class Clock:
    """How long the runs of a fit take, `jobs` at a time: when each began, and after how many iterations."""

    runs: int
    jobs: int = 1
    begun: list[tuple[float, int]] = field(default_factory=list)

    def begin(self, iteration: int) -> int:
        """Note that a run begins, at 0 iterations or, where it is resumed, at more; return its number, from 1."""
        self.begun.append((time.perf_counter(), iteration))
        return len(self.begun)

    def left(self, progress: Progress, run: int) -> float:
        """Estimate the seconds left over all runs, if none stops early but those that take as long as the ones done."""
        started, first = self.begun[run - 1]
        each = (time.perf_counter() - started) / max(progress.iteration - first, 1)
        done = len(self.begun) - self.jobs  # a run begins where another has ended
        spent = self.begun[-1][0] - self.begun[0][0]
        a_run = spent / done if done > 0 else each * progress.max_iter / self.jobs
        return each * (progress.max_iter - progress.iteration) + a_run * max(self.runs - len(self.begun), 0)


class ProgressLines:
    """A line every `EVERY` seconds, and one at the end: stage, iteration, losses, time spent and time left."""

    def __init__(
        self, console: Any, remark: Callable[[], str], runs: int, max_time: float | None = None, jobs: int = 1
    ) -> None:
        self._console, self._remark, self._max_time = console, remark, max_time
        self._clock, self._begun = Clock(runs, jobs), time.perf_counter()
        self._said = self._begun
        self._last: tuple[str, int, Progress] | None = None

    def __enter__(self) -> ProgressLines:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._last is not None:
            self._say(*self._last, "done" if kind is None else "stopped")

    def hook(self, stage: str) -> Shown:
        """Hand out a callback that tells of `stage`."""
        before: Progress | None = None
        run = 0

        def advance(progress: Progress) -> None:
            nonlocal before, run
            if before is None or progress.iteration <= before.iteration:
                run = self._clock.begin(progress.iteration - 1)
            before, self._last = progress, (stage, run, progress)
            if time.perf_counter() - self._said >= EVERY:
                self._said = time.perf_counter()
                self._say(stage, run, progress, f"at most {clock(self._left(progress, run))} left")

        return Shown(advance)

    def _left(self, progress: Progress, run: int) -> float:
        estimated = self._clock.left(progress, run)
        if self._max_time is None:
            return estimated
        return min(estimated, max(self._max_time - (time.perf_counter() - self._begun), 0.0))

    def _say(self, stage: str, run: int, progress: Progress, end: str) -> None:
        parts = [
            f"run {run} of {max(run, self._clock.runs)}, {stage}: iteration {progress.iteration}/{progress.max_iter}",
            *filter(None, (describe(progress), self._remark())),
            f"{clock(time.perf_counter() - self._begun)} spent",
            end,
        ]
        self._console.print(", ".join(parts), markup=False, highlight=False, soft_wrap=True)


def clock(seconds: float) -> str:
    """Write seconds as hours, minutes and seconds.

    >>> clock(7.2), clock(75), clock(7300)
    ('0:07', '1:15', '2:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class ProgressBar:
    """A bar per run: iterations, scaled losses, weights and time left. Use as a context manager.

    `hook(stage)` hands out a callback for one run; stages are named beside their bar. Bars go to standard
    error, and the oldest make room when there are many.

    remark : asked for a few words to stand after the losses, for example on a cluster's workers
    """

    def __init__(self, console: Any, remark: Callable[[], str]) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress
        from rich.table import Column

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
        if kind is None:
            self._close_last()
        elif self._tasks:  # a bar that stays where it is: nothing is done
            self._bars.update(self._tasks[-1], state="stopped")
        self._bars.stop()

    def _close_last(self) -> None:
        """A run that stopped early is done all the same."""
        if self._tasks:
            done = self._bars.tasks[self._tasks[-1]].completed
            self._bars.update(self._tasks[-1], total=max(done, 1), completed=max(done, 1))

    def hook(self, stage: str) -> Shown:
        """A callback that moves the bar of `stage`."""
        self._close_last()
        task = self._bars.add_task(stage, total=None, state="")
        self._tasks.append(task)
        if len(self._tasks) > _VISIBLE:
            self._bars.update(self._tasks[-_VISIBLE - 1], visible=False)

        def advance(progress: Progress) -> None:
            losses = describe(progress, self._bars.console.width - max(_BESIDE, 36 + len(stage)))
            state = f"{losses}  {self._remark()}".rstrip()
            self._bars.update(task, completed=progress.iteration, total=progress.max_iter, state=state)

        return Shown(advance)


def describe(progress: Progress, width: int = 1000) -> str:
    """Scaled losses and weights of one iteration in a few characters: in a narrow place, less of them.

    >>> import numpy as np
    >>> from drnmf.losses.beta import IS, KL
    >>> now = Progress(1, np.ones(2), np.array([1.25, 1.0]), np.array([0.75, 0.25]), 0.0, 9, (IS, KL))
    >>> describe(now), describe(now, 20), describe(now, 5)
    ('IS 1.25 (0.75)  KL 1 (0.25)', 'IS 1.25  KL 1', 'max 1.25')
    """
    if len(progress.omega) == 1:
        return f"{progress.omega[0].name} {progress.losses[0]:.6g}"
    items = list(zip(progress.omega, progress.scaled_losses, progress.weights, strict=True))
    full = "  ".join(f"{loss.name} {value:.4g} ({weight:.2f})" for loss, value, weight in items)
    short = "  ".join(f"{loss.name} {value:.4g}" for loss, value, _ in items)
    return next((text for text in (full, short) if len(text) <= width), f"max {progress.scaled_losses.max():.4g}")
