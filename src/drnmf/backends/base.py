"""What a backend promises: `Data` holds X and does one expensive thing, `sweep`; `Space` says where factors live.

Everything above the backends sees X only through these two; layout (dense, sparse, blocks) and device are their
business alone. Whoever writes another backend reads this file and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Literal, Protocol

import numpy as np

from drnmf.losses.base import Omega
from drnmf.numerics import Array, Indices, Precision, Vector, unit_scale, zero_floor

Some = slice | Indices
"""Rows or columns of X."""
EVERY = slice(None)


class Observed(Protocol):
    """Weights of the entries of X, zero where an entry is not observed (`backends.observed` has the kinds of them).

    An entry of X that is NaN or infinite is not observed, whatever its weight.
    """

    @property
    def T(self) -> Observed:
        """The weights of X transposed."""
        ...

    def tile(self, columns: slice) -> Array:
        """Return the weights of a range of columns, dense (m, columns), in NumPy or where the factors live."""
        ...

    def within(self, rows: Some, columns: Some = EVERY) -> Observed:
        """Return the weights of some rows and columns of X, by slices or by indices."""
        ...

    def placed(self, put: Callable[[Array], Array]) -> Observed:
        """Return the same weights with their arrays where a backend sweeps, which `put` takes them to."""
        ...

    def digest(self) -> str:
        """Compute the SHA-256 of the weights, 64 hexadecimal digits (for checkpoints)."""
        ...


@dataclass(frozen=True, eq=False)
class Ask:
    """The question of a sweep.

    Attributes
    ----------
    omega : the losses
    parts : "separate" - every N and P on its own; a vector (p,) of weights - their weighted sums, for a lambda that is
        known when the sweep is made; None - no parts
    losses : False skips the losses (they come back as NaN) where nobody will look
    curvature : (p,) coefficients of the losses in the curvature, None where it is not wanted
        (in a batch of runs these and the weights of the parts may be (p, runs), see `backends.torch.load.TorchBatch`)
    observed : weights of the entries, None where every entry counts once
    held_out : the losses are those of the entries that a held-out mask leaves out
    sized : the size of the parts of every column counts, because penalties stand beside them (see `Sweep`)
    positive : False lets P be left out, and empty, where W alone says it: `Loss.free_part` of every loss, no weights
    into : an earlier answer of the same X that nobody needs any more: a backend may write this one into its arrays
    used : one of X transposed: a backend may use its arrays, which are as large as W, as it likes
    """

    omega: Omega
    parts: Literal["separate"] | Vector | None = "separate"
    losses: bool = True
    curvature: Vector | None = None
    observed: Observed | None = None
    held_out: bool = False
    sized: bool = False
    positive: bool = True
    into: Sweep | None = None
    used: Sweep | None = None

    @property
    def weights(self) -> Vector | None:
        """The weights of the parts, None where they are separate or not wanted."""
        return None if self.parts is None or isinstance(self.parts, str) else self.parts

    @property
    def slots(self) -> int:
        """How many N and P the answer holds."""
        return 0 if self.parts is None else len(self.omega) if self.weights is None else 1

    @property
    def shared(self) -> Any:
        """The coefficient of the curvature that all columns share; None where there is none (entries have weights)."""
        if self.curvature is None or self.observed is not None:
            return None
        for c, loss in zip(self.curvature, self.omega, strict=True):
            if loss.free_part == "gram":
                return c
        return None

    @property
    def shared_alone(self) -> bool:
        """Whether all of the curvature is shared, so that neither Q nor P is made."""
        return self.shared is not None and len(self.omega) == 1

    @property
    def empty(self) -> bool:
        """Whether nothing is asked for."""
        return self.parts is None and not self.losses and self.curvature is None

    def within(self, rows: slice) -> Ask:
        """Ask the same of a block of rows of X."""
        return self if self.observed is None else replace(self, observed=self.observed.within(rows))

    @property
    def T(self) -> Ask:
        """The same question with X transposed."""
        return self if self.observed is None else replace(self, observed=self.observed.T)


@dataclass(frozen=True)
class Sweep:
    """The answer of a sweep at (W, H).

    Attributes
    ----------
    losses : (p,) float64, D(X, WH) for each loss; NaN where they were not asked for
    N, P : (slots, r, n), the negative and positive parts of the gradient in H
    Q : (r (r + 1) / 2, n), the curvature of every column, packed (see `Data.sweep`); None where it was not asked for
    gram : (r, r) float64, the part of the curvature that all columns share; None where there is none. Where N is
        separate and all losses are of beta = 2, under weights of rows, it is so too: (p, r, r), without coefficients

    With the curvature of beta = 2 alone Q is None and P is empty: it is gram @ H, and whoever wants it can make it.
    Where columns have weights N then comes without them, and for all losses together: the minimum of a column is the
    same, unless penalties stand beside it (`Ask.sized`).
    """

    losses: Vector
    N: Array
    P: Array
    Q: Array | None = None
    gram: Any = None


@dataclass(frozen=True, eq=False)
class Descending:
    """Where whole iterations of coordinate descent under beta = 2 alone begin, made by a backend in one call each."""

    # omega, coefficient: beta = 2, and what multiplies its parts
    omega: Omega
    coefficient: float
    # blocks, lasts: H and W', and where each stood before it was extrapolated; all are written over
    blocks: tuple[Array, ...]
    lasts: tuple[Array, ...]
    sweep: Sweep  # that for H at the blocks, written over too
    floors: tuple[float, ...]  # the smallest entry of each block


@dataclass(frozen=True)
class Elsewhere:
    """An array of a state that lives elsewhere than on the host, brought here by `Space.join`."""

    values: Array


class Space(Protocol):
    """Where the factors (r, n) of one side live, and how functions reach them."""

    @property
    def deferred(self) -> bool:
        """Whether sweeps return before they are done (a GPU, a cluster): no number is looked at before `read`."""
        ...

    @property
    def forks(self) -> bool:
        """Whether a run may be made in a fork of this process: X and factors are NumPy's, and nothing is elsewhere."""
        ...

    @property
    def whole(self) -> bool:
        """Whether a factor is in one piece, so that a function may look at all of it."""
        ...

    def read(self, *sweeps: Sweep) -> tuple[Sweep, ...]:
        """Wait for sweeps, of this side or of the other, and return them with losses as NumPy vectors.

        Parameters
        ----------
        sweeps : what `Data.sweep` returned

        Returns
        -------
        sweeps : tuple of Sweep, in the same order, losses (p,) float64
        """
        ...

    def put(self, F: Array) -> Array:
        """Take a factor (r, n), in NumPy or of this space already, into the space, C-contiguous.

        Parameters
        ----------
        F : (r, n)

        Returns
        -------
        F : (r, n) in the form of the space, in its dtype
        """
        ...

    def get(self, F: Array) -> Array:
        """Bring a factor (r, n) of this space to the host as a NumPy array."""
        ...

    def take(self, F: Array, at: Indices | None, into: Space) -> Array:
        """Take some columns of a factor (r, n) into the space of a part of X.

        Parameters
        ----------
        F : (r, n), in NumPy or of this space
        at : which, in order; None takes all
        into : the space of the part

        Returns
        -------
        F : (r, columns) in the form of that space
        """
        ...

    def map(self, function: Callable[..., Any], *arguments: object, count: int = 1) -> Any:
        """Apply a pure function to factors, parts and states where they live.

        Parameters
        ----------
        function : works on each column of a factor by itself, so that it may be called piece by piece
        arguments : any nesting of what lives in the space and of plain values
        count : how many values the function returns; more than one come as a tuple

        Returns
        -------
        values : what the function returned, in the form of the space
        """
        ...

    def map_rows(self, function: Callable[[Data], Array], data: Data, rank: int) -> Array:
        """Make a factor (r, n) of this space from the other side of X, piece by piece where its rows are in pieces.

        Parameters
        ----------
        function : Data of some rows of X, (rows, n) -> (r, rows)
        data : X whose transpose has this space
        rank : r

        Returns
        -------
        F : (r, rows of X) in the form of the space
        """
        ...

    def sum(self, function: Callable[..., Vector], *arguments: object) -> Vector:
        """Add up function(*arguments) over the pieces in which factors and parts are stored.

        Parameters
        ----------
        function : returns a vector (k,) for the piece that it is given
        arguments : as in `map`

        Returns
        -------
        total : (k,) float64, on the host
        """
        ...

    def split(self, whole: object) -> Any:
        """Take a state that `join` returned back into the space.

        Parameters
        ----------
        whole : nesting of NumPy arrays and plain values

        Returns
        -------
        state : the same nesting, arrays in the form of the space
        """
        ...

    def join(self, state: object) -> Any:
        """Bring a state of this space to the host, with NumPy arrays.

        Parameters
        ----------
        state : nesting of what lives in the space and of plain values

        Returns
        -------
        whole : the same nesting; arrays that live elsewhere than on the host as `Elsewhere`
        """
        ...

    def status(self) -> str:
        """Describe in a few words what happens where, for a progress bar; empty where there is nothing to say."""
        ...

    def deliver(self, F: Array) -> Array:
        """Return the transpose of a factor (r, n) as the caller of an estimator gets it.

        Parameters
        ----------
        F : (r, n) in the form of the space

        Returns
        -------
        Ft : (n, r), NumPy or what the backend's users expect (a tensor, a Dask array)
        """
        ...


