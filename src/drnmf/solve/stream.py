r"""Rows that keep coming: one H that follows them, batch after batch, without a second look at the rows before.

A batch X_t of rows leaves behind what it says of H: with W_t found under the present h_t, the coefficients of a bound
of its losses in h. For a loss with the exponents a and b (`Loss.exponents`) these are

.. math:: B_t = P_t h_t^{-a}, \quad A_t = N_t h_t^{b}, \qquad \text{slope} = \sum_\beta c_\beta [B h^a - A h^{-b}]

which, unlike N and P, are still a bound when h has moved on. For beta = 2 alone they are W'W and W'X, which say
everything; under beta < 1, of few components, the quadratic model (Q_t and Q_t h_t - g_t) takes their place, which is
sharper. Sums are means over rows in which the old fade.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from drnmf.algorithms.correlation import row_sums
from drnmf.algorithms.initialize import Start
from drnmf.algorithms.loop import Control, solve
from drnmf.algorithms.result import Result
from drnmf.algorithms.updates import as_rule
from drnmf.algorithms.updates.roots import NO_SLOTS, joined_slots, positive_root, total
from drnmf.algorithms.updates.steps import packed, packed_product, quadratic_step, shared_step
from drnmf.algorithms.weights import Fixed, Policy
from drnmf.backends.base import Ask, Data, losses_of
from drnmf.backends.open import opened_beside
from drnmf.backends.weighted import taken_apart
from drnmf.losses.base import Loss, Omega, is_frobenius
from drnmf.losses.beta import Beta
from drnmf.numerics import (
    LARGEST_KEPT,
    NEWTON_PASSES,
    NEWTON_RANK,
    Array,
    Indices,
    Vector,
    beside,
    factor_floor,
    namespace,
)
from drnmf.objective.objective import Objective, complementarity_gap
from drnmf.objective.penalty import NONE, Bound, Penalties, per_component
from drnmf.objective.simplex import vertex
from drnmf.problem.device import as_numpy
from drnmf.problem.problem import point_of
from drnmf.solve.encode import Encoding, level_of
from drnmf.solve.heavy import Heavy, gathered

FADE, BOUNDS_FADE = 0.7, 0.4
"""Batch number t has a share of t^-FADE in quadratic models and of t^-BOUNDS_FADE in bounds and in means of losses.
With 1 all would count alike, and what the first say, made at a poor H, would hold it back, bounds more than models."""

FIRST_FIT, FIRST_TOLERANCE = 100, 1e-4
"""Most iterations of the fit of the first batch, and when it stops."""

FIRST_STEPS, FIRST_SHARED = 10, 5
"""Steps of H for the first batch, and where all columns share a model: number t, in rows like its
own, has these over t, and at least one."""

PASSES = 2
"""Passes of coordinate descent where all columns share a model: it is exact, and every batch begins at the last."""

MOSTLY = 0.5
"""Where more of the entries than this are zero, rows have no use for the curvature of losses that bend by x."""

ROUNDS, ROUNDS_OF_SEVERAL = 3, 6
"""Sweeps of `Encoding` where H follows bounds. With more of them runs follow each half-problem to its end, and end
higher; but losses that are compared with one another have to be those of a W that is all but found, which of rows that
come again it is already."""

STEPS_AGAIN, FURTHEST = 2, 2.0
"""Steps of a bound for W of rows that come again, and the largest change of an entry that is taken further (`_beyond`).
As good as the three sweeps of `Encoding`: its third only tells whether a step was too long."""

SPREAD_AGAIN = 8
"""Of rows that come again every batch of so many has its columns spread (`_spread`). An entry of H that is all but zero
grows by a few per cent with every batch, and would take a thousand of them; but to spread is a pass over H."""

KEPT = 0.05
"""Least part of an even spread over the components that the projection of a row leaves."""

UNLIKELY = 3.0
"""A batch whose loss is this many times the usual, from where its W was before, begins anew: H has moved on."""

NO_BOUND = Bound()
"""That of no penalty."""

NARROW = 0.1
"""Least part of an entry that a step of a quadratic model leaves, and inverse of what it makes of the largest."""


Rows = tuple[Any, ...]
"""W' (r, rows) of a batch under every H that follows the stream, that of the fit first; None where it is not known."""


