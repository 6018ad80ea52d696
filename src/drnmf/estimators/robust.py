"""DRNMF: the largest scaled loss as small as possible."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
    with_size,
)
from drnmf.inputs.weights import Reading
from drnmf.losses.base import Loss, Omega
from drnmf.losses.beta import Beta
from drnmf.losses.interval import Interval, as_interval
from drnmf.losses.names import as_losses, lacks_size
from drnmf.numerics import Array, Vector
from drnmf.selection.folds import HELD_OUT


@dataclass(kw_only=True, eq=False, repr=False)
class DRNMF(NMF):
    r"""Fit distributionally robust NMF: the largest scaled loss as small as possible (section 4 of the paper).

    .. math:: \min_{W, H \ge 0} \max_{\beta \in \Omega} D_\beta(X, WH) / e_\beta

    Parameters
    ----------
    betas : Omega, distinct numbers >= 0, names, or losses such as ``NegativeBinomial(30)``; or an `Interval`, every
        beta between two ends; or "auto", the betas that held-out entries of X cannot tell from the best
        (`drnmf.noise_profile`), from two starts at least where `init` is "auto" too; "nb:auto", alone or in a list, is
        the negative binomial with its size by likelihood
    policy : how lambda moves: "auto" (`weights.Reactive` after 100 steps of Algorithm 3's; with update="mu" Algorithm
        3's throughout), "frank-wolfe"
        (Algorithm 3, step 1/(k+1)), "frank-wolfe-2" (2/(k+2)), "subgradient", "mirror", "reactive", "fixed", "minimax"
        (steps that never raise the maximum), or an object with `init(p)` and `step(weights, scaled_losses, state)`
    inner_iter : updates of (W, H) per move of lambda; with "subgradient" and many it is Algorithm 2
    references : e_beta, aligned with betas; None computes them
    others : as in `BetaNMF`

    Attributes
    ----------
    components_ : (r, n), H
    weights_ : (p,), lambda, the weights under which the factors were found
    references_, losses_, scaled_losses_ : (p,), e_beta, D_beta and D_beta / e_beta at the factors returned
    reconstruction_err_ : the largest scaled loss
    gap_, stationarity_ : certificates, zero at an optimal lambda and at a stationary point
    coverage_ : for an Interval, the losses along it and the bound that holds for all of it; else None
    trace_ : scaled_losses and weights of shape (n_iter_ + 1, p), seconds, gap, sweeps
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

    betas: Iterable[float | str | Loss] | Interval | str = (1, 2)
    policy: str | Policy = "auto"
    inner_iter: int = 1

    def _undecided(self) -> bool:
        return is_auto(self.betas) or lacks_size(self.betas)

    def _decide(self, X: Any, reading: Reading, fit: Callable[[Any], Array]) -> Array:
        if self.references is not None:
            raise ValueError("references cannot be given for losses that are found during the fit ('auto').")
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
        return as_losses(self.betas)

    def _references(self, p: int) -> Vector | None:
        if self.references is not None and self._interval() is not None:
            raise ValueError("references cannot be given for an Interval: its knots are found during the fit.")
        return super()._references(p)

    def _policy(self, p: int) -> str | Policy:
        return self.policy

    def _inner_iter(self) -> int:
        return self.inner_iter
