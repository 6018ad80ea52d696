"""What is said of a result: its certificate, and what its penalties did; and a second start where it leaves room.

A run under beta = 2 that ends well above what the singular values of X allow may stand in a poor local minimum: on
pictures of parts, where every position of a limb is a component, one in five of the default starts ends several percent
above another one. After ten iterations the losses tell which of two runs will be lower, so a second one that is not
costs little (docs/development/frobenius.md).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from drnmf.algorithms.certificates import certify
from drnmf.algorithms.correlation import row_sums
from drnmf.algorithms.initialize import Start
from drnmf.algorithms.loop import Control
from drnmf.algorithms.result import Interrupted, Progress, Result
from drnmf.numerics import EMPTY_MODEL, LITTLE_LEFT, SECOND_LEAD, SECOND_LOOK, positive_scale
from drnmf.objective.penalties import L1, L2
from drnmf.objective.penalty import Penalty
from drnmf.problem.problem import Problem
from drnmf.solve.runner import Runner
from drnmf.solve.solve import smallest, solve


def certified(problem: Problem, result: Result) -> Result:
    """Add its certificate to a result."""
    objective = problem.objective_of(result.omega, result.references, problem.penalties)
    found = certify(problem.modes, result.blocks, objective, result.weights, result.losses, problem.constraints)
    return replace(result, certificate=found)


def remarks(terms: tuple[Penalty, ...], modes: int = 2) -> tuple[str, ...]:
    """Say where a penalty can be undone by scaling one factor up and another down; X has so many modes."""
    of_modes = {term.mode for term in terms if isinstance(term, L1 | L2)} - {None}
    if of_modes and len(of_modes) < modes:
        return ("Some modes have an L1 or L2 penalty, which scaling others up undoes: Sparsity cannot be undone.",)
    given = {term.on for term in terms if isinstance(term, L1 | L2)}
    if of_modes or given not in ({"W"}, {"H"}):
        return ()
    (on,) = given
    other = "H" if on == "W" else "W"
    return (
        f"Only {on} has an L1 or L2 penalty, which scaling {on} down and {other} up undoes: Sparsity cannot be undone, "
        "nor can a penalty on both factors.",
    )


def refuse_empty(problem: Problem, result: Result) -> Result:
    """Refuse a fit whose penalties left nothing of WH.

    Raises
    ------
    ValueError
        With the alpha from which a penalty alone outweighs the loss of the constant model.
    """
    data, terms = problem.data, problem.penalties
    if not terms:
        return result
    pairs = zip(problem.modes.spaces, result.blocks, strict=True)
    total = float(np.prod([space.sum(row_sums, space.put(F)) for space, F in pairs], axis=0).sum())
    if total > EMPTY_MODEL * positive_scale(data.mean) * data.shape[0] * data.shape[1]:
        return result
    level, names = _constant(problem, result), " and ".join(term.name for term in terms)
    raise ValueError(
        f"The penalties ({names}) leave nothing of the model: alpha is too large. A constant model costs as much by "
        f"its penalties as by its loss from {level:.2g} times these alphas on: stay well below."
    )


def _constant(problem: Problem, result: Result) -> float:
    """How many times the penalties of the balanced constant model go into its loss."""
    modes, r = problem.modes, result.blocks[0].shape[0]
    count = len(modes.sizes)
    root = (positive_scale(problem.data.mean) / r) ** (1.0 / count)
    penalties = problem.objective_of(result.omega, result.references, problem.penalties).penalties
    constant = (space.put(np.full((r, size), root)) for space, size in zip(modes.spaces, modes.sizes, strict=True))
    measures = tuple(penalties.measure(modes.spaces[k], F, k, count) for k, F in enumerate(constant))
    return penalties.setting.level / max(penalties.value(measures), np.finfo(np.float64).tiny)


def leaves_room(run: Result, control: Control) -> bool:
    """Tell whether a run ended by itself, and another one could end much lower."""
    return run.reason == "tol" and float(run.losses.max()) > (1.0 + LITTLE_LEFT) * control.least > 0.0


def second_look(problem: Problem, first: Result, start: Start, runner: Runner) -> Result:
    """Run from another start for as long as it is ahead of the first run; return the better of both."""
    runner.budget.expect(1)
    before = first.trace.losses.max(axis=1)

    def behind(progress: Progress) -> bool:
        at = min(progress.iteration, first.n_iter)
        return bool(at >= SECOND_LOOK and progress.losses.max() > (1.0 - SECOND_LEAD) * before[at])

    try:
        (second,) = solve([problem.begun(start)], runner, overwrite=True, until=behind)
    except Interrupted as stop:
        raise Interrupted(smallest([first, stop.result])) from None
    return smallest([first, second])