@dataclass(frozen=True)
class Sums:
    """What the rows so far say of H under one loss, per row."""

    falling: Any  # A (r, n), or Q h - g of the quadratic model
    rising: Any = None  # B (r, n), or (r, 1) where all columns are alike; None in the quadratic model
    # Q, gram: its curvature of every column, packed, and the part that all share (`Sweep`); None where there is none
    Q: Any = None
    gram: Any = None

    def rising_at(self, H: Any) -> Any:
        """Return B, with what the shared curvature is bounded by at H."""
        if self.gram is None:
            return self.rising
        bound = (namespace(H).asarray(beside(self.gram, H), dtype=H.dtype) @ H) / H
        return bound if self.rising is None else self.rising + bound

    def plus(self, other: Sums) -> Sums:
        """Add other sums; what one of the two does not have is what the other has."""
        return self.map(lambda a, b: b if a is None else a if b is None else a + b, other)

    def take_in(self, other: Sums) -> Sums:
        """Add other sums in place, where these have the memory."""
        return self.map(lambda a, b: b if a is None else a if b is None else _added(a, b), other)

    def times(self, factor: float) -> Sums:
        """Multiply every part."""
        return self.map(lambda part: None if part is None else part * factor)

    def placed(self, H: Any) -> Sums:
        """Put what has columns where H is; the Gram matrix stays on the host."""
        falling, rising, Q = (None if part is None else beside(part, H) for part in (self.falling, self.rising, self.Q))
        return Sums(falling, rising, Q, self.gram)

    def map(self, function: Callable[..., Any], *others: Sums) -> Sums:
        """Apply a function to every part."""
        return Sums(*map(function, *((one.falling, one.rising, one.Q, one.gram) for one in (self, *others))))


def solved(sums: tuple[Sums, ...], H: Array, omega: Omega, c: Vector, floor: float, added: Bound = NO_BOUND) -> Array:
    """Find the H that the sums ask for under the weighted losses and the penalties of its entries, from H."""
    used = [(loss, float(weight), one) for loss, weight, one in zip(omega, c, sums, strict=True) if weight > 0]
    if all(one.rising is None for _, _, one in used):
        return _model_minimum([(weight, one) for _, weight, one in used], H, floor, added)
    if len(used) > 1 or added is not NO_BOUND:  # the weight of one loss by itself says nothing
        used = [(loss, weight, one.times(weight)) for loss, weight, one in used]
    for _ in range(NEWTON_PASSES if any(one.gram is not None for _, _, one in used) else 1):
        H = _bound_minimum([(loss, one) for loss, _, one in used], H, floor, added)
    return H


def _bound_minimum(terms: list[tuple[Loss, Sums]], H: Any, floor: float, added: Bound) -> Any:
    """The minimum of bounds at H of weighted losses and of a penalty."""
    slots = [({loss.exponents[0]: one.rising_at(H)}, {loss.exponents[1]: one.falling}) for loss, one in terms]
    rising, falling = reduce(joined_slots, [*slots, (_powers(added, H), {})], NO_SLOTS)
    xp = namespace(H)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        root = positive_root(rising, falling, H)
        if not (bool((total(rising) > 0).all()) and bool(xp.amax(root) < np.inf)):
            root = xp.where((total(rising) > 0) & (root < np.inf), root, H)
    return xp.clip(root, floor, None, out=root)


def _powers(added: Bound, H: Array) -> dict[float, Array]:
    """The slope of a penalty of single entries: what stands before the powers of h."""
    powers = {} if added.linear is None else {0.0: added.linear}
    return powers if added.curvature is None else powers | {1.0: per_component(added.curvature.diagonal(), H)}


