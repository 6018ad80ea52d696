"""Parts of X: the groups of its rows, and problems of each part alone."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drnmf.backends.base import Ask, Data, losses_of
from drnmf.backends.observed import weigh
from drnmf.backends.open import opened_beside
from drnmf.backends.parted import Parted, Piece, Stack
from drnmf.losses.base import Omega
from drnmf.losses.beta import FROBENIUS
from drnmf.losses.part import Part
from drnmf.numerics import EPS, Array, Entries, Vector, as_float64, positive_scale
from drnmf.problem.problem import Problem
from drnmf.problem.receive import Received
from drnmf.problem.units import mean_of

SMALLEST_RATIO = 0.01
"""Of the simplest model's loss: a part that is fitted better alone is not compared more strictly than that."""
SMALLEST_LOSS = 1e-4
"""Of a part's size, its entries times mean^degree: its simplest model is not taken to cost less, and 1 % off is
little. That of a constant part costs nothing, and a regret in units of nothing would let all other parts go."""


@dataclass(frozen=True, eq=False)
class Division:
    """X divided into parts."""

    labels: tuple[str, ...]  # what the parts are called
    places: tuple[NDArray[np.intp], ...]  # their rows (columns) in X, in order
    across: bool = False  # whether parts are columns
    # those of every part, in the unit of the caller; None where each has all losses of the fit
    losses: tuple[Omega, ...] | None = None
    stack: Stack | None = None  # X with the rows of part after part, where its parts are taken from that

    def __len__(self) -> int:
        return len(self.labels)

    def digest(self) -> str:
        """Compute the SHA-256 of which part has which rows (columns), for checkpoints."""
        whole = hashlib.sha256(repr((self.labels, self.across)).encode())
        for at in self.places:
            whole.update(np.asarray([len(at), *at], dtype=np.int64).tobytes())
        return whole.hexdigest()

    def of_rows(self) -> list[str]:
        """List the label of every row."""
        labels = np.empty(sum(len(at) for at in self.places), dtype=object)
        for label, at in zip(self.labels, self.places, strict=True):
            labels[at] = label
        found: list[str] = labels.tolist()
        return found


def groups_of(X: Entries, groups: ArrayLike | None) -> tuple[Entries, Division | None]:
    """Read the group of every row: one label for each, or the name of a column of a table X, which is taken out of it.

    None where there is one group at most, which is no division. Labels that do not fit the rows, or miss, are refused.
    """
    if groups is None:
        return X, None
    if isinstance(groups, str):
        if groups not in getattr(X, "columns", ()):
            raise ValueError(f"groups={groups!r} names no column of X: give a label for every row, or a table with it.")
        column = X[groups]
        X, groups = X.drop(columns=groups) if hasattr(X, "loc") else X.drop(groups), column
    groups = groups.to_numpy() if hasattr(groups, "to_numpy") else groups
    labels = np.asarray(groups)
    rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if labels.shape != (rows,):
        raise ValueError(f"groups has shape {labels.shape}, and X has {rows} rows: give one label for each.")
    # neither NaN nor the NA of pandas is equal to itself; beside text NaN would be the text 'nan'
    given = np.asarray(groups, dtype=object)
    missing = [
        i
        for i, label in enumerate(given)
        if label is None or not (isinstance(same := label == label, bool | np.bool_) and same)
    ]
    if missing:
        raise ValueError(f"groups[{missing[0]}] is missing: every row needs a group ({len(missing)} have none).")
    names, codes = np.unique(labels.astype(str) if labels.dtype == object else labels, return_inverse=True)
    if labels.dtype.kind in "OU" and len(set(given)) > names.size:  # a list of both has become text
        raise ValueError("Some of groups read alike and are not equal, such as 1 and '1': give labels of one type.")
    if names.size < 2:
        return X, None
    return X, Division(tuple(names.astype(str).tolist()), tuple(np.flatnonzero(codes == g) for g in range(names.size)))


def stacked(problem: Problem, division: Division) -> Division:
    """Return the same with the rows of part after part side by side, where the compiled extension sweeps those at once.

    X is copied where its rows are not in that order.
    """
    data, given = _whole(problem), problem.given
    if division.across or not hasattr(data, "sweep_parts") or data.missing or problem.observed is not None:
        return division
    order, bounds = np.concatenate(division.places), np.cumsum([0, *map(len, division.places)])
    in_order = bool((np.diff(order) == 1).all())
    X: Any = data if in_order else opened_beside(data, given.X[order], mean_of(data)).scaled(data.scale)
    return replace(division, stack=Stack(X, tuple(bounds.tolist()), None if in_order else order))


