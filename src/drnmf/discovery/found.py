"""`drnmf.discover`: X with its labels in, a discovery with names on everything out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drnmf.discovery.folder import write_report_folder
from drnmf.discovery.named import Named, Weights, component_labels, facts_of
from drnmf.matrices.matrix import Labels, spelt, substitution
from drnmf.numerics import Entries, XLike
from drnmf.parameters.common import Parameters
from drnmf.problem.tabular import Tabular, tabular
from drnmf.report import figures
from drnmf.report.pictures import BASES as SHADES
from drnmf.report.pictures import STACKED, mutation_order
from drnmf.report.profiles import DRAWN, axis_of, dates_of, field_of
from drnmf.runs.quality import quality
from drnmf.runs.schema import FIELDS
from drnmf.runs.write import annotate
from drnmf.selection.asked import Asked, SearchResult
from drnmf.selection.discover import search
from drnmf.selection.matching import Known, positions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Places = NDArray[np.intp]
WHAT = ("components", "contributions", "maps")
BASES = SHADES | {"C>G": "#111111"}  # ink, which follows the theme of a page
_LISTED = 15
"""Genes that are listed of a long profile."""


def draw(discovery: Named, what: str = "components", field: str | None = None) -> Figure:
    """Draw the stable components of a discovery, their contributions, or maps of these."""
    if what not in WHAT or (field is not None and field not in FIELDS):
        raise ValueError(f"what={what!r}, field={field!r}: draw one of {', '.join(WHAT)}, as {', '.join(FIELDS)}.")
    image = None if discovery.rows is None else discovery.rows.image
    chosen = field or field_of(discovery.column_names if discovery.columns else None, discovery.row_names, image)
    shown = np.flatnonzero(discovery.stable)
    shown = shown if shown.size else np.arange(discovery.rank)
    if what == "maps":
        if image is None:
            raise ValueError("rows of X are no pixels: give discover a cube of rows x columns x bands.")
        return _panels(discovery, shown, _map, 3, (3.0, 3.0))
    if what == "contributions":
        if chosen == "air" and dates_of(discovery.row_names) is not None:
            return _panels(discovery, shown, _over_dates, 1, (9.0, 1.5))
        return _stacked(discovery, shown)
    axis, size = {
        "signatures": (_signature, (9.0, 1.5)),
        "air": (_species, (9.0, 2.2)),
        "spectra": (_spectrum, (7.0, 1.8)),
    }.get(chosen, (_top if len(discovery.column_names) > DRAWN or chosen == "cells" else _bars, (7.0, 2.2)))
    return _panels(discovery, shown, axis, 1, size)


def _panels(
    discovery: Named, shown: Places, axis: Callable[[Axes, Named, int], None], columns: int, size: tuple[float, float]
) -> Figure:
    """Draw one panel for every component."""
    matplotlib = figures.matplotlib()
    columns = min(columns, len(shown))
    rows = -(-len(shown) // columns)
    with matplotlib.rc_context(figures.STYLE):
        drawing = matplotlib.figure.Figure(figsize=(size[0] * columns, size[1] * rows))
        axes = drawing.subplots(rows, columns, squeeze=False).ravel()
        for one, k in zip(axes, shown, strict=False):
            axis(one, discovery, int(k))
            one.set_title(discovery.names[k], loc="left")
        for one in axes[len(shown) :]:
            one.set_visible(False)
    return drawing


def _signature(axis: Axes, discovery: Named, k: int) -> None:
    labels = discovery.column_names
    order = mutation_order(labels)
    kinds = [substitution(labels[j]) or "C>A" for j in order]
    axis.bar(range(len(order)), np.asarray(discovery.components)[k][order], color=[BASES[kind] for kind in kinds])
    places = {
        kind: float(np.mean([i for i, other in enumerate(kinds) if other == kind])) for kind in dict.fromkeys(kinds)
    }
    axis.set_xticks(list(places.values()), list(places))
    axis.grid(visible=False)


def _species(axis: Axes, discovery: Named, k: int) -> None:
    parts, H = np.asarray(discovery.contributions), np.asarray(discovery.components)
    amounts = parts.mean(axis=0)[:, None] * H
    share = amounts[k] / np.maximum(amounts.sum(axis=0), np.finfo(np.float64).tiny)
    places = range(H.shape[1])
    axis.bar(places, np.maximum(amounts[k], 1e-5 * amounts[k].max()), color="#8fb8dd")
    axis.set_yscale("log")
    axis.set_xticks(places, discovery.column_names, rotation=90, fontsize=6)
    other = axis.twinx()
    other.plot(places, 100 * share, "o", color="#111111", ms=3)
    other.set_ylim(0, 105)
    other.set_ylabel("% of species")
    other.grid(visible=False)


def _spectrum(axis: Axes, discovery: Named, k: int) -> None:
    named = axis_of(discovery.column_names)
    x = np.arange(1, np.asarray(discovery.components).shape[1] + 1) if named is None else named
    if discovery.intervals is not None:
        axis.fill_between(
            x, discovery.intervals.components.lower[k], discovery.intervals.components.upper[k], color="0.85"
        )
    axis.plot(x, np.asarray(discovery.components)[k], color=figures.COLOURS["IS"], lw=1.5)


def _bars(axis: Axes, discovery: Named, k: int) -> None:
    labels, y = discovery.column_names, np.asarray(discovery.components)[k]
    bars = None if discovery.intervals is None else discovery.intervals.components
    ends = None if bars is None else np.maximum([y - bars.lower[k], bars.upper[k] - y], 0.0)
    axis.bar(range(len(y)), y, yerr=ends, color=figures.COLOURS["IS"], ecolor="0.4", error_kw={"lw": 0.8})
    step = max(1, -(-len(labels) // 24))
    axis.set_xticks(range(0, len(labels), step), labels[::step], rotation=90, fontsize=6)


def _top(axis: Axes, discovery: Named, k: int) -> None:
    y = np.asarray(discovery.components)[k]
    order = np.argsort(-y)[:_LISTED]
    axis.bar(range(len(order)), y[order], color=figures.COLOURS["IS"])
    axis.set_xticks(range(len(order)), [discovery.column_names[j] for j in order], rotation=60, fontsize=7)


def _over_dates(axis: Axes, discovery: Named, k: int) -> None:
    dates = np.array(dates_of(discovery.row_names), dtype="datetime64[s]")
    axis.plot(dates, np.asarray(discovery.contributions)[:, k], color=figures.COLOURS["IS"], lw=0.8)
    axis.set_ylim(bottom=0)


def _map(axis: Axes, discovery: Named, k: int) -> None:
    assert discovery.rows is not None
    assert discovery.rows.image is not None
    parts = np.asarray(discovery.contributions)
    share = parts[:, k] / np.maximum(parts.sum(axis=1), np.finfo(np.float64).tiny)
    axis.imshow(share.reshape(discovery.rows.image), vmin=0, vmax=1, cmap="viridis")
    axis.set_axis_off()


def _stacked(discovery: Named, shown: Places) -> Figure:
    """Draw contributions stacked by sample, the largest samples first."""
    matplotlib = figures.matplotlib()
    parts = np.asarray(discovery.contributions, dtype=np.float64)
    order = np.argsort(-parts.sum(axis=1), kind="stable")[:STACKED]
    with matplotlib.rc_context(figures.STYLE):
        drawing = matplotlib.figure.Figure(figsize=(9.0, 3.5))
        axis, below = drawing.subplots(), np.zeros(len(order))
        colours = matplotlib.colormaps["tab20"]
        for place, k in enumerate(shown):
            axis.bar(
                range(len(order)),
                parts[order, k],
                bottom=below,
                label=discovery.names[k],
                color=colours(place % 20),
                width=0.95,
            )
            below += parts[order, k]
        axis.set_xlabel(f"sample, largest first ({len(order)} of {len(parts)})")
        axis.legend(ncols=4, fontsize=7)
    return drawing


@dataclass(frozen=True, repr=False)
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
    X: XLike,
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
    entry_weight: Weights = None,
    uncertainty: Weights = None,
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
