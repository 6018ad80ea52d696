"""NMF and non_negative_factorization with scikit-learn's parameters, attributes and messages.

What is checked and said, and where a fit begins, is scikit-learn's own, inherited: the same seed gives the same start.
The fit is this package's (`engine`), which is loaded when there is one.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn import decomposition
from sklearn.base import _fit_context
from sklearn.decomposition import _nmf as theirs
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from drnmf.estimators.tables import Shares, shares_of

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import ArrayLike

    from drnmf.numerics import Array, Entries, MatrixLike, Maybe
    from drnmf.sklearn.engine import Settings

    Weights = ArrayLike | None

FORMS: dict[str, Any] = {"accept_sparse": ("csr", "csc"), "dtype": [np.float64, np.float32]}
DEVICE = {"device": [str, None]}


class Translated(theirs._BaseNMF):  # type: ignore[misc]
    """What the estimators here share: scikit-learn's parameters as settings of the engine."""

    device: str | None = None  # of subclasses too whose `__init__` knows scikit-learn's parameters alone

    def fit(
        self, X: MatrixLike, y: object = None, W: Maybe = None, H: Maybe = None, sample_weight: Weights = None
    ) -> Self:
        """Factorise X as W H.

        Parameters
        ----------
        X : array or sparse matrix of shape (m, n), nonnegative
        y : ignored
        W, H : the start, with ``init="custom"``; one alone will do
        sample_weight : (m,), how much every row counts, >= 0

        Returns
        -------
        self : the fitted estimator
        """
        given = {"W": W, "H": H, "sample_weight": sample_weight}  # a subclass may take fewer
        self.fit_transform(X, **{name: value for name, value in given.items() if value is not None})
        return self

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit_transform(
        self, X: MatrixLike, y: object = None, W: Maybe = None, H: Maybe = None, sample_weight: Weights = None
    ) -> Array:
        """Fit, and return W.

        Parameters
        ----------
        X, y, W, H, sample_weight : as in `fit`

        Returns
        -------
        W : array of shape (m, r)
        """
        here = validate_data(self, on_host(X), **FORMS)
        W, self.components_ = self._fitted(X, here, W, H, sample_weight)
        self.n_components_ = self.components_.shape[0]
        self.shares_ = shares_of(W, self.components_)
        return W

    def transform(self, X: MatrixLike) -> Array:
        """Compute W for new rows, each on its own.

        Parameters
        ----------
        X : as in `fit`

        Returns
        -------
        W : array of shape (rows of X, r)
        """
        check_is_fitted(self)
        here = validate_data(self, on_host(X), reset=False, ensure_non_negative=True, **FORMS)
        return self._transformed(X, here)

    def _fitted(self, X: MatrixLike, here: Entries, W: Maybe, H: Maybe, sample_weight: Weights) -> tuple[Array, Array]:
        """Fit `here`, X on the host and checked, and return W and H in the kind of X."""
        raise NotImplementedError

    def _transformed(self, X: MatrixLike, here: Entries) -> Array:
        """Find W of `here`, X on the host and checked, under the components, in the kind of X."""
        raise NotImplementedError

    def _settings(self) -> Settings:
        alpha = np.array([self.alpha_W, self.alpha_W if self.alpha_H == "same" else self.alpha_H])
        l1, l2 = (tuple((share * alpha).tolist()) for share in (self.l1_ratio, 1.0 - self.l1_ratio))
        found: Settings = engine().Settings(
            self._beta_loss,
            l1,
            l2,
            self.max_iter,
            self.tol,
            self.solver,
            self.verbose,
            self.device,
            name=type(self).__name__,
        )
        return found

    def _checked(self, X: Entries) -> None:
        self._check_params(X)
        if self._beta_loss <= 0 and X.min() == 0:
            raise ValueError(
                "When beta_loss <= 0 and X contains zeros, the solver may diverge. Please add small values to X, or "
                "use a positive beta_loss."
            )

    def _check_w_h(self, X: Entries, W: Maybe, H: Maybe, update_H: bool) -> tuple[Array, Array]:
        """Begin where scikit-learn would; X below its thresholds, or whose squares leave float32, in another unit."""
        size = float(X.max())
        if not update_H or self.init == "custom" or size == 0 or 1e-10 < size < 1e10:
            W, H = super()._check_w_h(X, W, H, update_H)
            return W, H
        root = math.ldexp(1.0, max(math.frexp(size)[1] // 2, -500))  # a power of two: nothing is rounded
        W, H = super()._check_w_h(X / root / root, W, H, update_H)
        return W * root, H * root

    def _completed(self, X: Entries, W: Maybe, H: Maybe) -> tuple[Maybe, Maybe]:
        """Find the factor that was not given, where only the other one was."""
        if self.init != "custom" or (W is None) == (H is None):
            return W, H
        if W is None:
            H = check_array(H, dtype=X.dtype, ensure_non_negative=True)
            return engine().contributions(X, H, self._settings()), H
        W = check_array(W, dtype=X.dtype, ensure_non_negative=True)
        return W, np.ascontiguousarray(engine().contributions(X.T, W.T, self._settings()).T)

    def _warn_of_the_limit(self, n_iter: int) -> None:
        if n_iter == self.max_iter and self.tol > 0:
            warnings.warn(
                f"Maximum number of iterations {self.max_iter} reached. Increase it to improve convergence.",
                ConvergenceWarning,
                stacklevel=4,
            )


class NMF(Translated, Shares, decomposition.NMF):  # type: ignore[misc]
    """Fit scikit-learn's NMF with the engine of this package.

    Parameters, attributes, messages and their meaning are those of `sklearn.decomposition.NMF`, of which it is a
    subclass. ``solver="cd"`` runs coordinate descent, ``solver="mu"`` multiplicative steps followed by Newton steps:
    each iteration lowers the loss at least as far, so a fit ends as low in fewer of them.

    Parameters
    ----------
    n_components, init, solver, beta_loss, tol, max_iter, random_state, alpha_W, alpha_H, l1_ratio, verbose : as in
        scikit-learn; with ``init="custom"`` W or H may be left out
    shuffle : whether the order of the components in coordinate descent is drawn, once for a fit
    device : None (where X is), "auto", "cpu", "cuda", "cuda:1" or "cuda-blocks"

    Attributes
    ----------
    components_ : (r, n), H
    n_components_, n_features_in_, feature_names_in_ : as in scikit-learn
    reconstruction_err_ : sqrt(2 D), for beta_loss="frobenius" the norm of X - WH
    n_iter_ : iterations
    shares_ : (m, r), the part of every row that each component explains

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1, 1], [2, 1], [3, 1.2], [4, 1], [5, 0.8], [6, 1]])
    >>> model = NMF(n_components=2, init="random", random_state=0)
    >>> W = model.fit_transform(X)
    >>> bool(model.reconstruction_err_ < 0.1)
    True
    """

    _parameter_constraints: ClassVar[dict[str, object]] = decomposition.NMF._parameter_constraints | DEVICE

    def __init__(
        self,
        n_components: int | str | None = "auto",
        *,
        init: str | None = None,
        solver: str = "cd",
        beta_loss: float | str = "frobenius",
        tol: float = 1e-4,
        max_iter: int = 200,
        random_state: int | np.random.RandomState | None = None,
        alpha_W: float = 0.0,
        alpha_H: float | str = "same",
        l1_ratio: float = 0.0,
        verbose: int = 0,
        shuffle: bool = False,
        device: str | None = None,
    ) -> None:
        super().__init__(
            n_components=n_components, init=init, solver=solver, beta_loss=beta_loss, tol=tol, max_iter=max_iter,
            random_state=random_state, alpha_W=alpha_W, alpha_H=alpha_H, l1_ratio=l1_ratio, verbose=verbose,
            shuffle=shuffle,
        )  # fmt: skip
        self.device = device

    def _fitted(self, X: MatrixLike, here: Entries, W: Maybe, H: Maybe, sample_weight: Weights) -> tuple[Array, Array]:
        W, H, self.n_iter_, self.reconstruction_err_ = self._factorised(
            here, W, H, sample_weight, _where_it_is(X, here)
        )
        return W, H

    def _transformed(self, X: MatrixLike, here: Entries) -> Array:
        return self._contributions(here, None, on_host(self.components_), _where_it_is(X, here))[0]

    def _contributions(self, X: Entries, W: Maybe, H: Maybe, there: Entries = None) -> tuple[Array, Array]:
        """Find W under H; `there` is X where it is fitted, if not in host memory."""
        self._checked(X)
        _, H = self._check_w_h(X, W, H, False)
        return engine().contributions(X if there is None else there, H, self._settings()), H

    def _factorised(
        self, X: Entries, W: Maybe, H: Maybe, sample_weight: Weights, there: Entries = None
    ) -> tuple[Array, Array, int, float]:
        """Begin where scikit-learn would, and fit; `there` is X where it is fitted, if not in host memory."""
        self._checked(X)
        W, H = self._check_w_h(X, *self._completed(X, W, H), True)
        if self.shuffle:
            order = check_random_state(self.random_state).permutation(H.shape[0])
            W, H = W[:, order], H[order]
        found = engine().factorise(X if there is None else there, W, H, self._settings(), sample_weight)
        self._warn_of_the_limit(found.n_iter)
        if self.shuffle:
            back = np.argsort(order)
            return found.W[:, back], found.H[back], found.n_iter, found.error
        return found.W, found.H, found.n_iter, found.error


def on_host(X: MatrixLike) -> Entries:
    """Return a tensor or an array of another library as NumPy's: scikit-learn's checks and starts are made for it."""
    return X if isinstance(X, np.ndarray) or not hasattr(X, "__dlpack__") else engine().as_numpy(X)


def _where_it_is(X: Entries, here: Entries) -> Entries:
    """Return the tensor or array that is to be fitted in its place; None where it is in host memory or was cast."""
    moved = isinstance(here, np.ndarray) and not isinstance(X, np.ndarray) and hasattr(X, "__dlpack__")
    return X if moved and str(X.dtype).endswith(str(here.dtype)) else None


def engine() -> ModuleType:
    """Load the engine with the first fit: ``import drnmf.sklearn`` costs no more than scikit-learn does."""
    from drnmf.sklearn import engine as loaded

    return loaded


def non_negative_factorization(
    X: MatrixLike,
    W: Maybe = None,
    H: Maybe = None,
    n_components: int | str | None = "auto",
    *,
    init: str | None = None,
    update_H: bool = True,
    solver: str = "cd",
    beta_loss: float | str = "frobenius",
    tol: float = 1e-4,
    max_iter: int = 200,
    alpha_W: float = 0.0,
    alpha_H: float | str = "same",
    l1_ratio: float = 0.0,
    random_state: int | np.random.RandomState | None = None,
    verbose: int = 0,
    shuffle: bool = False,
    device: str | None = None,
) -> tuple[Array, Array, int]:
    """Compute W and H as `NMF` does; with ``update_H=False`` W alone, under the H given.

    Parameters
    ----------
    X : array or sparse matrix of shape (m, n)
    W, H : the start with ``init="custom"``, or H with ``update_H=False``
    n_components, init, solver, beta_loss, tol, max_iter, alpha_W, alpha_H, l1_ratio, random_state, verbose, shuffle,
        device : as in `NMF`
    update_H : whether H is found too

    Returns
    -------
    W, H : the factors
    n_iter : iterations; 1 with ``update_H=False``, where every row is brought to its end at once

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1, 1], [2, 1], [3, 1.2], [4, 1], [5, 0.8], [6, 1]])
    >>> W, H, n_iter = non_negative_factorization(X, n_components=2, init="random", random_state=0)
    >>> W.shape, H.shape
    ((6, 2), (2, 2))
    """
    model = NMF(
        n_components, init=init, solver=solver, beta_loss=beta_loss, tol=tol, max_iter=max_iter, alpha_W=alpha_W,
        alpha_H=alpha_H, l1_ratio=l1_ratio, random_state=random_state, verbose=verbose, shuffle=shuffle, device=device,
    )  # fmt: skip
    model._validate_params()
    X = check_array(X, **FORMS)
    if update_H:
        return model._factorised(X, W, H, None)[:3]
    return *model._contributions(X, W, H), 1
