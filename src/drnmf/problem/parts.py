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
from drnmf.losses.base import Loss, Omega
from drnmf.losses.beta import KL
from drnmf.losses.part import Part
from drnmf.numerics import EPS, Entries, Vector, as_float64, positive_scale
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
    missing = [
        i
        for i, label in enumerate(np.asarray(groups, dtype=object))
        if label is None or not (isinstance(same := label == label, bool | np.bool_) and same)
    ]
    if missing:
        raise ValueError(f"groups[{missing[0]}] is missing: every row needs a group ({len(missing)} have none).")
    names, codes = np.unique(labels.astype(str) if labels.dtype == object else labels, return_inverse=True)
    if labels.dtype == object and len(set(labels)) > names.size:
        raise ValueError("Some of groups read alike and are not equal, such as 1 and '1': give labels of one type.")
    if names.size < 2:
        return X, None
    return X, Division(tuple(map(str, names.tolist())), tuple(np.flatnonzero(codes == g) for g in range(names.size)))


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


def parted(problem: Problem, division: Division, alone: list[Problem], objectives: tuple[Part, ...]) -> Problem:
    """Return the problem of all objectives at once."""
    pairs = zip(division.places, alone, strict=True)
    pieces = tuple(Piece(at, one.data, division.across) for at, one in pairs)
    data = Parted(_whole(problem), pieces, stack=division.stack)
    units = replace(problem.units, given=None)
    return replace(problem, data=data, omega=objectives, units=units).over(np.ones(len(objectives)))


def _whole(problem: Problem) -> Any:
    data = problem.data
    return data.data if isinstance(data, Parted) else data


def simplest_losses(alone: Problem, omega: Omega) -> Vector:
    """Compute what the simplest model of a part costs: nothing at all under beta = 2, its mean under other losses.

    A part below what factors of X resolve is all zeros to them, and has the size of X.
    """
    data = alone.data
    own = _own_mean(data)
    size = own if own > EPS * data.mean else positive_scale(data.mean)
    least = [SMALLEST_LOSS * math.prod(data.shape) * size**loss.degree for loss in omega]
    costs = [_constant(alone, loss, 0.0 if loss.beta == 2.0 else own) for loss in omega]
    return np.maximum(costs, least)


def _own_mean(data: Data) -> float:
    """Compute the weighted mean of the entries of a part: N over P of Kullback-Leibler at a constant model."""
    m, n = data.shape
    A, B = (np.ones((1, size), dtype=data.dtype) for size in (m, n))
    asked = data.sweep(data.T.space.put(A).T, data.space.put(B), Ask((KL,), losses=False))
    swept = data.space.read(asked)[0]
    return float(as_float64(swept.N).sum()) / float(as_float64(swept.P).sum())


def _constant(alone: Problem, loss: Loss, level: float) -> float:
    """The loss of WH = level throughout."""
    (m, n), root = alone.data.shape, np.sqrt(positive_scale(level)) if level > 0 else 0.0
    W, H = (np.full(shape, root, dtype=alone.data.dtype) for shape in ((m, 1), (1, n)))
    return float(losses_of(alone.data, W, H, (loss,))[0])


def objective_of_part(loss: Loss, index: int, label: str, error: float, simplest: float, scale: str) -> Part:
    """Scale the loss of a part by what it reaches alone, `error`, and what its simplest model costs.

    scale : "regret" or "ratio"
    """
    if scale == "ratio":
        return Part(loss, index, label, 0.0, max(error, SMALLEST_RATIO * simplest), ratio=True)
    return Part(loss, index, label, error, simplest, root=loss.beta == 2.0)
