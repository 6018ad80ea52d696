"""One iteration as a CUDA graph: both steps and both sweeps are launched at once, so that small problems are not bound
by the launches.

A tape is recorded once for a rule, a set of betas and a rank. What changes from iteration to iteration goes in and out
through fixed memory: the blocks, parts and states as one flat buffer, the coefficients and paces of extrapolation as a
few pinned numbers, the losses as another few. The one wait of the iteration is at its end.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from drnmf.data.base import Sweep
from drnmf.numerics import Array
from drnmf.updates import Extrapolated, Momentum, Multiplicative, Parts

if TYPE_CHECKING:
    from drnmf.stepping import Iteration

Tensor = torch.Tensor
_ALIGN = 64  # entries: every field of the flat buffer starts on a boundary that vector loads like
_NAMES = ("A", "B", "N", "P", "last_A", "last_B")


def replay(data: Any, iteration: Iteration) -> Any:
    """(block, sweep, state) of H and of W after one iteration, or None for a rule that has no tape."""
    rule = iteration.rules[0]
    if type(rule) not in (Multiplicative, Extrapolated) or rule.separate:
        return None
    point = iteration.point
    key = (rule, iteration.betas, iteration.early, iteration.look, iteration.floor, point.sweep.N.shape, point.A.shape)
    if key not in data.tapes:
        data.tapes[key] = Tape(data, iteration)
    return data.tapes[key].play(iteration)


class Tape:
    """A recorded iteration and its memory."""

    def __init__(self, data: Any, iteration: Iteration) -> None:
        self.data, self.rule, self.betas = data, iteration.rules[0], iteration.betas
        self.early, self.look, self.floor = iteration.early, iteration.look, iteration.floor
        point, p = iteration.point, len(iteration.betas)
        r, m, n = point.A.shape[0], point.A.shape[1], point.B.shape[1]
        self.extrapolates = isinstance(self.rule, Extrapolated)
        coming = {"A": (r, m), "B": (r, n), "N": point.sweep.N.shape, "P": point.sweep.N.shape}
        states = {"last_A": (r, m), "last_B": (r, n)} if self.extrapolates else {}
        slots = 1 if self.early else p
        going = coming | {"N": (slots, r, n), "P": (slots, r, n)}
        self.coming, self.going = coming | states, going | states
        device, dtype = data.device, data.working
        self.inflow = torch.empty(_length(self.coming), dtype=dtype, device=device)
        self.outflow = torch.empty(_length(self.going), dtype=dtype, device=device)
        self.given: Any = None  # the flat buffer that the loop holds the newest point in
        self.numbers_here = torch.zeros(p + 2, dtype=dtype, pin_memory=True)
        self.losses_here = torch.zeros(2 * p, dtype=torch.float64, pin_memory=True)
        self.numbers_there = torch.zeros(p + 2, dtype=dtype, device=device)
        self.numbers = self.numbers_here.numpy()
        self._fill(iteration)
        aside = torch.cuda.Stream(device)
        aside.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(aside):  # compiles what is not yet compiled: a capture cannot
            for _ in range(2):
                self._iteration()
        torch.cuda.current_stream(device).wait_stream(aside)
        torch.cuda.synchronize(device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._iteration()

    def _iteration(self) -> None:
        """What is recorded: nothing in here may wait for the card or depend on a number of the host."""
        p, data = len(self.betas), self.data
        self.numbers_there.copy_(self.numbers_here, non_blocking=True)
        c, pace_B, pace_A = self.numbers_there[:p], self.numbers_there[p], self.numbers_there[p + 1]
        at = _fields(self.inflow, self.coming)
        B, last_B = self._step(at["B"], at["N"], at["P"], c, at.get("last_B"), pace_B)
        first, N, P = data.T.pass_over(B.T, at["A"], self.betas, c, True, self.look)
        A, last_A = self._step(at["A"], N, P, c, at.get("last_A"), pace_A)
        second, N, P = data.pass_over(A.T, B, self.betas, c if self.early else None, True, True)
        new = {"A": A, "B": B, "N": N, "P": P, "last_A": last_A, "last_B": last_B}
        out = _fields(self.outflow, self.going)
        torch._foreach_copy_(list(out.values()), [new[name] for name in out])
        seen = torch.full_like(second, math.nan) if first is None else first
        self.losses_here.copy_(torch.cat([seen, second]), non_blocking=True)

    def _step(self, F: Any, N: Any, P: Any, c: Any, last: Any, pace: Any) -> tuple[Tensor, Tensor]:
        """The rule's step with its pace on the card; (new block, block before extrapolation)."""
        stepped, _ = Multiplicative().step(F, Parts(N, P, c, self.betas, self.floor), None)
        return (self.rule.push(stepped, last, pace) if self.extrapolates else stepped), stepped  # type: ignore

    def _fill(self, iteration: Iteration) -> None:
        """The iteration's numbers and tensors into fixed memory; one copy where the point came off this tape."""
        point, p = iteration.point, len(self.betas)
        self.numbers[:p] = iteration.coefficients
        given: dict[str, Any] = {"A": point.A, "B": point.B, "N": point.sweep.N, "P": point.sweep.P}
        if self.extrapolates:
            for i, name in enumerate(("last_B", "last_A")):
                given[name] = point.states[i].F
                self.numbers[p + i] = iteration.rules[i].pace(point.states[i])[0]  # type: ignore[attr-defined]
        if self.given is not None and self.coming == self.going and all(F._base is self.given for F in given.values()):
            self.inflow.copy_(self.given)
            return
        to = _fields(self.inflow, self.coming)
        torch._foreach_copy_(list(to.values()), [given[name] for name in to])

    def play(self, iteration: Iteration) -> tuple[tuple[Array, Sweep, Any], tuple[Array, Sweep, Any]]:
        """Run the tape from the iteration's point."""
        self._fill(iteration)
        self.graph.replay()
        self.given = self.outflow.clone()
        at: dict[str, Any] = _fields(self.given, self.going)
        torch.cuda.current_stream(self.data.device).synchronize()
        losses, p = self.losses_here.numpy().copy(), len(self.betas)
        states: list[Any] = [None, None]
        if self.extrapolates:
            for i, name in enumerate(("B", "A")):
                a, nu = self.rule.pace(iteration.point.states[i])  # type: ignore[attr-defined]
                last = at[name] if a == 0.0 else at[f"last_{name}"]  # as the rule itself: one block, not two that agree
                states[i] = Momentum(last, nu, iteration.point.states[i].steps + 1)
        first = Sweep(losses[:p], np.empty(0), np.empty(0))  # the parts of W were used up inside
        second = Sweep(losses[p:], at["N"], at["P"])
        return (at["B"], first, states[0]), (at["A"], second, states[1])


def _length(fields: dict[str, Any]) -> int:
    return sum(-(-math.prod(shape) // _ALIGN) * _ALIGN for shape in fields.values())


def _fields(flat: Tensor, shapes: dict[str, Any]) -> dict[str, Tensor]:
    """Views of a flat buffer."""
    found, start = {}, 0
    for name in _NAMES:
        if name in shapes:
            size = math.prod(shapes[name])
            found[name] = flat[start : start + size].view(shapes[name])
            start += -(-size // _ALIGN) * _ALIGN
    return found