def _model_minimum(terms: list[tuple[float, Sums]], H: Array, floor: float, added: Bound) -> Array:
    """The minimum of a weighted sum of quadratic models and of a penalty, by coordinate descent from H."""
    target = reduce(add, (one.falling if weight == 1.0 else weight * one.falling for weight, one in terms))
    target = target if added.linear is None else target - added.linear
    shared = [weight * one.gram for weight, one in terms if one.gram is not None]
    shared += [] if added.curvature is None else [beside(added.curvature, H)]
    own = [weight * one.Q for weight, one in terms if one.Q is not None]
    gram = reduce(add, shared) if shared else None
    if not own:
        assert gram is not None
        return shared_step(H, target, gram, floor, PASSES)
    Q = reduce(add, own)
    Q = Q if gram is None else Q + packed(gram, Q)
    stepped = quadratic_step(H, target, packed_product(Q, H), Q, floor, NEWTON_PASSES, 1.0)
    xp = namespace(H)
    return xp.clip(stepped, NARROW * H, xp.amax(H, axis=0) / NARROW)


@dataclass(frozen=True)
class Follower:
    """One H that follows the rows."""

    H: Any  # (r, n)
    curved: bool  # whether columns have quadratic models of their own
    sums: tuple[Sums, ...] = ()  # what the rows said of H under each loss
    heavy: Heavy = field(default_factory=Heavy)  # rows that count by themselves in them, under beta = 2 alone
    # what stands beside them for the rows that H was made of, until as many have come; None where there is none
    start: Sums | None = None


@dataclass(frozen=True)
class StreamState:
    """Where a stream stands: all that the next batch needs of those before. In the unit of the stream."""

    # scale, mean: what X is multiplied by, and its mean in the unit of the caller: those of the first batch, for good
    scale: float
    mean: float
    followers: tuple[Follower, ...]  # the H of the fit, then one for each loss alone where references are to be found
    # weights, policy: lambda, and the state of what moves it
    weights: Vector
    policy: Policy
    # losses, references: (p,) D_beta of the fit and e_beta, per row, means in which the old fade
    losses: Vector
    references: Vector
    mean_row: Vector  # (r,) the same of W
    scatter: Vector  # (p, p) the variance of the scaled losses as such means
    settled: Vector  # (2, p) means as losses and references, of batches once H has seen them; () of one loss
    # rows, batches: how many there were
    rows: int = 0
    batches: int = 0
    spread: float = 1.0  # the sum of the squares of the shares that the batches have in them
    latest: Vector = field(default_factory=lambda: np.empty(0))  # (p,) D_beta of the last batch, per row
    made_of: int = 0  # how many rows the start was made of, and counts for; none where that is any start

    @property
    def scaled_losses(self) -> Vector:
        """D_beta / e_beta of the recent rows."""
        return self.losses / self.references

    def certificate(self) -> tuple[float, float]:
        """Return max Dbar - lambda'Dbar of recent rows, before H saw them, and its standard error.

        That is the scatter over batches, and by how much the gap is another once H has seen them: what the model says
        of rows lies between the two.
        """
        scaled = self.scaled_losses
        gap = complementarity_gap(self.weights, scaled)
        if len(scaled) == 1:
            return gap, 0.0
        if self.spread == 1.0:
            return gap, float("nan")
        along = vertex(len(scaled), int(np.argmax(scaled))) - self.weights
        scatter = float(along @ self.scatter @ along) / (1.0 - self.spread)
        apart = gap - complementarity_gap(self.weights, self.settled[0] / self.settled[1])
        return gap, float(np.hypot(np.sqrt(max(scatter, 0.0)), apart))


def with_component(state: StreamState, h: Array) -> StreamState:
    """Return a state whose every H has one component more, of which the rows so far had nothing."""

    def padded(part: Array | None, rows: int) -> Any:
        if part is None:
            return None
        return np.concatenate([part, np.zeros((rows, part.shape[1]), part.dtype)])

    def wider(part: Sums) -> Sums:
        r = part.falling.shape[0]
        gram = None if part.gram is None else np.pad(part.gram, (0, 1))
        return Sums(padded(part.falling, 1), padded(part.rising, 1), padded(part.Q, r + 1), gram)

    def longer(one: Follower) -> Follower:
        H = np.concatenate([one.H, h[None].astype(one.H.dtype)])
        start = None if one.start is None else wider(one.start)
        return Follower(H, one.curved, tuple(map(wider, one.sums)), one.heavy.longer(), start)

    followers = tuple(map(longer, state.followers))
    return replace(state, followers=followers, mean_row=np.append(state.mean_row, 0.0))


