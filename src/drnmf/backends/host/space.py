"""Factors as NumPy arrays in the memory of this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from drnmf.backends.base import Space, Sweep
from drnmf.numerics import Array, Indices, Vector


class HostSpace:
    """Where factors are plain arrays and sweeps are done when they return (see `backends.base.Space`)."""

    deferred = False
    forks = True
    whole = True

    def read(self, *sweeps: Sweep) -> tuple[Sweep, ...]:
        return sweeps

    def put(self, F: Array) -> Array:
        return np.ascontiguousarray(F)

    def get(self, F: Array) -> Array:
        return F

    def take(self, F: Array, at: Indices | None, into: Space) -> Array:
        return into.put(F if at is None else F[:, at])

    def map(self, function: Callable[..., Any], *arguments: object, count: int = 1) -> Any:
        return function(*arguments)

    def sum(self, function: Callable[..., Vector], *arguments: object) -> Vector:
        return function(*arguments)

    def join(self, state: Any) -> Any:
        return state

    def split(self, whole: Any) -> Any:
        return whole

    def status(self) -> str:
        return ""

    def deliver(self, F: Array) -> Array:
        return np.ascontiguousarray(F.T)


HOST = HostSpace()
