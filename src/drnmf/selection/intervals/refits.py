"""Draws of X fitted again, each from where the fit of X ended, as lists of problems."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from drnmf.algorithms.initialize import Start
from drnmf.algorithms.loop import Control
from drnmf.backends.core import single_blas
from drnmf.losses.base import Omega
from drnmf.numerics import Vector
from drnmf.parameters.common import Parameters
from drnmf.problem.device import as_numpy
from drnmf.problem.problem import Problem
from drnmf.problem.receive import Received
from drnmf.selection.intervals.scatter import like
from drnmf.selection.matching import assign, cosine, shares
from drnmf.selection.resampling import scaled_rows
from drnmf.solve.runner import Budget, Runner
from drnmf.solve.settings import ask
from drnmf.solve.solve import solve

MAX_ITER, TOLERANCE, WINDOW = 500, 1e-5, 5
"""Of a fit that begins where it nearly ends: what five iterations change of the loss is then far below what the noise
does, one half for every free entry of a factor in units of phi."""
TO_THE_END = (5000, 1e-8)
"""Iterations and tolerance of the fit of X itself: draws begin there, and must not finish what it left undone."""
LEAST = 1e-6
"""What entries begin at, of the mean of their factor, at least: a zero could not be left again."""
AT_ONCE = 1 << 21
"""Entries of the draws that are held at a time."""
IN_A_LIST = 8
"""Fits of each job in a list, at most."""


@dataclass(frozen=True)
class Refits:
    """How X, and what is drawn in its place, is fitted from a start."""

    problem: Problem  # X, of which nothing is asked yet
    runner: Runner  # how fits are made; its weights are those below
    parameters: Parameters  # penalties, constraints and steps of the fit; its rank is that of the start
    # omega, references, weights: the losses, what each is divided by, and lambda, which stays
    omega: Omega
    references: Vector
    weights: Vector
    # what the rows of X are multiplied by while they are fitted, None where they are kept
    factors: Vector | None = None
    jobs: int = 1  # fits at a time

    @property
    def given(self) -> Received:
        """X and the weights of its entries as they were received."""
        return self.problem.given

    def fit(self, X: object, start: Start) -> Start:
        """Fit one X, in the form of the X given."""
        return next(self._fits([lambda: X], [start], *TO_THE_END))

    def again(self, drawn: Sequence[Callable[[], Vector]], starts: Sequence[Start]) -> Iterator[Start]:
        """Fit draws, each made when its turn comes and fitted from a start of its own."""
        return self._fits([partial(self._like, draw) for draw in drawn], starts)

    def _like(self, draw: Callable[[], Vector]) -> Any:
        return like(self.given, draw())

    def _fits(
        self,
        matrices: Sequence[Callable[[], object]],
        starts: Sequence[Start],
        most: int = MAX_ITER,
        tol: float = TOLERANCE,
    ) -> Iterator[Start]:
        """Yield W and H of every matrix, their components in the order of the start."""
        m, n = self.given.X.shape
        step = self.jobs * max(1, min(AT_ONCE // (m * n * self.jobs), IN_A_LIST))
        for first in range(0, len(starts), step):
            some = slice(first, first + step)
            with single_blas(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what is wrong with X was said before
                made = [self._problem(make(), start) for make, start in zip(matrices[some], starts[some], strict=True)]
                done = solve(made, self._runner(made[0], Control(most, tol, window=WINDOW)), overwrite=True)
            for problem, result, start in zip(made, done, starts[some], strict=True):
                found = problem.back(problem.completed(result))
                W, H = (np.asarray(as_numpy(F), dtype=np.float64) for F in (found.W, found.H))
                yield matched((W if self.factors is None else W / self.factors[:, None], H), start[1])

    def _problem(self, X: Any, start: Start) -> Problem:
        W, H = start
        if self.factors is not None:
            X, W = scaled_rows(X, self.factors), W * self.factors[:, None]
        drawn = self.problem if X is self.given.X else self.problem.drawn(X)
        model = replace(self.parameters, n_components=H.shape[0], zeros="floor")
        problem = ask(drawn, model, self.omega, self.references)
        raised = (np.maximum(F, LEAST * float(F.mean())).astype(problem.data.dtype) for F in problem.inside((W, H)))
        return problem.begun(problem.feasible(*raised))

    def _runner(self, problem: Problem, control: Control) -> Runner:
        runner = self.runner.weighted(tuple(self.weights.tolist()), "intervals").near()
        return replace(runner, budget=Budget(control, 0, jobs=self.jobs, units=problem.units), starts=[])


def matched(found: Start, H: Vector) -> Start:
    """Put the components of a fit into the order of others (r, n) that they are nearest to."""
    order = assign(cosine(np.asarray(H, dtype=np.float64), found[1]))
    return found[0][:, order], found[1][order]


def canonical(found: Start) -> Start:
    """Give every component the sum one, and its scale to the contributions.

    >>> W, H = canonical((np.ones((1, 1)), np.array([[1.0, 3.0]])))
    >>> W.tolist(), H.tolist()
    ([[4.0]], [[0.25, 0.75]])
    """
    W, H = found
    return W * H.sum(axis=1), shares(H)
