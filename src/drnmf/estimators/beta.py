"""BetaNMF: NMF under one loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from drnmf.algorithms.weights import Fixed, Policy
from drnmf.estimators.base import NMF
from drnmf.estimators.deciding import (
    STARTS,
    fit_decided,
    is_auto,
    profile_for,
    size_profile_for,
    with_delta,
    with_size,
)
from drnmf.losses.base import Loss, Omega
from drnmf.losses.huber import lacks_delta
from drnmf.losses.names import as_loss, lacks_size
from drnmf.numerics import Array, MatrixLike, Vector
from drnmf.parameters.common import FOREIGN, MOVED
from drnmf.parameters.fields import Kind, documented, parameter
from drnmf.problem.parts import Division
from drnmf.problem.weights import Reading
from drnmf.selection.folds import HELD_OUT
from drnmf.selection.outliers import HUBER_STARTS, huber_delta


@documented(MOVED | FOREIGN)
@dataclass(kw_only=True, eq=False, repr=False)
class BetaNMF(NMF):
    r"""Fit NMF under one loss: min over W, H >= 0 of D_beta(X, WH).

    Attributes
    ----------
    components_ : (r, n), H; each row has the norm of its column of W, largest contribution first
    losses_, scaled_losses_, references_, weights_, betas_ : (1,); without references both losses are equal, and
        `betas_` is NaN for a loss that is no beta-divergence
    loss_names_ : the name of the loss
    reconstruction_err_ : the loss
    penalty_ : the sum of the penalties; what was minimised is reconstruction_err_ + penalty_
    penalty_path_ : for every alpha="auto", what was tried and what was chosen
    beta_ : the beta of the fit
    noise_profile_ : with ``beta="auto"``, what the betas were compared by
    dispersions_ : (1,), phi of the variance phi mu^(2 - beta) that the fit left
    n_iter_, converged_, reason_, trace_, notes_ : how the fit went

    Examples
    --------
    >>> import numpy as np
    >>> X = np.outer([1.0, 2.0, 3.0], [4.0, 5.0])
    >>> model = BetaNMF(1, beta="kullback-leibler", random_state=0).fit(X)
    >>> bool(model.reconstruction_err_ < 1e-9)
    True
    """

    beta: float | str | Loss = parameter(
        1.0,
        Kind("number >= 0, str or loss"),
        'The loss: a number, "itakura-saito" (0), "kullback-leibler" (1), "frobenius" (2), or one such as '
        "``NegativeBinomial(30)``.",
        '"auto" takes the beta under which X is most likely (`drnmf.noise_profile`), from four starts at least '
        'where `init` is "auto" too; "nb:auto" the negative binomial, its size by likelihood.',
    )

    @property
    def beta_(self) -> float:
        """The beta of the fit, NaN for a loss of another family."""
        check_is_fitted(self)
        return float(self.betas_[0])

    def _undecided(self) -> bool:
        return is_auto(self.beta) or lacks_size(self.beta) or lacks_delta(self.beta)

    def _decide(self, X: MatrixLike, reading: Reading, fit: Callable[[Any], Array]) -> Array:
        if lacks_delta(self.beta):
            chosen = with_delta(self.beta, huber_delta(self, X, reading))
            return fit_decided(self, None, "beta", chosen, HUBER_STARTS, fit)
        if lacks_size(self.beta):
            sized = size_profile_for(self, X, reading)
            return fit_decided(self, sized, "beta", with_size(self.beta, sized), 1, fit)
        profile = profile_for(self, X, reading, held_out=HELD_OUT)
        return fit_decided(self, profile, "beta", profile.beta, STARTS, fit)

    def _objectives(self, omega: Omega, division: Division | None) -> int:
        if division is not None:
            several, part = ("tables", "table") if division.across else ("groups", "group")
            raise ValueError(
                f"{several} make one objective of every {part}, and BetaNMF has one: use DRNMF(betas=[...]) for the "
                "largest of them, or MultiObjectiveNMF for their sum."
            )
        return 1

    def _omega(self) -> Omega:
        return (as_loss(self.beta),)

    def _policy(self, p: int) -> Policy:
        self._refuse_policy()
        return Fixed()

    def _references(self, p: int) -> Vector | None:
        given = super()._references(p)
        return np.ones(1) if given is None else given
