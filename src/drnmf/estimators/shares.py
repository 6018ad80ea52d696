"""Shares: how much of a row each component explains, what people take the largest of."""

from __future__ import annotations

from typing import Any

from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from drnmf.problem.foreign import as_host, is_foreign, kind_of, returned


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
