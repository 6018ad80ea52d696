"""DRNMF: the largest scaled loss as small as possible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from drnmf.algorithms.weights import Policy
from drnmf.estimators.base import NMF
from drnmf.estimators.deciding import (
    ROBUST_STARTS,
    fit_decided,
    is_auto,
    profile_for,
    size_profile_for,
    with_delta,
    with_size,
)
from drnmf.losses.base import Loss, Omega
from drnmf.losses.beta import Beta
from drnmf.losses.huber import lacks_delta
from drnmf.losses.interval import Interval, as_interval
from drnmf.losses.names import as_losses, every_loss, lacks_size
from drnmf.numerics import Array, MatrixLike, Vector
from drnmf.parameters.common import FOREIGN, MOVED
from drnmf.parameters.fields import Kind, documented, parameter
from drnmf.problem.weights import Reading
from drnmf.selection.folds import HELD_OUT
from drnmf.selection.outliers import HUBER_STARTS, huber_delta


@documented(MOVED | FOREIGN)
@dataclass(kw_only=True, eq=False, repr=False)
class DRNMF(NMF):
    r"""Fit distributionally robust NMF: the largest scaled loss as small as possible (section 4 of the paper).

    .. math:: \min_{W, H \ge 0} \max_{\beta \in \Omega} D_\beta(X, WH) / e_\beta

    Attributes
    ----------
    components_ : (r, n), H
    weights_ : (p,), lambda after the move that followed the factors returned, which the next iteration would use
    references_, losses_, scaled_losses_ : (p,), e_beta (the smallest D_beta found, a local minimum), and D_beta and
        D_beta / e_beta at the factors returned
    reconstruction_err_ : the largest scaled loss
    gap_, stationarity_ : local certificates, zero where lambda is best for the factors and where no small change of
        the factors lowers the largest scaled loss; they do not see other minima
    coverage_ : for an Interval, the losses along it and the bound that holds for all of it; else None
    trace_ : scaled_losses and weights of shape (n_iter_ + 1, p), seconds, gap, sweeps
    groups_ : the labels of the groups, None without; with them every attribute of losses has one entry for each group
        and loss (`loss_names_`: "KL, hospital B"), and `scaled_losses_` are regrets: distances from what a group
        reaches alone (`references_`), in that of its simplest model
    row_weights_ : (m,), how much every row counted in the last step, in a middle one; None where all count alike
    noise_profile_ : with ``betas="auto"``, what the losses were compared by
    single_losses_ : (p, p), every loss (column) at each single-objective solution (row); None with given references

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(0.1, 1, (20, 15))
    >>> model = DRNMF(3, betas=(0, 1), tol=0, max_iter=200, random_state=0).fit(X)
    >>> bool(model.reconstruction_err_ < 1.1)
    True
    """

    betas: Iterable[float | str | Loss] | Interval | str = parameter(
        (1, 2),
        Kind("list, Interval or str"),
        "Omega: distinct numbers >= 0, names, or losses such as ``NegativeBinomial(30)``; or an `Interval`, every "
        "beta between two ends.",
        '"auto" is the betas that held-out entries of X cannot tell from the best (`drnmf.noise_profile`), from '
        'two starts at least where `init` is "auto" too; "nb:auto", alone or in a list, is the negative binomial '
        "with its size by likelihood.",
    )

    def _undecided(self) -> bool:
        return is_auto(self.betas) or lacks_size(self.betas) or lacks_delta(self.betas)

    def _decide(self, X: MatrixLike, reading: Reading, fit: Callable[[Any], Array]) -> Array:
        if self._solver.references is not None:
            raise ValueError("references cannot be given for losses that are found during the fit ('auto').")
        if lacks_delta(self.betas):
            chosen = with_delta(self.betas, huber_delta(self, X, reading))
            return fit_decided(self, None, "betas", chosen, HUBER_STARTS, fit)
        if lacks_size(self.betas):
            sized = size_profile_for(self, X, reading)
            return fit_decided(self, sized, "betas", with_size(self.betas, sized), 1, fit)
        profile = profile_for(self, X, reading, held_out=HELD_OUT)
        return fit_decided(self, profile, "betas", profile.losses, ROBUST_STARTS, fit)

    def _interval(self) -> Interval | None:
        return as_interval(self.betas)

    def _omega(self) -> Omega:
        interval = self._interval()
        if interval is not None:
            return tuple(Beta(beta) for beta in interval.first_knots())
        return as_losses(self.betas) if not isinstance(self.betas, Mapping) else every_loss(self.betas)

    def _references(self, p: int) -> Vector | None:
        if self._solver.references is not None and self._interval() is not None:
            raise ValueError("references cannot be given for an Interval: its knots are found during the fit.")
        return super()._references(p)

    def _policy(self, p: int) -> str | Policy:
        return self._solver.policy
