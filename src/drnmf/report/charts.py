"""Charts as plotly figures in plain dictionaries. Colours are the page's CSS variables, resolved in the browser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from drnmf.losses.base import Loss
from drnmf.losses.names import from_text
from drnmf.numerics import Array, Vector
from drnmf.runs import schema
from drnmf.runs.read import Trace, compared
from drnmf.runs.schema import column, loss_keys

Chart = dict[str, Any]

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


def numbers(values: Any, digits: int = 6) -> list[float | None]:
    """Round to significant digits, None where not finite: what JSON can hold."""
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in np.asarray(values, dtype=np.float64).ravel()]


def comparison_bars(comparison: schema.Comparison) -> Chart:
    """Draw one group of bars per loss: how far each method is above the best error found."""
    methods = comparison["methods"]
    excess = np.array([[100.0 * (float(s) - 1.0) for s in m["scaled_losses"]] for m in methods])
    chart = grouped_bars([f"{loss.name} error" for loss in compared(comparison)], [m["name"] for m in methods], excess)
    for trace, m in zip(chart["data"], methods, strict=True):
        trace["customdata"] = numbers(m["losses"])
        trace["hovertemplate"] = "%{fullData.name}: %{text} above the best<br>loss %{customdata:.5g}<extra></extra>"
    return chart


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
    axis: dict[str, Any] = {"title": {"text": "above the best"}, "range": [0, float(heights.max()) * 1.13 or 1.0]}
    if rooted:
        ticks = _nice_ticks(float(shown[~truncated].max(initial=limit)))
        axis |= {"tickvals": [float(np.sqrt(t)) for t in ticks], "ticktext": [f"{t:g}%" for t in ticks]}
        axis["title"] = {"text": "above the best (√ scale)"}
    else:
        axis["ticksuffix"] = "%"
    data = [
        {
            "type": "bar", "name": name, "x": groups, "y": numbers(heights[i]),
            "text": [_percent(v) for v in excess[i]],
            "marker": {"color": method_colour(name, i), "pattern": {"shape": ["/" if c else "" for c in truncated[i]]}},
            "hovertemplate": "%{fullData.name}, %{x}: %{text}<extra></extra>", **_LABELS,
        }
        for i, name in enumerate(names)
    ]  # fmt: skip
    layout = {
        "barmode": "group", "bargap": 0.28, "bargroupgap": 0.08, "xaxis": {"showgrid": False, "tickangle": 0},
        "yaxis": axis,
    }  # fmt: skip
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


def _thin(trace: Trace) -> Any:
    count = len(trace.iterations)
    return slice(None) if count <= POINTS else np.unique(np.linspace(0, count - 1, POINTS).astype(int))


def loss_curves(trace: Trace) -> Chart:
    """Draw losses against iterations: one as it is, several over the best of each, with their maximum."""
    rows, single = _thin(trace), len(trace.omega) == 1
    values = trace.losses if single else trace.scaled
    x = numbers(trace.iterations[rows])
    data: list[dict[str, Any]] = []
    if not single:
        data.append(
            {
                "type": "scatter", "mode": "lines", "name": "maximum", "x": x,
                "y": numbers(np.nanmax(trace.scaled, axis=1)[rows]), "opacity": 0.25,
                "line": {"color": "var(--max)", "width": 5},
            }
        )  # fmt: skip
    for i, loss in enumerate(trace.omega):
        data.append(
            {
                "type": "scatter", "mode": "lines", "name": loss.name, "x": x,
                "y": numbers(values[rows, i]), "line": {"color": loss_colour(loss, i), "width": 2},
            }
        )  # fmt: skip
    chart = _curves(data, f"{trace.omega[0].name} error" if single else "error / best error")
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    chart["layout"]["yaxis"]["type"] = "log" if 0 < low < high / 3 else "linear"
    chart["log_ticks"] = _log_ticks(max(low, 1e-9), high)
    return chart


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
    hover = "beta %{x:.3g}: %{y:.3g}% above the best<extra></extra>"
    data = [
        {
            "type": "scatter", "mode": "lines", "name": "DR-NMF", "x": numbers(betas), "y": numbers(excess),
            "line": {"color": "var(--dr)", "width": 2.5}, "hovertemplate": hover,
        },
        {
            "type": "scatter", "mode": "markers", "name": "fitted", "x": numbers(betas[fitted]),
            "y": numbers(excess[fitted]), "marker": {"color": "var(--dr)", "size": 9}, "hovertemplate": hover,
        },
        {
            "type": "scatter", "mode": "lines", "name": "bound", "x": numbers(betas[[0, -1]]),
            "y": numbers([level, level]), "line": {"color": "var(--max)", "width": 1.5, "dash": "dash"},
            "hovertemplate": f"no beta is more than {level:.3g}% above its best found<extra></extra>",
        },
    ]  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": "beta"}},
        "yaxis": {"title": {"text": "above the best"}, "ticksuffix": "%", "rangemode": "tozero"},
        "showlegend": True,
    }
    return {"data": data, "layout": layout, "height": 340, "phone": 300}


def weight_curves(trace: Trace) -> Chart:
    """Draw the weights lambda against iterations."""
    rows = _thin(trace)
    x = numbers(trace.iterations[rows])
    data = [
        {
            "type": "scatter", "mode": "lines", "name": loss.name, "x": x, "y": numbers(trace.weights[rows, i]),
            "line": {"color": loss_colour(loss, i), "width": 2},
        }
        for i, loss in enumerate(trace.omega)
    ]  # fmt: skip
    chart = _curves(data, "weight")
    chart["layout"]["yaxis"] |= {"range": [-0.03, 1.03]}
    return chart


def penalty_curve(trace: Trace, penalty: Vector) -> Chart:
    """Draw the sum of the penalties against iterations."""
    rows = _thin(trace)
    line = {
        "type": "scatter", "mode": "lines", "name": "penalty", "x": numbers(trace.iterations[rows]),
        "y": numbers(penalty[rows]), "line": {"color": "var(--accent)", "width": 2},
    }  # fmt: skip
    chart = _curves([line], "penalty")
    chart["layout"]["showlegend"] = False
    return chart


def gap_curve(trace: Trace) -> Chart:
    """Draw the gap max Dbar - lambda'Dbar against iterations."""
    rows = _thin(trace)
    y = np.where(trace.gap > 0, trace.gap, np.nan)
    line = {
        "type": "scatter", "mode": "lines", "name": "gap", "x": numbers(trace.iterations[rows]),
        "y": numbers(y[rows]), "line": {"color": "var(--accent)", "width": 2},
    }  # fmt: skip
    chart = _curves([line], "gap")
    seen = y[np.isfinite(y)]
    decades = float(np.log10(seen.max() / seen.min())) if seen.size else 1.0
    chart["layout"]["yaxis"] |= {"type": "log", "exponentformat": "power", "dtick": max(1, round(decades / 5))}
    chart["layout"]["showlegend"] = False
    return chart


