"""MultiObjectiveNMF: NMF under a weighted sum of losses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from drnmf.algorithms.weights import Fixed, Policy
from drnmf.estimators.base import NMF
from drnmf.losses.base import Loss, Omega
from drnmf.losses.names import as_losses, every_loss
from drnmf.objective.simplex import check_weights
from drnmf.parameters.common import FOREIGN, MOVED
from drnmf.parameters.fields import Kind, documented, parameter


@documented(MOVED | FOREIGN)
@dataclass(kw_only=True, eq=False, repr=False)
class MultiObjectiveNMF(NMF):
    r"""Fit NMF under a weighted sum of scaled losses (MO-NMF, section 2 of the paper).

    .. math:: \min_{W, H \ge 0} \sum_{\beta \in \Omega} \lambda_\beta D_\beta(X, WH) / e_\beta

    with e_beta the error of the single-objective fit from the same start with the same budget.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(0.1, 1, (20, 15))
    >>> model = MultiObjectiveNMF(3, betas=(1, 2), weights=(0.3, 0.7), tol=0, max_iter=50, random_state=0).fit(X)
    >>> model.scaled_losses_.shape
    (2,)
    """

    betas: Iterable[float | str | Loss] = parameter(
        (1, 2), Kind("list"), "Omega: distinct numbers >= 0, names, or losses such as ``NegativeBinomial(30)``."
    )
    weights: ArrayLike | None = parameter(
        None,
        Kind("(p,)", none=True),
        "lambda, on the simplex, aligned with betas; with groups one for each group and loss, or those of the "
        "losses for every group. None weighs all alike.",
    )

    def _omega(self) -> Omega:
        return as_losses(self.betas) if not isinstance(self.betas, Mapping) else every_loss(self.betas)

    def _policy(self, p: int) -> Policy:
        self._refuse_policy()
        if self.weights is None:
            return Fixed()
        losses = len(self._omega())
        if p > losses and np.shape(self.weights) == (losses,):  # those of the losses hold in every group
            weights = np.tile(check_weights(self.weights, losses), p // losses) * (losses / p)
            return Fixed(tuple(weights.tolist()))
        return Fixed(tuple(check_weights(self.weights, p).tolist()))
