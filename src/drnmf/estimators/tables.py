"""What estimators offer beside arrays, the engine apart: named components, entries of WH, shares of rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drnmf.backends.open import is_dask
from drnmf.numerics import Array, Indices, MatrixLike
from drnmf.problem.device import as_host, as_numpy, is_foreign, kind_of, place, returned
from drnmf.problem.problem import Problem
from drnmf.problem.scikit import ClassNamePrefixFeaturesOutMixin, TransformerMixin, check_is_fitted
from drnmf.problem.tabular import component_names
from drnmf.problem.weights import WeightsLike
from drnmf.selection.matching import positions


def places(asked: ArrayLike | Sequence[object], names: Iterable[object] | None) -> Indices:
    """Turn names, or positions from 0, into positions.

    >>> places(["b", "a"], ["a", "b"]).tolist(), places([1, 0], None).tolist()
    ([1, 0], [1, 0])
    """
    values = np.asarray(asked)
    if values.dtype.kind in "iu" or names is None:
        return values.astype(np.int64)
    return np.array(positions([str(value) for value in values.ravel().tolist()], [str(name) for name in names]))


class Shares(ClassNamePrefixFeaturesOutMixin, TransformerMixin):  # type: ignore[misc]
    """A transformer into contributions of components, which knows their shares too.

    Attributes
    ----------
    shares_ : (m, r), those of the rows of the last fit
    """

    components_: Array
    transform: Any
    shares_: Array

    def shares(self, X: MatrixLike, **given: object) -> Array:
        """Compute which part of every row each component explains: rows that sum to one.

        W multiplied by the sums of the components, as if each of those summed to one, and divided by its row sums. A
        row of which nothing is explained has equal shares.

        Parameters
        ----------
        X : as in `transform`
        given : further arguments of `transform`, such as ``entry_weight``

        Returns
        -------
        shares : array of shape (rows of X, r)

        Examples
        --------
        >>> from drnmf import BetaNMF
        >>> model = BetaNMF(2, random_state=0).fit(np.kron(np.eye(2), np.ones((3, 2))))
        >>> model.shares(np.array([[2.0, 2.0, 0.0, 0.0]])).max().round(6).item()
        1.0
        """
        return shares_of(self.transform(X, **given), self.components_)


class Factorising(Shares):
    """A transformer of this package: takes what is sparse or has gaps, and keeps its precision."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def components_frame(self) -> object:
        """Return the components as a pandas DataFrame: one per row, ``component_1`` and so on, under the columns of X.

        Returns
        -------
        pandas.DataFrame of shape (r, n)

        Examples
        --------
        >>> import drnmf
        >>> drnmf.BetaNMF(2, random_state=0).fit(np.eye(3)).components_frame().index.tolist()
        ['component_1', 'component_2']
        """
        check_is_fitted(self)
        H = as_numpy(self.components_)
        columns = getattr(self, "feature_names_in_", None)
        named = [str(j + 1) for j in range(H.shape[1])] if columns is None else list(columns)
        return import_module("pandas").DataFrame(H, component_names(H.shape[0]), named)

    def predict_entries(self, W: ArrayLike, rows: ArrayLike, columns: ArrayLike) -> Array:
        """Compute WH at pairs of a row and a column, without all of WH: ratings of users for items, say.

        Parameters
        ----------
        W : array or DataFrame of shape (rows, r), what `fit_transform` or `transform` returned
        rows, columns : sequences of one length; positions from 0, or names where W is a DataFrame and X had names

        Returns
        -------
        array with a value for every pair

        Examples
        --------
        >>> import drnmf
        >>> model = drnmf.BetaNMF(1, beta=2, random_state=0)
        >>> W = model.fit_transform(np.outer([1.0, 2.0], [3.0, 4.0]))
        >>> model.predict_entries(W, [0, 1], [1, 0]).round(3).tolist()
        [4.0, 6.0]
        """
        check_is_fitted(self)
        i = places(rows, getattr(W, "index", None))
        j = places(columns, getattr(self, "feature_names_in_", None))
        H = as_numpy(self.components_)
        return np.asarray(np.einsum("ij,ij->i", np.asarray(as_numpy(W))[i], H.T[j]))

    def assign(self: Any, X: MatrixLike, entry_weight: WeightsLike = None, uncertainty: WeightsLike = None) -> Array:
        """Compute W for rows as `transform` does, with real zeros: each row has the components that it needs.

        Components of a row are dropped one by one while its log-likelihood, under the noise of the loss, falls by less
        than half the logarithm of its observed entries plus the logarithm of the number of components. Of several
        losses the one counts whose noise suits X best.

        Parameters
        ----------
        X : as in `fit`, with the same number of columns; on this machine, in memory
        entry_weight, uncertainty : as in `fit`, of these rows

        Returns
        -------
        W : array of shape (rows of X, r)

        Raises
        ------
        ValueError
            For a Dask array, and where every row of W sums to one.

        Examples
        --------
        >>> import numpy as np
        >>> from drnmf import BetaNMF
        >>> rng = np.random.default_rng(0)
        >>> W = rng.gamma(1.0, 900.0, (40, 3)) * (rng.random((40, 3)) < 0.6)
        >>> X = rng.poisson(W @ rng.dirichlet(np.full(20, 0.2), 3))
        >>> model = BetaNMF(3, random_state=0).fit(X)
        >>> bool((model.assign(X) == 0).mean() > 0.3), bool((model.transform(X) == 0).mean() > 0.3)
        (True, False)
        """
        # here, because `drnmf.sklearn` is imported without the engine
        from drnmf.selection.assignment.assign import assigned, encoded
        from drnmf.selection.entries import bound

        if is_dask(X):
            raise ValueError("assign needs X in memory, and X is a Dask array: give some of its rows, computed.")
        if self.sum_to_one == "W":
            raise ValueError("assign finds how much of each component a row has, and sum_to_one='W' fixes their sum.")
        placement, given, encoder = self._received(as_numpy(X), entry_weight, uncertainty)
        host = place(given.X, None, placement.precision)
        problem = Problem.opened(host.open(bound(given)), bound(given))
        return assigned(encoder, problem, encoded(encoder, problem)).contributions


def shares_of(W: Array, H: Array) -> Array:
    """Compute the shares of given factors, in the kind of W.

    >>> shares_of(np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([[1.0], [3.0]])).tolist()
    [[0.25, 0.75], [0.5, 0.5]]
    """
    if is_foreign(W):
        return returned(kind_of(W), shares_of(as_host(W), as_host(H)))
    W = W.to_numpy() if hasattr(W, "to_numpy") else W
    sums = H.sum(1)
    parts = W / (float(W.max()) or 1.0)  # of large X the product of W and sums is beyond float32
    parts *= sums / (float(sums.max()) or 1.0)
    total = parts.sum(1)[:, None]
    empty = total == 0
    parts += empty / parts.shape[1]  # in place: W may be large
    parts /= total + empty
    return parts