class InOnePiece:
    """What every space does whose factors are each one array: functions are called, once."""

    def take(self, F: Array, at: Indices | None, into: Space) -> Array:
        return into.put(F if at is None else F[:, at])

    def map(self, function: Callable[..., Any], *arguments: object, count: int = 1) -> Any:
        return function(*arguments)

    def map_rows(self, function: Callable[[Data], Array], data: Data, rank: int) -> Array:
        return function(data)

    def sum(self, function: Callable[..., Vector], *arguments: object) -> Vector:
        return function(*arguments)

    def status(self) -> str:
        return ""


class Starts(Protocol):
    """What starts ask of X, whose missing entries they see filled in."""

    def column(self, j: int) -> Vector:
        """Return column j of X, (m,), dense float64."""
        ...

    def dot(self, B: Array) -> Array:
        """Compute X @ B, (m, k), for a dense (n, k) array B of the same dtype."""
        ...

    def squared_norms(self) -> Vector:
        """Compute the squared Euclidean norm of every column of X, (n,) float64."""
        ...

    def draw(self, rank: int, rng: np.random.RandomState, scale: Callable[[float], float], floor: float) -> Any:
        """Draw uniform factors W (m, r) and H (r, n), W first, where they will live.

        Both are multiplied by ``scale(mean(WH))`` and are at least the floor.
        """
        ...


