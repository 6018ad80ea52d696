"""CP: nonnegative tensors as sums of few components, under any of the losses of matrices."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from drnmf.algorithms.initialize import check_factor
from drnmf.algorithms.result import Result
from drnmf.algorithms.weights import Fixed, Policy
from drnmf.backends.observed import HeldOut
from drnmf.backends.products import column_products
from drnmf.estimators.base import NMF
from drnmf.estimators.deciding import AUTO, fit_ranked, fitted_attributes
from drnmf.estimators.tables import shares_of
from drnmf.losses.base import Loss, Omega
from drnmf.losses.names import as_losses
from drnmf.numerics import Array, Entries, Indices, MatrixLike, Vector
from drnmf.objective.penalties import L1, L2, Smooth, Sparsity, as_penalties
from drnmf.objective.penalty import Penalties, mode_of
from drnmf.objective.simplex import check_weights
from drnmf.parameters.common import MOVED
from drnmf.parameters.fields import Kind, check_integer, checked, documented, parameter
from drnmf.problem.check import structured
from drnmf.problem.device import Placement
from drnmf.problem.problem import Problem
from drnmf.problem.receive import Received
from drnmf.problem.scikit import check_is_fitted
from drnmf.problem.weights import WeightsLike, reading_of
from drnmf.solve.encode import Encoder
from drnmf.solve.settings import constraints_of

MOST_COLUMNS = 1 << 26
"""Columns of an unfolding: the product of all modes but one has a factor, which must be in memory."""


@documented(MOVED)
@dataclass(kw_only=True, eq=False, repr=False)
class CP(NMF):
    r"""Fit a nonnegative CP decomposition (PARAFAC): a tensor as a sum of products of one profile for every mode.

    .. math:: X_{ijk\dots} \approx \sum_r A_{ir} B_{jr} C_{kr} \cdots, \qquad A, B, C, \dots \ge 0

    under one loss, a weighted sum of scaled losses (`weights`) or their maximum, as for matrices.

    Attributes
    ----------
    factors_ : one array (size, r) for every mode; components sum to one in every mode but the first, largest first
    components_ : (r, n), column-wise products of all factors but the first: H of the unfolding (I, n)
    shape_ : of X
    losses_, scaled_losses_, references_, weights_, trace_, gap_, stationarity_, notes_ : as for matrices (`DRNMF`)

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(np.einsum("ir,jr,kr->ijk", *(rng.gamma(1.0, 2.0, (size, 2)) for size in (8, 7, 6))))
    >>> model = CP(2, betas=1, random_state=0).fit(X)
    >>> [factor.shape for factor in model.factors_]
    [(8, 2), (7, 2), (6, 2)]
    """

    streams: ClassVar[bool] = False

    betas: float | str | Loss | Iterable[float | str | Loss] = parameter(
        2, Kind("number, str, Loss or list"), "The loss, or Omega: numbers >= 0, names, or losses such as ``nb:30``."
    )
    weights: ArrayLike | None = parameter(
        None,
        Kind("(p,)", none=True),
        "lambda of a weighted sum, aligned with betas; None makes the largest loss small.",
    )
    sum_to_one: Any = parameter(
        None,
        Kind("mode", none=True),
        "A mode, by number or dimension, of whose factor every row sums to one.",
    )
    fixed: Any = parameter(
        None,
        Kind("dict", none=True),
        "Components that do not move: a mode, by number or dimension -> (size, f), their first f columns.",
    )
    shape: Sequence[int] | None = parameter(  # type: ignore[misc]
        None,
        Kind("tuple", none=True),
        "Sizes of the modes, where X is given unfolded as a matrix (I, JK...), the last mode fastest.",
    )

    def _omega(self) -> Omega:
        single = isinstance(self.betas, int | float | str | Loss)
        return as_losses([self.betas] if single else self.betas)

    def _policy(self, p: int) -> str | Policy:
        if self.weights is None and p > 1:
            return self._solver.policy
        self._refuse_policy()
        return Fixed() if self.weights is None else Fixed(tuple(check_weights(self.weights, p).tolist()))

    def _references(self, p: int) -> Vector | None:
        return super()._references(p) if p > 1 else np.ones(1)

    def fit(  # type: ignore[override]
        self,
        X: MatrixLike,
        y: object = None,
        factors: Sequence[ArrayLike] | None = None,
        entry_weight: WeightsLike = None,
        uncertainty: WeightsLike = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Factorise X.

        Parameters
        ----------
        X : array of three modes and more (or of two), nonnegative; NaN is an entry that was not observed. Or sparse as
            coordinates, an object with `coords`, `data` and `shape` such as those of SciPy and of the package sparse.
            Or an ``xarray.DataArray``, whose labels come back. With `shape`, its unfolding as a matrix
        y : ignored, here for pipelines
        factors : one start (size, r) for every mode, with ``init="custom"``
        entry_weight, uncertainty : as for matrices, in the shape of X or one that broadcasts to it
        sample_weight : (I,), how much every slice of the first mode counts, as for the rows of matrices

        Returns
        -------
        self : the fitted estimator
        """
        self.fit_transform(X, y, factors, entry_weight, uncertainty, sample_weight)
        return self

    def fit_transform(  # type: ignore[override]
        self,
        X: MatrixLike,
        y: object = None,
        factors: object = None,
        entry_weight: WeightsLike = None,
        uncertainty: WeightsLike = None,
        sample_weight: ArrayLike | None = None,
    ) -> Array:
        """Fit, and return the factor of the first mode, (I, r), in the unit of X.

        Parameters
        ----------
        X, y, factors, entry_weight, uncertainty, sample_weight : as in `fit`

        Returns
        -------
        A : array (I, r)
        """
        if checked(self, "n_components") == AUTO:
            more = factors, entry_weight, uncertainty, sample_weight
            reading = reading_of(self, entry_weight, uncertainty)
            return fit_ranked(self, X, reading, lambda ranked: ranked.fit_transform(X, y, *more))
        cube = Cube.of(X, self.shape)
        order = cube.order(cube.rows if sample_weight is None else 0)
        inner = self._within(cube, order)
        W, H = self._start(factors, cube, order)
        weights = cube.weights(order, entry_weight, uncertainty)
        with cube.places_named(order):
            made = NMF.fit_transform(inner, cube.unfolded(order), y, W, H, **weights, sample_weight=sample_weight)
        del inner.components_  # products again, in another order
        self.__dict__.update(fitted_attributes(inner))
        self._set_factors([np.asarray(made).T, *inner._columns], inner, order, cube)
        return cube.labelled(self.factors_[0], 0)

    def unfolded(
        self, X: MatrixLike, entry_weight: WeightsLike = None, uncertainty: WeightsLike = None
    ) -> tuple[CP, Entries, WeightsLike, WeightsLike]:
        cube = Cube.of(X, self.shape)
        order = cube.order(cube.rows)
        weights = cube.weights(order, entry_weight, uncertainty)
        model = replace(self, shape=tuple(cube.shape[k] for k in order))
        return model, cube.unfolded(order), weights["entry_weight"], weights["uncertainty"]

    def without_losses(self) -> CP:
        return replace(self, betas=AUTO, weights=None)

    def _start(self, factors: Any, cube: Cube, order: list[int]) -> tuple[Array | None, Array | None]:
        """Return W and H of an unfolding from the start of every mode, None where none was given."""
        if (self.init == "custom") != (factors is not None):
            missing = "needs factors" if factors is None else "does not use factors"
            raise ValueError(
                f"init={self.init!r} {missing}: give init='custom' and factors=[...], one start for every mode, "
                "or neither."
            )
        if factors is None:
            return None, None
        sizes, many = cube.shape, len(factors) if isinstance(factors, list | tuple) else type(factors).__name__
        if many != len(sizes):
            raise ValueError(
                f"factors: got {many} for the {len(sizes)} modes of X: give a list of one (size, r) for each."
            )
        rank = checked(self, "n_components")
        W, *columns = (check_factor(f"factors[{k}]", factors[k], (sizes[k], rank)) for k in order)
        return W, column_products([F.T for F in columns])

    def _within(self, cube: Cube, order: list[int]) -> CP:
        """Return the estimator of an unfolding: penalties and constraints name modes by their places in it."""
        if self._solver.fixed_W is not None:
            raise ValueError("Solver(fixed_W=...) is for matrices: fixed={mode: (size, f)} fixes factors of a tensor.")
        sums = None if self.sum_to_one is None else order.index(cube.mode(self.sum_to_one, "sum_to_one"))
        if not isinstance(self.fixed, Mapping | None):
            raise ValueError(f"fixed={self.fixed!r} must be a dict of modes, as in fixed={{1: (size, f) array}}.")
        fixed = {cube.mode(mode, "fixed"): F for mode, F in (self.fixed or {}).items()}
        for mode, F in fixed.items():
            if np.ndim(F) == 2 and len(F) != cube.shape[mode]:
                raise ValueError(
                    f"fixed[{mode}] has {len(F)} rows, but mode {mode} of X has {cube.shape[mode]} entries."
                )
        inner = replace(
            self,
            shape=tuple(cube.shape[k] for k in order),
            sum_to_one=sums,
            fixed={str(order.index(mode)): F for mode, F in fixed.items()},
            penalties=[term.of_mode(order.index(term.mode)) for term in mode_penalties(self.penalties, cube)],
        )
        inner.shape_ = tuple(inner.shape or ())
        return inner

    def _adopt(self, result: Result, problem: Problem, *more: Any) -> Array:
        W = super()._adopt(result, problem, *more)
        self._columns = problem.back(problem.completed(result)).blocks[:-1]
        return W

    def _set_factors(self, blocks: list[Array], inner: CP, order: list[int], cube: Cube) -> None:
        """Take the factors in the order of the modes; where nothing holds their scale, all but the first of unit sums.

        Components that are fixed stay first, all others are sorted by their size.
        """
        factors = [np.asarray(blocks[order.index(k)]) for k in range(len(order))]
        sums = [np.maximum(F.sum(axis=1, keepdims=True), np.finfo(F.dtype).tiny) for F in factors]
        constraints, terms = constraints_of(inner), inner.penalties_.terms
        if constraints.free and not any(isinstance(term, L1 | L2) for term in terms):
            factors = [F / total for F, total in zip(factors, sums, strict=True)]
            factors[0] = factors[0] * np.prod(sums, axis=0)
        sizes = np.prod(sums, axis=0)[:, 0]
        sizes[: constraints.fixed] = np.inf
        by_size = np.argsort(-sizes, kind="stable")
        self.shape_ = cube.shape
        self.factors_ = [np.ascontiguousarray(F[by_size].T) for F in factors]
        self.components_ = column_products([F[by_size] for F in factors[1:]])
        self.n_features_in_ = self.components_.shape[1]
        self.mean_row_ = self.factors_[0].mean(axis=0)
        self.shares_ = shares_of(self.factors_[0], self.components_)
        self.labels_ = cube.labels
        self.penalties_ = _of_slices(inner.penalties_, order)

    def transform(self, X: Any, entry_weight: WeightsLike = None, uncertainty: WeightsLike = None) -> Array:
        """Compute the factor of the first mode for new slices, all other factors fixed.

        Parameters
        ----------
        X : as in `fit`, with the same modes but the first
        entry_weight, uncertainty : as in `fit`, of the new slices

        Returns
        -------
        A : array (slices, r)
        """
        check_is_fitted(self)
        cube = Cube.of(X, self.shape)
        with cube.places_named(cube.order(0)):
            return cube.labelled(NMF.transform(self, X, entry_weight, uncertainty), 0)

    def _received(
        self, X: MatrixLike, entry_weight: WeightsLike, uncertainty: WeightsLike
    ) -> tuple[Placement, Received, Encoder]:
        """Check new slices, and unfold them: `transform`, `score` and `assign` take rows."""
        check_is_fitted(self)
        cube = Cube.of(X, self.shape)
        if cube.shape[1:] != self.shape_[1:]:
            raise ValueError(f"X has shape {cube.shape}, but all modes after the first must be {self.shape_[1:]}.")
        if any(cube.mode(mode, "fixed") == 0 for mode in self.fixed or {}):
            raise ValueError("fixed gave factors for the slices of the fit, and other slices have none.")
        order = cube.order(0)
        with cube.places_named(order):
            return super()._received(cube.unfolded(order), **cube.weights(order, entry_weight, uncertainty))

    def _encoder(self, given: Received) -> Encoder:
        names = [name for name, _ in getattr(self, "labels_", None) or ()]
        return replace(super()._encoder(given), sums=self.sum_to_one is not None and self.sum_to_one in (0, *names[:1]))

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Compute the model for rows of the first factor: missing entries are imputed.

        Parameters
        ----------
        X : (slices, r), what `transform` returned

        Returns
        -------
        model : array (slices, J, K, ...)
        """
        flat = NMF.inverse_transform(self, X)
        return flat.reshape(len(flat), *self.shape_[1:])

    def to_tensorly(self) -> object:
        """Return the decomposition as a ``CPTensor`` of tensorly, weights one and the scale in the first factor."""
        from tensorly.cp_tensor import CPTensor

        return CPTensor((np.ones(self.n_components_), [factor.copy() for factor in self.factors_]))


@dataclass(frozen=True)
class Cube:
    """A tensor as it was given: its entries, dense or as coordinates, and the labels of its modes."""

    shape: tuple[int, ...]
    values: Array
    coords: tuple[Indices, ...] | None = None
    labels: tuple[tuple[str, object], ...] | None = None

    @classmethod
    def of(cls, X: Entries, shape: Sequence[int] | None = None) -> Cube:
        """Read an array, coordinates with values, a labelled array, or an unfolding of the shape given."""
        if shape is not None and np.ndim(X) == 2:
            X = X if hasattr(X, "shape") else np.asarray(X)
            sizes = _column_sizes(shape, X.shape[1])
            if sp.issparse(X):
                stored = sp.coo_array(X)
                coords = stored.row, *np.unravel_index(stored.col, sizes)
                return cls._checked((X.shape[0], *sizes), stored.data, coords, None)
            X = np.asarray(X).reshape(X.shape[0], *sizes)
        labels = None
        if hasattr(X, "dims") and hasattr(X, "values"):
            labels = tuple((str(dim), np.asarray(X.coords[dim]) if dim in X.coords else None) for dim in X.dims)
            X = X.values
        if hasattr(X, "coords") and hasattr(X, "data") and hasattr(X, "shape") and not isinstance(X, np.ndarray):
            coords = tuple(np.asarray(part, np.int64) for part in X.coords)
            return cls._checked(tuple(X.shape), np.asarray(X.data), coords, labels)
        values = np.asarray(structured(X))  # what a masked array hides is missing
        return cls._checked(values.shape, values, None, labels)

    @classmethod
    def _checked(cls, shape: tuple[int, ...], values: Array, coords: Any, labels: Any) -> Cube:
        if len(shape) < 2 or 0 in shape:
            raise ValueError(f"X has shape {shape}: a tensor has two modes or more, none of them empty.")
        if math.prod(shape) // max(shape) > MOST_COLUMNS:
            raise ValueError(f"X has shape {shape}: the product of all modes but the longest is above {MOST_COLUMNS}.")
        return cls(tuple(map(int, shape)), values, coords, labels)

    @property
    def rows(self) -> int:
        """The mode to make rows of: the longest, of a dense X where that needs no copy."""
        modes = len(self.shape)
        free = (0,) if modes == 2 else (0, modes - 1) if self.coords is None else range(modes)
        return max(free, key=lambda k: self.shape[k])

    def order(self, row: int) -> list[int]:
        """List the modes, that of the rows of an unfolding first."""
        return [row, *(k for k in range(len(self.shape)) if k != row)]

    def mode(self, name: object, what: str) -> int:
        """Find a mode by its number or its dimension."""
        names = [dim for dim, _ in self.labels or ()]
        if isinstance(name, str) and name in names:
            return names.index(name)
        name = int(name) if isinstance(name, str) and name.isdigit() else name  # as files have it
        if isinstance(name, bool) or not isinstance(name, int | np.integer) or not 0 <= name < len(self.shape):
            known = f"0 to {len(self.shape) - 1}" + (f", {', '.join(names)}" if names else "")
            raise ValueError(f"{what} names the mode {name!r}, which X does not have: its modes are {known}.")
        return int(name)

    def unfolded(self, order: Sequence[int]) -> Entries:
        """Return the matrix with the first mode of an order as rows and the others as columns, the last fastest."""
        sizes = [self.shape[k] for k in order]
        if self.coords is None:
            return np.transpose(self.values, order).reshape(sizes[0], -1)
        columns = np.ravel_multi_index([self.coords[k] for k in order[1:]], sizes[1:])
        return sp.csr_array((self.values, (self.coords[order[0]], columns)), shape=(sizes[0], math.prod(sizes[1:])))

    @contextmanager
    def places_named(self, order: Sequence[int]) -> Iterator[None]:
        """Name an entry that is refused, as in X[1, 17], by its indices in the tensor: all checks are of unfoldings."""

        def own(place: re.Match[str]) -> str:
            row, column = int(place[2]), int(place[3])
            within = row, *np.unravel_index(column, [self.shape[k] for k in order[1:]])
            return f"{place[1]}[{', '.join(str(within[order.index(k)]) for k in range(len(order)))}]"

        try:
            yield
        except ValueError as error:
            said = re.sub(r"\b(X|entry_weight|uncertainty)\[(\d+), (\d+)\]", own, str(error))
            if said == str(error):
                raise
            raise ValueError(said) from None

    def weights(self, order: Sequence[int], entry_weight: WeightsLike, uncertainty: WeightsLike) -> dict[str, Any]:
        """Unfold weights of the shape of X, or of one that broadcasts to it."""

        def unfolded(name: str, M: WeightsLike) -> WeightsLike:
            if M is None or isinstance(M, HeldOut):
                return M
            try:
                whole = np.transpose(np.broadcast_to(np.asarray(M), self.shape), order)
            except ValueError:
                raise ValueError(
                    f"{name} has shape {np.shape(M)}, which does not broadcast to that of X, {self.shape}."
                ) from None
            return np.ascontiguousarray(whole).reshape(whole.shape[0], -1)

        return {name: unfolded(name, M) for name, M in (("entry_weight", entry_weight), ("uncertainty", uncertainty))}

    def labelled(self, factor: Array, mode: int) -> Array:
        """Return a factor with the labels of its mode, where X had some."""
        if self.labels is None:
            return factor
        from xarray import DataArray

        name, values = self.labels[mode]
        return DataArray(factor, dims=(name, "component"), coords={} if values is None else {name: values})


def _column_sizes(shape: object, columns: int) -> tuple[int, ...]:
    """Check the shape that an unfolding is given with, and return the sizes of the modes that are its columns."""
    if not isinstance(shape, Sequence | np.ndarray) or isinstance(shape, str) or len(shape) < 2:
        raise ValueError(f"shape={shape!r} must list the sizes of all modes of X, as in shape=(6, 5, 4).")
    sizes = tuple(check_integer(f"shape[{k}]", size, 1) for k, size in enumerate(shape))[1:]
    if math.prod(sizes) != columns:
        raise ValueError(
            f"shape={tuple(shape)} asks for {math.prod(sizes)} columns, the product of all modes but the first, but "
            f"X has {columns}: give the sizes of the modes that X was unfolded from."
        )
    return sizes


def mode_penalties(penalties: object, cube: Cube) -> list[Any]:
    """Check penalties of a tensor, each with the number of its mode; L1 and L2 without one are those of every mode."""
    found = []
    terms: Iterable[Any] = as_penalties(penalties)
    for term in terms:
        if not hasattr(term, "of_mode"):
            raise ValueError(
                f"The penalty {term.name} is one of matrices: give those of a tensor `mode` and `of_mode`."
            )
        if getattr(term, "on", "H") == "W" or getattr(term, "axis", 1) == 0:
            raise ValueError(f"The penalty {term.key} names a factor of a matrix: write mode=0, 1, ... instead.")
        every = term.mode is None and getattr(term, "on", "") == "both"
        if term.mode is None and not every:
            raise ValueError(f"The penalty {term.key} has no mode: write {term.key}:mode=1, for example.")
        modes = range(len(cube.shape)) if every else [cube.mode(term.mode, term.key)]
        found += [term.of_mode(mode) for mode in modes]
    return found


def _of_slices(penalties: Penalties, order: list[int]) -> Penalties:
    """Return the penalties as those of new slices of the first mode, the rows of a matrix; others do not see them."""
    terms, every = [], cast(Iterable[Any], penalties.terms)
    for term in every:
        own = order[mode_of(term) or 0] == 0
        where = {"axis": 1 - own} if isinstance(term, Smooth) else {"on": "W" if own else "H"}
        if own or isinstance(term, Sparsity):
            terms.append(replace(term, mode=None, **where))
    shape = penalties.setting.seen_from(order.index(0)).shape[::-1]
    return Penalties(tuple(terms), replace(penalties.setting, shape=shape))
