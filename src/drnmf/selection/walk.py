"""Fits of neighbouring losses on one X, each from where its neighbour ended."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from drnmf.algorithms.initialize import Start
from drnmf.algorithms.loop import Control
from drnmf.algorithms.result import Result
from drnmf.algorithms.updates.base import Rule
from drnmf.backends.base import Data, in_unit
from drnmf.fit.method import Budget, Method
from drnmf.fit.references import single_objective
from drnmf.fit.units import Units, divided
from drnmf.inputs.device import as_numpy
from drnmf.losses.base import Loss, Omega
from drnmf.numerics import factor_floor, positive_scale

RACE = 10.0
"""Tolerance of the starts that compete, in that of the fit: only the best of them is brought to its end."""

NEW_COMPONENT = 0.1
"""Share of the mean of X that new components start with, beside those of a smaller rank."""


class Walk:
    """Fits of single losses on one X, made in a unit of its own; starts and results are in that of X.

    Parameters
    ----------
    data : X
    method : how to fit
    budget : hands out the controls of the fits
    """

    def __init__(self, data: Data, method: Method, budget: Budget) -> None:
        self.data, self._inside = data, in_unit(data)
        self._method, self._budget = method, budget
        self._control: Callable[[str], Control] = method.reference_control(budget)

    def first(self, loss: Loss, starts: list[Start], warm: tuple[Start, ...] = ()) -> Result:
        """Fit from every start, coarsely where there are several, and return the best, fitted to its end.

        Parameters
        ----------
        loss : what to fit
        starts : fresh ones
        warm : others, where another fit ended
        """
        if len(starts) + len(warm) == 1 or self._budget.control.tol <= 0:
            runs = [*self.all(loss, starts), *(self.near(loss, start) for start in warm)]
            return min(runs, key=_smallest)
        near, fresh = self._method.near().reference_rule, self._method.reference_rule
        tasks = [partial(self._fit, loss, fresh, start, RACE) for start in starts]
        tasks += [partial(self._fit, loss, near, start, RACE) for start in warm]
        self._budget.expect(1)
        best = min(self._budget.run_all(tasks), key=_smallest)
        return self.near(loss, (best.W, best.H)) if best.reason == "tol" else best

    def all(self, loss: Loss, starts: list[Start]) -> list[Result]:
        """Fit from every start."""
        fit = partial(self._fit, loss, self._method.reference_rule)
        return self._budget.run_all([partial(fit, start) for start in starts])

    def near(self, loss: Loss, start: Start) -> Result:
        """Fit from where another fit ended."""
        return self._fit(loss, self._method.near().reference_rule, start)

    def along(self, omega: Omega, starts: list[Start]) -> list[Result]:
        """Fit losses that are in the order of their betas, from the one nearest to Kullback-Leibler outwards."""
        middle = int(np.argmin([abs(loss.beta - 1.0) for loss in omega]))
        runs = {middle: self.first(omega[middle], starts)}
        for i in (*range(middle + 1, len(omega)), *range(middle - 1, -1, -1)):
            neighbour = runs[i - 1 if i > middle else i + 1]
            runs[i] = self.near(omega[i], (neighbour.W, neighbour.H))
        return [runs[i] for i in range(len(omega))]

    def _fit(self, loss: Loss, rule: Rule, start: Start, coarser: float = 1.0) -> Result:
        data, units = self._inside, Units(self._inside.scale / self.data.scale, np.ones(1))
        A, B = data.T.space.put(start[0].T), data.space.put(start[1])
        begin = (
            data.T.space.map(partial(divided, by=1.0 / units.left), A).T,
            data.space.map(partial(divided, by=1.0 / units.right), B),
        )
        control = self._control(f"{loss.name} alone")
        control = replace(control, tol=coarser * control.tol, callback=units.watched(control.callback))
        return units.result(data, single_objective(data, begin, loss.scaled(units.scale), rule, control))


def _smallest(run: Result) -> float:
    return float(run.losses[0])


def on_host(data: Data, factors: Start) -> Start:
    """Bring factors here, wherever they live."""
    W, H = factors
    return as_numpy(data.T.space.get(data.T.space.put(W.T))).T, as_numpy(data.space.get(data.space.put(H)))


def grown(data: Data, below: Start, rank: int, rng: np.random.RandomState) -> Start:
    """Add small random components to those of a smaller rank, and raise all to the floor of a start."""
    W, H = on_host(data, below)
    more = rank - H.shape[0]
    level = math.sqrt(4.0 * NEW_COMPONENT * positive_scale(data.mean) / max(more, 1))
    columns, rows = rng.uniform(size=(W.shape[0], more)) * level, rng.uniform(size=(more, H.shape[1])) * level
    floor = factor_floor(data.mean, rank)
    grown_W, grown_H = np.concatenate([W, columns], axis=1), np.concatenate([H, rows])
    return np.maximum(grown_W, floor).astype(data.dtype), np.maximum(grown_H, floor).astype(data.dtype)
