"""Iterations as a replayed CUDA graph: both steps and both sweeps are launched at once, so that small problems are not
bound by the launches.

A tape is recorded once for a rule, a set of betas and a rank. All that changes from iteration to iteration lives on the
card: blocks, parts and states in one flat buffer, lambda, the paces of extrapolation. Where lambda moves by a policy
that the card can follow, the tape runs several iterations ahead without being read; the loop then takes them one by
one, each time with its own lambda and its own checks. A point or a lambda that is not the one foreseen ends the run
ahead, and the tape starts again from there: the loop never sees an iteration that it would not have made itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from drnmf.algorithms.updates.base import Extrapolated, Momentum, Multiplicative, Parts
from drnmf.algorithms.updates.newton import Newton
from drnmf.algorithms.weights import Fixed, FrankWolfe
from drnmf.backends.base import Sweep

if TYPE_CHECKING:
    from drnmf.algorithms.iteration import Iteration

Tensor: TypeAlias = torch.Tensor
LONGEST = 32  # iterations run ahead
SMALL = 1 << 24  # entries of X beyond which an iteration takes long enough by itself
_ALIGN = 64  # entries: every field of a flat buffer starts on a boundary that vector loads like
_NAMES = ("A", "B", "N", "P", "last_A", "last_B")


def replay(data: Any, iteration: Iteration) -> Any:
    """(block, sweep, state) of H and of W after one iteration, or None for a rule that has no tape."""
    rule, point = _plain(iteration.rules[0]), iteration.point
    slots = 1 if iteration.early else len(iteration.objective.betas)
    if type(rule) not in (Multiplicative, Extrapolated) or rule.separate or point.sweep.N.shape[0] != slots:
        return None
    moving = iteration.forecast is not None and isinstance(iteration.forecast[0], FrankWolfe)
    key = (
        rule, iteration.objective.betas, iteration.objective.references.tobytes(), slots, iteration.look,
        iteration.floor, point.A.shape, moving,
    )  # fmt: skip
    if key not in data.tapes:
        data.tapes[key] = Tape(data, iteration, moving)
    return data.tapes[key].play(iteration)


def _plain(rule: Any) -> Any:
    """The rule of an iteration without curvature."""
    return rule.first if isinstance(rule, Newton) else rule


class Tape:
    """A recorded iteration, its memory, and the iterations that were run ahead.

    moving : lambda takes Frank-Wolfe steps on the card; else it stands
    """

    def __init__(self, data: Any, iteration: Iteration, moving: bool) -> None:
        self.data, self.rule, self.moving = data, _plain(iteration.rules[0]), moving
        self.betas, self.floor = iteration.objective.betas, iteration.floor
        self.early, self.look = iteration.early, iteration.look
        self.extrapolates = isinstance(self.rule, Extrapolated)
        point, p = iteration.point, len(self.betas)
        self.shapes: dict[str, Any] = {
            "A": point.A.shape, "B": point.B.shape, "N": point.sweep.N.shape, "P": point.sweep.N.shape,
        }  # fmt: skip
        if self.extrapolates:
            self.shapes |= {"last_A": point.A.shape, "last_B": point.B.shape}
        device, dtype, size = data.device, data.working, _length(self.shapes)
        self.longest = LONGEST if data.X.numel() <= SMALL else 1
        self.flow = torch.zeros(size, dtype=dtype, device=device)
        self.history = torch.empty((self.longest, size), dtype=dtype, device=device)
        # a row of numbers: losses after H, losses after W, lambda for the next iteration
        self.rows = torch.zeros((self.longest, 3 * p), dtype=torch.float64, device=device)
        self.rows_here = torch.zeros((self.longest, 3 * p), dtype=torch.float64, pin_memory=True)
        self.lambda_ = torch.zeros(p, dtype=torch.float64, device=device)
        self.inverse = torch.zeros(p, dtype=torch.float64, device=device)
        self.paces = torch.zeros((self.longest, 3), dtype=torch.float64, device=device)  # of H, of W, of lambda
        self.row = torch.zeros(1, dtype=torch.int64, device=device)
        self.places = torch.arange(p, device=device)
        self.length, self.taken, self.count = 1, 0, 0
        self.found: list[dict[str, Tensor]] = []
        self._load(iteration)
        aside = torch.cuda.Stream(device)
        aside.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(aside):  # compiles what is not yet compiled: a capture cannot
            for _ in range(2):
                self.row.zero_()
                self._iteration()
        torch.cuda.current_stream(device).wait_stream(aside)
        torch.cuda.synchronize(device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._iteration()

    def _iteration(self) -> None:
        """What is recorded: nothing in here may wait for the card or depend on a number of the host."""
        data = self.data
        c = (self.lambda_ * self.inverse).to(data.working)
        pace = self.paces.index_select(0, self.row)[0]
        at = _fields(self.flow, self.shapes)
        B, last_B = self._step(at["B"], at["N"], at["P"], c, at.get("last_B"), pace[0])
        first, N, P = data.T.pass_over(B.T, at["A"], self.betas, c, True, self.look)
        A, last_A = self._step(at["A"], N, P, c, at.get("last_A"), pace[1])
        second, N, P = data.pass_over(A.T, B, self.betas, c if self.early else None, True, True)
        new = {"A": A, "B": B, "N": N, "P": P, "last_A": last_A, "last_B": last_B}
        torch._foreach_copy_(list(at.values()), [new[name] for name in at])
        self.history.index_copy_(0, self.row, self.flow[None])
        if self.moving:
            worst = (self.places == (second * self.inverse).argmax()).double()
            self.lambda_ += pace[2] * (worst - self.lambda_)
        seen = torch.full_like(second, math.nan) if first is None else first
        self.rows.index_copy_(0, self.row, torch.cat([seen, second, self.lambda_])[None])
        self.row += 1

    def _step(self, F: Any, N: Any, P: Any, c: Any, last: Any, pace: Any) -> tuple[Tensor, Tensor]:
        """The rule's step with its pace on the card; (new block, block before extrapolation)."""
        stepped: Any = Multiplicative().step(F, Parts(N, P, c, self.betas, self.floor), None)[0]
        return (self.rule.push(stepped, last, pace) if self.extrapolates else stepped), stepped

    def play(self, iteration: Iteration) -> Any:
        """The iteration from the row that foresaw it, or from a new run of the tape."""
        if not self._foreseen(iteration):
            self.length = 1 if self.taken < self.count else min(2 * self.length, self.longest)
            self._load(iteration)
            self._run(self._reach(iteration))
        at, numbers = self.found[self.taken], self.numbers[self.taken]
        self.taken += 1
        self.point, self.expected = at, numbers[-len(self.betas) :]
        return self._answer(iteration, at, numbers)

    def _reach(self, iteration: Iteration) -> int:
        """How many iterations to run at once."""
        known = iteration.forecast is not None and isinstance(iteration.forecast[0], Fixed | FrankWolfe)
        return self.length if known else 1

    def _foreseen(self, iteration: Iteration) -> bool:
        """Whether the next row on the card begins at this very point with this lambda and this pace."""
        if not 0 < self.taken < self.count or iteration.point.A is not self.point["A"]:
            return False
        away = max(abs(a - b) for a, b in zip(iteration.weights.tolist(), self.expected.tolist(), strict=True))
        if iteration.point.B is not self.point["B"] or away > 1e-9:
            return False
        return (
            not self.extrapolates or self._paces(iteration, 1)[0, :2].tolist() == self.planned[self.taken, :2].tolist()
        )

    def _paces(self, iteration: Iteration, count: int) -> Any:
        """a_k of H and of W and the step of lambda for the next iterations, if none of them is taken back."""
        paces = np.zeros((count, 3))
        if self.moving and iteration.forecast is not None:
            policy, k = iteration.forecast
            paces[:, 2] = policy.a / (k + np.arange(count) + policy.a)  # type: ignore[attr-defined]
        if self.extrapolates:
            for side, state in enumerate(iteration.point.states):
                for i in range(count):
                    paces[i, side], nu = self.rule.pace(state)
                    state = Momentum(state.F, nu, state.steps + 1)
        return paces

    def _load(self, iteration: Iteration) -> None:
        """The iteration's point and numbers onto the card; lambda / e times a power of two that no step feels."""
        point, objective, device = iteration.point, iteration.objective, self.data.device
        given: dict[str, Any] = {"A": point.A, "B": point.B, "N": point.sweep.N, "P": point.sweep.P}
        if self.extrapolates:
            given |= {"last_B": point.states[0].F, "last_A": point.states[1].F}
        to = _fields(self.flow, self.shapes)
        torch._foreach_copy_(list(to.values()), [given[name] for name in to])
        shift = objective.coefficients(iteration.weights) @ objective.references / iteration.weights.sum()
        self.planned = np.zeros((self.longest, 3))
        ahead = self._paces(iteration, self._reach(iteration))
        self.planned[: len(ahead)] = ahead
        numbers = np.concatenate([iteration.weights, shift / objective.references, self.planned.ravel()])
        sent = torch.from_numpy(numbers).pin_memory().to(device, non_blocking=True)
        p = len(self.betas)
        self.lambda_.copy_(sent[:p])
        self.inverse.copy_(sent[p : 2 * p])
        self.paces.copy_(sent[2 * p :].view(-1, 3))
        self.row.zero_()

    def _run(self, count: int) -> None:
        """Iterations one after another, read together: the one wait."""
        for _ in range(count):
            self.graph.replay()
        kept = self.history[:count].clone()
        self.rows_here.copy_(self.rows, non_blocking=True)
        self.found = [_fields(row, self.shapes) for row in kept.unbind()]
        torch.cuda.current_stream(self.data.device).synchronize()
        self.numbers = self.rows_here.numpy().copy()
        self.count, self.taken = count, 0

    def _answer(self, iteration: Iteration, at: dict[str, Any], numbers: Any) -> Any:
        """What the loop asked for, with the states that the rule itself would have left."""
        p, states = len(self.betas), list[Any]([None, None])
        if self.extrapolates:
            for i, name in enumerate(("B", "A")):
                before = iteration.point.states[i]
                a, nu = self.rule.pace(before)
                last = at[name] if a == 0.0 else at[f"last_{name}"]  # as the rule: one block, not two that agree
                states[i] = Momentum(last, nu, before.steps + 1)
        first = Sweep(numbers[:p], np.empty(0), np.empty(0))  # the parts of W were used up inside
        second = Sweep(numbers[p : 2 * p], at["N"], at["P"])
        return (at["B"], first, states[0]), (at["A"], second, states[1])


def _length(shapes: dict[str, Any]) -> int:
    return sum(-(-math.prod(shape) // _ALIGN) * _ALIGN for shape in shapes.values())


def _fields(flat: Tensor, shapes: dict[str, Any]) -> dict[str, Tensor]:
    """Views of a flat buffer."""
    found, start = {}, 0
    for name in _NAMES:
        if name in shapes:
            size = math.prod(shapes[name])
            found[name] = flat[start : start + size].view(shapes[name])
            start += -(-size // _ALIGN) * _ALIGN
    return found
