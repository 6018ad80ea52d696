"""What all figures share: style, colours, files. matplotlib is loaded on first use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COLOURS = {"IS": "#0072b2", "KL": "#d55e00", "Frobenius": "#009e73", "DR": "#111111", "ours": "#cc79a7"}
"""One colour per loss and per method throughout (Okabe and Ito: told apart also by the colour-blind)."""

_STYLE = {
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


def pyplot() -> Any:
    """matplotlib.pyplot on a backend without a window, or an error that says how to get it."""
    try:
        import matplotlib
    except ImportError:
        raise ImportError("Figures need matplotlib: pip install 'drnmf[plot]'.") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def log_axis(axis: Any) -> None:
    """A logarithmic axis with plain numbers (1, 10, 100), not powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    axis.set_major_locator(LogLocator(base=10.0, subs=(1.0, 2.0, 5.0), numticks=9))
    plain = ScalarFormatter()
    plain.set_scientific(False)
    axis.set_major_formatter(plain)
    axis.set_minor_formatter(NullFormatter())


def _shorten(path: Path) -> None:
    """Coordinates with two digits after the point: a hundredth of 1/72 inch, and half the file."""
    text = path.read_text(encoding="utf-8")
    short = re.sub(r"-?\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}", text)
    path.write_text(short, encoding="utf-8", newline="\n")


@contextmanager
def figure(out: Path, name: str, *args: Any, **kwargs: Any) -> Iterator[tuple[Any, Any]]:
    """(figure, axes) of `pyplot.subplots`; written as NAME.png and NAME.svg when the block ends."""
    plt = pyplot()
    with plt.rc_context(_STYLE):
        drawing, axes = plt.subplots(*args, **kwargs)
        try:
            yield drawing, axes
            drawing.savefig(out / f"{name}.png", dpi=110)
            drawing.set_layout_engine("none")  # the layout is settled: the second file has the same
            drawing.savefig(out / f"{name}.svg", metadata={"Date": None})
            _shorten(out / f"{name}.svg")
        finally:
            plt.close(drawing)
