"""The estimators of a matrix: BetaNMF (one loss), DRNMF (the largest scaled loss as small as possible) and
MultiObjectiveNMF (a weighted sum of losses). `load` reads a fitted one back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drnmf.algorithms.weights import Fixed, Policy
from drnmf.estimators.base import NMF
from drnmf.estimators.deciding import fit_under_found, left_to_data
from drnmf.estimators.saving import load_into
from drnmf.losses.base import Loss, Omega
from drnmf.losses.beta import Beta
from drnmf.losses.interval import Interval, as_interval
from drnmf.losses.names import as_loss, as_losses, every_loss
from drnmf.numerics import Array, MatrixLike, Vector
from drnmf.objective.simplex import check_weights
from drnmf.parameters.common import FOREIGN, MOVED
from drnmf.parameters.fields import Kind, documented, parameter
from drnmf.problem.parts import Division
from drnmf.problem.scikit import check_is_fitted
from drnmf.problem.weights import Reading


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
        return left_to_data(self.beta)

    def _decide(self, X: MatrixLike, reading: Reading, fit: Callable[[object], Array]) -> Array:
        return fit_under_found(self, "beta", X, reading, fit)

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
        return left_to_data(self.betas)

    def _decide(self, X: MatrixLike, reading: Reading, fit: Callable[[object], Array]) -> Array:
        if self._solver.references is not None:
            raise ValueError("references cannot be given for losses that are found during the fit ('auto').")
        return fit_under_found(self, "betas", X, reading, fit)

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


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model written by `save`. The file is data only: reading one from a stranger runs nothing.

    Parameters
    ----------
    path : the file

    Returns
    -------
    model : the fitted estimator

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> model = BetaNMF(1, random_state=0).fit(np.ones((3, 2)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(folder + "/model.npz")
    ...     load(folder + "/model.npz").n_components_
    1
    """
    from drnmf.estimators.tensor import CP  # here, because few files are of a tensor

    return load_into({cls.__name__: cls for cls in (BetaNMF, MultiObjectiveNMF, DRNMF, CP)}, path)