def begin(
    data: Data, H: Array, policy: Policy, omega: Omega, references: Vector | None, gram: Any = None, rows: int = 0
) -> StreamState:
    """Start a stream at H; references that are None are found beside the fit, by one H for each loss.

    `gram` and `rows` are W'W of all rows over their number, and that, where H was made of them: it counts as if they
    had been seen and asked for it, until they have come. Under beta = 2 alone, and where a batch has fewer rows than
    columns and says little of most; others leave a start with the first batch.
    """
    r, p = H.shape[0], len(omega)
    each = [] if references is not None else [(loss,) for loss in omega]
    weights, state = policy.init(p)
    zeros, known = np.zeros(p), gram is not None and is_frobenius(omega) and data.shape[0] < data.shape[1]
    first = Sums((gram @ H).astype(H.dtype), None, None, gram) if known else None
    return StreamState(
        data.scale,
        data.mean / data.scale,
        tuple(Follower(H, _curved(data, some, r), start=first) for some in (omega, *each)),
        weights,
        state,
        zeros,
        np.ones(p) if references is None else references,
        np.zeros(r),
        np.zeros((p, p)),
        np.zeros((2, p)) if p > 1 else np.empty(0),
        made_of=rows if known else 0,
    )


def fitted(
    data: Data, start: Start, policy: Policy, omega: Omega, references: Vector | None, penalties: Penalties
) -> Start:
    """Fit the first batch as a whole, and return (W, H).

    A fit goes ahead of its steps, and so past where plain ones would stay for long; the sums of later batches cannot.
    """
    rule, control, (W, H) = as_rule("auto"), Control(FIRST_FIT, FIRST_TOLERANCE), start

    def run(some: Omega, over: Vector, how: Policy) -> Result:
        return solve(data, W, H, Objective(some, over, data.mean, penalties), rule, how, control)

    if references is None:
        references = _positive(np.array([run((loss,), np.ones(1), Fixed()).losses[0] for loss in omega]))
    return point_of(run(omega, references, policy))


@dataclass(frozen=True)
class Batch:
    """Rows of X, and how much they count."""

    data: Data  # X in the unit of the stream
    omega: Omega  # the losses in that unit
    share: float  # in the means, of one
    steps: int  # of every H
    curved: bool  # whether columns have quadratic models of their own
    spread: float = 0.0  # part of what columns have that every component gets
    first: Any = None  # W' (r, rows) to start from, None where the rows are new
    penalties: Penalties = NONE  # of single entries of W and H, for each row
    heavy: Meeting | None = None  # rows of it and of those before that count by themselves


@dataclass(frozen=True)
class Meeting:
    """The heaviest rows so far, as a batch is taken into account."""

    rows: Heavy  # they, with W' as it is in the sums
    data: Data  # the same behind a backend
    were: Vector  # (k,) by how much they count there
    at: Indices  # (k,) where each is in the batch, -1 where it is not
    own: Vector  # (k,) by how much the batch has them in the sums

    def first(self, A: Any) -> Array:
        """Return where the search for W' begins, that of the batch being known."""
        return np.where(self.at >= 0, as_numpy(A)[:, self.at], self.rows.A)

    def replaced(self, sums: Sums, A: Any, B: Array, H: Any, omega: Omega) -> Sums:
        """Return sums in which W' = B takes the place of that of before, and of that of the batch."""
        B = as_numpy(B)  # a handful of rows: their sums are made on the host
        parts = [(B, self.rows.shares), (self.rows.A, -self.were), (as_numpy(A)[:, self.at], -self.own)]
        weighted = [part.astype(np.float64) * shares for part, shares in parts]
        one, side = np.ones(1), self.data.T.space.put(reduce(add, weighted).astype(B.dtype))
        N = self.data.sweep(side.T, H, Ask(omega, one, False, one)).N[0]
        N += sums.falling  # in place, as in `_sums_of`
        gram = reduce(add, (part @ plain.T for part, (plain, _) in zip(weighted, parts, strict=True)))
        return replace(sums, falling=N, gram=sums.gram + gram)


def share_of(rows: int, seen: int, forget: float | None, fade: float = FADE) -> float:
    """Compute the share of a batch in the means, `seen` rows after it; rows fade by one half over `forget` more.

    >>> share_of(100, 100, None), round(share_of(100, 10000, 100.0), 3)
    (1.0, 0.5)
    """
    share = (rows / seen) ** fade
    return share if forget is None else max(share, 1.0 - 0.5 ** (rows / forget))


