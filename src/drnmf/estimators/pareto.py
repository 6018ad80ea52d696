"""Pareto fronts: what one loss costs in terms of another (section 5.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drnmf.algorithms.initialize import Start
from drnmf.algorithms.result import Result
from drnmf.backends.base import losses_of
from drnmf.losses.base import Omega, betas_of
from drnmf.losses.names import as_losses
from drnmf.numerics import REFERENCE_MARGIN, REFERENCE_ROUNDS, Array, MatrixLike, Vector
from drnmf.objective.objective import Objective
from drnmf.objective.penalty import Penalty
from drnmf.objective.simplex import check_weights, vertex
from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import check_choice, check_integer, checked
from drnmf.parameters.solver import as_solver
from drnmf.problem.device import Placement, place
from drnmf.problem.problem import Problem
from drnmf.problem.weights import WeightsLike, reading_of
from drnmf.selection.alpha import AlphaPath, choose_alphas, decided, undecided
from drnmf.solve.pipeline import running, warn_unconverged
from drnmf.solve.references import (
    References,
    check_references,
    compute_references,
    improved,
    lowered,
    resume,
    run_improving,
    run_near,
)
from drnmf.solve.runner import Runner
from drnmf.solve.settings import asked_losses, check_model, control_of, problem_of, settings_of, terms_of
from drnmf.solve.solve import run_all, smallest, solve


@dataclass(frozen=True)
class ParetoPoint:
    """One solution: the lambda it was found under and its losses.

    weights, losses, scaled_losses : (p,), aligned with the front's betas
    W, H : (m, r) and (r, n) in canonical form, or None unless the front was asked for its factors
    penalty : the sum of the penalties
    """

    weights: Vector
    losses: Vector
    scaled_losses: Vector
    n_iter: int
    converged: bool
    W: Array | None = None
    H: Array | None = None
    penalty: float = 0.0


@dataclass(frozen=True)
class ParetoFront:
    """The points in the order of their weights, and `dr`, the point whose largest scaled loss is smallest.

    `penalties` are those of all points; `penalty_path` holds, for every alpha="auto", what was tried at the DR point.
    """

    omega: Omega
    references: Vector
    points: tuple[ParetoPoint, ...]
    dr: ParetoPoint
    method: str = "weighted"
    notes: tuple[str, ...] = ()
    penalties: tuple[Penalty, ...] = ()
    penalty_path: tuple[AlphaPath, ...] = ()

    @property
    def betas(self) -> tuple[float, ...]:
        """The betas of the losses; NaN for a loss that is no beta-divergence."""
        return tuple(betas_of(self.omega))

    @property
    def weights(self) -> Vector:
        """lambda of every point, (points, p)."""
        return np.array([point.weights for point in self.points])

    @property
    def losses(self) -> Vector:
        """D_beta of every point, (points, p)."""
        return np.array([point.losses for point in self.points])

    @property
    def scaled_losses(self) -> Vector:
        """D_beta / e_beta of every point, (points, p)."""
        return np.array([point.scaled_losses for point in self.points])

    @property
    def dominated(self) -> NDArray[np.bool_]:
        """(points,): another point of the front, or `dr`, is at least as good in every loss and better in one.

        Fits end in local minima, so a few points may be.
        """
        return dominated(self.scaled_losses, np.vstack([self.scaled_losses, self.dr.scaled_losses]))

    def to_rows(self) -> list[dict[str, object]]:
        """One flat record per point, the DR point last: what `front.csv` holds and a data frame takes."""
        marks = [*self.dominated.tolist(), bool(dominated(self.dr.scaled_losses[None], self.scaled_losses)[0])]
        kinds = [*(["front"] * len(self.points)), "dr"]
        return [self._row(*item) for item in zip(kinds, (*self.points, self.dr), marks, strict=True)]

    def _row(self, kind: str, point: ParetoPoint, mark: bool) -> dict[str, object]:
        row: dict[str, object] = {"kind": kind}
        columns = {"weight": point.weights, "loss": point.losses, "scaled_loss": point.scaled_losses}
        for name, values in columns.items():
            row |= {f"{name}_{loss.key}": float(v) for loss, v in zip(self.omega, values, strict=True)}
        if self.dr.penalty:
            row["penalty"] = point.penalty
        return row | {"n_iter": point.n_iter, "converged": point.converged, "dominated": mark}


def dominated(points: Vector, others: Vector) -> NDArray[np.bool_]:
    """Which rows of `points` have a row in `others` that is nowhere larger and somewhere smaller.

    >>> dominated(np.array([[1.0, 2.0], [2.0, 2.0]]), np.array([[1.0, 2.0], [2.0, 1.0]])).tolist()
    [False, True]
    """
    ahead = points[:, None, :] - others[None, :, :]
    return np.any(np.all(ahead >= 0, axis=2) & np.any(ahead > 0, axis=2), axis=1)


def weight_lattice(p: int, k: int) -> Vector:
    """All lambda with p entries that are multiples of 1/(k-1): for p = 2 the rows (l, 1-l), l = 0, 1/(k-1), ..., 1.

    >>> weight_lattice(2, 3).tolist()
    [[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]
    >>> len(weight_lattice(3, 11))
    66
    """
    bars = combinations(range(k + p - 2), p - 1)  # stars and bars
    counts = [np.diff([-1, *bar, k + p - 2]) - 1 for bar in bars]
    return np.array(counts, dtype=np.float64) / (k - 1)


def check_points(weights: int | ArrayLike, p: int) -> Vector:
    """The lambda of every point, (points, p), from how many per edge or from the rows themselves."""
    if isinstance(weights, int | np.integer) and not isinstance(weights, bool):
        return weight_lattice(p, check_integer("weights", weights, 2))
    rows = np.asarray(weights)
    if rows.ndim != 2 or rows.shape[0] == 0:
        raise ValueError(
            f"weights must be an integer >= 2 or an array of shape (points, {p}), one row per point; got {weights!r}."
        )
    return np.array([check_weights(row, p) for row in rows])


Method = Callable[[Problem, Runner, Vector], Result]


def weighted(problem: Problem, runner: Runner, weights: Vector) -> Result:
    """Minimise sum_b lambda_b Dbar_b (MO-NMF). Reaches the convex parts of the front."""
    return solve([problem], runner.weighted(tuple(weights.tolist()), _stage(weights)))[0]


def tchebycheff(problem: Problem, runner: Runner, weights: Vector) -> Result:
    """Minimise max_b lambda_b Dbar_b: DR-NMF with e_b / lambda_b as references. Reaches every part of the front."""
    used, whole = np.flatnonzero(weights), _objective(problem)
    omega = tuple(whole.omega[b] for b in used)
    some = problem.under(omega, whole.references[used] / weights[used])
    result = solve([some], replace(runner, stage=_stage(weights)))[0]
    return _among_all(problem, result, weights)


def _objective(problem: Problem) -> Objective:
    assert problem.objective is not None
    return problem.objective


def _weighted_value(result: Result, weights: Vector) -> float:
    return float(weights @ result.scaled_losses) + result.penalty


def _largest_value(result: Result, weights: Vector) -> float:
    return float((weights * result.scaled_losses).max()) + result.penalty


METHODS: dict[str, tuple[Method, Callable[[Result, Vector], float]]] = {
    "weighted": (weighted, _weighted_value),
    "tchebycheff": (tchebycheff, _largest_value),
}
"""How a lambda (no vertex of the simplex) becomes a point, and what the best of several starts has the least of."""


def _stage(weights: Vector) -> str:
    return "(" + ", ".join(f"{w:.3g}" for w in weights) + ")"


def pareto_front(
    model: Parameters,
    X: MatrixLike,
    *,
    weights: int | ArrayLike = 11,
    method: str = "weighted",
    W: ArrayLike | None = None,
    H: ArrayLike | None = None,
    entry_weight: WeightsLike = None,
    uncertainty: WeightsLike = None,
    return_factors: bool = False,
) -> ParetoFront:
    r"""Find solutions between the losses of a model, and the DR-NMF solution among them (section 5.1).

    .. math:: \min_{W, H \ge 0} \sum_{\beta \in \Omega} \lambda_\beta D_\beta(X, WH) / e_\beta
              \quad\text{for every } \lambda

    All runs share their start and the references e_beta, so the points differ by lambda alone. The ends of the front,
    where one loss has all the weight, are the single-objective fits that give the references.

    Parameters
    ----------
    model : ``DRNMF`` with at least two losses, or another estimator with `betas`; all its parameters are used. Each
        point keeps the best of its `n_init` starts. With `warm_start` every point starts from the nearest one already
        solved instead of the common start; with tol > 0 a front then costs little more than its ends, and its points
        may be other local minima. Its `max_time` is for the front: every run left gets an even part of what is left.
        A `callback` is called in every run but the single-objective ones, and returning True ends that run. An
        alpha="auto" is chosen at the DR point, once for all
    X : as in `DRNMF.fit`
    weights : k spaces lambda by 1/(k-1), which for two betas gives k points (l, 1-l), for more a lattice on
        the simplex; or an array of shape (points, p), each row nonnegative with sum one
    method : how a lambda becomes a point: "weighted" (the sum above) or "tchebycheff" (min max_b lambda_b Dbar_b, which
        also reaches the parts of the front that are not convex)
    W, H : the common start with ``init="custom"``; the paper starts from the true factors
    entry_weight, uncertainty : as in `DRNMF.fit`
    return_factors : keep W and H of every point

    Returns
    -------
    front : ParetoFront

    Examples
    --------
    >>> from drnmf import DRNMF
    >>> from drnmf.synthetic import synthetic
    >>> data = synthetic((1, 2), shape=(30, 20), rank=3, random_state=0)
    >>> model = DRNMF(3, betas=(1, 2), init="custom", tol=0, max_iter=100)
    >>> front = pareto_front(model, data.X, weights=5, W=data.W, H=data.H)
    >>> front.weights[:, 0].tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    >>> bool(front.dr.scaled_losses.max() <= front.scaled_losses.max(axis=1).min() + 1e-3)
    True
    """
    check_model(model, "pareto_front")
    solver, omega = as_solver(model.solver), as_losses(asked_losses(model))
    p = len(omega)
    if p < 2:
        raise ValueError(f"betas={omega[0].key} is one loss: a front needs at least two, for example betas=(0, 1).")
    check_choice("method", method, tuple(METHODS))
    points = check_points(weights, p)
    given = None if solver.references is None else check_references(solver.references, p)
    placement, terms = place(X, model.device, solver.precision), terms_of(model)
    runner = replace(Runner.of(solver.update, solver.policy, placement.gpu), callback=solver.callback, stage="DR")
    accepted = placement.accept(X, "pareto_front", reading_of(model, entry_weight, uncertainty))
    control, starts = control_of(model), checked(model, "n_init")
    problem = problem_of(model, placement.open(accepted), omega, accepted, given)
    count = starts * (len(points) + 1 + (p if given is None else 0))
    # the lambdas of the points are not the model's own weights, which a front does without
    identity = settings_of(model) | {"estimator": "pareto_front", "weights": weights, "method": method}
    with running(problem, runner, model, count, identity=identity, W=W, H=H) as runner:
        found = None if problem.objective is not None else compute_references(problem, runner.starts, runner)
        notes, paths = problem.notes, tuple[AlphaPath, ...]()
        if undecided(problem.penalties):
            known = problem if found is None else problem.over(found.values)
            chosen = choose_alphas(known, runner, model.random_state)
            problem, runner, paths = chosen.problem, chosen.runner, chosen.paths
            terms = decided(terms, problem.penalties)
        front = Points(problem, runner, runner.starts, method)
        if found is not None:
            notes += found.notes
            results, dr, inside = _solve_front(front, points, model.warm_start, found)
        else:
            inside = _objective(problem).references
            results, dr = front.solve(points, model.warm_start), front.dr()
        kept = [_point(problem, result, placement if return_factors else None) for result in (*results, dr)]
    warn_unconverged([*results, dr], control, "pareto_front")
    used = problem.units.losses(inside, omega) if given is None else given
    return ParetoFront(omega, used, tuple(kept[:-1]), kept[-1], method, notes, terms, paths)


@dataclass(frozen=True)
class Points:
    """How the point of a lambda is solved, under references that all points share."""

    problem: Problem  # with its references
    runner: Runner  # how it is run
    starts: list[Start]  # from which every point is solved
    method: str  # one of `METHODS`
    ends: dict[int, Result] = field(default_factory=dict)  # single-objective fits in hand, by the index of their loss

    def over(self, found: References) -> Points:
        """Return the same under other references, whose single-objective fits are the ends."""
        return replace(self, problem=self.problem.over(found.values), ends=dict(enumerate(found.solutions)))

    def value(self, result: Result, weights: Vector) -> float:
        """What the best of several runs for a lambda has the least of."""
        return METHODS[self.method][1](result, weights)

    def solve(self, points: Vector, warm_start: bool) -> list[Result]:
        """Solve the point of every lambda; `warm_start` goes from the nearest one that is solved."""
        budget = self.runner.budget
        if not warm_start:
            tasks = [partial(self.solve_one, row, self.starts) for row in points]
            return run_all(tasks, budget.jobs, budget.stop, budget.batched)
        results: list[Result] = []
        for row in points:
            known = self._nearest(row, results)
            results.append(self.solve_one(row, self.starts if known is None else [(known.W, known.H)]))
        return results

    def _nearest(self, weights: Vector, solved: list[Result]) -> Result | None:
        """The point already solved whose lambda is nearest, the single-objective fits among them."""
        known = [(result.weights, result) for result in solved]
        known += [(vertex(weights.size, b), result) for b, result in self.ends.items()]
        return min(known, key=lambda item: float(np.abs(item[0] - weights).sum()))[1] if known else None

    def solve_one(self, weights: Vector, origins: list[Start]) -> Result:
        """Find the point of one lambda. With all weight on one loss it is that loss's own fit, solved once."""
        (used,), problem = np.nonzero(weights), self.problem
        if used.size > 1 or problem.penalties:  # a fit alone has no penalties
            run = METHODS[self.method][0]
            how = self.runner if origins is self.starts else self.runner.near()
            found = (run(problem.begun(origin), how, weights) for origin in origins)
            return min(found, key=lambda result: self.value(result, weights))
        b = int(used[0])
        if b not in self.ends:
            alone, how = problem.alone(problem.omega[b]), replace(self.runner.alone(), reference_tol=0.0)
            self.ends[b] = smallest([solve([alone.begun(start)], how)[0] for start in self.starts])
        return _among_all(problem, self.ends[b], weights)

    def again(self, weights: Vector, own: Result, known: list[Result], changed: bool) -> Result:
        """Solve a point again where its references have changed or another point in hand is better for its lambda.

        Which local minimum a run ends in depends on its start, so the best start for a lambda may be another's
        solution.
        """
        ahead = min(known, key=lambda point: self.value(point, weights))
        if not changed and self.value(ahead, weights) >= (1.0 - REFERENCE_MARGIN) * self.value(own, weights):
            return own
        self.runner.budget.expect(1)
        near = replace(self, runner=self.runner.near(), starts=[(ahead.W, ahead.H)])
        return min(own, near.solve_one(weights, near.starts), key=lambda point: self.value(point, weights))

    def dr(self) -> Result:
        """Solve the DR point."""
        return smallest(solve([self.problem.begun(start) for start in self.starts], self.runner))


def _solve_front(
    front: Points, points: Vector, warm_start: bool, found: References
) -> tuple[list[Result], Result, Vector]:
    """Solve the DR point and all others under references that none of them is below.

    The DR point comes first: what it teaches about the references serves all others. Where a point beats a reference
    after that, it is improved, and the points are solved again from where they stand (`solve.improve`); and where
    another point in hand is better for a lambda than its own, from there.
    """
    problem, runner = front.problem, front.runner
    if not runner.improves:
        scaled = front.over(found)
        return scaled.solve(points, warm_start), scaled.dr(), found.values
    done, found = run_improving(problem, front.starts, found, runner)
    results, dr = front.over(found).solve(points, warm_start), smallest(done)
    for _ in range(REFERENCE_ROUNDS):
        better = improved(problem, found, [*results, dr], runner)
        changed, found = better is not found, better
        known, scaled = [point.under(found.values) for point in (*results, dr)], front.over(found)
        results = [scaled.again(row, own, known, changed) for row, own in zip(points, known[:-1], strict=True)]
        ahead = smallest(known)
        if ahead is not known[-1]:
            dr = run_near(problem, (ahead.W, ahead.H), found.values, runner)
        else:
            dr = resume(problem, [dr], found.values, runner)[0] if changed else known[-1]
        if all(now is before for now, before in zip([*results, dr], known, strict=True)):
            break
    references = lowered(found, [*results, dr]).values
    results = [_corner(result, [*results, dr]) for result in results]
    return [result.under(references) for result in results], dr.under(references), references


def _corner(result: Result, known: list[Result]) -> Result:
    """The point of a lambda with all weight on one loss is the one that has least of it, whichever run found it."""
    (used,) = np.nonzero(result.weights)
    if used.size > 1 or result.penalty > 0:
        return result
    least = min(known, key=lambda other: float(other.losses[used[0]]))
    if float(least.losses[used[0]]) >= float(result.losses[used[0]]):
        return result
    return replace(result, blocks=least.blocks, losses=least.losses)


def _among_all(problem: Problem, single: Result, weights: Vector) -> Result:
    """Add the losses of every beta at its point to a single-objective result; the trace stays its own."""
    objective = _objective(problem)
    losses = losses_of(problem.data, single.W, single.H, objective.omega)
    return replace(
        single,
        omega=objective.omega,
        references=objective.references,
        losses=losses,
        scaled_losses=objective.scaled(losses),
        weights=weights,
    )


def _point(problem: Problem, result: Result, placement: Placement | None) -> ParetoPoint:
    """A point in the unit of the caller, with its factors where it is said where they go."""
    data, W, H, losses = problem.data, None, None, problem.units.losses(result.losses, result.omega)
    if placement is not None:
        found = problem.back(problem.completed(problem.canonical(problem.with_zeros(result))))
        W = placement.hand_back(data.T.space.deliver(found.W.T))
        H = placement.hand_back(found.H)
    return ParetoPoint(
        result.weights, losses, result.scaled_losses, result.n_iter, result.converged, W, H, result.penalty
    )
