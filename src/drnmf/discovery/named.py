"""A discovery with names on everything: tables, contributions of new rows, predictions, a model file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from drnmf.estimators.models import BetaNMF, MultiObjectiveNMF
from drnmf.estimators.tables import places
from drnmf.loading import needs
from drnmf.losses.base import betas_of
from drnmf.losses.names import as_written
from drnmf.matrices.matrix import Labels, spelt
from drnmf.numerics import Array, Entries
from drnmf.problem.tabular import Tabular, component_names, tabular
from drnmf.runs.quality import Quality
from drnmf.runs.write import Record, counted
from drnmf.selection.asked import SearchResult
from drnmf.selection.assignment.assign import Assignment
from drnmf.selection.matching import Matching, positions

if TYPE_CHECKING:
    from pandas import DataFrame

Weights = ArrayLike | None
NAMED_FROM = 0.9
"""Similarity to a known component from which ours carries its name."""


@dataclass(frozen=True, repr=False)
class Named(SearchResult):
    """What `drnmf.discover` found, with names on everything; stable components come first, each by contribution.

    Attributes
    ----------
    names : tuple of str
        Of the components: those given, else of the partner in the reference from a similarity of 0.9 on, else
        ``component_1``, ``component_2``, ...
    rows, columns : Labels or None
        Of the rows and columns of X.
    threshold : float
        Stability that a component needs to be called stable.
    quality : Quality or None
        With uncertainties: Q, what is expected of it, and the scaled residuals.

    See Also
    --------
    drnmf.selection.asked.SearchResult : components, contributions, stability and all the other attributes.
    """

    names: tuple[str, ...] = ()
    rows: Labels | None = None
    columns: Labels | None = None
    threshold: float = 0.6
    quality: Quality | None = field(default=None, repr=False)

    @cached_property
    def model(self) -> BetaNMF | MultiObjectiveNMF:
        """The fitted estimator with these components: BetaNMF, or MultiObjectiveNMF under several losses."""
        return model_of(self)

    @property
    def row_names(self) -> list[str]:
        """A name per row of X, counted from 1 where it has none."""
        return _names(self.rows, np.asarray(self.contributions).shape[0])

    @property
    def column_names(self) -> list[str]:
        """A name per column of X, counted from 1 where it has none."""
        return _names(self.columns, np.asarray(self.components).shape[1])

    def named(self, names: Sequence[str] | None) -> Self:
        """Return the same with other names of the components, also in its frames.

        Parameters
        ----------
        names : in the order of the components; those left out or empty are named after the reference, or counted

        Raises
        ------
        ValueError
            For more names than components, or one that stands twice.
        """
        other = replace(self, names=tuple(component_labels(self.rank, self.matching, names)))
        return other.framed() if hasattr(self.components, "iloc") else other

    def framed(self) -> Self:
        """Return the same with components and contributions as frames."""
        rows = self.row_names if self.rows else None
        return replace(
            self,
            components=framed(self.components, self.names, self.column_names),
            contributions=framed(self.contributions, rows, self.names),
            dense=framed(self.dense, rows, self.names),
        )

    def to_frame(self, table: str = "components") -> DataFrame:
        """Return a table as a pandas DataFrame: labels along the rows, components along the columns.

        Parameters
        ----------
        table : {"components", "contributions", "stability"}
            "stability" has a row for every component: stability, size, and the partner in the reference.

        Returns
        -------
        pandas.DataFrame
        """
        if table == "components":
            return framed(np.asarray(self.components).T, self.column_names, self.names)
        if table == "contributions":
            return framed(self.contributions, self.row_names, self.names)
        if table != "stability":
            raise ValueError(f'table={table!r} is not known: use "components", "contributions" or "stability".')
        return needs("pandas", "tables").DataFrame(self.stability_rows()).set_index("component")

    def stability_rows(self) -> list[Record]:
        """List for every component its stability, its size, who found it, and its partner in the reference."""
        rows: list[Record] = [
            {
                "component": name,
                "stability": float(self.stability[k]),
                "stable": bool(self.stable[k]),
                "size": float(self.sizes[k]),
                "found_in": int(self.found_in[k]),
                "runs": len(self.runs),
            }
            for k, name in enumerate(self.names)
        ]
        if self.sources:
            rows = [row | {"groups": "; ".join(found)} for row, found in zip(rows, self.sources, strict=True)]
        if self.matching is None:
            return rows
        partners = zip(self.matching.names, self.matching.similarity, strict=True)
        return [
            row | {"match": name or "", "similarity": float(value)}
            for row, (name, value) in zip(rows, partners, strict=True)
        ]

    def transform(self, X: object, entry_weight: Weights = None, uncertainty: Weights = None) -> Array | DataFrame:
        """Compute the contributions to new rows, with these components; every row on its own.

        Parameters
        ----------
        X : whatever `discover` takes, with the same columns; of a frame they are found by their names
        entry_weight, uncertainty : as in `discover`, of the new rows

        Returns
        -------
        contributions : array of shape (rows of X, r), or a DataFrame where X is a frame
        """
        given = tabular(X)
        W = self.model.transform(self._columns_of(given), entry_weight=entry_weight, uncertainty=uncertainty)
        return framed(W, given.rows, self.names) if given.kind == "frame" else W

    def assign(self, X: object, *, entry_weight: Weights = None, uncertainty: Weights = None) -> Assignment:
        """Find which of the components new rows have, and how much of each, as in `contributions`.

        Parameters
        ----------
        X, entry_weight, uncertainty : as in `transform`

        Returns
        -------
        Assignment
            Contributions with real zeros, a DataFrame where X is a frame, and what judged them.
        """
        given = tabular(X)
        found = super().assign(self._columns_of(given), entry_weight=entry_weight, uncertainty=uncertainty)
        if given.kind != "frame":
            return found
        W, dense = (framed(values, given.rows, self.names) for values in (found.contributions, found.dense))
        return replace(found, contributions=W, dense=dense)

    def _columns_of(self, given: Tabular) -> Entries:
        """New rows under our columns, found by their names where both have some."""
        if given.columns is None or self.columns is None:
            return given.X
        own, there = ([spelt(name) for name in side] for side in (self.column_names, given.columns))
        return given.X[:, positions(own, there, "X")]

    def predict(self, rows: Sequence[object], columns: Sequence[object]) -> Array:
        """Predict entries of X: contributions times components, at pairs of a row and a column.

        Parameters
        ----------
        rows, columns : sequences of one length, of names or of positions from 0

        Returns
        -------
        array with a value for every pair
        """
        i, j = places(rows, self.row_names), places(columns, self.column_names)
        return np.asarray(np.einsum("ij,ij->i", np.asarray(self.contributions)[i], np.asarray(self.components).T[j]))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as plain data (one .npz, no pickle); `drnmf.load` reads it as an estimator.

        Parameters
        ----------
        path : where to write
        """
        model = model_of(self)
        if self.columns is not None:
            model.feature_names_in_ = np.array(self.column_names, dtype=object)
        model.save(path)


