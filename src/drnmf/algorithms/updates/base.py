"""Update rules: one step of one block, given the parts of its gradient.

Only the update of H is written: the solver hands W over as its transpose. A rule is three pure functions,

    init(F) -> state
    step(F, parts, state) -> F, state
    retry(F, tried, attempt, state) -> F, state     after a step that raised the objective
    restart(state) -> state                         after an iteration that raised what is minimised

and five facts about itself: `separate` (it wants every N_beta and P_beta on its own, not their weighted sum),
`certain(betas)` (its steps cannot raise the objective, so nobody needs to look), `best` (the run returns the best
point met, not the last), `chooses` (it finds lambda together with its step, in its state; the maximum is watched) and
`curves(step, rank)` (step number `step`, from 0, wants the curvature of the columns beside the parts).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from drnmf.backends.base import native_core
from drnmf.numerics import Array, Vector, is_float32, namespace


@dataclass(frozen=True)
class Parts:
    """The gradient of one block, split as P - N.

    N, P : (q, r, n); q = 1 holds the weighted sums, q = |Omega| the parts of every beta
    coefficients : (p,) c_beta = lambda_beta / e_beta up to a common factor
    betas : Omega
    floor : smallest entry the new block may have
    scaled_losses, references : (p,) Dbar_beta at the point and e_beta, for rules that choose lambda themselves
    Q : (r (r + 1) / 2, n) curvature of every column under the lambda of the sweep, for rules that ask for it
    gram : (r, r) the part of it that all columns share (see `Sweep`)
    """

    N: Array
    P: Array
    coefficients: Vector
    betas: tuple[float, ...]
    floor: float
    scaled_losses: Vector | None = None
    references: Vector | None = None
    Q: Array | None = None
    gram: Vector | None = None

    def weighted(self) -> tuple[Array, Array]:
        """sum_b c_b N_b and sum_b c_b P_b."""
        if self.N.shape[0] == 1:  # a common factor in both is no matter
            return self.N[0], self.P[0]
        return _weigh(self.coefficients, self.N), _weigh(self.coefficients, self.P)


def _weigh(coefficients: Vector, stack: Array) -> Array:
    """sum_b c_b stack_b, in the dtype of the stack (coefficients that live on a device are not waited for)."""
    numbers = [float(c) for c in coefficients] if isinstance(coefficients, np.ndarray) else coefficients
    total = stack[0] * numbers[0]
    for c, part in zip(numbers[1:], stack[1:], strict=True):
        total += part * c
    return total


def multiplicative_step(F: Array, parts: Parts) -> Array:
    """max(F * (sum c_b N_b) / (sum c_b P_b), floor), entry by entry.

    >>> F, ones = np.full((1, 1), 2.0), np.ones((1, 1, 1))
    >>> multiplicative_step(F, Parts(3 * ones, 2 * ones, np.ones(1), (2.0,), 0.0))
    array([[3.]])
    """
    core = native_core() if isinstance(F, np.ndarray) and F.dtype == parts.N.dtype else None
    if core is None:
        return _ratio_step(F, parts)
    out, single = np.empty(F.shape, F.dtype), parts.N.shape[0] == 1
    coefficients = [1.0] if single else [float(c) for c in parts.coefficients]
    N, P = np.ascontiguousarray(parts.N), np.ascontiguousarray(parts.P)
    core.multiplicative_step(np.ascontiguousarray(F), N, P, coefficients, parts.floor, out)
    return out


def _ratio_step(F: Array, parts: Parts) -> Array:
    """The same in the array library of F: the reference of the compiled step."""
    N, P = parts.weighted()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        stepped: Array = namespace(F).clip(F * usable(N / P, P), parts.floor, None)
    return stepped


def usable(ratio: Array, P: Array) -> Array:
    """Replace ratios without a meaning by one, so that their entries stay.

    Powers of a small V underflow in float32: where P is zero the parts say nothing about the entry. A NaN of the parts
    themselves stays one.

    >>> usable(np.array([2.0, np.inf, np.nan]), np.array([1.0, 1.0, 0.0]))
    array([2., 1., 1.])
    """
    xp = namespace(ratio)
    return xp.where((P == 0) | (ratio == math.inf), 1.0, ratio)


class Rule(Protocol):
    """What the solver asks of an update rule."""

    @property
    def separate(self) -> bool: ...

    @property
    def best(self) -> bool: ...

    @property
    def chooses(self) -> bool: ...

    def curves(self, step: int, rank: int) -> bool: ...

    def certain(self, betas: tuple[float, ...]) -> bool: ...

    def init(self, F: Array) -> Any: ...

    def step(self, F: Array, parts: Parts, state: Any) -> tuple[Array, Any]: ...

    def retry(self, F: Array, tried: Array, attempt: int, state: Any) -> tuple[Array, Any]: ...

    def restart(self, state: Any) -> Any: ...


def _halve(F: Array, tried: Array) -> Array:
    """Half-way back from a rejected block: (1-g) F + g F+ with g = 1/2, 1/4, ... one call after another."""
    return 0.5 * (F + tried)


@dataclass(frozen=True)
class Multiplicative:
    """Algorithm 1: H+ = H * (sum c_b N_b) / (sum c_b P_b), halved towards H while the objective rises.

    >>> F, ones = np.full((1, 1), 2.0), np.ones((1, 1, 1))
    >>> Multiplicative().step(F, Parts(3 * ones, 2 * ones, np.ones(1), (2.0,), 0.0), None)[0]
    array([[3.]])
    """

    separate: bool = False
    best: bool = False
    chooses: bool = False

    def certain(self, betas: tuple[float, ...]) -> bool:
        return len(betas) == 1 and 1.0 <= betas[0] <= 2.0

    def curves(self, step: int, rank: int) -> bool:
        return False

    def init(self, F: Array) -> None:
        return None

    def step(self, F: Array, parts: Parts, state: None) -> tuple[Array, None]:
        return multiplicative_step(F, parts), None

    def retry(self, F: Array, tried: Array, attempt: int, state: None) -> tuple[Array, None]:
        return _halve(F, tried), None

    def restart(self, state: None) -> None:
        return None


@dataclass(frozen=True)
class Monotone:
    r"""The exact majorise-minimise step: t = h/h~ solves, entry by entry, the increasing equation

    .. math:: \sum_\beta c_\beta [P_\beta t^{\max(\beta,1)-1} - N_\beta t^{\min(\beta,2)-2}] = 0

    (the stationarity of the separable convex majoriser of section 3.1's objectives), so the weighted
    objective never rises and no line search is needed.
    """

    separate: bool = True
    best: bool = True
    chooses: bool = False

    def certain(self, betas: tuple[float, ...]) -> bool:
        return True

    def curves(self, step: int, rank: int) -> bool:
        return False

    def init(self, F: Array) -> None:
        return None

    def step(self, F: Array, parts: Parts, state: None) -> tuple[Array, None]:
        xp = namespace(F)
        return xp.clip(F * majoriser_root(parts), parts.floor, None), None

    def retry(self, F: Array, tried: Array, attempt: int, state: None) -> tuple[Array, None]:
        return _halve(F, tried), None

    def restart(self, state: None) -> None:
        return None


@dataclass(frozen=True)
class Momentum:
    """State of `Extrapolated`: the last block before extrapolation, nu of Nesterov's sequence, steps taken."""

    F: Array
    nu: float
    steps: int = 0


@dataclass(frozen=True)
class Extrapolated:
    """Multiplicative steps from extrapolated points (Hien, Leplat and Gillis 2024).

    F_k = F^ * (sum c_b N_b) / (sum c_b P_b) at the extrapolated point F^, then F^ = F_k + a_k max(F_k - F_(k-1), 0)
    with nu_k = (1 + sqrt(1 + 4 nu_(k-1)^2)) / 2 and a_k = (nu_(k-1) - 1) / nu_k. Sweeps stand at the extrapolated
    points, which are feasible. A point that raised the objective is replaced by F_k alone and nu is halved; an
    iteration that raised what is minimised well above the best restarts the sequence.

    geometric : extrapolate by F^ = F_k max(F_k / F_(k-1), 1)^a_k, at most tenfold, instead
    delay : plain steps taken first. Which local minimum a run ends in is decided early; with a delay the run follows
        the paper's algorithm while that happens.
    """

    geometric: bool = False
    delay: int = 0
    separate: bool = False
    best: bool = True
    chooses: bool = False

    def certain(self, betas: tuple[float, ...]) -> bool:
        return False

    def curves(self, step: int, rank: int) -> bool:
        return False

    def init(self, F: Array) -> Momentum:
        return Momentum(F, 1.0)

    def step(self, F: Array, parts: Parts, state: Momentum) -> tuple[Array, Momentum]:
        stepped = multiplicative_step(F, parts)
        a, nu = self.pace(state)
        further = stepped if a == 0.0 else self.push(stepped, state.F, a)
        return further, Momentum(stepped, nu, state.steps + 1)

    def pace(self, state: Momentum) -> tuple[float, float]:
        """(a_k, nu_k) of the step that begins at `state`."""
        if state.steps < self.delay:
            return 0.0, 1.0
        nu = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * state.nu**2))
        return (state.nu - 1.0) / nu, nu

    def push(self, stepped: Array, last: Array, a: Any) -> Array:
        """The extrapolated point; a = 0 leaves it at F_k."""
        xp = namespace(stepped)
        if self.geometric:
            return stepped * xp.clip(stepped / last, 1.0, 10.0) ** a
        further = stepped - last  # in place from here on: W may be large
        xp.clip(further, 0.0, None, out=further)
        further *= a
        further += stepped
        return further

    def retry(self, F: Array, tried: Array, attempt: int, state: Momentum) -> tuple[Array, Momentum]:
        if attempt == 1 and tried is not state.F:
            return state.F, replace(state, nu=max(1.0, 0.5 * state.nu))
        halved = _halve(F, tried)
        return halved, replace(state, F=halved, nu=1.0)

    def restart(self, state: Momentum) -> Momentum:
        return replace(state, nu=1.0)