def advance(
    state: StreamState,
    data: Data,
    omega: Omega,
    policy: Policy,
    forget: float | None = None,
    warm: Rows = (),
    penalties: Penalties = NONE,
) -> tuple[StreamState, Rows]:
    """Take a batch of rows, in the unit of the stream, into account.

    `forget` is the half-life of rows, None where they fade as slowly as they may; `warm` is where W of the rows was
    found when they came before, as far as that is known, and comes back for when they come again; penalties are of
    single entries (`L1`, `L2`), in the setting of one row.
    """
    rows = data.shape[0]
    seen = state.rows + rows
    fit, *alone = state.followers
    share = share_of(rows, seen, forget, BOUNDS_FADE) if state.batches else 1.0
    first, *others = (*warm, *(None,) * len(state.followers))[: len(state.followers)]
    meeting = partial(_met, data=data, state=state, forget=forget, again=bool(warm))
    references, own = state.references, None
    if alone:
        found = [
            _followed(one, meeting(one, (loss,), first=A), np.ones(1), np.ones(1), usual)
            for one, loss, A, usual in zip(alone, omega, others, _usual(state, state.references), strict=True)
        ]
        alone, others = [one for one, _, _ in found], [A for _, _, A in found]
        own = np.concatenate([losses for _, losses, _ in found])
        _check_range(state, own)
        references = _faded(state.references, _positive(own), share)
    batch = meeting(fit, omega, first=first, penalties=penalties)
    fit, losses, A = _followed(fit, batch, references, state.weights, _usual(state, state.losses))
    mean = _faded(state.losses, losses, share)
    _check_range(state, mean, fit.H)
    weights, policy_state, scatter, settled = state.weights, state.policy, state.scatter, state.settled
    if len(omega) > 1:
        beside = (losses - (mean if own is None else mean / references * own)) / references
        scatter = (1.0 - share) ** 2 * scatter + share**2 * np.outer(beside, beside)
        weights, policy_state = policy.step(weights, mean / references, policy_state)
        after = [_losses_of(data, one.H, W, (loss,)) for one, W, loss in zip(alone, others, omega, strict=False)]
        known = np.concatenate(after) if after else references
        settled = _faded(settled, np.stack([_losses_of(data, fit.H, A, omega), _positive(known)]), share)
    W_mean = data.T.space.sum(row_sums, data.T.space.put(A)) / rows
    if seen >= state.made_of:
        fit = replace(fit, start=None)
    return StreamState(
        state.scale,
        state.mean,
        (fit, *alone),
        weights,
        policy_state,
        mean,
        references,
        _faded(state.mean_row, W_mean, share),
        scatter,
        settled,
        seen,
        state.batches + 1,
        (1.0 - share) ** 2 * state.spread + share**2 if state.batches else 1.0,
        losses,
        state.made_of,
    ), (A, *others)


def _check_range(state: StreamState, *found: Any) -> None:
    """Refuse rows whose losses, or the H that they lead to, are not finite."""
    if not all(bool(namespace(values).isfinite(values).all()) for values in found):
        raise ValueError(
            "The losses of these rows leave the range of float64 in the unit of the stream, the mean of its first "
            f"batch ({state.mean:.3g}): leave them out, or begin a stream with rows of this size."
        )


