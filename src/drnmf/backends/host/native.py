"""The compiled extension as a backend: one fused pass over X, dense or sparse, on all threads.

The number of threads never changes a result. It starts from OMP_NUM_THREADS, else from the CPUs this process may use;
``threadpoolctl.threadpool_limits(1)`` and joblib's workers lower it like any other pool's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

import numpy as np
import threadpoolctl

from drnmf import _core
from drnmf.backends.base import Ask, Descending, Sweep, check_shapes, zero_of
from drnmf.backends.host.dense import DenseMatrix, mean_of, moments
from drnmf.backends.host.sparse import SparseMatrix
from drnmf.backends.observed import Pieces, pieces
from drnmf.backends.tiles import sweep_tiles
from drnmf.losses.base import Loss, Omega, need_nonzeros_only
from drnmf.losses.beta import Beta
from drnmf.losses.negative_binomial import NegativeBinomial
from drnmf.numerics import SAFE_SQUARES, VANISHED, Array, Precision, Vector, identity_limit, model_floor, power_ceiling


class DrnmfController(threadpoolctl.LibController):  # type: ignore[misc]
    """What threadpoolctl needs to see the core among the loaded libraries."""

    user_api = "drnmf"
    internal_api = "drnmf"
    filename_prefixes = ("_core",)
    check_symbols = ("drnmf_get_num_threads", "drnmf_set_num_threads")

    def get_num_threads(self) -> int:
        return int(self.dynlib.drnmf_get_num_threads())

    def set_num_threads(self, num_threads: int) -> None:
        self.dynlib.drnmf_set_num_threads(num_threads)

    def get_version(self) -> None:
        return None

    def set_additional_attributes(self) -> None:
        self.instruction_set = _core.instruction_set()


threadpoolctl.register(DrnmfController)


KERNELS: dict[type, tuple[int, Callable[[object], float]]] = {
    Beta: (0, attrgetter("beta")),
    NegativeBinomial: (1, attrgetter("a")),
}
"""Loss -> id of its family in the compiled extension (`Family` of kernels.hpp) and its parameter."""


def takes(ask: Ask) -> bool:
    """Tell whether the compiled extension can answer; the tiles of NumPy answer what it declines."""
    known = ask.observed is None or pieces(ask.observed) is not None
    return known and all(type(loss) in KERNELS for loss in ask.omega)


def _weights(ask: Ask, dtype: Precision, stored: Array | None = None) -> _core.Observed | None:
    """The weights of the entries in the words of the compiled extension; None where there are none."""
    if ask.observed is None:
        return None
    parts = pieces(ask.observed)
    assert parts is not None
    values = None if parts.values is None else np.asarray(parts.values, dtype)
    rows, columns = (None if one is None else np.ascontiguousarray(one, dtype) for one in (parts.rows, parts.columns))
    mask = parts.mask
    if mask is None:
        return _core.Observed(values, stored, rows, columns, None, None, 0, 0, False)
    codes = mask.rows.astype(np.uint32), mask.columns.astype(np.uint32)
    return _core.Observed(values, stored, rows, columns, *codes, 0, mask.classes, mask.inverted)


def _kernel(loss: Loss) -> tuple[int, float]:
    """The loss in the words of the compiled extension."""
    family, parameter = KERNELS[type(loss)]
    return family, parameter(loss)


def _native_ask(data: NativeDense | NativeSparse, ask: Ask, scale: float) -> _core.Ask:
    """The question in the words of the compiled extension, which multiplies dense X by the scale."""
    # one loss is as good alone as weighted: the parts then come without a product by the weight
    weights = ask.weights if len(ask.omega) > 1 else None
    vectors = (() if vector is None else tuple(vector.tolist()) for vector in (weights, ask.curvature))
    numbers = scale, zero_of(data, ask.omega), data.squared_norm, data.dtype.char
    return _question(ask.omega, ask.parts is not None, ask.losses, numbers, *vectors)


@lru_cache(maxsize=64)
def _question(
    omega: Omega,
    parts: bool,
    losses: bool,
    numbers: tuple[float, float, float, str],
    weights: tuple[float, ...],
    curvature: tuple[float, ...],
) -> Any:
    """The same from numbers alone. A run asks the same few questions thousands of times, and making one takes as long
    as the answer of a small X."""
    scale, zero, squared_norm, dtype = numbers
    return _core.Ask(
        omega=[_kernel(loss) for loss in omega],
        weights=weights,
        parts=parts,
        losses=losses,
        scale=scale,
        zero=zero,
        floor=model_floor(dtype),
        ceiling=power_ceiling(dtype),
        squared_norm=squared_norm,
        identity_limit=identity_limit(dtype),
        curvature=curvature,
    )


def _room(into: Sweep | None, name: str, shape: tuple[int, ...], dtype: Precision) -> Array:
    """An array to write to: that of an earlier answer where it fits."""
    old: Array | None = getattr(into, name, None)
    return old if old is not None and old.shape == shape and old.dtype == dtype else np.empty(shape, dtype)


def _spare(ask: Ask, W: Array) -> Array | None:
    """Memory of the size of W that a sweep may work in, where an answer is of no more use."""
    old = None if ask.used is None else ask.used.N
    return old if old is not None and old.size == W.size and old.dtype == W.dtype else None


class _Pass(NamedTuple):
    """One pass of the compiled extension over X: the factors, the question in its words, and what it fills."""

    left: Array
    right: Array
    ask: _core.Ask
    N: Array
    P: Array
    Q: Array
    gram: Vector
    losses: Vector

    @classmethod
    def of(
        cls, data: NativeDense | NativeSparse, W: Array, H: Array, ask: Ask, scale: float = 1.0, parts: int = 1
    ) -> _Pass:
        """Make the arguments ready, and allocate the outputs, for each of several parts of the rows."""
        check_shapes(data.shape, W, H, ask)
        (_, n), r, dtype = data.shape, H.shape[0], data.dtype
        slots, shared = ask.slots * parts, ask.shared is not None
        known = not ask.positive and ask.observed is None and need_nonzeros_only(ask.omega) and ask.weights is None
        N = _room(ask.into, "N", (slots, r, n), dtype)
        P = _room(ask.into, "P", (0 if known or ask.shared_alone else slots, r, n), dtype)
        Q = _room(ask.into, "Q", (0 if ask.shared_alone or ask.curvature is None else r * (r + 1) // 2, n), dtype)
        gram = np.empty((parts * r, r) if shared else (0, 0))
        losses = np.array([np.nan] * len(ask.omega))
        left, right = np.ascontiguousarray(W.T, dtype), np.ascontiguousarray(H, dtype)
        return cls(left, right, _native_ask(data, ask, scale), N, P, Q, gram, losses)

    def answer(self, ask: Ask) -> Sweep:
        """Return what was filled, by the weight of the only loss where it has one."""
        N, P = self.N, self.P
        if ask.weights is not None and len(ask.omega) == 1 and ask.weights[0] != 1.0:
            with np.errstate(over="ignore"):  # a step too far: its losses are not finite, and it is taken back
                N *= N.dtype.type(ask.weights[0])
                P *= P.dtype.type(ask.weights[0])
        return Sweep(self.losses, N, P, self.Q if len(self.Q) else None, self.gram if len(self.gram) else None)


@dataclass(frozen=True)
class Descent:
    """Whole iterations of coordinate descent under beta = 2 alone, one call each (`_core.Descent`).

    A small X is swept in a few microseconds, and four calls with their questions would take ten times that.
    """

    core: _core.Descent  # holds the blocks, their last points and the arrays of the sweeps, and writes over all of them
    at: Sweep  # the sweep for H, whose arrays those of every further one are
    losses: Vector  # where the loss of an iteration is written

    def iterate(self, passes: int, momenta: Sequence[float]) -> Sweep:
        """Step H and W, each by so many passes and extrapolated, and sweep for H."""
        self.core.iterate(passes, *momenta)
        return Sweep(self.losses.copy(), self.at.N, self.at.P, None, self.at.gram)


def _descent(data: Any, start: Descending) -> Descent:
    """Make the arguments of whole iterations ready: the questions are those of `iteration.Task.ask`."""
    at, losses = start.sweep, np.empty(1)
    H = _block_of_descent(data, start, 0, at)
    W = _block_of_descent(data.T, start, 1, _room_for(start.blocks[1]))
    return Descent(_core.Descent(H, W, losses, data.memory, VANISHED**2), at, losses)


def _block_of_descent(data: Any, start: Descending, block: int, at: Sweep) -> _core.BlockOfDescent:
    """One block, its question and where the answers go; the loss is asked for with the last answer alone."""
    F, c = start.blocks[block], np.array([start.coefficient])
    ask = _native_ask(data, Ask(start.omega, c, block == 0, c), data.scale_as_read)
    Q, last, floor = np.empty((0, F.shape[1]), F.dtype), start.lasts[block], start.floors[block]
    return _core.BlockOfDescent(data.arrays, F, last, ask, at.N, at.P, Q, at.gram, floor, start.coefficient)


def _room_for(F: Array) -> Sweep:
    """Arrays for the parts of a block under beta = 2 alone."""
    r, n = F.shape
    return Sweep(np.empty(1), np.empty((1, r, n), F.dtype), np.empty((0, r, n), F.dtype), None, np.empty((r, r)))


@dataclass(frozen=True)
class NativeDense(DenseMatrix):
    """Dense X in any order under the compiled extension."""

    squared_norm: float = 0.0
    memory: _core.Workspace = field(default_factory=_core.Workspace, compare=False, repr=False)

    @classmethod
    def of(cls, X: Array, mean: float | None = None) -> NativeDense:
        total, squared_norm, zeros, missing = np.nan, 0.0, 0, 0
        if 1 in X.shape or X.itemsize in X.strides:
            total, squared_norm, zeros = _core.moments(X, 1.0)
        if not np.isfinite(total):  # gaps, or neither axis of X is contiguous
            total, squared_norm, zeros, missing = moments(X)
        own = mean_of(X, total, missing) if mean is None else mean
        return cls(X, own, int(zeros), missing, squared_norm=squared_norm)

    def scaled(self, factor: float) -> NativeDense:
        found = super().scaled(factor)
        return replace(found, squared_norm=self._squared_norm(factor))

    def _squared_norm(self, factor: float) -> float:
        """||X||^2 after a scaling: from that before it, or by another pass where the squares had left float64."""
        if 1.0 / SAFE_SQUARES < self.squared_norm < SAFE_SQUARES:
            return self.squared_norm * factor * factor
        if self.missing or not (1 in self.shape or self.X.itemsize in self.X.strides):
            return moments(self.X, self.scale * factor)[1]
        return _core.moments(self.X, self.scale * factor)[1]

    def sweep(self, W: Array, H: Array, ask: Ask) -> Sweep:
        ask = self.asked(ask)
        if not takes(ask):
            return sweep_tiles(self, W, H, ask)
        made = _Pass.of(self, W, H, ask, self.scale)
        if not ask.empty:
            _core.sweep_dense(self.X, *made, self.memory, _weights(ask, self.dtype), _spare(ask, W))
        return made.answer(ask)

    def takes(self, loss: Loss) -> bool:
        """Tell whether `sweep_parts` answers for a loss."""
        return type(loss) in KERNELS

    def sweep_parts(
        self, W: Array, H: Array, ask: Ask, bounds: Sequence[int], across: bool, coefficients: Vector, norms: Vector
    ) -> Sweep:
        """Sweep parts that are side by side, each of which answers for itself, in one pass: one loss, no weights.

        Part k is of rows (columns where `across`) bounds[k] to bounds[k + 1], with a coefficient in the curvature and a
        squared norm. Losses are (p,), N and P of parts of rows (p, r, n), gram (p, r, r), and Q of all.
        """
        p, of_rows = len(norms), 1 if across else len(norms)
        made = _Pass.of(self, W, H, ask, self.scale, of_rows)._replace(losses=np.full(p, np.nan))
        _core.sweep_parts(self.X, *made, self.memory, bounds, across, coefficients.tolist(), norms.tolist())
        found = made.answer(ask)
        if found.gram is None or across:
            return found
        return replace(found, gram=found.gram.reshape(p, *found.gram.shape[1:] * 2))

    @property
    def arrays(self) -> list[Array]:
        """X in the words of the compiled extension."""
        return [self.X]

    @property
    def scale_as_read(self) -> float:
        """What the compiled extension multiplies entries by."""
        return self.scale

    def descent(self, start: Descending) -> Descent | None:
        return None if self.missing else _descent(self, start)


@dataclass(frozen=True)
class NativeSparse(SparseMatrix):
    """Sparse X by columns and by rows, both built once.

    Losses that need only the non-zeros cost O(nnz r); any other runs over dense tiles filled inside the extension.
    """

    memory: _core.Workspace = field(default_factory=_core.Workspace, compare=False, repr=False)

    scale_as_read: ClassVar[float] = 1.0  # the values are multiplied already

    @property
    def arrays(self) -> list[Array]:
        """X in the words of the compiled extension."""
        return [self.by_column.data, self.by_column.indptr, self.by_column.indices]

    def descent(self, start: Descending) -> Descent | None:
        return None if self.only is not None else _descent(self, start)

    def sweep_all(self, W: Array, H: Array, ask: Ask) -> Sweep:
        if not takes(ask):
            return super().sweep_all(W, H, ask)
        return self._pass(W, H, ask, spare=_spare(ask, W))

    def sweep_dense(self, W: Array, H: Array, ask: Ask) -> Sweep:
        if not takes(ask):
            return super().sweep_dense(W, H, ask)
        return self._pass(W, H, ask, _weights(ask, self.dtype))

    def sweep_stored(self, W: Array, H: Array, ask: Ask, parts: Pieces) -> Sweep:
        if not takes(ask):
            return super().sweep_stored(W, H, ask, parts)
        weights = _weights(ask, self.dtype, None if self.only is None else self.only.by_column)
        return self._pass(W, H, ask, weights, stored=True)

    def _pass(
        self,
        W: Array,
        H: Array,
        ask: Ask,
        weights: _core.Observed | None = None,
        spare: Array | None = None,
        stored: bool = False,
    ) -> Sweep:
        made, X, (m, n) = _Pass.of(self, W, H, ask), self.by_column, self.shape
        if not ask.empty:
            _core.sweep_sparse(X.data, X.indptr, X.indices, m, n, *made, self.memory, weights, spare, stored)
        return made.answer(ask)
