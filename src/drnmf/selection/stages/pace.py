"""How far a discovery is: work done and planned over all its stages, the time left, and the limit on it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from drnmf.solve.progress import EVERY, clock


@dataclass(frozen=True)
class Moment:
    """What a callback of `discover` sees after every run.

    Attributes
    ----------
    stage : its name, and its place among the stages ("ranks", 2, 3)
    number, stages : int
    detail : what was done last
    share : part of all work that is done, 0 to 1
    seconds : since the start
    left : estimate of the seconds left over all stages, at the pace so far; never beyond the limit
    """

    stage: str
    number: int
    stages: int
    detail: str
    share: float
    seconds: float
    left: float

    def __str__(self) -> str:
        where = f"stage {self.number} of {self.stages}, {self.stage}: {self.detail}"
        return f"{where}, {clock(self.seconds)} spent, about {clock(self.left)} left"


class Pace:
    """Counts work over stages. Work is in fits times their rank, which their time is about proportional to.

    Parameters
    ----------
    plan : stage -> work, in the order of the stages; guesses that `expect` corrects
    max_time : seconds for all of it, None for no limit
    callback : told of every `Moment`
    """

    def __init__(
        self, plan: dict[str, float], max_time: float | None, callback: Callable[[Moment], Any] | None
    ) -> None:
        self._plan, self._done = dict(plan), dict.fromkeys(plan, 0.0)
        self._fresh = 0.0  # work that was not found finished in a folder: only that tells the pace
        self._max_time, self._callback = max_time, callback
        self._began = time.perf_counter()
        self._alone = threading.Lock()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._began

    @property
    def limit(self) -> float:
        """Seconds for all stages; infinite where there is no limit."""
        return float("inf") if self._max_time is None else self._max_time

    def planned(self, stage: str) -> float:
        """Work that a stage is expected to need."""
        return self._plan[stage]

    def expect(self, stage: str, work: float) -> None:
        """Correct the plan of a stage."""
        self._plan[stage] = max(work, self._done[stage])

    def advance(self, stage: str, work: float, detail: str, fresh: bool = True) -> None:
        """Note that work was done."""
        with self._alone:
            self._done[stage] += work
            self._fresh += work if fresh else 0.0
            self._plan[stage] = max(self._plan[stage], self._done[stage])
            if self._callback is not None:
                self._callback(self._moment(stage, detail))

    def close(self, stage: str) -> None:
        """Note that a stage needs no more work."""
        self._plan[stage] = self._done[stage]

    def _moment(self, stage: str, detail: str) -> Moment:
        done, planned = sum(self._done.values()), sum(self._plan.values())
        left = self.seconds / max(self._fresh, 1e-9) * (planned - done) if self._fresh else 0.0
        if self._max_time is not None:
            left = min(left, max(self._max_time - self.seconds, 0.0))
        names = list(self._plan)
        share = done / planned if planned else 1.0
        return Moment(stage, names.index(stage) + 1, len(names), detail, share, self.seconds, left)

    def allowance(self, stage: str) -> float | None:
        """Compute the seconds that a stage may still take: its part, by plan, of what is left; None without a limit."""
        if self._max_time is None:
            return None
        names = list(self._plan)
        ahead = {name: self._plan[name] - self._done[name] for name in names[names.index(stage) :]}
        part = ahead[stage] / (sum(ahead.values()) or 1.0)
        return max(self._max_time - self.seconds, 0.0) * (part if names[-1] != stage else 1.0)


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
