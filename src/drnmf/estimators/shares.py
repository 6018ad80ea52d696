"""Shares, how much of a row each component explains; and contributions with real zeros."""

from __future__ import annotations

from typing import Any

from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from drnmf.backends.open import is_dask
from drnmf.numerics import Array
from drnmf.problem.device import as_numpy, place
from drnmf.problem.foreign import as_host, is_foreign, kind_of, returned
from drnmf.problem.problem import Problem
from drnmf.selection.assignment.assign import assigned, encoded
from drnmf.selection.entries import bound


class Shares(ClassNamePrefixFeaturesOutMixin, TransformerMixin):  # type: ignore[misc]
    """A transformer into contributions of components, which knows their shares too.

    Attributes
    ----------
    shares_ : (m, r), those of the rows of the last fit
    """

    components_: Any
    transform: Any
    shares_: Any

    def shares(self, X: Any, **given: Any) -> Any:
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
        >>> import numpy as np
        >>> from drnmf import BetaNMF
        >>> model = BetaNMF(2, random_state=0).fit(np.kron(np.eye(2), np.ones((3, 2))))
        >>> model.shares(np.array([[2.0, 2.0, 0.0, 0.0]])).max().round(6).item()
        1.0
        """
        return shares_of(self.transform(X, **given), self.components_)


class Assigning:
    """What gives estimators `assign`."""

    def assign(self: Any, X: Any, entry_weight: Any = None, uncertainty: Any = None) -> Array:
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
        if is_dask(X):
            raise ValueError("assign needs X in memory, and X is a Dask array: give some of its rows, computed.")
        if self.sum_to_one == "W":
            raise ValueError("assign finds how much of each component a row has, and sum_to_one='W' fixes their sum.")
        placement, given, encoder = self._received(as_numpy(X), entry_weight, uncertainty)
        host = place(given.X, None, placement.precision)
        problem = Problem.opened(host.open(bound(given)), bound(given))
        return assigned(encoder, problem, encoded(encoder, problem)).contributions


def shares_of(W: Any, H: Any) -> Any:
    """Compute the shares of given factors, in the kind of W.

    >>> import numpy as np
    >>> shares_of(np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([[1.0], [3.0]])).tolist()
    [[0.25, 0.75], [0.5, 0.5]]
    """
    if is_foreign(W):
        return returned(kind_of(W), shares_of(as_host(W), as_host(H)))
    W = W.to_numpy() if hasattr(W, "to_numpy") else W
    parts = W * H.sum(1)
    total = parts.sum(1)[:, None]
    empty = total == 0
    parts += empty / parts.shape[1]  # in place: W may be large
    parts /= total + empty
    return parts
