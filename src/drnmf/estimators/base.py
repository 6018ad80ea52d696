"""BetaNMF, MultiObjectiveNMF and DRNMF: the library as scikit-learn estimators."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from drnmf.algorithms.initialize import start
from drnmf.algorithms.loop import Callback, Control
from drnmf.algorithms.result import Interrupted, Result, Trace
from drnmf.algorithms.updates.base import Rule
from drnmf.algorithms.weights import Fixed, Policy
from drnmf.backends.base import Data, is_dask, losses_of
from drnmf.backends.host.blas import single_blas
from drnmf.fit import road as fitting
from drnmf.fit.encoder import Encoder
from drnmf.fit.references import Start, check_references
from drnmf.inputs.check import check_choice, check_integer, check_number, check_zeros, warn_dense_tiles
from drnmf.inputs.device import Placement, as_numpy, is_sparse, is_tensor, place, times
from drnmf.losses.beta import as_beta, as_betas, label
from drnmf.losses.interval import Coverage, Interval, as_interval
from drnmf.numerics import Array, Vector
from drnmf.objective.objective import Objective
from drnmf.objective.simplex import check_weights, vertex
from drnmf.storage import archive
from drnmf.storage.checkpoint import Checkpoint, keeper_of


class _NMF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What the three estimators share. Subclasses say which losses, which weights, and whether to scale."""

    n_components: int
    update: str | Rule
    init: str
    references: ArrayLike | None
    max_iter: int
    tol: float
    zeros: str
    random_state: int | np.random.RandomState | None
    n_init: int
    max_time: float | None
    callback: Callback | None
    verbose: int
    normalize: bool
    checkpoint: str | os.PathLike[str] | None
    checkpoint_every: float
    device: str | None
    precision: str

    def _betas(self) -> tuple[float, ...]:
        raise NotImplementedError

    def _interval(self) -> Interval | None:
        return None

    def _policy(self, p: int) -> str | Policy:
        raise NotImplementedError

    def _references(self, p: int) -> Vector | None:
        return None if self.references is None else check_references(self.references, p)

    def _inner_iter(self) -> int:
        return 1

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def fit(self, X: Any, y: Any = None, W: ArrayLike | None = None, H: ArrayLike | None = None) -> Self:
        """Factorise X (m x n) as W H with W (m x r) and H (r x n) nonnegative.

        Parameters
        ----------
        X : array, SciPy sparse matrix or torch.Tensor of shape (m, n), nonnegative
        y : ignored, here for pipelines
        W, H : the start, with ``init="custom"``
        """
        self.fit_transform(X, W=W, H=H)
        return self

    def fit_transform(self, X: Any, y: Any = None, W: ArrayLike | None = None, H: ArrayLike | None = None) -> Array:
        """Fit, and return W. More accurate and cheaper than ``fit(X).transform(X)``."""
        rank = check_integer("n_components", self.n_components, 1)
        betas, interval = self._betas(), self._interval()
        method = fitting.Method.of(self.update, self._policy(len(betas)))
        references = self._references(len(betas))
        control = self._control()
        every = check_number("checkpoint_every", self.checkpoint_every, 0.0)
        n_init = check_integer("n_init", self.n_init, 1)
        check_choice("zeros", self.zeros, ("raise", "floor"))
        spot = place(X, self.device, self.precision)
        X = spot.receive(self, X, reset=True)
        data = spot.wrap(X)
        notes = check_zeros(X, data, betas, self.zeros)
        warn_dense_tiles(is_sparse(X), X.shape, betas)
        runs = n_init * (1 if references is not None else 1 + len(betas))

        def make_starts() -> list[Start]:
            rng = check_random_state(self.random_state)
            return [start(data, rank, self.init, rng, as_numpy(W), as_numpy(H)) for _ in range(n_init)]

        started, given = self._progress(data), (as_numpy(W), as_numpy(H))
        with single_blas(), started as bar, self._keeper(data, every, *given) as keeper:
            starts = make_starts() if keeper is None else keeper.starts(make_starts)
            control = replace(control, keeper=keeper)
            budget = fitting.Budget(control, runs, bar.hook if bar is not None else lambda stage: None)
            name = type(self).__name__
            try:
                if interval is not None:
                    result = fitting.fit_interval(data, starts, interval, method, budget, self.callback, name)
                else:
                    result = fitting.fit_factors(data, starts, betas, references, method, budget, self.callback, name)
            except Interrupted as stop:
                self._adopt(self._canonical(_complete(stop.result, data, betas)), data, spot, notes)
                raise
            result = fitting.settle(data, self._canonical(result), control)
        factors = self._adopt(result, data, spot, notes)
        if control.tol > 0 and result.reason == "max_iter":
            warnings.warn(
                f"{type(self).__name__} has not converged after max_iter={control.max_iter} iterations: "
                "raise max_iter or tol, or set tol=0 to run exactly max_iter iterations.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return factors

    def _canonical(self, result: Result) -> Result:
        if not self.normalize:
            return result
        W, H = fitting.canonical(result.W, result.H)
        return replace(result, W=W, H=H)

    def _control(self) -> Control:
        return Control(
            max_iter=check_integer("max_iter", self.max_iter, 1),
            tol=check_number("tol", self.tol, 0.0),
            max_time=None if self.max_time is None else check_number("max_time", self.max_time, 0.0, strict=True),
            inner_iter=check_integer("inner_iter", self._inner_iter(), 1),
        )

    def _keeper(
        self, data: Data, every: float, W: ArrayLike | None, H: ArrayLike | None
    ) -> AbstractContextManager[Checkpoint | None]:
        """What keeps the fit in the folder `checkpoint`, if there is one."""
        parameters = {"estimator": type(self).__name__, **self.get_params(deep=False)}
        return keeper_of(self.checkpoint, every, data, parameters, W, H)

    def _progress(self, data: Data) -> Any:
        if not self.verbose:
            return nullcontext()
        from drnmf.fit.progress import ProgressBar

        traffic = getattr(data, "traffic", None)
        return ProgressBar(remark=None if traffic is None else traffic.describe)

    def _adopt(self, result: Result, data: Data, spot: Placement, notes: tuple[str, ...]) -> Array:
        """Fitted attributes from a result; returns W in the same form as `components_`."""
        self.components_ = spot.hand_back(result.H)
        self.n_components_ = result.H.shape[0]
        self.betas_ = np.array(result.betas)
        self.weights_ = result.weights
        self.references_ = result.references
        self.losses_ = result.losses
        self.scaled_losses_ = result.scaled_losses
        self.reconstruction_err_ = float(result.scaled_losses.max())
        self.n_iter_ = result.n_iter
        self.converged_ = result.converged
        self.reason_ = result.reason
        self.trace_ = result.trace
        self.notes_ = notes + result.notes
        self.single_losses_ = result.single_losses
        self.gap_ = float("nan") if result.certificate is None else result.certificate.gap
        self.stationarity_ = float("nan") if result.certificate is None else result.certificate.stationarity
        self.coverage_ = result.coverage
        self.mean_ = data.mean
        return spot.hand_back(result.W)

    def transform(self, X: Any) -> Array:
        """W of shape (rows of X, r) for new rows, with components and weights fixed; every row on its own.

        A Dask array gives a Dask array: nothing is computed, and nothing is checked, before somebody asks for it.
        """
        spot, X, encoder = self._received(X)
        if is_dask(X):
            from drnmf.backends.dask.arrays import map_rows

            return map_rows(encoder, X, self.components_.shape[0])
        data = spot.wrap(X, self.mean_)
        return spot.hand_back(encoder.rows(X, data))

    def _received(self, X: Any) -> tuple[Placement, Any, Encoder]:
        """New rows, checked, with where they are computed and what finds their W."""
        check_is_fitted(self)
        spot = place(X, self.device, self.precision)
        X, encoder = spot.receive(self, X, reset=False), self._encoder()
        warn_dense_tiles(is_sparse(X), X.shape, encoder.objective.betas)
        return spot, X, encoder

    def _encoder(self) -> Encoder:
        check_choice("zeros", self.zeros, ("raise", "floor"))
        control, objective = self._control(), Objective(tuple(self.betas_.tolist()), self.references_, self.mean_)
        return Encoder(
            as_numpy(self.components_), objective, self.weights_, control.max_iter, control.tol, self.zeros,
            type(self).__name__,
        )  # fmt: skip

    def inverse_transform(self, X: ArrayLike) -> Array:
        """WH for rows of W in X, of shape (rows, n_features_in_)."""
        check_is_fitted(self)
        W: Any = X if is_tensor(X) else np.asarray(X)
        if W.ndim != 2 or W.shape[1] != self.components_.shape[0]:
            raise ValueError(
                f"W has shape {tuple(W.shape)}, but this model has {self.components_.shape[0]} components: "
                "give what transform returned."
            )
        return times(W, self.components_)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the largest scaled loss max_b D_b(X, WH) / e_b of X under `transform`, per entry of X.

        Larger is better. Models are comparable when they share references: pass the same `references`
        to each (BetaNMF has none, so its models of one beta always compare).
        """
        spot, X, encoder = self._received(X)
        data = spot.wrap(X, self.mean_)
        W = encoder.rows(X, data)
        H = encoder.components.astype(data.dtype, copy=False)
        with single_blas():
            losses = losses_of(data, W, H, encoder.objective.betas)
        return -float((losses / self.references_).max()) / (X.shape[0] * X.shape[1])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model as plain data (one .npz, no pickle); read it back with `drnmf.load`."""
        check_is_fitted(self)
        arrays = {name: as_numpy(getattr(self, name)) for name in _ARRAYS}
        arrays |= {f"trace_{name}": getattr(self.trace_, name) for name in Trace.__dataclass_fields__}
        if self.coverage_ is not None:
            arrays |= {f"coverage_{name}": np.asarray(getattr(self.coverage_, name)) for name in _COVERAGE}
        if hasattr(self, "feature_names_in_"):
            arrays["feature_names_in_"] = np.array(self.feature_names_in_, dtype=str)
        meta: dict[str, Any] = {name: getattr(self, name) for name in _SCALARS}
        archive.write_archive(path, arrays, meta | {"class": type(self).__name__, "params": _plain_params(self)})


_ARRAYS = ("components_", "betas_", "weights_", "references_", "losses_", "scaled_losses_")
_SCALARS = (
    "n_components_", "reconstruction_err_", "n_iter_", "converged_", "reason_", "notes_", "mean_", "n_features_in_",
    "gap_", "stationarity_",
)  # fmt: skip


_COVERAGE = tuple(Coverage.__dataclass_fields__)


def _coverage_of(arrays: dict[str, Any]) -> Coverage | None:
    """The interval's coverage as `save` stored it."""
    if "coverage_betas" not in arrays:
        return None
    betas, losses, references = (arrays[f"coverage_{name}"] for name in _COVERAGE[:3])
    added = tuple((int(k), float(beta)) for k, beta in arrays["coverage_added"].reshape(-1, 2))
    bound, factor = float(arrays["coverage_bound"]), float(arrays["coverage_factor"])
    return Coverage(betas, losses, references, bound, factor, added)


def _plain_params(estimator: _NMF) -> dict[str, Any]:
    """Constructor arguments that JSON can hold; objects (a policy of one's own) are left at default."""
    plain: dict[str, Any] = {}
    for name, value in estimator.get_params(deep=False).items():
        if name in ("callback", "checkpoint"):  # of this fit, not of the model
            continue
        if isinstance(value, np.ndarray | np.generic):
            value = value.tolist()
        if isinstance(value, Interval):
            value = str(value)
        if isinstance(value, tuple | list):
            value = [item.item() if isinstance(item, np.generic) else item for item in value]
        if name != "device" and (value is None or isinstance(value, bool | int | float | str | list)):
            plain[name] = value
        elif name != "device":
            warnings.warn(f"save: {name} is an object and is not stored; load will use the default.", stacklevel=3)
    return plain


def load(path: str | os.PathLike[str]) -> Any:
    """A model written by `save`. The file is data only: reading one from a stranger runs nothing."""
    arrays, meta = archive.read_archive(path)
    classes = {cls.__name__: cls for cls in (BetaNMF, MultiObjectiveNMF, DRNMF)}
    try:
        estimator = classes[meta["class"]](**meta["params"])
        for name in _ARRAYS:
            setattr(estimator, name, arrays[name])
        for name in _SCALARS:
            setattr(estimator, name, meta[name])
        estimator.notes_ = tuple(estimator.notes_)
        estimator.coverage_ = _coverage_of(arrays)
        estimator.trace_ = Trace(**{name: arrays[f"trace_{name}"] for name in Trace.__dataclass_fields__})
        if "feature_names_in_" in arrays:
            estimator.feature_names_in_ = arrays["feature_names_in_"].astype(object)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a complete drnmf model file ({error}).") from None
    return estimator


def _complete(result: Result, data: Data, betas: tuple[float, ...]) -> Result:
    """A run cut short; one cut in a single-objective reference fit speaks for all betas at its point."""
    if len(result.betas) > 1 or result.betas == betas:
        return result
    losses = losses_of(data, result.W, result.H, betas)
    weights, ones = vertex(len(betas), betas.index(result.betas[0])), np.ones(len(betas))
    trace = Trace(ones[None], weights[None], np.zeros(1), np.zeros(1), result.trace.sweeps[-1:])
    note = f"Interrupted in the reference fit of {label(result.betas[0])}: the factors are that fit's."
    return Result(
        result.W, result.H, betas, np.maximum(losses, np.finfo(np.float64).tiny), losses, ones, weights, trace, 0,
        False, "interrupted", (note,),
    )  # fmt: skip


class BetaNMF(_NMF):
    r"""NMF under one beta-divergence: min over W, H >= 0 of D_beta(X, WH).

    Parameters
    ----------
    n_components : r, the number of components
    beta : number >= 0, or "itakura-saito" (0), "kullback-leibler" (1), "frobenius" (2)
    update : "auto" (30 multiplicative steps, the later ones extrapolated, then Newton steps where r <= 24), "mu"
        (Algorithm 1 of the paper), "extrapolated", "monotone", "newton" (as "auto", for any r); "mu" returns the last
        iterate, the others the best point met
    init : "random", "spa", "nndsvdar", or "custom" (W and H given to `fit`)
    references : what the loss is divided by in `scaled_losses_`, one number; None leaves it as it is
    max_iter, tol : tol=0 runs exactly max_iter iterations; else the fit stops when the loss has not
        fallen by more than tol (relative) over ten iterations
    zeros : "raise" or "floor", what to do with zeros of X when beta = 0
    random_state, n_init : seed, and the number of starts of which the best is kept
    max_time : seconds after which the fit stops
    callback : called after each iteration with an object that holds iteration, losses, scaled_losses,
        weights and seconds; returning True stops
    verbose : 1 shows a progress bar
    normalize : return components in canonical form (see `components_`)
    checkpoint, checkpoint_every : a folder where the fit is kept, and the seconds between two snapshots; a fit that
        was stopped, by kill -9 too, goes on from there when it is called again with the same X and parameters
    device : where to fit: None - where X is (the card of a CUDA tensor, else this machine's core), "auto" - a card
        where there is one, "cpu", "cuda", "cuda:1", or "cuda-blocks" - a card, with X kept in host memory and streamed
    precision : of products on a card, for X in float32 or half precision: "float32", or "tf32", which is faster
        (docs/gpu.md says what it costs)

    Attributes
    ----------
    components_ : (r, n), H; each row has the norm of its column of W, largest contribution first
    losses_, scaled_losses_, references_, weights_, betas_ : (1,); without references both losses are equal
    reconstruction_err_ : the loss
    n_iter_, converged_, reason_, trace_, notes_ : how the fit went

    Examples
    --------
    >>> import numpy as np
    >>> X = np.outer([1.0, 2.0, 3.0], [4.0, 5.0])
    >>> model = BetaNMF(1, beta="kullback-leibler", random_state=0).fit(X)
    >>> bool(model.reconstruction_err_ < 1e-9)
    True
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        beta: float | str = 1.0,
        update: str | Rule = "auto",
        init: str = "random",
        references: ArrayLike | None = None,
        max_iter: int = 1000,
        tol: float = 1e-6,
        zeros: str = "raise",
        random_state: int | np.random.RandomState | None = None,
        n_init: int = 1,
        max_time: float | None = None,
        callback: Callback | None = None,
        verbose: int = 0,
        normalize: bool = True,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: float = 30.0,
        device: str | None = None,
        precision: str = "float32",
    ) -> None:
        self.n_components = n_components
        self.beta = beta
        self.update = update
        self.init = init
        self.references = references
        self.max_iter = max_iter
        self.tol = tol
        self.zeros = zeros
        self.random_state = random_state
        self.n_init = n_init
        self.max_time = max_time
        self.callback = callback
        self.verbose = verbose
        self.normalize = normalize
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.device = device
        self.precision = precision

    def _betas(self) -> tuple[float, ...]:
        return (as_beta(self.beta),)

    def _policy(self, p: int) -> Policy:
        return Fixed()

    def _references(self, p: int) -> Vector | None:
        given = super()._references(p)
        return np.ones(1) if given is None else given


class MultiObjectiveNMF(_NMF):
    r"""NMF under a weighted sum of scaled losses (MO-NMF, section 2 of the paper).

    .. math:: \min_{W, H \ge 0} \sum_{\beta \in \Omega} \lambda_\beta D_\beta(X, WH) / e_\beta

    with e_beta the error of the single-objective fit from the same start with the same budget.

    Parameters
    ----------
    betas : Omega, distinct numbers >= 0 or names
    weights : lambda, on the simplex, aligned with betas; None weighs all alike
    references : e_beta, aligned with betas; None computes them
    others : as in `BetaNMF`

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(0.1, 1, (20, 15))
    >>> model = MultiObjectiveNMF(3, betas=(1, 2), weights=(0.3, 0.7), tol=0, max_iter=50, random_state=0).fit(X)
    >>> model.scaled_losses_.shape
    (2,)
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        betas: Iterable[float | str] = (1, 2),
        weights: ArrayLike | None = None,
        update: str | Rule = "auto",
        init: str = "random",
        references: ArrayLike | None = None,
        max_iter: int = 1000,
        tol: float = 1e-6,
        zeros: str = "raise",
        random_state: int | np.random.RandomState | None = None,
        n_init: int = 1,
        max_time: float | None = None,
        callback: Callback | None = None,
        verbose: int = 0,
        normalize: bool = True,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: float = 30.0,
        device: str | None = None,
        precision: str = "float32",
    ) -> None:
        self.n_components = n_components
        self.betas = betas
        self.weights = weights
        self.update = update
        self.init = init
        self.references = references
        self.max_iter = max_iter
        self.tol = tol
        self.zeros = zeros
        self.random_state = random_state
        self.n_init = n_init
        self.max_time = max_time
        self.callback = callback
        self.verbose = verbose
        self.normalize = normalize
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.device = device
        self.precision = precision

    def _betas(self) -> tuple[float, ...]:
        return as_betas(self.betas)

    def _policy(self, p: int) -> Policy:
        return Fixed() if self.weights is None else Fixed(tuple(check_weights(self.weights, p).tolist()))