def _curves(data: list[dict[str, Any]], title: str) -> Chart:
    layout = {
        "xaxis": {"title": {"text": "iteration"}}, "yaxis": {"title": {"text": title}}, "hovermode": "x unified",
        "showlegend": True,
    }  # fmt: skip
    return {"data": data, "layout": layout, "height": 330, "phone": 290}


HEAT = [[0.0, "var(--heat-0)"], [0.45, "var(--heat-1)"], [0.75, "var(--heat-2)"], [1.0, "var(--heat-3)"]]
"""Colours of pictures, from nothing to the largest."""


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
    heat = {
        "type": "heatmap", "x": x, "y0": 1, "z": [numbers(row, 3) for row in z], "colorscale": HEAT,
        "zmin": -60 if decibels else 0, "zmax": 0 if decibels else 1,
        "hovertemplate": f"component %{{y}}<br>{title} %{{x}}<br>%{{z}} {unit}<extra></extra>",
        "colorbar": {"thickness": 9, "len": 0.9, "outlinewidth": 0, "ticksuffix": " dB" if decibels else ""},
    }  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": title}, "showgrid": False, **ticks},
        "yaxis": {
            "title": {"text": "component"},
            "showgrid": False,
            "autorange": "reversed",
            "dtick": max(1, rank // 10),
        },
    }
    height = int(min(420, 130 + 26 * small.shape[0])) + (70 if ticks else 0)
    return {"data": [heat], "layout": layout, "height": height, "phone": height}


def _image_axis(axis: int | Vector | Sequence[str], wide: int) -> tuple[list[Any], dict[str, Any]]:
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
    short = [name if len(name) <= LABEL else name[: LABEL - 1] + "…" for name in (block[0] for block in blocks[::step])]
    return places, {"type": "category", "tickvals": places[::step], "ticktext": short, "tickangle": -45}


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
    line = len(loss_keys(rows[0])) == 2
    data = []
    for name, points in kinds:
        if points:
            x, y = ([float(p[column("scaled_loss", key)]) for p in points] for key in (a, b))
            order = np.argsort(x)
            data.append(
                {
                    "type": "scatter", "mode": "lines+markers" if line and name == "front" else "markers",
                    "name": name, "x": numbers(np.array(x)[order]), "y": numbers(np.array(y)[order]),
                    "line": {"color": "var(--kl)", "width": 1}, "marker": markers[name],
                    "text": [f"weight {float(points[i][column('weight', a)]):.2g}" for i in order],
                    "hovertemplate": f"{names[0]} %{{x:.4g}}<br>{names[1]} %{{y:.4g}}<br>{names[0]} %{{text}}"
                    f"<extra>{name}</extra>",
                }
            )  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": f"{names[0]} error / best"}, **_error_scale(rows, a)},
        "yaxis": {"title": {"text": f"{names[1]} error / best"}, **_error_scale(rows, b)},
        "showlegend": True,
    }
    return {"data": data, "layout": layout, "height": 400, "phone": 330}


def _error_scale(rows: list[dict[str, str]], key: str) -> dict[str, Any]:
    """Choose a logarithmic axis for errors of very different size: on another all but the largest would be one."""
    errors = [float(row[column("scaled_loss", key)]) for row in rows]
    low, high = min(errors), max(errors)
    if not 0 < low < high / 20:
        return {}
    step = max(1, round(float(np.log10(high / low)) / 5))
    return {"type": "log", "exponentformat": "power", "dtick": step}
