"""Few causes per sample: contributions with real zeros, of components that are known or were fitted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drnmf.losses.base import Omega
from drnmf.losses.beta import Beta
from drnmf.losses.interval import as_interval
from drnmf.losses.names import as_losses
from drnmf.numerics import ENCODE_ITERATIONS, ENCODE_TOLERANCE, Array, Vector
from drnmf.objective.objective import Objective
from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import checked
from drnmf.problem.device import place
from drnmf.problem.problem import Problem
from drnmf.problem.receive import refuse_signed
from drnmf.problem.units import mean_of
from drnmf.problem.weights import Reading, reading_of
from drnmf.selection.assignment.noise import Judged, KnownComponents, Seen, noise_of, some_rows
from drnmf.selection.assignment.supports import Supports
from drnmf.selection.entries import bound, counted, facts_of
from drnmf.selection.folds import mask_seed
from drnmf.selection.likelihood.masses import KnownNoise
from drnmf.selection.matching import aligned, as_components
from drnmf.solve.encode import Encoder
from drnmf.solve.settings import asked_losses, check_model, terms_of

FUNCTION = "assign"

REFITS, REFIT_STEPS = 20, 3
"""How often components and contributions are fitted in turn within their supports, and steps of each."""

TURNS = 3
"""How often components are dropped and fitted again in turn, until rows have few."""

PART, LEAST_ROWS = 1 << 19, 64
"""Entries of X between two looks at the clock, and rows at least."""


@dataclass(frozen=True, repr=False)
class Assignment:
    """What `assign` found.

    Attributes
    ----------
    contributions : (m, r), zero where a row does not need the component
    dense : (m, r), contributions of all components
    losses : under which they were fitted
    noise : name of the noise that judged them
    parameter : of the noise: phi, the size, the standard deviation or, in those that are known, one; NaN where nothing
        is free
    likelihood : (m,), log-likelihood of every row
    price : (m,), what a component has to gain in a row, in log-likelihood
    """

    contributions: Array
    dense: Array
    losses: Omega
    noise: str
    parameter: float
    likelihood: Vector
    price: Vector

    @property
    def active(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """How many components every row has, (m,)."""
        return np.asarray((np.asarray(self.contributions) > 0).sum(axis=1), dtype=np.int64)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary()}>"

    def summary(self) -> str:
        """Say in a sentence what was found."""
        names, (m, r) = ", ".join(loss.name for loss in self.losses), self.contributions.shape
        return f"{m} rows have {self.active.mean():.1f} of {r} components on average, under {names}."


def assign(
    X: Any, components: ArrayLike, model: Parameters | None = None, *, entry_weight: Any = None, uncertainty: Any = None
) -> Assignment:
    """Find which of some known components every row of X has, and how much of each: contributions with real zeros.

    Components of a row are dropped one by one while its log-likelihood falls by less than a price, half the logarithm
    of its observed entries plus the logarithm of the number of components; then others are tried in addition.

    Parameters
    ----------
    X : array, DataFrame or SciPy sparse matrix of shape (m, n), nonnegative; NaN in a dense X is not observed
    components : array or DataFrame of shape (r, n), nonnegative, one component per row. Where X is a DataFrame too,
        columns are paired by their labels
    model : estimator, optional
        Its loss, and how it reads X (zeros, negatives, what is not stored); None is ``BetaNMF(beta="auto")``, which
        takes the loss of the noise, with uncertainties 2, whose weights they are
    entry_weight, uncertainty : as in `BetaNMF.fit`

    Returns
    -------
    Assignment
        Contributions, and what judged them.

    Raises
    ------
    ValueError
        For bad X, components or parameters.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> known = rng.dirichlet(np.full(30, 0.3), 5)
    >>> X = rng.poisson(np.array([[900.0, 0, 0, 300, 0], [0, 0, 500, 0, 0]]) @ known)
    >>> (assign(X, known).contributions > 0).astype(int).tolist()
    [[1, 0, 0, 1, 0], [0, 0, 1, 0, 0]]
    """
    model = Parameters() if model is None else model
    check_model(model, FUNCTION)
    H = _checked(aligned(X, components, "components"))
    if model.sum_to_one is not None:
        raise ValueError("assign finds how much of each component a row has, and takes no sum_to_one: leave it out.")
    problem = opened(X, FUNCTION, reading_of(model, entry_weight, uncertainty))
    given = problem.given
    if given.X.shape[1] != H.shape[1]:
        raise ValueError(
            f"components have {H.shape[1]} columns, but X has {given.X.shape[1]}: both need the same columns."
        )
    encoder = Encoder(
        H,
        Objective((Beta(1.0),), np.ones(1), mean_of(problem.data)),
        np.ones(1),
        ENCODE_ITERATIONS,
        ENCODE_TOLERANCE,
        checked(model, "zeros"),
        FUNCTION,
        np.zeros(H.shape[0]),
    )
    loss = _loss(model, given.known or given.signed)
    if loss is None:
        loss = KnownComponents.some(problem, encoder, mask_seed(model.random_state)).likely_loss()
    refuse_signed(given, (loss,))
    encoder = replace(encoder, objective=replace(encoder.objective, omega=(loss,)))
    return assigned(encoder, problem, encoded(encoder, problem))


def opened(X: Any, consumer: str, reading: Reading) -> Problem:
    """Check X and open it on a host, in the name of a function."""
    placement = place(X, None, "float32")
    given = bound(placement.accept(X, consumer, reading))
    return Problem.opened(placement.open(given), given)


def encoded(encoder: Encoder, problem: Problem) -> Array:
    """Compute the contributions of all components to every row, (m, r)."""
    return np.asarray(encoder.rows(problem.entries(problem.given, encoder.objective.mean)))


def assigned(encoder: Encoder, problem: Problem, dense: Array) -> Assignment:
    """Assign components to rows of X on a host whose contributions of all of them are there already (`dense`)."""
    supports = supports_of(encoder, problem, dense)
    W, likelihood = supports.assigned(dense)
    return Assignment(
        W, dense, encoder.objective.omega, supports.noise.name, supports.parameter, likelihood, supports.price
    )


def assigned_in_time(supports: Supports, dense: Array, out_of_time: Callable[[], bool]) -> tuple[Array, int]:
    """Assign components to rows, a block at a time, as long as there is time.

    Returns W (m, r), dense where there was no time, and how many rows that are.
    """
    (m, n), W = supports.given.X.shape, dense.copy()
    step = max(LEAST_ROWS, PART // n)
    for first in range(0, m, step):
        if out_of_time():
            return W, m - first
        at = np.arange(first, min(first + step, m))
        W[at] = replace(supports, given=supports.given.rows(at)).assigned(dense[at])[0]
    return W, 0


def within_supports(encoder: Encoder, problem: Problem, W: Array) -> tuple[Vector, Vector]:
    """Fit components again to the rows that have them: where contributions W are zero they stay so.

    Dense contributions mix components with what little of others they lend to every row, so that flat components come
    out too steep. Once only: assigned again and again the rare ones are lost. Rows of the components sum to one; those
    that no row of X has stay as they are.
    """
    rows, columns = (one.entries(one.given, encoder.objective.mean) for one in (problem, problem.turned))
    had = W.sum(axis=1) > 0
    H, used = np.array(encoder.components, dtype=np.float64), np.asarray((W > 0).any(axis=0))
    W, others = np.array(W, dtype=np.float64), np.zeros(int(used.sum()))
    short = replace(encoder, max_iter=REFIT_STEPS, tol=ENCODE_TOLERANCE, mean_row=others)
    for _ in range(REFITS):
        turned = replace(short, components=W[:, used].T)
        H[used] = np.asarray(turned.rows(columns, first=H[used].T), dtype=np.float64).T
        sizes = H[used].sum(axis=1)
        H[used], W[:, used] = H[used] / sizes[:, None], W[:, used] * sizes
        W[:, used] = replace(short, components=H[used].astype(encoder.components.dtype)).rows(rows, first=W[:, used])
    lost = had & (W.sum(axis=1) == 0)  # nothing of them is observed: the mean of the others
    if not lost.all():
        W[lost] = W[~lost].mean(axis=0)
    return H, np.asarray(W, dtype=np.float64)


def settled(supports: Supports, W: Array, out_of_time: Callable[[], bool]) -> Array:
    """Drop from contributions W what rows have only because their components are not known exactly.

    The error of a component is no noise of a row: it comes again in every row that has the component, and others are
    bought to mend it. So components may move while more and more are dropped, and stand where they were in the end: a
    second fit would mend common ones further, and lose those that few rows have. A component that no row would have
    stays in the rows that had it at first.
    """
    moving, first, left = supports, W, 0
    for turn in range(TURNS):
        if turn:
            components, W = within_supports(moving.encoder, supports.problem, W)
            encoder = replace(moving.encoder, components=components.astype(supports.encoder.components.dtype))
            moving = replace(moving, encoder=encoder)
        W, left = assigned_in_time(moving, W, out_of_time)
        first = first if turn else W
        if left:
            break
    lost = ~(W > 0).any(axis=0)
    return supports.within(np.where(lost, first, W))


def supports_of(encoder: Encoder, problem: Problem, dense: Array) -> Supports:
    """Find the noise of the fit, and ready what assigns components to rows."""
    given = replace(problem.given, observed=problem.observed)
    grid, omega = facts_of(counted(given)).grid, encoder.objective.omega
    some = some_rows(given.X.shape, 0)
    judged = Judged(KnownNoise(np.ones(1)), 1.0)  # uncertainties are taken as they are
    if not given.known:
        seen = Seen.of(given.rows(some), dense[some], encoder.components)
        judged = noise_of(omega, seen, grid) if seen.x.size else judged  # rows of zeros have no noise, nor components
    return Supports(problem, given, encoder, judged.noise, judged.parameter, grid)


def _loss(model: Parameters, known: bool) -> Any:
    """The one loss that a model names; None where the data choose it."""
    betas = asked_losses(model)
    if isinstance(betas, str) and betas == "auto":
        return Beta(2.0) if known else None
    if as_interval(betas) is not None or len(as_losses(betas)) > 1:
        raise ValueError(
            "assign works under one loss: name one, or betas='auto' (`assign` of a model takes several, in Python)."
        )
    if terms_of(model):
        raise ValueError("assign takes no penalties: leave them out of the model.")
    return as_losses(betas)[0]


def _checked(components: object) -> Vector:
    """Check known components."""
    H = as_components(components, "components")
    if H.min() < 0:
        raise ValueError("components must be nonnegative: they have an entry that is not.")
    if not (H.max(axis=1) > 0).all():
        raise ValueError(f"component {int(np.argmin(H.max(axis=1)))} is all zeros: leave it out.")
    return H
