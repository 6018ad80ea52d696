"""The seam: what a Data object promises, and `wrap`, which chooses one for X.

Everything above this file sees X only through `Data`; layout (dense, sparse, blocks) and device are
the Data object's business alone.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from drnmf.numerics import Array, Vector

if TYPE_CHECKING:
    from drnmf.algorithms.updates.base import Rule

logger = logging.getLogger("drnmf")


@dataclass(frozen=True)
class Sweep:
    """What one pass over X yields at (W, H).

    losses : (p,) float64, D_beta(X, WH) for each beta of Omega; NaN where they were not asked for
    N, P : (q, r, n), the negative and positive parts of the gradient in H, mixed by the rows of `mix`
    Q : (r (r + 1) / 2, n), the curvature of every column, packed (see `Data.sweep`); None where it was not asked for
    gram : (r, r) float64, the part of the curvature that all columns share; None where there is none

    With the curvature of beta = 2 alone Q is None and P has no row: it is gram @ H.
    """

    losses: Vector
    N: Array
    P: Array
    Q: Array | None = None
    gram: Vector | None = None


class Data(Protocol):
    """X in some layout on some device.

    Factors are handed over component-first: H has shape (r, n) and is C-contiguous, W has shape (m, r) and
    is the transpose of a C-contiguous (r, m) array. `T` shares X's memory, and ``data.T.sweep(H.T, W.T, ...)``
    is the sweep that updates W.
    """

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64: the dtype of the factors and of N and P."""
        ...

    @property
    def mean(self) -> float:
        """Mean of all entries of X in float64, unless `wrap` was given another: what floors refer to."""
        ...

    @property
    def zeros(self) -> int:
        """How many entries of X are zero (stored or not)."""
        ...

    @property
    def T(self) -> Data: ...

    def sweep(
        self,
        W: Array,
        H: Array,
        betas: tuple[float, ...],
        mix: Vector,
        losses: bool = True,
        curvature: Vector | None = None,
    ) -> Sweep:
        r"""One pass over X at V = WH.

        .. math:: N_q = \sum_\beta mix_{q\beta} W^T (V^{\beta-2} \circ X), \qquad
                  P_q = \sum_\beta mix_{q\beta} W^T V^{\beta-1}

        mix : (q, p) float64. The identity yields every part on its own, one row yields the weighted sums
            (lambda known), no row (shape (0, p)) the losses alone.
        losses : False skips them (they come back as NaN) where nobody will look.
        curvature : (p,) float64, c_beta. Asks for the expected second derivative in every column of H, the lower
            triangle row by row, k(k+1)/2 + l for l <= k:

            .. math:: Q_{kl,j} = \sum_i W_{ik} W_{il} \sum_\beta c_\beta V_{ij}^{\beta-2}

            The part of beta = 2, c_2 W'W, is the same in every column: it comes as `Sweep.gram`, once, in float64 (r^2
            numbers cost nothing, and the squares of float32's floors are beyond its range), and is not in Q.

        Zeros of X count as `zero` (see `wrap`) when beta = 0 is among the betas. V is kept above
        `numerics.model_floor`, powers below `numerics.power_ceiling`.
        """
        ...

    @property
    def deferred(self) -> bool:
        """Sweeps return before they are done (a GPU, a cluster): nobody looks at a number before `read`."""
        ...

    def read(self, *sweeps: Sweep) -> tuple[Sweep, ...]:
        """The sweeps (of this side or of T) with losses as NumPy vectors: one wait for all of them."""
        ...

    def put(self, F: Array) -> Array:
        """A factor (r, n), in NumPy or already in this Data's own kind, as `sweep` and the rules want it."""
        ...

    def get(self, F: Array) -> Array:
        """A factor (r, n) of this Data's own kind as a NumPy array."""
        ...

    def lift(self, rule: Rule) -> Rule:
        """The rule as a factor (r, n) of this Data's own kind needs it."""
        ...

    def total(self, function: Callable[..., Vector], F: Array, sweep: Sweep | None = None) -> Vector:
        """sum of function(F) or function(F, N, P) over the pieces in which a factor (r, n) and its parts are held."""
        ...

    def column(self, j: int) -> Vector:
        """Column j of X, dense float64 (for initialisation)."""
        ...

    def dot(self, B: Array) -> Array:
        """X @ B for a dense (n, k) array B of the same dtype (for initialisation)."""
        ...

    def squared_norms(self) -> Vector:
        """Squared Euclidean norm of every column of X, (n,) float64 (for initialisation)."""
        ...


