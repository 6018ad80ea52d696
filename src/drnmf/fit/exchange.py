"""The exchange method for Omega = [a, b]: solve on the knots, add the worst beta of the interval, repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from drnmf.algorithms.initialize import Start
from drnmf.algorithms.loop import Callback
from drnmf.algorithms.result import Result, Trace
from drnmf.backends.base import Data, losses_of
from drnmf.fit.method import Budget, Method, certified
from drnmf.fit.references import compute_references, reference_floors
from drnmf.fit.road import best_run
from drnmf.losses.base import Omega
from drnmf.losses.beta import Beta
from drnmf.losses.interval import Coverage, Interval, coverage
from drnmf.objective.objective import Objective


def fit_interval(
    data: Data,
    starts: list[Start],
    interval: Interval,
    method: Method,
    budget: Budget,
    callback: Callback | None = None,
    stage: str = "fit",
) -> Result:
    """Solve on the knots, add the worst beta of the interval, and repeat from where the factors stand.

    e(beta) is the smallest D_beta among all reference solutions in hand, at knots and between them alike. The rounds
    share the max_iter iterations of the fit.
    """
    knots, grid = list(interval.first_knots()), interval.betas()
    along_grid = _losses(grid)
    solutions = list(compute_references(data, starts, _losses(knots), method, budget).solutions)
    rounds: list[tuple[tuple[float, ...], Result]] = []
    left, done = budget.control.max_iter, False
    while True:
        everywhere = (*_losses(knots), *along_grid)
        table = np.array([losses_of(data, run.W, run.H, everywhere) for run in solutions])
        smallest = np.maximum(table.min(axis=0), reference_floors(data, everywhere))
        references, along = smallest[: len(knots)], smallest[len(knots) :]
        objective = Objective(_losses(knots), references, data.mean)
        most = left if budget.control.tol > 0 or done or len(knots) >= interval.max_knots else _half(left)
        best = best_run(data, starts, objective, method, budget, callback, stage, most)
        rounds.append((tuple(knots), best))
        left -= best.n_iter
        seen = coverage(
            interval, losses_of(data, best.W, best.H, along_grid), along, np.array(knots), references, best.losses
        )
        excess = float(seen.scaled_losses.max()) > float(best.scaled_losses.max()) * (1.0 + interval.tol)
        done = not excess or len(knots) >= interval.max_knots or min(abs(seen.worst - k) for k in knots) == 0
        if left <= 0 or best.reason == "callback" or (done and best.reason != "max_iter"):
            break
        starts, method = [(best.W, best.H)], method.near()
        if done:  # the iterations that are left go to the knots as they are
            continue
        knots.append(seen.worst)
        solutions.extend(compute_references(data, starts, _losses([seen.worst]), method, budget).solutions)
    return _join_rounds(data, rounds, seen)


def _half(left: int) -> int:
    """Half of the iterations left, all of them where that is few: tol=0 ends no round before its last iteration."""
    return left if left <= 10 else left // 2


def _losses(betas: Sequence[float]) -> Omega:
    return tuple(Beta(beta) for beta in betas)


def _join_rounds(data: Data, rounds: list[tuple[tuple[float, ...], Result]], seen: Coverage) -> Result:
    """One result from the rounds of the exchange: knots in order, one trace, NaN before a knot joined."""
    knots, last = rounds[-1]
    order = np.argsort(knots)
    traces, added, iterations, sweeps, seconds = list[Trace](), list[tuple[int, float]](), 0, 0, 0.0
    for previous, (now, run) in zip([knots[: len(rounds[0][0])], *(r[0] for r in rounds)], rounds, strict=False):
        added += [(iterations, beta) for beta in now[len(previous) :]]
        pad = ((0, 0), (0, len(knots) - len(now)))
        traces.append(
            Trace(
                np.pad(run.trace.scaled_losses, pad, constant_values=np.nan)[:, order],
                np.pad(run.trace.weights, pad, constant_values=np.nan)[:, order],
                run.trace.seconds + seconds, run.trace.gap, run.trace.sweeps + sweeps,
            )
        )  # fmt: skip
        iterations += run.n_iter
        sweeps, seconds = int(traces[-1].sweeps[-1]), float(traces[-1].seconds[-1])
    # row 0 of a later round is the last row of the one before, under new references: it takes its place
    parts = [trace if i == len(traces) - 1 else _without_last(trace) for i, trace in enumerate(traces)]
    rows = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _ROWS}
    joined = Trace(**rows, added=np.array(added, dtype=np.float64).reshape(-1, 2))
    note = (
        f"For every beta of the interval the scaled loss is at most {seen.bound:.6f} "
        f"({seen.factor:.4f} times the largest at the {len(knots)} knots)."
    )
    result = replace(
        last, omega=_losses(np.array(knots)[order].tolist()), references=last.references[order],
        losses=last.losses[order], scaled_losses=last.scaled_losses[order], weights=last.weights[order],
        trace=joined, n_iter=iterations, coverage=replace(seen, added=tuple(added)), notes=(note,),
    )  # fmt: skip
    return certified(data, result)


_ROWS = ("scaled_losses", "weights", "seconds", "gap", "sweeps")


def _without_last(trace: Trace) -> Trace:
    return Trace(*(getattr(trace, name)[:-1] for name in _ROWS))