def parts_alone(problem: Problem, division: Division) -> list[Problem]:
    """Return the problem of every part by itself, in the unit of X."""
    data, given, found = problem.data, replace(problem.given, observed=problem.observed), []
    if problem.columns:
        raise ValueError("Groups of rows are fitted to a matrix, and X has more modes than two: unfold it.")
    every = division.losses or (None,) * len(division)
    for k, (label, at, losses) in enumerate(zip(division.labels, division.places, every, strict=True)):
        try:
            if division.stack is not None:
                part = Problem.opened(*_opened(_whole(problem), Received(division.stack.part(k))))
            else:
                part = Problem.opened(*open_part(_whole(problem), given, at, division.across))
        except ValueError as error:
            raise ValueError(f"Part {label!r} of X: {error}") from None
        assert part.data.scale == data.scale
        omega = problem.omega if losses is None else problem.units.omega(losses)
        found.append(replace(part, units=problem.units, rank=problem.rank, omega=omega))
    return found


def open_part(data: Any, given: Received, at: NDArray[np.intp], across: bool) -> tuple[Data, Received]:
    """Open some rows, or columns, where X is, in its unit; those of X in blocks of rows are in the same blocks."""
    if not data.T.space.whole:
        return data.part(at, across), Received(None)
    return _opened(data, given.columns(at) if across else given.rows(at))


def _opened(data: Any, own: Received) -> tuple[Data, Received]:
    """Open a part, as it was received, in the unit of X."""
    mean = mean_of(data)
    return weigh(opened_beside(data, own.X, mean), own.observed, mean).scaled(data.scale), own


def parted(problem: Problem, division: Division, alone: list[Problem]) -> Problem:
    """Return the problem of every loss of every part at once, each as it is."""
    pairs = zip(division.places, alone, strict=True)
    pieces = tuple(Piece(at, one.data, division.across) for at, one in pairs)
    data = Parted(_whole(problem), pieces, stack=division.stack)
    every = zip(division.labels, alone, strict=True)
    raw = tuple(Part(loss, g, label) for g, (label, one) in enumerate(every) for loss in one.omega)
    units = replace(problem.units, given=None)
    return replace(problem, data=data, units=units).under(raw, np.ones(len(raw)))


def _whole(problem: Problem) -> Any:
    data = problem.data
    return data.data if isinstance(data, Parted) else data


def simplest_losses(whole: Problem) -> Vector:
    """Compute what the simplest model of every part costs: nothing at all under beta = 2, its mean under other losses.

    A part below what factors of X resolve is all zeros to them, and has the size of X.

    whole : all losses of parts as they are (`parted`)
    """
    data: Any = whole.data
    parts = [loss for loss in whole.omega if isinstance(loss, Part)]
    own, least = _own_means(data), EPS * data.mean
    shapes = [math.prod(piece.data.shape) for piece in data.pieces]
    sizes = [mean if mean > least else positive_scale(data.mean) for mean in own]
    costs, empty = np.empty(len(parts)), np.array([loss.beta == 2.0 for loss in parts])
    for some, levels in ((empty, np.zeros(len(own))), (~empty, own)):
        if some.any():
            omega = tuple(loss for loss, among in zip(parts, some, strict=True) if among)
            costs[some] = losses_of(data, *_constant_in_parts(data, levels), omega)
    return np.maximum(costs, [SMALLEST_LOSS * shapes[o.index] * sizes[o.index] ** o.base.degree for o in parts])


def _own_means(data: Parted) -> Vector:
    """Compute the weighted mean of the entries of every part: N over P of a constant model."""
    some = tuple(Part(FROBENIUS, k, "") for k in range(len(data.pieces)))
    W, H = _constant_in_parts(data, np.ones(len(some)))
    asked = data.sweep(data.T.space.put(W.T).T, data.space.put(H), Ask(some, losses=False))
    swept = data.space.read(asked)[0]
    N, P = (as_float64(data.space.get(part)).sum((1, 2)) for part in (swept.N, swept.P))
    return np.asarray(N / P)


def _constant_in_parts(data: Parted, levels: Vector) -> tuple[Array, Array]:
    """W and H of the model that is one number in every part."""
    (m, n), across = data.shape, data.pieces[0].across
    factor = np.empty(n if across else m, dtype=data.dtype)
    for piece, level in zip(data.pieces, levels, strict=True):
        factor[piece.at] = level
    W, H = np.ones((m, 1), dtype=data.dtype), np.ones((1, n), dtype=data.dtype)
    return (W, factor[None]) if across else (factor[:, None], H)


def objective_of_part(part: Part, error: float, simplest: float, scale: str) -> Part:
    """Scale the loss of a part by what it reaches alone, `error`, and what its simplest model costs.

    scale : "regret" or "ratio"
    """
    if scale == "ratio":
        return replace(part, divisor=max(error, SMALLEST_RATIO * simplest), ratio=True)
    return replace(part, offset=error, divisor=simplest, root=part.base.beta == 2.0)
