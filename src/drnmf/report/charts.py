"""Charts as plotly figures in plain dictionaries. Colours are the page's CSS variables, resolved in the browser."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drnmf.algorithms import result
from drnmf.losses.base import Loss, Omega
from drnmf.losses.names import from_text
from drnmf.numerics import Array, Vector
from drnmf.report.words import short
from drnmf.runs import schema
from drnmf.runs.read import compared
from drnmf.runs.schema import column, loss_keys

Chart = dict[str, Any]
Trace = Chart
Layout = Chart
"""What plotly takes: a figure, one thing that is drawn in it, and how an axis or a mark looks."""
Values = ArrayLike | list[Any]
"""Numbers; lists are taken as they are: dates, and what is rounded already."""

POINTS = 1500
"""Rows of a trace that are drawn; longer ones are thinned."""
CELLS = 24000
"""Cells of an image; larger factors are pooled (the largest entry of each block is kept)."""

OTHERS = 8
"""Colours for losses that have none of their own (style.css)."""
TICKS, LABEL = 14, 16
"""Names under an image, and characters of a name."""

_LABELS = {"textposition": "outside", "cliponaxis": False, "constraintext": "none", "textfont": {"size": 11.5}}
_FIXED = {"IS-NMF": "var(--is)", "KL-NMF": "var(--kl)", "Fro-NMF": "var(--fro)", "DR-NMF": "var(--dr)"}
_LOSSES = {"0": "var(--is)", "1": "var(--kl)", "2": "var(--fro)"}


def loss_colour(loss: Loss, place: int) -> str:
    return _LOSSES.get(loss.key, f"var(--other-{place % OTHERS})")


def method_colour(name: str, place: int) -> str:
    return _FIXED.get(name, f"var(--other-{place % OTHERS})")


def numbers(values: ArrayLike, digits: int = 6) -> list[float | None]:
    """Round to significant digits, None where not finite: what JSON can hold."""
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in np.asarray(values, dtype=np.float64).ravel()]


def line(x: Values, y: Values, colour: str, name: str | None = None, width: float = 2) -> Trace:
    """Draw a line through numbers; lists are taken as they are: dates, and what is rounded already."""
    return _named(name) | {
        "type": "scatter",
        "mode": "lines",
        "x": x if isinstance(x, list) else numbers(x),
        "y": y if isinstance(y, list) else numbers(y),
        "line": {"color": colour, "width": width},
    }


def marks(x: Values, y: Values, marker: Layout, name: str | None = None) -> Trace:
    """Draw points, which are lines that are not drawn."""
    drawn = line(x, y, "") | {"mode": "markers", "marker": marker} | _named(name)
    del drawn["line"]
    return drawn


def bars(
    x: Iterable[object],
    y: Sequence[object],
    colour: str | list[str],
    hover: str | None = None,
    labels: Sequence[object] = (),
) -> Trace:
    """Draw bars; `hover` is shown over each, with its label as %{customdata}."""
    drawn: Trace = {"type": "bar", "x": list(x), "y": list(y), "marker": {"color": colour}}
    drawn |= {"customdata": list(labels)} if labels else {}
    return drawn | ({"hovertemplate": f"{hover}<extra></extra>"} if hover else {})


def heat(values: Vector, low: float = 0.0, high: float = 1.0) -> Trace:
    """Draw an image, from light to dark."""
    rows = [numbers(row, 3) for row in values]
    stops = [[place, f"var(--heat-{k})"] for k, place in enumerate((0.0, 0.45, 0.75, 1.0))]
    return {"type": "heatmap", "z": rows, "colorscale": stops, "zmin": low, "zmax": high}


def _named(name: str | None) -> Trace:
    return {} if name is None else {"name": name}


def chart(data: list[Trace], x: str, y: str, size: tuple[int, int] = (300, 270), legend: bool = False) -> Chart:
    """Put traces under the titles of two axes; `size` is the height on a screen and on a phone."""
    layout = {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}}, "showlegend": legend}
    return {"data": data, "layout": layout, "height": size[0], "phone": size[1]}


def comparison_bars(comparison: schema.Comparison) -> Chart:
    """Draw one group of bars per loss: how far each method is above the best error found."""
    methods = comparison["methods"]
    excess = np.array([[100.0 * (float(s) - 1.0) for s in m["scaled_losses"]] for m in methods])
    drawn = grouped_bars([f"{loss.name} error" for loss in compared(comparison)], [m["name"] for m in methods], excess)
    for trace, m in zip(drawn["data"], methods, strict=True):
        trace["customdata"] = numbers(m["losses"])
        trace["hovertemplate"] = "%{fullData.name}: %{text} above the best<br>loss %{customdata:.5g}<extra></extra>"
    return drawn


def grouped_bars(groups: list[str], names: list[str], excess: Vector) -> Chart:
    """Draw grouped bars of percentages, (names, groups); the last name is the robust one.

    Where the others tower over it the scale is a square root, which the axis says; a bar beyond all measure is
    truncated and hatched, and its label tells.
    """
    shown = np.maximum(np.nan_to_num(excess, nan=0.0, posinf=np.inf), 0.0)
    robust = max(float(shown[-1].max()), 1.0)
    limit = max(100.0, 30.0 * robust)
    truncated = shown > 2.0 * limit
    shown = np.where(truncated, 1.15 * max(limit, float(shown[~truncated].max(initial=0.0))), shown)
    top = max(float(shown.max()), 1e-3)
    rooted = top > 8.0 * robust
    heights = np.sqrt(shown) if rooted else shown
    axis: Layout = {"title": {"text": "above the best"}, "range": [0, float(heights.max()) * 1.13 or 1.0]}
    if rooted:
        ticks = _nice_ticks(float(shown[~truncated].max(initial=limit)))
        axis |= {"tickvals": [float(np.sqrt(t)) for t in ticks], "ticktext": [f"{t:g}%" for t in ticks]}
        axis["title"] = {"text": "above the best (√ scale)"}
    else:
        axis["ticksuffix"] = "%"
    data = []
    for i, name in enumerate(names):
        drawn = bars(groups, numbers(heights[i]), method_colour(name, i), "%{fullData.name}, %{x}: %{text}")
        drawn["marker"] |= {"pattern": {"shape": ["/" if c else "" for c in truncated[i]]}}
        data.append(drawn | {"name": name, "text": [_percent(v) for v in excess[i]], **_LABELS})
    layout = {"barmode": "group", "bargap": 0.28, "bargroupgap": 0.08, "yaxis": axis}
    layout["xaxis"] = {"showgrid": False, "tickangle": 0}
    lying = 110 + 17 * len(names) * len(groups)  # bars that lie have room for their labels, however many there are
    return {"data": data, "layout": layout, "height": 340, "phone": lying, "lying": lying, "bars": excess.size}


def _percent(value: float) -> str:
    if abs(value) < 0.05:
        return "0%"
    if not value < 10_000:
        return "over 10,000%"
    return f"{value:.1f}%" if abs(value) < 9.95 else f"{value:,.0f}%"


def _nice_ticks(top: float) -> list[float]:
    candidates = [m * 10.0**e for e in range(-2, 9) for m in (1, 2, 5)]
    kept: list[float] = [0.0]
    for tick in candidates:
        if tick <= 1.1 * top and np.sqrt(tick) - np.sqrt(kept[-1]) > np.sqrt(top) / 9:
            kept.append(tick)
    return kept


def _thin(trace: result.Trace) -> NDArray[np.intp]:
    """Choose the iterations that are drawn."""
    count = len(trace.seconds)
    return np.arange(count) if count <= POINTS else np.unique(np.linspace(0, count - 1, POINTS).astype(int))


def loss_curves(trace: result.Trace, omega: Omega, scaled: str) -> Chart:
    """Draw losses against iterations: one as it is, several over what `scaled` says, with their maximum."""
    x, single, data = _thin(trace), len(omega) == 1, list[Trace]()
    values = trace.losses if single else trace.scaled_losses
    if not single:
        data.append(line(x, np.nanmax(values, axis=1)[x], "var(--max)", "maximum", 5) | {"opacity": 0.25})
    data += [line(x, values[x, i], loss_colour(loss, i), loss.name) for i, loss in enumerate(omega)]
    drawn = _curves(data, f"{omega[0].name} error" if single else scaled)
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    drawn["layout"]["yaxis"]["type"] = "log" if 0 < low < high / 3 else "linear"
    drawn["log_ticks"] = _log_ticks(max(low, 1e-9), high)
    return drawn


def _log_ticks(low: float, high: float) -> list[float]:
    """Choose round numbers for a logarithmic axis, the roundest first, none too close to another."""
    room = max(np.log10(high / low), 1e-3) / 8
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    kept: list[float] = []
    for step in (1, 2, 5, 3, 1.5, 7, 1.2, 1.1, 1.05, 1.02, 1.01):
        for tick in (float(f"{step * 10.0**decade:.6g}") for decade in decades):
            if 0.97 * low <= tick <= high and all(abs(np.log10(tick / other)) >= room for other in kept):
                kept.append(tick)
    return sorted(kept)


def coverage_curve(rows: list[dict[str, str]], bound: float) -> Chart:
    """Draw coverage.csv: percent above the best along the interval, the betas that were fitted, and the bound."""
    betas = np.array([float(row["beta"]) for row in rows])
    excess = np.array([100.0 * (float(row["scaled_loss"]) - 1.0) for row in rows])
    fitted = np.array([row["knot"] == "True" for row in rows])
    level = 100.0 * (bound - 1.0)
    hover = {"hovertemplate": "beta %{x:.3g}: %{y:.3g}% above the best<extra></extra>"}
    bounded = line(betas[[0, -1]], np.array([level, level]), "var(--max)", "bound", 1.5)
    bounded["line"] |= {"dash": "dash"}
    bounded["hovertemplate"] = f"no beta is more than {level:.3g}% above its best found<extra></extra>"
    data = [
        line(betas, excess, "var(--dr)", "DR-NMF", 2.5) | hover,
        marks(betas[fitted], excess[fitted], {"color": "var(--dr)", "size": 9}, "fitted") | hover,
        bounded,
    ]
    drawn = chart(data, "beta", "above the best", (340, 300), legend=True)
    drawn["layout"]["yaxis"] |= {"ticksuffix": "%", "rangemode": "tozero"}
    return drawn


def weight_curves(trace: result.Trace, omega: Omega) -> Chart:
    """Draw the weights lambda against iterations."""
    x, losses = _thin(trace), enumerate(omega)
    drawn = _curves([line(x, trace.weights[x, i], loss_colour(loss, i), loss.name) for i, loss in losses], "weight")
    drawn["layout"]["yaxis"] |= {"range": [-0.03, 1.03]}
    return drawn


def penalty_curve(trace: result.Trace) -> Chart:
    """Draw the sum of the penalties against iterations."""
    x = _thin(trace)
    return _curves([line(x, trace.penalty[x], "var(--accent)", "penalty")], "penalty", legend=False)


def gap_curve(trace: result.Trace) -> Chart:
    """Draw the gap max Dbar - lambda'Dbar against iterations."""
    x, y = _thin(trace), np.where(trace.gap > 0, trace.gap, np.nan)
    drawn = _curves([line(x, y[x], "var(--accent)", "gap")], "gap", legend=False)
    seen = y[np.isfinite(y)]
    decades = float(np.log10(seen.max() / seen.min())) if seen.size else 1.0
    drawn["layout"]["yaxis"] |= {"type": "log", "exponentformat": "power", "dtick": max(1, round(decades / 5))}
    return drawn