class DRNMF(_NMF):
    r"""Distributionally robust NMF: the largest scaled loss as small as possible (section 4 of the paper).

    .. math:: \min_{W, H \ge 0} \max_{\beta \in \Omega} D_\beta(X, WH) / e_\beta

    Parameters
    ----------
    betas : Omega, distinct numbers >= 0 or names; or an `Interval`, every beta between two ends
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
    single_losses_ : (p, p), every loss (column) at each single-objective solution (row); None with given references

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(0.1, 1, (20, 15))
    >>> model = DRNMF(3, betas=(0, 1), tol=0, max_iter=200, random_state=0).fit(X)
    >>> bool(model.reconstruction_err_ < 1.1)
    True
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        betas: Iterable[float | str] | Interval | str = (1, 2),
        policy: str | Policy = "auto",
        inner_iter: int = 1,
        update: str | Rule = "auto",
        init: str = "random",
        references: ArrayLike | None = None,
        max_iter: int = 1000,
        tol: float = 1e-6,
        zeros: str = "raise",
        random_state: int | np.random.RandomState | None = None,
        n_init: int = 1,
        max_time: float | None = None,
        callback: Callback | None = None,
        verbose: int = 0,
        normalize: bool = True,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: float = 30.0,
        device: str | None = None,
        precision: str = "float32",
    ) -> None:
        self.n_components = n_components
        self.betas = betas
        self.policy = policy
        self.inner_iter = inner_iter
        self.update = update
        self.init = init
        self.references = references
        self.max_iter = max_iter
        self.tol = tol
        self.zeros = zeros
        self.random_state = random_state
        self.n_init = n_init
        self.max_time = max_time
        self.callback = callback
        self.verbose = verbose
        self.normalize = normalize
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.device = device
        self.precision = precision

    def _interval(self) -> Interval | None:
        return as_interval(self.betas)

    def _betas(self) -> tuple[float, ...]:
        interval = self._interval()
        return interval.first_knots() if interval is not None else as_betas(self.betas)  # type: ignore[arg-type]

    def _references(self, p: int) -> Vector | None:
        if self.references is not None and self._interval() is not None:
            raise ValueError("references cannot be given for an Interval: its knots are found during the fit.")
        return super()._references(p)

    def _policy(self, p: int) -> str | Policy:
        return self.policy

    def _inner_iter(self) -> int:
        return self.inner_iter