def exponents(beta: float) -> tuple[float, float]:
    """(a, b) with the majoriser's derivative P t^a - N t^-b: a = max(beta,1) - 1, b = 2 - min(beta,2).

    >>> exponents(0.0), exponents(3.0)
    ((0.0, 2.0), (2.0, 0.0))
    """
    return max(beta, 1.0) - 1.0, 2.0 - min(beta, 2.0)


def majoriser_root(parts: Parts) -> Array:
    """Find the positive root t of the majoriser's derivative, entry by entry; one where there is no finite root."""
    used = [b for b, c in enumerate(parts.coefficients) if c > 0]
    betas = tuple(parts.betas[b] for b in used)
    N = {parts.betas[b]: float(parts.coefficients[b]) * parts.N[b] for b in used}
    P = {parts.betas[b]: float(parts.coefficients[b]) * parts.P[b] for b in used}
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return usable(_root(betas, N, P), sum(P.values()))


def _root(betas: tuple[float, ...], N: dict[float, Array], P: dict[float, Array]) -> Array:
    """The root in closed form where there is one, else by Newton steps."""
    xp: Any = namespace(N[betas[0]])
    if len(betas) == 1:
        a, b = exponents(betas[0])
        ratio = N[betas[0]] / P[betas[0]]
        return ratio if a + b == 1.0 else ratio ** (1.0 / (a + b))
    if set(betas) == {0.0, 1.0}:  # (P0 + P1) t^2 - N1 t - N0 = 0
        A, B, C = P[0.0] + P[1.0], N[1.0], N[0.0]
        return (B + xp.sqrt(B * B + 4.0 * A * C)) / (2.0 * A)
    if set(betas) == {1.0, 2.0}:  # P2 t^2 + (P1 - N2) t - N1 = 0, without cancellation for either sign
        A2, B1, C1 = P[2.0], P[1.0] - N[2.0], N[1.0]
        root = xp.sqrt(B1 * B1 + 4.0 * A2 * C1)
        return xp.where(B1 > 0, 2.0 * C1 / xp.where(B1 > 0, B1 + root, 1.0), (root - B1) / (2.0 * A2))
    return _newton_root(betas, N, P)


