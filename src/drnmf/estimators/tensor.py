"""CP: nonnegative tensors as sums of few components, under any of the losses of matrices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import clone

from drnmf.algorithms.weights import Fixed, Policy
from drnmf.backends.modes import column_products, split_columns
from drnmf.estimators.base import NMF
from drnmf.estimators.deciding import fitted_attributes
from drnmf.losses.base import Loss, Omega
from drnmf.losses.names import as_losses
from drnmf.numerics import Array, Vector
from drnmf.objective.simplex import check_weights
from drnmf.parameters.common import MOVED
from drnmf.parameters.fields import Kind, about, documented

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

    betas: float | str | Loss | Iterable[float | str | Loss] = field(
        default=2,
        metadata=about(
            Kind("number, str, Loss or list"), "The loss, or Omega: numbers >= 0, names, or losses such as ``nb:30``."
        ),
    )
    weights: ArrayLike | None = field(
        default=None,
        metadata=about(
            Kind("(p,)", none=True), "lambda of a weighted sum, aligned with betas; None makes the largest loss small."
        ),
    )
    shape: Sequence[int] | None = field(
        default=None,
        metadata=about(
            Kind("tuple", none=True),
            "Sizes of the modes, where X is given unfolded as a matrix (I, JK...), the last mode fastest.",
        ),
    )

    @property
    def column_modes(self) -> tuple[int, ...]:  # type: ignore[override]
        sizes = () if self.shape is None else tuple(int(size) for size in self.shape[1:])
        return sizes if len(sizes) > 1 else ()  # two modes are a matrix

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
        self, X: Any, y: Any = None, factors: Any = None, entry_weight: Any = None, uncertainty: Any = None
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

        Returns
        -------
        self : the fitted estimator
        """
        self.fit_transform(X, y, factors, entry_weight, uncertainty)
        return self

    def fit_transform(  # type: ignore[override]
        self, X: Any, y: Any = None, factors: Any = None, entry_weight: Any = None, uncertainty: Any = None
    ) -> Any:
        """Fit, and return the factor of the first mode, (I, r), in the unit of X.

        Parameters
        ----------
        X, y, factors, entry_weight, uncertainty : as in `fit`

        Returns
        -------
        A : array (I, r)
        """
        cube = Cube.of(X, self.shape)
        # rows of the unfolding: the longest mode, of a dense X where that needs no copy
        modes = len(cube.shape)
        free = range(modes) if cube.sparse else (0, modes - 1)
        row = max(free, key=lambda k: cube.shape[k]) if modes > 2 else 0
        order = [row, *(k for k in range(modes) if k != row)]
        inner = clone(self).set_params(shape=tuple(cube.shape[k] for k in order))
        W = H = None
        if factors is not None:
            W, H = factors[row], column_products([np.asarray(factors[k], np.float64).T for k in order[1:]])
        weights = {"entry_weight": entry_weight, "uncertainty": uncertainty}
        given = {name: None if M is None else cube.unfolded_like(M, order) for name, M in weights.items()}
        made = NMF.fit_transform(inner, cube.unfolded(order), y, W, H, **given)
        self.__dict__.update(fitted_attributes(inner))
        self._set_factors(np.asarray(made), order, cube)
        return cube.labelled(self.factors_[0], 0)

    def _set_factors(self, W: Array, order: list[int], cube: Cube) -> None:
        """Take the factors in the order of the modes, all but the first of unit sums."""
        found = [W.T, *split_columns(self.components_, [cube.shape[k] for k in order[1:]])]
        factors = [found[order.index(k)] for k in range(len(order))]
        sums = [np.maximum(F.sum(axis=1, keepdims=True), np.finfo(F.dtype).tiny) for F in factors]
        factors = [F / total for F, total in zip(factors, sums, strict=True)]
        factors[0] = factors[0] * np.prod(sums, axis=0)
        size = np.argsort(-factors[0].sum(axis=1), kind="stable")
        self.shape_ = cube.shape
        self.factors_ = [np.ascontiguousarray(F[size].T) for F in factors]
        self.components_ = column_products([F[size] for F in factors[1:]])
        self.n_features_in_ = self.components_.shape[1]
        self.mean_row_ = self.factors_[0].mean(axis=0)
        self.labels_ = cube.labels

    def transform(self, X: Any, entry_weight: Any = None, uncertainty: Any = None) -> Any:
        """Compute the factor of the first mode for new slices, all other factors fixed.

        Parameters
        ----------
        X : as in `fit`, with the same modes but the first
        entry_weight, uncertainty : as in `fit`, of the new slices

        Returns
        -------
        A : array (slices, r)
        """
        cube, order = Cube.of(X, self.shape), list(range(len(self.shape_)))
        if cube.shape[1:] != self.shape_[1:]:
            raise ValueError(f"X has shape {cube.shape}, but all modes after the first must be {self.shape_[1:]}.")
        weights = {"entry_weight": entry_weight, "uncertainty": uncertainty}
        given = {name: None if M is None else cube.unfolded_like(M, order) for name, M in weights.items()}
        return cube.labelled(NMF.transform(self, cube.unfolded(order), **given), 0)

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

    def to_tensorly(self) -> Any:
        """Return the decomposition as a ``CPTensor`` of tensorly, weights one and the scale in the first factor."""
        from tensorly.cp_tensor import CPTensor

        return CPTensor((np.ones(self.n_components_), [factor.copy() for factor in self.factors_]))


