"""`drnmf.discover`: X with its labels in, a discovery with names on everything out."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from drnmf.discovery.model import model_of
from drnmf.matrices.frames import needs
from drnmf.matrices.matrix import Labels
from drnmf.matrices.mutations import spelt
from drnmf.numerics import Array
from drnmf.parameters.common import Parameters
from drnmf.problem.tabular import Tabular, tabular
from drnmf.runs.annotated import annotate
from drnmf.runs.quality import Quality, quality
from drnmf.runs.schema import component_names
from drnmf.selection import discover as search
from drnmf.selection.matching import Matching, positions

NAMED_FROM = 0.9
"""Similarity to a known component from which ours carries its name."""


@dataclass(frozen=True)
class Discovery(search.Discovery):
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
    drnmf.selection.discover.Discovery : components, contributions, stability and all the other attributes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.gamma(0.3, 50, (60, 3)) @ rng.dirichlet(np.full(20, 0.2), 3) * 10)
    >>> found = discover(X, ranks=3, n_runs=4, names=["sea", "road", "soil"])
    >>> found.to_frame("contributions").columns.tolist()
    ['sea', 'road', 'soil']
    >>> found.transform(X[:2]).shape
    (2, 3)
    """

    names: tuple[str, ...] = ()
    rows: Labels | None = None
    columns: Labels | None = None
    threshold: float = 0.6
    quality: Quality | None = field(default=None, repr=False)

    @cached_property
    def model(self) -> Any:
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

    def to_frame(self, table: str = "components") -> Any:
        """Return a table as a pandas DataFrame: labels along the rows, components along the columns.

        Parameters
        ----------
        table : {"components", "contributions", "stability"}
            "stability" has a row for every component: stability, size, and the partner in the reference.

        Returns
        -------
        pandas.DataFrame
        """
        frame = needs("pandas", "tables").DataFrame
        if table == "components":
            return frame(np.asarray(self.components).T, self.column_names, list(self.names))
        if table == "contributions":
            return frame(np.asarray(self.contributions), self.row_names, list(self.names))
        if table != "stability":
            raise ValueError(f'table={table!r} is not known: use "components", "contributions" or "stability".')
        return frame(self.stability_rows()).set_index("component")

    def stability_rows(self) -> list[dict[str, Any]]:
        """List for every component its stability, its size, and its partner in the reference where there is one."""
        rows: list[dict[str, Any]] = [
            {"component": name, "stability": float(self.stability[k]), "stable": bool(self.stable[k]),
             "size": float(self.sizes[k])}
            for k, name in enumerate(self.names)
        ]  # fmt: skip
        if self.matching is None:
            return rows
        partners = zip(self.matching.names, self.matching.similarity, strict=True)
        return [
            row | {"match": name or "", "similarity": float(value)}
            for row, (name, value) in zip(rows, partners, strict=True)
        ]

    def transform(self, X: Any, entry_weight: Any = None, uncertainty: Any = None, layer: str | None = None) -> Any:
        """Compute the contributions to new rows, with these components; every row on its own.

        Parameters
        ----------
        X : whatever `discover` takes, with the same columns; of a frame they are found by their names
        entry_weight, uncertainty : as in `discover`, of the new rows
        layer : of AnnData

        Returns
        -------
        contributions : array of shape (rows of X, r), or a DataFrame where X is a frame
        """
        given = tabular(X, layer)
        values = given.X
        if given.columns is not None and self.columns is not None:
            values = values[
                :, positions(*([spelt(name) for name in side] for side in (self.column_names, given.columns)))
            ]
        W = self.model.transform(values, entry_weight=entry_weight, uncertainty=uncertainty)
        return _framed(W, given.rows, self.names) if given.kind == "frame" else W

    def predict(self, rows: Any, columns: Any) -> Array:
        """Predict entries of X: contributions times components, at pairs of a row and a column.

        Parameters
        ----------
        rows, columns : sequences of one length, of names or of positions from 0

        Returns
        -------
        array with a value for every pair
        """
        i, j = _places(rows, self.row_names), _places(columns, self.column_names)
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

    def report(self, folder: str | os.PathLike[str], overwrite: bool = False) -> Path:
        """Write all tables, the model and the page into a folder, as the command line does.

        Parameters
        ----------
        folder : where to write; it must not exist, or hold an earlier run and `overwrite`
        overwrite : replace the files of that run

        Returns
        -------
        path : of the page
        """
        from drnmf.discovery.folder import write_report_folder

        return write_report_folder(self, Path(folder), overwrite)

    def plot(self, what: str = "components", field: str | None = None) -> Any:
        """Draw the result as its field does (matplotlib).

        Parameters
        ----------
        what : {"components", "contributions", "maps"}
            Profiles; how much of each sample they explain; pictures, where rows of X are pixels.
        field : {"signatures", "air", "spectra", "cells", "plain"}, optional
            How to draw; None is what the labels say.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from drnmf.discovery.plots import draw

        return draw(self, what, field)


def discover(
    X: Any, model: Parameters | None = None, *, layer: str | None = None, names: Sequence[str] | None = None, **how: Any
) -> Discovery:
    """Overwritten below: `selection.discover.discover` says what it does, and has the other parameters."""
    given = tabular(X, layer)
    if how.get("reference") is not None:
        how |= dict(zip(("reference", "reference_names"), _reference(how, given.columns), strict=True))
    found = named(search.discover(given.X, model, **how), labels_of(given), Labels.of(given.columns), names)
    found = replace(found, threshold=how.get("threshold", found.threshold))
    if how.get("uncertainty") is not None:
        found = replace(found, quality=quality(given.X, found.contributions, found.components, how["uncertainty"]))
    if given.kind == "anndata":
        annotate(X, found.contributions, found.components, found.names, facts_of(found))
    if given.kind != "frame":
        return found
    return replace(
        found,
        components=_framed(found.components, found.names, found.column_names),
        contributions=_framed(found.contributions, found.row_names if found.rows else None, found.names),
    )


_X = """    X : array, sparse matrix, frame (pandas, polars, pyarrow), xarray.DataArray, AnnData, or a cube
        Nonnegative, of shape (m, n). Components are profiles over the columns; for profiles over the rows give X.T. A
        frame gives frames; AnnData gets ``obsm["X_drnmf"]``, ``varm["drnmf"]`` and ``uns["drnmf"]``; of a cube (rows x
        columns x bands) the pixels are rows.
