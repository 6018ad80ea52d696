"""Components under their names, and single entries of WH: what estimators offer beside arrays."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from drnmf.numerics import Array
from drnmf.problem.device import as_numpy
from drnmf.problem.tabular import component_names
from drnmf.selection.matching import positions


class Tables:
    """Methods of a fitted estimator with `components_`."""

    def components_frame(self) -> Any:
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
        H = as_numpy(self.components_)  # type: ignore[attr-defined]
        columns = getattr(self, "feature_names_in_", None)
        named = [str(j + 1) for j in range(H.shape[1])] if columns is None else list(columns)
        return import_module("pandas").DataFrame(H, component_names(H.shape[0]), named)

    def predict_entries(self, W: Any, rows: Any, columns: Any) -> Array:
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
        H = as_numpy(self.components_)  # type: ignore[attr-defined]
        return np.asarray(np.einsum("ij,ij->i", np.asarray(as_numpy(W))[i], H.T[j]))


def places(asked: Any, names: Any) -> Any:
    """Turn names, or positions from 0, into positions.

    >>> places(["b", "a"], ["a", "b"]).tolist(), places([1, 0], None).tolist()
    ([1, 0], [1, 0])
    """
    values = np.asarray(asked)
    if values.dtype.kind in "iu" or names is None:
        return values.astype(np.int64)
    return np.array(positions([str(value) for value in values.ravel().tolist()], [str(name) for name in names]))
