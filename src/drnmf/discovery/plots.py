"""Pictures of a discovery as its field draws them, with matplotlib."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from drnmf.discovery.named import Named
from drnmf.matrices.mutations import SUBSTITUTIONS, substitution
from drnmf.report import figures
from drnmf.report.pictures import STACKED, mutation_order
from drnmf.report.profiles import DRAWN, FIELDS, axis_of, dates_of, field_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Places = NDArray[np.intp]
WHAT = ("components", "contributions", "maps")
BASES = dict(zip(SUBSTITUTIONS, ("#02bdee", "#111111", "#e42a27", "#b8b4b5", "#a2cf63", "#ecb0ae"), strict=True))
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
    figures.check_matplotlib()
    import matplotlib

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
    figures.check_matplotlib()
    import matplotlib

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
