"""MiniBatchNMF with scikit-learn's parameters, attributes and messages.

The batches, what is checked and said, and when a fit is over is scikit-learn's own, inherited. What a batch does to W
and H is this package's stream; where one batch holds all rows there is none to follow, and they are fitted as by `NMF`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from sklearn import decomposition
from sklearn.utils.validation import check_non_negative

from drnmf.estimators.tables import Shares
from drnmf.sklearn.nmf import DEVICE, Translated, engine, on_host

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import ArrayLike

    from drnmf.algorithms.result import Progress
    from drnmf.numerics import Array, Entries, MatrixLike, Maybe, Vector
    from drnmf.solve.stream import StreamState


class MiniBatchNMF(Translated, Shares, decomposition.MiniBatchNMF):  # type: ignore[misc]
    """Fit scikit-learn's MiniBatchNMF with the stream of this package.

    Parameters, attributes, messages and their meaning are those of `sklearn.decomposition.MiniBatchNMF`, of which it is
    a subclass. Every batch moves W and H further than there, so fewer passes end as low.

    Parameters
    ----------
    n_components, init, batch_size, beta_loss, tol, max_no_improvement, max_iter, alpha_W, alpha_H, l1_ratio,
        fresh_restarts, random_state, verbose : as in scikit-learn
    forget_factor : what a pass leaves of the sums before it; sums that the first components made fade sooner
    fresh_restarts_max_iter, transform_max_iter : taken, but every row is brought to its end
    device : None (where X is), "auto", "cpu", "cuda", "cuda:1" or "cuda-blocks"

    Attributes
    ----------
    components_, n_components_, n_features_in_, feature_names_in_, reconstruction_err_, shares_ : as in `NMF`
    n_iter_, n_steps_ : passes that were begun, and batches

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).gamma(1.0, 1.0, (300, 3)) @ np.eye(3, 8)
    >>> model = MiniBatchNMF(3, batch_size=100, random_state=0)
    >>> W = model.fit_transform(X)
    >>> bool(model.reconstruction_err_ < 0.01 * np.linalg.norm(X))
    True
    """

    _weights: Vector | None = None  # of the rows, while they are fitted
    _parameter_constraints: ClassVar[dict[str, object]] = decomposition.MiniBatchNMF._parameter_constraints | DEVICE

    def __init__(
        self,
        n_components: int | str | None = "auto",
        *,
        init: str | None = None,
        batch_size: int = 1024,
        beta_loss: float | str = "frobenius",
        tol: float = 1e-4,
        max_no_improvement: int | None = 10,
        max_iter: int = 200,
        alpha_W: float = 0.0,
        alpha_H: float | str = "same",
        l1_ratio: float = 0.0,
        forget_factor: float = 0.7,
        fresh_restarts: bool = False,
        fresh_restarts_max_iter: int = 30,
        transform_max_iter: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        device: str | None = None,
    ) -> None:
        super().__init__(
            n_components=n_components, init=init, batch_size=batch_size, beta_loss=beta_loss, tol=tol,
            max_no_improvement=max_no_improvement, max_iter=max_iter, alpha_W=alpha_W, alpha_H=alpha_H,
            l1_ratio=l1_ratio, forget_factor=forget_factor, fresh_restarts=fresh_restarts,
            fresh_restarts_max_iter=fresh_restarts_max_iter, transform_max_iter=transform_max_iter,
            random_state=random_state, verbose=verbose,
        )  # fmt: skip
        self.device = device

    def _fitted(
        self, X: MatrixLike, here: Entries, W: Maybe, H: Maybe, sample_weight: ArrayLike | None
    ) -> tuple[Array, Array]:
        here = here.tocsr() if hasattr(here, "tocsr") else here  # rows are taken from it
        check_non_negative(here, "MiniBatchNMF (input X)")
        rows = engine().row_weights(here, sample_weight)
        some = self._fitted_rows if rows is None or rows.all() else self._fitted_to_some
        return self._in_kind_of(X, some(here, W, H, rows)), self._in_kind_of(X, self.components_)

    def _transformed(self, X: MatrixLike, here: Entries) -> Array:
        return self._in_kind_of(X, self._solve_W(here, on_host(self.components_), 0))

    def _in_kind_of(self, X: MatrixLike, factor: Array) -> Array:
        """Return a factor as an array of the library of X, where X is."""
        found: Array = engine().place(X, self.device, "float32").hand_back(factor)
        return found

    def _fitted_rows(self, X: Entries, W: Maybe, H: Maybe, rows: Vector | None) -> Array:
        """Fit rows of positive weights, None where each counts once."""
        self._weights = rows
        fitted = self._in_batches if X.shape[0] > self.batch_size else self._at_once
        try:
            W, self.components_, self.n_iter_, self.n_steps_ = fitted(X, W, H)
        finally:
            self._weights = None
        self.reconstruction_err_ = _stream().with_zeros(X, W, self.components_, self._settings(), rows)
        return W

    def _fitted_to_some(self, X: Entries, W: Maybe, H: Maybe, rows: Vector) -> Array:
        """Leave out rows that do not count, and find their W under the components of the others."""
        some = np.flatnonzero(rows)
        found = self._fitted_rows(X[some], None if W is None else np.asarray(W)[some], H, rows[some])
        W = self._solve_W(X, self.components_, 0)
        W[some] = found
        return W

    def partial_fit(self, X: MatrixLike, y: object = None, W: Maybe = None, H: Maybe = None) -> Self:
        """Take a batch of rows into account; see scikit-learn.

        Parameters
        ----------
        X, y, W, H : as in `fit`; the start counts in the first batch alone

        Returns
        -------
        self : the estimator
        """
        if hasattr(self, "components_"):
            self.components_ = on_host(self.components_)
        super().partial_fit(on_host(X), y, W, H)
        self.components_ = self._in_kind_of(X, self.components_)
        return self

    def _check_params(self, X: Entries) -> None:
        super()._check_params(X)
        self._state: StreamState | None = None
        self._rows, self._next = X.shape[0], 0
        self._costs: list[float] = []
        self._made_of: tuple[Array, int] | None = None

    def _check_w_h(self, X: Entries, W: Maybe, H: Maybe, update_H: bool) -> tuple[Array, Array]:
        """Make the start; what the singular vectors of all rows say is not for the first batch to forget."""
        W, H = super()._check_w_h(X, W, H, update_H)
        init = self.init or ("nndsvda" if self._n_components <= min(X.shape) else "random")
        if X.shape[0] > self._batch_size and init.startswith("nndsvd"):
            rows = np.ones(1) if self._weights is None else self._weights[:, None]
            self._made_of = (rows * W).T.astype(np.float64) @ W / X.shape[0], X.shape[0]
        return W, H

    def _in_batches(self, X: Entries, W: Maybe, H: Maybe) -> tuple[Array, Array, int, int]:
        self._checked(X)
        found: tuple[Array, Array, int, int] = self._fit_transform(X, *self._completed(X, W, H))
        return found

    def _minibatch_step(self, X: Entries, W: Maybe, H: Array, update_H: bool) -> float:
        """Take a batch into account, writing over W, where it is known, and H; return its cost for a row."""
        assert update_H
        settings = self._settings()
        new = self._state is not None and self._state.rows < self._rows  # a start says less than a projection
        first = self._solve_W(X, H, 0) if self.fresh_restarts else None if new else W
        stream, rows = _stream(), slice(self._next, self._next + X.shape[0])
        forget, weights = stream.half_life(self._batch_size, self._rho), None
        if self._weights is not None:
            self._next, weights = rows.stop % self._rows, self._weights[rows]
        step = stream.take(self._state, X, first, H, settings, forget, weights, self._made_of)
        self._state, H[:] = step.state, step.H
        if W is not None:
            W[:] = step.W
        return float(step.cost)

    def _minibatch_convergence(
        self, X: Entries, batch_cost: float, H: Array, H_buffer: Array, n_samples: int, step: int, n_steps: int
    ) -> bool:
        """Tell whether the fit is over, by the cost of all rows as they last came.

        A stream is soon where batches differ by more than a pass changes, so that costs of single ones, which are those
        of other rows each time, say nothing; and the first steps follow each batch too closely. So two passes are made
        before costs are compared. Nor does a batch of zeros say anything, which moves no H.
        """
        batches = n_steps // self.max_iter
        self._costs = [*self._costs, batch_cost][-batches:]
        over = super()._minibatch_convergence(X, np.mean(self._costs), H, H_buffer, n_samples, step, n_steps)
        if step + 1 < 2 * batches:
            self._ewa_cost = self._ewa_cost_min = None
            self._no_improvement = 0
        return bool(over) and X.max() > 0

    def _solve_W(self, X: Entries, H: Array, max_iter: int) -> Array:
        """Find W under H, every row to its end."""
        found: Array = engine().contributions(X, H, self._settings())
        return found

    def _at_once(self, X: Entries, W: Maybe, H: Maybe) -> tuple[Array, Array, int, int]:
        """Fit one batch that holds all rows: a stream would say the same of H again and again."""
        self._checked(X)
        W, H = self._check_w_h(X, *self._completed(X, W, H), True)
        settings = self._settings()
        self._ewa_cost = self._ewa_cost_min = None
        self._no_improvement, before, rows = 0, [H], X.shape[0]

        def over(progress: Progress) -> bool:
            if settings.penalties:  # under which the loss alone, that is known here, may rise
                self._ewa_cost_min = None
            now, cost = progress.components().copy(), float(progress.losses[0]) / rows
            before.append(now)
            return bool(
                self._minibatch_convergence(X, cost, now, before.pop(0), rows, progress.iteration - 1, self.max_iter)
            )

        found = engine().factorise(X, W, H, replace(settings, tol=0.0, verbose=0, over=over), self._weights)
        self._warn_of_the_limit(found.n_iter)
        W = self._solve_W(X, found.H, 0) if self.fresh_restarts else found.W
        return W, found.H, found.n_iter, found.n_iter

    @property
    def solver(self) -> str:
        """The family of steps, as `NMF` calls it."""
        return "mu"


def _stream() -> ModuleType:
    """Load the stream with the first fit."""
    from drnmf.sklearn import stream

    return stream
