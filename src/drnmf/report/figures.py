"""Figures of the paper and of `plot` methods: style, colours, files (the `plot` extra, loaded on first use)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drnmf.loading import needs

if TYPE_CHECKING:
    from matplotlib.axis import Axis

COLOURS = {"IS": "#0072b2", "KL": "#d55e00", "Frobenius": "#009e73", "DR": "#111111", "ours": "#cc79a7"}
"""One colour per loss and per method throughout (Okabe and Ito: told apart also by the colour-blind)."""

STYLE: dict[Any, object] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "path.simplify_threshold": 1.0,
    "figure.constrained_layout.use": True,
}


def matplotlib() -> ModuleType:
    """Import matplotlib, or say how to get it."""
    needs("matplotlib.figure", "plot", "for figures")
    return needs("matplotlib", "plot", "for figures")


@contextmanager
def figure(
    folder: Path,
    stem: str,
    rows: int = 1,
    columns: int = 1,
    *,
    size: tuple[float, float],
    sharex: bool = False,
    sharey: bool = False,
    dpi: int = 110,
) -> Iterator[NDArray[np.object_]]:
    """Give the axes (rows, columns) of a figure; it is written as STEM.png when the block ends.

    The figure belongs to no window and to no global state.
    """
    package = matplotlib()
    with package.rc_context(STYLE):
        drawing = package.figure.Figure(figsize=size)
        yield drawing.subplots(rows, columns, sharex=sharex, sharey=sharey, squeeze=False)
        drawing.savefig(folder / f"{stem}.png", dpi=dpi)


def log_axis(axis: Axis) -> None:
    """Label a logarithmic axis with plain numbers (1, 10, 100), not powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    axis.set_major_locator(LogLocator(base=10.0, subs=(1.0, 2.0, 5.0), numticks=9))
    plain = ScalarFormatter()
    plain.set_scientific(False)
    axis.set_major_formatter(plain)
    axis.set_minor_formatter(NullFormatter())
