"""Rows that keep coming: `partial_fit` and `fit_stream` of the estimators."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from drnmf.algorithms.initialize import begun, check_factor
from drnmf.algorithms.result import Trace
from drnmf.algorithms.weights import ByRule, Fixed, Policy, as_policy
from drnmf.backends.base import Data
from drnmf.backends.core import single_blas
from drnmf.backends.observed import HeldOut
from drnmf.backends.open import is_dask
from drnmf.estimators.deciding import AUTO
from drnmf.files import uninterrupted
from drnmf.losses.base import Omega, betas_of, is_frobenius
from drnmf.numerics import REFERENCE_FLOOR, SAFE_SQUARES, MatrixLike, factor_floor
from drnmf.objective.penalties import L1, L2
from drnmf.objective.penalty import NONE, Penalties, Penalty, Setting
from drnmf.parameters.common import Parameters
from drnmf.parameters.fields import check_integer, check_number, checked
from drnmf.problem.check import check_scale, check_zeros
from drnmf.problem.device import Placement, as_numpy, place
from drnmf.problem.problem import degrees_of_freedom
from drnmf.problem.receive import Received
from drnmf.problem.scikit import BaseEstimator, check_random_state
from drnmf.problem.units import Units
from drnmf.problem.weights import WeightsLike, reading_of
from drnmf.selection.growth import HELD, RECENT, Growth, asked_for, gain_of, held_rows, leftover, smallest_cosine
from drnmf.solve.runner import at_once
from drnmf.solve.settings import constraints_of, terms_of
from drnmf.solve.stream import Rows, StreamState, advance, begin, fitted, with_component
from drnmf.solve.tables import is_tables

OF_A_BATCH = ("X", "W", "H", "entry_weight", "uncertainty")
"""What a batch of `fit_stream` may have of its own."""


class Streaming(Parameters):
    """What the estimators do with rows that come in batches; `streams` says whether they do."""

    streams: ClassVar[bool] = True

    def partial_fit(
        self: Any,
        X: MatrixLike,
        y: object = None,
        W: ArrayLike | None = None,
        H: ArrayLike | None = None,
        entry_weight: WeightsLike = None,
        uncertainty: WeightsLike = None,
        forget: float | None = None,
        grow: bool = False,
    ) -> Any:
        """Take a batch of rows into account; nothing of them is kept but what they say of the components.

        The first call begins a stream, from the components of the model where it is fitted. Later ones continue it,
        in another process too: where a stream stands is part of the model, and of the file that `save` writes. Rows
        should come in an order that has nothing to do with what they hold.

        Parameters
        ----------
        X : rows as in `fit`, with the columns of those before; not a Dask array
        y : ignored, here for pipelines
        W : where the search for W of these rows begins, for example what `transform` gave when they came before
        H : the components of a stream that begins, with ``init="custom"``
        entry_weight, uncertainty : as in `fit`, of these rows
        forget : the number of rows after which a row counts half; None lets old rows fade only as far as the first
            ones, of which the components knew nothing, must
        grow : add a component where rows ask for it: every eighth is held out, and if those of recent batches are
            likelier with a component more, by two standard errors, it stays (`growth_` lists them)

        Returns
        -------
        self : the estimator. `losses_` and `references_` are means over recent rows times the rows seen, `gap_` and
            `gap_error_` the certificate of recent rows and its standard error over batches

        Raises
        ------
        ValueError
            For constraints, losses that X is to choose, and penalties other than `L1` and `L2` that grow with the rows
            (of W, or with ``scaled=True``): they need all rows at once.

        Examples
        --------
        >>> import numpy as np
        >>> from drnmf import BetaNMF
        >>> X = np.random.default_rng(0).gamma(1.0, 1.0, (300, 4)) @ np.eye(4, 9)
        >>> model = BetaNMF(4, beta=2, random_state=0)
        >>> for first in range(0, 300, 100):
        ...     model = model.partial_fit(X[first : first + 100])
        >>> model.rows_seen_, model.components_.shape
        (300, (4, 9))
        """
        self._take_rows(X, W, H, entry_weight, uncertainty, forget, grow)
        return self

    def fit_stream(
        self: Any,
        batches: Iterable[MatrixLike] | Callable[[], Iterable[MatrixLike]],
        passes: int = 1,
        forget: float | None = None,
        grow: bool = False,
    ) -> Any:
        """Fit to batches of rows, one after another; those of the last stream are forgotten.

        Parameters
        ----------
        batches : each X as in `partial_fit`, or a dict of its arguments, ``{"X": ..., "entry_weight": ...}``. For
            several passes a list, or a function without arguments that begins them anew
        passes : how often they are gone through; from the second on W of each batch is remembered, r numbers a row
        forget, grow : as in `partial_fit`

        Returns
        -------
        self : the estimator

        Examples
        --------
        >>> import numpy as np
        >>> from drnmf import BetaNMF
        >>> rng = np.random.default_rng(0)
        >>> batches = [rng.gamma(1.0, 1.0, (50, 3)) @ np.eye(3, 8) for _ in range(4)]
        >>> BetaNMF(3, beta=2, random_state=0).fit_stream(batches, passes=2).rows_seen_
        400
        """
        passes = check_integer("passes", passes, 1)
        if isinstance(batches, Mapping | str) or not (callable(batches) or isinstance(batches, Iterable)):
            raise ValueError(f"batches={batches!r} are no batches of rows: give a list of them, or a function.")
        if passes > 1 and isinstance(batches, Iterator):
            raise ValueError(
                f"passes={passes}, but the batches can be gone through only once: give a list of them, or a function "
                "that begins them anew."
            )
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)  # what a fit or a stream before has left
        remembered: dict[int, Any] = {}
        for turn in range(passes):
            begin_pass(self)
            for i, batch in enumerate(batches() if callable(batches) else batches):
                found = self._take_rows(**_arguments(batch, i), forget=forget, grow=grow, warm=remembered.get(i))
                if turn < passes - 1 and not grow:  # there may be more components by then
                    remembered[i] = found
        if not hasattr(self, "stream_"):
            raise ValueError("there are no batches: give at least one.")
        return self

    def _take_rows(
        self: Any,
        X: MatrixLike,
        W: Any = None,
        H: Any = None,
        entry_weight: WeightsLike = None,
        uncertainty: WeightsLike = None,
        forget: float | None = None,
        grow: bool = False,
        warm: Rows | None = None,
    ) -> Rows:
        """Do what `partial_fit` says, and return where W of the rows was found, for when they come again."""
        started = time.perf_counter()
        forget = None if forget is None else check_number("forget", forget, 0.0, True)
        omega, policy = _refuse(self, X, entry_weight)
        state: StreamState | None = getattr(self, "stream_", None)
        placement = place(X, self.device, self._solver.precision)
        new = state is None and not hasattr(self, "components_")
        given = placement.receive(self, X, new, reading_of(self, entry_weight, uncertainty))
        given, held = _split(self, given, state, W) if grow else (given, None)
        data = opened(placement, given, state)
        if state is None:
            _check_first(data)
        check_zeros(data, omega, checked(self, "zeros"), 0 if state is None else state.rows)
        units, kept = Units(data.scale), dict[str, Any]()
        with single_blas():
            _check_warm(warm, data.shape[0])
            if W is not None:
                W = check_factor("W", as_numpy(W), (data.shape[0], _rank(self, H)))
                warm = (W.T.astype(data.dtype) * units.left,)
            if state is None:
                state, warm = _begun(self, data, units, warm, H, policy)
            of_a_row = _penalties(self, data, 1, data.shape[1])
            taking = partial(
                advance, data=data, omega=units.omega(omega), policy=policy, forget=forget, penalties=of_a_row
            )
            before, (state, found) = state, taking(state, warm=warm or ())
            if held is not None:
                state, found, kept = _grown(self, before, state, found, taking, given.X, held)
        with uninterrupted():  # a model stands behind a batch or before it, never between
            _adopt(self, state, data, placement, omega, time.perf_counter() - started)
            vars(self).update(kept)
        return found


def begin_pass(model: Any) -> None:
    """Hold out the rows of a growing stream that were held out when they came before, and no others.

    Those of the pass before are let go: they come again, and what counts twice looks more certain than it is.
    """
    if hasattr(model, "held_rows_"):
        model.rows_offered_, model.held_rows_ = 0, model.held_rows_[:0]


def _arguments(batch: Any, number: int) -> dict[str, Any]:
    """Return a batch of `fit_stream` as arguments of `partial_fit`."""
    if not is_tables(batch):
        return {"X": batch}
    if "X" not in batch or not set(batch) <= set(OF_A_BATCH):
        raise ValueError(
            f"batch {number} is a dict of {', '.join(map(str, batch)) or 'nothing'}: give X, and with it only "
            f"{', '.join(OF_A_BATCH[1:])}."
        )
    return dict(batch)


def _split(model: BaseEstimator, given: Received, state: StreamState | None, W: Any) -> tuple[Received, Any]:
    """Hold out some rows of a batch."""
    if given.observed is not None or W is not None or not (isinstance(given.X, np.ndarray) or sp.issparse(given.X)):
        raise ValueError(
            "grow=True holds out rows of plain arrays whose entries all count: leave weights, W and tensors out."
        )
    out = held_rows(given.X.shape[0], getattr(model, "rows_offered_", 0))
    if given.X.shape[1] < 2:
        raise ValueError("grow=True predicts columns from others, and X has one.")
    if state is not None:
        _check_size(given.X, SAFE_SQUARES**0.5 / state.scale, state)
    if state is None and given.X.shape[0] < HELD:
        raise ValueError(f"grow=True holds out every {HELD}th row: give larger batches.")
    out &= not out.all()  # a batch is never held out as a whole: the last may have one row
    return replace(given, X=given.X[~out]), sp.csr_array(given.X[out])


def _grown(
    model: Any, before: StreamState, state: StreamState, found: Rows, take: Any, X: Any, held: Any
) -> tuple[StreamState, Rows, dict[str, Any]]:
    """Add a component where the held-out rows of recent batches ask for it, and take the batch again with it.

    With where the stream stands come attributes of the model: rows that were held out, and what was added.
    """
    recent, growth = getattr(model, "held_rows_", None), getattr(model, "growth_", ())
    offered = getattr(model, "rows_offered_", 0) + X.shape[0] + held.shape[0]
    held = held if recent is None else sp.csr_array(sp.vstack([recent, held], format="csr")[-RECENT:])
    kept = {"held_rows_": held, "rows_offered_": offered, "growth_": growth}
    if not before.batches or not held.shape[0]:
        return state, found, kept
    H, loss = state.followers[0].H, take.keywords["omega"][int(np.argmax(state.scaled_losses))]
    h = leftover(take.keywords["data"], X * state.scale, found[0], H, loss)
    if h is None:
        return state, found, kept
    rows = (held if sp.issparse(X) else held.toarray()) * state.scale
    gain, error = gain_of(rows, H, h, loss, state.mean * state.scale)
    if not asked_for(gain, error):
        return state, found, kept
    more, again = take(with_component(before, h))
    cosine = smallest_cosine(before.followers[0].H, more.followers[0].H[:-1])
    return more, again, kept | {"growth_": (*growth, Growth(more.rows, gain, error, cosine))}


def opened(placement: Placement, given: Received, state: StreamState | None) -> Data:
    """Put a batch behind the protocol of the backends, in the unit and the dtype of the stream."""
    if state is None:
        return placement.open(given)
    dtype = state.followers[0].H.dtype
    if isinstance(given.X, np.ndarray) or hasattr(given.X, "tocsr"):
        _check_size(given.X, float(np.finfo(dtype).max), state)
        given = replace(given, X=given.X.astype(dtype, copy=False))
    data = placement.open_plain(given, state.mean)
    return data if state.scale == 1.0 else data.scaled(state.scale)


def _check_first(data: Data) -> None:
    """Refuse a first batch that tells no unit, which is that of the stream for good."""
    check_scale(data)
    if data.mean == 0:
        raise ValueError(
            "The first batch holds only zeros, and a stream begins in the unit of its first rows: give more."
        )


def _check_size(X: Any, largest: float, state: StreamState | None) -> None:
    """Refuse rows of another order of magnitude than a number of the stream can have."""
    values = X.data if sp.issparse(X) else X
    if state is not None and values.size and float(np.fmax.reduce(values, axis=None)) > largest:
        raise ValueError(
            f"These rows are too large for the unit of the stream, the mean of its first batch ({state.mean:.3g}): "
            "leave them out, or begin a stream with rows of this size."
        )


def _check_warm(warm: Rows | None, rows: int) -> None:
    """Refuse a batch that comes again with other rows than those whose W is remembered."""
    before = rows if warm is None or warm[0] is None else warm[0].shape[1]
    if before != rows:
        raise ValueError(
            f"A batch has {rows} rows, and {before} when it came before: every pass must go through the same batches."
        )


def _policy(model: BaseEstimator, p: int) -> Policy:
    """How lambda moves: at once, because a stream has few batches where a fit has many iterations."""
    return Fixed() if p == 1 else at_once(as_policy(model._policy(p)))


def _penalties(model: BaseEstimator, data: Data, rows: int, columns: int) -> Penalties:
    """The penalties of a model for so many rows, in the unit of the data."""
    given = Penalties(terms_of(model), Setting((rows, columns), data.mean / data.scale))
    return Units(data.scale, np.ones(1)).penalties(given, model._omega()) if given else NONE


def _begun(
    model: BaseEstimator, data: Data, units: Units, warm: Rows | None, H: Any, policy: Policy
) -> tuple[StreamState, Rows | None]:
    """Begin a stream: where the fit of a model stands, or from a start for the first batch."""
    omega, rank = model._omega(), checked(model, "n_components")
    references = model._references(len(omega))
    inside = None if references is None else np.ones(1) if len(omega) == 1 else units.losses_in(references, omega)
    if hasattr(model, "components_") and H is None:
        _refuse_changes(model, rank, model.omega_)
        made = (as_numpy(model.components_) * units.right).astype(data.dtype)
    elif model.init == "custom" and H is not None and warm is None:
        made = (check_factor("H", as_numpy(H), (rank, data.shape[1])) * units.right).astype(data.dtype)
        made = np.maximum(made, factor_floor(data.mean, rank))  # as every start is
    else:
        W = None if warm is None else warm[0].T / units.left
        rng = check_random_state(model.random_state)
        # coordinate descent keeps to where it begins, and the singular vectors of one batch are not those of all rows
        quadratic = is_frobenius(omega)
        init = "random" if model.init == "auto" and quadratic else model.init
        (W, made), _ = begun(data, rank, init, rng, W, as_numpy(H), (units.left, units.right))
        # one loss below beta = 2 finds its way without, and few rows of many columns do not say where to begin
        if len(omega) > 1 or (quadratic and data.shape[0] >= data.shape[1]):
            W, made = fitted(data, (W, made), policy, units.omega(omega), inside, _penalties(model, data, *data.shape))
        warm = (as_numpy(data.T.space.get(data.T.space.put(W.T))),) * (1 + len(omega))
    return begin(data, as_numpy(made), policy, units.omega(omega), inside), warm


def _adopt(
    model: BaseEstimator, state: StreamState, data: Data, placement: Placement, omega: Omega, seconds: float
) -> None:
    """Set the fitted attributes from where a stream stands."""
    units = Units(state.scale)
    p, before = len(omega), getattr(model, "trace_", None) if state.batches > 1 else None
    inside = units.omega(omega)
    losses = units.losses(state.losses * state.rows, inside)
    references = units.losses(state.references * state.rows, inside)
    given = model._references(p)
    if given is not None:
        references = given * (1.0 if p == 1 else float(state.rows))
    model.stream_, model.rows_seen_ = state, state.rows
    model.components_ = placement.hand_back(state.followers[0].H * (1.0 / units.right))  # a power of two
    model.n_components_, model.omega_ = state.followers[0].H.shape[0], omega
    model.betas_, model.loss_names_ = np.array(betas_of(omega)), [loss.name for loss in omega]
    model.weights_, model.losses_, model.references_ = state.weights, losses, references
    # in the unit of X both may be too small for float64
    model.scaled_losses_ = state.scaled_losses if given is None else losses / references
    model.reconstruction_err_ = float(model.scaled_losses_.max())
    least = REFERENCE_FLOOR * data.count  # in the unit of a stream the mean of X is about one, and so is such a loss
    batch = units.losses(np.maximum(state.losses * data.shape[0], least), inside)
    if data.count:  # rows of which nothing is observed say nothing of the noise either
        model.dispersions_ = 2.0 * batch / degrees_of_freedom(data, model.n_components_)
    model.gap_, model.gap_error_ = state.certificate()
    model.mean_, model.mean_row_ = state.mean, state.mean_row / units.left
    terms = terms_of(model)
    model.penalties_ = Penalties(terms, Setting((state.rows, data.shape[1]), state.mean)) if terms else NONE
    model.penalty_, model.penalty_path_ = float("nan") if terms else 0.0, ()  # W of the rows is not kept
    model.n_iter_, model.converged_, model.reason_ = state.batches, False, "stream"
    model.stationarity_, model.coverage_ = float("nan"), None
    model.single_losses_ = model.held_out_losses_ = None
    model.notes_ = ()
    row = Trace(
        (losses / state.rows)[None],
        model.scaled_losses_[None],
        state.weights[None],
        np.array([seconds]),
        np.array([model.gap_]),
        np.array([state.batches]),
    )
    model.trace_ = row if before is None else _longer(before, row)


def _longer(before: Trace, row: Trace) -> Trace:
    """The trace with the row of another batch."""
    names = ("losses", "scaled_losses", "weights", "gap", "sweeps", "penalty")
    rows = {name: np.concatenate([getattr(before, name), getattr(row, name)]) for name in names}
    return Trace(**rows, seconds=np.append(before.seconds, before.seconds[-1] + row.seconds[0]))


def end_stream(model: BaseEstimator) -> None:
    """Forget where a stream stood, for a fit of other rows takes its place."""
    for name in ("stream_", "rows_seen_", "gap_error_", "rows_offered_", "held_rows_", "growth_"):
        vars(model).pop(name, None)


def _of_rows(term: Penalty) -> bool:
    """Whether a penalty grows with the rows as losses do: one of W, or of H times the number of rows."""
    return isinstance(term, L1 | L2) and term.mode is None and (term.scaled or term.on == "W")


def _refuse(model: BaseEstimator, X: MatrixLike, entry_weight: WeightsLike) -> tuple[Omega, Policy]:
    """Refuse what needs all rows at once; return the losses, and how lambda moves."""
    name, rank = type(model).__name__, checked(model, "n_components")
    if not model.streams:
        raise ValueError(f"{name} needs its whole X at once: use fit.")
    if is_tables(X) or isinstance(getattr(model, "betas", None), Mapping):
        raise ValueError(f"{name}: tables side by side need all rows at once: use fit.")
    if is_dask(X):
        raise ValueError("partial_fit takes rows that are here: give the blocks of a Dask array one by one, computed.")
    if model._undecided() or model._interval() is not None:
        raise ValueError(
            f"{name}: a stream cannot choose its losses, because that needs all rows: name them, as in betas=(1, 2)."
        )
    terms = terms_of(model)
    if not constraints_of(model).free or not all(map(_of_rows, terms)):
        raise ValueError(
            f"{name}: sum_to_one, fixed and penalties need all rows at once, but for L1 and L2 of W, or of H with "
            "scaled=True: use fit, or leave them out."
        )
    omega = model._omega()
    if terms and len(omega) > 1:
        raise ValueError(f"{name}: a stream takes penalties with one loss: use BetaNMF, or leave them out.")
    if isinstance(entry_weight, HeldOut):
        raise ValueError("entry_weight=HeldOut(...) is for fits of all rows: give weights of these rows.")
    if rank == AUTO and not hasattr(model, "components_"):
        raise ValueError(f"{name}: a stream cannot choose n_components, because that needs all rows: give a number.")
    if hasattr(model, "stream_"):
        _refuse_changes(model, rank, omega)
    policy = _policy(model, len(omega))
    if isinstance(policy, ByRule):
        raise ValueError("policy='minimax' chooses weights from all rows at once: leave it out for a stream.")
    return omega, policy


def _refuse_changes(model: BaseEstimator, rank: int | str, omega: Omega) -> None:
    """Refuse another rank or other losses in the middle of a stream: what its rows said was of those before."""
    begun_with = model.n_components_ - len(getattr(model, "growth_", ()))  # those that the stream added are no change
    anew = "call fit_stream, or partial_fit of a clone of the model, to begin anew"
    if rank not in (AUTO, begun_with):
        raise ValueError(f"n_components={rank}, but the model has {begun_with}: set it back, or {anew}.")
    if omega != model.omega_:
        now, before = (", ".join(loss.name for loss in some) for some in (omega, model.omega_))
        raise ValueError(f"The losses are {now}, but the stream has begun with {before}: set them back, or {anew}.")


def _rank(model: BaseEstimator, H: Any) -> int:
    """The number of components that the next rows are to be of."""
    known = hasattr(model, "stream_") or (hasattr(model, "components_") and H is None)
    return int(model.n_components_ if known else checked(model, "n_components"))
