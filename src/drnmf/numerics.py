"""Floors, tolerances and dtype rules: the only place where a small number is written.

Every floor is relative to the data. An absolute one (1e-16, say) would change the answer when X is
measured in other units, and breaks the factorization altogether when X is tiny.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

Array = NDArray[np.floating]
Vector = NDArray[np.float64]
Numbers = float | Array  # one for all, or one for every run, row or column of a factor
Maybe = Array | None
Library = Any  # NumPy or torch: what `namespace` returns
Precision = np.dtype[np.floating]
Indices = NDArray[np.integer]


class Grid(Protocol):
    """X once its form is checked: rows and columns of NumPy, SciPy sparse, Dask or torch."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        ...

    @property
    def dtype(self) -> Any:
        """Of its library."""
        ...

    @property
    def T(self) -> Any:
        """The transpose, of the same kind."""
        ...

    def __getitem__(self, key: Any, /) -> Any:
        """Return some rows, columns or entries."""
        ...


Entries = Any
"""The entries of a matrix, checked: a NumPy array, a SciPy sparse array, a tensor, or a Dask array of blocks."""

MatrixLike = Grid | ArrayLike
"""What users may hand in as X: an array of some library, a table, or anything that NumPy makes an array of."""

XLike = MatrixLike | Mapping[str, MatrixLike]
"""What estimators take: a matrix, or several tables of the same rows by their names."""

EPS = 2.2e-16
"""Relative size of the floors, in float64 and float32 alike (the value matters on sparse data)."""

SAFE_SQUARES = 1e200
"""A sum of squares between its inverse and this has lost no digit to the ends of float64."""

LARGEST_BETA = 1000.0
"""Above it x^beta leaves the range of float64 for any x that is not within a factor of two of the others."""

MAX_HALVINGS = 30
"""Backtracking: step lengths 1/2, 1/4, ... 2^-30 are tried, then the old block is kept."""

REFERENCE_FLOOR = 1e-16
"""e_beta is at least this times D_beta(X, mean(X)), so that exact rank-r data has a finite scale."""

ALL_BUT_EXACT = 1e-8
"""A loss this small relative to that of the start counts as exact when it comes to what another iteration gains."""

REFERENCE_TOLERANCE = 3e-5
"""Where the reference fits of the default rule stop: relative decrease over the window of ten iterations."""

LEVEL_TOLERANCE = 1e-4
"""The same for references whose whole iterations are extrapolated: they are as near to their end as others at 3e-5."""

ROUGH_LEVEL, ROUGH_TOLERANCE = 3e-3, 1e-3
"""Where references pause at first, and the runs under them: one that is further from its end needs no better scale."""

TOLERANCE = 1e-6
"""Where a fit stops unless it is told: relative decrease over the window of ten iterations."""

HALS_TOLERANCE, HALS_WINDOW = 3e-3, 0.3
"""The same for coordinate descent under beta = 2 alone: relative decrease over this fraction of all iterations. What a
longer run would gain is 0.02 % in the median and takes most of its time (docs/development/frobenius.md)."""

LITTLE_LEFT = 0.08
"""A loss of beta = 2 within this fraction of what the singular values of X allow has little left to gain: half the
window is enough, and no other start is tried."""

LEAST_TRUST = 0.1
"""Where more is left, the tolerance falls with the root of what is left, down to this fraction of itself."""

SECOND_LOOK, SECOND_LEAD = 10, 0.01
"""From this iteration on the run from another start must be ahead of the first one by this fraction, or it ends."""

BOUND_DIGITS = 1e3
"""A bound is used where it is this many units of rounding of ||X||^2: three of its digits are right."""

REFERENCE_MARGIN = 1e-2
"""A loss met this fraction below its reference shows that the reference fit is not the best: it is continued there."""

ROUNDING = 1e-10
"""A reference below this fraction of the constant model's loss is rounding, in float32 too: nothing improves it."""