class Data(Protocol):
    """X in some layout on some device.

    Factors are handed over component-first: H has shape (r, n) and is C-contiguous, W has shape (m, r) and is the
    transpose of a C-contiguous (r, m) array. `T` shares X's memory, and ``data.T.sweep(H.T, W.T, ask)`` is the sweep
    that updates W.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns of X, (m, n)."""
        ...

    @property
    def dtype(self) -> Precision:
        """float32 or float64: the dtype of the factors and of N and P."""
        ...

    @property
    def mean(self) -> float:
        """(Weighted) mean of the observed entries in float64, unless another was given: what floors refer to."""
        ...

    @property
    def scale(self) -> float:
        """What the caller's X is multiplied by as it is read, a power of four: all else here is of X times this."""
        ...

    @property
    def zeros(self) -> int:
        """How many observed entries of X are zero (stored or not)."""
        ...

    @property
    def count(self) -> int:
        """How many entries of X are observed: m n where nothing is missing."""
        ...

    @property
    def compressed(self) -> bool:
        """Whether X is sparse and its zeros are data: the last bit of a column may then depend on those before it."""
        ...

    @property
    def observed(self) -> Observed | None:
        """The weights under which X is swept, None where every entry counts once."""
        ...

    @property
    def T(self) -> Data:
        """X transposed, (n, m)."""
        ...

    @property
    def space(self) -> Space:
        """Where factors (r, n) of this side live."""
        ...

    @property
    def starts(self) -> Starts:
        """X as starts see it."""
        ...

    def sweep(self, W: Array, H: Array, ask: Ask) -> Sweep:
        r"""Pass over X once, at V = WH.

        .. math:: N_\beta = W^T (V^{\beta-2} \circ X), \qquad P_\beta = W^T V^{\beta-1}

        for a beta-divergence, and what `Loss.parts` says for any other loss; on their own or weighted. The curvature
        is the lower triangle of the expected second derivative in every column of H, row by row, k(k+1)/2 + l for
        l <= k:

        .. math:: Q_{kl,j} = \sum_i W_{ik} W_{il} \sum_b c_b \, d''_b(X_{ij}, V_{ij})

        with d'' as `Loss.curvature` has it (for Kullback-Leibler x / v^2). The part of beta = 2, c_2 W'W, is the same
        in every column: it comes once as `Sweep.gram`, in float64 (r^2 numbers cost nothing, and the squares of
        float32's floors are beyond its range), and is not in Q. Zeros of X count as `zero_of` where a loss is infinite
        at zero. V is kept above `numerics.model_floor`, powers below `numerics.power_ceiling`.

        Parameters
        ----------
        W : (m, r) the transpose of a factor of the other side
        H : (r, n) a factor of this side
        ask : what is wanted

        Returns
        -------
        sweep : Sweep, which `Space.read` completes where the space is deferred
        """
        ...

    def weigh(self, observed: Observed, mean: float | None) -> Data:
        """Return X under weights of its entries (called by `observed.weigh`, which binds them to X first).

        Parameters
        ----------
        observed : the weights
        mean : the scale that floors refer to; None takes the weighted mean of the observed entries

        Returns
        -------
        data : Data whose sweeps, mean, zeros and count are those of the weighted X
        """
        ...

    def scaled(self, factor: float) -> Data:
        """Return X times a power of four, never as a copy of a dense X: its entries are multiplied as they are read.

        Parameters
        ----------
        factor : what X, its mean and `scale` are multiplied by

        Returns
        -------
        data : Data
        """
        ...

    def digest(self) -> str:
        """Compute the SHA-256 over every entry of the caller's X, whatever its order, blocks or device, unscaled."""
        ...


@dataclass(frozen=True, eq=False)
class OfData:
    """What is made of X in some layout, and is in its unit."""

    data: Any

    dtype = property(attrgetter("data.dtype"))
    mean = property(attrgetter("data.mean"))
    scale = property(attrgetter("data.scale"))
    zeros = property(attrgetter("data.zeros"))
    count = property(attrgetter("data.count"))

    def descent(self, start: Descending) -> Any:
        """Make no whole iterations: what is over X counts too."""
        return None


@dataclass(frozen=True, eq=False)
class Layer(OfData):
    """A Data over another one, of the same entries in the same place."""

    shape = property(attrgetter("data.shape"))
    space = property(attrgetter("data.space"))

    def row_digests(self) -> Iterator[bytes]:
        """Yield the SHA-256 of every row of X itself."""
        yield from self.data.row_digests()


def check_shapes(shape: tuple[int, int], W: Array, H: Array, ask: Ask) -> None:
    """Refuse factors that do not fit X, and weights that do not fit the losses."""
    (m, n), r = shape, H.shape[0]
    if W.shape != (m, r) or H.shape != (r, n):
        raise ValueError(f"W {tuple(W.shape)} and H {tuple(H.shape)} do not fit X {shape}.")
    for name, vector in (("parts", ask.weights), ("curvature", ask.curvature)):
        if vector is not None and vector.shape != (len(ask.omega),):
            raise ValueError(
                f"{name} has shape {vector.shape}: one number for each of {len(ask.omega)} losses is needed."
            )


def zero_of(data: Data, omega: Omega) -> float:
    """Return what a zero of X counts as under these losses; 0.0 where it stays.

    Where X is made smaller, an entry far below the mean may become one.
    """
    some = data.zeros or data.scale < 1.0
    return zero_floor(data.mean) if some and any(loss.infinite_at_zero for loss in omega) else 0.0


def in_unit(data: Data) -> Data:
    """Return X times the power of four that brings its mean into [1, 4), so that no result depends on its unit."""
    factor = unit_scale(data.mean, data.dtype)
    return data if factor == 1.0 else data.scaled(factor)


def losses_of(data: Data, W: Array, H: Array, omega: Omega) -> Vector:
    """Compute D(X, WH) for every loss."""
    A, B = data.T.space.put(W.T), data.space.put(H)
    return data.space.read(data.sweep(A.T, B, Ask(omega, parts=None)))[0].losses
