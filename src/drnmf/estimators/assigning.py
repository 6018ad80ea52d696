"""Contributions with real zeros, of a fitted model."""

from __future__ import annotations

from typing import Any

import numpy as np

from drnmf.backends.open import is_dask
from drnmf.numerics import Array
from drnmf.problem.device import as_numpy, place
from drnmf.selection.assignment.assign import assigned
from drnmf.selection.entries import bound


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
        host, given = place(given.X, None, placement.precision), bound(given)
        dense = np.asarray(encoder.rows(host.open(given, self.mean_)))
        return assigned(encoder, given, host, dense, uncertainty is not None).contributions