REFERENCE_ROUNDS = 5
"""How often the references of a fit are improved at most."""

SADDLE_RIDGE = 1e-12
"""Of the scale of a quadratic problem in lambda: what keeps it solvable, and what no weight is worth freeing for."""

SIMPLEX_TOLERANCE = 1e-8
"""How far given weights may sum from one, or stand below zero."""

ACTIVE_TOLERANCE = 1e-3
"""A scaled loss within this fraction of the largest counts as active in the stationarity certificate."""

RULE_DELAY = 15
"""Plain steps that the default rule takes before it extrapolates."""

NEWTON_DELAY = 30
"""Extrapolated steps that the default rule takes before its Newton steps."""

NEWTON_RANK = 24
"""Largest rank at which the default rule asks for the curvature of every column: above, one for all is cheaper."""

OWN_GAIN = 1.7
"""Above that rank too where an iteration with them takes at most this many times one with the shared curvature, which
needs 1.7 to 2.8 times as many (`algorithms.updates.newton`)."""

BALANCE_STEPS = 4
"""Steps of the symmetric scaling that gives a shared curvature its size in every column."""

LARGEST_PART = 10.0
"""A step that makes one component this many times the whole of its column has a model that cannot be used."""

LEAST_DAMPING = 0.2
"""How far a shared curvature is shrunk to the multiplicative step's after a step of it rose; twice as far each time."""

DAMPING_DECAY = 0.95
"""By this factor every second-order step shrinks its curvature less than the one before."""

NEWTON_HALVINGS = 1
"""How often a second-order step that rose is halved before the multiplicative step, which cannot rise, is taken."""

NEWTON_PASSES = 4
"""Passes of coordinate descent over the quadratic model of a Newton step."""

LARGEST_SINGLE = 1 << 26
"""Most entries of X that rough runs see in single precision: it is a copy, of 256 MB here."""

SINGLE_RANGE = 1e12
"""Entries of X that are this many times larger or smaller than its mean are not for single precision."""

EXTRAPOLATE_EVERY = 2
"""Iterations of Newton steps between two trials of a point further along their direction."""

FIRST_LENGTH, LEAST_LENGTH = 2.0, 0.5
"""How far along that direction the first trial is, and the nearest, in multiples of the way since the last trial."""

NEWTON_REFRESH = 3
"""Newton steps that one curvature of every column serves: it costs several sweeps, and changes slowly."""

LARGEST_KEPT = 1 << 22
"""Most numbers of a curvature that is kept for further steps: it stays in memory, and is in every checkpoint."""

HALS_PASSES = 8
"""Passes of coordinate descent over all components for every sweep under beta = 2 alone."""

HALS_DELAY = 5
"""Steps of a single pass that coordinate descent takes first: with none runs end higher, with many they take longer."""

SMALLEST_SCALE = 1e-3
"""A component of a start is never made smaller than this fraction of the others to bring sums near to one."""

LEAST_DIVISOR = 1e-37
"""What a divisor is raised to where it may vanish: above the smallest normal number of float32, 1.2e-38."""

PAIR_TOLERANCE = 1e-3
"""Moves of pairs of entries end where the slopes of a column agree to this fraction of their first difference."""

SUM_TOLERANCE = 1e-9
"""How near to its total the sum of a column is brought by a multiplier; scaled to it then, the column is within the
square of that of the smallest majoriser."""

SIMPLEX_MOVES = 4
"""Moves of pairs of entries in a step of second order on the simplex, or a quarter of the components if those are more:
with further ones a run needs no fewer iterations."""

AT_FLOOR = 4.0
"""An entry of a factor up to this many times its floor is at the floor: sums brought to one may have moved it."""

VANISHED = 16 * EPS
"""A component whose norm is below this fraction of the largest is all floor: the other side of it stays where it is."""

POLICY_DELAY, POLICY_PLAIN = 100, 30
"""Frank-Wolfe steps that the default policy takes before it reacts, and how many of the first never grow."""