def _curves(data: list[Trace], title: str, legend: bool = True) -> Chart:
    drawn = chart(data, "iteration", title, (330, 290), legend)
    drawn["layout"]["hovermode"] = "x unified"
    return drawn


def pool(matrix: Array, cells: int = CELLS) -> tuple[Vector, int, int]:
    """Pool a matrix to at most `cells` entries: the maximum of each block, and height and width of a block."""
    m, n = matrix.shape
    high = wide = 1
    while -(-m // high) * -(-n // wide) > cells:
        if -(-m // high) >= -(-n // wide):
            high += 1
        else:
            wide += 1
    small = np.asarray(matrix, dtype=np.float64)
    small = np.maximum.reduceat(small, np.arange(0, m, high), axis=0)
    return np.maximum.reduceat(small, np.arange(0, n, wide), axis=1), high, wide


def factor_image(factor: Array, decibels: bool, axis: Vector | Sequence[str] | None, title: str) -> Chart:
    """Draw a factor with one row per component as an image; every row is relative to its largest entry.

    axis : numbers or names of the columns; None counts them
    """
    small, _, wide = pool(factor, CELLS)
    rank = factor.shape[0]
    if small.shape[0] != rank:  # too many components to pool along: show the first ones
        small, _, wide = pool(factor[: min(rank, 60)], CELLS)
    peak = np.maximum(small.max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    z = small / peak
    if decibels:
        z = np.maximum(20.0 * np.log10(np.maximum(z, 1e-3)), -60.0)
    x, ticks = _image_axis(factor.shape[1] if axis is None else axis, wide)
    unit = "dB" if decibels else "of its largest"
    image = heat(z, -60 if decibels else 0, 0 if decibels else 1) | {"x": x, "y0": 1}
    image["hovertemplate"] = f"component %{{y}}<br>{title} %{{x}}<br>%{{z}} {unit}<extra></extra>"
    image["colorbar"] = {"thickness": 9, "len": 0.9, "outlinewidth": 0, "ticksuffix": " dB" if decibels else ""}
    height = int(min(420, 130 + 26 * small.shape[0])) + (70 if ticks else 0)
    drawn = chart([image], title, "component", (height, height))
    drawn["layout"]["xaxis"] |= {"showgrid": False, **ticks}
    drawn["layout"]["yaxis"] |= {"showgrid": False, "autorange": "reversed", "dtick": max(1, rank // 10)}
    return drawn


def _image_axis(axis: int | Vector | Sequence[str], wide: int) -> tuple[Sequence[object], Layout]:
    """Place the columns of an image that pools `wide` of them: coordinates, and how they are labelled."""
    if isinstance(axis, int):
        return numbers(np.arange(axis, dtype=np.float64)[::wide], 5), {}
    if isinstance(axis, np.ndarray):
        return numbers(axis[::wide], 5), {}
    names = [str(name) for name in axis]
    blocks = [names[start : start + wide] for start in range(0, len(names), wide)]
    # Coordinates must differ where names do not: zero-width spaces behind a name that was there before.
    seen: dict[str, int] = {}
    places = []
    for block in blocks:
        label = block[0] if len(block) == 1 else f"{block[0]} … {block[-1]}"
        seen[label] = seen.get(label, -1) + 1
        places.append(label + "\u200b" * seen[label])
    step = -(-len(places) // TICKS)
    cut = [short(block[0], LABEL) for block in blocks[::step]]
    return places, {"type": "category", "tickvals": places[::step], "ticktext": cut, "tickangle": -45}


def front_chart(rows: list[dict[str, str]], a: str, b: str) -> Chart:
    """Draw front.csv in the plane of two losses (by their keys there): scaled errors and the DR point."""
    names = [from_text(key).name for key in (a, b)]
    kinds = [
        ("front", [r for r in rows if r["kind"] == "front" and r.get("dominated") != "True"]),
        ("dominated", [r for r in rows if r["kind"] == "front" and r.get("dominated") == "True"]),
        ("DR-NMF", [r for r in rows if r["kind"] == "dr"]),
    ]
    markers = {
        "front": {"color": "var(--kl)", "size": 9},
        "dominated": {"color": "var(--card)", "size": 8, "line": {"color": "var(--kl)", "width": 1.5}},
        "DR-NMF": {"color": "var(--dr)", "size": 16, "symbol": "star"},
    }
    joined = len(loss_keys(rows[0])) == 2
    data = []
    for name, points in kinds:
        if points:
            x, y = (np.array([float(p[column("scaled_loss", key)]) for p in points]) for key in (a, b))
            order = np.argsort(x)
            drawn = marks(x[order], y[order], markers[name], name) | {"line": {"color": "var(--kl)", "width": 1}}
            drawn["mode"] = "lines+markers" if joined and name == "front" else "markers"
            drawn["text"] = [f"weight {float(points[i][column('weight', a)]):.2g}" for i in order]
            shown = f"{names[0]} %{{x:.4g}}<br>{names[1]} %{{y:.4g}}<br>{names[0]} %{{text}}<extra>{name}</extra>"
            data.append(drawn | {"hovertemplate": shown})
    whole = chart(data, f"{names[0]} error / best", f"{names[1]} error / best", (400, 330), legend=True)
    for axis, key in (("xaxis", a), ("yaxis", b)):
        whole["layout"][axis] |= _error_scale(rows, key)
    return whole


def _error_scale(rows: list[dict[str, str]], key: str) -> Layout:
    """Choose a logarithmic axis for errors of very different size: on another all but the largest would be one."""
    errors = [float(row[column("scaled_loss", key)]) for row in rows]
    low, high = min(errors), max(errors)
    if not 0 < low < high / 20:
        return {}
    step = max(1, round(float(np.log10(high / low)) / 5))
    return {"type": "log", "exponentformat": "power", "dtick": step}
