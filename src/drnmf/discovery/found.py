"""`drnmf.discover`: X with its labels in, a discovery with names on everything out."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from drnmf.discovery.folder import write_report_folder
from drnmf.discovery.named import Named, component_labels, facts_of, framed
from drnmf.discovery.plots import draw
from drnmf.matrices.matrix import Labels
from drnmf.matrices.mutations import spelt
from drnmf.parameters.common import Parameters
from drnmf.problem.tabular import Tabular, tabular
from drnmf.runs.annotated import annotate
from drnmf.runs.quality import quality
from drnmf.selection import discover as search
from drnmf.selection.matching import positions


@dataclass(frozen=True)
class Discovery(Named):
    """What `drnmf.discover` found, with names on everything, as tables, as a model, as a page and as pictures.

    See Also
    --------
    drnmf.discovery.named.Named : names, tables, contributions of new rows.
    drnmf.selection.discover.Discovery : components, contributions, stability and all the other attributes.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.gamma(0.3, 50, (60, 3)) @ rng.dirichlet(np.full(20, 0.2), 3) * 10)
    >>> found = discover(X, ranks=3, n_runs=4, names=["sea", "road", "soil"])
    >>> found.to_frame("contributions").columns.tolist()
    ['sea', 'road', 'soil']
    >>> found.transform(X[:2]).shape
    (2, 3)
    """

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
        components=framed(found.components, found.names, found.column_names),
        contributions=framed(found.contributions, found.row_names if found.rows else None, found.names),
        dense=framed(found.dense, found.row_names if found.rows else None, found.names),
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
    text = text.replace("    >>> rng", "    >>> import numpy as np\n    >>> rng", 1)
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