RESTART_RISE = 1e-3
"""Extrapolation starts anew when what is minimised is this fraction above the best met: lambda alone moves it less."""

WEIGHT_FLOOR = 1e-6
"""Smallest weight of a policy that multiplies weights: from zero they could never come back."""

LARGEST_FIXED = 1e10
"""A fixed component this many times larger or smaller than X is refused: the floor of its other half would count."""

SETTLE_TOLERANCE = 1e-2
"""Relative difference of the losses by which two W count as fitting alike where r > n leaves W free."""

EXACT_FIT = 1e-14
"""Where r > n, a loss below this fraction of the constant model's is an exact fit: any W with a small loss serves."""

NEARLY_EXACT = 1e-5
"""The fraction of the constant model's loss that counts as small beside an exact fit."""

LARGEST_SENT = 1 << 22
"""Observed entries of the largest X whose runs go to processes of their own (`solve.processes`), each with a copy of
it: 32 MB in float64. Above that an iteration is nearly all sweep, and threads do not wait for one another."""

ENCODE_ITERATIONS = 1000
"""Steps that `transform` takes at most, whatever max_iter: what still moves then is hardly determined by its row."""

ENCODE_TOLERANCE = 1e-6
"""`transform` leaves a row alone once it moves by less than this, where tol=0 asks for no other value."""

LARGEST_SVD = 10**7
"""Entries of the factors of a singular value decomposition up to which the default start makes one, on this machine."""

EMPTY_MODEL = 1e-6
"""Penalties have left nothing of a model whose WH has less than this fraction of the sum of X."""

LIFT = 1e-6
"""SPA leaves exact zeros that multiplicative steps cannot leave: this fraction of the mean is added to W and H."""


def positive_scale(mean: float) -> float:
    """The scale that floors refer to: mean(X), or one where X is all zeros.

    >>> positive_scale(0.0)
    1.0
    """
    return mean if mean > 0 else 1.0