def component_labels(rank: int, matching: Matching | None, names: Sequence[str] | None = None) -> list[str]:
    """Name components: as given, else after the reference from a similarity of 0.9 on, else by counting.

    >>> component_labels(3, None, ["sea", "road"])
    ['sea', 'road', 'component_3']
    """
    found = component_names(rank)
    if matching is not None:
        partners = zip(matching.names, matching.similarity, strict=True)
        found = [
            name if name is not None and value >= NAMED_FROM else own
            for own, (name, value) in zip(found, partners, strict=True)
        ]
    given = [str(name).strip() for name in names or ()]
    if len(given) > rank:
        raise ValueError(f"names has {len(given)} entries, but there are {rank} components: give at most so many.")
    found[: len(given)] = [name or own for name, own in zip(given, found, strict=False)]
    twice = next((name for k, name in enumerate(found) if name in found[:k]), None)
    if twice is not None and given:
        raise ValueError(f"names has {twice!r} twice: give every component a name of its own.")
    return found if twice is None else component_names(rank)


def facts_of(found: Named) -> Record:
    """Collect what AnnData keeps of a discovery beside the arrays."""
    return {
        "losses": np.array([loss.name for loss in found.losses], dtype=object),
        "rank": found.rank,
        "stability": found.stability,
        "stable": found.stable,
        "summary": found.summary(),
    }


def _names(labels: Labels | None, count: int) -> list[str]:
    return counted(count) if labels is None else list(labels.names)


def framed(values: ArrayLike, index: Sequence[str] | None, columns: Sequence[str]) -> DataFrame:
    """Make a DataFrame of an array, its rows and its columns."""
    frame = needs("pandas", "tables").DataFrame
    return frame(np.asarray(values), None if index is None else list(index), list(columns))


def model_of(found: SearchResult) -> BetaNMF | MultiObjectiveNMF:
    """Make the estimator that a discovery stands for: its components, under its losses, weights and penalties."""
    encoder, best, omega = found.encoder, found.runs[0], found.losses
    given: dict[str, Any] = {
        "max_iter": encoder.max_iter,
        "tol": encoder.tol,
        "zeros": encoder.zeros,
        "penalties": list(found.penalties) or None,
        "random_state": 0,
    }
    written = tuple(as_written(loss) for loss in omega)
    model: BetaNMF | MultiObjectiveNMF
    if len(omega) == 1:
        model = BetaNMF(found.rank, beta=written[0], **given)
    else:
        model = MultiObjectiveNMF(found.rank, betas=written, weights=tuple(best.weights.tolist()), **given)
    model.__dict__.update(
        components_=encoder.components,
        omega_=omega,
        betas_=np.array(betas_of(omega)),
        loss_names_=[loss.name for loss in omega],
        weights_=best.weights,
        references_=best.references,
        losses_=best.losses,
        scaled_losses_=best.losses / best.references,
        dispersions_=found.dispersions,
        mean_row_=encoder.mean_row,
        mean_=float(encoder.objective.mean),
        n_components_=found.rank,
        n_features_in_=encoder.components.shape[1],
        reconstruction_err_=best.error,
        n_iter_=len(best.trace.seconds) - 1,
        converged_=best.reason == "tol",
        reason_=best.reason,
        trace_=best.trace,
        notes_=found.notes,
        gap_=float("nan"),
        stationarity_=float("nan"),
        penalties_=encoder.objective.penalties,
        penalty_=0.0,
        penalty_path_=found.penalty_path,
        single_losses_=None,
        held_out_losses_=None,
        coverage_=None,
    )
    return model