_NEWTON_STEPS = 40


def _newton_root(betas: tuple[float, ...], N: dict[float, Array], P: dict[float, Array]) -> Array:
    """Newton in s = log t on g(s) = log sum P e^(a s) - log sum N e^(-b s), which is increasing.

    Its slope stays between fixed bounds and the step is cut at 2, so that the iteration cannot run away;
    a bracket kept from the signs of g catches the rest.
    """
    xp = namespace(next(iter(N.values())))
    s = xp.zeros_like(next(iter(N.values())))
    low, high = s - 700.0, s + 700.0
    if is_float32(s):
        low, high = s - 80.0, s + 80.0
    for _ in range(_NEWTON_STEPS):
        up = down = up_slope = down_slope = 0.0
        for beta in betas:
            a, b = exponents(beta)
            rising, falling = P[beta] * xp.exp(a * s), N[beta] * xp.exp(-b * s)
            up, up_slope = up + rising, up_slope + a * rising
            down, down_slope = down + falling, down_slope + b * falling
        g = xp.log(up) - xp.log(down)
        low, high = xp.where(g < 0, s, low), xp.where(g > 0, s, high)
        newton = s - xp.clip(g / (up_slope / up + down_slope / down), -2.0, 2.0)
        inside = (newton >= low) & (newton <= high)
        following = xp.where(inside, newton, 0.5 * (low + high))
        if bool((abs(following - s) <= 1e-14).all()):
            break
        s = following
    return xp.exp(s)