def _met(
    one: Follower, omega: Omega, data: Data, state: StreamState, forget: float | None, again: bool, **given: Any
) -> Batch:
    """The batch as one H meets it."""
    rows, r = data.shape[0], one.H.shape[0]
    seen = state.rows + rows + (state.made_of if one.start is not None else 0)
    share = share_of(rows, seen, forget, FADE if one.curved else BOUNDS_FADE) if seen > rows else 1.0
    spread = 0.0 if one.curved or (again and state.batches % SPREAD_AGAIN) else r / (r + seen)
    alone = is_frobenius(omega) and len(state.weights) == 1  # losses that are compared are of models that forget alike
    heavy = _meeting(one, data, share, share_of(rows, seen, forget, 1.0)) if alone else None
    steps = FIRST_SHARED if is_frobenius(omega) else FIRST_STEPS
    return Batch(data, omega, share, max(1, steps // (seen // rows)), one.curved, spread, heavy=heavy, **given)


def _meeting(one: Follower, data: Data, share: float, unfaded: float) -> Meeting | None:
    """The heaviest rows of a batch and of those before; None where there are none."""
    rows, were = replace(one.heavy, shares=(1.0 - unfaded) * one.heavy.shares), one.heavy.shares
    at, weights = np.full(len(were), -1), np.ones(1)
    apart = taken_apart(data) if _rows_alone(data) is not None else None
    if apart is not None:  # others stay with their batch: W of a row depends on what its entries weigh
        plain, weights = apart[0], np.atleast_1d(apart[1])  # that all columns have alike is not in the sums of beta = 2
        rows, were, at = gathered(one.heavy, plain, weights, unfaded, one.H.shape[0])
    if not rows.rows:
        return None
    own = np.where(at >= 0, share / data.shape[0] * np.broadcast_to(weights, data.shape[:1])[at], 0.0)
    opened = opened_beside(data, rows.matrix(data.shape[1]), data.mean)
    return Meeting(rows, opened, (1.0 - share) * were, at, own)


def _losses_of(data: Data, H: Array, A: Any, omega: Omega) -> Vector:
    """D_beta per row, of W' (r, rows)."""
    return losses_of(data, data.T.space.put(A).T, data.space.put(H), omega) / data.shape[0]


def _usual(state: StreamState, losses: Vector) -> Vector:
    return losses if state.batches else np.full(len(losses), np.inf)


def _faded(old: Vector, new: Vector, share: float) -> Vector:
    return (1.0 - share) * old + share * new if share < 1.0 else new


def _positive(losses: Vector) -> Vector:
    """Losses as references: an exact fit has none, and divides by what is all but nothing."""
    return np.maximum(losses, np.finfo(np.float64).tiny)


def _encoded(batch: Batch, H: Array, objective: Objective, weights: Vector, A: Array | None) -> Array:
    """W' (r, rows) under H: steps from A, or from a projection of the rows, made as those of H are."""
    data, omega = batch.data, batch.omega
    side, c, alone = data.T, objective.coefficients(weights), is_frobenius(omega)
    curved = batch.curved or (H.shape[0] <= NEWTON_RANK and data.zeros <= MOSTLY * data.count)
    again = A is not None and batch.first is not None and len(omega) == 1 and not curved
    if A is None and side.space.whole and not alone:
        A = _projected(data, as_numpy(H), omega, c)
    if A is None or alone or not ((batch.curved or again) and side.space.whole):
        rounds = 1 if alone else ROUNDS if len(omega) == 1 or batch.first is not None else ROUNDS_OF_SEVERAL
        return Encoding(H, objective, weights, rounds, 0.0, False, A, curved).of(data).T
    floor = factor_floor(data.mean, H.shape[0])
    A = side.space.put(A)
    if again:
        A = namespace(A).clip(A, floor, None)  # the end of `Encoding` has zeros, which no bound leaves
    for _ in range(1 if batch.curved else STEPS_AGAIN):
        sums, _ = _sums_of(replace(batch, data=side), H, A, 1.0, False)
        stepped = solved(sums, A, omega, c, floor, _penalty_of("W", A, side, objective, weights))
        A = side.space.put(stepped if batch.curved else _beyond(A, stepped, sums[0].rising))
    return A


def _beyond(A: Array, stepped: Array, rising: Array) -> Array:
    """Go on from A past the minimum of a bound, 1.75 times as far in logarithms, with the sum of a row as it is there.

    A bound goes a part of the way to the end, between none and all of it: so up to twice its step comes nearer too. But
    it knows that sum, and far from where it was made it is no guide to more.
    """
    xp = namespace(A)
    moved = xp.clip(stepped / A, 1.0 / FURTHEST, FURTHEST)
    further = stepped * (moved * moved**0.5) ** 0.5
    whole, now = (rising * stepped).sum(0), (rising * further).sum(0)
    return further * xp.where(now > 0, whole / now, 1.0)  # a row of which nothing is observed has neither


def _projected(data: Data, H: Any, omega: Omega, c: Vector) -> Any:
    """W' (r, rows) as if every row had the curvature of the mean component: one product with X, and coordinate descent.

    Rows are spread over all components alike where the descent begins; what it takes from one is never all of it, for
    the steps that follow multiply. What a row weighs says nothing of its W; None where its entries differ in that.
    """
    if (apart := taken_apart(data)) is None:
        return None
    plain, _, columns = apart
    mean = (H / H.sum(axis=1, keepdims=True)).mean(axis=0)
    bend = sum(weight * loss.curvature(mean, mean) for weight, loss in zip(c, omega, strict=True) if weight > 0)
    bent = (H * (bend * columns)).astype(H.dtype)
    even = np.repeat(level_of(data, H.T, data.mean).astype(H.dtype)[None], H.shape[0], axis=0)
    side, one = plain.T, np.ones(1)
    product = side.sweep(side.space.put(bent).T, side.space.put(even), Ask((Beta(2.0),), one, False, one))
    gram = bent.astype(np.float64) @ H.T.astype(np.float64)
    return np.maximum(shared_step(even, as_numpy(product.N[0]), gram, 0.0, NEWTON_PASSES), KEPT * even)


def _followed(
    one: Follower, batch: Batch, references: Vector, weights: Vector, usual: Vector
) -> tuple[Follower, Vector, Any]:
    """Move one H by a batch, of which the losses per row are usually so large; those found are of H before it."""
    data, omega = batch.data, batch.omega
    objective = Objective(omega, references, data.mean, batch.penalties)
    c, floor = objective.coefficients(weights), factor_floor(data.mean, one.H.shape[0])
    H, sums, A, B = data.space.put(one.H), one.sums, batch.first, None
    losses, per, met = np.full(len(omega), np.nan), data.shape[0] / batch.share, batch.heavy
    old = tuple(part.times(1.0 - batch.share).placed(H) for part in one.sums)
    start = None if one.start is None else one.start.times(1.0 - batch.share)
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(batch.steps):
            A = _encoded(batch, H, objective, weights, A)
            measured = k == 0 if one.sums else k == batch.steps - 1  # before H has seen these rows, but for the first
            sums, now = _sums_of(batch, A, H, per, measured)
            losses = now if measured else losses
            if measured and batch.first is not None and bool((losses > UNLIKELY * data.shape[0] * usual).any()):
                A = _encoded(batch, H, objective, weights, None)
                sums, losses = _sums_of(batch, A, H, per, True)
            if batch.spread > 0.0:
                known = None if batch.first is None or not old else H
                sums = tuple(
                    part if part.gram is not None else _spread(part, batch.spread, loss, known)
                    for part, loss in zip(sums, omega, strict=True)
                )
            if old:
                sums = tuple(now.take_in(before) for now, before in zip(sums, old, strict=True))
            if met is not None:
                B = met.first(A) if B is None else B
                B = Encoding(H, objective, weights, 1, 0.0, False, B, True).of(met.data).T
                sums = (met.replaced(sums[0], A, B, H, omega),)
            added = _penalty_of("H", H, data, objective, weights)
            beside = sums if start is None else (sums[0].plus(start.placed(H)),)
            H = data.space.put(solved(beside, H, omega, c, floor, added))
    kept = tuple(part.map(as_numpy) for part in sums)  # the state lives on the host
    heavy = Heavy() if met is None else replace(met.rows, A=as_numpy(B))
    return Follower(as_numpy(H), one.curved, kept, heavy, start), losses / data.shape[0], A


def _penalty_of(side: str, F: Array, data: Data, objective: Objective, weights: Vector) -> Bound:
    """The bound of the penalties of one factor, whose columns are those of the data."""
    if not objective.penalties:
        return NO_BOUND
    block = "HW".index(side)
    measures = objective.penalties.measure(data.space, F, block)
    tilt = objective.penalties.of(block, (measures, measures), objective.factor(weights))
    return NO_BOUND if tilt is None else tilt.bound(F)


def _sums_of(batch: Batch, A: Array, H: Array, per: float, losses: bool) -> tuple[tuple[Sums, ...], Vector]:
    """What a batch says of H under each loss, divided by a number, and its losses where they are asked for."""
    data, omega = batch.data, batch.omega
    if batch.curved:
        found = [_curved_sums(data, A, H, loss, per, losses) for loss in omega]
        return tuple(sums for sums, _ in found), np.concatenate([values for _, values in found])
    rows = _rows_alone(data)
    plain = isinstance(rows, float)  # what W alone says is then left out of the sweep: arrays as large as H
    sweep = data.space.read(data.sweep(A.T, H, Ask(omega, losses=losses, positive=not plain)))[0]
    sums = []
    for k, (loss, N) in enumerate(zip(omega, sweep.N, strict=True)):
        a, b = loss.exponents
        if loss.free_part == "gram" and rows is not None:  # which say everything, wherever h goes
            heavy = A if plain else A * beside(rows, A)
            sums.append(Sums(N / per, None, None, as_numpy(heavy @ A.T).astype(np.float64) / per))
            continue
        alike = loss.free_part == "sums" and rows is not None
        N *= 1.0 / per  # in place: at many columns a stream is what it does to arrays as large as H
        if b == 1.0:
            N *= H
        else:
            N = _times_power(N, H, b)
        if alike and plain:
            P = namespace(A).asarray(beside(row_sums(A), A), dtype=A.dtype)[:, None]
        else:
            P = sweep.P[k][:, :1] if alike else sweep.P[k]
        sums.append(Sums(N, _times_power(P / per, H, -a)))
    return tuple(sums), sweep.losses


def _rows_alone(data: Data) -> Any:
    """What the rows weigh, where all columns weigh alike: 1.0 where there are no weights, None elsewhere."""
    apart = taken_apart(data)
    if apart is None:
        return None
    _, rows, columns = apart
    return rows * float(np.max(columns)) if np.min(columns) == np.max(columns) else None


def _curved_sums(data: Data, A: Array, H: Array, loss: Loss, per: float, losses: bool) -> tuple[Sums, Vector]:
    """The quadratic model of a batch under one loss, of which Q h is P, so that Q h - g is N."""
    one = np.ones(1)
    sweep = data.space.read(data.sweep(A.T, H, Ask((loss,), one, losses, one)))[0]
    if sweep.Q is None:
        N = sweep.N[0]
        N /= per
        return Sums(N, None, None, as_numpy(sweep.gram) / per), sweep.losses
    return Sums(sweep.N[0] / per, None, sweep.Q / per), sweep.losses


def _spread(sums: Sums, part: float, loss: Loss, known: Any = None) -> Sums:
    """Give every component a part of what the columns have, whatever it had of them in these rows.

    As if there had been one row more for each component, like the mean of all. What few rows say of a rare column is
    that some components have nothing of it, and a step that multiplies would not leave such a zero again for long.
    Where the rows came before, and so H is `known` to them, only entries that they ask for more of get a part.
    """
    A = sums.falling
    total = float(A.sum())
    if total == 0.0:  # rows of zeros: nothing to spread
        return sums
    even = A.sum(1)[:, None] * (A.sum(0) / total)[None]
    mixed = (1.0 - part) * A + part * even
    if known is None:
        return replace(sums, falling=mixed)
    a, b = loss.exponents
    return replace(sums, falling=namespace(A).where(_times_power(sums.rising, known, a + b) < A, mixed, A))


def _added(part: Any, other: Any) -> Any:
    """Add to an array in place; where columns are not alike in one of the two, the sum is larger than the other."""
    if part.shape != other.shape:
        return part + other
    part += other
    return part


def _times_power(part: Any, H: Array, power: float) -> Any:
    return part if power == 0.0 else part * H if power == 1.0 else part * H**power


def _curved(data: Data, omega: Omega, rank: int) -> bool:
    """Whether every column has a quadratic model of its own, and for beta = 2 alone all share one.

    A loss that bends by what x is, alone or beside others, is better off with bounds. How X is stored has no say in it,
    for batches may differ in that.
    """
    if is_frobenius(omega):
        return True
    few = rank <= NEWTON_RANK and len(omega) * rank * (rank + 1) // 2 * data.shape[1] <= LARGEST_KEPT
    return few and not any(1.0 <= loss.beta < 2.0 for loss in omega) and all(loss.homogeneous for loss in omega)
