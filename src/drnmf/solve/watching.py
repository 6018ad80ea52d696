"""Who is told of a run after each iteration, and what ends it from outside."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from drnmf.algorithms.loop import Callback
from drnmf.algorithms.result import Progress
from drnmf.problem.units import Units


@dataclass(frozen=True)
class Stopping:
    """A callback that ends a run once an event is set, and asks nothing else."""

    stop: threading.Event

    def __call__(self, progress: Progress) -> bool:
        return self.stop.is_set()


@dataclass(frozen=True)
class Shown:
    """A callback that shows how far a run is: it ends none, and need not see every iteration."""

    show: Callback

    def __call__(self, progress: Progress) -> None:
        self.show(progress)


@dataclass(frozen=True)
class Watching:
    """The callback of a run that has several.

    Attributes
    ----------
    listeners : told after every iteration, in the unit of the caller; True from one of them ends the run
    stops : any of them ends the run, and then nobody is told
    alone : held while listeners are told, where several runs have the same
    """

    listeners: tuple[Callback, ...] = ()
    stops: tuple[threading.Event, ...] = ()
    units: Units = field(default_factory=lambda: Units(1.0))
    alone: AbstractContextManager[object] = field(default_factory=nullcontext)

    @classmethod
    def of(cls, callbacks: tuple[Callback | None, ...], units: Units) -> Watching:
        """Tell callbacks, of which any may be missing; those that only wait for an event become events."""
        events = tuple(callback.stop for callback in callbacks if isinstance(callback, Stopping))
        told = tuple(call for call in callbacks if call is not None and not isinstance(call, Stopping))
        return cls(told, events, units)

    def __call__(self, progress: Progress) -> bool:
        if self.stopped:
            return True
        if not self.listeners:
            return False
        with self.alone:
            seen = self.units.progress(progress)
            answers = [bool(listener(seen)) for listener in self.listeners]  # every one of them is told
        return any(answers)

    @property
    def asks(self) -> bool:
        """Whether there is anybody to tell or anything to end it."""
        return bool(self.listeners or self.stops)

    @property
    def stopped(self) -> bool:
        """Whether one of the events is set."""
        return any(stop.is_set() for stop in self.stops)

    @property
    def glances(self) -> bool:
        """Whether it is enough to be told now and then, because no listener can end the run."""
        return all(isinstance(listener, Shown) for listener in self.listeners)