def unit_scale(mean: float, dtype: DTypeLike) -> float:
    """Choose the power of four that brings mean(X) into [1, 4): what X is multiplied by as it is read.

    No power of W H, no floor and no ceiling then depends on the unit of X. A power of four and its root, which W and H
    are multiplied by, are exact.

    >>> unit_scale(100.0, np.float64), unit_scale(0.0, np.float64)
    (0.015625, 1.0)
    """
    if not 0.0 < mean < math.inf:
        return 1.0
    most = 126 if np.dtype(dtype) == np.float32 else 1022  # what the dtype can hold, and its inverse
    return math.ldexp(1.0, max(-most, min(most, -2 * ((math.frexp(mean)[1] - 1) // 2))))


def rescaled(values: ArrayLike, scale: float, degree: ArrayLike) -> Any:
    """Multiply numbers by scale^degree; beyond the range of float64 they are infinite, or zero.

    >>> rescaled(np.array([3.0, 3.0]), 4.0, np.array([-1.0, 0.5])).tolist()
    [0.75, 6.0]
    """
    exponent = math.log2(scale) * np.asarray(degree, dtype=np.float64)
    whole = np.floor(exponent)
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(np.asarray(values, dtype=np.float64) * np.exp2(exponent - whole), whole.astype(np.int64))


def factor_floor(mean: float, rank: int) -> float:
    """Smallest entry of W and H: 2.2e-16 sqrt(mean(X) / r), so that WH is floored relative to mean(X).

    >>> factor_floor(4.0, 1) == 2 * EPS
    True
    """
    return EPS * math.sqrt(positive_scale(mean) / rank)


def zero_floor(mean: float) -> float:
    """What replaces a zero of X under ``zeros="floor"`` when beta = 0 is in Omega: 2.2e-16 mean(X)."""
    return EPS * positive_scale(mean)


def model_floor(dtype: DTypeLike) -> float:
    """Smallest V = WH a tile works with, so that 1/V and X/V^2 stay finite in the working precision."""
    return 1e-34 if np.dtype(dtype) == np.float32 else 1e-290


def power_ceiling(dtype: DTypeLike) -> float:
    """Largest X V^(beta-2) or V^(beta-1) a tile works with: the counterpart of `model_floor`."""
    return 1.0 / model_floor(dtype)


def identity_limit(dtype: DTypeLike) -> float:
    """Below this fraction of ||X||^2 the Frobenius identity has lost its digits and the loss is summed directly."""
    return 0.1 if np.dtype(dtype) == np.float32 else 1e-6


def rise_tolerance(dtype: DTypeLike) -> float:
    """Relative rise of the objective that counts as a rise and not as rounding."""
    return 1e-6 if np.dtype(dtype) == np.float32 else 1e-12


def namespace(array: object) -> Library:
    """The library whose functions fit an array: NumPy, or the one the array comes from (torch, ...)."""
    if isinstance(array, np.ndarray):
        return np
    return importlib.import_module(type(array).__module__.partition(".")[0])


def as_float64(array: Entries) -> Vector:
    """Convert an array of any kind to float64; one that is float64 already is not copied."""
    return array.astype(np.float64, copy=False) if isinstance(array, np.ndarray) else array.double()


def precision_of(array: Entries) -> str:
    """Name the dtype of an array of any kind: "float32" or "float64".

    >>> precision_of(np.ones(1))
    'float64'
    """
    return str(array.dtype).removeprefix("torch.")


def unit_roundoff(array: object) -> float:
    """Return the distance from one to the next number in the dtype of an array of any kind."""
    return float(np.finfo(precision_of(array)).eps)


def real_numbers(name: str, given: object, wanted: str = "") -> Vector:
    """Read what somebody gave as numbers in float64, not copied where it is such an array.

    What a masked array hides is no number: NaN. Text, dates, records, and imaginary parts, which a cast would drop, are
    refused; `wanted` ends the sentence of the error.

    >>> real_numbers("W", np.ma.masked_equal([1, 2], 2)).tolist()
    [1.0, nan]
    """
    try:
        values = given if isinstance(given, np.ma.MaskedArray) else np.asarray(given)
        if values.dtype.kind not in "mMVc":
            return np.ma.filled(values.astype(np.float64, copy=False), np.nan)
    except (TypeError, ValueError):
        pass
    else:
        refuse_complex(name, values)
    raise ValueError(f"{name} cannot be read as numbers{wanted}.")


def refuse_complex(name: str, values: Entries) -> None:
    """Refuse an array with imaginary parts."""
    if np.dtype(values.dtype).kind == "c":
        raise ValueError(f"{name} holds complex numbers: give real ones, such as its real part or absolute value.")


def as_vector(values: ArrayLike) -> Vector:
    """A float64 vector, copied: what weights, losses and references are held in."""
    return np.array(real_numbers("this", values), ndmin=1, copy=True)


def of_each_run(value: Any, F: Array) -> Numbers:
    """Return numbers, one for every run of a batch, so that they multiply the blocks F (runs, r, n); one number stays.

    >>> of_each_run(np.array([1.0, 2.0]), np.ones((2, 3, 4))).shape, of_each_run(3.0, np.ones((3, 4)))
    ((2, 1, 1), 3.0)
    """
    if np.ndim(value) == 0:
        return float(value)
    return beside(np.asarray(value, dtype=precision_of(F)).reshape(-1, 1, 1), F)


def beside(values: ArrayLike, array: Array) -> Array:
    """Return numbers of the host as an array of the kind of another one, where that is."""
    return (
        np.asarray(values) if isinstance(array, np.ndarray) else namespace(array).as_tensor(values, device=array.device)
    )


def to_host(array: Array) -> Array:
    """Return an array of any kind as NumPy's."""
    return array if isinstance(array, np.ndarray) else array.cpu().numpy()
