"""Error bars that cover: draws from the fitted mean and noise, fitted again, widened by what a second level says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from drnmf.numerics import MatrixLike
from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import check_integer, check_number
from drnmf.parameters.solver import as_solver
from drnmf.problem.device import as_numpy, place
from drnmf.problem.problem import Problem
from drnmf.problem.weights import reading_of
from drnmf.selection.entries import bound
from drnmf.selection.intervals.bars import DRAWS, LEAST_DRAWS, TRUTHS, Draws, Intervals, error_bars
from drnmf.selection.intervals.refits import Refits
from drnmf.solve.runner import Runner
from drnmf.solve.settings import check_model, jobs_of


def intervals(
    model: Parameters,
    X: MatrixLike,
    *,
    level: float = 0.9,
    draws: int = DRAWS,
    truths: int = TRUTHS,
    random_state: int = 0,
    entry_weight: Any = None,
    uncertainty: Any = None,
) -> Intervals:
    """Find how sure the components and contributions of a fitted model are.

    X is drawn again from the fit and its noise, and every draw is fitted from where the model ended: percentiles of
    these fits are intervals. They cover too little, so the same is done for some of the draws, whose truth is known,
    and all intervals are widened by the factor that would have covered it.

    Parameters
    ----------
    model : fitted estimator
        Under one loss or several; its penalties and constraints hold in the fits of the draws, and its jobs are those
        fits side by side.
    X : array or SciPy sparse matrix of shape (m, n)
        What the model was fitted to.
    level : float
        What the intervals are to cover, between 0 and 1.
    draws : int, at least 40
        Draws behind the intervals.
    truths : int
        How many of them are drawn from again, 40 times each, to tell what intervals cover; with 0 none is widened.
    random_state : int
        Seed of all draws.
    entry_weight, uncertainty : as in `BetaNMF.fit`
        Those of the fit. Uncertainties are the noise; without them it is read off the residuals.

    Returns
    -------
    Intervals
        ``components`` and ``contributions``, each with ``estimate``, ``lower``, ``upper``, ``widening`` and
        ``coverage``. Components sum to one, and contributions carry the scale.

    Raises
    ------
    ValueError
        For a model, an X or a level that has no intervals.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> from drnmf import BetaNMF
    >>> H = rng.dirichlet(np.full(12, 0.3), 2)
    >>> X = rng.poisson(rng.gamma(0.5, 200, (30, 2)) @ H)
    >>> sure = intervals(BetaNMF(2, beta=1, random_state=0).fit(X), X, draws=40, truths=4)
    >>> sure.components.lower.shape, sure.contributions.upper.shape, sure.noise
    ((2, 12), (30, 2), 'Poisson')
    """
    check_model(model, "intervals")
    check_level(level)
    check_integer("draws", draws, LEAST_DRAWS)
    check_integer("truths", truths, 0)
    seed = check_integer("random_state", random_state, 0)
    fitted: Any = model
    start = as_numpy(fitted.transform(X, entry_weight=entry_weight, uncertainty=uncertainty))
    placement = place(X, model.device, as_solver(model.solver).precision)
    given = bound(placement.accept(X, "intervals", reading_of(model, entry_weight, uncertainty)))
    if not (isinstance(given.X, np.ndarray) or sp.issparse(given.X)):
        raise TypeError(f"intervals takes X as a NumPy array or a SciPy matrix, not {type(X).__name__}: convert it.")
    runner = Runner.of(as_solver(model.solver).update, "auto", placement.gpu)
    problem, penalised = Problem.opened(placement.open(given), given), replace(model, penalties=fitted.penalties_.terms)
    refits = Refits(problem, runner, penalised, fitted.omega_, fitted.references_, fitted.weights_, jobs=jobs_of(model))
    H = np.asarray(as_numpy(fitted.components_), dtype=np.float64)
    found = error_bars(
        refits, (np.asarray(start, dtype=np.float64), H), Draws(level, draws, truths, seed, uncertainty is not None)
    )
    assert found is not None
    return found


def check_level(level: object) -> float:
    """Check what intervals are to cover.

    >>> check_level(0.9)
    0.9
    """
    found = check_number("level", level, 0.0)
    if not 0.0 < found < 1.0:
        raise ValueError(f"level={level!r} must be between 0 and 1, for example 0.9.")
    return found