@dataclass(frozen=True)
class Cube:
    """A tensor as it was given: its entries, dense or as coordinates, and the labels of its modes."""

    shape: tuple[int, ...]
    values: Array
    coords: tuple[Any, ...] | None = None
    labels: tuple[tuple[str, Any], ...] | None = None

    @classmethod
    def of(cls, X: Any, shape: Sequence[int] | None = None) -> Cube:
        """Read an array, coordinates with values, a labelled array, or an unfolding of the shape given."""
        if shape is not None and np.ndim(X) == 2:
            X = X.toarray() if sp.issparse(X) else np.asarray(X)
            X = X.reshape(len(X), *(int(size) for size in shape[1:]))
        labels = None
        if hasattr(X, "dims") and hasattr(X, "values"):
            labels = tuple((str(dim), np.asarray(X.coords[dim]) if dim in X.coords else None) for dim in X.dims)
            X = X.values
        if hasattr(X, "coords") and hasattr(X, "data") and hasattr(X, "shape") and not isinstance(X, np.ndarray):
            coords = tuple(np.asarray(part, np.int64) for part in X.coords)
            return cls._checked(tuple(X.shape), np.asarray(X.data), coords, labels)
        values = np.asarray(X)
        return cls._checked(values.shape, values, None, labels)

    @classmethod
    def _checked(cls, shape: tuple[int, ...], values: Array, coords: Any, labels: Any) -> Cube:
        if len(shape) < 2 or 0 in shape:
            raise ValueError(f"X has shape {shape}: a tensor has two modes or more, none of them empty.")
        if math.prod(shape) // max(shape) > MOST_COLUMNS:
            raise ValueError(f"X has shape {shape}: the product of all modes but the longest is above {MOST_COLUMNS}.")
        return cls(tuple(map(int, shape)), values, coords, labels)

    @property
    def sparse(self) -> bool:
        return self.coords is not None

    def unfolded(self, order: Sequence[int]) -> Any:
        """Return the matrix with the first mode of an order as rows and the others as columns, the last fastest."""
        sizes = [self.shape[k] for k in order]
        if self.coords is None:
            return np.transpose(self.values, order).reshape(sizes[0], -1)
        columns = np.ravel_multi_index([self.coords[k] for k in order[1:]], sizes[1:])
        return sp.csr_array((self.values, (self.coords[order[0]], columns)), shape=(sizes[0], math.prod(sizes[1:])))

    def unfolded_like(self, weights: Any, order: Sequence[int]) -> Array:
        """Unfold weights of the shape of X, or of one that broadcasts to it."""
        whole = np.broadcast_to(np.asarray(weights), self.shape)
        return np.ascontiguousarray(np.transpose(whole, order)).reshape(self.shape[order[0]], -1)

    def labelled(self, factor: Array, mode: int) -> Any:
        """Return a factor with the labels of its mode, where X had some."""
        if self.labels is None:
            return factor
        from xarray import DataArray

        name, values = self.labels[mode]
        return DataArray(factor, dims=(name, "component"), coords={} if values is None else {name: values})
