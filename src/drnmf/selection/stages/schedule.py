"""How far a discovery is: work done and planned over all its stages, the time left, and the limit on it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from drnmf.solve.progress import EVERY
from drnmf.solve.progress import clock as in_words

LAST_PART = 0.5
"""Part of the time left that is kept for the last stage at most."""


@dataclass(frozen=True)
class Moment:
    """What a callback of `discover` sees after every run."""

    stage: str  # its name, and its place among the stages ("ranks", 2, 3)
    # number, stages: int
    number: int
    stages: int
    detail: str  # what was done last
    share: float  # part of all work that is done, 0 to 1
    seconds: float  # since the start
    left: float  # estimate of the seconds left over all stages, at the rate so far; never beyond the limit

    def __str__(self) -> str:
        where = f"stage {self.number} of {self.stages}, {self.stage}: {self.detail}"
        return f"{where}, {in_words(self.seconds)} spent, about {in_words(self.left)} left"


class Schedule:
    """Counts work over stages. Work is in fits times their rank, which their time is about proportional to.

    Parameters
    ----------
    plan : stage -> work, in the order of the stages; guesses that `expect` corrects. The last stage makes results of
        the others: it cannot be left out, so what it needs is kept for it
    max_time : seconds for all of it, None for no limit
    callback : told of every `Moment`
    clock : seconds since some moment
    """

    def __init__(
        self,
        plan: dict[str, float],
        max_time: float | None,
        callback: Callable[[Moment], Any] | None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.take(plan, callback)
        self._fresh = 0.0  # work that was not found finished in a folder: only that tells the rate
        self._apart = self._last = 0.0  # seconds that do not belong to it, and when work was last noted
        self._max_time, self._clock = max_time, clock
        self._began = clock()
        self.overrun = 0.0  # seconds by which a run may take longer than its iterations
        self._until = dict[str, float]()
        self._alone = threading.Lock()

    def take(
        self, plan: dict[str, float], callback: Callable[[Moment], Any] | None, leftover: tuple[str, ...] = ()
    ) -> None:
        """Take another plan before any work is done: time runs from the first look at X, which makes the plan.

        For stages of `leftover` nothing is kept: they take what the others leave.
        """
        self._plan, self._done, self._callback = dict(plan), dict.fromkeys(plan, 0.0), callback
        self._leftover = leftover

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._began

    @property
    def left(self) -> float:
        """Seconds left of the limit; infinite where there is none."""
        return max(self.limit - self.seconds, 0.0)

    @property
    def limit(self) -> float:
        """Seconds for all stages; infinite where there is no limit."""
        return float("inf") if self._max_time is None else self._max_time

    def planned(self, stage: str) -> float:
        """Work that a stage is expected to need."""
        return self._plan[stage]

    def expect(self, stage: str, work: float) -> None:
        """Correct the plan of a stage: so much is still to be done."""
        self._plan[stage] = self._done[stage] + work

    def advance(self, stage: str, work: float, detail: str, fresh: bool = True) -> None:
        """Note that work was done; only that of `fresh` runs that came to their end tells the rate."""
        with self._alone:
            # runs of several threads come to their ends at once, and the rate is made of sums over all of them
            now = self.seconds
            self._apart += 0.0 if fresh and work else now - self._last
            self._last = now
            self._done[stage] += work
            self._fresh += work if fresh else 0.0
            self._plan[stage] = max(self._plan[stage], self._done[stage])
            if self._callback is not None:
                self._callback(self._moment(stage, detail))

    def close(self, stage: str) -> None:
        """Note that a stage needs no more work."""
        self._plan[stage] = self._done[stage]

    @property
    def rate(self) -> float:
        """Seconds for a unit of work so far; 0 where none was done."""
        return (self.seconds - self._apart) / self._fresh if self._fresh else 0.0

    def overran(self, seconds: float) -> None:
        """Note that a run took so much longer than its iterations: X is opened before them, and scored after them."""
        self.overrun = max(self.overrun / 2.0, seconds)  # the first run of a process takes longer than others

    def _moment(self, stage: str, detail: str) -> Moment:
        done, planned = sum(self._done.values()), sum(self._plan.values())
        left = self.rate * (planned - done)
        if self._max_time is not None:
            left = min(left, max(self._max_time - self.seconds, 0.0))
        names = list(self._plan)
        share = done / planned if planned else 1.0
        return Moment(stage, names.index(stage) + 1, len(names), detail, share, self.seconds, left)

    def allowance(self, stage: str) -> float | None:
        """Compute the seconds that a stage may still take, None without a limit.

        Its part, by plan, of what was left when it first asked, or all that the stages after it do not need at the
        rate so far, if that is more. The last stage may take all.
        """
        if self._max_time is None:
            return None
        *before, last = self._plan
        if stage == last:
            return self.left
        ahead = {name: self._plan[name] - self._done[name] for name in self._plan}
        rate, left = self.rate, self.left
        left -= min(rate * ahead[last], LAST_PART * left)
        later = sum(ahead[name] for name in before[before.index(stage) + 1 :] if name not in self._leftover)
        part = ahead[stage] / (ahead[stage] + later) if later else 1.0
        until = self._until.setdefault(stage, self.seconds + left * part)
        return max(until - self.seconds, left - rate * later if rate else 0.0, 0.0)


@contextmanager
def shown(verbose: int) -> Iterator[Callable[[Moment], None] | None]:
    """Show a discovery on standard error: a bar on a terminal, else a line at every stage and every ten seconds."""
    if not verbose:
        yield None
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(console)
        return
    from rich.progress import BarColumn, Progress, TextColumn

    with Progress(BarColumn(bar_width=20), TextColumn("{task.description}"), console=console) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda moment: bar.update(task, completed=moment.share, description=str(moment))


def _lines(console: Any) -> Callable[[Moment], None]:
    said: dict[str, float] = {}

    def say(moment: Moment) -> None:
        if moment.seconds - said.get(moment.stage, -EVERY) >= EVERY:
            said[moment.stage] = moment.seconds
            console.print(str(moment), markup=False, highlight=False, soft_wrap=True)

    return say
