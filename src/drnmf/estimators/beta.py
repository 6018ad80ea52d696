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
    with_size,
)
from drnmf.inputs.weights import Reading
from drnmf.losses.base import Loss, Omega
from drnmf.losses.names import as_loss, lacks_size
from drnmf.numerics import Array, Vector
from drnmf.selection.folds import HELD_OUT


@dataclass(kw_only=True, eq=False, repr=False)
class BetaNMF(NMF):
    r"""Fit NMF under one loss: min over W, H >= 0 of D_beta(X, WH).

    Parameters
    ----------
    n_components : r, the number of components
    beta : number >= 0, or "itakura-saito" (0), "kullback-leibler" (1), "frobenius" (2), or a loss such as
        ``NegativeBinomial(30)``; "auto" takes the beta under which X is most likely (`drnmf.noise_profile`),
        from four starts at least where `init` is "auto" too; "nb:auto" the negative binomial, its size by likelihood
    update : "auto" (for beta = 2 "hals"; else 30 multiplicative steps, the later ones extrapolated, then Newton steps,
        up to r = 24 with a curvature for every column, above with one for all), "mu" (Algorithm 1 of the paper),
        "extrapolated", "monotone", "newton" (a curvature for every column at any r), "hals" (coordinate descent on
        W'W, for beta = 2 alone); "mu" returns the last iterate, the others the best point met
    init : "auto" ("nndsvdar", then "random" for the other starts of n_init; "random" too where r > min(m, n) or X is
        very large), "random", "spa", "nndsvdar", or "custom" (W and H given to `fit`)
    references : what the loss is divided by in `scaled_losses_`, one number; None leaves it as it is
    max_iter, tol : tol=0 runs exactly max_iter iterations; else the fit stops when the loss has not
        fallen by more than tol (relative) over ten iterations. None is 1e-6; for beta = 2 alone, without penalties or
        constraints, the fit stops when it has fallen by less than 0.3 % over the last 30 % of its iterations
    zeros : "raise" or "floor", what to do with zeros of X when beta = 0
    random_state, n_init : seed, and the number of starts of which the best is kept
    max_time : seconds after which the fit stops
    callback : called after each iteration with an object that holds iteration, losses, scaled_losses,
        weights and seconds; returning True stops
    verbose : 1 shows a progress bar
    normalize : return components in canonical form (see `components_`)
    warm_start : start from the components of the last fit, with the W that X has under them; more components than it
        had are added small and random, of fewer the largest stay. Rows of X may be others, columns must be the same
    checkpoint, checkpoint_every : a folder where the fit is kept, and the seconds between two snapshots; a fit that
        was stopped, by kill -9 too, is resumed when it is called again with the same X and parameters
    penalties : what the objective holds beside the loss: None, or a list of `Sparsity`, `L1`, `L2` or of texts such as
        "sparsity:0.1" (docs/penalties/index.md)
    device : where to fit: None - where X is (the GPU of a CUDA tensor, else this machine), "auto" - a GPU
        where there is one, "cpu", "cuda", "cuda:1", or "cuda-blocks" - a GPU, with X kept in host memory and streamed
    precision : of products on a GPU, for X in float32 or half precision: "float32", or "tf32", which is faster
        (docs/gpu.md says what it costs)
    n_jobs : how many runs (starts, reference fits) go side by side, each on one core; None is one, with all cores for
        it, -1 as many as there are cores. Results do not depend on it. A fit on Dask or with a checkpoint takes its
        runs one after another, and so does one on a GPU unless X is small (docs/gpu.md)
    sum_to_one : "W" - every row of W sums to one (fractions of components); "H" - every column of H does; exact after
        every step. None: neither (docs/constraints.md)
    fixed : (f, n), components that do not move: the first f rows of H
    fixed_W : (m, f), contributions that do not move: the first f columns of W

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

    beta: float | str | Loss = 1.0

    @property
    def beta_(self) -> float:
        """The beta of the fit, NaN for a loss of another family."""
        check_is_fitted(self)
        return float(self.betas_[0])

    def _undecided(self) -> bool:
        return is_auto(self.beta) or lacks_size(self.beta)

    def _decide(self, X: Any, reading: Reading, fit: Callable[[Any], Array]) -> Array:
        if lacks_size(self.beta):
            sized = size_profile_for(self, X, reading)
            return fit_decided(self, sized, "beta", with_size(self.beta, sized), 1, fit)
        profile = profile_for(self, X, reading, held_out=HELD_OUT)
        return fit_decided(self, profile, "beta", profile.beta, STARTS, fit)

    def _omega(self) -> Omega:
        return (as_loss(self.beta),)

    def _policy(self, p: int) -> Policy:
        return Fixed()

    def _references(self, p: int) -> Vector | None:
        given = super()._references(p)
        return np.ones(1) if given is None else given
