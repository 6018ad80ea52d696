"""`drnmf.discover`: X with its labels in, a discovery with names on everything out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drnmf.discovery.folder import write_report_folder
from drnmf.discovery.named import Named, component_labels, facts_of
from drnmf.discovery.plots import draw
from drnmf.matrices.matrix import Labels
from drnmf.matrices.mutations import spelt
from drnmf.numerics import Entries
from drnmf.parameters.common import Parameters
from drnmf.problem.tabular import Tabular, tabular
from drnmf.runs.annotated import annotate
from drnmf.runs.quality import quality
from drnmf.selection.asked import Asked, SearchResult
from drnmf.selection.discover import search
from drnmf.selection.matching import Known, positions

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Discovery(Named):
    """What `drnmf.discover` found, with names on everything, as tables, as a model, as a page and as pictures.

    See Also
    --------
    drnmf.discovery.named.Named : names, tables, contributions of new rows.
    drnmf.selection.asked.SearchResult : components, contributions, stability and all the other attributes.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.gamma(0.3, 50, (60, 3)) @ rng.dirichlet(np.full(20, 0.2), 3) * 10)
    >>> found = discover(X, ranks=3, n_runs=4).named(["sea", "road", "soil"])
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

    def plot(self, what: str = "components", field: str | None = None) -> Figure:
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
    X: Any,
    model: Parameters | None = None,
    *,
    ranks: Iterable[int] | int | None = None,
    n_runs: int = 20,
    resample: str | None = "auto",
    heavy: str = "auto",
    threshold: float = 0.6,
    counts: bool | None = None,
    level: float | None = 0.9,
    reference: Any = None,
    keep: bool = False,
    entry_weight: Any = None,
    uncertainty: Any = None,
    groups: Iterable[object] | None = None,
) -> Discovery:
    """Find how many components X has, under which noise, and which of them come again in every run.

    Noise (`noise_profile`) and rank are found in turn until both stand. Ranks are judged by entries held out of a few
    runs (`rank_profile`): of those not clearly worse than the best the one whose components come again best is taken.
    The components are the consensus of `n_runs` runs at that rank.

    Parameters
    ----------
    X : array, sparse matrix, frame (pandas, polars, pyarrow), xarray.DataArray, AnnData, or a cube
        Nonnegative, of shape (m, n). Components are profiles over the columns; for profiles over the rows give X.T. A
        frame gives frames; of AnnData the layer "counts" is read where there is one, else X (another layer as
        ``data.to_df("name")``), and it gets ``obsm["X_drnmf"]``, ``varm["drnmf"]`` and ``uns["drnmf"]``; of a cube
        (rows x columns x bands) the pixels are rows.
    model : estimator, optional
        What every run fits; None is ``BetaNMF(beta="auto")``. "auto" takes the loss of the noise, with uncertainties
        2, whose weights they are; several losses are fitted as `DRNMF` does. Penalties hold in all runs and in the
        contributions; ``Sparsity("auto", on="W")`` makes contributions as sparse as held-out entries ask for, and the
        rank is then searched under it. Its `random_state` is the seed of everything (None is 0), its `max_time` is for
        all stages, its jobs are runs side by side. The folder `checkpoint` of its solver keeps finished
        runs, and the `callback` of its solver is called with a `Moment` after every run. Where it leaves them to the
        library, max_iter is 500 and tol 1e-5.
    ranks : iterable of int, or int
        What may be tried, at most min(m, n); None is 2 to 30, or 1 where the rows of X are multiples of one another. Of
        such X the smallest is taken.
    n_runs : int, at least 2
        Runs of the consensus. Nothing is called stable on the word of fewer than four.
    resample : {"auto", None, "poisson", "bootstrap", "uncertainty"}
        What each run sees; "auto" draws X again by its uncertainties where those are given ("uncertainty": X + U z, cut
        off at zero), counts with X as their mean ("poisson") where `counts` says that X holds counts, or X is whole
        numbers and its loss Kullback-Leibler or negative binomial, given or found, and rows of other data
        ("bootstrap"). What it became is in `resample` of the result; None is X itself, and then stability says nothing
        of the noise.
    heavy : {"auto", "keep", "cap"}
        "cap" scales rows down that weigh more than ten times the median row, while components are sought; their
        contributions are those of X. "auto" does so where held-out entries of X are then predicted better.
    threshold : float
        Stability that a component needs.
    counts : bool, optional
        Whether X holds counts, as in `rank_profile`; None lets the data say.
    level : float or None
        What the intervals of components and contributions are to cover; see `intervals`. None finds no intervals,
        which take some 850 short fits.
    reference : array or DataFrame of shape (s, n), or a mapping of names to profiles, optional
        Known components, which name ours from a similarity of 0.9 on (`match`). Of a frame labels are paired with the
        columns of X, whichever side they are on.
    keep : bool
        Keep those known components that some rows of X need (`assign`) as they are in every run, and find others beside
        them. Ranks count both; None is no new one to ten.
    entry_weight, uncertainty : as in `BetaNMF.fit`
    groups : iterable of m labels, optional
        The group of every row: kinds of samples, sites, instruments. Components that few rows hold are looked for in
        every group and over all, and kept where they were found twice or held-out entries of their group ask for them.

    Returns
    -------
    Discovery
        Components, stability, contributions, and what led to them.

    Raises
    ------
    ValueError
        For bad X or parameters, or a time limit too short for two runs.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.gamma(0.3, 50, (60, 3)) @ rng.dirichlet(np.full(20, 0.2), 3) * 10)
    >>> found = discover(X, ranks=range(2, 6), n_runs=5, level=None)
    >>> int(found.stable.sum())
    3
    """
    table = tabular(X)
    known = None if reference is None else _known(reference, table.columns)
    asked = Asked(
        ranks, n_runs, resample, heavy, threshold, counts, level, known, keep, entry_weight, uncertainty, groups
    )
    found = labelled(search(table.X, model, asked), asked, table.X, labels_of(table), Labels.of(table.columns))
    if table.kind == "anndata":
        annotate(X, found.contributions, found.components, found.names, facts_of(found))
    return found.framed() if table.kind == "frame" else found


def labelled(found: SearchResult, asked: Asked, X: Entries, rows: Labels | None, columns: Labels | None) -> Discovery:
    """Put labels on what a search found in X, and compare it with the uncertainties of X where there are some."""
    values = {entry.name: getattr(found, entry.name) for entry in fields(SearchResult)}
    names = tuple(component_labels(found.rank, found.matching))
    residuals = None
    if asked.uncertainty is not None:
        residuals = quality(X, found.contributions, found.components, asked.uncertainty)
    return Discovery(**values, names=names, rows=rows, columns=columns, threshold=asked.threshold, quality=residuals)


def labels_of(table: Tabular) -> Labels | None:
    """Label the rows: pixels of a picture by their place."""
    return Labels.of(table.rows) if table.image is None else Labels.of_pixels(table.image)


def _known(reference: Any, columns: Sequence[str] | None) -> Known:
    """Bring known components in a frame under the columns of X by label, whichever side they are on."""
    if columns is None or not hasattr(reference, "iloc"):
        return Known.of(reference)
    wanted = {spelt(name) for name in columns}
    if not wanted <= {spelt(str(name)) for name in reference.columns}:
        reference = reference.T
    order = positions([spelt(name) for name in columns], [spelt(str(name)) for name in reference.columns])
    return Known.of(reference.iloc[:, order])
