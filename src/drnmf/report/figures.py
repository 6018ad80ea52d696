"""Figures of the commands and of the paper: style, colours, files (the `plot` extra, loaded on first use)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drnmf.estimators.pareto import ParetoFront

HOW_TO_GET = "No figure: matplotlib is not installed. Get it with: pip install 'drnmf[plot]'"

COLOURS = {"IS": "#0072b2", "KL": "#d55e00", "Frobenius": "#009e73", "DR": "#111111", "ours": "#cc79a7"}
"""One colour per loss and per method throughout (Okabe and Ito: told apart also by the colour-blind)."""

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "drnmf",
    "path.simplify_threshold": 1.0,
    "figure.constrained_layout.use": True,
}


def check_matplotlib() -> None:
    """Refuse, before any work is done, to draw without matplotlib."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise ImportError(HOW_TO_GET) from None


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
) -> Iterator[Any]:
    """Give the axes (rows, columns) of a figure; it is written as STEM.png and STEM.svg when the block ends.

    The figure belongs to no window and to no global state.
    """
    check_matplotlib()
    import matplotlib

    with matplotlib.rc_context(STYLE):
        drawing = matplotlib.figure.Figure(figsize=size)
        yield drawing.subplots(rows, columns, sharex=sharex, sharey=sharey, squeeze=False)
        drawing.savefig(folder / f"{stem}.png", dpi=dpi)
        drawing.set_layout_engine("none")  # the layout is settled: the second file has the same
        drawing.savefig(folder / f"{stem}.svg", metadata={"Date": None})
        _shorten(folder / f"{stem}.svg")


def _shorten(path: Path) -> None:
    """Write coordinates with two digits after the point: a hundredth of 1/72 inch, and half the file."""
    text = path.read_text(encoding="utf-8")
    short = re.sub(r"-?\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}", text)
    path.write_text(short, encoding="utf-8", newline="\n")


def log_axis(axis: Any) -> None:
    """Label a logarithmic axis with plain numbers (1, 10, 100), not powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    axis.set_major_locator(LogLocator(base=10.0, subs=(1.0, 2.0, 5.0), numticks=9))
    plain = ScalarFormatter()
    plain.set_scientific(False)
    axis.set_major_formatter(plain)
    axis.set_minor_formatter(NullFormatter())


def try_to_draw(draw: Callable[[Any, Path, str], None], content: Any, folder: Path, stem: str) -> bool:
    """Draw `content` as STEM.png and STEM.svg in the folder; False where matplotlib is not installed."""
    try:
        draw(content, folder, stem)
    except ImportError:
        return False
    return True


def draw_front(front: ParetoFront, folder: Path, stem: str) -> None:
    """Draw scaled losses against each other, a panel per pair of losses; the robust point is where they are equal."""
    pairs = list(combinations(range(len(front.betas)), 2))
    columns = min(len(pairs), 3)
    rows = -(-len(pairs) // columns)
    scaled, worse = front.scaled_losses, front.dominated
    with figure(folder, stem, rows, columns, size=(4.4 * columns, 3.8 * rows), dpi=150) as axes:
        for axis, (a, b) in zip(axes.flat, pairs, strict=False):
            line, colour = "o-" if len(front.betas) == 2 else "o", COLOURS["IS"]
            axis.plot(scaled[~worse, a], scaled[~worse, b], line, color=colour, ms=5, lw=1, label="fixed weights")
            if worse.any():
                axis.plot(scaled[worse, a], scaled[worse, b], "o", mfc="white", color=colour, ms=5, label="dominated")
            axis.plot(*front.dr.scaled_losses[[a, b]], "*", color=COLOURS["DR"], ms=15, label="DR-NMF", zorder=3)
            axis.axline((1, 1), slope=1, color="0.75", lw=1, ls="--", zorder=0)
            axis.set_xlabel(f"{front.omega[a].name} loss / the best found")
            axis.set_ylabel(f"{front.omega[b].name} loss / the best found")
            axis.margins(0.08)
        for axis in axes.flat[len(pairs) :]:
            axis.set_visible(False)
        axes.flat[0].legend()