"""
_MORE = """    layer : str, optional
        Which layer of AnnData; None is "counts" where there is one, else X.
    names : sequence of str, optional
        Of the components, in their order; None names those like the reference after it.
"""


def _documented(function: Callable[..., Any]) -> None:
    """Give `discover` the words and the parameters of the search, which are told once, and its own."""
    told = inspect.signature(search.discover)
    own = [p for p in inspect.signature(function).parameters.values() if p.name in ("layer", "names")]
    listed = list(told.parameters.values())
    function.__signature__ = told.replace(  # type: ignore[attr-defined]
        parameters=[*listed[:2], *own, *listed[2:]], return_annotation="Discovery"
    )
    text = search.discover.__doc__ or ""
    start, end = text.index("    X : "), text.index("    model : ")
    text = text[:start] + _X + text[end:]
    function.__doc__ = text.replace("    ranks : ", _MORE + "    ranks : ", 1)


_documented(discover)


def named(
    found: search.Discovery, rows: Labels | None, columns: Labels | None, names: Sequence[str] | None = None
) -> Discovery:
    """Put names on a discovery."""
    known = {entry.name: getattr(found, entry.name) for entry in fields(search.Discovery)}
    return Discovery(
        **known, names=tuple(component_labels(found.rank, found.matching, names)), rows=rows, columns=columns
    )


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


def facts_of(found: Discovery) -> dict[str, Any]:
    """Collect what AnnData keeps of a discovery beside the arrays."""
    return {
        "losses": np.array([loss.name for loss in found.losses], dtype=object), "rank": found.rank,
        "stability": found.stability, "stable": found.stable, "summary": found.summary(),
    }  # fmt: skip


def labels_of(given: Tabular) -> Labels | None:
    """Label the rows: pixels of a picture by their place."""
    if given.image is not None:
        return Labels.of_pixels(given.image)
    return Labels.of(given.rows)


def _reference(how: dict[str, Any], columns: Sequence[str] | None) -> tuple[Any, Any]:
    """Bring known components in a frame under the columns of X by label, whichever side they are on."""
    reference, names = how["reference"], how.get("reference_names")
    if columns is None or not hasattr(reference, "iloc"):
        return reference, names
    wanted = {spelt(name) for name in columns}
    if not wanted <= {spelt(str(name)) for name in reference.columns}:
        reference = reference.T
    order = positions([spelt(name) for name in columns], [spelt(str(name)) for name in reference.columns])
    return reference.iloc[:, order].to_numpy(), names or [str(name) for name in reference.index]


def _names(labels: Labels | None, count: int) -> list[str]:
    return [str(i + 1) for i in range(count)] if labels is None else list(labels.names)


def _framed(values: Any, index: Sequence[str] | None, columns: Sequence[str]) -> Any:
    frame = needs("pandas", "tables").DataFrame
    return frame(np.asarray(values), None if index is None else list(index), list(columns))


def _places(asked: Any, names: Sequence[str]) -> Any:
    """Turn names, or positions from 0, into positions."""
    values = np.asarray(asked)
    if values.dtype.kind in "iu":
        return values
    return np.array(positions([str(value) for value in values.ravel().tolist()], names))