class OnHost:
    """What every Data does whose factors are NumPy arrays and whose sweeps are done when they return."""

    deferred = False

    def read(self, *sweeps: Sweep) -> tuple[Sweep, ...]:
        return sweeps

    def put(self, F: Array) -> Array:
        return np.ascontiguousarray(F)

    def get(self, F: Array) -> Array:
        return F

    def lift(self, rule: Rule) -> Rule:
        return rule

    def total(self, function: Callable[..., Vector], F: Array, sweep: Sweep | None = None) -> Vector:
        return function(F) if sweep is None else function(F, sweep.N, sweep.P)


def identity(p: int) -> Vector:
    """The mix that keeps every part on its own."""
    return np.eye(p)


def no_parts(p: int) -> Vector:
    """The mix that asks for losses alone."""
    return np.empty((0, p))


def losses_of(data: Data, W: Array, H: Array, betas: tuple[float, ...]) -> Vector:
    """D_beta(X, WH) for every beta."""
    A, B = data.T.put(W.T), data.put(H)
    return data.read(data.sweep(A.T, B, betas, no_parts(len(betas))))[0].losses


def _reference(X: Any, mean: float | None) -> Data:
    from scipy.sparse import issparse

    from drnmf.backends.host.reference import ReferenceDense, ReferenceSparse

    return ReferenceSparse.of(X, mean) if issparse(X) else ReferenceDense.of(X, mean)


def _native(X: Any, mean: float | None) -> Data:
    from scipy.sparse import issparse

    from drnmf.backends.host.native import NativeDense, NativeSparse

    return NativeSparse.of(X, mean) if issparse(X) else NativeDense.of(X, mean)


BACKENDS: dict[str, Callable[[Any, float | None], Data]] = {"numpy": _reference, "native": _native}
"""Backend name -> constructor."""


@cache
def default_backend() -> str:
    """The compiled core where it was built, else NumPy; said once in the log when it is NumPy.

    >>> default_backend() in BACKENDS
    True
    """
    try:
        import drnmf._core  # noqa: F401
    except ImportError as error:
        logger.warning("The compiled core is not available (%s): NumPy is used, which is slower.", error)
        return "numpy"
    return "native"


def native_core() -> Any:
    """The compiled core where it is built and in use, else None."""
    if (os.environ.get("DRNMF_BACKEND") or default_backend()) != "native":
        return None
    from drnmf import _core

    return _core


def is_dask(X: Any) -> bool:
    """Is X a Dask array? Asked without importing Dask."""
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "chunks")


def wrap(X: Any, backend: str | None = None, mean: float | None = None) -> Data:
    """Put X (validated: float32 or float64, nonnegative, finite) behind the seam, without a copy if possible.

    A Dask array is validated here, block by block.

    backend : "numpy" (the oracle) or "native" (the compiled core); None takes the environment variable
        DRNMF_BACKEND, else the compiled core where it was built, else NumPy.
    mean : the scale that floors refer to, where it is not X's own (new rows under an old model).
    """
    if is_dask(X):
        from drnmf.backends.dask.arrays import blocks_of

        return cast(Data, blocks_of(X, mean))  # factors of another kind; its blocks are wrapped in turn, where they are
    name = backend or os.environ.get("DRNMF_BACKEND") or default_backend()
    if name not in BACKENDS:
        raise ValueError(f"backend {name!r} is not known: use one of {sorted(BACKENDS)}.")
    return BACKENDS[name](X, mean)
