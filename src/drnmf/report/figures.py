"""Figures (the `plot` extra): a Pareto front, and the excess of each method over the best of each loss."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drnmf.estimators.pareto import ParetoFront

HOW_TO_GET = "No figure: matplotlib is not installed. Get it with: pip install 'drnmf[plot]'"
COLOURS = ("#4477aa", "#ddaa33", "#bb5566", "#009988", "#aa4499", "#777777")
ROBUST = "#111111"


def try_to_draw(draw: Callable[[Any], Any], content: Any, folder: Path, stem: str) -> bool:
    """Draw `content` as stem.png and stem.svg in the folder; False where matplotlib is not installed."""
    try:
        figure = draw(content)
    except ImportError:
        return False
    figure.savefig(folder / f"{stem}.png", dpi=150)
    figure.savefig(folder / f"{stem}.svg")
    return True


def _figure(rows: int, columns: int, width: float, height: float) -> tuple[Any, Any]:
    """A figure that belongs to no window and no global state, and its axes as a flat list."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def draw_front(front: ParetoFront) -> Any:
    """Scaled losses against each other, one panel per pair of losses; the robust point is where they are equal."""
    pairs = list(combinations(range(len(front.betas)), 2))
    columns = min(len(pairs), 3)
    figure, axes = _figure(-(-len(pairs) // columns), columns, 4.4, 3.8)
    scaled, worse = front.scaled_losses, front.dominated
    for axis, (a, b) in zip(axes, pairs, strict=False):
        line = "o-" if len(front.betas) == 2 else "o"
        axis.plot(scaled[~worse, a], scaled[~worse, b], line, color=COLOURS[0], ms=5, lw=1, label="fixed weights")
        if worse.any():
            axis.plot(scaled[worse, a], scaled[worse, b], "o", mfc="white", color=COLOURS[0], ms=5, label="dominated")
        axis.plot(*front.dr.scaled_losses[[a, b]], "*", color=COLOURS[2], ms=15, label="DR-NMF", zorder=3)
        axis.axline((1, 1), slope=1, color="0.75", lw=1, ls="--", zorder=0)
        axis.set_xlabel(f"{front.omega[a].name} loss / its best")
        axis.set_ylabel(f"{front.omega[b].name} loss / its best")
        axis.margins(0.08)
    for axis in axes[len(pairs) :]:
        axis.set_visible(False)
    axes[0].legend(frameon=False)
    return figure


def draw_excess(rows: list[dict[str, Any]]) -> Any:
    """Bars of percent above the best, grouped by method; the dashed line is the worst of the last method."""
    figure, (axis,) = _figure(1, 1, 6.4, 3.2)
    losses = [name for name in rows[0] if name not in ("method", "worst")]
    width = 0.8 / len(losses)
    for j, loss in enumerate(losses):
        places = [i + (j - (len(losses) - 1) / 2) * width for i in range(len(rows))]
        axis.bar(places, [row[loss] for row in rows], 0.9 * width, color=COLOURS[j], label=f"{loss} loss")
    level = rows[-1]["worst"]
    axis.axhline(level, color=ROBUST, lw=1, ls="--")
    note = f"worst of {rows[-1]['method']}: {level:.2f} %"
    axis.text(len(rows) - 1, level, note, ha="center", va="bottom", fontsize="small")
    axis.set_xticks(range(len(rows)), [row["method"] for row in rows])
    axis.set_ylabel("percent above the best")
    axis.legend(frameon=False, ncols=len(losses), loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure
